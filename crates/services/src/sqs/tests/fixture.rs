//! A chain with queues, whose clock the test moves.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use bytes::Bytes;
use fader_chain::{
    ALL_GUARDS, ApplyContext, ChainId, Change, Direction, EntryId, Guards, Scan, View, ViewError,
    apply,
};

use crate::catalog::{self, AccountId, Name};
use crate::policy::Principal;
use crate::service::{Context, Place, Service as _, Wait};
use crate::sqs::command::*;
use crate::sqs::reply::{Message, Sent};
use crate::sqs::{Code, Error, Limits, Reply, Sqs};
use crate::steps::{self, Taken};
use crate::{Kind, Mode, Table};

pub(super) const ACCOUNT: &str = "000000000001";
pub(super) const START: u64 = 1_700_000_000_000;
pub(super) const Q: &str = "jobs";

/// The rows of a member, with a tombstone for each that was removed, and a count of all that is
/// read.
#[derive(Default)]
pub(super) struct Rows {
    pairs: BTreeMap<Bytes, Option<Bytes>>,
    read: Cell<usize>,
    bodies_read: Cell<usize>,
    widest: RefCell<Vec<u8>>,
}

impl Rows {
    fn count(&self, key: &[u8]) {
        self.read.set(self.read.get() + 1);
        if key.get(8) == Some(&(Table::Bodies as u8)) {
            self.bodies_read.set(self.bodies_read.get() + 1);
        }
        if let Some(table) = key.get(8) {
            self.widest.borrow_mut().push(*table);
        }
    }

    /// Rows that were read since the last time, contents of messages among them, and their tables.
    pub(super) fn take(&self) -> (usize, usize, String) {
        let tables = String::from_utf8_lossy(&self.widest.take()).into_owned();
        (self.read.take(), self.bodies_read.take(), tables)
    }

    /// Puts a row as it is, or a tombstone.
    pub(super) fn put(&mut self, key: Bytes, value: Option<Bytes>) {
        self.pairs.insert(key, value);
    }

    fn apply(&mut self, changes: &[Change], under: &ApplyContext) {
        let mut mutations = Vec::new();
        for change in changes {
            let current = self.pairs.get(change.key()).cloned().flatten();
            apply(change, current, under, &mut mutations).unwrap();
            for mutation in mutations.drain(..) {
                self.pairs.insert(mutation.key, mutation.value);
            }
        }
    }

    /// Rows that are there, of all tables.
    pub(super) fn live(&self) -> impl Iterator<Item = (&Bytes, &Bytes)> {
        let pairs = self.pairs.iter();
        pairs.filter_map(|(key, value)| Some((key, value.as_ref()?)))
    }
}

impl View for Rows {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, ViewError> {
        self.count(key);
        Ok(self.pairs.get(key).cloned().flatten())
    }

    /// A removed row costs what a row costs.
    fn scan(&self, start: &[u8], end: &[u8], direction: Direction) -> Scan<'_> {
        if end <= start {
            return Box::new(std::iter::empty());
        }
        let range = (
            std::ops::Bound::Included(start),
            std::ops::Bound::Excluded(end),
        );
        let pairs = self.pairs.range::<[u8], _>(range);
        let seen = move |(key, value): (&Bytes, &Option<Bytes>)| {
            self.count(key);
            Some(Ok((key.clone(), value.clone()?)))
        };
        match direction {
            Direction::Forward => Box::new(pairs.filter_map(seen)),
            Direction::Backward => Box::new(pairs.rev().filter_map(seen)),
        }
    }
}

/// A chain: its head, and a client of it.
pub(super) struct Chain {
    pub(super) id: ChainId,
    pub(super) rows: Rows,
    pub(super) now_ms: u64,
    pub(super) limits: Limits,
    pub(super) guards: Guards,
    pub(super) account: AccountId,
    pub(super) caller: Caller,
    pub(super) towards: Option<Place>,
    pub(super) index: u64,
    pub(super) mode: Mode,
}

pub(super) fn key_of(account: &str) -> Caller {
    let principal = Principal::Key((account.to_owned(), format!("AK{account}")));
    Caller::of(principal)
}

impl Chain {
    pub(super) fn new(id: u32) -> Self {
        Chain {
            id: ChainId(id),
            rows: Rows::default(),
            now_ms: START,
            limits: Limits::default(),
            guards: ALL_GUARDS.clone(),
            account: AccountId(ACCOUNT.to_owned()),
            caller: key_of(ACCOUNT),
            towards: None,
            index: 0,
            mode: Mode::Strong,
        }
    }

    /// One with the queue `jobs`.
    pub(super) fn with_queue(attributes: &[(&str, &str)]) -> Self {
        let mut chain = Chain::new(0);
        chain.create(Q, attributes).unwrap();
        chain
    }

    /// One with the queue `jobs.fifo`.
    pub(super) fn with_fifo(attributes: &[(&str, &str)]) -> Self {
        let mut chain = Chain::new(0);
        let mut all = vec![("FifoQueue", "true")];
        all.extend(attributes);
        chain.create("jobs.fifo", &all).unwrap();
        chain
    }

    pub(super) fn pass(&mut self, seconds: u64) {
        self.now_ms += seconds * 1000;
    }

    pub(super) fn place(&self, queue: &str) -> Option<Place> {
        let name = Name::new(Kind::Queue, &self.account, queue);
        let entry = catalog::collection(&self.rows, name).unwrap()?;
        Some(Place {
            chain: self.id,
            collection: entry.collection,
        })
    }

    fn context<'a>(&'a self, request: &Request) -> Context<'a, Limits> {
        let towards = Sqs::towards(request).and_then(|(_, name)| self.place(name));
        let queue = request.command.queue().and_then(|queue| self.place(queue));
        Context {
            collection: queue.map(|place| place.collection),
            now_ms: self.now_ms,
            chain: self.id,
            towards: towards.or(self.towards),
            guards: &self.guards,
            mode: self.mode,
            ..Context::new(&self.account, &self.limits)
        }
    }

    pub(super) fn request(&mut self, command: Command) -> Request {
        self.index += 1;
        Request {
            caller: self.caller.clone(),
            region: "us-east-1".to_owned(),
            seed: u128::from(self.index),
            command,
        }
    }

    pub(super) fn apply(&mut self, changes: &[Change]) {
        self.index += 1;
        let under = ApplyContext::strong(EntryId::new(1, self.index));
        self.rows.apply(changes, &under);
    }

    /// Decides without applying.
    pub(super) fn decide(
        &self,
        request: &Request,
    ) -> Result<crate::Decision<Result<Reply, Error>>, Wait> {
        let context = self.context(request);
        self.rows.take();
        Sqs::decide(&self.rows, &context, request)
    }

    /// What one asks and is told, with the messages of a receive. A wait is an answer without any.
    pub(super) fn run(&mut self, command: Command) -> Result<Reply, Error> {
        let request = self.request(command);
        if !request.command.is_write() {
            return Sqs::answer(&self.rows, &self.context(&request), &request);
        }
        let Ok(decision) = self.decide(&request) else {
            return Ok(Reply::Messages(Vec::new()));
        };
        self.apply(&decision.changes);
        self.complete(decision.outcome?)
    }

    /// What is told of a reply, as a node tells it.
    pub(super) fn complete(&self, reply: Reply) -> Result<Reply, Error> {
        match Sqs::rest(&reply) {
            Some(rest) => Sqs::answer(&self.rows, &self.context(&rest), &rest),
            None => Ok(reply),
        }
    }

    pub(super) fn code(&mut self, command: Command) -> Code {
        self.run(command).expect_err("it is refused").code
    }

    pub(super) fn create(
        &mut self,
        queue: &str,
        attributes: &[(&str, &str)],
    ) -> Result<Reply, Error> {
        self.run(Command::CreateQueue(CreateQueue {
            queue: queue.to_owned(),
            attributes: pairs(attributes),
            tags: Vec::new(),
            mode: None,
        }))
    }

    pub(super) fn set(&mut self, queue: &str, attributes: &[(&str, &str)]) -> Result<Reply, Error> {
        self.run(Command::SetQueueAttributes(SetQueueAttributes {
            queue: queue.to_owned(),
            attributes: pairs(attributes),
        }))
    }

    pub(super) fn send_entry(&mut self, queue: &str, entry: SendEntry) -> Result<Sent, Error> {
        let reply = self.run(Command::SendMessage(SendMessage {
            queue: queue.to_owned(),
            is_batch: false,
            entries: vec![entry],
        }))?;
        match reply {
            Reply::Sent(mut sent) => sent.pop().unwrap().outcome,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn send(&mut self, queue: &str, body: &str) -> Sent {
        self.send_entry(queue, entry(body)).unwrap()
    }

    /// Sends to a group of a FIFO queue, under a deduplication id.
    pub(super) fn send_to(&mut self, group: &str, body: &str) -> Sent {
        let message = SendEntry {
            group_id: Some(group.to_owned()),
            deduplication_id: Some(format!("{group}-{body}")),
            ..entry(body)
        };
        self.send_entry("jobs.fifo", message).unwrap()
    }

    pub(super) fn receive_with(&mut self, receive: ReceiveMessage) -> Vec<Message> {
        match self.run(Command::ReceiveMessage(receive)).unwrap() {
            Reply::Messages(messages) => messages,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn receive(&mut self, queue: &str, count: i64) -> Vec<Message> {
        let receive = receive(queue, count);
        self.receive_with(receive)
    }

    /// The bodies that a receive shows.
    pub(super) fn bodies(&mut self, queue: &str, count: i64) -> Vec<String> {
        let messages = self.receive(queue, count);
        messages.into_iter().map(|message| message.body).collect()
    }

    pub(super) fn delete(&mut self, queue: &str, handle: &str) -> Result<(), Error> {
        self.run(Command::DeleteMessage(DeleteMessage {
            queue: queue.to_owned(),
            is_batch: false,
            entries: vec![DeleteEntry {
                id: String::new(),
                receipt_handle: Some(handle.to_owned()),
            }],
        }))
        .map(drop)
    }

    pub(super) fn visibility(
        &mut self,
        queue: &str,
        handle: &str,
        seconds: i64,
    ) -> Result<(), Error> {
        self.run(Command::ChangeMessageVisibility(ChangeMessageVisibility {
            queue: queue.to_owned(),
            is_batch: false,
            entries: vec![VisibilityEntry {
                id: String::new(),
                receipt_handle: Some(handle.to_owned()),
                visibility_timeout: Some(seconds),
            }],
        }))
        .map(drop)
    }

    pub(super) fn attribute(&mut self, queue: &str, name: &str) -> Option<String> {
        let command = Command::GetQueueAttributes(GetQueueAttributes {
            queue: queue.to_owned(),
            names: vec![name.to_owned()],
        });
        match self.run(command).unwrap() {
            Reply::Pairs(pairs) => pairs.into_iter().next().map(|(_, value)| value),
            other => panic!("{other:?}"),
        }
    }

    /// Visible, in flight, delayed.
    pub(super) fn counts(&mut self, queue: &str) -> [u64; 3] {
        let names = ["", "NotVisible", "Delayed"];
        names.map(|name| {
            let name = format!("ApproximateNumberOfMessages{name}");
            self.attribute(queue, &name).unwrap().parse().unwrap()
        })
    }

    /// The time of the last entry of a queue.
    pub(super) fn clock_ms(&self, queue: &str) -> u64 {
        let collection = self.place(queue).unwrap().collection;
        crate::sqs::queue::counters(&self.rows, collection)
            .unwrap()
            .clock_ms
    }

    /// Does all work that is due.
    pub(super) fn upkeep(&mut self, batch: usize) -> usize {
        for entries in 0..100_000 {
            let (rows, limits, guards) = (&self.rows, &self.limits, &self.guards);
            let changes = crate::sqs::upkeep(rows, limits, guards, self.id, self.now_ms, batch);
            let changes = changes.unwrap();
            if changes.is_empty() {
                return entries;
            }
            assert!(changes.len() <= 8 * batch + 16, "steps are bounded");
            self.apply(&changes);
        }
        panic!("work never ends");
    }

    /// Rows of the queue's messages.
    pub(super) fn rows_of(&self, queue: &str) -> usize {
        let collection = self.place(queue).unwrap().collection.0.to_be_bytes();
        let is_of = |key: &Bytes| {
            let of_messages = ["B", "Y", "R", "W", "G", "F"];
            key.starts_with(&collection)
                && of_messages
                    .iter()
                    .any(|table| key[8..].starts_with(table.as_bytes()))
        };
        self.rows.live().filter(|(key, _)| is_of(key)).count()
    }
}

/// Finishes all steps that began on a chain and are for another, as any node does.
pub(super) fn finish_steps(origin: &mut Chain, other: &mut Chain) -> usize {
    finish_among(origin, &mut [other])
}

/// The same of steps for several others.
pub(super) fn finish_among(origin: &mut Chain, others: &mut [&mut Chain]) -> usize {
    let begun = steps::unsettled(&origin.rows, 100).unwrap();
    for step in &begun {
        let other = others.iter_mut().find(|other| other.id == step.to);
        let other = other.expect("it is one of them");
        for _ in 0..2 {
            let taken = steps::take(&other.rows, &ALL_GUARDS, origin.id, step).unwrap();
            other.apply(&taken.changes);
            if let Taken::Done(outcome) = &taken.outcome {
                let settled = steps::settle(&origin.rows, step, outcome).unwrap();
                origin.apply(&settled);
            }
        }
    }
    begun.len()
}

pub(super) fn pairs(pairs: &[(&str, &str)]) -> Pairs {
    let pairs = pairs.iter();
    pairs
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

pub(super) fn entry(body: &str) -> SendEntry {
    SendEntry {
        body: Some(body.to_owned()),
        ..SendEntry::default()
    }
}

pub(super) fn receive(queue: &str, count: i64) -> ReceiveMessage {
    ReceiveMessage {
        queue: queue.to_owned(),
        max_messages: Some(count),
        ..ReceiveMessage::default()
    }
}

pub(super) fn named(queue: &str) -> Named {
    Named {
        queue: queue.to_owned(),
    }
}

pub(super) fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}
