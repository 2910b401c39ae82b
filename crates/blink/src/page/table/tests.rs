//! The table finds what the search finds.

use proptest::prelude::*;

use super::*;
use crate::tests::{ROOT, Tree, any_key, insert, small};
use crate::{HybridTime, Record, Sizes};

fn compare(page: &Page, table: &KeyTable, key: &[u8]) {
    assert_eq!(page.look_by(table, key), page.look(key), "{key:?}");
}

fn records(numbers: impl Iterator<Item = u64>) -> Vec<Record> {
    let value = "v".repeat(100);
    let records = numbers.map(|number| insert(&format!("user{number:04}"), 1, &value));
    records.collect()
}

fn pages(records: &[Record], sizes: Sizes) -> Vec<Page> {
    let mut tree = Tree::new(sizes);
    tree.apply(ROOT, records, HybridTime::ZERO);
    tree.pages.values().cloned().collect()
}

#[test]
fn a_table_has_nearly_all_keys_of_its_leaf() {
    let page = &pages(&records(0..600), Sizes::default())[0];
    let table = KeyTable::new(page).expect("a table");
    let found = (0..page.count()).filter(|index| {
        let key = page.key(*index).to_vec();
        let (start, end) = (page.offset(*index), page.offset(*index + 1));
        table
            .places(&key)
            .any(|place| place == (start, end - start))
    });
    let found = found.count();
    assert!(590 <= found, "{found} of 600");
    assert!(table.bytes() * PART <= page.body().len());
}

#[test]
fn inner_pages_empty_ones_and_small_records_have_no_table() {
    let value = "some payload";
    let records: Vec<Record> = (0..40)
        .map(|number| insert(&format!("user{number:04}"), 1, value))
        .collect();
    for page in pages(&records, small()).iter().chain(&pages(&[], small())) {
        let needed = (page.count() * 4 / 3 + 1) * size_of::<u64>() * PART;
        let has_place = page.is_leaf() && needed <= page.body().len();
        assert_eq!(KeyTable::new(page).is_some(), has_place);
    }
    let few: Vec<Record> = (0..1000)
        .map(|number| insert(&format!("{number:04}"), 1, ""))
        .collect();
    assert!(KeyTable::new(&pages(&few, Sizes::default())[0]).is_none());
}

/// Cells that say nothing true: each read is decided by the page.
#[test]
fn a_wrong_cell_never_changes_an_answer() {
    let page = &pages(&records(0..100), Sizes::default())[0];
    let mut table = KeyTable::new(page).expect("a table");
    for index in 0..page.count() {
        let key = page.key(index).to_vec();
        let other = (index + 1) % page.count();
        let (start, end) = (page.offset(other), page.offset(other + 1));
        let (_, mark) = place(&key, table.cells.len());
        table
            .cells
            .fill(mark | (start as u64) << SIZE_BITS | (end - start) as u64);
        compare(page, &table, &key);
        table.cells.fill(0);
        compare(page, &table, &key);
    }
}

proptest! {
    #[test]
    fn a_table_finds_what_a_search_finds(
        numbers in proptest::collection::btree_set(0..400_u64, 0..200),
        others in proptest::collection::vec(any_key(), 0..20),
        is_small in any::<bool>(),
    ) {
        let sizes = if is_small { small() } else { Sizes::default() };
        for page in pages(&records(numbers.into_iter()), sizes) {
            let Some(table) = KeyTable::new(&page) else { continue };
            for number in 0..410 {
                compare(&page, &table, format!("user{number:04}").as_bytes());
            }
            for key in &others {
                compare(&page, &table, key);
            }
        }
    }
}
