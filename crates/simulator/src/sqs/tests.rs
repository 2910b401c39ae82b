//! Runs of queues are deterministic, and right.

use super::*;

/// It shows MWORLD-3.
#[test]
fn the_same_seed_gives_the_same_run() {
    let [one, other] = [(); 2].map(|()| run(3, &Guards::default(), true));
    assert_eq!(one.trace, other.trace);
    assert_eq!(one.claims, other.claims);
}

#[test]
fn nothing_is_wrong_with_the_first_seeds() {
    let mut claims: BTreeMap<&str, usize> = BTreeMap::new();
    for seed in 1..9 {
        let found = run(seed, &Guards::default(), false);
        assert_eq!(found.failure, None, "seed {seed}");
        for (claim, count) in found.claims {
            *claims.entry(claim).or_default() += count;
        }
    }
    // Everything that is checked happens, and what is rare as well.
    for claim in [
        "acknowledged",
        "clock steps",
        "crashes",
        "deleted",
        "drained",
        "duplicates",
        "eventual",
        "failovers",
        "moved far",
        "partitions",
        "promoted",
        "purges",
        "received",
        "repeated",
        "unknown",
        "waits",
        "wipes",
        "woken",
    ] {
        assert!(claims.contains_key(claim), "{claim} did not happen");
    }
}

/// Seeds that each mutant is searched in; the first that was found is tried first.
#[cfg(feature = "mutants")]
const SEEDS: u64 = 60;

/// A line `caught: …` for each guard that a run misses when it is taken away.
#[cfg(feature = "mutants")]
#[test]
fn every_mutant_is_caught() {
    use fader_chain::Guard;

    let mut missed = Vec::new();
    for guard in [
        Guard::Dedupe,
        Guard::JointW,
        Guard::StepRecorded,
        Guard::StepTaken,
        Guard::StepOnce,
        Guard::QueueDeadline,
        Guard::QueueGroup,
        Guard::QueueDuplicate,
        Guard::QueueMark,
        Guard::QueueTime,
        Guard::QueuePurge,
        Guard::QueueDelay,
        Guard::QueueDeadLetter,
        Guard::QueueMoveWhole,
        Guard::QueueWake,
        Guard::QueueHandleNewest,
    ] {
        let removed = Guards::without([guard]);
        let found = (1..=SEEDS).find_map(|seed| {
            let failure = run(seed, &removed, false).failure?;
            Some((seed, failure.guarantee))
        });
        match found {
            Some((seed, by)) => println!("caught: {guard:?}, by seed {seed} of queues, {by:?}"),
            None => missed.push(guard),
        }
    }
    assert_eq!(missed, [], "not caught in {SEEDS} seeds");
}
