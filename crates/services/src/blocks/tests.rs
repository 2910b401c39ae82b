//! Rows of blocks: puts, leases and their ends, removals, and what collectors ask.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use fader_chain::{
    ApplyContext, ChainId, Change, Entry, EntryId, Envelope, Incarnation, Message, NodeId, Stamp,
};

use super::*;
use crate::request::Request;
use crate::s3::rows::BucketId;
use crate::{CollectionId, MapView};

const NOW: u64 = 1_000_000;
const LEASE: u64 = 500;

#[derive(Default)]
struct Chain {
    rows: MapView,
    index: u64,
}

impl Chain {
    fn run(&mut self, now_ms: u64, command: &Command) -> Vec<Change> {
        let limits = Limits { lease_ms: LEASE };
        let changes = decide(&self.rows, &limits, now_ms, command).unwrap();
        self.apply(&changes);
        changes
    }

    fn apply(&mut self, changes: &[Change]) {
        self.index += 1;
        let under = ApplyContext::strong(EntryId::new(1, self.index));
        self.rows.apply(changes, &under).unwrap();
    }

    fn due(&self, now_ms: u64) -> Vec<LeaseAt> {
        due(&self.rows, None, now_ms, 10).unwrap()
    }

    fn lease(&self, id: u128) -> Option<Lease> {
        row(&self.rows, id).unwrap().map(|row| row.lease)
    }
}

fn owner() -> Owner {
    Owner {
        collection: CollectionId(7),
        attempt: Attempt {
            id: 1,
            bucket: BucketId(2),
            begun: EntryId::new(1, 1),
        },
        upload: None,
    }
}

fn put(number: u64, ids: &[u128]) -> Command {
    let blocks = ids.iter().map(|id| NewRow {
        id: *id,
        size: 10,
        sum: 11,
    });
    Command::Put(Put {
        owner: owner(),
        chain: ChainId(0),
        number,
        blocks: blocks.collect(),
    })
}

#[test]
fn a_row_has_a_lease_until_that_ends() {
    let mut chain = Chain::default();
    let changes = chain.run(NOW, &put(1, &[5, 6]));
    let new: Vec<u128> = changes.iter().filter_map(new_row).collect();
    assert_eq!(new, [5, 6]);
    assert_eq!(chain.lease(5), Some(Lease::Until(NOW + LEASE)));
    assert!(chain.due(NOW + LEASE - 1).is_empty());
    assert_eq!(chain.due(NOW + LEASE).len(), 2);
    let changes = chain.run(NOW, &Command::EndLeases(vec![(5, 1)]));
    // The bytes of a row whose lease ends are not waited for.
    assert_eq!(changes.iter().filter_map(new_row).count(), 0);
    assert_eq!(chain.lease(5), Some(Lease::Ended));
    assert_eq!(chain.due(u64::MAX), [(NOW + LEASE, 6)]);
    let after = chain.due(u64::MAX).last().copied();
    assert!(due(&chain.rows, after, u64::MAX, 10).unwrap().is_empty());
    assert_eq!(leased(&chain.rows, &[5, 6, 7]).unwrap().len(), 1);
}

/// It shows SR-3.
#[test]
fn a_repeated_put_renews_no_lease() {
    let mut chain = Chain::default();
    chain.run(NOW, &put(1, &[5]));
    assert!(chain.run(NOW + 100, &put(2, &[5])).is_empty());
    chain.run(NOW, &Command::EndLeases(vec![(5, 1)]));
    assert!(chain.run(NOW + 100, &put(3, &[5])).is_empty());
    assert_eq!(chain.lease(5), Some(Lease::Ended));
}

/// SR-1: the model's rule 8. It shows SR-2.
#[test]
fn the_end_of_a_lease_makes_no_row_and_ends_none_of_another_put() {
    let mut chain = Chain::default();
    chain.run(NOW, &put(1, &[5]));
    chain.run(NOW, &Command::Remove(vec![5]));
    assert!(chain.run(NOW, &Command::EndLeases(vec![(5, 1)])).is_empty());
    assert_eq!(chain.lease(5), None);
    chain.run(NOW, &put(2, &[5]));
    assert!(chain.run(NOW, &Command::EndLeases(vec![(5, 1)])).is_empty());
    assert_eq!(chain.lease(5), Some(Lease::Until(NOW + LEASE)));
}

#[test]
fn a_removal_takes_the_lease_along_and_may_be_repeated() {
    let mut chain = Chain::default();
    chain.run(NOW, &put(1, &[5, 6]));
    let changes = chain.run(NOW, &Command::Remove(vec![5, 9]));
    let removed = changes.iter().filter_map(|change| block_of(change.key()));
    assert_eq!(removed.collect::<Vec<_>>(), [5]);
    assert_eq!(chain.due(u64::MAX).len(), 1);
    assert!(chain.run(NOW, &Command::Remove(vec![5])).is_empty());
    assert_eq!(rows_from(&chain.rows, None, 9).unwrap().len(), 1);
    assert_eq!(rows_from(&chain.rows, Some(6), 9).unwrap().len(), 0);
}

#[test]
fn the_outcome_of_fences_is_asked_of_the_blocks_chain() {
    let mut chain = Chain::default();
    chain.run(NOW, &put(4, &[5, 6, 7]));
    let rows = leased(&chain.rows, &[5, 6, 7]).unwrap();
    let fates = [Fenced::Kept, Fenced::Fenced, Fenced::NoAnswer];
    let fates = rows.into_iter().zip(fates);
    let fates: Vec<(u128, Row, Fenced)> = fates.map(|((id, row), it)| (id, row, it)).collect();
    let expected = [Command::EndLeases(vec![(5, 4)]), Command::Remove(vec![6])];
    assert_eq!(verdicts(&fates), expected);
}

#[test]
fn only_a_put_of_rows_waits_for_bytes() {
    let Command::Put(it) = put(1, &[5]) else {
        panic!("it is a put");
    };
    let ids = |command: Command| {
        let request = Request::Block(command);
        let rows = request.puts_blocks().iter().map(|row| row.id);
        rows.collect::<Vec<u128>>()
    };
    assert_eq!(ids(Command::Put(it)), [5]);
    assert!(ids(Command::Remove(vec![5])).is_empty());
    assert!(ids(Command::EndLeases(vec![(5, 1)])).is_empty());
}

#[test]
fn a_lease_that_is_closed_is_over_at_once_and_makes_no_row() {
    let mut chain = Chain::default();
    chain.run(NOW, &put(1, &[5, 6]));
    for (at, since) in [(NOW + 7, NOW + 7), (NOW + 9, NOW + 7)] {
        let changes = closed(&chain.rows, at, 5).unwrap();
        assert_eq!(changes.iter().filter_map(new_row).count(), 0);
        chain.apply(&changes);
        assert_eq!(chain.lease(5), Some(Lease::Closed(since)));
        assert_eq!(chain.due(NOW + 7), [(since, 5)]);
    }
    // One that is over stays in its place.
    let changes = closed(&chain.rows, NOW + LEASE + 1, 6).unwrap();
    chain.apply(&changes);
    assert_eq!(chain.lease(6), Some(Lease::Closed(NOW + LEASE)));
    assert_eq!(chain.due(u64::MAX).len(), 2);
    // A put that comes late does not open it.
    chain.run(NOW + 10, &put(2, &[5]));
    assert_eq!(chain.lease(5), Some(Lease::Closed(NOW + 7)));
    chain.run(NOW + 11, &Command::Remove(vec![6]));
    chain.run(NOW + 11, &Command::EndLeases(vec![(5, 1)]));
    assert_eq!(chain.lease(5), Some(Lease::Ended));
    assert!(chain.due(u64::MAX).is_empty());
    assert!(closed(&chain.rows, NOW, 5).unwrap().is_empty());
}

/// It shows HO-1 and MB-1.
#[test]
fn a_row_is_there_until_its_removal_is_applied() {
    let mut chain = Chain::default();
    let is_there = |chain: &Chain, changes: bool| {
        may_have_row(&chain.rows, |key| changes && block_of(key) == Some(5), 5).unwrap()
    };
    // Its put, and then its removal, may be in the log and not in the state.
    assert!(!is_there(&chain, false));
    assert!(is_there(&chain, true));
    chain.run(NOW, &put(1, &[5]));
    assert!(is_there(&chain, false));
    chain.run(NOW, &Command::Remove(vec![5]));
    assert!(!is_there(&chain, false));
    assert!(is_there(&chain, true));
}

/// It shows BGATE-1, BGATE-2 and BGATE-3.
#[test]
fn messages_with_rows_wait_outside_of_the_replica() {
    let append = |index| {
        let mut chain = Chain::default();
        let entry = Entry {
            id: EntryId::new(1, index),
            prev: EntryId::ZERO,
            safe_point: EntryId::ZERO,
            stamp: Stamp::ZERO,
            request: None,
            result: Bytes::new(),
            changes: chain.run(NOW, &put(1, &[5])),
        };
        let message = Message::Append {
            after: EntryId::ZERO,
            entries: vec![Arc::new(entry)],
            commit: EntryId::ZERO,
        };
        Envelope {
            epoch: 1,
            from: NodeId(1),
            incarnation: Incarnation(1),
            message,
        }
    };
    let rows = |envelope: &Envelope, last| match &envelope.message {
        Message::Append { entries, .. } => rows_of_entries(entries.iter().map(|it| &**it), last),
        _ => unreachable!("it is an append"),
    };
    let (first, none) = (append(1), |_: u128| false);
    let needed = rows(&first, EntryId::ZERO);
    assert_eq!(needed.iter().copied().collect::<Vec<_>>(), [5]);
    assert!(rows(&first, EntryId::new(1, 1)).is_empty());
    let mut intake = Intake::default();
    assert_eq!(intake.hear(first.clone(), needed.clone(), none), None);
    assert!(intake.ready(none).is_empty() && !intake.may_log(&needed, none));
    assert_eq!(intake.missing().collect::<Vec<_>>(), [5]);
    // Its removal would be above the safe point, too.
    intake.on_gone([5], EntryId::ZERO);
    assert!(intake.ready(none).is_empty());
    intake.on_gone([5], EntryId::new(1, 1));
    assert_eq!(intake.ready(none), std::slice::from_ref(&first));
    assert!(intake.may_log(&needed, none));
    // It was gone for that record alone.
    assert!(!intake.may_log(&needed, none));
    assert_eq!(intake.hear(first.clone(), needed.clone(), none), None);
    intake.forget();
    assert!(intake.is_empty() && intake.ready(|_| true).is_empty());
    assert_eq!(
        intake.hear(first.clone(), BTreeSet::new(), none),
        Some(first)
    );
}
