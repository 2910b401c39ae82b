//! One run of a simulated cloud.

use std::sync::Arc;
use std::time::Duration;

use fader_cloud::model::{Model, Process, Skew};
use fader_cloud::{Clock, Cloud, Domains, QueueSettings, Queues, Receive};
use futures_util::future::join_all;

use super::actors::{Actor, DOMAIN, QUEUE};
use super::checks::{self, Claims};
use super::history::{Failure, History, Record};
use super::plan::{Backend, Fault, Plan, ProcessPlan};

/// Steps after which a run counts as stuck.
const STEPS_MAX: u64 = 5_000_000;
/// How long a queue must be empty to count as drained.
const QUIET: Duration = Duration::from_secs(60);
/// When a run counts as stuck: all faults end after a minute and a half.
const STUCK: Duration = Duration::from_secs(24 * 60 * 60);

/// What became of a run.
#[derive(Debug)]
pub struct Run {
    /// The first broken promise.
    pub failure: Option<Failure>,
    /// How often each promise was put to the test.
    pub claims: Claims,
    /// Tasks polled, timers and events.
    pub steps: u64,
    /// What was asked and answered.
    pub history: History,
    /// The digest of all steps: the same for the same plan.
    pub digest: u64,
    /// What happened, if it was recorded.
    pub trace: Vec<String>,
}

impl History {
    /// How many calls there were.
    pub fn calls(&self) -> u64 {
        self.calls
    }
}

struct World<'a> {
    plan: &'a Plan,
    model: Model,
    record: Record,
}

/// Runs a plan.
pub fn run(plan: &Plan, is_traced: bool) -> Run {
    let model = Model::new(plan.profile.clone());
    let executor = model.executor.clone();
    executor.limit_steps(STEPS_MAX);
    if is_traced {
        executor.record();
    }
    let world = World {
        plan,
        model,
        record: Record::default(),
    };
    let ended = executor.search(world.live());
    let trace = executor.take_trace();
    let (digest, steps) = (executor.digest(), executor.steps());
    executor.shut_down();
    let history = std::mem::take(&mut *world.record.open());
    let stuck = || Failure {
        guarantee: "live",
        text: format!("the run did not end: {steps} steps, {:?}", executor.now()),
    };
    let judged = match ended {
        Some(Ok(())) => checks::all(&history, plan.domain_staleness),
        Some(Err(failure)) => Err(failure),
        None => Err(stuck()),
    };
    let (claims, failure) = match judged {
        Ok(claims) => (claims, None),
        Err(failure) => (Claims::new(), Some(failure)),
    };
    Run {
        failure,
        claims,
        steps,
        history,
        digest,
        trace,
    }
}

impl World<'_> {
    fn services(&self, cloud: &Cloud) -> (Arc<dyn Queues>, Arc<dyn Domains>) {
        match self.plan.backend {
            Backend::Models => (cloud.queues.clone(), cloud.domains.clone()),
        }
    }

    fn actor(&self, process: &Process) -> Actor {
        let cloud = self.model.cloud(process);
        let (queues, domains) = self.services(&cloud);
        Actor {
            process: process.id(),
            queues,
            domains,
            cloud,
            record: self.record.clone(),
            truth: self.model.clock.clone(),
            until: self.plan.faults_end,
            visibilities: self.plan.visibilities.clone(),
        }
    }

    async fn live(&self) -> Result<(), Failure> {
        let harness = self.model.executor.harness();
        let lived = harness.runtime().timeout(STUCK, self.phases()).await;
        lived.unwrap_or_else(|| {
            Err(Failure {
                guarantee: "live",
                text: format!("the queue was not drained within {STUCK:?}"),
            })
        })
    }

    async fn phases(&self) -> Result<(), Failure> {
        let executor = &self.model.executor;
        self.set_up().await?;
        let begun = self.plan.processes.iter().enumerate().map(|(at, planned)| {
            let process = executor.process(&format!("p{at}"), planned.skew);
            self.live_one(process, planned)
        });
        join_all(begun).await;
        self.model.set_profile(self.plan.calm());
        self.model.clock.sleep(self.plan.settled_after()).await;
        self.drain().await;
        Ok(())
    }

    /// Creates queue and domain, before any fault.
    async fn set_up(&self) -> Result<(), Failure> {
        self.model.set_profile(self.plan.calm());
        let process = self.model.executor.process("setup", Skew::default());
        let actor = self.actor(&process);
        let created = async {
            actor
                .queues
                .create(QUEUE, &QueueSettings::default())
                .await?;
            actor.domains.create(DOMAIN).await
        };
        created.await.map_err(|error: fader_cloud::Error| Failure {
            guarantee: "live",
            text: format!("nothing was created: {error}"),
        })?;
        self.model.set_profile(self.plan.profile.clone());
        Ok(())
    }

    /// The life of one process until faults end, with its faults.
    async fn live_one(&self, process: Process, planned: &ProcessPlan) {
        let clock = &self.model.clock;
        self.actor(&process).start();
        for strike in &planned.strikes {
            clock.sleep(strike.after).await;
            if self.plan.faults_end <= clock.monotonic() {
                break;
            }
            match strike.fault {
                Fault::Pause(time) => process.pause(time),
                Fault::Jump(offset_ms) => process.set_skew(Skew {
                    offset_ms,
                    ..planned.skew
                }),
                Fault::Crash(awaits, down) => {
                    process.crash_after(awaits);
                    let harness = self.model.executor.harness().runtime();
                    let left = self.plan.faults_end.saturating_sub(clock.monotonic());
                    if harness.timeout(left, process.crashed()).await.is_none() {
                        process.crash();
                    }
                    clock.sleep(down).await;
                    process.restart();
                    self.actor(&process).start();
                }
            }
        }
        let left = self.plan.faults_end.saturating_sub(clock.monotonic());
        clock.sleep(left).await;
    }

    /// Receives and removes until the queue has been empty for a while.
    async fn drain(&self) {
        let process = self.model.executor.process("drain", Skew::default());
        let actor = self.actor(&process);
        let clock = &self.model.clock;
        let mut quiet_since = clock.monotonic();
        while clock.monotonic() < quiet_since + QUIET {
            let how = Receive {
                max: 10,
                visibility: Some(Duration::from_secs(30)),
                wait: Duration::from_secs(5),
            };
            let (found, _) = actor.receive(&how).await;
            for message in &found {
                actor.remove(message).await;
                quiet_since = clock.monotonic();
            }
        }
    }
}
