//! Runs of steps are deterministic, and right.

use super::*;

/// It shows MWORLD-2.
#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in 1..4 {
        let [one, other] = [(); 2].map(|()| run(seed, &Guards::default(), true));
        assert_eq!(one.trace, other.trace, "seed {seed}");
        assert_eq!(one.claims, other.claims, "seed {seed}");
    }
}

/// It shows STEP-8 and COUNTER-1.
#[test]
fn nothing_is_wrong_with_the_first_seeds() {
    let mut claims: BTreeMap<&str, usize> = BTreeMap::new();
    for seed in 1..60 {
        let found = run(seed, &Guards::default(), false);
        assert_eq!(found.failure, None, "seed {seed}");
        for (claim, count) in found.claims {
            *claims.entry(claim).or_default() += count;
        }
    }
    // Everything that is checked happens, and what is rare as well.
    let rare = ["passed", "ended", "lost entries"];
    for claim in rare
        .iter()
        .chain(&["COUNTER-1", "ROUTE-4", "began", "taken", "finished"])
    {
        assert!(claims.contains_key(claim), "{claim} did not happen");
    }
}

#[cfg(feature = "mutants")]
#[test]
fn each_guard_is_missed() {
    use fader_chain::Guard;

    for guard in [Guard::StepRecorded, Guard::StepTaken, Guard::StepOnce] {
        let removed = Guards::without([guard]);
        let seed = (1..60).find(|seed| run(*seed, &removed, false).failure.is_some());
        let failure = seed.and_then(|seed| run(seed, &removed, false).failure);
        println!("{guard:?}: seed {seed:?}: {failure:?}");
        assert!(failure.is_some(), "{guard:?}");
    }
}
