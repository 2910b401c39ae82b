//! Entries of an index under concurrent writers (model I of the checked protocols), on the
//! functions of indexes and pages.

use bytes::Bytes;
use fader_blink::{HybridTime, Op, Page, Payload, PayloadRef, Record, Stamp};

use crate::catalogue::{Collection, CollectionId};
use crate::guard::Guards;
use crate::index::{assertion, contradicted, entries};

/// A record that is there, and up to three writes of it. Each writer read the state of any write
/// before its own; the writes reach the page in any order. Returns the number of histories, and
/// the number of those at whose end the record has no entry.
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
                            &values,
                            &froms,
                            &order,
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
    values: &[usize],
    froms: &[usize],
    order: &[usize],
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

/// It shows DB-13 and INDEX-1.
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
