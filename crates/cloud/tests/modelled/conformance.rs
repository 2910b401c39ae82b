//! The models keep what they promise, by the default profile and by one that is no better than the
//! contract.

use fader_cloud::conformance::{SystemUnderTest, Verdict, domains, judge, objects, queues};
use std::time::Duration;

use fader_cloud::model::{
    Call, DomainProfile, FaultRates, Model, ObjectProfile, Profile, QueueProfile, Staleness, run,
};
use fader_cloud::{Domains, Queues};
use object_store::ObjectStore;

/// Promises of queues, domains and objects.
const ALL: usize = 18 + 19 + 15;

/// Nothing fails, but nothing is better than promised.
fn worst(seed: u64) -> Profile {
    Profile {
        seed,
        objects: ObjectProfile {
            list_page: 2,
            ..ObjectProfile::default()
        },
        queues: QueueProfile {
            empty_receives: 500,
            partial_receives: 500,
            reordered: 500,
            ..QueueProfile::default()
        },
        domains: DomainProfile {
            staleness: Staleness::Uniform(Duration::from_secs(5)),
            ..DomainProfile::default()
        },
    }
}

async fn all(model: &Model) -> Vec<Verdict> {
    let (clock, prefix) = (&*model.clock, "t");
    let mut verdicts = Vec::new();
    let mut tell = |verdict| verdicts.push(verdict);
    let subject = SystemUnderTest {
        service: &*model.queues as &dyn Queues,
        clock,
        prefix,
    };
    queues(&subject, &mut tell).await;
    let subject = SystemUnderTest {
        service: &*model.domains as &dyn Domains,
        clock,
        prefix,
    };
    domains(&subject, &mut tell).await;
    let subject = SystemUnderTest {
        service: &*model.objects as &dyn ObjectStore,
        clock,
        prefix,
    };
    objects(&subject, &mut tell).await;
    verdicts
}

/// It shows MDOMAIN-1, MODEL-2, MQUEUE-1 and MSTORE-1.
#[test]
fn the_models_keep_the_contract() {
    let model = Model::new(Profile::default());
    let verdicts = run(&model.clock, all(&model));
    assert_eq!(judge(&verdicts, &[]), Ok(ALL));
}

#[test]
fn the_models_keep_the_contract_at_their_worst() {
    for seed in 0..50 {
        let model = Model::new(worst(seed));
        let verdicts = run(&model.clock, all(&model));
        assert_eq!(judge(&verdicts, &[]), Ok(ALL), "seed {seed}");
    }
}

/// A suite that cannot fail says nothing.
#[test]
fn a_cloud_that_loses_answers_and_messages_is_found_out() {
    let mut profile = Profile {
        seed: 1,
        ..Profile::default()
    };
    profile.queues.resurrections = 1000;
    let write = &mut profile.domains.write;
    *write = Call {
        faults: FaultRates {
            lost_answer: 300,
            ..FaultRates::default()
        },
        ..Call::default()
    };
    let model = Model::new(profile);
    let complaints = judge(&run(&model.clock, all(&model)), &[]).unwrap_err();
    assert!(
        complaints.contains("what is removed is gone"),
        "{complaints}"
    );
    assert!(complaints.contains("a put adds values"), "{complaints}");
}

#[test]
fn an_excuse_that_is_not_needed_is_refused() {
    let model = Model::new(Profile::default());
    let verdicts = run(&model.clock, all(&model));
    let excused = [
        ("what is put is read", "it never was"),
        ("no promise", "none"),
    ];
    let complaints = judge(&verdicts, &excused).unwrap_err();
    assert_eq!(
        complaints,
        "what is put is read: kept, though it was excused: it never was\n\
         no promise: there is no such promise"
    );
}

#[test]
fn the_models_keep_the_contract_at_the_pace_of_2026() {
    for seed in 0..5 {
        // What no client survives without repeating calls is not judged here.
        let mut profile = Profile::of_2026(seed).without_faults();
        (profile.queues.duplicates, profile.queues.resurrections) = (0, 0);
        let model = Model::new(profile);
        let verdicts = run(&model.clock, all(&model));
        assert_eq!(judge(&verdicts, &[]), Ok(ALL), "seed {seed}");
    }
}
