//! Runs repeat, and hold every promise.

use super::*;

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
        assert_eq!(script(fader_database::Guards::default()), None, "{guard:?}");
    }
}

#[test]
fn some_runs_have_sixteen_clients_and_some_a_disk_tier() {
    let plans: Vec<Plan> = (1..=300).map(Plan::new).collect();
    let clients = |plan: &Plan| plan.cloud.processes.len();
    assert_eq!(plans.iter().map(clients).max(), Some(16));
    assert_eq!(plans.iter().map(clients).min(), Some(2));
    let with_disk = plans.iter().filter(|plan| plan.disk_bytes.is_some());
    assert_eq!(with_disk.count(), 120);
}

/// What fails without a fault is shown with one client and without faults. Here pages are too small
/// for a collection to be created.
#[test]
fn a_failing_plan_is_made_smaller_down_to_one_client() {
    let mut plan = Plan::new(5);
    assert!(plan.cloud.processes.len() > 4, "{}", plan.summary());
    plan.settings.leaf_bytes = 1;
    let failure = run(&plan, false).failure.expect("nothing is created");
    assert_eq!(failure.guarantee, "live");
    let (smaller, found) = shrink(&plan, &failure, 400);
    assert_eq!(found.guarantee, "live");
    let left = smaller.summary();
    let expected = "1 clients, 0 faults of processes, 0 kinds of calls with faults, 1s of faults";
    assert!(left.starts_with(expected), "{left}");
    assert_eq!(run(&smaller, false).failure, Some(found));
}

/// What a mutant breaks is still broken in a smaller plan, and whole with its guard.
#[cfg(feature = "mutants")]
#[test]
fn the_plan_of_a_mutant_is_made_smaller() {
    let guard = fader_database::Guard::PageIfMatch;
    let (plan, failure) = (1..=SEEDS)
        .find_map(|seed| {
            let mut plan = Plan::new(seed);
            plan.removed = Some(guard);
            let failure = run(&plan, false).failure?;
            Some((plan, failure))
        })
        .expect("it is caught");
    let (mut smaller, found) = shrink(&plan, &failure, 60);
    assert_eq!(found.guarantee, failure.guarantee);
    assert!(smaller.cloud.processes.len() <= plan.cloud.processes.len());
    assert_ne!(smaller.summary(), plan.summary());
    assert_eq!(run(&smaller, false).failure, Some(found));
    smaller.removed = None;
    assert_eq!(run(&smaller, false).failure, None);
}

/// Each script tells its mutant.
#[cfg(feature = "mutants")]
#[test]
fn scripts_tell_their_mutants() {
    for (guard, script) in scripts::SCRIPTS {
        let found = script(fader_database::Guards::without(guard));
        assert!(found.is_some(), "{guard:?} is not missed");
    }
}

/// Seeds that each mutant is searched in; the first that was found is tried first.
#[cfg(feature = "mutants")]
const SEEDS: u64 = 120;

/// A line `caught: …` for each rule that a run misses when it is taken away.
#[cfg(feature = "mutants")]
#[test]
fn every_mutant_is_caught() {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    let mut missed = Vec::new();
    for guard in fader_database::Guard::ALL {
        let script = scripts::SCRIPTS.iter().find(|(own, _)| *own == guard);
        let by_script = script.and_then(|(_, script)| {
            let found = script(fader_database::Guards::without(guard))?;
            Some((0, found.guarantee))
        });
        let by_seed = || {
            (1..=SEEDS).find_map(|seed| {
                let mut plan = Plan::new(seed);
                plan.removed = Some(guard);
                let found = catch_unwind(AssertUnwindSafe(|| run(&plan, false).failure));
                match found {
                    Ok(None) => None,
                    Ok(Some(failure)) => Some((seed, failure.guarantee)),
                    Err(_) => Some((seed, "panic")),
                }
            })
        };
        match by_script.or_else(by_seed) {
            Some((0, by)) => println!("caught: {guard:?}, its script, by {by:?}"),
            Some((seed, by)) => println!("caught: {guard:?}, seed {seed}, by {by:?}"),
            None => missed.push(guard),
        }
    }
    assert_eq!(missed, [], "not caught in {SEEDS} seeds");
}
