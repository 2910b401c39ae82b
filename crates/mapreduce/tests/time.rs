//! How long jobs take in virtual time: computation takes as long as a test says.

mod stage;

use std::sync::Arc;
use std::time::Duration;

use fader_cloud::model::{Latency, Model, Process, Profile};
use fader_cloud::{Clock as _, Runtime};
use fader_mapreduce::{Compute, Definition, Output, Register, Settings, Tools, Worker};
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

/// A job, and the workers that it gets.
struct Trial {
    profile: Profile,
    inputs: Vec<String>,
    definition: Definition,
    /// Of each worker.
    slots: usize,
    /// How long each piece of a worker's computation takes. The first worker submits the job.
    workers: Vec<Duration>,
    /// A worker that is killed so long after the first call.
    killed: Option<(usize, Duration)>,
}

impl Trial {
    /// The time from the first call of the job until its output is complete.
    fn time(self) -> Duration {
        let model = Model::new(self.profile.clone());
        let executor = model.executor.clone();
        let expected = self.inputs.concat().lines().count();
        let time = executor.run(self.run(&model));
        // Each line is a word that no other has.
        assert_eq!(lines(&model).len(), expected);
        executor.shut_down();
        time
    }

    async fn run(self, model: &Model) -> Duration {
        model.set_profile(Profile::default());
        for (number, text) in self.inputs.iter().enumerate() {
            put(model, &format!("in/{number:05}"), text.as_str()).await;
        }
        model.set_profile(self.profile.clone());
        let begun = model.clock.monotonic();
        let first = cloud(model, &process(model, "run"));
        let output = Output::new(first, Default::default());
        let register = output.begin(&self.definition).await;
        let register = register.expect("a free output");
        let mut runs = Vec::new();
        for (number, time) in self.workers.iter().enumerate() {
            let process = process(model, &format!("w{number}"));
            let worker = self.worker(model, &process, &register, *time);
            let run = async move {
                if number == 0 {
                    worker.submit().await?;
                }
                worker.run().await
            };
            runs.push(process.runtime().spawn(run));
            if let Some((_, after)) = self.killed.filter(|(worker, _)| *worker == number) {
                let (clock, end) = (model.clock.clone(), begun + after);
                let kill = async move {
                    clock.sleep(end.saturating_sub(clock.monotonic())).await;
                    process.crash();
                };
                drop(model.executor.harness().runtime().spawn(kill));
            }
        }
        while model.object("_SUCCESS").is_none() {
            let time = model.clock.monotonic() - begun;
            assert!(time < TIME_MAX, "no output within {time:?}");
            model.clock.sleep(POLL).await;
        }
        let time = model.clock.monotonic() - begun;
        for (number, run) in runs.into_iter().enumerate() {
            if self.killed.is_none_or(|(worker, _)| worker != number) {
                let ended = run.await.expect("it lives");
                succeeded(&ended.expect("a cloud without faults"));
            }
        }
        time
    }

    fn worker(
        &self,
        model: &Model,
        process: &Process,
        register: &Register,
        time: Duration,
    ) -> Worker {
        let cloud = cloud(model, process);
        let compute = After {
            runtime: cloud.runtime.clone(),
            time,
        };
        let tools = Tools {
            compute: Arc::new(compute),
            ..tools(&cloud)
        };
        let settings = Settings {
            slots: self.slots,
            ..Settings::default()
        };
        let made = Worker::new(
            Output::new(cloud, Default::default()),
            register.clone(),
            tools,
            settings,
        );
        made.expect("a known program")
    }
}

/// Objects of one word each, one for each task.
fn trial(profile: Profile, maps: usize, reduces: u32, workers: Vec<Duration>) -> Trial {
    Trial {
        profile,
        inputs: words(maps),
        definition: tasks(reduces),
        slots: 1,
        workers,
        killed: None,
    }
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
        let trial = Trial {
            inputs: vec![lines.concat()],
            definition: definition.clone(),
            slots: 2,
            ..trial(of_2026(), 0, 1, vec![Duration::ZERO; workers])
        };
        let time = trial.time();
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
    let nine = trial(of_2026(), 180, 9, workers.clone()).time();
    workers.push(100 * second);
    let ten = trial(of_2026(), 180, 9, workers).time();
    println!("nine workers: {nine:?}; with one that is 20 times slower: {ten:?}");
    assert!(ten * 10 <= nine * 13, "{nine:?}, {ten:?}");
}

/// Killed at any of many times, the submitter too: against a job that never had that worker.
#[test]
fn a_worker_that_is_killed_costs_at_most_two_leases() {
    let piece = Duration::from_secs(5);
    let of = |workers: usize| trial(of_2026(), 24, 3, vec![piece; workers]);
    let lease = Duration::from_millis(of(1).definition.lease_ms);
    let (all, without) = (of(3).time(), of(2).time());
    let step = all / 23;
    let mut longest = Duration::ZERO;
    for killed in (0..3).flat_map(|worker| (0..24).map(move |n| (worker, n))) {
        let (worker, n) = killed;
        let trial = Trial {
            killed: Some((worker, step * n)),
            ..of(3)
        };
        let time = trial.time();
        longest = longest.max(time);
        let most = without + 2 * lease;
        assert!(time <= most, "worker {worker} at {:?}: {time:?}", step * n);
    }
    println!("three workers: {all:?}; two: {without:?}; one of three killed: {longest:?}");
    assert!(all < longest, "no kill cost anything");
}

/// As many tasks for each worker: the time hardly grows. `FADER_WORKERS` says how many workers.
#[test]
fn many_workers_are_as_fast_as_one_is_for_its_share() {
    let count = std::env::var("FADER_WORKERS").ok();
    let count = count.map_or(20, |text| text.parse().expect("a number of workers"));
    let piece = Duration::from_secs(50);
    let share = 4;
    let one = trial(of_2007(), share, 1, vec![piece]).time();
    let all = trial(of_2007(), share * count, count as u32, vec![piece; count]);
    let all = all.time();
    let part = one.as_secs_f64() / all.as_secs_f64();
    println!(
        "one worker: {one:?}; {count} workers with {count} times the work: {all:?}: {part:.2}"
    );
    assert!(0.8 <= part, "{one:?}, {all:?}");
}
