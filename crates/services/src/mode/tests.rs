//! The words of modes, and what each mode allows.

use super::*;

const ALL: [Mode; 5] = [
    Mode::Strong,
    Mode::Opening,
    Mode::Mixed,
    Mode::Closing,
    Mode::Eventual,
];

#[test]
fn a_collection_is_created_in_a_mode_of_rest() {
    for mode in ALL {
        let is_of_rest = !matches!(mode, Mode::Opening | Mode::Closing);
        let parsed: Result<Mode, Malformed> = format!(" {mode} ").parse();
        assert_eq!(parsed.ok(), is_of_rest.then_some(mode));
    }
    assert_eq!(
        "closing".parse::<Mode>().unwrap_err().to_string(),
        "'closing' is no mode of a collection: one of strong, mixed and eventual"
    );
}

#[test]
fn modes_allow_what_the_table_says() {
    let allowed = ALL.map(|mode| {
        (
            mode.takes_strong(),
            mode.takes_eventual(),
            mode.keeps_marks(),
        )
    });
    let expected = [
        (true, false, false),
        (true, false, true),
        (true, true, true),
        (true, false, true),
        (false, true, true),
    ];
    assert_eq!(allowed, expected);
}
