//! Each rule of blocks that is left out gives a trace.

use super::*;

/// Every rule is told by some scope, and each by a scope that says so. It shows HO-1 and MB-2.
#[test]
fn every_rule_of_blocks_is_told() {
    let limits = Limits { states: 2_000_000 };
    let told = traces(&block_scopes(), limits).expect("each rule is told");
    for (rule, scope, trace) in &told {
        let words = trace.lines().next().unwrap_or_default();
        println!("caught: without {rule:?}, {scope}: {words}");
    }
    for rule in LeftOut::rules() {
        let is_told = told.iter().any(|(it, ..)| *it == rule);
        assert_eq!(is_told, rule.is_needed(), "{rule:?}");
    }
}

/// A rule that is not needed alone: nothing is told without it. Scopes of bytes with more states
/// are left to `cargo xtask model blocks --without`.
#[test]
fn rules_that_are_not_needed_are_not_told() {
    let limits = Limits { states: 2_000_000 };
    for rule in LeftOut::rules().filter(|rule| !rule.is_needed()) {
        let scopes = block_scopes();
        let scopes = scopes.iter().filter(|scope| match (scope, rule) {
            (BlockScope::Bytes(it), LeftOut::Bytes(_)) => it.name.ends_with("two"),
            (BlockScope::Reads(it), LeftOut::Read(_)) => it.is_quick,
            _ => false,
        });
        let mut searched = 0;
        for scope in scopes {
            let outcome = scope.explore(Some(rule), limits).outcome;
            assert!(
                matches!(outcome, Outcome::Exhausted),
                "{rule:?}: {outcome:?}"
            );
            searched += 1;
        }
        assert!(0 < searched, "{rule:?}");
    }
}

#[test]
fn every_rule_has_a_name_of_its_own() {
    for rule in LeftOut::rules() {
        assert_eq!(LeftOut::named(&rule.name()), Ok(rule));
    }
    assert!(LeftOut::named("none").is_err_and(|names| names.contains("own-bytes")));
}
