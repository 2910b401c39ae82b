//! What a receive reads: at most 64 rows for ten messages, and the content of none.

use super::fixture::*;
use crate::sqs::Reply;
use crate::sqs::command::*;

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

#[test]
fn a_receive_reads_few_rows_at_depth_1_000_000() {
    let mut chain = Chain::with_queue(&[]);
    send_many(&mut chain, Q, 1_000_000, None);
    for _ in 0..3 {
        check(&mut chain, Q, 10);
    }
}

#[test]
fn a_receive_reads_few_rows_after_1_000_000_deletions() {
    let mut chain = Chain::with_queue(&[("VisibilityTimeout", "600")]);
    for round in 0..10 {
        send_many(&mut chain, Q, 100_000, None);
        for batch in 0..10_000 {
            let held = chain.receive(Q, 10);
            let entries = held.iter().enumerate().map(|(id, message)| DeleteEntry {
                id: id.to_string(),
                receipt_handle: Some(message.handle.clone()),
            });
            let delete = DeleteMessage {
                queue: Q.to_owned(),
                is_batch: true,
                entries: entries.collect(),
            };
            chain.run(Command::DeleteMessage(delete)).unwrap();
            if batch % 1000 == 0 {
                chain.now_ms += round;
            }
        }
    }
    send_many(&mut chain, Q, 20, None);
    check(&mut chain, Q, 10);
    chain.pass(1000);
    check(&mut chain, Q, 10);
    assert_eq!(chain.rows_of(Q), 60);
}

#[test]
fn a_receive_reads_few_rows_with_120_000_in_flight() {
    let mut chain = Chain::with_queue(&[("VisibilityTimeout", "600")]);
    send_many(&mut chain, Q, 119_990, None);
    for _ in 0..11_999 {
        assert_eq!(chain.receive(Q, 10).len(), 10);
    }
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
    send_many(
        &mut chain,
        "jobs.fifo",
        200_000,
        Some(|number| (number % 100_000).to_string()),
    );
    for _ in 0..10_000 {
        assert_eq!(chain.receive("jobs.fifo", 10).len(), 10);
    }
    for group in 0..20 {
        chain.send_to(&format!("free-{group}"), "1");
    }
    check(&mut chain, "jobs.fifo", 10);
}
