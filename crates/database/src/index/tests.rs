//! Entries have the order of their values, and come apart again.

use proptest::prelude::*;

use super::*;

fn text(text: &str) -> IndexValue {
    IndexValue::Text(text.to_owned())
}

fn any_value() -> impl Strategy<Value = IndexValue> {
    prop_oneof![
        any::<bool>().prop_map(IndexValue::Bool),
        (-1e300..1e300_f64).prop_map(IndexValue::Number),
        (-5..5_i32).prop_map(|number| IndexValue::Number(f64::from(number))),
        "[ab\0\u{1}\u{ff}]{0,6}".prop_map(IndexValue::Text),
    ]
}

proptest! {
    #[test]
    fn entries_are_in_the_order_of_values_and_come_apart(
        one in any_value(),
        other in any_value(),
        key in proptest::collection::vec(any::<u8>(), 0..6),
    ) {
        let (a, b) = (one.encode(), other.encode());
        prop_assert_eq!(one.order(&other), a.cmp(&b));
        let entry = [&a[..], &key].concat();
        prop_assert_eq!(split(&entry), Some((&a[..], &key[..])));
        let (from, until) = IndexRange::Is(one.clone()).bounds();
        let is_in = from <= entry && until.is_none_or(|until| entry < until);
        prop_assert!(is_in);
        let of_other = [&b[..], &key].concat();
        let (from, until) = IndexRange::Is(one.clone()).bounds();
        let is_in = from <= of_other && until.is_none_or(|until| of_other < until);
        prop_assert_eq!(is_in, one.order(&other) == Ordering::Equal);
    }

    #[test]
    fn damaged_entries_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..12)) {
        split(&bytes);
    }
}

#[test]
fn a_record_has_an_entry_for_each_value() {
    let count = |record: &str| entries("f", b"k", record.as_bytes()).len();
    assert_eq!(count(r#"{"f": "a"}"#), 1);
    assert_eq!(count(r#"{"f": ["a", 1, true, "a", null, {}]}"#), 3);
    for none in [r#"{"g": 1}"#, r#"{"f": null}"#, "[1]", "no JSON"] {
        assert_eq!(count(none), 0, "{none}");
    }
    assert!(entries("f", &[0; 513], br#"{"f": 1}"#).is_empty());
}

#[test]
fn long_texts_are_compared_in_the_record() {
    let (one, other) = ("x".repeat(600), "x".repeat(601));
    let record = format!(r#"{{"f": "{one}"}}"#);
    let entry = entries("f", b"k", record.as_bytes()).remove(0);
    assert!(entry.len() <= TEXT_BYTES + 4);
    let (value, _) = split(&entry).expect("an entry");
    let matches = |range: IndexRange| range.matches("f", record.as_bytes(), value);
    assert!(matches(IndexRange::Is(text(&one))));
    assert!(!matches(IndexRange::Is(text(&other))));
    assert!(matches(IndexRange::Between(None, Some(text(&other)))));
    assert!(!matches(IndexRange::Between(Some(text(&other)), None)));
}

#[test]
fn minus_zero_is_zero() {
    let (minus, plus) = (IndexValue::Number(-0.0), IndexValue::Number(0.0));
    assert_eq!(minus.encode(), plus.encode());
    assert_eq!(minus.order(&plus), Ordering::Equal);
}
