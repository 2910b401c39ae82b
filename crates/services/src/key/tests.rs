//! Keys keep the order of what they are made of, and fall apart into it again.

use proptest::prelude::*;

use super::*;

const COLLECTION: CollectionId = CollectionId(0x0102);

#[track_caller]
fn check(key: &Bytes, expected: &str) {
    assert_eq!(key.escape_ascii().to_string(), expected);
}

#[test]
fn keys_have_the_layout_of_the_header() {
    let collection = r"\x00\x00\x00\x00\x00\x00\x01\x02";
    check(
        &item_key(COLLECTION, b"item"),
        &format!("{collection}iitem"),
    );
    check(
        &index_key(COLLECTION, b"a\0b", b"", b"item"),
        &format!(r"{collection}xa\x00\xffb\x00\x01\x00\x01item"),
    );
    check(
        &KeyBuilder::new(COLLECTION, Table::Metadata).build(),
        &format!("{collection}m"),
    );
}

#[test]
fn an_end_follows_every_key_of_its_prefix() {
    let prefix = KeyBuilder::new(COLLECTION, Table::AttributeCount);
    check(
        &prefix.clone().build_end(),
        r"\x00\x00\x00\x00\x00\x00\x01\x02b",
    );
    check(
        &prefix.raw(b"a\xff\xff").build_end(),
        r"\x00\x00\x00\x00\x00\x00\x01\x02ab",
    );
}

#[test]
fn texts_that_do_not_end_are_refused() {
    for rest in [
        &b""[..],
        b"a",
        b"a\0",
        b"a\0\xff",
        b"a\0\x02\0\x01",
        b"\0\0\x01",
    ] {
        assert_eq!(split_text(rest), None);
    }
}

/// Few different bytes, so that escapes and prefixes are frequent.
fn text() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(
        prop::sample::select(vec![0x00, 0x01, b'a', 0xfe, 0xff]),
        0..5,
    )
}

proptest! {
    /// KEY-1, and that pairs come in the order of their parts.
    #[test]
    fn index_keys_are_in_the_order_of_their_parts(
        one in (text(), text(), text()),
        other in (text(), text(), text()),
    ) {
        let key = |(name, value, item): &(Vec<u8>, Vec<u8>, Vec<u8>)| {
            index_key(COLLECTION, name, value, item)
        };
        prop_assert_eq!(key(&one).cmp(&key(&other)), one.cmp(&other));
    }

    #[test]
    fn index_keys_fall_apart(name in text(), value in text(), item in text()) {
        let key = index_key(COLLECTION, &name, &value, &item);
        let (found, rest) = split_text(&key[9..]).unwrap();
        prop_assert_eq!(found, name);
        let (found, rest) = split_text(rest).unwrap();
        prop_assert_eq!(found, value);
        prop_assert_eq!(rest, item);
    }

    #[test]
    fn a_prefix_scan_finds_what_begins_so(prefix in text(), text in text()) {
        let prefixed = KeyBuilder::new(COLLECTION, Table::Index).text_prefix(&prefix);
        let key = KeyBuilder::new(COLLECTION, Table::Index).text(&text).build();
        let is_found = (prefixed.clone().build()..prefixed.build_end()).contains(&key);
        prop_assert_eq!(is_found, text.starts_with(&prefix));
    }
}
