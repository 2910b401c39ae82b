//! Failures in words.

use anyhow::anyhow;

use super::in_words;

#[test]
fn a_cause_is_told_once() {
    for (causes, expected) in [
        (&["it failed"][..], "it failed"),
        (
            &["No such file", "opening /a: No such file", "cannot start"],
            "cannot start: opening /a: No such file",
        ),
        (
            &["refused", "refused", "cannot connect"],
            "cannot connect: refused",
        ),
        (&["b", "a b c", "d"], "d: a b c: b"),
    ] {
        let first = anyhow!("{}", causes[0]);
        let error = causes[1..]
            .iter()
            .fold(first, |error, context| error.context(*context));
        assert_eq!(in_words(&error), expected);
    }
}
