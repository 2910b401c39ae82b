//! Tests of names.

use object_store::path::Path;

use super::{
    Held, Holding, Incarnation, Part, SegmentName, key, parse_part, part_text, parts_below,
};
use crate::queues::Receipt;

const NAME: SegmentName = SegmentName {
    time_ms: 1_767_225_600_123,
    random: 0xfeed_0000_0000_0001,
    count: 7,
};

#[test]
fn names_read_as_they_are_written() {
    assert_eq!(NAME.to_string(), "019b76daa87b-feed000000000001-007");
    assert_eq!(SegmentName::parse(&NAME.to_string()), Some(NAME));
    for part in [Part::State, Part::Segment] {
        let text = part_text(NAME, part, true);
        assert_eq!(parse_part(&text, true), Some((NAME, part)));
    }
    let foreign = [
        "",
        "notes.txt",
        "019b76daa87b-feed000000000001-007",
        "019b76daa87b-feed000000000001-000.0-state",
        "019b76daa87b-feed000000000001-101.0-state",
        "019b76daa87b-feed000000000001-7.0-state",
        "019b76daa87b-feed000000000001-007.0-state~",
        "019B76DAA87B-feed000000000001-007.0-state",
    ];
    for text in foreign {
        assert_eq!(parse_part(text, true), None, "{text}");
    }
}

/// One list shows a state directly before its segment. It shows NAME-1.
#[test]
fn a_state_sorts_directly_before_its_segment() {
    let next = SegmentName {
        random: NAME.random + 1,
        ..NAME
    };
    let mut keys = [
        part_text(next, Part::Segment, true),
        part_text(NAME, Part::Segment, true),
        part_text(next, Part::State, true),
        part_text(NAME, Part::State, true),
    ];
    keys.sort();
    let parsed: Vec<_> = keys
        .iter()
        .filter_map(|key| parse_part(key, true))
        .collect();
    let expected = [
        (NAME, Part::State),
        (NAME, Part::Segment),
        (next, Part::State),
        (next, Part::Segment),
    ];
    assert_eq!(parsed, expected);
}

#[test]
fn keys_are_below_their_prefix() {
    for prefix in ["", "a/b"] {
        let prefix = Path::from(prefix);
        let path = key(&prefix, &["queues", "q"]);
        assert_eq!(parts_below(&prefix, &path), ["queues", "q"]);
    }
}

#[test]
fn receipts_read_as_they_are_written() {
    for holding in [
        Holding::Claim(u128::MAX - 5),
        Holding::Peek { had_state: false },
        Holding::Peek { had_state: true },
    ] {
        let held = Held {
            incarnation: Incarnation(3),
            segment: NAME,
            index: 6,
            holding,
        };
        assert_eq!(Held::parse(&held.receipt()).unwrap(), held);
    }
    let whole = "0000000000000003.019b76daa87b-feed000000000001-007.6.peek";
    assert!(Held::parse(&Receipt(whole.to_owned())).is_ok());
    for (from, to) in [
        ("6.peek", "7.peek"),
        (".6", ""),
        ("peek", "poke"),
        ("3.", "3"),
    ] {
        let text = whole.replacen(from, to, 1);
        assert!(Held::parse(&Receipt(text.clone())).is_err(), "{text}");
    }
}
