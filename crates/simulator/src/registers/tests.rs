//! The judges agree, on right histories and on wrong ones, and they judge enough of both.

use super::*;

#[test]
fn the_judges_agree() {
    let mut claims: BTreeMap<&str, usize> = BTreeMap::new();
    for seed in 1..20 {
        let found = run(seed, false);
        assert_eq!(found.failure, None, "seed {seed}");
        for (claim, count) in found.claims {
            *claims.entry(claim).or_default() += count;
        }
    }
    for claim in ["all refuse", "all accept", "log refuses"] {
        assert!(20 < claims[claim], "{claims:?}");
    }
}

#[test]
fn each_change_has_an_effect() {
    let history = world::run(&plan(1), &Guards::default(), false).history;
    let log = log_of(&history);
    for kind in [Kind::Stale, Kind::Unwritten, Kind::Answer, Kind::Times] {
        let random = &mut Random::new(1);
        let differs = |_| {
            let changed = change(kind, &history, random).expect("the run has reads and writes");
            log_of(&changed) != log
        };
        assert!((0..20).any(differs), "{kind:?}");
    }
}

/// The rules that such runs need: a check that lacks one disagrees with the others.
#[cfg(feature = "mutants")]
#[test]
fn every_rule_is_missed() {
    use fader_history::Rule;
    for rule in [
        Rule::Written,
        Rule::ReadAfterWrite,
        Rule::ForwardApart,
        Rule::BackwardOutside,
        Rule::InitialFirst,
        Rule::UnknownLate,
        Rule::AttemptsJoined,
        Rule::RealTime,
        Rule::UnknownMayAct,
        Rule::UnknownMayNot,
    ] {
        let rules = Rules::without(rule);
        let mut found =
            (1..100).filter_map(|seed| Some((seed, run_with(seed, false, &rules).failure?)));
        let (seed, failure) = found
            .next()
            .unwrap_or_else(|| panic!("not caught: {rule:?}"));
        println!("caught: {rule:?} by seed {seed}: {failure}");
    }
}
