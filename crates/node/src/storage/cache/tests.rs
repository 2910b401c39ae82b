//! The cache never shows what the catalog no longer says.

use fader_services::{KeyBuilder, SYSTEM, Table};

use super::{Cache, touches};
use crate::storage::engine::{Mutations, pairs};

fn mutations(table: Table) -> Mutations {
    [(KeyBuilder::new(SYSTEM, table).raw(b"id").build(), None)].into()
}

#[test]
fn an_entry_stays_until_its_table_changes() {
    let cache = Cache::of(&[Table::AccessKeys]);
    let generation = cache.get("A").unwrap_err();
    cache.put(generation, "A".to_owned(), 1);
    assert_eq!(cache.get("A"), Ok(1));
    cache.on_applied(&pairs(&mutations(Table::Domains)));
    assert!(cache.get("A").is_ok(), "other tables do not matter");
    cache.on_applied(&pairs(&mutations(Table::AccessKeys)));
    assert!(cache.get("A").is_err());
}

/// It shows CACHE-1.
#[test]
fn a_read_before_a_change_is_not_kept() {
    let cache = Cache::of(&[Table::AccessKeys]);
    let before = cache.get("A").unwrap_err();
    cache.on_applied(&pairs(&mutations(Table::AccessKeys)));
    cache.put(before, "A".to_owned(), 1);
    assert!(cache.get("A").is_err());
}

#[test]
fn tables_are_told_apart() {
    for table in [Table::Garbage, Table::AccessKeys, Table::Domains] {
        let touched = mutations(table);
        for other in [Table::Garbage, Table::AccessKeys, Table::Domains] {
            assert_eq!(touches(&pairs(&touched), other), table == other);
        }
    }
}
