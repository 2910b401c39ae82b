//! The sweep ends, removes everything of deleted domains, and nothing else.

use bytes::Bytes;
use fader_chain::{ApplyContext, Change, EntryId};
use fader_services::{CollectionId, Direction, KeyBuilder, MapView, SYSTEM, Table, View};

use super::{DomainPurge, KEYS_PER_STEP};

fn fill(pairs: &mut Vec<(Bytes, Bytes)>, collection: u64, count: usize) {
    for number in 0..count {
        let builder = KeyBuilder::new(CollectionId(collection), Table::Items);
        pairs.push((
            builder.raw(&(number as u32).to_be_bytes()).build(),
            Bytes::new(),
        ));
    }
}

fn marker(collection: u64) -> (Bytes, Bytes) {
    let builder = KeyBuilder::new(SYSTEM, Table::Garbage);
    (builder.raw(&collection.to_be_bytes()).build(), Bytes::new())
}

#[test]
fn deleted_domains_go_and_others_stay() {
    let mut pairs = vec![marker(2), marker(4)];
    fill(&mut pairs, 1, 10);
    fill(&mut pairs, 2, 3 * KEYS_PER_STEP + 7);
    fill(&mut pairs, 3, 10);
    fill(&mut pairs, 4, KEYS_PER_STEP);
    let puts: Vec<Change> = pairs
        .into_iter()
        .map(|(key, value)| Change::Put { key, value })
        .collect();
    let mut view = MapView::default();
    view.apply(&puts, &ApplyContext::strong(EntryId::ZERO))
        .unwrap();
    let mut sweep = DomainPurge::new();
    let mut steps = 0;
    while sweep.is_due() {
        let changes: Vec<Change> = sweep.step(&view).unwrap();
        assert!(changes.len() <= KEYS_PER_STEP + 2);
        steps += 1;
        let id = EntryId::new(1, steps);
        view.apply(&changes, &ApplyContext::strong(id)).unwrap();
    }
    assert!((5..9).contains(&steps), "{steps} steps");
    assert_eq!(view.scan(&[], &[0xff], Direction::Forward).count(), 20);
}
