//! The bytes of a position.

use expect_test::expect;
use proptest::prelude::*;

use super::*;

fn position() -> impl Strategy<Value = Position> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..300);
    let place = (0_usize..1000, bytes(), bytes());
    let place = place.prop_map(|(lane, value, item)| ScanPosition { lane, value, item });
    let sources = prop::collection::vec(0_usize..1000, 0..20);
    (any::<bool>(), sources, prop::option::of(place)).prop_map(|(sorts, sources, place)| Position {
        choice: Choice { sorts, sources },
        place,
    })
}

#[test]
fn bytes_are_frozen() {
    let check = |position: &Position, expected: expect_test::Expect| {
        expected.assert_eq(&position.encode().escape_ascii().to_string());
    };
    check(&Position::default(), expect![[r#"\x00\x00\x00"#]]);
    let place = ScanPosition {
        lane: 1,
        value: b"2007".to_vec(),
        item: b"B000T9886K".to_vec(),
    };
    let choice = Choice {
        sorts: true,
        sources: vec![0, 300],
    };
    check(
        &Position {
            choice,
            place: Some(place),
        },
        expect![[r#"\x01\x02\x00\xac\x02\x01\x01\x042007\nB000T9886K"#]],
    );
}

proptest! {
    #[test]
    fn round_trips(position in position()) {
        prop_assert_eq!(Position::decode(position.encode().into()), Ok(position));
    }

    #[test]
    fn cuts_are_refused(position in position(), at in any::<prop::sample::Index>()) {
        let mut bytes = position.encode();
        bytes.truncate(at.index(bytes.len()));
        prop_assert!(Position::decode(bytes.into()).is_err());
    }

    #[test]
    fn garbage_is_answered(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        if let Ok(position) = Position::decode(bytes.into()) {
            prop_assert_eq!(Position::decode(position.encode().into()), Ok(position));
        }
    }
}
