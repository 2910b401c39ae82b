//! The table of keys.

use super::{Key, table};

#[test]
fn a_note_cannot_move_the_cursor_or_pass_for_another_key() {
    let key = Key {
        id: "AKIA".to_owned(),
        account: "000000000001".to_owned(),
        status: "active".to_owned(),
        created_ms: 0,
        consistency: String::new(),
        rights: String::new(),
        note: "a\nb \u{1b}[31m".to_owned(),
    };
    let table = table(&[key]);
    assert!(table.ends_with("a\\nb \\u{1b}[31m\n"), "{table:?}");
    assert_eq!(table.lines().count(), 2);
}
