//! A worker: receives tasks and runs attempts; when there are none, looks at the rows and does the
//! next thing that brings the job on. All workers are alike, and any of them may end at any moment.
//!
//! ```text
//!  receive ── a task ──▶ attempt
//!     └─ none ──▶ rows: all have winners ──▶ next phase, or publishing
//!                       else ──▶ tasks that stand still are sent again
//! ```

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use fader_cloud::{Error, ErrorKind, MESSAGES_MAX, Receive, Result};
use futures_util::future::{Either, select};
use futures_util::stream::{FuturesUnordered, StreamExt};

use crate::attempt::{Ended, attempt};
use crate::compute::Compute;
use crate::failure::{Failure, Outcome, shortened};
use crate::guard::Guard;
use crate::input::Inputs;
use crate::job::{Output, Register, Standing, State};
use crate::mutant;
use crate::publish::{TRIES_MAX, publish, winners};
use crate::reconcile::Watch;
use crate::rows::{Order, Phase, Row, Rows, Task, one};
use crate::store::is_passing;
use crate::user::Library;
use crate::view::Job;

/// The first pause of a worker that found nothing to do; it doubles.
const PAUSE: Duration = Duration::from_millis(20);
/// The longest.
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// A worker looks at the rows again after so much for each.
const LOOK: Duration = Duration::from_millis(1);

/// What a worker brings with it.
#[derive(Clone, Debug)]
pub struct Tools {
    /// Opens input.
    pub inputs: Arc<dyn Inputs>,
    /// Opens programs.
    pub library: Arc<dyn Library>,
    /// Computes.
    pub compute: Arc<dyn Compute>,
}

/// How a worker works.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Attempts at once, at least 1.
    pub slots: usize,
    /// Memory for all of them together, in bytes.
    pub memory_bytes: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            slots: 2,
            memory_bytes: 1 << 30,
        }
    }
}

/// A worker of one job.
#[derive(Clone, Debug)]
pub struct Worker {
    job: Arc<Job>,
    slots: usize,
}

type Running = FuturesUnordered<Pin<Box<dyn Future<Output = Option<Ended>> + Send>>>;

impl Worker {
    /// A worker of the job that an output's register names.
    ///
    /// # Errors
    /// `Job`: there is no such program.
    pub fn new(
        output: Output,
        register: Register,
        tools: Tools,
        settings: Settings,
    ) -> Outcome<Self> {
        let code = tools.library.open(&register.definition.program)?;
        let slots = settings.slots.max(1);
        let job = Job {
            rows: Rows::new(&output, &register),
            output,
            code,
            inputs: tools.inputs,
            compute: tools.compute,
            memory: settings.memory_bytes / slots,
            known: Default::default(),
            bill: Default::default(),
            rooms: Default::default(),
            register,
        };
        Ok(Worker {
            job: Arc::new(job),
            slots,
        })
    }

    /// Makes the job known to workers: creates queues and domains, and sends the plan's task. More
    /// than once does no harm.
    ///
    /// # Errors
    /// Of the cloud. The job can be resumed.
    pub async fn submit(&self) -> Result<()> {
        let job = &self.job;
        if job.output.standing(job.id()).await? != Standing::Running {
            return Ok(());
        }
        job.rows.create().await?;
        let row = job.rows.read(Task::PLAN).await?;
        if row.is_some_and(|row| row.beat.is_empty()) {
            let order = Order::new(Task::PLAN, String::new());
            job.rows.send(Phase::Plan, &[order]).await?;
        }
        Ok(())
    }

    /// Works until the job is over, and removes what it left behind.
    ///
    /// # Errors
    /// Of the cloud, when it did not answer for a long time, or answered what cannot be. The job
    /// can be resumed.
    pub async fn run(&self) -> Result<Register> {
        let job = &self.job;
        if job.output.standing(job.id()).await? == Standing::Running {
            job.rows.create().await?;
        }
        let mut watch = Watch::default();
        self.work(&mut watch).await?;
        let register = job.output.register().await?;
        let register = register.unwrap_or_else(|| job.register.clone());
        let is_publishing = register.job == *job.id() && register.state == State::Publishing;
        if !is_publishing || job.output.is_complete().await? {
            self.await_turn_to_clean(&mut watch).await;
            job.output.clean_job(job.id()).await?;
        }
        Ok(register)
    }

    /// Waits while another worker cleans: the domain with the ticket goes last. All clean after it
    /// what they wrote late.
    async fn await_turn_to_clean(&self, watch: &mut Watch) {
        let mut tries = 1;
        while let Ok(None) = self.job.takes("clean", 0, watch).await {
            self.job.store().pause(tries).await;
            tries = (tries + 1).min(TRIES_MAX);
        }
    }

    async fn work(&self, watch: &mut Watch) -> Result<()> {
        let job = &self.job;
        let mut running = Running::new();
        let mut pause = PAUSE;
        loop {
            match job.output.standing(job.id()).await? {
                Standing::Over => return Ok(()),
                Standing::Publishing => {
                    if !job.has(Guard::RollForward) {
                        return Ok(());
                    }
                    running.clear();
                    self.publish(watch).await?;
                    continue;
                }
                Standing::Running => {}
            }
            let has_moved = match self.look(watch).await {
                Ok(has_moved) => has_moved,
                Err(failure) => self.survive(failure).await?,
            };
            let has_begun = self.begin(&mut running).await?;
            pause = if has_moved || has_begun {
                PAUSE
            } else {
                (pause * 2).min(PAUSE_MAX)
            };
            let clock = &job.store().0.runtime.clock;
            let idle = clock.sleep(pause.min(job.lease() / 3));
            if running.is_empty() {
                if !has_moved {
                    idle.await;
                }
                continue;
            }
            // All slots are busy: nothing else is to be done before one is free.
            let is_busy = self.slots <= running.len();
            let ended = match is_busy {
                true => running.next().await,
                false => match select(running.next(), idle).await {
                    Either::Left((ended, _)) => ended,
                    Either::Right(_) => None,
                },
            };
            self.refill(&mut running, ended.flatten()).await?;
        }
    }

    /// Goes on receiving while slots become free and tasks are there: no look at the rows between.
    async fn refill(&self, running: &mut Running, ended: Option<Ended>) -> Result<()> {
        let mut ended = ended;
        while ended == Some(Ended::Goes) && self.begin(running).await? {
            ended = match self.slots <= running.len() {
                true => running.next().await.flatten(),
                false => None,
            };
        }
        Ok(())
    }

    /// Receives tasks for the slots that are free, and begins them. Whether there were some.
    async fn begin(&self, running: &mut Running) -> Result<bool> {
        let free = self.slots.saturating_sub(running.len()).min(MESSAGES_MAX);
        if free == 0 {
            return Ok(false);
        }
        let job = &self.job;
        let (phase, _) = job.phase();
        let how = Receive {
            max: free,
            visibility: Some(job.rows.visibility()),
            wait: Duration::ZERO,
        };
        let queue = job.rows.queue(phase);
        let received = match job.store().0.queues.receive(&queue, &how).await {
            Ok(received) => received,
            Err(error) if is_passing(&error) => Vec::new(),
            // The queue is gone: so is the job, says the register.
            Err(error) if error.kind == ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        let has_begun = !received.is_empty();
        for message in received {
            let (job, runtime) = (job.clone(), job.store().0.runtime.clone());
            let task = async move { attempt(&job, phase, message).await };
            running.push(Box::pin(runtime.spawn(task)));
        }
        Ok(has_begun)
    }

    /// Looks at the rows, and does what brings the job on. Whether something did.
    async fn look(&self, watch: &mut Watch) -> Outcome<bool> {
        let job = &self.job;
        let (phase, count) = job.phase();
        if phase == Phase::Map && job.find_list().await?.is_some() {
            return Ok(true);
        }
        let now = job.store().0.runtime.clock.monotonic();
        if now < watch.next {
            return Ok(false);
        }
        let rows = job.rows.all(phase).await?.ok_or(Failure::Over)?;
        watch.next = now + (LOOK * rows.len() as u32).min(job.lease() / 3);
        let mut found = winners(&rows, count);
        if found.is_none() {
            found = mutant::end_of_phase(job, phase, &rows).await;
        }
        let Some(winners) = found else {
            return self.reconcile(watch, &rows).await;
        };
        match phase {
            Phase::Plan => drop(job.plan().await?),
            Phase::Map => {
                if job.takes("list", 0, watch).await?.is_none() {
                    return Ok(false);
                }
                if job.make_list(winners).await? {
                    job.send_all(Phase::Reduce, job.definition().reduces)
                        .await?;
                }
            }
            Phase::Reduce => {
                if !job.has(Guard::DecideFirst) {
                    publish(job, watch).await?;
                }
                job.output.decide(job.id(), State::Publishing, "").await?;
            }
        }
        Ok(true)
    }

    /// Sends tasks again that stand still, or asks for a backup.
    async fn reconcile(&self, watch: &mut Watch, rows: &BTreeMap<u32, Row>) -> Outcome<bool> {
        let job = &self.job;
        let lost_max = job.definition().lost_max as usize;
        for (number, row) in rows {
            if row.winner.is_none() && lost_max <= row.lost() {
                let task = job.phase().0.task(*number);
                let text = format!("task {task}: {lost_max} attempts went silent");
                return Err(Failure::Job(text));
            }
        }
        if !job.has(Guard::Reconciler) {
            return Ok(false);
        }
        let runtime = &job.store().0.runtime;
        let lease = match job.has(Guard::WholeLease) {
            true => job.lease(),
            false => Duration::ZERO,
        };
        let (phase, count) = job.phase();
        let mut wishes = watch.look(phase, count, rows, runtime.clock.monotonic(), lease);
        wishes.backup = wishes.backup.filter(|_| job.definition().backups);
        if wishes.again.is_empty() && wishes.backup.is_none() {
            return Ok(false);
        }
        let share = runtime.random() % 1024;
        let pause = job.lease() / 64 * share as u32 / 1024;
        runtime.clock.sleep(pause).await;
        let taken = job.takes("ticket", u64::MAX, watch).await?;
        watch.sent(runtime.clock.monotonic());
        if taken.is_none() {
            return Ok(false);
        }
        job.rows.send(phase, &wishes.again).await?;
        if let Some(task) = wishes.backup.filter(|_| wishes.again.is_empty()) {
            job.rows.note(task, vec![one("backup", "1")]).await?;
            let order = Order {
                backup: true,
                ..Order::new(task, String::new())
            };
            job.rows.send(phase, &[order]).await?;
        }
        Ok(true)
    }

    async fn publish(&self, watch: &mut Watch) -> Result<()> {
        match publish(&self.job, watch).await {
            Ok(()) => Ok(()),
            Err(Failure::Job(text)) => Err(Error::new(ErrorKind::Precondition, text)),
            Err(failure) => self.survive(failure).await.map(|_| ()),
        }
    }

    /// What a worker does when bringing the job on failed: it waits, and looks again.
    async fn survive(&self, failure: Failure) -> Result<bool> {
        let job = &self.job;
        match failure {
            Failure::Job(reason) => {
                let reason = shortened(&reason);
                job.output.decide(job.id(), State::Failed, &reason).await?;
            }
            Failure::Cloud(_) | Failure::Over => {}
            // Perhaps cleaned meanwhile: the register says.
            Failure::Task(text) => {
                if job.output.standing(job.id()).await? == Standing::Publishing {
                    job.store().pause(4).await;
                    if job.output.standing(job.id()).await? == Standing::Publishing {
                        return Err(Error::new(ErrorKind::Malformed, text));
                    }
                }
            }
        }
        job.store().pause(1).await;
        Ok(false)
    }
}
