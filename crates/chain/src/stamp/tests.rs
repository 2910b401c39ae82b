//! Stamps are ordered as they should be, and survive their encoding.

use expect_test::expect;
use proptest::prelude::*;

use super::*;

fn encoded(stamp: Stamp) -> Vec<u8> {
    let mut out = Vec::new();
    stamp.encode(&mut out);
    out
}

fn decoded(bytes: Vec<u8>) -> Result<Stamp, DecodeError> {
    let mut reader = Reader::new(bytes.into());
    let stamp = Stamp::decode(&mut reader)?;
    reader.end()?;
    Ok(stamp)
}

fn any_stamp() -> impl Strategy<Value = Stamp> {
    let number = || prop_oneof![0..3_u64, any::<u64>()];
    let small = || prop_oneof![0..3_u32, any::<u32>()];
    (number(), number(), number(), small(), small()).prop_map(
        |(epoch, index, clock, node, counter)| Stamp {
            base: EntryId::new(epoch, index),
            clock,
            node,
            counter,
        },
    )
}

#[test]
fn bytes_are_frozen() {
    let strong = Stamp::strong(EntryId::new(3, 300));
    let eventual = Stamp {
        clock: 1_317_975_502_999,
        node: 3,
        counter: 0,
        ..strong
    };
    let shown =
        [Stamp::ZERO, strong, eventual].map(|stamp| encoded(stamp).escape_ascii().to_string());
    expect![[r#"\x00 \x01\x03\xac\x02 \x02\x03\xac\x02\x97\xe1\xd8\xeb\xad&\x03\x00"#]]
        .assert_eq(&shown.join(" "));
}

#[test]
fn entries_are_named_by_epoch_and_index() {
    assert_eq!(EntryId::new(3, 300).to_string(), "3.300");
    assert!(EntryId::new(1, 9) < EntryId::new(2, 1));
    assert!(EntryId::ZERO < EntryId::new(0, 1));
}

proptest! {
    #[test]
    fn stamps_round_trip(stamp in any_stamp(), cut in any::<prop::sample::Index>()) {
        let bytes = encoded(stamp);
        prop_assert!(decoded(bytes[..cut.index(bytes.len())].to_vec()).is_err());
        prop_assert_eq!(decoded(bytes).unwrap(), stamp);
    }

    /// STAMP-2: nothing eventual sorts below the strong write it is based on.
    #[test]
    fn a_strong_stamp_is_the_least_of_its_base(stamp in any_stamp()) {
        prop_assert!(Stamp::strong(stamp.base) <= stamp);
        prop_assert_eq!(Stamp::strong(stamp.base) == stamp, stamp.is_strong());
        prop_assert!(Stamp::ZERO <= stamp);
    }

    #[test]
    fn garbage_never_panics(garbage in any::<Vec<u8>>()) {
        let _ = decoded(garbage);
    }
}
