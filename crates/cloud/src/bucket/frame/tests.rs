//! The bytes of each object of queues, frozen; and what damage comes to.

use std::time::Duration;

use bytes::Bytes;
use expect_test::{Expect, expect};
use proptest::prelude::*;

use crate::bucket::names::Incarnation;
use crate::bucket::segment;
use crate::bucket::settings::Settings;
use crate::bucket::state::{Entry, State};
use crate::bucket::time::Hidden;
use crate::error::ErrorKind;
use crate::queues::QueueSettings;

fn check(bytes: &Bytes, expected: &Expect) {
    let lines = bytes.chunks(16).map(|line| {
        let hex: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        let text = line.iter().map(|byte| match byte {
            b' '..=b'~' => char::from(*byte),
            _ => '.',
        });
        format!("{:47}  {}\n", hex.join(" "), text.collect::<String>())
    });
    expected.assert_eq(&lines.collect::<String>());
}

fn settings(is_gone: bool, retention: Duration) -> Settings {
    Settings {
        incarnation: Incarnation(0x0102_0304_0506_0708),
        is_gone,
        settings: QueueSettings {
            visibility: Duration::from_secs(30),
            retention,
        },
    }
}

fn state() -> State {
    let entry = Entry {
        is_removed: false,
        claim: 5,
        hidden: Hidden::For(Duration::from_secs(30)),
        receives: 2,
    };
    State {
        write: 0xabcd,
        entries: vec![
            Entry::default(),
            entry,
            Entry {
                hidden: Hidden::Until(Duration::from_millis(1_767_225_600_123)),
                ..entry
            },
            Entry {
                is_removed: true,
                ..Entry::default()
            },
        ],
    }
}

#[test]
fn a_segment_has_these_bytes() {
    let bytes = segment::encode(["hello", "Grüße"].into_iter());
    check(
        &bytes,
        &expect![[r#"
        46 41 44 45 52 4d 01 02 05 68 65 6c 6c 6f 07 47  FADERM...hello.G
        72 c3 bc c3 9f 65 b5 c9 b0 c4 36 63 e2 0f        r....e....6c..
    "#]],
    );
    let bodies = segment::decode("k", &bytes, 2).unwrap();
    assert_eq!(bodies, ["hello", "Grüße"]);
    assert!(segment::decode("k", &bytes, 3).is_err());
}

#[test]
fn a_state_has_these_bytes() {
    let bytes = state().encode();
    check(
        &bytes,
        &expect![[r#"
        46 41 44 45 52 53 01 00 00 00 00 00 00 ab cd 04  FADERS..........
        00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00  ................
        00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00  ................
        00 00 00 05 02 01 b0 ea 01 00 00 00 00 00 00 00  ................
        00 00 00 00 00 00 00 00 00 05 02 02 fb d0 ea b6  ................
        b7 33 01 d1 78 04 3a 77 13 93 bb                 .3..x.:w...
    "#]],
    );
    assert_eq!(State::decode("k", &bytes, 4).unwrap(), state());
    assert!(State::decode("k", &bytes, 5).is_err());
}

#[test]
fn settings_have_these_bytes() {
    let living = settings(false, Duration::from_secs(345_600));
    check(
        &living.encode(),
        &expect![[r#"
        46 41 44 45 52 51 01 01 02 03 04 05 06 07 08 00  FADERQ..........
        1e 80 8c 15 98 7b 17 8f 2c 2e 64 74              .....{..,.dt
    "#]],
    );
    let endless = settings(true, Duration::MAX);
    check(
        &endless.encode(),
        &expect![[r#"
        46 41 44 45 52 51 01 01 02 03 04 05 06 07 08 01  FADERQ..........
        1e ff ff ff ff ff ff ff ff ff 01 a9 c3 a5 bf b4  ................
        b7 ff 53                                         ..S
    "#]],
    );
    for one in [living, endless] {
        assert_eq!(Settings::decode("k", &one.encode()).unwrap(), one);
    }
}

/// It shows FRAME-1.
#[test]
fn one_kind_is_not_read_as_another() {
    let error = State::decode("the key", &settings(true, Duration::MAX).encode(), 1).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Malformed);
    assert!(error.context.contains("the key"), "{}", error.context);
}

proptest! {
    #[test]
    fn damage_is_found(at in 0_usize..200, bit in 0_u8..8, cut in 0_usize..200) {
        let whole = state().encode();
        let mut flipped = whole.to_vec();
        let at = at % flipped.len();
        flipped[at] ^= 1 << bit;
        prop_assert!(State::decode("k", &flipped.into(), 4).is_err());
        let cut = cut % whole.len();
        prop_assert!(State::decode("k", &whole.slice(..cut), 4).is_err());
    }

    #[test]
    fn strange_bytes_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let framed = super::seal(super::Kind::State, &bytes);
        let _ = State::decode("k", &framed, 4);
        let framed = super::seal(super::Kind::Segment, &bytes);
        let _ = segment::decode("k", &framed, 4);
        prop_assert!(segment::decode("k", &bytes.into(), 4).is_err());
    }
}
