//! What one side writes the other reads, and what is wrong is said.

use fader_chain::{EntryId, RequestId, Stamp};
use proptest::prelude::*;

use super::*;

#[track_caller]
fn check_demand(text: &str, level: Level, bound: Option<Bound>, outcome: bool) {
    let expected = ConsistencyOptions {
        level,
        bound,
        outcome,
        ..ConsistencyOptions::default()
    };
    assert_eq!(text.parse(), Ok(expected), "{text}");
}

fn eventual(r: u8, w: u8, sloppy: bool) -> Level {
    Level::Eventual { r, w, sloppy }
}

#[test]
fn a_level_is_read() {
    check_demand("strong", Level::Strong, None, false);
    check_demand(" barrier ; outcome ", Level::Barrier, None, true);
    check_demand("default;outcome", Level::Default, None, true);
    check_demand("eventual", Level::EVENTUAL, None, false);
    check_demand("eventual; w=255", eventual(1, 255, false), None, false);
    check_demand(
        "eventual; r=2; w=3; sloppy; bound=500ms; outcome",
        eventual(2, 3, true),
        Some(Bound::Millis(500)),
        true,
    );
    check_demand(
        "eventual;bound = 0v",
        Level::EVENTUAL,
        Some(Bound::Versions(0)),
        false,
    );
}

#[test]
fn mistakes_in_a_level_are_reported() {
    for (text, message) in [
        (
            "",
            "'' is no level: one of strong, barrier, eventual and default",
        ),
        (
            "Strong",
            "'Strong' is no level: one of strong, barrier, eventual and default",
        ),
        ("strong; r=2", "'r' goes with eventual, not with strong"),
        (
            "barrier; bound=5v",
            "'bound' goes with eventual, not with barrier",
        ),
        ("eventual; r=2; r=2", "'r' is there twice"),
        (
            "eventual; r=0",
            "r=0: r is how many members, a whole number from 1 to 255",
        ),
        (
            "eventual; w=256",
            "w=256: w is how many members, a whole number from 1 to 255",
        ),
        (
            "eventual; w=+2",
            "w=+2: w is how many members, a whole number from 1 to 255",
        ),
        (
            "eventual; bound=5",
            "bound=5: a bound is milliseconds, as 500ms, or versions, as 10v",
        ),
        (
            "eventual; bound=5s",
            "bound=5s: a bound is milliseconds, as 500ms, or versions, as 10v",
        ),
        (
            "eventual; sloppy=1",
            "'sloppy=1' is no parameter: r=N, w=N, sloppy, bound=Nms, bound=Nv or outcome",
        ),
        (
            "eventual;",
            "'' is no parameter: r=N, w=N, sloppy, bound=Nms, bound=Nv or outcome",
        ),
        (
            "strong; fast",
            "'fast' is no parameter: r=N, w=N, sloppy, bound=Nms, bound=Nv or outcome",
        ),
    ] {
        let error = text.parse::<ConsistencyOptions>().unwrap_err();
        assert_eq!(error.to_string(), message);
    }
}

#[test]
fn a_preference_is_a_level() {
    for text in ["strong", "barrier", "eventual; r=2; w=1; bound=10v"] {
        let preference: DefaultConsistency = text.parse().unwrap();
        assert_eq!(preference.to_string(), text);
    }
    for text in [
        "default",
        "strong; outcome",
        "eventual; outcome",
        "",
        "none",
    ] {
        assert!(text.parse::<DefaultConsistency>().is_err(), "{text}");
    }
}

#[test]
fn a_name_is_read() {
    let name = |client: u128, seq| RequestId {
        client: client.into(),
        seq,
        part: 0,
    };
    assert_eq!(parse_name("0/0"), Ok(name(0, 0)));
    assert_eq!(parse_name("C0ffee/17"), Ok(name(0xc0ffee, 17)));
    let greatest = format!("{:x}/{}", u128::MAX, u64::MAX);
    assert_eq!(parse_name(&greatest), Ok(name(u128::MAX, u64::MAX)));
    for text in ["", "/", "1", "1/", "/1", "g/1", "+1/1", "1/+1", "1/1/1"] {
        let error = parse_name(text).unwrap_err().to_string();
        assert_eq!(
            error,
            format!(
                "'{text}' is no request name: CLIENT/SEQ, where CLIENT is 1 to 32 hexadecimal \
                 digits and SEQ a whole number"
            )
        );
    }
    assert!(parse_name(&format!("0{:x}/1", u128::MAX)).is_err());
}

#[test]
fn stamps_and_versions_are_read() {
    let strong = Stamp::strong(EntryId::new(1, 6));
    let eventual = Stamp {
        clock: 1_317_975_502_999,
        node: 2,
        counter: 0,
        ..strong
    };
    for (stamp, text) in [(strong, "1.6"), (eventual, "1.6+1317975502999.2.0")] {
        assert_eq!(show_stamp(&stamp), text);
        assert_eq!(parse_stamp(text), Ok(stamp));
    }
    assert_eq!(parse_version("1.6"), Ok(EntryId::new(1, 6)));
    for text in ["", "1", "1.", ".6", "1.6.1", "1.-6"] {
        assert!(parse_version(text).is_err(), "{text}");
        assert!(parse_stamp(text).is_err(), "{text}");
    }
    for text in ["1.6+", "1.6+0.0.0", "1.6+1.2", "1.6+1.2.3.4", "1.6+1.2.x"] {
        assert!(parse_stamp(text).is_err(), "{text}");
    }
}

#[test]
fn outcomes_are_read() {
    let limit = Outcome::Superseded(Some(Cause::Limit(Code::NumberItemAttributesExceeded)));
    let batch = [Outcome::Applied, Outcome::Superseded(None), limit];
    let batch = Outcomes::batch(batch);
    let text =
        "applied, 1=superseded, 2=superseded; cause=limit; code=NumberItemAttributesExceeded";
    assert_eq!(batch.to_string(), text);
    assert_eq!(text.parse(), Ok(batch.clone()));
    let of = [0, 1, 2, 3].map(|part| batch.of(part));
    let superseded = Outcome::Superseded(None);
    assert_eq!(of, [Outcome::Applied, superseded, limit, Outcome::Applied]);
    let gone = Outcomes::single(Outcome::Superseded(Some(Cause::Gone)));
    assert_eq!("superseded; cause=gone".parse(), Ok(gone));
    assert_eq!("detached".parse(), Ok(Outcomes::single(Outcome::Detached)));
    for text in [
        "",
        "Applied",
        "applied, superseded",
        "applied, x=superseded",
        "applied, 3=superseded, 2=superseded",
        "applied, 2=superseded, 2=applied",
        "superseded; cause=limit",
        "superseded; cause=limit; NumberItemAttributesExceeded",
        "superseded; cause=limit; code=NoSuchLimit",
        "superseded; cause=none",
    ] {
        assert!(text.parse::<Outcomes>().is_err(), "{text}");
    }
}

#[test]
fn a_notice_names_the_write() {
    let notice = SettlementNotice {
        name: RequestId {
            client: 0xc0ffee_u128.into(),
            seq: 7,
            part: 0,
        },
        outcome: Outcome::Superseded(Some(Cause::Gone)),
    };
    let text = "00000000000000000000000000c0ffee/7 superseded; cause=gone";
    assert_eq!(notice.to_string(), text);
    assert_eq!(text.parse(), Ok(notice));
    let of_part = SettlementNotice {
        name: RequestId {
            part: 2,
            ..notice.name
        },
        outcome: Outcome::Superseded(None),
    };
    let text = "00000000000000000000000000c0ffee/7/2 superseded";
    assert_eq!(of_part.to_string(), text);
    assert_eq!(text.parse(), Ok(of_part));
    for text in ["1/7", "1/7/0 applied", "1/7/x applied", "1/7/2/2 applied"] {
        assert!(text.parse::<SettlementNotice>().is_err(), "{text}");
    }
}

fn levels() -> impl Strategy<Value = Level> {
    prop_oneof![
        Just(Level::Default),
        Just(Level::Strong),
        Just(Level::Barrier),
        (1_u8.., 1_u8.., any::<bool>()).prop_map(|(r, w, sloppy)| eventual(r, w, sloppy)),
    ]
}

fn bounds() -> impl Strategy<Value = Bound> {
    prop_oneof![
        any::<u64>().prop_map(Bound::Millis),
        any::<u64>().prop_map(Bound::Versions),
    ]
}

proptest! {
    #[test]
    fn displayed_text_is_parsed_again(
        level in levels(),
        bound in proptest::option::of(bounds()),
        outcome in any::<bool>(),
        clock in any::<u64>(),
        (node, counter, seq) in any::<(u32, u32, u64)>(),
    ) {
        let bound = bound.filter(|_| matches!(level, Level::Eventual { .. }));
        let consistency = ConsistencyOptions { level, bound, outcome, ..Default::default() };
        prop_assert_eq!(consistency.to_string().parse::<ConsistencyOptions>(), Ok(consistency));
        let stamp = Stamp { base: EntryId::new(seq, clock), clock, node, counter };
        prop_assert_eq!(parse_stamp(&show_stamp(&stamp)), Ok(stamp));
        let name = RequestId { client: (u128::from(clock) << 64).into(), seq, part: 0 };
        prop_assert_eq!(parse_name(&show_name(&name)), Ok(name));
    }

    #[test]
    fn no_text_is_too_strange(text in ".{0,40}") {
        drop(text.parse::<ConsistencyOptions>());
        drop(text.parse::<Outcomes>());
        drop(text.parse::<SettlementNotice>());
        drop(parse_stamp(&text));
        drop(parse_name(&text));
    }
}
