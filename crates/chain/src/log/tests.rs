//! What is known of the newest state, when that becomes an older one again.

use super::*;
use crate::replica::compute;
use crate::stamp::Stamp;

const FIRST: u64 = 1_100;

fn entry(index: u64) -> Entry {
    let id = EntryId::new(1, index);
    Entry {
        id,
        prev: match index {
            1 => EntryId::ZERO,
            _ => EntryId::new(1, index - 1),
        },
        safe_point: EntryId::ZERO,
        stamp: Stamp::strong(id),
        request: Some(RequestId {
            client: 1_u128.into(),
            seq: index,
            part: 0,
        }),
        result: Bytes::new(),
        changes: Vec::new(),
    }
}

/// It shows MEMLOG-2.
#[test]
fn results_removed_by_cut_entries_are_removed_again() {
    let below = BTreeMap::new();
    let mut log = Log::default();
    for index in 1..=FIRST {
        let entry = entry(index);
        let mutations = log.compute(&entry, &below, compute).unwrap();
        log.push(Slot {
            entry: Arc::new(entry),
            lsn: Lsn(index),
            persisted_at: None,
            mutations: Some(Arc::new(mutations)),
        });
    }
    let again = entry(FIRST - 9);
    log.cut(again.prev, true);
    let fresh = compute(&again, &log.newest(&below), &mut DedupCursor::default()).unwrap();
    let removed = |mutations: &[Mutation]| mutations.iter().filter(|it| it.value.is_none()).count();
    assert_eq!(removed(&fresh), 1);
    assert_eq!(log.compute(&again, &below, compute).unwrap(), fresh);
}
