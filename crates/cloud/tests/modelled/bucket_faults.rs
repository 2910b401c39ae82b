//! Queues and domains in a modelled bucket whose requests fail, come late and lose their answers,
//! while processes crash and start again.

#![allow(clippy::unwrap_used, reason = "a test may fail here")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fader_cloud::bucket::{BucketDomains, BucketQueues};
use fader_cloud::conformance::{SystemUnderTest, domains, judge, queues};
use fader_cloud::model::{
    Call, ETags, FaultRates, Latency, Model, ObjectProfile, Process, Profile, Skew, run,
};
use fader_cloud::{
    Attribute, AttributePut, Domains, ErrorKind, Expected, ItemPut, QueueSettings, Queues,
    ReadConsistency, Receive, Runtime,
};
use object_store::path::Path;

const VISIBILITY: Duration = Duration::from_secs(8);
/// How long processes work.
const WORK: Duration = Duration::from_secs(90);

fn profile(seed: u64, faults: u16) -> Profile {
    let call = |ms| Call {
        latency: Latency::LogNormal {
            median: Duration::from_millis(ms),
            sigma: 0.5,
        },
        faults: FaultRates {
            unavailable: faults,
            throttled: faults / 2,
            conflict: faults / 2,
            lost_request: faults,
            lost_answer: faults,
            late: faults,
        },
        timeout: Duration::from_secs(2),
        late_max: Duration::from_secs(30),
        ..Call::default()
    };
    Profile {
        seed,
        objects: ObjectProfile {
            get: call(25),
            put: call(30),
            delete: call(30),
            list: call(25),
            list_page: 3 + seed as usize % 5,
            e_tags: match seed % 2 {
                0 => ETags::OfBytes,
                _ => ETags::OfWrites,
            },
            ..ObjectProfile::default()
        },
        ..Profile::default()
    }
}

fn queues_on(model: &Model, process: &Process, runtime: &Runtime) -> BucketQueues {
    let objects = model.cloud(process).objects;
    BucketQueues::new(objects, Path::from("p"), runtime.clone())
}

fn domains_on(model: &Model, process: &Process, runtime: &Runtime) -> BucketDomains {
    let objects = model.cloud(process).objects;
    BucketDomains::new(objects, Path::from("p"), runtime.clone())
}

#[test]
fn bucket_services_keep_the_contract_on_modelled_objects() {
    for seed in 0..6 {
        let model = Model::new(profile(seed, 0));
        let process = model.executor.process("one", Skew::default());
        let runtime = process.runtime();
        let clock = process.clock();
        let verdicts = run(&model.clock, async {
            let mut verdicts = Vec::new();
            let mut tell = |verdict| verdicts.push(verdict);
            let service = queues_on(&model, &process, &runtime);
            let subject = SystemUnderTest {
                service: &service as &dyn Queues,
                clock: &*clock,
                prefix: "t",
            };
            queues(&subject, &mut tell).await;
            let service = domains_on(&model, &process, &runtime);
            let subject = SystemUnderTest {
                service: &service as &dyn Domains,
                clock: &*clock,
                prefix: "t",
            };
            domains(&subject, &mut tell).await;
            verdicts
        });
        assert_eq!(judge(&verdicts, &[]).map(drop), Ok(()), "seed {seed}");
    }
}

/// What is known of all messages.
#[derive(Debug, Default)]
struct Book {
    acknowledged: BTreeSet<String>,
    received: BTreeSet<String>,
    removed: BTreeSet<String>,
    /// Until when the last receiver holds each, at least.
    held: BTreeMap<String, Duration>,
    wrong: Vec<String>,
}

impl Book {
    /// Messages reached a receive that began at `began`.
    fn receive(&mut self, ids: &[String], began: Duration, now: Duration) {
        for id in ids {
            if self.removed.contains(id) {
                self.wrong.push(format!("{id}: received after its remove"));
            }
            let until = self.held.get(id).copied().unwrap_or_default();
            if now < until {
                self.wrong.push(format!("{id}: two holders at {now:?}"));
            }
            self.held
                .insert(id.clone(), began + VISIBILITY - VISIBILITY / 500);
            self.received.insert(id.clone());
        }
    }
}

async fn produce(queues: BucketQueues, runtime: Runtime, book: Arc<Mutex<Book>>) {
    while runtime.clock.monotonic() < WORK {
        let count = 1 + runtime.random() as usize % 4;
        let bodies = vec!["x".to_owned(); count];
        if let Ok(sent) = queues.send("q", &bodies).await {
            let mut book = book.lock().unwrap();
            book.acknowledged
                .extend(sent.into_iter().filter_map(Result::ok));
        }
        let pause = Duration::from_millis(runtime.random() % 3000);
        runtime.clock.sleep(pause).await;
    }
}

async fn consume(queues: BucketQueues, runtime: Runtime, book: Arc<Mutex<Book>>, until: Duration) {
    while runtime.clock.monotonic() < until {
        let how = Receive {
            max: 1 + runtime.random() as usize % 10,
            visibility: Some(VISIBILITY),
            wait: Duration::from_secs(runtime.random() % 3),
        };
        let began = runtime.clock.monotonic();
        let Ok(found) = queues.receive("q", &how).await else {
            continue;
        };
        let ids: Vec<String> = found.iter().map(|message| message.id.clone()).collect();
        book.lock()
            .unwrap()
            .receive(&ids, began, runtime.clock.monotonic());
        let pause = Duration::from_millis(runtime.random() % 12_000 / (1 + runtime.random() % 8));
        runtime.clock.sleep(pause).await;
        let kept = runtime.random() as usize % (found.len() + 1) / 3;
        let receipts: Vec<_> = found[kept..]
            .iter()
            .map(|one| one.receipt.clone())
            .collect();
        if receipts.is_empty() {
            continue;
        }
        let removed = queues.remove("q", &receipts).await;
        let mut book = book.lock().unwrap();
        for (removed, id) in removed.into_iter().flatten().zip(&ids[kept..]) {
            if removed.is_ok() {
                book.removed.insert(id.clone());
            }
        }
    }
}

#[test]
#[allow(clippy::too_many_lines, reason = "one scenario, from top to bottom")]
fn no_message_is_lost_doubled_or_left_over() {
    let mut total = 0;
    for seed in 0..20 {
        let model = Model::new(profile(seed, 12));
        let book = Arc::new(Mutex::new(Book::default()));
        run(&model.clock, async {
            let executor = &model.executor;
            model.set_profile(profile(seed, 0));
            let one = executor.process("creator", Skew::default());
            let creator = queues_on(&model, &one, &one.runtime());
            let settings = QueueSettings::default();
            creator.create("q", &settings).await.unwrap();
            model.set_profile(profile(seed, 12));
            let processes: Vec<Process> = (0..5)
                .map(|number| {
                    let skew = Skew {
                        offset_ms: number * 1000 - 2000,
                        drift_ppm: number * 200 - 400,
                    };
                    executor.process(&format!("p{number}"), skew)
                })
                .collect();
            let start = |number: usize, process: &Process, runtime: Runtime| {
                let queues = queues_on(&model, process, &runtime);
                let (clock, book) = (runtime.clone(), book.clone());
                match number {
                    0 | 1 => drop(runtime.spawn(produce(queues, clock, book))),
                    _ => drop(runtime.spawn(consume(queues, clock, book, WORK))),
                }
            };
            for (number, process) in processes.iter().enumerate() {
                start(number, process, process.runtime());
            }
            // Crashes.
            let harness = executor.harness().runtime();
            while executor.now() < WORK {
                let number = harness.random() as usize % processes.len();
                let process = &processes[number];
                process.crash_after(1 + harness.random() % 200);
                let pause = Duration::from_millis(harness.random() % 8000);
                harness.clock.sleep(pause).await;
                if !process.is_alive() {
                    start(number, process, process.restart());
                }
            }
            // Rest: what landed late is swept, and all else drained.
            model.set_profile(profile(seed, 0));
            harness.clock.sleep(Duration::from_secs(60)).await;
            let fresh = executor.process("fresh", Skew::default());
            let queues = queues_on(&model, &fresh, &fresh.runtime());
            let mut empty = 0;
            while empty < 3 {
                let how = Receive {
                    max: 10,
                    visibility: Some(VISIBILITY),
                    wait: Duration::from_secs(20),
                };
                let began = executor.now();
                let found = queues.receive("q", &how).await.unwrap();
                empty = if found.is_empty() { empty + 1 } else { 0 };
                let ids: Vec<String> = found.iter().map(|one| one.id.clone()).collect();
                book.lock().unwrap().receive(&ids, began, executor.now());
                let receipts: Vec<_> = found.into_iter().map(|one| one.receipt).collect();
                for receipts in receipts.chunks(10) {
                    queues.remove("q", receipts).await.unwrap();
                }
            }
            harness.clock.sleep(Duration::from_secs(60)).await;
        });
        let book = book.lock().unwrap();
        let lost: Vec<&String> = book.acknowledged.difference(&book.received).collect();
        assert!(lost.is_empty(), "seed {seed}: lost {lost:?}");
        assert!(book.wrong.is_empty(), "seed {seed}: {:?}", book.wrong);
        // A process may have died while it learned the time: a sweep deletes that.
        let mut left = model.object_keys();
        left.retain(|key| !key.starts_with("p/clock/"));
        assert_eq!(left, ["p/queues/q"], "seed {seed}");
        total += book.acknowledged.len();
    }
    assert!(500 < total, "{total} messages");
}

fn of_item(name: &str, value: &str, replace: bool) -> ItemPut {
    ItemPut {
        name: name.to_owned(),
        attributes: vec![AttributePut {
            name: "v".to_owned(),
            value: value.to_owned(),
            replace,
        }],
    }
}

/// What is known of all writes.
#[derive(Debug, Default)]
struct Ledger {
    /// Counter values, each by how many acknowledged writes.
    counted: BTreeMap<u64, usize>,
    unknown: usize,
    added: BTreeSet<String>,
    refused: BTreeSet<String>,
}

impl Ledger {
    fn added(&mut self, name: String, outcome: Result<(), ErrorKind>) {
        match outcome {
            Ok(()) => drop(self.added.insert(name)),
            Err(ErrorKind::Ambiguous) => {}
            Err(_) => drop(self.refused.insert(name)),
        }
    }
}

async fn write(domains: BucketDomains, runtime: Runtime, ledger: Arc<Mutex<Ledger>>) {
    while runtime.clock.monotonic() < WORK {
        let found = domains
            .get("dom", "counter", &[], ReadConsistency::Strong)
            .await;
        if let Ok(found) = found {
            let known: u64 = found.first().map_or(0, |one| one.value.parse().unwrap());
            let condition = match found.first() {
                None => Expected::Absent("v".to_owned()),
                Some(one) => Expected::Value(Attribute {
                    name: "v".to_owned(),
                    value: one.value.clone(),
                }),
            };
            let next = of_item("counter", &(known + 1).to_string(), true);
            let written = domains.put("dom", &next, Some(&condition)).await;
            let mut ledger = ledger.lock().unwrap();
            match written.map_err(|error| error.kind) {
                Ok(()) => *ledger.counted.entry(known + 1).or_default() += 1,
                Err(ErrorKind::Ambiguous) => ledger.unknown += 1,
                Err(_) => {}
            }
        }
        let name = format!("{:016x}", runtime.random());
        let added = domains
            .put("dom", &of_item("set", &name, false), None)
            .await;
        ledger
            .lock()
            .unwrap()
            .added(name, added.map_err(|error| error.kind));
        let pause = Duration::from_millis(runtime.random() % 4000);
        runtime.clock.sleep(pause).await;
    }
}

#[test]
fn no_write_is_lost_or_doubled() {
    for seed in 0..20 {
        let model = Model::new(profile(seed, 12));
        let ledger = Arc::new(Mutex::new(Ledger::default()));
        run(&model.clock, async {
            let executor = &model.executor;
            model.set_profile(profile(seed, 0));
            let one = executor.process("creator", Skew::default());
            let creator = domains_on(&model, &one, &one.runtime());
            creator.create("dom").await.unwrap();
            model.set_profile(profile(seed, 12));
            let processes: Vec<Process> = (0..4)
                .map(|number| executor.process(&format!("p{number}"), Skew::default()))
                .collect();
            let start = |process: &Process, runtime: Runtime| {
                let domains = domains_on(&model, process, &runtime);
                drop(runtime.spawn(write(domains, runtime.clone(), ledger.clone())));
            };
            for process in &processes {
                start(process, process.runtime());
            }
            let harness = executor.harness().runtime();
            while executor.now() < WORK {
                let process = &processes[harness.random() as usize % processes.len()];
                process.crash_after(1 + harness.random() % 200);
                let pause = Duration::from_millis(harness.random() % 8000);
                harness.clock.sleep(pause).await;
                if !process.is_alive() {
                    // A write that its process did not live to see is unknown.
                    ledger.lock().unwrap().unknown += 1;
                    start(process, process.restart());
                }
            }
            model.set_profile(profile(seed, 0));
            harness.clock.sleep(Duration::from_secs(60)).await;
            let fresh = executor.process("fresh", Skew::default());
            let domains = domains_on(&model, &fresh, &fresh.runtime());
            let counter = domains
                .get("dom", "counter", &[], ReadConsistency::Strong)
                .await;
            let counter: usize = counter.unwrap()[0].value.parse().unwrap();
            let set = domains
                .get("dom", "set", &[], ReadConsistency::Strong)
                .await;
            let set: BTreeSet<String> = set.unwrap().into_iter().map(|one| one.value).collect();
            let ledger = ledger.lock().unwrap();
            let twice = ledger.counted.iter().find(|(_, writes)| 1 < **writes);
            assert_eq!(twice, None, "seed {seed}");
            let counted = ledger.counted.len();
            let range = counted..=counted + ledger.unknown;
            assert!(
                range.contains(&counter),
                "seed {seed}: {counter} of {range:?}"
            );
            assert!(ledger.added.is_subset(&set), "seed {seed}: lost");
            assert!(ledger.refused.is_disjoint(&set), "seed {seed}: refused");
            assert!(30 < counted, "seed {seed}: {counted}");
        });
    }
}
