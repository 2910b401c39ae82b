//! Receives that wait cost an entry what it serves, and one decision more.

use fader_chain::{Change, CorrelationId};

use super::fixture::*;
use crate::request;
use crate::sqs::command::*;
use crate::sqs::{Reply, Request};
use crate::waiters::{Bounds, Waiters};

const PARKED: u64 = 1_000;

/// A queue at which many receives wait, and what its head has done with them.
struct Parked {
    chain: Chain,
    queue: &'static str,
    waiters: Waiters,
    decisions: usize,
    served: usize,
}

impl Parked {
    fn at(chain: Chain, queue: &'static str) -> Parked {
        let mut parked = Parked {
            chain,
            queue,
            waiters: Waiters::new(Bounds::default()),
            decisions: 0,
            served: 0,
        };
        for token in 0..PARKED {
            let request = parked.poll();
            let wait = parked.chain.decide(&request).expect_err("it waits");
            let collection = parked.chain.place(queue).unwrap().collection;
            let waits = parked.waiters.wait(
                CorrelationId(token),
                collection,
                wait,
                parked.chain.now_ms,
                1,
            );
            waits.unwrap();
        }
        parked
    }

    fn poll(&mut self) -> Request {
        let arrived_ms = self.chain.now_ms;
        self.chain.request(Command::ReceiveMessage(ReceiveMessage {
            wait_seconds: Some(20),
            visibility_timeout: Some(5),
            arrived_ms,
            ..receive(self.queue, 1)
        }))
    }

    /// An entry is applied: those who may be served by it are decided again, and what is changed
    /// by that is applied. How many decisions that took, and how many it served.
    fn apply(&mut self, changes: &[Change]) -> (usize, usize) {
        let before = (self.decisions, self.served);
        self.chain.apply(changes);
        for change in changes {
            let value = match change {
                Change::Put { value, .. } => Some(value),
                _ => None,
            };
            if let Some((collection, stir)) = request::stir(change.key(), value) {
                self.waiters.stirred(collection, stir);
            }
        }
        self.wake();
        (self.decisions - before.0, self.served - before.1)
    }

    fn wake(&mut self) {
        while let Some(token) = self.waiters.pop() {
            self.decisions += 1;
            let request = self.poll();
            match self.chain.decide(&request) {
                Ok(decision) => {
                    assert!(matches!(decision.outcome, Ok(Reply::Received(_))));
                    self.served += 1;
                    self.waiters.leave(token);
                    self.apply(&decision.changes);
                }
                Err(wait) => {
                    self.waiters.again(token, self.chain.now_ms).unwrap();
                    let collection = self.chain.place(self.queue).unwrap().collection;
                    self.waiters.alarm(collection, wait);
                }
            }
        }
    }

    /// It is so much later: those who may be served now are decided again.
    fn pass(&mut self, seconds: u64) -> (usize, usize) {
        let before = (self.decisions, self.served);
        self.chain.pass(seconds);
        self.waiters.pass(self.chain.now_ms);
        self.wake();
        (self.decisions - before.0, self.served - before.1)
    }

    fn run(&mut self, command: Command) -> (usize, usize) {
        let request = self.chain.request(command);
        let decision = self.chain.decide(&request).unwrap();
        decision.outcome.unwrap();
        self.apply(&decision.changes)
    }

    fn send(&mut self, count: usize, delay_seconds: Option<i64>) -> (usize, usize) {
        let is_fifo = self.queue.ends_with(".fifo");
        let entries = (0..count).map(|at| {
            let own = is_fifo.then(|| format!("{}-{at}", self.served));
            SendEntry {
                id: at.to_string(),
                delay_seconds,
                group_id: own.clone(),
                deduplication_id: own,
                ..entry("x")
            }
        });
        let send = SendMessage {
            queue: self.queue.to_owned(),
            is_batch: true,
            entries: entries.collect(),
        };
        self.run(Command::SendMessage(send))
    }
}

#[test]
fn a_send_decides_again_for_at_most_one_receive_more_than_it_serves() {
    for (chain, queue) in [
        (Chain::with_queue(&[]), Q),
        (Chain::with_fifo(&[]), "jobs.fifo"),
    ] {
        let mut parked = Parked::at(chain, queue);
        for count in [1, 1, 10, 1, 3] {
            let (decisions, served) = parked.send(count, None);
            assert_eq!(served, count, "{queue}");
            assert!(decisions <= served + 1, "{queue}: {decisions} for {served}");
        }
    }
}

#[test]
fn a_request_of_no_service_is_decided_by_none() {
    let mut parked = Parked::at(Chain::with_queue(&[]), Q);
    for _ in 0..20 {
        assert_eq!(parked.send(1, Some(10)), (0, 0), "it is delayed");
    }
    let tag = TagQueue {
        queue: Q.to_owned(),
        tags: pairs(&[("a", "b")]),
    };
    let (decisions, served) = parked.run(Command::TagQueue(tag));
    assert!(decisions <= 1 && served == 0);
    // All of them are due at once, one decision finds the end.
    let (decisions, served) = parked.pass(10);
    assert_eq!(served, 20);
    assert!(decisions <= 21, "{decisions}");
    // In flight for 5 s: what comes back is received then, by those who wait still.
    assert_eq!(parked.pass(4), (0, 0));
    let (decisions, served) = parked.pass(1);
    assert_eq!(served, 20);
    assert!(decisions <= 21, "{decisions}");
}

#[test]
fn a_message_that_is_shown_again_serves_one_at_once() {
    let mut chain = Chain::with_queue(&[]);
    chain.send(Q, "x");
    let held = chain.receive(Q, 1);
    let mut parked = Parked::at(chain, Q);
    let change = ChangeMessageVisibility {
        queue: Q.to_owned(),
        is_batch: false,
        entries: vec![VisibilityEntry {
            id: String::new(),
            receipt_handle: Some(held[0].handle.clone()),
            visibility_timeout: Some(0),
        }],
    };
    let (decisions, served) = parked.run(Command::ChangeMessageVisibility(change));
    assert_eq!(served, 1);
    assert!(decisions <= 2, "{decisions}");
}
