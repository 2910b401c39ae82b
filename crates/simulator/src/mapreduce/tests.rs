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

/// Seeds that each mutant is searched in, after the one that is known.
#[cfg(feature = "mutants")]
const SEEDS: u64 = 150;

/// Seeds that told; they drift when plans change.
#[cfg(feature = "mutants")]
const KNOWN: [(fader_mapreduce::Guard, u64); 0] = [];

/// A line `caught: …` for each rule that a run misses when it is taken away.
#[cfg(feature = "mutants")]
#[test]
fn every_mutant_is_caught() {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};

    let search = |guard| {
        let known = KNOWN.iter().filter(|(own, _)| *own == guard);
        let mut seeds = known.map(|(_, seed)| *seed).chain(1..=SEEDS);
        seeds.find_map(|seed| {
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
    let (next, missed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(guard) =
                    fader_mapreduce::Guard::ALL.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    match search(*guard) {
                        Some((seed, by)) => println!("caught: {guard:?}, seed {seed}, by {by:?}"),
                        None => missed.lock().expect("no panic").push(*guard),
                    }
                }
            });
        }
    });
    let missed = missed.into_inner().expect("no panic");
    assert_eq!(missed, [], "not caught in {SEEDS} seeds");
}
