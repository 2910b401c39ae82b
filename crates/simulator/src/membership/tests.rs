//! Runs of sessions are deterministic, and right.

use super::*;

/// It shows MWORLD-1.
#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in 1..4 {
        let [one, other] = [(); 2].map(|()| run(seed, &Guards::default(), true));
        assert_eq!(one.trace, other.trace, "seed {seed}");
        assert_eq!(one.claims, other.claims, "seed {seed}");
    }
}

#[test]
fn nothing_is_wrong_with_the_first_seeds() {
    let mut claims: BTreeMap<&str, usize> = BTreeMap::new();
    for seed in 1..30 {
        let found = run(seed, &Guards::default(), false);
        assert_eq!(found.failure, None, "seed {seed}");
        for (claim, count) in found.claims {
            *claims.entry(claim).or_default() += count;
        }
    }
    // Everything that is checked happens, and what is rare as well.
    let rare = ["late done", "late refused", "deposed", "ZNODE-9", "ZNODE-2"];
    for claim in rare
        .iter()
        .chain(&["FN-2", "ZNODE-10", "ZNODE-4", "SL-6", "I20", "leases"])
        .chain(&["CATALOG-2", "CATALOG-3"])
    {
        assert!(claims.contains_key(claim), "{claim} did not happen");
    }
}
