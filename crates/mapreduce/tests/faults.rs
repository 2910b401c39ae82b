//! Jobs whose workers die, whose queues lose and repeat, whose records are large or bad. Each of
//! the faults of the first Cloud MapReduce has a test here, or in the simulator.

mod stage;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fader_cloud::model::{Model, Profile};
use fader_cloud::{Clock, Domains, Queues, ReadConsistency, Receive};
use fader_mapreduce::{Definition, Output, Register, Shuffle, State, Worker};
use proptest::test_runner::{Config, TestRunner};
use stage::{
    assert_clean, cloud, definition, lines, model, on_model, process, put, run, slow, succeeded,
    worker,
};

/// Three map tasks and two reduce tasks.
fn small() -> Definition {
    Definition {
        reduces: 2,
        split_bytes: 6,
        lease_ms: 1_000,
        ..definition("word-count", &[])
    }
}

const TEXT: &str = "a b\nc a\nd a b\n";
const COUNTS: [&str; 4] = ["a\t3", "b\t2", "c\t1", "d\t1"];

async fn begun(model: &Model, name: &str, definition: &Definition) -> (Worker, Register) {
    let cloud = cloud(model, &process(model, name));
    let output = Output::new(cloud.clone(), Default::default());
    let register = output.begin(definition).await.expect("a free output");
    let own = worker(&cloud, &register);
    own.submit().await.expect("a cloud without faults");
    (own, register)
}

/// Runs the small job; each of these processes crashes at its await. The one that is left resumes.
/// The awaits of the first process, when it does not crash.
fn with_crashes(crashes: &[u64], shuffle: Shuffle) -> u64 {
    let definition = Definition { shuffle, ..small() };
    let model = model(3);
    let executor = model.executor.clone();
    let awaits = executor.run(async {
        put(&model, "in/x", TEXT).await;
        let mut first = 0;
        for (number, after) in crashes.iter().chain([&u64::MAX]).enumerate() {
            let process = process(&model, &format!("w{number}"));
            if *after != u64::MAX {
                process.crash_after(*after);
            }
            let (cloud, definition) = (cloud(&model, &process), definition.clone());
            let life = async move {
                let output = Output::new(cloud.clone(), Default::default());
                let register = output.begin(&definition).await?;
                let own = worker(&cloud, &register);
                own.submit().await?;
                own.run().await
            };
            // Begun together: the task dies with its process, at its await.
            let runtime = process.runtime();
            let lived = runtime.spawn(life).await;
            if *after == u64::MAX {
                let is_complete = model.object("_SUCCESS").is_some();
                assert!(lived.is_some() && is_complete, "{crashes:?}: {lived:?}");
            }
            if number == 0 {
                first = process.awaits();
            }
        }
        let cloud = cloud(&model, &process(&model, "clean"));
        let output = Output::new(cloud, Default::default());
        output.clean().await.expect("a cloud without faults");
        first
    });
    assert_eq!(lines(&model), COUNTS, "{crashes:?}");
    assert_clean(&model);
    executor.shut_down();
    awaits
}

#[test]
fn each_await_may_be_the_last() {
    let awaits = with_crashes(&[], Shuffle::Object);
    assert!(100 < awaits, "{awaits}");
    for after in 1..=awaits {
        with_crashes(&[after], Shuffle::Object);
    }
}

#[test]
fn each_await_of_a_queue_job_may_be_the_last() {
    let awaits = with_crashes(&[], Shuffle::Queue);
    assert!(100 < awaits, "{awaits}");
    for after in 1..=awaits {
        with_crashes(&[after], Shuffle::Queue);
    }
}

/// Two workers, one after the other, each crash at one of their awaits. The pairs are a random
/// sample, by the seed of all properties.
#[test]
fn two_workers_may_die_at_any_awaits() {
    let awaits = with_crashes(&[], Shuffle::Object);
    let mut runner = TestRunner::new(Config {
        cases: 80,
        ..Config::default()
    });
    let tried = runner.run(&(1..=awaits, 1..=awaits), |(one, other)| {
        with_crashes(&[one, other], Shuffle::Object);
        Ok(())
    });
    tried.expect("each pair leaves a job that ends");
}

/// Minutes: all pairs of awaits, of which the test above takes a sample.
#[test]
#[ignore = "by command: cargo xtask crash mapreduce"]
fn two_workers_may_die_at_each_pair_of_awaits() {
    let awaits = with_crashes(&[], Shuffle::Object);
    for one in 1..=awaits {
        for other in 1..=awaits {
            with_crashes(&[one, other], Shuffle::Object);
        }
        println!("{one} of {awaits} awaits, with each of a second worker");
    }
}

#[test]
fn the_job_goes_on_without_the_worker_that_began_it() {
    on_model(|model| async move {
        put(&model, "in/x", TEXT).await;
        let first = process(&model, "first");
        let cloud_of_first = cloud(&model, &first);
        let output = Output::new(cloud_of_first.clone(), Default::default());
        let register = output.begin(&small()).await.expect("a free output");
        let submitted = worker(&cloud_of_first, &register).submit().await;
        submitted.expect("a cloud without faults");
        first.crash();
        // It knows nothing but where the output is.
        let other = cloud(&model, &process(&model, "other"));
        let output = Output::new(other.clone(), Default::default());
        let register = output.register().await.expect("readable").expect("there");
        succeeded(
            &worker(&other, &register)
                .run()
                .await
                .expect("a cloud without faults"),
        );
        assert_eq!(lines(&model), COUNTS);
    });
}

#[test]
fn a_task_has_one_winner_in_one_of_several_domains() {
    let model = slow(Profile::default());
    let executor = model.executor.clone();
    executor.run(async {
        put(&model, "in/x", TEXT).await;
        let definition = Definition {
            shards: 3,
            ..small()
        };
        let (first, register) = begun(&model, "first", &definition).await;
        let second = worker(&cloud(&model, &process(&model, "second")), &register);
        let runtime = process(&model, "both").runtime();
        let runs = [first, second].map(|own| runtime.spawn(async move { own.run().await }));
        // Each task with the domains that had a winner for it.
        let mut winners: BTreeMap<String, BTreeSet<(String, String)>> = BTreeMap::new();
        while model.object("_SUCCESS").is_none() {
            for domain in model.domains.list().await.expect("a cloud without faults") {
                let select = format!("select winner from `{domain}` limit 2500");
                let page = model
                    .domains
                    .select(&select, None, ReadConsistency::Strong)
                    .await;
                for item in page.unwrap_or_default().items {
                    let won = item
                        .attributes
                        .into_iter()
                        .map(|one| (domain.clone(), one.value));
                    winners.entry(item.name).or_default().extend(won);
                }
            }
            model.clock.sleep(Duration::from_millis(5)).await;
        }
        for run in runs {
            succeeded(
                &run.await
                    .expect("it lives")
                    .expect("a cloud without faults"),
            );
        }
        winners.retain(|_, of| !of.is_empty());
        assert_eq!(winners.len(), 6, "{winners:?}");
        assert!(winners.values().all(|of| of.len() == 1), "{winners:?}");
        let domains = winners.values().flatten().map(|(domain, _)| domain);
        assert_eq!(domains.collect::<BTreeSet<_>>().len(), 3);
        assert_eq!(lines(&model), COUNTS);
    });
    executor.shut_down();
}

#[test]
fn more_tasks_than_a_page_of_rows_are_all_counted() {
    on_model(|model| async move {
        let words: Vec<String> = (0..2_600).map(|number| format!("w{number}\n")).collect();
        put(&model, "in/x", words.concat()).await;
        let definition = Definition {
            split_bytes: 5,
            ..small()
        };
        let register = run(&model, &definition, 1).await;
        succeeded(&register);
        assert_eq!(lines(&model).len(), 2_600);
        let cloud = cloud(&model, &process(&model, "reader"));
        let output = Output::new(cloud, Default::default());
        let success = output.success().await.expect("readable").expect("complete");
        assert!(2_500 < success.timeline.len());
    });
}

#[test]
fn a_value_above_any_message_is_kept_whole() {
    on_model(|model| large_values(model, Shuffle::Object));
    on_model(|model| large_values(model, Shuffle::Queue));
}

async fn large_values(model: Model, shuffle: Shuffle) {
    let long = "x".repeat(400_000);
    put(&model, "in/x", format!("k\t{long}1\nk\t{long}2\n")).await;
    let definition = Definition {
        inputs: vec!["mem://in/**".to_owned(), "mem://in/**".to_owned()],
        split_bytes: 1 << 20,
        shuffle,
        ..definition("join", &[])
    };
    succeeded(&run(&model, &definition, 2).await);
    let found = lines(&model);
    assert_eq!(found.len(), 4);
    assert_eq!(found[3], format!("k\t{long}2\t{long}2"));
}

#[test]
fn memory_bounds_runs_and_nothing_is_lost() {
    on_model(|model| async move {
        let words: Vec<String> = (0..5_000)
            .map(|n| format!("word{}\n", n * 7 % 9_973))
            .collect();
        put(&model, "in/x", words.concat()).await;
        let definition = Definition {
            reduces: 1,
            split_bytes: 10_000,
            ..definition("sort", &[])
        };
        let first = cloud(&model, &process(&model, "run"));
        let output = Output::new(first.clone(), Default::default());
        let register = output.begin(&definition).await.expect("a free output");
        // A table is full after some hundred lines, and few runs may be open at once.
        let settings = fader_mapreduce::Settings {
            slots: 1,
            memory_bytes: 60_000,
        };
        let made = Worker::new(output.clone(), register, stage::tools(&first), settings);
        let ended = made.expect("a known program").run().await;
        succeeded(&ended.expect("a cloud without faults"));
        let mut sorted: Vec<&str> = words.iter().map(|word| word.trim_end()).collect();
        sorted.sort_unstable();
        assert_eq!(stage::text(&model), sorted.join("\n") + "\n");
        assert_clean(&model);
    });
}

/// A part that is larger than memory is put together elsewhere. Other programs take each key whose
/// last component begins with `part` for an output.
#[test]
fn only_parts_are_named_like_parts() {
    let model = slow(Profile::default());
    let executor = model.executor.clone();
    executor.run(async {
        let words: Vec<String> = (0..20_000).map(|n| format!("word{n}\n")).collect();
        put(&model, "in/x", words.concat()).await;
        let definition = Definition {
            reduces: 1,
            split_bytes: 50_000,
            lease_ms: 1_000,
            ..definition("sort", &[])
        };
        let first = cloud(&model, &process(&model, "run"));
        let output = Output::new(first.clone(), Default::default());
        let register = output.begin(&definition).await.expect("a free output");
        let settings = fader_mapreduce::Settings {
            memory_bytes: 200_000,
            ..Default::default()
        };
        let made = Worker::new(output.clone(), register, stage::tools(&first), settings);
        let made = made.expect("a known program");
        let run = process(&model, "run").runtime();
        let run = run.spawn(async move { made.run().await });
        let mut staged = BTreeSet::new();
        while model.object("_SUCCESS").is_none() {
            let keys = model.object_keys().into_iter();
            staged.extend(keys.filter(|key| key.contains("/whole/")));
            model.clock.sleep(Duration::from_millis(5)).await;
        }
        let name = |key: &String| key.rsplit('/').next().unwrap_or_default().to_owned();
        let names: Vec<String> = staged.iter().map(name).collect();
        assert_eq!(names, ["of-part-00000"]);
        succeeded(
            &run.await
                .expect("it lives")
                .expect("a cloud without faults"),
        );
        assert_eq!(lines(&model).len(), 20_000);
    });
    executor.shut_down();
}

#[test]
fn messages_that_are_lost_or_nonsense_are_sent_again_or_dropped() {
    on_model(|model| async move {
        put(&model, "in/x", TEXT).await;
        let (own, register) = begun(&model, "run", &small()).await;
        let queue = format!("mr-{}-plan", register.job);
        let how = Receive {
            max: 10,
            visibility: Some(Duration::from_secs(1)),
            wait: Duration::ZERO,
        };
        let received = model.queues.receive(&queue, &how).await.expect("a queue");
        let receipts: Vec<_> = received
            .into_iter()
            .map(|message| message.receipt)
            .collect();
        assert_eq!(receipts.len(), 1);
        model
            .queues
            .remove(&queue, &receipts)
            .await
            .expect("a queue");
        for body in [
            "{}",
            "no order",
            "{\"task\":\"m-00000\"}",
            "{\"task\":\"p-7\"}",
        ] {
            let sent = model.queues.send(&queue, &[body.to_owned()]).await;
            sent.expect("a queue");
        }
        succeeded(&own.run().await.expect("a cloud without faults"));
        assert_eq!(lines(&model), COUNTS);
    });
}

#[test]
fn input_that_changes_fails_the_job_by_name() {
    let model = slow(Profile {
        seed: 1,
        ..Profile::default()
    });
    let executor = model.executor.clone();
    executor.run(async {
        put(&model, "in/x", TEXT).await;
        let (own, register) = begun(&model, "run", &small()).await;
        let output = Output::new(cloud(&model, &process(&model, "o")), Default::default());
        let ended = process(&model, "worker")
            .runtime()
            .spawn(async move { own.run().await });
        // Until there is a plan.
        let key = format!("_fader/{}/p-00000", register.job);
        while !model.object_keys().iter().any(|own| own.starts_with(&key)) {
            model.clock.sleep(Duration::from_millis(1)).await;
        }
        put(&model, "in/x", "other text, other length\n").await;
        let ended = ended
            .await
            .expect("it lives")
            .expect("a cloud without faults");
        assert_eq!(ended.state, State::Failed);
        assert!(ended.reason.contains("input x was changed"), "{ended:?}");
        output.clean().await.expect("a cloud without faults");
        assert_clean(&model);
    });
    executor.shut_down();
}
