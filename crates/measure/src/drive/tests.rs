//! Runs in virtual time on the model of domains.

use std::time::Duration;

use fader_cloud::model::{Call, DomainProfile, Latency, Model, Profile, Skew};
use fader_history::check::{registers, staleness};
use fader_history::object::Log;
use fader_history::{Clock, Header, Rules};

use super::*;
use crate::generator::{Load, Until};
use crate::providers::{EVENTUAL, InDomain, STRONG};
use crate::schedule::{Arrivals, Rate, Starts};
use crate::ycsb::{Mix, Ycsb};

const MILLI: u64 = 1_000_000;

/// A service whose reads take 5 ms and whose writes take 20.
fn model() -> Model {
    let call = |milliseconds| Call {
        latency: Latency::Constant(Duration::from_millis(milliseconds)),
        ..Call::default()
    };
    Model::new(Profile {
        seed: 3,
        domains: DomainProfile {
            read: call(5),
            write: call(20),
            ..DomainProfile::default()
        },
        ..Profile::default()
    })
}

fn run(load: Load, until: Until, connections: u32, letter: char, level: &str) -> Log {
    let model = model();
    let process = model.executor.process("clients", Skew::default());
    let cloud = model.cloud(&process);
    let workload = Ycsb::new(Mix::named(letter).unwrap(), 10, vec![1.0], 1);
    let operations = model.executor.run(async {
        cloud.domains.create("dom").await.unwrap();
        let party = Party {
            plan: Plan {
                name: "test".to_owned(),
                load,
                until,
                connections,
                threads: 1,
                errors_max: None,
                levels: vec![level.into()],
            },
            workload: Arc::new(workload),
            provider: Arc::new(InDomain {
                domains: cloud.domains.clone(),
                domain: "dom".to_owned(),
                value_bytes: 1,
            }),
            endpoint: "model".into(),
            first: 7,
        };
        let origin = cloud.runtime.clock.monotonic();
        drive(&cloud.runtime, origin, party).await
    });
    Log {
        header: Header {
            clock: Clock::Virtual,
            ..Header::default()
        },
        operations,
    }
}

fn constant(rate: f64) -> Load {
    Load::Open(Starts::Rate {
        rate: Rate::Constant(rate),
        arrivals: Arrivals::Constant,
        seed: 0,
    })
}

#[test]
fn an_open_loop_begins_on_time_in_virtual_time() {
    let until = Until::Elapsed(Duration::from_secs(10));
    let log = run(constant(1000.0), until, 64, 'c', STRONG);
    let mut times: Vec<u64> = log.operations.iter().map(|one| one.called.nanos).collect();
    times.sort_unstable();
    assert_eq!(times, (0..10_000).map(|n| n * MILLI).collect::<Vec<_>>());
    for operation in &log.operations {
        assert_eq!(operation.intended, operation.called);
        assert_eq!(
            operation.returned().nanos,
            operation.called.nanos + 5 * MILLI
        );
        assert!((7..71).contains(&operation.process));
    }
}

#[test]
fn a_closed_loop_asks_when_it_was_answered() {
    let log = run(Load::Closed, Until::Operations(30), 3, 'c', STRONG);
    let ends = log.operations.iter().map(|one| one.returned().nanos);
    assert_eq!(ends.max(), Some(10 * 5 * MILLI));
    assert_eq!(log.operations.len(), 30);
}

/// What is asked of the model through the whole path is linearizable, and every read is fresh. A
/// change of what was read is two operations, and fails if another was first.
#[test]
fn logs_of_the_model_are_linearizable() {
    for letter in ['a', 'f', 'd'] {
        let until = Until::Operations(2000);
        let log = run(constant(2000.0), until, 100, letter, STRONG);
        assert!(log.operations.iter().all(|one| one.done().is_some()));
        let judged = registers(&log, &|_| true, &Rules::default());
        let judged = judged.unwrap_or_else(|fault| panic!("{letter}: {fault:?}"));
        assert!(50 < judged.writes && 500 < judged.reads, "{judged:?}");
    }
    let modifies = run(Load::Closed, Until::Operations(500), 5, 'f', EVENTUAL);
    let unmet = |one: &&Operation| one.done().is_some_and(|(_, reply)| reply.is_unmet);
    assert!(0 < modifies.operations.iter().filter(unmet).count());
}

/// Ends after the fifth item.
struct UpToFive;

impl Workload for UpToFive {
    fn plan(&self, sequence: u64) -> Intent {
        crate::ycsb::Fill.plan(sequence)
    }

    fn goes_on(&self, operation: &Operation) -> bool {
        &*operation.action.key != "item-0000000004"
    }
}

#[test]
fn a_party_ends_when_it_is_told_to() {
    let model = model();
    let cloud = model.cloud(&model.executor.process("clients", Skew::default()));
    let operations = model.executor.run(async {
        cloud.domains.create("dom").await.unwrap();
        let party = Party {
            plan: Plan {
                name: "test".to_owned(),
                load: constant(1.0),
                until: Until::Operations(100),
                connections: 1,
                threads: 1,
                errors_max: None,
                levels: Vec::new(),
            },
            workload: Arc::new(UpToFive),
            provider: Arc::new(InDomain {
                domains: cloud.domains.clone(),
                domain: "dom".to_owned(),
                value_bytes: 1,
            }),
            endpoint: "model".into(),
            first: 0,
        };
        drive(&cloud.runtime, Duration::ZERO, party).await
    });
    assert_eq!(operations.len(), 5);
    // It began when the domain was there: what was due before waited, and says so.
    assert_eq!(operations[0].intended.nanos, 0);
    assert_eq!(operations[0].called.nanos, 20 * MILLI);
    let log = Log {
        header: Header::default(),
        operations,
    };
    assert!(staleness(&log, &Rules::default()).is_ok());
}
