//! What merges leave to others is done after a few merges.

use std::collections::BTreeSet;

use super::*;

#[test]
fn three_seeds_take_all_parts() {
    for (world, seeds, parts) in WORLDS {
        let taken: BTreeSet<u64> = (7..7 + parts)
            .map(|seed| part(seeds, parts, seed))
            .flat_map(|(from, number)| from..from + number)
            .collect();
        assert!(taken.into_iter().eq(1..=seeds), "{world:?}");
    }
}

#[test]
fn three_seeds_search_all_scenarios() {
    for name in LARGEST {
        let searching = (7..10).filter(|seed| is_searched(name, *seed));
        assert_eq!(searching.count(), 1, "{name}");
    }
    assert!((7..10).all(|seed| is_searched("star-quorum-loss", seed)));
}

#[test]
fn two_seeds_search_all_scopes_of_blocks() {
    for scope in ["star-join", "chain-join"] {
        let searching = (7..9).filter(|seed| is_wired(scope, *seed));
        assert_eq!(searching.count(), 1, "{scope}");
    }
    assert!((7..9).all(|seed| is_wired("commit-puts", seed)));
}
