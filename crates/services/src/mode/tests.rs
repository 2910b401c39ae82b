//! The words of modes, and what each mode allows.

use super::*;

#[test]
fn a_collection_is_created_in_a_mode_of_rest() {
    for mode in MODES {
        let parsed: Result<Mode, Malformed> = format!(" {mode} ").parse();
        assert_eq!(parsed.ok(), mode.is_at_rest().then_some(mode));
    }
    assert_eq!(
        "closing".parse::<Mode>().unwrap_err().to_string(),
        "'closing' is no mode of a collection: one of strong, mixed and eventual"
    );
}

#[test]
fn modes_allow_what_the_table_says() {
    let allowed = |mode: Mode| {
        let writes = (mode.takes_strong(), mode.takes_eventual());
        (writes, mode.settles_eventual(), mode.keeps_marks())
    };
    let expected = [
        ((true, false), false, false),
        ((true, false), false, true),
        ((true, true), true, true),
        ((true, false), true, true),
        ((false, true), true, true),
    ];
    assert_eq!(MODES.map(allowed), expected);
}

#[test]
fn bytes_are_frozen() {
    assert_eq!(MODES.map(Mode::byte), [0, 1, 2, 3, 4]);
    let modes = (0..=u8::MAX).filter_map(Mode::from_byte);
    assert!(modes.eq(MODES));
}
