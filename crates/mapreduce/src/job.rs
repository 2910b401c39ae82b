//! A job's definition, and the register: the one object that names the job of an output and decides
//! its end.
//!
//! ```text
//!  no job ──▶ running J ──▶ publishing J ──▶ _SUCCESS
//!                 │
//!                 └──▶ cancelled J | failed J ──▶ running J'
//! ```
//!
//! Invariants:
//! - MR-1 the register is created once, then only updated by If-Match, and never deleted. Its text
//!   never repeats: an output has a job, and a job a state, once.
//! - MR-2 a job is over when the register says cancelled, failed or another job, or `_SUCCESS` is
//!   there. Over is for ever.

use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;
use fader_cloud::{Cloud, Error, ErrorKind, Result};
use object_store::path::Path;
use object_store::{PutMode, UpdateVersion};
use serde::{Deserialize, Serialize};

use crate::guard::{Guard, Guards};
use crate::input::Format;
use crate::shuffle::{Codec, Shuffle, crc32c};
use crate::store::Store;
use crate::user::Program;
use crate::work::Place;

/// The register's format.
const FORMAT: u32 = 1;

/// The id of a job: 128 random bits as 32 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct JobId(String);

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// All that decides what a job computes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Definition {
    /// The user's code.
    pub program: Program,
    /// The URLs of its input, with wildcards.
    pub inputs: Vec<String>,
    /// How input is cut into records.
    pub format: Format,
    /// The number of reduce tasks, and of parts: 1 to [`REDUCES_MAX`].
    pub reduces: u32,
    /// The number of domains that the rows are spread over: 1 to [`SHARDS_MAX`].
    pub shards: u32,
    /// How long an attempt without a sign of life keeps its task, in milliseconds.
    pub lease_ms: u64,
    /// Bytes of input of a map task, about.
    pub split_bytes: u64,
    /// So many failed attempts of a task end the job.
    pub failed_max: u32,
    /// So many attempts of a task that went silent end the job.
    pub lost_max: u32,
    /// Whether a task that takes long gets a second attempt beside the first.
    pub backups: bool,
    /// How blocks of the shuffle are compressed.
    pub codec: Codec,
    /// What carries pairs from map to reduce tasks.
    #[serde(default)]
    pub shuffle: Shuffle,
    /// So many records that the input's format or the program refuses are left out and counted.
    pub skip_bad: u64,
    /// The URL below which the job's own objects are, when that is not the output's `_fader`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<String>,
}

/// Reduce tasks of a job, at most.
pub const REDUCES_MAX: u32 = 10_000;
/// Domains of a job, at most.
pub const SHARDS_MAX: u32 = 100;

impl Definition {
    /// A job of a program on inputs, with all else as most jobs have it.
    pub fn new(program: Program, inputs: Vec<String>) -> Self {
        Definition {
            program,
            inputs,
            format: Format::Lines,
            reduces: 8,
            shards: 1,
            lease_ms: 30_000,
            split_bytes: 64 << 20,
            failed_max: 4,
            lost_max: 16,
            backups: true,
            codec: Codec::Lz4,
            shuffle: Shuffle::Object,
            skip_bad: 0,
            work: None,
        }
    }

    /// # Errors
    /// `Invalid`: a number is outside its bounds.
    pub fn check(&self) -> Result<()> {
        let bounds = [
            ("reduces", u64::from(self.reduces), u64::from(REDUCES_MAX)),
            ("shards", u64::from(self.shards), u64::from(SHARDS_MAX)),
            ("lease in ms", self.lease_ms, 12 * 60 * 60 * 1000),
            ("bytes of a split", self.split_bytes, 64 << 30),
            ("inputs", self.inputs.len() as u64, 1_000),
        ];
        for (name, value, max) in bounds {
            if !(1..=max).contains(&value) {
                let context = format!("{name}: {value} is not from 1 to {max}");
                return Err(Error::new(ErrorKind::Invalid, context));
            }
        }
        Ok(())
    }
}

/// What is decided of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Its tasks run.
    Running,
    /// It succeeds: its parts are being created, or are there.
    Publishing,
    /// It was cancelled.
    Cancelled,
    /// It failed.
    Failed,
}

impl State {
    /// Whether this is how a job ends without an output.
    pub fn is_end(self) -> bool {
        matches!(self, State::Cancelled | State::Failed)
    }
}

/// The register of an output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Register {
    /// Of the register: 1.
    pub format: u32,
    /// The job.
    pub job: JobId,
    /// What is decided of it.
    pub state: State,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// What it computes.
    pub definition: Definition,
    /// Jobs that this output had before.
    #[serde(default)]
    pub former: Vec<JobId>,
    /// Of these jobs the URLs of their places, when they are not the output's.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub works: BTreeMap<JobId, String>,
}

impl Register {
    fn encode(&self) -> Bytes {
        let text = serde_json::to_vec_pretty(self);
        text.expect("a register has no map with other keys than text")
            .into()
    }
}

/// What `_SUCCESS` says of an output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Success {
    /// The job that made it.
    pub job: JobId,
    /// Its parts, in order.
    pub files: Vec<PublishedFile>,
    /// The counters of all winners.
    pub counters: BTreeMap<String, u64>,
    /// Wire requests by kind: those of each worker until its last winner, and the publisher's. What
    /// workers asked that died, or that only waited since, is not known.
    pub requests: BTreeMap<String, u64>,
    /// Each task with its winner and its milliseconds.
    pub timeline: Vec<Lap>,
}

/// A part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublishedFile {
    /// Its key below the output.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// Its records.
    pub records: u64,
    /// Its CRC-32C.
    pub crc32c: u32,
}

impl PublishedFile {
    /// Whether these are its bytes.
    pub fn is_of(&self, body: &[u8]) -> bool {
        self.bytes == body.len() as u64 && self.crc32c == crc32c(body)
    }
}

/// Reads `_SUCCESS`.
///
/// # Errors
/// `Malformed`: it is no job's of ours.
pub fn read_success(bytes: &[u8]) -> Result<Success> {
    parse(&success_key(), bytes)
}

/// The winner of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lap {
    /// The task.
    pub task: String,
    /// Its attempt.
    pub attempt: String,
    /// How long it worked, in milliseconds.
    pub ms: u64,
}

/// An output: its register and its end.
#[derive(Clone, Debug)]
pub struct Output {
    /// Where its register, parts and `_SUCCESS` are.
    pub(crate) store: Store,
    /// Where its job's own objects are.
    pub(crate) place: Place,
    pub(crate) guards: Guards,
}

impl Output {
    /// The output below a cloud's root.
    pub fn new(cloud: Cloud, guards: Guards) -> Self {
        Output {
            store: Store(cloud),
            place: Place::default(),
            guards,
        }
    }

    /// The cloud that it is in.
    pub fn cloud(&self) -> &Cloud {
        &self.store.0
    }

    /// The register, if the output ever had a job.
    ///
    /// # Errors
    /// Of the cloud; `Malformed`.
    pub async fn register(&self) -> Result<Option<Register>> {
        Ok(self.versioned().await?.map(|(register, _)| register))
    }

    async fn versioned(&self) -> Result<Option<(Register, UpdateVersion)>> {
        let key = register_key();
        let found = self.store.get(&key).await?;
        let read = found.map(|(bytes, version)| Ok((parse(&key, &bytes)?, version)));
        read.transpose()
    }

    /// What `_SUCCESS` says, if it is there.
    ///
    /// # Errors
    /// Of the cloud; `Malformed`.
    pub async fn success(&self) -> Result<Option<Success>> {
        self.store.json(&success_key()).await
    }

    /// Whether this job runs, is publishing, or is over.
    pub(crate) async fn standing(&self, job: &JobId) -> Result<Standing> {
        let register = self.register().await?;
        let own = register.filter(|register| register.job == *job);
        Ok(match own.map(|register| register.state) {
            Some(State::Running) => Standing::Running,
            Some(State::Publishing) if !self.is_complete().await? => Standing::Publishing,
            _ => Standing::Over,
        })
    }

    /// Joins the running job, or begins one.
    ///
    /// # Errors
    /// `Precondition`: the output is another job's, or has an output; as all calls of the cloud.
    pub async fn begin(&self, definition: &Definition) -> Result<Register> {
        definition.check()?;
        loop {
            let found = self.versioned().await?;
            if self.is_complete().await? {
                return Err(refused("the output is complete: it has _SUCCESS"));
            }
            let (before, mode) = match found {
                None => {
                    self.check_empty().await?;
                    (None, PutMode::Create)
                }
                Some((before, version)) if self.may_follow(before.state) => {
                    (Some(before), PutMode::Update(version))
                }
                Some((register, _)) if register.definition == *definition => return Ok(register),
                Some(_) => {
                    let text = "another job runs on this output: wait for it, or cancel it";
                    return Err(refused(text));
                }
            };
            let register = self.next(definition, before);
            let has_condition = self.change(&register, mode).await?;
            // The register says what became of it; without a rule it is not read.
            if !has_condition {
                return Ok(register);
            }
        }
    }

    /// Whether a job may begin after one of this state.
    fn may_follow(&self, state: State) -> bool {
        let is_published = state == State::Publishing;
        state.is_end() || is_published && !self.guards.has(Guard::NotWhilePublishing)
    }

    fn next(&self, definition: &Definition, before: Option<Register>) -> Register {
        let id = self.store.0.runtime.random_id();
        let mut next = Register {
            format: FORMAT,
            job: JobId(format!("{id:032x}")),
            state: State::Running,
            reason: String::new(),
            definition: definition.clone(),
            former: Vec::new(),
            works: BTreeMap::new(),
        };
        if let Some(url) = &definition.work {
            next.works.insert(next.job.clone(), url.clone());
        }
        if let Some(before) = before {
            next.former = before.former;
            next.former.push(before.job);
            next.works.extend(before.works);
        }
        next
    }

    /// Refuses an output with files that no job made.
    async fn check_empty(&self) -> Result<()> {
        for meta in self.store.folder().await? {
            let name = meta.location.filename().unwrap_or_default();
            if name.starts_with("part") {
                let text = format!("{name:?} is there, and no job made it: choose another output");
                return Err(refused(&text));
            }
        }
        Ok(())
    }

    /// Decides the end of a running job; what the register says then.
    ///
    /// # Errors
    /// `NotFound`: the output has no such job.
    pub async fn decide(&self, job: &JobId, state: State, reason: &str) -> Result<Register> {
        loop {
            let Some((register, version)) = self.versioned().await? else {
                return Err(Error::new(ErrorKind::NotFound, "the output has no job"));
            };
            if register.job != *job || register.state != State::Running {
                return Ok(register);
            }
            let next = Register {
                state,
                reason: reason.to_owned(),
                ..register
            };
            self.change(&next, PutMode::Update(version)).await?;
        }
    }

    /// Changes the register on a condition: what it says then is to be read. Whether the guard is
    /// there that has the condition.
    async fn change(&self, register: &Register, mode: PutMode) -> Result<bool> {
        let has_condition = self.guards.has(match mode {
            PutMode::Create => Guard::RegisterCreate,
            _ => Guard::RegisterUpdate,
        });
        let mode = match has_condition {
            true => mode,
            false => PutMode::Overwrite,
        };
        let (key, bytes) = (register_key(), register.encode());
        let change = || self.store.change(&key, bytes.clone(), mode.clone());
        self.store.repeated(change).await?;
        Ok(has_condition)
    }
}

/// Where a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Running,
    Publishing,
    Over,
}

/// The register's key below the output.
pub(crate) fn register_key() -> Path {
    Path::from("_fader/job")
}

/// The key that makes an output visible.
pub(crate) fn success_key() -> Path {
    Path::from("_SUCCESS")
}

/// The key of the list of a job's map winners.
pub(crate) fn list_key(job: &JobId) -> Path {
    prefix(job).join("list")
}

/// With what all keys of a job begin.
pub(crate) fn prefix(job: &JobId) -> Path {
    Path::from(format!("_fader/{job}"))
}

pub(crate) fn parse<T: for<'de> Deserialize<'de>>(key: &Path, bytes: &[u8]) -> Result<T> {
    serde_json::from_slice(bytes).map_err(|error| {
        let context = format!("object {:?}", key.as_ref());
        Error::caused(ErrorKind::Malformed, context, error)
    })
}

fn refused(text: &str) -> Error {
    Error::new(ErrorKind::Precondition, text)
}
