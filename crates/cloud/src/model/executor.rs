//! An executor of processes and their tasks in virtual time, from a seed.
//!
//! ```text
//!  process ── task ──┐                        ┌── timer: wakes a task
//!          └─ task ──┼── ready ── one is drawn│
//!  process ── task ──┘     │                  └── event: what a call does at its service
//!                          └── none is ready: time moves to the next timer or event
//! ```
//!
//! It runs the same asynchronous code as a real runtime. A crash drops all tasks of a process; the
//! events that they caused stay, since a request under way outlives its sender.
//!
//! Invariants:
//! - EXECUTOR-1 the same seed and the same code run in the same order, and end with the same
//!   [`Executor::digest`].
//! - EXECUTOR-2 time moves only when no task can run.
//!
//! Deliberately absent: threads. Two tasks never run at once.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures_util::future::BoxFuture;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::faults::Fate;
use super::process::{Process, ProcessState, Skew};
use super::schedule::{Access, Alternative, Choice, Scheduler};

/// The task that [`Executor::run`] was given.
const MAIN: u64 = 0;
/// The process of that task: it never crashes, and its clock is true.
pub(super) const HARNESS: usize = 0;

/// Runs tasks of processes in virtual time. Clones are the same executor.
#[derive(Clone)]
pub struct Executor(Arc<Inner>);

struct Inner {
    state: Mutex<State>,
}

pub(super) struct State {
    pub(super) now: Duration,
    random: ChaCha8Rng,
    /// Decides instead of the seed.
    scheduler: Option<Box<dyn Scheduler>>,
    tasks: BTreeMap<u64, Task>,
    tasks_started: u64,
    /// Tasks that were woken, in that order.
    ready: Vec<u64>,
    timers: BTreeMap<Key, Timer>,
    timers_started: u64,
    pub(super) processes: Vec<ProcessState>,
    steps: u64,
    steps_max: u64,
    digest: u64,
    trace: Option<Vec<String>>,
}

/// When a timer ends, and its number.
pub(super) type Key = (Duration, u64);

struct Task {
    process: usize,
    /// `None` while it runs.
    future: Option<BoxFuture<'static, ()>>,
}

enum Timer {
    Wake {
        process: usize,
        waker: Waker,
    },
    Event {
        process: usize,
        access: Access,
        act: Box<dyn FnOnce() + Send>,
    },
}

/// What happens next.
enum Next {
    Task(u64),
    Timer(Timer),
    Crash(usize),
    Nothing,
}

impl Executor {
    /// An executor without processes, at virtual time 0.
    pub fn new(seed: u64) -> Self {
        let state = State {
            now: Duration::ZERO,
            random: ChaCha8Rng::seed_from_u64(seed),
            scheduler: None,
            tasks: BTreeMap::new(),
            tasks_started: MAIN,
            ready: Vec::new(),
            timers: BTreeMap::new(),
            timers_started: 0,
            processes: vec![ProcessState::new("harness".to_owned(), seed, HARNESS)],
            steps: 0,
            steps_max: u64::MAX,
            digest: 0,
            trace: None,
        };
        Executor(Arc::new(Inner {
            state: Mutex::new(state),
        }))
    }

    /// Lets a scheduler decide instead of the seed.
    pub fn set_scheduler(&self, scheduler: Box<dyn Scheduler>) {
        self.state().scheduler = Some(scheduler);
    }

    /// The process of the future that [`Executor::run`] runs: it never crashes, and its clock is
    /// true.
    pub fn harness(&self) -> Process {
        Process::new(self.clone(), HARNESS)
    }

    /// A new process with a clock of this skew.
    pub fn process(&self, name: &str, skew: Skew) -> Process {
        let mut state = self.state();
        let id = state.processes.len();
        let seed = state.random.next_u64();
        let mut process = ProcessState::new(name.to_owned(), seed, id);
        process.set_skew(state.now, skew);
        state.processes.push(process);
        drop(state);
        Process::new(self.clone(), id)
    }

    /// Ends a run after so many steps: a loop in which no time passes would never end.
    pub fn limit_steps(&self, steps_max: u64) {
        self.state().steps_max = steps_max;
    }

    /// How many tasks were polled, and timers and events happened.
    pub fn steps(&self) -> u64 {
        self.state().steps
    }

    /// True time since the beginning.
    pub fn now(&self) -> Duration {
        self.state().now
    }

    /// Runs a future to its end, with all tasks beside it.
    ///
    /// # Panics
    /// When the future waits for an event that never comes.
    pub fn run<F: Future>(&self, future: F) -> F::Output {
        self.search(future)
            .expect("nothing is left that could wake the future")
    }

    /// Runs a future, with all tasks beside it, until it ends. It also stops when nothing is left
    /// that could wake it, or when the scheduler ends the run; its output in the first case.
    pub fn search<F: Future>(&self, future: F) -> Option<F::Output> {
        let mut future = pin!(future);
        let waker = self.waker(MAIN);
        waker.wake_by_ref();
        loop {
            match self.next() {
                Next::Task(MAIN) => {
                    let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
                    if let Poll::Ready(output) = polled {
                        return Some(output);
                    }
                }
                Next::Task(task) => self.poll(task),
                Next::Timer(timer) => fire(timer),
                Next::Crash(process) => Process::new(self.clone(), process).crash(),
                Next::Nothing => return None,
            }
        }
    }

    /// Records what happens from now on.
    pub fn record(&self) {
        self.state().trace.get_or_insert_default();
    }

    /// Adds a line to the trace, if one is recorded.
    pub fn note(&self, line: impl FnOnce() -> String) {
        let mut state = self.state();
        let now = state.now;
        if let Some(trace) = &mut state.trace {
            trace.push(format!("{:>12.6} {}", now.as_secs_f64(), line()));
        }
    }

    /// A name of a process for the trace.
    pub(super) fn name(&self, process: usize) -> String {
        self.state().processes[process].name.clone()
    }

    /// What was recorded.
    pub fn take_trace(&self) -> Vec<String> {
        self.state().trace.take().unwrap_or_default()
    }

    /// A digest of all that happened: which task ran, which event happened, and when.
    pub fn digest(&self) -> u64 {
        self.state().digest
    }

    /// Drops all tasks, timers and events. Tasks own handles of their executor, so an executor that
    /// is not shut down is never freed.
    pub fn shut_down(&self) {
        let mut state = self.state();
        let left = (
            std::mem::take(&mut state.tasks),
            std::mem::take(&mut state.timers),
            state.scheduler.take(),
        );
        drop(state);
        drop(left);
    }

    /// What becomes of a call, if a scheduler decides it.
    pub(super) fn fate(&self, access: &Access) -> Option<Fate> {
        let mut state = self.state();
        let scheduler = state.scheduler.as_mut()?;
        Some(scheduler.fate(access))
    }

    /// What a call does at its service, after this time, whether or not its caller lives then.
    pub(super) fn at(
        &self,
        after: Duration,
        process: usize,
        access: Access,
        act: impl FnOnce() + Send + 'static,
    ) {
        let timer = Timer::Event {
            process,
            access,
            act: Box::new(act),
        };
        let mut state = self.state();
        let at = state.now + after;
        state.add_timer(at, timer);
    }

    /// Wakes a task of a process at a time.
    pub(super) fn wake_at(&self, at: Duration, process: usize, waker: Waker) -> Key {
        self.state().add_timer(at, Timer::Wake { process, waker })
    }

    /// Forgets a timer.
    pub(super) fn cancel(&self, key: Key) {
        let timer = self.state().timers.remove(&key);
        drop(timer);
    }

    /// Starts a task, unless this life of its process is over.
    pub(super) fn start(&self, process: usize, life: u64, future: BoxFuture<'static, ()>) {
        let mut state = self.state();
        if state.processes[process].life != Some(life) {
            drop(state);
            return;
        }
        state.tasks_started += 1;
        let task = state.tasks_started;
        let future = Some(future);
        state.tasks.insert(task, Task { process, future });
        state.ready.push(task);
    }

    /// Drops all tasks of a process.
    pub(super) fn crash(&self, process: usize) {
        let mut state = self.state();
        let (dropped, wakers) = state.crash(process);
        drop(state);
        drop(dropped);
        wakers.into_iter().for_each(Waker::wake);
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.0
            .state
            .lock()
            .expect("nothing panics while it is locked")
    }

    fn waker(&self, task: u64) -> Waker {
        let executor = Arc::downgrade(&self.0);
        Waker::from(Arc::new(TaskWaker { executor, task }))
    }

    fn next(&self) -> Next {
        let mut state = self.state();
        if state.steps_max <= state.steps {
            return Next::Nothing;
        }
        state.steps += 1;
        let next = match state.scheduler.take() {
            None => state.draw(),
            Some(mut scheduler) => {
                let next = state.follow(scheduler.as_mut());
                state.scheduler = Some(scheduler);
                next
            }
        };
        drop(state);
        next
    }

    fn poll(&self, task: u64) {
        let mut state = self.state();
        let Some(entry) = state.tasks.get_mut(&task) else {
            return;
        };
        let process = entry.process;
        let Some(mut future) = entry.future.take() else {
            return;
        };
        drop(state);
        let waker = self.waker(task);
        let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
        let mut state = self.state();
        let dropped = match (polled, state.tasks.get_mut(&task)) {
            (Poll::Pending, Some(entry)) => {
                entry.future = Some(future);
                None
            }
            _ => {
                state.tasks.remove(&task);
                Some(future)
            }
        };
        let is_over = polled.is_pending() && state.processes[process].count_await();
        drop(state);
        drop(dropped);
        if is_over {
            self.crash(process);
        }
    }
}

impl State {
    fn add_timer(&mut self, at: Duration, timer: Timer) -> Key {
        let key = (at.max(self.now), self.timers_started);
        self.timers_started += 1;
        self.timers.insert(key, timer);
        key
    }

    /// FNV-1a.
    fn mix(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.digest = (self.digest ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn is_paused(&self, process: usize) -> bool {
        self.now < self.processes[process].paused_until
    }

    /// Forgets tasks that have ended, and gives the places in `ready` of those that may run.
    fn runnable(&mut self) -> Vec<usize> {
        let mut seen = BTreeSet::new();
        let mut ready = std::mem::take(&mut self.ready);
        ready.retain(|task| (*task == MAIN || self.tasks.contains_key(task)) && seen.insert(*task));
        self.ready = ready;
        let may_run = |task: &u64| match self.tasks.get(task) {
            Some(task) => !self.is_paused(task.process),
            None => true,
        };
        let places = self.ready.iter().enumerate();
        let places = places.filter(|(_, task)| may_run(task));
        places.map(|(place, _)| place).collect()
    }

    /// Draws what happens next from the seed.
    fn draw(&mut self) -> Next {
        let runnable = self.runnable();
        if !runnable.is_empty() {
            let place = runnable[self.random.random_range(0..runnable.len())];
            let task = self.ready.remove(place);
            self.mix(&task.to_le_bytes());
            return Next::Task(task);
        }
        let Some((first, _)) = self.timers.first_key_value() else {
            return Next::Nothing;
        };
        let at = first.0;
        let together = self.timers.range(..=(at, u64::MAX)).count();
        let which = self.random.random_range(0..together);
        let key = self.timers.keys().nth(which).copied();
        self.fire(key.expect("it was counted"))
    }

    /// Lets time move to a timer, and takes it.
    fn fire(&mut self, key: Key) -> Next {
        let timer = self.timers.remove(&key).expect("the caller saw it");
        self.now = self.now.max(key.0);
        let now = self.now.as_nanos() as u64;
        self.mix(&now.to_le_bytes());
        self.mix(&key.1.to_le_bytes());
        Next::Timer(timer)
    }

    /// Runs the tasks that can run in the order in which they were woken, and asks the scheduler
    /// for all else.
    fn follow(&mut self, scheduler: &mut dyn Scheduler) -> Next {
        if let Some(place) = self.runnable().first() {
            return Next::Task(self.ready.remove(*place));
        }
        let alternatives: Vec<(Key, Alternative)> = self
            .timers
            .iter()
            .map(|(key, timer)| (*key, timer.alternative(*key)))
            .collect();
        if alternatives.is_empty() {
            return Next::Nothing;
        }
        let offered: Vec<Alternative> = alternatives.iter().map(|(_, one)| one.clone()).collect();
        match scheduler.choose(&offered) {
            Choice::Next(choice) => self.fire(alternatives[choice].0),
            Choice::Crash(process) => Next::Crash(process),
            Choice::End => Next::Nothing,
        }
    }

    /// What the caller drops, and wakes, without the lock.
    fn crash(&mut self, process: usize) -> (Vec<Task>, Vec<Waker>) {
        let state = &mut self.processes[process];
        state.life = None;
        state.crashes_after = None;
        let wakers = std::mem::take(&mut state.watchers);
        let of_process = self.tasks.iter();
        let of_process = of_process.filter(|(_, task)| task.process == process);
        let ids: Vec<u64> = of_process.map(|(id, _)| *id).collect();
        let dropped = ids.iter().filter_map(|id| self.tasks.remove(id)).collect();
        self.mix(b"crash");
        (dropped, wakers)
    }
}

impl Timer {
    fn alternative(&self, key: Key) -> Alternative {
        match self {
            Timer::Wake { process, .. } => Alternative {
                number: key.1,
                at: key.0,
                process: *process,
                access: None,
            },
            Timer::Event {
                process, access, ..
            } => Alternative {
                number: key.1,
                at: key.0,
                process: *process,
                access: Some(access.clone()),
            },
        }
    }
}

fn fire(timer: Timer) {
    match timer {
        Timer::Wake { waker, .. } => waker.wake(),
        Timer::Event { act, .. } => act(),
    }
}

struct TaskWaker {
    executor: Weak<Inner>,
    task: u64,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        if let Some(inner) = self.executor.upgrade() {
            Executor(inner).state().ready.push(self.task);
        }
    }
}

impl fmt::Debug for Executor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Executor")
    }
}
