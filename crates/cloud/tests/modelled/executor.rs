//! The executor runs processes as a machine would, but from a seed.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use fader_cloud::model::{Executor, Process, Skew};
use fader_cloud::{Clock, Runtime};

const SECOND: Duration = Duration::from_secs(1);

/// What tasks said, in order.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn add(&self, line: impl Into<String>) {
        self.0
            .lock()
            .expect("no test panics with it")
            .push(line.into());
    }

    fn lines(&self) -> Vec<String> {
        self.0.lock().expect("no test panics with it").clone()
    }
}

/// Three tasks of three steps each, which only the scheduler orders.
fn race(seed: u64) -> (Vec<String>, u64) {
    let executor = Executor::new(seed);
    let log = Log::default();
    let process = executor.process("p", Skew::default());
    let runtime = process.runtime();
    let tasks = (0..3).map(|task| {
        let (runtime, log) = (runtime.clone(), log.clone());
        let clock = runtime.clock.clone();
        runtime.spawn(async move {
            for step in 0..3 {
                log.add(format!("{task}.{step}"));
                clock.sleep(SECOND).await;
            }
        })
    });
    let tasks: Vec<_> = tasks.collect();
    executor.run(futures_util::future::join_all(tasks));
    let digest = executor.digest();
    executor.shut_down();
    (log.lines(), digest)
}

/// It shows EXECUTOR-1 and MODEL-1.
#[test]
fn a_seed_gives_the_same_order_twice_and_another_seed_another() {
    let orders: Vec<_> = (0..20).map(race).collect();
    assert_eq!(orders, (0..20).map(race).collect::<Vec<_>>());
    assert!(orders.iter().any(|order| order != &orders[0]));
}

/// It shows RUNTIME-1.
#[test]
fn a_task_runs_to_its_end_also_when_its_result_is_dropped() {
    let executor = Executor::new(1);
    let log = Log::default();
    let runtime = executor.harness().runtime();
    let (clock, told) = (runtime.clock.clone(), log.clone());
    drop(runtime.spawn(async move {
        clock.sleep(SECOND).await;
        told.add("ended");
    }));
    executor.run(runtime.clock.sleep(SECOND * 2));
    assert_eq!(log.lines(), ["ended"]);
}

/// Counts seconds until its process dies.
fn counter(runtime: &Runtime, log: &Log) -> impl Future<Output = Option<()>> + use<> {
    let (clock, log) = (runtime.clock.clone(), log.clone());
    runtime.spawn(async move {
        for second in 0..10 {
            log.add(format!("{second}"));
            clock.sleep(SECOND).await;
        }
    })
}

/// It shows PROCESS-1.
#[test]
fn a_process_crashes_at_the_await_that_was_named_and_starts_again() {
    let executor = Executor::new(1);
    let log = Log::default();
    let process = executor.process("p", Skew::default());
    process.crash_after(3);
    let first_life = process.runtime();
    executor.run(async {
        assert_eq!(counter(&first_life, &log).await, None);
        assert!(!process.is_alive());
        process.crashed().await;
        assert_eq!(log.lines(), ["0", "1", "2"]);
        let second_life = process.restart();
        // The first life is over: its tasks never run.
        assert_eq!(counter(&first_life, &log).await, None);
        assert_eq!(counter(&second_life, &log).await, Some(()));
    });
    assert_eq!(log.lines().len(), 3 + 10);
}

fn clocks(process: &Process) -> (Duration, Duration) {
    let clock = process.clock();
    (clock.monotonic(), clock.wall())
}

/// It shows PROCESS-2 and EXECUTOR-2.
#[test]
fn clocks_drift_and_are_offset_and_sleeps_follow_the_own_clock() {
    let executor = Executor::new(1);
    let skew = Skew {
        offset_ms: -5_000,
        drift_ppm: 100_000,
    };
    let process = executor.process("p", skew);
    let harness = executor.harness();
    let true_clock = harness.clock();
    executor.run(true_clock.sleep(SECOND * 10));
    let ((_, true_wall), (own, own_wall)) = (clocks(&harness), clocks(&process));
    assert_eq!(own, SECOND * 11);
    assert_eq!(true_wall - own_wall, SECOND * 4);
    executor.run(process.clock().sleep(SECOND * 11));
    assert_eq!(true_clock.monotonic(), SECOND * 20);
    process.set_skew(Skew::default());
    assert_eq!(clocks(&process).0, SECOND * 22);
}

#[test]
fn a_paused_process_does_nothing_while_its_clock_goes_on() {
    let executor = Executor::new(1);
    let log = Log::default();
    let process = executor.process("p", Skew::default());
    let clock = executor.harness().clock();
    let count = counter(&process.runtime(), &log);
    executor.run(clock.sleep(SECOND / 2));
    process.pause(SECOND * 60);
    executor.run(clock.sleep(SECOND * 50));
    assert_eq!(log.lines(), ["0"]);
    executor.run(count);
    assert_eq!(
        clock.monotonic(),
        Duration::from_millis(60_500) + SECOND * 9
    );
}

#[test]
fn a_timeout_ends_what_takes_longer_and_leaves_no_timer() {
    let executor = Executor::new(1);
    let runtime = executor.harness().runtime();
    let slow = runtime.timeout(SECOND, runtime.clock.sleep(SECOND * 9));
    assert_eq!(executor.run(slow), None);
    let fast = runtime.timeout(SECOND * 9, runtime.clock.sleep(SECOND));
    assert_eq!(executor.run(fast), Some(()));
    assert_eq!(executor.now(), SECOND * 2);
}

#[test]
fn entropy_is_of_the_process_and_of_the_seed() {
    let numbers = |seed| {
        let executor = Executor::new(seed);
        let one = executor.process("one", Skew::default());
        let two = executor.process("two", Skew::default());
        let first = one.runtime().random();
        let again = one.restart().random();
        [first, again, two.runtime().random()]
    };
    assert_eq!(numbers(1), numbers(1));
    let mut all = [numbers(1), numbers(2)].concat();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 6);
}

#[test]
#[should_panic(expected = "nothing is left that could wake the future")]
fn a_future_that_waits_for_ever_is_found_out() {
    Executor::new(1).run(std::future::pending::<()>());
}
