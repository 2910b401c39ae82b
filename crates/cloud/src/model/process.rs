//! A simulated process: its clock, its tasks, its entropy, its crashes.
//!
//! Invariants:
//! - PROCESS-1 after a crash no code of the process's earlier life runs.
//! - PROCESS-2 a monotonic clock never goes back, also when its drift changes.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::executor::{Executor, HARNESS, Key};
use crate::clock::Clock;
use crate::runtime::{Entropy, Runtime, Tasks};

/// When virtual time begins: 2026-01-01.
const BEGINNING: Duration = Duration::from_secs(1_767_225_600);

/// How far a clock is off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skew {
    /// The wall clock's distance from the true time, in milliseconds.
    pub offset_ms: i64,
    /// How much faster than true time both clocks run, in parts per million: above -1,000,000.
    pub drift_ppm: i64,
}

/// The executor's side of a process.
pub(super) struct ProcessState {
    pub(super) name: String,
    /// `None` while it is dead.
    pub(super) life: Option<u64>,
    lives: u64,
    skew: Skew,
    /// True time and own time at the last change of the skew.
    anchor: (Duration, Duration),
    random: ChaCha8Rng,
    awaits: u64,
    /// The number of the await at which it crashes.
    pub(super) crashes_after: Option<u64>,
    pub(super) paused_until: Duration,
    /// Tasks that wait for its death.
    pub(super) watchers: Vec<Waker>,
}

impl ProcessState {
    pub(super) fn new(name: String, seed: u64, stream: usize) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(1 + stream as u64);
        ProcessState {
            name,
            life: Some(1),
            lives: 1,
            skew: Skew::default(),
            anchor: (Duration::ZERO, Duration::ZERO),
            random,
            awaits: 0,
            crashes_after: None,
            paused_until: Duration::ZERO,
            watchers: Vec::new(),
        }
    }

    pub(super) fn set_skew(&mut self, now: Duration, skew: Skew) {
        self.anchor = (now, self.monotonic(now));
        self.skew = skew;
    }

    /// Counts an await that suspended; whether the process crashes now.
    pub(super) fn count_await(&mut self) -> bool {
        self.awaits += 1;
        self.life.is_some() && self.crashes_after.is_some_and(|after| after <= self.awaits)
    }

    fn monotonic(&self, now: Duration) -> Duration {
        let passed = now.saturating_sub(self.anchor.0).as_nanos() as i128;
        let own = passed + passed * i128::from(self.skew.drift_ppm) / 1_000_000;
        self.anchor.1 + nanoseconds(own)
    }

    /// The true time at which the own clock shows a time, rounded up.
    fn true_time(&self, own: Duration) -> Duration {
        let passed = own.saturating_sub(self.anchor.1).as_nanos() as i128;
        let rate = 1_000_000 + i128::from(self.skew.drift_ppm);
        self.anchor.0 + nanoseconds((passed * 1_000_000 + rate - 1) / rate)
    }
}

fn nanoseconds(count: i128) -> Duration {
    Duration::from_nanos(u64::try_from(count.max(0)).unwrap_or(u64::MAX))
}

/// A simulated process. Clones are the same process.
#[derive(Clone)]
pub struct Process {
    executor: Executor,
    id: usize,
}

impl Process {
    pub(super) fn new(executor: Executor, id: usize) -> Self {
        Process { executor, id }
    }

    /// Its number, as a [`super::Scheduler`] sees it.
    pub fn id(&self) -> usize {
        self.id
    }

    /// Its name.
    pub fn name(&self) -> String {
        self.executor.state().processes[self.id].name.clone()
    }

    /// Its executor.
    pub fn executor(&self) -> &Executor {
        &self.executor
    }

    /// Its clock.
    pub fn clock(&self) -> Arc<ModelClock> {
        Arc::new(ModelClock {
            executor: self.executor.clone(),
            process: self.id,
        })
    }

    /// Clock, tasks and entropy of its present life. Tasks that are started with it after a crash
    /// never run.
    pub fn runtime(&self) -> Runtime {
        let life = self.executor.state().processes[self.id].life;
        Runtime {
            clock: self.clock(),
            tasks: Arc::new(ModelTasks {
                process: self.clone(),
                life: life.unwrap_or(0),
            }),
            entropy: Arc::new(ModelEntropy(self.clone())),
        }
    }

    /// Whether it has not crashed since it was started last.
    pub fn is_alive(&self) -> bool {
        self.executor.state().processes[self.id].life.is_some()
    }

    /// Drops all its tasks at once. Their requests under way may still reach the service.
    pub fn crash(&self) {
        assert_ne!(self.id, HARNESS, "the harness does not crash");
        let name = self.name();
        self.executor.note(|| format!("{name} crashes"));
        self.executor.crash(self.id);
    }

    /// Lets it crash when its tasks have been suspended this many times more, at least 1.
    pub fn crash_after(&self, awaits: u64) {
        let mut state = self.executor.state();
        let process = &mut state.processes[self.id];
        process.crashes_after = Some(process.awaits + awaits.max(1));
    }

    /// How often its tasks were suspended at an await.
    pub fn awaits(&self) -> u64 {
        self.executor.state().processes[self.id].awaits
    }

    /// Returns when it is dead.
    pub async fn crashed(&self) {
        poll_fn(|context| {
            let mut state = self.executor.state();
            let process = &mut state.processes[self.id];
            if process.life.is_none() {
                return Poll::Ready(());
            }
            process.watchers.push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Starts a dead process again, without tasks; a living one crashes before.
    pub fn restart(&self) -> Runtime {
        if self.is_alive() {
            self.crash();
        }
        let mut state = self.executor.state();
        let process = &mut state.processes[self.id];
        process.lives += 1;
        process.life = Some(process.lives);
        process.paused_until = Duration::ZERO;
        let name = process.name.clone();
        drop(state);
        self.executor.note(|| format!("{name} starts again"));
        self.runtime()
    }

    /// Stops all its tasks for a time; its clocks go on.
    pub fn pause(&self, time: Duration) {
        let mut state = self.executor.state();
        let until = state.now + time;
        state.processes[self.id].paused_until = until;
        drop(state);
        // Time must be able to move there, though nothing else may be due.
        let waker = Waker::noop().clone();
        self.executor.wake_at(until, self.id, waker);
    }

    /// Changes how far its clocks are off. The monotonic one goes on from where it is.
    pub fn set_skew(&self, skew: Skew) {
        let mut state = self.executor.state();
        let now = state.now;
        state.processes[self.id].set_skew(now, skew);
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Process({})", self.id)
    }
}

/// The clock of a simulated process.
#[derive(Debug)]
pub struct ModelClock {
    executor: Executor,
    process: usize,
}

#[async_trait]
impl Clock for ModelClock {
    fn wall(&self) -> Duration {
        let state = self.executor.state();
        let process = &state.processes[self.process];
        let own = BEGINNING + process.monotonic(state.now);
        let offset = Duration::from_millis(process.skew.offset_ms.unsigned_abs());
        match process.skew.offset_ms < 0 {
            true => own.saturating_sub(offset),
            false => own + offset,
        }
    }

    fn monotonic(&self) -> Duration {
        let state = self.executor.state();
        state.processes[self.process].monotonic(state.now)
    }

    async fn sleep(&self, time: Duration) {
        let until = self.monotonic() + time;
        Sleep {
            clock: self,
            until,
            timer: None,
        }
        .await;
    }
}

/// Ends when a clock shows a time. Its timer goes with it, so that none is left over.
struct Sleep<'a> {
    clock: &'a ModelClock,
    until: Duration,
    timer: Option<Key>,
}

impl Future for Sleep<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.cancel();
        let (executor, process) = (&self.clock.executor, self.clock.process);
        let state = executor.state();
        let clock = &state.processes[process];
        if self.until <= clock.monotonic(state.now) {
            return Poll::Ready(());
        }
        let at = clock.true_time(self.until);
        drop(state);
        let waker = context.waker().clone();
        self.timer = Some(executor.wake_at(at, process, waker));
        Poll::Pending
    }
}

impl Sleep<'_> {
    fn cancel(&mut self) {
        if let Some(key) = self.timer.take() {
            self.clock.executor.cancel(key);
        }
    }
}

impl Drop for Sleep<'_> {
    fn drop(&mut self) {
        self.cancel();
    }
}

#[derive(Debug)]
struct ModelTasks {
    process: Process,
    life: u64,
}

impl Tasks for ModelTasks {
    fn start(&self, task: BoxFuture<'static, ()>) {
        self.process
            .executor
            .start(self.process.id, self.life, task);
    }
}

#[derive(Debug)]
struct ModelEntropy(Process);

impl Entropy for ModelEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        let mut state = self.0.executor.state();
        state.processes[self.0.id].random.fill_bytes(bytes);
    }
}

/// Runs a future to its end on a clock's executor; time passes when nothing else can happen.
///
/// # Panics
/// When the future waits for an event that never comes.
pub fn run<F: Future>(clock: &ModelClock, future: F) -> F::Output {
    clock.executor.run(future)
}
