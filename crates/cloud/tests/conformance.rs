//! The models keep what they promise: all of it in fair weather, and in weather that stays within
//! the contract.

use fader_cloud::conformance::{Subject, Verdict, domains, judge, objects, queues};
use fader_cloud::model::{Model, Weather, run};
use fader_cloud::{Domains, Queues};
use object_store::ObjectStore;

/// Nothing fails, but nothing is better than promised.
fn unkind(seed: u64) -> Weather {
    Weather {
        seed,
        lag: 5,
        empty_receives: 500,
        disorder: 500,
        ..Weather::default()
    }
}

async fn all(model: &Model) -> Vec<Verdict> {
    let (clock, prefix) = (&*model.clock, "t");
    let mut verdicts = Vec::new();
    let mut tell = |verdict| verdicts.push(verdict);
    let subject = Subject {
        service: &*model.queues as &dyn Queues,
        clock,
        prefix,
    };
    queues(&subject, &mut tell).await;
    let subject = Subject {
        service: &*model.domains as &dyn Domains,
        clock,
        prefix,
    };
    domains(&subject, &mut tell).await;
    let subject = Subject {
        service: &*model.objects as &dyn ObjectStore,
        clock,
        prefix,
    };
    objects(&subject, &mut tell).await;
    verdicts
}

#[test]
fn the_models_keep_the_contract_in_fair_weather() {
    let model = Model::new(Weather::default());
    let verdicts = run(&model.clock, all(&model));
    assert_eq!(judge(&verdicts, &[]), Ok(18 + 19 + 15));
}

#[test]
fn the_models_keep_the_contract_at_their_worst() {
    for seed in 0..50 {
        let model = Model::new(unkind(seed));
        let verdicts = run(&model.clock, all(&model));
        assert_eq!(judge(&verdicts, &[]), Ok(18 + 19 + 15), "seed {seed}");
    }
}

/// A suite that cannot fail says nothing.
#[test]
fn a_cloud_that_loses_answers_and_messages_is_found_out() {
    let weather = Weather {
        seed: 1,
        unanswered: 300,
        resurrections: 1000,
        ..Weather::default()
    };
    let model = Model::new(weather);
    let complaints = judge(&run(&model.clock, all(&model)), &[]).unwrap_err();
    assert!(
        complaints.contains("what is removed is gone"),
        "{complaints}"
    );
    assert!(complaints.contains("a put adds values"), "{complaints}");
}

#[test]
fn an_excuse_that_is_not_needed_is_refused() {
    let model = Model::new(Weather::default());
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
