//! Tests of reading times.

use proptest::prelude::*;

use super::*;

/// 2026-11-20T21:20:43Z.
const TIME_S: i64 = 1_795_209_643;

#[test]
fn reads_what_clients_send() {
    for (text, expected) in [
        ("2026-11-20T21:20:43Z", Some(TIME_S)),
        ("2026-11-20T21:20:43.999Z", Some(TIME_S)),
        ("2026-11-20T13:20:43-08:00", Some(TIME_S)),
        ("2026-11-20T13:20:43.123-08:00", Some(TIME_S)),
        ("2026-11-20T21:20:43", Some(TIME_S)),
        ("2026-11-20T21:20:43+00:00", Some(TIME_S)),
        ("", None),
        ("now", None),
        ("1795209643", None),
        ("2026-13-20T21:20:43Z", None),
        (
            "2026-11-20T21:20:43Z and a great deal more than any client sends in good faith",
            None,
        ),
    ] {
        assert_eq!(iso(text), expected, "{text}");
    }
}

#[test]
fn reads_the_basic_form_only() {
    for (text, expected) in [
        ("20261120T212043Z", Some(TIME_S)),
        ("19700101T000000Z", Some(0)),
        ("20261120T212043", None),
        ("20261120 212043Z", None),
        ("2026-11-20T21:20:43Z", None),
        ("20261320T212043Z", None),
        ("20260230T212043Z", None),
        ("20261120T992043Z", None),
        ("+0261120T212043Z", None),
        ("2026112\u{e9}T21204Z", None),
    ] {
        assert_eq!(basic(text), expected, "{text}");
    }
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in any::<String>()) {
        iso(&text);
        basic(&text);
    }
}
