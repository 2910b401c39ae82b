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
    for rule in ByteRule::ALL {
        assert!(
            told.iter().any(|(it, ..)| *it == LeftOut::Rule(rule)),
            "{rule:?}"
        );
    }
}
