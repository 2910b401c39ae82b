//! Codes and their rows.

use std::collections::BTreeSet;

use super::*;

#[test]
fn each_code_has_one_row_and_each_row_a_code() {
    let rows = rows::OTHERS.iter().chain(&rows::REASONS);
    let rows: Vec<ErrorCode> = rows.map(|row| row.code).collect();
    assert_eq!(rows, ErrorCode::all().collect::<Vec<_>>());
}

#[test]
fn a_name_is_kebab_case_and_names_one_code() {
    let mut names = BTreeSet::new();
    for code in ErrorCode::all() {
        let name = code.name();
        assert!(
            name.bytes()
                .all(|octet| octet.is_ascii_lowercase() || octet == b'-')
        );
        assert!(names.insert(name), "{name} is there twice");
        assert_eq!(ErrorCode::of_name(name), Some(code));
    }
    assert_eq!(ErrorCode::of_name("of-tomorrow"), None);
}

#[test]
fn a_row_says_what_happened_and_what_to_do() {
    for code in ErrorCode::all() {
        let row = code.row();
        for text in [row.meaning, row.action] {
            let is_phrase = !text.is_empty() && !text.ends_with('.') && !text.contains('|');
            assert!(is_phrase, "{code}: {text:?}");
        }
        assert_ne!(row.exit, 0, "{code}");
    }
}

/// A 4xx changed nothing, a 503 names its reason.
#[test]
fn the_status_says_the_next_step() {
    for code in ErrorCode::all() {
        let row = code.row();
        match row.status {
            Some(503) => assert!(matches!(code, ErrorCode::Refused(_)), "{code}"),
            Some(400..500) => assert_eq!(row.kind, ErrorKind::FixCall, "{code}"),
            _ => {}
        }
    }
}
