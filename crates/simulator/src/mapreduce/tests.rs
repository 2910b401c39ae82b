//! Runs repeat, and hold every promise.

use std::time::Duration;

use fader_cloud::model::{Model, Profile, Skew, Staleness};
use fader_cloud::{AttributePut, Clock as _, Expected, ItemPut, ReadConsistency};
use fader_history::object::{self, Reply, Value, Verb};
use fader_history::{Moment, Outcome};

use super::*;
use crate::cloud::strong_call;

#[test]
fn a_plan_gives_the_same_run_twice() {
    for seed in 1..9 {
        let plan = Plan::new(seed);
        let (one, other) = (run(&plan, true), run(&plan, true));
        assert_eq!(one.failure, None, "seed {seed}");
        assert_eq!(one.digest, other.digest, "seed {seed}");
        assert_eq!(one.trace, other.trace, "seed {seed}");
    }
}

#[test]
fn scripts_find_nothing_broken() {
    for (guard, script) in scripts::SCRIPTS {
        assert_eq!(
            script(fader_mapreduce::Guards::default()),
            None,
            "{guard:?}"
        );
    }
}

#[test]
fn a_beat_that_lands_late_does_not_return() {
    let guards = fader_mapreduce::Guards::default();
    assert_eq!(scripts::beats_that_land_late(guards), None);
}

/// A call on the winner of one row, by the times of its begin and end.
fn call(begin: u64, end: u64, verb: Verb, reply: Reply) -> object::Operation {
    object::Operation {
        end: Some((Moment::at(end), Outcome::Done(reply))),
        ..strong_call("mr-1-0/m-00017", verb, Moment::at(begin))
    }
}

/// A put that won, or did not.
fn put(begin: u64, end: u64, winner: &str, reply: Reply) -> object::Operation {
    let verb = Verb::Swap {
        from: Value::None,
        to: winner.into(),
    };
    call(begin, end, verb, reply)
}

/// A strong read.
fn read(begin: u64, end: u64, shown: Value) -> object::Operation {
    call(begin, end, Verb::Read, Reply::shows(shown))
}

/// What the check of rows says of these calls: how many it ordered, or which promise they break.
fn judged(operations: &[object::Operation]) -> Result<usize, String> {
    let log = object::Log {
        operations: operations.to_vec(),
        ..object::Log::default()
    };
    checks::are_linear(&log).map_err(|failure| {
        let promise = failure.text.split(" violated").next();
        promise.unwrap_or_default().to_owned()
    })
}

/// What `registers` finds broken.
const REGISTERS: &str = "linearizability of registers";
/// What `search` alone finds broken.
const SEARCH: &str = "linearizability";

#[test]
fn one_winner_that_stays_is_linearizable() {
    let (won, lost) = (Reply::default(), Reply::unmet());
    let unknown = object::Operation {
        end: Some((Moment::at(30), Outcome::Unknown)),
        ..put(20, 30, "b", won)
    };
    let calls = [
        read(0, 10, Value::None),
        unknown,
        put(25, 45, "a", lost.clone()),
        // Beside a read that shows the winner.
        read(32, 40, Value::None),
        read(35, 42, "b".into()),
        put(50, 60, "c", lost),
        read(70, 80, "b".into()),
    ];
    assert_eq!(judged(&calls), Ok(calls.len()));
}

#[test]
fn a_stale_read_of_a_winner_is_told() {
    let won = put(0, 10, "a", Reply::default());
    for stale in [Value::None, "b".into()] {
        let calls = [won.clone(), read(5, 15, "a".into()), read(20, 30, stale)];
        assert_eq!(judged(&calls), Err(REGISTERS.to_owned()));
    }
}

/// One after the other, and both at once.
#[test]
fn two_winners_are_told() {
    for (begin, promise) in [(20, REGISTERS), (5, SEARCH)] {
        let calls = [
            put(0, 10, "a", Reply::default()),
            put(begin, 30, "b", Reply::default()),
        ];
        assert_eq!(judged(&calls), Err(promise.to_owned()));
    }
}

#[test]
fn a_loser_of_a_row_without_a_winner_is_told() {
    let calls = [
        put(0, 10, "a", Reply::unmet()),
        put(20, 30, "b", Reply::default()),
    ];
    assert_eq!(judged(&calls), Err(SEARCH.to_owned()));
}

/// What the check says when a copy, a minute behind, answers a Select: its winner is missing.
fn select_of_a_copy(reading: ReadConsistency, is_deleted: bool) -> Result<usize, &'static str> {
    let mut profile = Profile::default();
    profile.domains.staleness = Staleness::Constant(Duration::from_secs(60));
    profile.domains.strong_reads = profile.domains.staleness.clone();
    let model = Model::new(profile);
    let record = rows::Record::new(model.clock.clone());
    let process = model.executor.process("worker", Skew::default());
    let domains = record.of(model.cloud(&process)).domains;
    let won = ItemPut {
        name: "m-00017".to_owned(),
        attributes: vec![AttributePut {
            name: "winner".to_owned(),
            value: "a".to_owned(),
            replace: true,
        }],
    };
    let absent = Expected::Absent("winner".to_owned());
    let found = model.executor.search(async {
        domains.create("mr-1-0").await?;
        model.clock.sleep(Duration::from_secs(120)).await;
        domains.put("mr-1-0", &won, Some(&absent)).await?;
        if is_deleted {
            domains.delete("mr-1-0").await?;
        }
        let select = "select * from `mr-1-0` where itemName() like 'm-%' limit 2500";
        domains.select(select, None, reading).await
    });
    let page = found.expect("it ends").expect("a cloud without faults");
    assert_eq!(page.items, []);
    checks::are_linear(&record.log()).map_err(|failure| failure.guarantee)
}

#[test]
fn a_row_that_a_strong_read_lacks_is_told_until_its_domain_is_deleted() {
    use ReadConsistency::{Eventual, Strong};
    assert_eq!(select_of_a_copy(Strong, false), Err("rows"));
    assert_eq!(select_of_a_copy(Eventual, false), Ok(1));
    assert_eq!(select_of_a_copy(Strong, true), Ok(1));
}

/// Strong reads of jobs are answered by copies.
#[test]
fn jobs_on_domains_that_break_their_promise_are_told() {
    for seed in 1..9 {
        let mut plan = Plan::new(seed);
        plan.cloud.profile.domains.strong_reads = Staleness::Uniform(Duration::from_secs(2));
        let failure = run(&plan, false).failure;
        let guarantee = failure.map(|failure| failure.guarantee);
        assert_eq!(guarantee, Some("rows"), "seed {seed}");
    }
}

/// Each script tells its mutant.
#[cfg(feature = "mutants")]
#[test]
fn scripts_tell_their_mutants() {
    for (guard, script) in scripts::SCRIPTS {
        let found = script(fader_mapreduce::Guards::without(guard));
        assert!(found.is_some(), "{guard:?} is not missed");
    }
}

/// Seeds that each mutant is searched in, unless a script tells.
#[cfg(feature = "mutants")]
const SEEDS: u64 = 150;

/// A later seed, where none of the first tells.
#[cfg(feature = "mutants")]
const RARE: [(fader_mapreduce::Guard, u64); 1] = [(fader_mapreduce::Guard::RegisterUpdate, 245)];

/// A line `caught: …` for each rule that a run misses when it is taken away.
#[cfg(feature = "mutants")]
#[test]
fn every_mutant_is_caught() {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};

    let search = |guard| {
        let script = scripts::SCRIPTS.iter().find(|(own, _)| *own == guard);
        if let Some((_, script)) = script {
            let found = script(fader_mapreduce::Guards::without(guard));
            return found.map(|failure| ("its script".to_owned(), failure.guarantee));
        }
        let rare = RARE.into_iter().filter(|(own, _)| *own == guard);
        rare.map(|(_, seed)| seed)
            .chain(1..=SEEDS)
            .find_map(|seed| {
                let mut plan = Plan::new(seed);
                plan.removed = Some(guard);
                let found = catch_unwind(AssertUnwindSafe(|| run(&plan, false).failure));
                let guarantee = match found {
                    Ok(None) => return None,
                    Ok(Some(failure)) => failure.guarantee,
                    Err(_) => "panic",
                };
                Some((format!("seed {seed}"), guarantee))
            })
    };
    let (next, missed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(guard) =
                    fader_mapreduce::Guard::ALL.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    match search(*guard) {
                        Some((at, by)) => println!("caught: {guard:?}, {at}, by {by:?}"),
                        None => missed.lock().expect("no panic").push(*guard),
                    }
                }
            });
        }
    });
    let missed = missed.into_inner().expect("no panic");
    assert_eq!(missed, [], "not caught in {SEEDS} seeds");
}
