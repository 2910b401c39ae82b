//! What is swept, and that what was learned of it changes nothing.

use std::cell::RefCell;

use proptest::prelude::*;

use super::*;
use crate::stamp::Stamp;
use crate::view::Scan;

const CLIENT: u128 = 7;

/// A state that counts the removed rows which a store would pass over in its scans.
#[derive(Default)]
struct Store {
    rows: BTreeMap<Bytes, Option<Bytes>>,
    passed: RefCell<usize>,
}

impl Store {
    fn take(&mut self, mutations: Vec<Mutation>) {
        let pairs = mutations.into_iter().map(|it| (it.key, it.value));
        self.rows.extend(pairs);
    }

    fn results(&self) -> usize {
        let live = self.rows.iter().filter(|(_, value)| value.is_some());
        live.filter(|(key, _)| keys::parse_result_key(key).is_some())
            .count()
    }
}

impl View for Store {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, ViewError> {
        Ok(self.rows.get(key).cloned().flatten())
    }

    fn scan(&self, start: &[u8], end: &[u8], _: Direction) -> Scan<'_> {
        let rows = self.rows.range::<[u8], _>((
            std::ops::Bound::Included(start),
            std::ops::Bound::Excluded(end),
        ));
        Box::new(rows.filter_map(|(key, value)| {
            *self.passed.borrow_mut() += usize::from(value.is_none());
            Some(Ok((key.clone(), value.clone()?)))
        }))
    }
}

/// The entry that carries a client's number.
fn entry(index: u64, name: RequestId, is_settlement: bool, safe_point: u64) -> Entry {
    let id = EntryId::new(1, index);
    let clock = u64::from(is_settlement);
    Entry {
        id,
        prev: EntryId::new(1, index - 1),
        safe_point: EntryId::new(1, safe_point),
        stamp: Stamp {
            clock,
            ..Stamp::strong(id)
        },
        request: Some(name),
        result: Bytes::new(),
        changes: Vec::new(),
    }
}

fn name(client: u128, seq: u64, part: u32) -> RequestId {
    RequestId {
        client: client.into(),
        seq,
        part,
    }
}

fn done(entry: &Entry, state: &dyn View, swept: &mut DedupCursor) -> Vec<Mutation> {
    let mut out = Vec::new();
    let name = entry.request.expect("each has a name");
    record(entry, name, state, swept, &mut out).unwrap();
    out
}

/// A member that stamps writes without a name is a client with many results once the safe point
/// rises. It has as many as were settled since it rose last.
#[test]
fn removed_results_are_not_scanned_again() {
    const SETTLED: u64 = 5_000;
    let (mut store, mut swept) = (Store::default(), DedupCursor::default());
    for seq in 1..=2 * SETTLED {
        let safe_point = if seq <= SETTLED { 0 } else { SETTLED };
        let entry = entry(seq, name(CLIENT, seq, 0), true, safe_point);
        let mutations = done(&entry, &store, &mut swept);
        store.take(mutations);
    }
    assert_eq!(store.results() as u64, SETTLED);
    // Each entry may pass over the last one that was removed before.
    assert!(*store.passed.borrow() as u64 <= SETTLED);
}

/// The same of a client that names its strong requests: each entry drops the result of one.
/// It shows DEDUP-2.
#[test]
fn a_window_that_moves_is_not_looked_through_from_the_beginning() {
    let (mut store, mut swept) = (Store::default(), DedupCursor::default());
    for seq in 1..=3 * WINDOW {
        let mutations = done(
            &entry(seq, name(CLIENT, seq, 0), false, 0),
            &store,
            &mut swept,
        );
        store.take(mutations);
    }
    assert_eq!(store.results() as u64, WINDOW);
    assert_eq!(*store.passed.borrow(), 0);
}

#[test]
fn a_result_that_comes_late_is_swept_too() {
    let (mut store, mut swept) = (Store::default(), DedupCursor::default());
    let seqs = (1..=2 * WINDOW).filter(|seq| *seq != 5);
    for (at, seq) in seqs.chain([5, 2 * WINDOW + 1]).enumerate() {
        let index = at as u64 + 1;
        let entry = entry(index, name(CLIENT, seq, 0), seq == 5, index - 1);
        let mutations = done(&entry, &store, &mut swept);
        store.take(mutations);
    }
    assert_eq!(store.results() as u64, WINDOW);
    assert_eq!(store.get(&keys::result_key(name(CLIENT, 5, 0))), Ok(None));
}

#[test]
fn more_clients_than_are_remembered_are_swept_as_well() {
    let (mut store, mut swept) = (Store::default(), DedupCursor::default());
    let clients = SWEPT_CLIENTS_MAX as u128 + 10;
    for (round, seq) in [1, WINDOW + 1, 2 * WINDOW + 1].into_iter().enumerate() {
        for client in 0..clients {
            let index = round as u64 * 10_000 + client as u64 + 1;
            let entry = entry(index, name(client, seq, 0), false, 0);
            let mutations = done(&entry, &store, &mut swept);
            store.take(mutations);
            assert!(swept.begins.len() <= SWEPT_CLIENTS_MAX);
        }
    }
    assert_eq!(store.results() as u128, clients);
}

/// By how much a client's number differs from its greatest, which part it is, whether it settles,
/// and by how much the safe point rises.
fn step() -> impl Strategy<Value = (u128, i64, u32, bool, u64)> {
    (
        0..2_u128,
        -1_500..700_i64,
        0..3_u32,
        any::<bool>(),
        0..5_u64,
    )
}

proptest! {
    /// It shows DEDUP-4.
    #[test]
    fn an_entry_has_the_same_effect_without_it(
        steps in prop::collection::vec(step(), 1..200),
    ) {
        let (mut store, mut swept) = (Store::default(), DedupCursor::default());
        let (mut greatest, mut safe_point) = ([1_u64; 2], 0);
        for (at, (client, ahead, part, is_settlement, rise)) in steps.into_iter().enumerate() {
            let index = at as u64 + 1;
            safe_point = (safe_point + rise).min(index - 1);
            let seq = greatest[client as usize].saturating_add_signed(ahead);
            greatest[client as usize] = seq.max(greatest[client as usize]);
            let entry = entry(index, name(client, seq, part), is_settlement, safe_point);
            let mutations = done(&entry, &store, &mut swept);
            prop_assert_eq!(&mutations, &done(&entry, &store, &mut DedupCursor::default()));
            store.take(mutations);
        }
    }
}
