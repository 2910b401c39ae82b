//! How long jobs take in virtual time: computation takes as long as a test says.

mod stage;

use std::time::Duration;

use fader_cloud::model::{Latency, Model, Profile};
use fader_cloud::{Clock as _, Runtime};
use fader_mapreduce::{Compute, Definition, Output, Settings, Tools, Worker};
use stage::{cloud, definition, lines, process, put, succeeded, tools};

/// How often a test looks for the end.
const POLL: Duration = Duration::from_millis(10);

/// A job that takes longer has failed.
const TIME_MAX: Duration = Duration::from_secs(60 * 60);

/// Computes after a time.
#[derive(Debug)]
struct After {
    runtime: Runtime,
    time: Duration,
}

impl Compute for After {
    fn start(&self, work: Box<dyn FnOnce() + Send>) {
        let (runtime, time) = (self.runtime.clone(), self.time);
        let computed = async move {
            runtime.clock.sleep(time).await;
            work();
        };
        drop(self.runtime.spawn(computed));
    }
}

/// GET and LIST take 25 ms, PUT 30, queues and domains 10.
fn of_2026() -> Profile {
    let mut profile = Profile::default();
    let ms = |ms| Latency::Constant(Duration::from_millis(ms));
    for call in profile.calls_mut() {
        call.latency = ms(10);
    }
    let objects = &mut profile.objects;
    (objects.get.latency, objects.list.latency) = (ms(25), ms(25));
    (objects.put.latency, objects.delete.latency) = (ms(30), ms(30));
    profile
}

/// The latencies of 2007, and nothing else of it: neither faults nor stale reads.
fn of_2007() -> Profile {
    let (mut profile, mut old) = (Profile::default(), Profile::of_2007(1));
    for (call, old) in profile.calls_mut().into_iter().zip(old.calls_mut()) {
        call.latency = old.latency.clone();
        call.per_mib = old.per_mib;
    }
    profile
}

/// The time from the first call of a job on these inputs until its output is complete. Each worker
/// has so many slots; every piece of its computation takes so long.
fn time_of(
    profile: Profile,
    inputs: Vec<String>,
    definition: &Definition,
    slots: usize,
    workers: &[Duration],
) -> Duration {
    let model = Model::new(profile.clone());
    let executor = model.executor.clone();
    let expected = inputs.concat().lines().count();
    let time = executor.run(async {
        model.set_profile(Profile::default());
        for (number, text) in inputs.into_iter().enumerate() {
            put(&model, &format!("in/{number:05}"), text).await;
        }
        model.set_profile(profile);
        let begun = model.clock.monotonic();
        let first = cloud(&model, &process(&model, "run"));
        let output = Output::new(first.clone(), Default::default());
        let register = output.begin(definition).await.expect("a free output");
        let mut runs = Vec::new();
        for (number, time) in workers.iter().enumerate() {
            let cloud = cloud(&model, &process(&model, &format!("w{number}")));
            let compute = After {
                runtime: cloud.runtime.clone(),
                time: *time,
            };
            let tools = Tools {
                compute: std::sync::Arc::new(compute),
                ..tools(&cloud)
            };
            let settings = Settings {
                slots,
                ..Settings::default()
            };
            let made = Worker::new(cloud.clone(), register.clone(), tools, settings);
            let made = made.expect("a known program");
            if number == 0 {
                made.submit().await.expect("a cloud without faults");
            }
            runs.push(cloud.runtime.spawn(async move { made.run().await }));
        }
        while model.object("_SUCCESS").is_none() {
            let time = model.clock.monotonic() - begun;
            assert!(time < TIME_MAX, "no output within {time:?}");
            model.clock.sleep(POLL).await;
        }
        let time = model.clock.monotonic() - begun;
        for run in runs {
            let ended = run.await.expect("it lives");
            succeeded(&ended.expect("a cloud without faults"));
        }
        time
    });
    // Each line is a word that no other has.
    assert_eq!(lines(&model).len(), expected);
    executor.shut_down();
    time
}

/// Objects of one word each, of the bytes of a split.
fn words(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("w{number:05}\n")).collect()
}

/// A task for each object.
fn tasks(reduces: u32) -> Definition {
    Definition {
        reduces,
        split_bytes: 7,
        ..definition("word-count", &[])
    }
}

#[test]
fn a_small_job_takes_two_seconds() {
    // 1 MB.
    let lines: Vec<String> = (0..100_000).map(|n| format!("w{n:08}\n")).collect();
    let definition = Definition::new(tasks(1).program, vec!["mem://in/**".to_owned()]);
    for workers in 1..3 {
        let instant = vec![Duration::ZERO; workers];
        let time = time_of(of_2026(), vec![lines.concat()], &definition, 2, &instant);
        println!("1 MB, {workers} workers: {time:?}");
        assert!(
            time <= Duration::from_secs(2),
            "{workers} workers: {time:?}"
        );
    }
}

#[test]
fn a_worker_that_is_slow_costs_little() {
    let second = Duration::from_secs(1);
    let mut workers = vec![5 * second; 9];
    let nine = time_of(of_2026(), words(180), &tasks(9), 1, &workers);
    workers.push(100 * second);
    let ten = time_of(of_2026(), words(180), &tasks(9), 1, &workers);
    println!("nine workers: {nine:?}; with one that is 20 times slower: {ten:?}");
    assert!(ten * 10 <= nine * 13, "{nine:?}, {ten:?}");
}

/// As many tasks for each worker: the time hardly grows. `FADER_WORKERS` says how many workers.
#[test]
fn many_workers_are_as_fast_as_one_is_for_its_share() {
    let count = std::env::var("FADER_WORKERS").ok();
    let count = count.map_or(20, |text| text.parse().expect("a number of workers"));
    let piece = Duration::from_secs(20);
    let profile = of_2007();
    let share = 10;
    let one = time_of(profile.clone(), words(share), &tasks(1), 1, &[piece]);
    let reduces = count as u32;
    let all = time_of(
        profile,
        words(share * count),
        &tasks(reduces),
        1,
        &vec![piece; count],
    );
    let part = one.as_secs_f64() / all.as_secs_f64();
    println!(
        "one worker: {one:?}; {count} workers with {count} times the work: {all:?}: {part:.2}"
    );
    assert!(0.8 <= part, "{one:?}, {all:?}");
}
