//! The cache never shows what the catalog no longer says.

use std::sync::Arc;

use bytes::Bytes;
use fader_services::catalog::{AccessKey, AccountId, KeyStatus};
use fader_services::{KeyBuilder, SYSTEM, Table};

use super::{KeyCache, touches};
use crate::secrets::seal::{OpenKey, Secret};
use crate::storage::engine::{Mutations, pairs};

fn open_key(id: &str) -> Arc<OpenKey> {
    let key = AccessKey {
        id: id.to_owned(),
        account: AccountId("000000000001".to_owned()),
        sealed_secret: Bytes::new(),
        status: KeyStatus::Active,
        created_ms: 0,
        note: String::new(),
        preference: None,
    };
    Arc::new(OpenKey {
        key,
        secret: Secret::new(String::new()),
    })
}

fn mutations(table: Table) -> Mutations {
    [(KeyBuilder::new(SYSTEM, table).raw(b"id").build(), None)].into()
}

#[test]
fn a_key_stays_until_the_catalog_changes() {
    let cache = KeyCache::default();
    let generation = cache.get("A").unwrap_err();
    cache.put(generation, open_key("A"));
    assert_eq!(cache.get("A").unwrap().key.id, "A");
    cache.on_applied(&pairs(&mutations(Table::Domains)));
    assert!(cache.get("A").is_ok(), "other tables do not matter");
    cache.on_applied(&pairs(&mutations(Table::AccessKeys)));
    assert!(cache.get("A").is_err());
}

#[test]
fn what_was_read_before_a_change_is_not_kept() {
    let cache = KeyCache::default();
    let before = cache.get("A").unwrap_err();
    cache.on_applied(&pairs(&mutations(Table::AccessKeys)));
    cache.put(before, open_key("A"));
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
