//! What the records come to.

use bytes::Bytes;

use super::*;
use crate::stamp::Stamp;

/// It shows TRACE-20.
#[test]
fn an_operation_goes_with_the_entry_that_settled_it() {
    let name = |seq| RequestId {
        client: 7_u128.into(),
        seq,
        part: 0,
    };
    let operation = |seq| {
        Record::Operation(Arc::new(Operation {
            name: name(seq),
            stamp: Stamp::strong(EntryId::ZERO),
            accept: EntryId::ZERO,
            digest: None,
            key: Bytes::from_static(b"k"),
            ops: Vec::new(),
        }))
    };
    let entry = |index: u64, request| {
        Record::Entry(Arc::new(Entry {
            id: EntryId::new(1, index),
            prev: match index {
                1 => EntryId::ZERO,
                _ => EntryId::new(1, index - 1),
            },
            safe_point: EntryId::ZERO,
            stamp: Stamp::strong(EntryId::ZERO),
            request,
            result: Bytes::new(),
            changes: Vec::new(),
        }))
    };
    let mut durable = RecoveredState::default();
    let records = [
        operation(1),
        operation(2),
        operation(3),
        entry(1, Some(name(1))),
        entry(2, None),
        entry(3, Some(name(2))),
    ];
    records.into_iter().for_each(|record| durable.take(record));
    durable.release(EntryId::new(1, 2));
    // What is settled above is in the engine not yet; the third is settled nowhere.
    let left: Vec<u64> = durable.operations.keys().map(|name| name.seq).collect();
    assert_eq!(left, [2, 3]);
}
