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
        assert_eq!(
            script(fader_mapreduce::Guards::default()),
            None,
            "{guard:?}"
        );
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
