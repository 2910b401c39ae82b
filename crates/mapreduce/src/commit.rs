//! An attempt of a task: how it starts, what it writes, and how it wins or loses.
//!
//! ```text
//!  start (conditional) ──▶ data ──▶ manifest ──▶ winner, if there is none ──▶ won
//!                                                      └─ another's ──▶ lost: own keys deleted
//! ```
//!
//! Invariants:
//! - MR-5 what a winner's manifest names was acknowledged before the winner was put.
//! - MR-6 an attempt deletes its keys only after it read another winner.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;
use fader_cloud::{AttributePut, ErrorKind, Expected};
use object_store::path::Path;
use serde::{Deserialize, Serialize};

use crate::failure::{Failure, Outcome};
use crate::guard::Guard;
use crate::job::{JobId, prefix};
use crate::messages::Sent;
use crate::mutant::Late;
use crate::rows::{Order, Row, Task, also, expected, one};
use crate::shuffle::{Run, crc32c};
use crate::store::Store;
use crate::user::Context;
use crate::view::{Job, locked};

/// What an attempt wrote, and what it used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    pub(crate) objects: Vec<DataObject>,
    /// Of a map attempt that sent messages: of each segment what went to each partition.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) sent: Vec<Vec<Sent>>,
    #[serde(default)]
    pub(crate) counters: BTreeMap<String, u64>,
    /// Wire requests of the worker since its winner before, by kind.
    #[serde(default)]
    pub(crate) requests: BTreeMap<String, u64>,
    #[serde(default)]
    pub(crate) ms: u64,
}

/// An object of an attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DataObject {
    /// Its name below the attempt.
    pub(crate) name: String,
    pub(crate) bytes: u64,
    pub(crate) records: u64,
    pub(crate) crc32c: u32,
    /// Of a reduce attempt: the number of its output.
    #[serde(default, skip_serializing_if = "is_part")]
    pub(crate) output: u8,
    /// Of a map attempt: the runs that have records, each with its partition, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) runs: Vec<(u32, Run)>,
}

fn is_part(output: &u8) -> bool {
    *output == 0
}

/// An attempt that runs.
pub(crate) struct Attempt<'a> {
    pub(crate) job: &'a Job,
    pub(crate) task: Task,
    pub(crate) id: String,
    pub(crate) store: Store,
    begun: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// What it wrote.
    keys: Vec<Path>,
    /// The beat that was acknowledged last.
    beat: String,
    beats: u64,
    late: Late,
}

/// The key of an attempt's object.
pub(crate) fn key(job: &JobId, task: Task, attempt: &str, name: &str) -> Path {
    Path::from(format!("{}/{task}/{attempt}/{name}", prefix(job)))
}

/// Reads the manifest of an attempt.
///
/// # Errors
/// As [`Job::needed`].
pub(crate) async fn manifest(job: &Job, task: Task, attempt: &str) -> Outcome<Manifest> {
    job.needed(&key(job.id(), task, attempt, "manifest")).await
}

impl<'a> Attempt<'a> {
    /// An attempt that did not start.
    pub(crate) fn new(job: &'a Job, task: Task) -> Self {
        let runtime = &job.store().0.runtime;
        let id = match job.has(Guard::RandomAttempt) {
            true => format!("{:032x}", runtime.random_id()),
            false => "0".repeat(32),
        };
        Attempt {
            store: job.store().clone(),
            begun: runtime.clock.monotonic(),
            state: Mutex::new(State {
                beat: format!("{id}:0"),
                ..State::default()
            }),
            job,
            task,
            id,
        }
    }

    /// What the user's code is told of it.
    pub(crate) fn context(&self) -> Context<'_> {
        Context {
            job: self.job.id(),
            task: self.task,
            attempt: &self.id,
            reduces: self.job.definition().reduces,
            memory_bytes: self.job.memory,
        }
    }

    /// The beat that was acknowledged last; before, the one that a start on a condition puts.
    pub(crate) fn beat(&self) -> String {
        locked(&self.state).beat.clone()
    }

    /// Starts: changes the beat, if it is the order's. Whether it did.
    pub(crate) async fn start(&self, order: &Order) -> Outcome<bool> {
        let started = also("started", self.id.clone());
        if order.backup || !self.job.has(Guard::BeatInMessage) {
            return match self.next_beat(&[started]).await {
                Err(error) if error.kind == ErrorKind::NotFound => Err(Failure::Over),
                answer => Ok(answer.map(|()| true)?),
            };
        }
        let condition = expected("beat", &order.beat);
        let attributes = vec![one("beat", self.beat()), started];
        let refused = self.put(attributes, Some(&condition), true).await?;
        Ok(refused.is_none_or(|row| row.started.contains(&self.id)))
    }

    /// Puts into the row on a condition, again while the outcome is unknown and if told so. The row
    /// by a strong read, where the condition does not hold.
    async fn put(
        &self,
        attributes: Vec<AttributePut>,
        condition: Option<&Expected>,
        is_repeated: bool,
    ) -> Outcome<Option<Row>> {
        let rows = &self.job.rows;
        let mut tries = 1;
        loop {
            let Err(error) = rows
                .put(self.task.row(), attributes.clone(), condition)
                .await
            else {
                return Ok(None);
            };
            match error.kind {
                ErrorKind::Ambiguous if is_repeated => self.store.pause(tries).await,
                ErrorKind::Precondition => {
                    let row = rows.read(self.task).await?;
                    return row.ok_or(Failure::Over).map(Some);
                }
                ErrorKind::NotFound => return Err(Failure::Over),
                _ => return Err(error.into()),
            }
            tries += 1;
        }
    }

    /// Raises the beat: puts a new one, beside other attributes. Each try has its own value: an
    /// earlier try may land late.
    pub(crate) async fn next_beat(&self, others: &[AttributePut]) -> fader_cloud::Result<()> {
        let beat = self.store.repeated(|| self.try_beat(others)).await?;
        locked(&self.state).beat = beat;
        Ok(())
    }

    async fn try_beat(&self, others: &[AttributePut]) -> fader_cloud::Result<String> {
        let beat = {
            let mut state = locked(&self.state);
            state.beats += 1;
            format!("{}:{}", self.id, state.beats)
        };
        let attributes = [&[one("beat", beat.clone())], others].concat();
        let rows = &self.job.rows;
        rows.put(self.task.row(), attributes, None).await?;
        Ok(beat)
    }

    /// Writes an object of the attempt; its entry in the manifest.
    pub(crate) async fn keep(&self, name: &str, bytes: Bytes) -> Outcome<DataObject> {
        let key = key(self.job.id(), self.task, &self.id, name);
        let object = DataObject {
            name: name.to_owned(),
            bytes: bytes.len() as u64,
            crc32c: crc32c(&bytes),
            ..DataObject::default()
        };
        locked(&self.state).keys.push(key.clone());
        match self.job.has(Guard::DataFirst) {
            true => self.store.put(&key, &bytes).await?,
            false => locked(&self.state).late.objects.push((key, bytes)),
        }
        Ok(object)
    }

    /// Sends messages to a queue of the shuffle.
    pub(crate) async fn send(&self, queue: &str, bodies: Vec<String>) -> Outcome<()> {
        match self.job.has(Guard::CommitAfterSends) {
            true => self.store.send(queue, bodies).await?,
            false => locked(&self.state)
                .late
                .sends
                .push((queue.to_owned(), bodies)),
        }
        Ok(())
    }

    /// Makes the manifest durable and puts the winner. Whether the attempt won.
    pub(crate) async fn commit(&self, mut manifest: Manifest) -> Outcome<bool> {
        let now = self.store.0.runtime.clock.monotonic();
        manifest.ms = now.saturating_sub(self.begun).as_millis() as u64;
        manifest.requests = self.job.take_requests();
        let text = serde_json::to_vec(&manifest).expect("a manifest has keys of text");
        let at = key(self.job.id(), self.task, &self.id, "manifest");
        locked(&self.state).keys.push(at.clone());
        match self.job.has(Guard::ManifestFirst) {
            true => self.store.put(&at, &text.into()).await?,
            false => locked(&self.state).late.objects.push((at, text.into())),
        }
        let has_won = self.win(manifest.ms).await?;
        if !has_won {
            self.job.give_back(manifest.requests);
        }
        let late = std::mem::take(&mut locked(&self.state).late);
        late.write(&self.store).await?;
        Ok(has_won)
    }

    async fn win(&self, ms: u64) -> Outcome<bool> {
        let attributes = vec![one("winner", self.id.clone()), one("ms", ms.to_string())];
        let absent = expected("winner", "");
        let condition = Some(&absent).filter(|_| self.job.has(Guard::ConditionalWinner));
        let is_lost = !self.job.has(Guard::UnknownIsNotLost);
        let is_repeated = !is_lost && self.job.has(Guard::UnknownIsNotWon);
        let is_won = match self.put(attributes, condition, is_repeated).await {
            Ok(None) => true,
            // No winner after a refusal: the row is of another domain.
            Ok(Some(row)) => row.winner.ok_or(Failure::Over)? == self.id,
            Err(Failure::Cloud(error)) if !is_repeated && error.kind == ErrorKind::Ambiguous => {
                !is_lost
            }
            Err(failure) => return Err(failure),
        };
        if !is_won {
            self.delete().await;
        }
        Ok(is_won)
    }

    /// Deletes what it wrote, after it read another winner. What stays is the cleaner's.
    pub(crate) async fn delete(&self) {
        let keys = std::mem::take(&mut locked(&self.state).keys);
        // Not told: the cleaner takes the same keys.
        drop(self.store.delete(keys).await);
    }
}
