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

/// Model I of the checked protocols: a record that is there, and up to three writes of it. Each
/// writer read the state of any write before its own; the writes reach the page in any order.
/// Histories, and those at whose end the record has no entry.
fn histories(asserts_unchanged: bool) -> (usize, usize) {
    let settings = crate::CollectionSettings {
        indexes: [("f".to_owned(), "f".to_owned())].into(),
        ..crate::CollectionSettings::default()
    };
    let mut ids = 0;
    let ids = || {
        ids += 1;
        (CollectionId(ids), fader_blink::PageId(u128::from(ids)))
    };
    let collection = Collection::new(&settings, None, ids).expect("within the bounds");
    let (mut all, mut missing) = (0, 0);
    for count in 1..=3 {
        for values in products(&vec![vec![0, 1, 2]; count]) {
            let froms: Vec<Vec<usize>> = (0..count).map(|write| (0..=write).collect()).collect();
            for froms in products(&froms) {
                for order in products(&vec![(0..count).collect(); count]) {
                    let is_order = (0..count).all(|write| order.contains(&write));
                    if is_order {
                        all += 1;
                        missing += usize::from(!has_entry(
                            &collection,
                            (&values, &froms, &order),
                            asserts_unchanged,
                        ));
                    }
                }
            }
        }
    }
    (all, missing)
}

/// All choices of one of each.
fn products(of: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let one = vec![Vec::new()];
    of.iter().fold(one, |all, choices| {
        let longer = |before: &Vec<usize>| {
            let with = |choice: &usize| [&before[..], &[*choice]].concat();
            choices.iter().map(with).collect::<Vec<_>>()
        };
        all.iter().flat_map(longer).collect()
    })
}

fn at(time: usize) -> Stamp {
    Stamp {
        time: HybridTime::from_ms(time as u64),
        client: 1,
        sequence: 0,
    }
}

/// Values 0 and 1 are records, 2 is a delete.
fn body(value: usize) -> Option<Bytes> {
    (value < 2).then(|| format!(r#"{{"f": {value}}}"#).into())
}

fn has_entry(
    collection: &Collection,
    (values, froms, order): (&[usize], &[usize], &[usize]),
    asserts_unchanged: bool,
) -> bool {
    let mut zero = || [0; 24];
    let mut edition = fader_blink::Edition {
        key: 0,
        written_ms: 0,
        random: &mut zero,
    };
    let empty = Page::empty(Stamp::ZERO, &mut edition);
    let sizes = collection.sizes();
    // The record is there before all writes.
    let state: Vec<usize> = [0].iter().chain(values).copied().collect();
    let write = |number: usize| Record {
        key: Bytes::from_static(b"k"),
        stamp: at(number + 1),
        op: body(state[number]).map_or(Op::Delete, |body| Op::Insert(Payload::Inline(body))),
    };
    let asserted = |number: usize| {
        let bodies = body(state[number]).into_iter();
        let keys = bodies.flat_map(|body| entries("f", b"k", &body));
        keys.map(move |key| assertion(key, at(number + 1)))
            .collect::<Vec<_>>()
    };
    let mut found = asserted(0);
    for number in 1..state.len() {
        if asserts_unchanged || state[number] != state[froms[number - 1]] {
            found.extend(asserted(number));
        }
    }
    let mut page = empty.clone();
    for number in std::iter::once(0).chain(order.iter().map(|number| number + 1)) {
        let records = [write(number)];
        let applied = fader_blink::apply(&page, &records, HybridTime::ZERO, &sizes, &mut edition);
        if let Some(change) = applied.change {
            let new = [&change.page];
            let gone = contradicted(collection, Guards::default(), &page, &new, &records);
            found.extend(gone.into_iter().map(|(_, record)| record));
            page = change.page;
        }
    }
    let Some(PayloadRef::Inline(last)) = page.get(b"k") else {
        return true;
    };
    let mut keys = entries("f", b"k", last).into_iter();
    keys.all(|key| empty.overlay(&key, &found).visible().is_some())
}

#[test]
fn a_record_has_its_entry_after_any_history_of_writes() {
    let (all, missing) = histories(true);
    println!("{all} histories");
    assert_eq!(missing, 0, "of {all}");
    assert!(all > 183, "{all}");
}

/// Without rule DB-13 entries are missing, in this model as in the one that found it.
#[test]
fn writers_that_assert_only_what_changed_are_caught() {
    let (all, missing) = histories(false);
    println!("caught: entries of unchanged values: {missing} of {all} histories");
    assert!(0 < missing);
}
