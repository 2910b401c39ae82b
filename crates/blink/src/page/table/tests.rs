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
    let Table::Cells(cells) = &table.0 else {
        panic!("no table of a leaf: {table:?}");
    };
    let found = (0..page.count()).filter(|index| {
        let key = page.key(*index).to_vec();
        let (start, end) = (page.offset(*index), page.offset(*index + 1));
        cells.slots(&key).any(|place| place == (start, end - start))
    });
    let found = found.count();
    assert!(590 <= found, "{found} of 600");
    assert!(table.bytes() * PART <= page.body().len());
}

#[test]
fn empty_leaves_and_those_of_small_records_have_no_table() {
    let value = "some payload";
    let records: Vec<Record> = (0..40)
        .map(|number| insert(&format!("user{number:04}"), 1, value))
        .collect();
    for page in pages(&records, small()).iter().chain(&pages(&[], small())) {
        let needed = (page.count() * 4 / 3 + 1) * CELL_BYTES * PART;
        let has_place = !page.is_leaf() || needed <= page.body().len();
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
    let cells = Cells::new(page).expect("a table");
    let filled = |cell: u64| {
        let mut bytes = cell.to_le_bytes()[..CELL_BYTES].repeat(cells.count());
        bytes.resize(cells.0.len(), 0);
        KeyTable(Table::Cells(Cells(bytes.into())))
    };
    for index in 0..page.count() {
        let key = page.key(index).to_vec();
        let other = (index + 1) % page.count();
        let (start, end) = (page.offset(other), page.offset(other + 1));
        let (_, mark) = cells.place(&key);
        let place = start << SIZE_BITS | (end - start);
        let wrong = mark << (START_BITS + SIZE_BITS) | place as u64;
        compare(page, &filled(wrong), &key);
        compare(page, &filled(0), &key);
    }
}

#[test]
fn slots_too_large_for_a_cell_are_found_by_the_search() {
    let value = "v".repeat(1 << SIZE_BITS);
    let records: Vec<Record> = (0..10)
        .map(|number| insert(&format!("user{number:04}"), 1, &value))
        .collect();
    let page = &pages(&records, Sizes::default())[0];
    let cells = Cells::new(page).expect("a table");
    assert!((0..cells.count()).all(|at| cells.get(at) == 0));
    for record in &records {
        compare(page, &KeyTable(Table::Cells(cells.clone())), &record.key);
        assert!(page.get(&record.key).is_some());
    }
}

/// The prefix of a root's keys is empty: its first child begins at the empty key.
#[test]
fn heads_of_a_root_tell_its_children_apart() {
    let pages = pages(&records(0..600), small());
    let root = pages.iter().max_by_key(|page| page.level());
    let root = root.filter(|root| root.count() > 2).expect("a tree");
    assert!(root.prefix().is_empty());
    let Heads { prefix, heads } = Heads::new(root);
    assert!(prefix.starts_with(b"user0"));
    assert!(heads.is_sorted_by(|one, other| one < other));
}

proptest! {
    #[test]
    fn a_table_finds_what_a_search_finds(
        numbers in proptest::collection::btree_set(0..400_u64, 0..200),
        others in proptest::collection::vec(any_key(), 0..20),
        is_small in any::<bool>(),
    ) {
        let sizes = if is_small { small() } else { Sizes::default() };
        let mut records = records(numbers.into_iter());
        let odd = others.iter().cloned();
        records.extend(odd.map(|key| Record { key, ..insert("", 1, "some") }));
        for page in pages(&records, sizes) {
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
