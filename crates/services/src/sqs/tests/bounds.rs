//! What a receive reads: at most 64 rows for ten messages, and the content of none.

use bytes::Bytes;

use super::fixture::*;
use crate::sqs::command::*;
use crate::sqs::layout::{self, Index, Keys, Spot};
use crate::sqs::message::{Counters, Group, Place, Row as _, State};
use crate::sqs::{Reply, queue};

const ROWS_MAX: usize = 64;

/// Receives ten messages and counts the rows that the decision reads.
fn check(chain: &mut Chain, queue: &str, expected: usize) {
    let request = chain.request(Command::ReceiveMessage(receive(queue, 10)));
    let decision = chain.decide(&request).unwrap();
    let (rows, bodies, tables) = chain.rows.take();
    let Ok(Reply::Received(received)) = &decision.outcome else {
        panic!("{:?}", decision.outcome);
    };
    assert_eq!(received.messages.len(), expected);
    assert_eq!(bodies, 0, "a decision reads no content");
    assert!(rows <= ROWS_MAX, "{rows} rows: {tables}");
    chain.apply(&decision.changes);
}

fn send_many(chain: &mut Chain, queue: &str, count: usize, group: Option<fn(usize) -> String>) {
    let mut number = 0;
    while number < count {
        let entries = (number..count.min(number + 10)).map(|number| SendEntry {
            id: number.to_string(),
            group_id: group.map(|group| group(number)),
            deduplication_id: group.map(|_| number.to_string()),
            ..entry("x")
        });
        let entries: Vec<_> = entries.collect();
        number += entries.len();
        let send = SendMessage {
            queue: queue.to_owned(),
            is_batch: true,
            entries,
        };
        chain.run(Command::SendMessage(send)).unwrap();
    }
}

#[test]
fn a_receive_reads_few_rows_at_depth_10() {
    let mut chain = Chain::with_queue(&[]);
    send_many(&mut chain, Q, 10, None);
    check(&mut chain, Q, 10);
}

/// Puts the rows of `count` messages without deciding each send: sent a millisecond after each
/// other. Of those that are removed tombstones are left, as of deletions in order.
fn fill(chain: &mut Chain, count: u64, is_removed: bool) {
    let collection = chain.place(Q).unwrap().collection;
    let counters = queue::counters(&chain.rows, collection).unwrap();
    let keys = Keys {
        collection,
        era: counters.era,
    };
    let spot = |number| Spot {
        at: START + number,
        number,
    };
    for number in counters.last + 1..=counters.last + count {
        let ready = Place::Ready(spot(number));
        let state = State {
            place: ready,
            receives: 0,
            first_receive_ms: 0,
            kept_from_ms: START + number,
            group: String::new(),
        };
        let rows = [
            (keys.index(Index::Ready, spot(number)), Bytes::new()),
            (keys.index(Index::Scheduled, spot(number)), Bytes::new()),
            (keys.state(number), state.encode()),
        ];
        for (at, (key, value)) in rows.into_iter().enumerate() {
            let is_there = !is_removed && at != 1;
            chain.rows.put(key, is_there.then_some(value));
        }
    }
    let first = counters.last + 1;
    let filled = Counters {
        last: counters.last + count,
        ready: if is_removed { 0 } else { count },
        ready_low: (!is_removed).then(|| spot(first)),
        clock_ms: START + counters.last + count,
        ..counters
    };
    let key = layout::counters_key(collection);
    chain.rows.put(key, Some(filled.encode()));
    chain.now_ms = START + filled.last;
}

#[test]
fn a_receive_reads_few_rows_at_depth_1_000_000() {
    let mut chain = Chain::with_queue(&[]);
    fill(&mut chain, 1_000_000, false);
    for _ in 0..3 {
        check(&mut chain, Q, 10);
    }
}

#[test]
fn a_receive_reads_few_rows_after_1_000_000_deletions() {
    let mut chain = Chain::with_queue(&[("VisibilityTimeout", "600")]);
    fill(&mut chain, 1_000_000, true);
    send_many(&mut chain, Q, 20, None);
    check(&mut chain, Q, 10);
    chain.pass(1000);
    check(&mut chain, Q, 10);
    assert_eq!(chain.rows_of(Q), 60);
}

/// A batch that takes the first rows of an index looks for the next one once.
#[test]
fn a_batch_of_deletions_reads_few_rows() {
    let mut chain = Chain::with_queue(&[("VisibilityTimeout", "600")]);
    send_many(&mut chain, Q, 30, None);
    let held = chain.receive(Q, 10);
    chain.now_ms += 1;
    chain.receive(Q, 10);
    let entries = held.into_iter().map(|message| DeleteEntry {
        id: message.id.to_string(),
        receipt_handle: Some(message.handle),
    });
    let request = chain.request(Command::DeleteMessage(DeleteMessage {
        queue: Q.to_owned(),
        is_batch: true,
        entries: entries.collect(),
    }));
    chain.rows.take();
    let decision = chain.decide(&request).unwrap();
    let (rows, _, tables) = chain.rows.take();
    // The settings, the counters, ten states, ten rows that were removed, and the next one.
    assert!(rows <= 24, "{rows} rows: {tables}");
    chain.apply(&decision.changes);
    assert_eq!(chain.counts(Q), [10, 10, 0]);
    chain.pass(600);
    assert_eq!(chain.receive(Q, 10).len(), 10);
    assert_eq!(chain.receive(Q, 10).len(), 10);
    assert!(chain.receive(Q, 10).is_empty());
}

/// Deletions as they come: in order, and the first one last.
#[test]
fn a_receive_reads_few_rows_after_deletions_in_any_order() {
    for is_first_last in [false, true] {
        let mut chain = Chain::with_queue(&[("VisibilityTimeout", "600")]);
        send_many(&mut chain, Q, 1_000, None);
        let mut handles = Vec::new();
        for _ in 0..100 {
            chain.now_ms += 1;
            handles.extend(chain.receive(Q, 10).into_iter().map(|it| it.handle));
        }
        if is_first_last {
            handles.rotate_left(1);
        }
        for handle in handles {
            chain.delete(Q, &handle).unwrap();
        }
        send_many(&mut chain, Q, 20, None);
        check(&mut chain, Q, 10);
        chain.pass(600);
        check(&mut chain, Q, 10);
    }
}

/// Puts the rows of `count` messages in flight, whose deadlines are a millisecond apart.
fn hold(chain: &mut Chain, count: u64) {
    let collection = chain.place(Q).unwrap().collection;
    let keys = Keys { collection, era: 0 };
    for number in 1..=count {
        let until = Spot {
            at: START + 500_000 + number / 2,
            number,
        };
        let before = Spot { at: START, number };
        let place = Place::InFlight {
            until,
            since_ms: START,
            before,
        };
        let state = State {
            place,
            receives: 1,
            first_receive_ms: START,
            kept_from_ms: START,
            group: String::new(),
        };
        chain
            .rows
            .put(keys.index(Index::Scheduled, until), Some(Bytes::new()));
        chain.rows.put(keys.state(number), Some(state.encode()));
    }
    let counters = Counters {
        last: count,
        in_flight: count,
        scheduled_low: Some(Spot {
            at: START + 500_000,
            number: 1,
        }),
        clock_ms: START,
        ..Counters::default()
    };
    let key = layout::counters_key(collection);
    chain.rows.put(key, Some(counters.encode()));
}

#[test]
fn a_receive_reads_few_rows_with_120_000_in_flight() {
    let mut chain = Chain::with_queue(&[("VisibilityTimeout", "600")]);
    hold(&mut chain, 119_990);
    send_many(&mut chain, Q, 20, None);
    check(&mut chain, Q, 10);
    let request = chain.request(Command::ReceiveMessage(receive(Q, 10)));
    let refused = chain.decide(&request).unwrap().outcome.unwrap_err();
    assert_eq!(refused.code, crate::sqs::Code::OverLimit);
    assert!(chain.rows.take().0 <= ROWS_MAX);
    chain.pass(600);
    check(&mut chain, Q, 10);
}

#[test]
fn a_receive_reads_few_rows_with_100_000_blocked_groups() {
    let mut chain = Chain::with_fifo(&[("VisibilityTimeout", "600")]);
    let collection = chain.place("jobs.fifo").unwrap().collection;
    let keys = Keys { collection, era: 0 };
    // A group that is blocked has a row of its own, one for each message, and no place among those
    // that are ready.
    for number in 1..=100_000_u64 {
        let name = format!("blocked-{number}");
        let spot = Spot {
            at: START,
            number: 1_000_000 + number,
        };
        let group = Group {
            held: 1,
            head: Some(spot),
            ready: None,
        };
        chain.rows.put(keys.group(&name), Some(group.encode()));
        let waiting = keys.waiting(&name, Spot { at: 0, ..spot });
        let at = Bytes::copy_from_slice(&spot.at.to_be_bytes());
        chain.rows.put(waiting, Some(at));
        let until = Spot {
            at: START + 600_000,
            number,
        };
        chain
            .rows
            .put(keys.index(Index::Scheduled, until), Some(name.into()));
    }
    let counters = Counters {
        last: 2_000_000,
        ready: 100_000,
        in_flight: 100_000,
        scheduled_low: Some(Spot {
            at: START + 600_000,
            number: 1,
        }),
        clock_ms: START,
        ..Counters::default()
    };
    let key = layout::counters_key(collection);
    chain.rows.put(key, Some(counters.encode()));
    for group in 0..20 {
        chain.send_to(&format!("free-{group}"), "1");
        chain.send_to(&format!("free-{group}"), "2");
    }
    check(&mut chain, "jobs.fifo", 10);
}
