//! The rows of a job's tasks, in its domains, and the queues that bring tasks to workers.
//!
//! A row is in the domain of its task's number. Decisions read strongly and follow every token.
//!
//! Invariants:
//! - MR-3 `winner` is put on the condition that there is none, and never changes.
//! - MR-4 an attempt starts by one put that changes `beat`, if that is the message's. No value of
//!   it recurs: each try of a put without a condition has a new one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use fader_cloud::{
    Attribute, AttributePut, Error, ErrorKind, Expected, Item, ItemPut, QueueSettings,
    ReadConsistency, Result,
};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use serde::{Deserialize, Serialize};

use crate::guard::{Guard, Guards};
use crate::job::{JobId, Output, Register};
use crate::shuffle::Shuffle;
use crate::store::{Store, if_there};

/// How long queues keep messages: the longest that there is.
const RETENTION: Duration = Duration::from_secs(14 * 24 * 60 * 60);

/// Queues that are created at once.
const CREATIONS: usize = 16;

/// Calls that send tasks at once.
const SENDS: usize = 32;

/// The phases of a job, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Finds the input and cuts it into splits: one task.
    Plan,
    /// Turns splits into sorted runs.
    Map,
    /// Merges the runs of a partition.
    Reduce,
}

impl Phase {
    /// All of them, in order.
    pub const ALL: [Phase; 3] = [Phase::Plan, Phase::Map, Phase::Reduce];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Plan => "plan",
            Phase::Map => "map",
            Phase::Reduce => "reduce",
        }
    }

    /// Its task of that number.
    pub(crate) const fn task(self, number: u32) -> Task {
        Task {
            phase: self,
            number,
        }
    }

    /// The first letter of its name.
    fn letter(self) -> &'static str {
        &self.name()[..1]
    }
}

/// A task: its phase and its number. It is written as `m-00017`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Task {
    /// Its phase.
    pub phase: Phase,
    /// Its number, from 0.
    pub number: u32,
}

impl Task {
    pub(crate) const PLAN: Task = Phase::Plan.task(0);

    /// Its number and the name of its row.
    pub(crate) fn row(self) -> (u32, String) {
        (self.number, self.to_string())
    }

    /// Reads what `Display` writes.
    pub fn parse(text: &str) -> Option<Self> {
        let (letter, number) = text.split_once('-')?;
        let mut phases = Phase::ALL.into_iter();
        let phase = phases.find(|phase| phase.letter() == letter)?;
        let task = phase.task(number.parse().ok()?);
        (task.to_string() == text).then_some(task)
    }
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:05}", self.phase.letter(), self.number)
    }
}

/// What a message asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Order {
    /// The task.
    pub(crate) task: String,
    /// The beat that the sender saw; empty for none.
    #[serde(default)]
    pub(crate) beat: String,
    /// Whether it starts beside another attempt.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) backup: bool,
}

impl Order {
    /// To attempt a task whose beat is this one.
    pub(crate) fn new(task: Task, beat: String) -> Self {
        Order {
            task: task.to_string(),
            beat,
            backup: false,
        }
    }
}

/// The state of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// The last sign of life; empty before the first.
    pub beat: String,
    /// Attempts that began.
    pub started: BTreeSet<String>,
    /// Attempts that failed.
    pub failed: BTreeSet<String>,
    /// Attempts that ended without a result and without a failure.
    pub ended: BTreeSet<String>,
    /// Why the last one failed.
    pub reason: String,
    /// The attempt that counts.
    pub winner: Option<String>,
    /// How long it worked, in milliseconds.
    pub ms: u64,
    /// Whether a backup was asked for.
    pub has_backup: bool,
}

impl Row {
    pub(crate) fn parse(attributes: Vec<Attribute>) -> Row {
        let mut row = Row::default();
        for Attribute { name, value } in attributes {
            match name.as_str() {
                "beat" => row.beat = value,
                "started" => drop(row.started.insert(value)),
                "failed" => drop(row.failed.insert(value)),
                "ended" => drop(row.ended.insert(value)),
                "reason" => row.reason = value,
                "winner" => row.winner = Some(value),
                "ms" => row.ms = value.parse().unwrap_or_default(),
                "backup" => row.has_backup = true,
                _ => {}
            }
        }
        row
    }

    /// Its winner, if it has one, with the milliseconds that it worked.
    pub(crate) fn lap(&self) -> Option<(String, u64)> {
        Some((self.winner.clone()?, self.ms))
    }

    /// Attempts of which nothing is known.
    pub fn lost(&self) -> usize {
        let of = |id: &&String| !self.failed.contains(*id) && !self.ended.contains(*id);
        let unknown = self.started.iter().filter(of).count();
        // One of them is the newest, and may run.
        unknown.saturating_sub(1)
    }
}

/// The rows and queues of one job.
#[derive(Clone, Debug)]
pub(crate) struct Rows {
    pub(crate) store: Store,
    job: JobId,
    shards: u32,
    /// How many partitions have a queue: all or none.
    partition_queues: u32,
    lease: Duration,
    guards: Guards,
}

/// With what the names of all queues and domains of a job begin.
pub(crate) fn names(job: &JobId) -> String {
    format!("mr-{job}-")
}

/// An attribute that has one value.
pub(crate) fn one(name: &str, value: impl Into<String>) -> AttributePut {
    AttributePut {
        name: name.to_owned(),
        value: value.into(),
        replace: true,
    }
}

/// A value beside others.
pub(crate) fn also(name: &str, value: impl Into<String>) -> AttributePut {
    AttributePut {
        replace: false,
        ..one(name, value)
    }
}

/// That an attribute has this value; that it is not there, if that is empty.
pub(crate) fn expected(name: &str, value: &str) -> Expected {
    let (name, value) = (name.to_owned(), value.to_owned());
    match value.is_empty() {
        true => Expected::Absent(name),
        false => Expected::Value(Attribute { name, value }),
    }
}

impl Rows {
    pub(crate) fn new(output: &Output, register: &Register) -> Self {
        Rows {
            store: output.store.clone(),
            job: register.job.clone(),
            shards: register.definition.shards,
            partition_queues: match register.definition.shuffle {
                Shuffle::Object => 0,
                Shuffle::Queue => register.definition.reduces,
            },
            lease: Duration::from_millis(register.definition.lease_ms),
            guards: output.guards,
        }
    }

    /// How long a message is hidden: the lease, in whole seconds.
    pub(crate) fn visibility(&self) -> Duration {
        Duration::from_secs(self.lease.as_secs().max(1))
    }

    pub(crate) fn queue(&self, phase: Phase) -> String {
        format!("{}{}", names(&self.job), phase.name())
    }

    /// The queue that brings pairs to a reduce task.
    pub(crate) fn partition_queue(&self, partition: u32) -> String {
        format!("{}s-{partition:05}", names(&self.job))
    }

    fn domain(&self, number: u32) -> String {
        format!("{}{}", names(&self.job), number % self.shards)
    }

    /// Creates queues and domains; those that are there stay as they are.
    pub(crate) async fn create(&self) -> Result<()> {
        let settings = QueueSettings {
            visibility: self.visibility(),
            retention: RETENTION,
        };
        let partitions = 0..self.partition_queues;
        let partitions = partitions.map(|partition| self.partition_queue(partition));
        let phases = Phase::ALL.into_iter().map(|phase| self.queue(phase));
        let settings = &settings;
        let creations = phases.chain(partitions).map(|name| async move {
            let create = || self.store.0.queues.create(&name, settings);
            self.store.repeated(create).await
        });
        let creations: Vec<_> = creations.collect();
        let creations = stream::iter(creations).buffered(CREATIONS);
        creations.try_collect::<Vec<()>>().await?;
        for shard in 0..self.shards {
            let name = self.domain(shard);
            let create = || self.store.0.domains.create(&name);
            self.store.repeated(create).await?;
        }
        Ok(())
    }

    /// A row, by a strong read; `None` when its domain is gone.
    pub(crate) async fn read(&self, task: Task) -> Result<Option<Row>> {
        let (domain, item) = (self.domain(task.number), task.to_string());
        let attributes = if_there(self.get(&domain, &item).await)?;
        Ok(attributes.map(Row::parse))
    }

    async fn get(&self, domain: &str, item: &str) -> Result<Vec<Attribute>> {
        let domains = &self.store.0.domains;
        let get = || domains.get(domain, item, &[], ReadConsistency::Strong);
        self.store.repeated(get).await
    }

    /// Puts into a row of this number and name, once, unless the cloud said that it did nothing.
    pub(crate) async fn put(
        &self,
        row: (u32, String),
        attributes: Vec<AttributePut>,
        condition: Option<&Expected>,
    ) -> Result<()> {
        let (domain, name) = (self.domain(row.0), row.1);
        let put = ItemPut { name, attributes };
        let did_nothing = |error: &Error| matches!(error.kind, ErrorKind::Unavailable { .. });
        let once = || self.store.0.domains.put(&domain, &put, condition);
        self.store.repeated_while(did_nothing, once).await
    }

    /// Notes in a row what may be noted twice, and late: never a beat.
    pub(crate) async fn note(&self, task: Task, attributes: Vec<AttributePut>) -> Result<()> {
        let note = || self.put(task.row(), attributes.clone(), None);
        self.store.repeated(note).await
    }

    /// The rows of a phase that there are; `None` when a domain is gone.
    pub(crate) async fn all(&self, phase: Phase) -> Result<Option<BTreeMap<u32, Row>>> {
        let mut rows = BTreeMap::new();
        for shard in 0..self.shards {
            match if_there(self.select(shard, phase).await)? {
                Some(found) => rows.extend(found),
                None => return Ok(None),
            }
        }
        Ok(Some(rows))
    }

    async fn select(&self, shard: u32, phase: Phase) -> Result<BTreeMap<u32, Row>> {
        let (domain, letter) = (self.domain(shard), phase.letter());
        let limit = match self.guards.has(Guard::EveryPage) {
            true => 2_500,
            false => 1,
        };
        let expression =
            format!("select * from `{domain}` where itemName() like '{letter}-%' limit {limit}");
        let reading = match self.guards.has(Guard::StrongCount) {
            true => ReadConsistency::Strong,
            false => ReadConsistency::Eventual,
        };
        let mut rows = BTreeMap::new();
        let mut token: Option<String> = None;
        loop {
            let domains = &self.store.0.domains;
            let select = || domains.select(&expression, token.as_deref(), reading);
            let page = self.store.repeated(select).await?;
            for Item { name, attributes } in page.items {
                if let Some(task) = Task::parse(&name) {
                    rows.insert(task.number, Row::parse(attributes));
                }
            }
            token = page.next_token;
            if token.is_none() || !self.guards.has(Guard::EveryPage) {
                return Ok(rows);
            }
        }
    }

    /// How often a ticket was raised.
    pub(crate) async fn ticket(&self, ticket: &str) -> Result<u64> {
        let found = self.get(&self.domain(0), ticket).await?;
        let Some(number) = found.into_iter().find(|attribute| attribute.name == "n") else {
            return Ok(0);
        };
        let malformed = |_| Error::new(ErrorKind::Malformed, format!("ticket {ticket}: no number"));
        number.value.parse().map_err(malformed)
    }

    /// Raises a ticket from this number; whether this worker did, and no other.
    pub(crate) async fn raise_ticket(&self, ticket: &str, before: u64) -> Result<bool> {
        if !self.guards.has(Guard::TicketIsFree) && 0 < before {
            return Ok(false);
        }
        let value = Some(before).filter(|before| 0 < *before);
        let value = value.map_or(String::new(), |before| before.to_string());
        let condition = expected("n", &value);
        let raised = vec![one("n", (before + 1).to_string())];
        let put = self.put((0, ticket.to_owned()), raised, Some(&condition));
        match put.await {
            Ok(()) => Ok(true),
            // Perhaps raised: the others wait, and so does this worker.
            Err(error) if matches!(error.kind, ErrorKind::Precondition | ErrorKind::Ambiguous) => {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Sends tasks to workers. A message that is lost is sent again by a reconciler.
    pub(crate) async fn send(&self, phase: Phase, orders: &[Order]) -> Result<()> {
        let queue = self.queue(phase);
        let body = |order| serde_json::to_string(order).expect("an order is plain JSON");
        let sends = orders.chunks(fader_cloud::MESSAGES_MAX).map(|orders| {
            let bodies = orders.iter().map(body).collect();
            self.store.send(&queue, bodies)
        });
        let sends: Vec<_> = sends.collect();
        let sent = stream::iter(sends).buffered(SENDS).try_collect::<Vec<()>>();
        sent.await.map(drop)
    }
}

#[cfg(test)]
mod tests;
