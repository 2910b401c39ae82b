//! The thread that drives the chain: it alone decides, logs and applies.
//!
//! One turn: take what is queued, decide each on the newest state, write all entries in one go,
//! sync once, apply once, answer all. Nothing else touches the log, so the latency of a lone write
//! is one wake-up, one write and one sync.
//!
//! Invariants:
//! - T1 a job is answered once: as decided, or that its outcome is unknown.
//! - T2 a reader who got an answer sees what it says: replies leave after the engine has it.
//! - T3 the log lets go of nothing that the engine has not made durable.
//!
//! Deliberately absent: rules of the chain; those are `fader_chain::Replica`'s.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use fader_chain::solo::{Effect, Input, Replica};
use fader_chain::{Change, ElementOp, Entry, EntryId, Token};
use fader_services::catalog::{self, AccountId, Refusal};
use fader_services::level::Demand;
use fader_services::simpledb::{self, Answered, Code, Context, Error, Request};
use fader_services::{Table, Unhurried, ViewError};
use tokio::sync::oneshot;

use crate::engine::EngineError;
use crate::keys;
use crate::log::{Log, LogError};
use crate::node::{Shared, check_level, placed};
use crate::pending::Pending;
use crate::settings::{Durability, Settings};
use crate::status::Health;
use crate::sweep::Sweep;

/// How often the thread looks after itself when nobody asks for anything.
const TICK: Duration = Duration::from_millis(100);
/// Entries in one group commit.
const BATCH_ENTRIES: usize = 512;
/// Bytes of changes in one group commit, beyond which no further job is taken.
const BATCH_BYTES: usize = 4 << 20;
/// Bytes of log that a start may have to apply again.
const CHECKPOINT_BYTES: u64 = 64 << 20;

/// What the thread is asked to do.
pub(crate) enum Job {
    /// A SimpleDB request that may change state.
    SimpleDb {
        account: AccountId,
        request: Request,
        demand: Demand,
        reply: oneshot::Sender<Result<Answered, Error>>,
    },
    /// A catalog command.
    Catalog {
        command: catalog::Command,
        reply: oneshot::Sender<Result<(), Refusal>>,
    },
    /// Finish, make everything durable, and end.
    Close,
}

/// A decision whose answer waits for its commit.
enum Waiting {
    SimpleDb(
        Result<Answered, Error>,
        oneshot::Sender<Result<Answered, Error>>,
    ),
    Catalog(Result<(), Refusal>, oneshot::Sender<Result<(), Refusal>>),
    Sweep,
}

impl Waiting {
    /// Whoever asked may have gone away; then nobody needs the answer.
    fn reply(self) {
        match self {
            Waiting::SimpleDb(outcome, reply) => drop(reply.send(outcome)),
            Waiting::Catalog(outcome, reply) => drop(reply.send(outcome)),
            Waiting::Sweep => {}
        }
    }

    fn fail(self, reason: &str) {
        match self {
            Waiting::SimpleDb(_, reply) => drop(reply.send(Err(unavailable(reason)))),
            Waiting::Catalog(_, reply) => drop(reply.send(Err(catalog_unavailable(reason)))),
            Waiting::Sweep => {}
        }
    }
}

/// The refusal while the node takes no writes.
pub(crate) fn unavailable(reason: &str) -> Error {
    Error {
        code: Code::ServiceUnavailable,
        message: format!(
            "Service AmazonSimpleDB is currently unavailable. Please try again later ({reason})"
        ),
        box_usage: simpledb::BoxUsage::default(),
    }
}

/// The same for the catalog.
pub(crate) fn catalog_unavailable(reason: &str) -> Refusal {
    Refusal::View(ViewError(reason.to_owned()))
}

/// The thread's state.
pub(crate) struct ChainThread {
    jobs: Receiver<Job>,
    settings: Settings,
    shared: Arc<Shared>,
    replica: Replica,
    log: Log,
    pending: Pending,
    batch: Vec<Entry>,
    batch_bytes: usize,
    waiting: BTreeMap<Token, Waiting>,
    next_token: u64,
    sweep: Sweep,
    /// The log's bytes when the last checkpoint began.
    checkpoint_at: u64,
    /// Why the log takes nothing, while it has no room.
    log_full: Option<String>,
    /// Why the engine makes nothing durable, while it has no room.
    engine_full: Option<String>,
}

impl ChainThread {
    /// A thread's state after recovery: `epoch` and `last` are what the log knows. The next epoch
    /// is durable when this returns.
    pub(crate) fn new(
        jobs: Receiver<Job>,
        settings: Settings,
        shared: Arc<Shared>,
        log: Log,
        (epoch, last): (u64, EntryId),
    ) -> Self {
        let mut thread = ChainThread {
            jobs,
            settings,
            replica: Replica::new(),
            log,
            pending: Pending::new(shared.engine.snapshot()),
            batch: Vec::new(),
            batch_bytes: 0,
            waiting: BTreeMap::new(),
            next_token: 0,
            sweep: Sweep::new(),
            checkpoint_at: 0,
            log_full: None,
            engine_full: None,
            shared,
        };
        thread.step(Input::Recovered { epoch, last });
        thread.publish();
        thread
    }

    /// Serves until it is told to close, or until nobody is left who could ask.
    pub(crate) fn run(mut self) {
        let _failed_if_it_panics = FailOnPanic(self.shared.clone());
        let mut is_closing = false;
        while !is_closing {
            let patience = if self.sweep.is_due() {
                Duration::ZERO
            } else {
                TICK
            };
            match self.jobs.recv_timeout(patience) {
                Ok(job) => is_closing = self.take_batch(job),
                Err(RecvTimeoutError::Timeout) => self.on_idle(),
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.maintain();
            self.publish();
        }
        self.finish();
    }

    /// Decides what is queued and makes it durable. Says so if the last of it was `Close`.
    fn take_batch(&mut self, first: Job) -> bool {
        let mut next = Some(first);
        let mut is_closing = false;
        while let Some(job) = next {
            self.shared.on_dequeued();
            match job {
                Job::SimpleDb {
                    account,
                    request,
                    demand,
                    reply,
                } => {
                    self.decide_simpledb(&account, &request, &demand, reply);
                }
                Job::Catalog { command, reply } => self.decide_catalog(&command, reply),
                Job::Close => {
                    is_closing = true;
                    break;
                }
            }
            let has_room = self.batch.len() < BATCH_ENTRIES && self.batch_bytes < BATCH_BYTES;
            next = if has_room {
                self.jobs.try_recv().ok()
            } else {
                None
            };
        }
        self.flush();
        is_closing
    }

    fn decide_simpledb(
        &mut self,
        account: &AccountId,
        request: &Request,
        demand: &Demand,
        reply: oneshot::Sender<Result<Answered, Error>>,
    ) {
        if let Some(reason) = self.shared.refusal() {
            return drop(reply.send(Err(unavailable(&reason))));
        }
        let domain = request
            .domain()
            .map(|name| catalog::domain(&self.pending, account, name));
        let (collection, mode) = match domain.transpose() {
            Ok(entry) => {
                let entry = entry.flatten();
                if let Err(refusal) = check_level(entry.as_ref(), demand, request) {
                    return drop(reply.send(Err(refusal)));
                }
                placed(entry)
            }
            Err(error) => return drop(reply.send(Err(error.into()))),
        };
        let limits = &self.settings.limits;
        let context = Context {
            account,
            collection,
            mode,
            unsettled_items: 0,
            now_ms: now_ms(),
            limits,
            pace: &Unhurried,
        };
        let decision = simpledb::decide(&self.pending, &context, request);
        self.submit(decision.changes, Waiting::SimpleDb(decision.outcome, reply));
    }

    fn decide_catalog(
        &mut self,
        command: &catalog::Command,
        reply: oneshot::Sender<Result<(), Refusal>>,
    ) {
        if let Some(reason) = self.shared.refusal() {
            return drop(reply.send(Err(catalog_unavailable(&reason))));
        }
        let decision = catalog::decide(&self.pending, command);
        self.submit(decision.changes, Waiting::Catalog(decision.outcome, reply));
    }

    fn submit(&mut self, changes: Vec<Change>, waiting: Waiting) {
        let token = Token(self.next_token);
        self.next_token += 1;
        self.waiting.insert(token, waiting);
        if changes.is_empty() {
            self.step(Input::Refused { token });
        } else {
            self.batch_bytes += changes.iter().map(size_of).sum::<usize>();
            self.step(Input::Submit {
                token,
                request: None,
                result: Bytes::new(),
                changes,
            });
        }
    }

    /// Writes the batch, syncs, applies, answers.
    fn flush(&mut self) {
        let batch = std::mem::take(&mut self.batch);
        self.batch_bytes = 0;
        let Some(last) = batch.last().map(|entry| entry.id) else {
            return;
        };
        if self.shared.failure().is_some() {
            return self.step(Input::PersistFailed);
        }
        match self.log.append(&batch) {
            Ok(()) => self.step(Input::Persisted(last)),
            Err(error) => self.on_log_error(&error),
        }
    }

    fn step(&mut self, input: Input) {
        let mut effects = Vec::new();
        self.replica.step(input, &mut effects);
        effects.into_iter().for_each(|effect| self.perform(effect));
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::PersistEpoch { epoch, prev } => {
                match self.log.begin_epoch(epoch, prev, self.log_full.is_some()) {
                    Ok(()) => self.step(Input::EpochPersisted(epoch)),
                    Err(error) => self.on_log_error(&error),
                }
            }
            Effect::Persist(entry) => {
                if let Err(error) = self.pending.apply(&entry.under(), &entry.changes) {
                    self.fail(&format!("the store is damaged: {error}"));
                }
                self.batch.push(entry);
            }
            Effect::Commit(last) => self.apply(last),
            Effect::Reply(token) => {
                let waiting = self
                    .waiting
                    .remove(&token)
                    .expect("T1: a token is answered once");
                match self.shared.failure() {
                    None => waiting.reply(),
                    Some(reason) => waiting.fail(&unknown(&reason)),
                }
            }
            Effect::Fail(token) => {
                let waiting = self
                    .waiting
                    .remove(&token)
                    .expect("T1: a token is answered once");
                waiting.fail(&unknown(&self.shared.refusal().unwrap_or_default()));
            }
        }
    }

    /// Brings the engine to the entry `last`, before anyone is answered.
    fn apply(&mut self, last: EntryId) {
        assert_eq!(
            self.pending.last(),
            last,
            "what is committed is what is pending"
        );
        let mutations = self.pending.mutations();
        match self.shared.engine.commit(mutations, last) {
            Ok(()) => {
                self.shared.keys.on_applied(mutations);
                if keys::touches(mutations, Table::Garbage) {
                    self.sweep.on_garbage();
                }
                self.pending = Pending::new(self.shared.engine.snapshot());
            }
            Err(error) => self.fail(&error.to_string()),
        }
    }

    fn on_log_error(&mut self, error: &LogError) {
        if error.is_full() {
            if self.log_full.is_none() {
                tracing::warn!(%error, "no room for the log: writes are refused until there is");
            }
            self.log_full = Some(error.to_string());
        } else {
            self.fail(&error.to_string());
        }
        self.refresh_health();
        self.pending = Pending::new(self.shared.engine.snapshot());
        // Its last step may never have happened.
        self.sweep = Sweep::new();
        self.step(Input::PersistFailed);
    }

    fn on_engine_error(&mut self, error: &EngineError) {
        if !error.is_full {
            return self.fail(&error.to_string());
        }
        if self.engine_full.is_none() {
            tracing::warn!(%error, "no room for the engine: writes are refused until there is");
        }
        self.engine_full = Some(error.to_string());
        self.refresh_health();
    }

    fn fail(&mut self, reason: &str) {
        tracing::error!(reason, "the node failed: restart it when the cause is gone");
        self.shared.set_health(Health::Failed(reason.to_owned()));
    }

    fn refresh_health(&self) {
        let reason = self.log_full.as_ref().or(self.engine_full.as_ref());
        self.shared
            .set_health(reason.map_or(Health::Serving, |reason| Health::ReadOnly(reason.clone())));
    }

    fn on_idle(&mut self) {
        if self.shared.failure().is_some() {
            return;
        }
        if self.log_full.is_some() {
            self.try_to_resume();
        } else if let Err(error) = self.log.mark() {
            self.on_log_error(&error);
        }
    }

    /// Goes on after the disk was full, in a new epoch, if there is room again.
    fn try_to_resume(&mut self) {
        let full = self.log_full.clone();
        self.step(Input::Resumed);
        if self.log_full == full && self.log.is_open() {
            tracing::info!("there is room for the log again: writes are taken");
            self.log_full = None;
            self.refresh_health();
        }
    }

    /// What is due between two batches: a step of the sweep, checkpoints, and the log's end.
    fn maintain(&mut self) {
        if self.shared.refusal().is_some() && self.engine_full.is_none() {
            return;
        }
        if self.engine_full.is_none() && self.sweep.is_due() {
            match self.sweep.step(&self.pending) {
                Ok(changes) if changes.is_empty() => {}
                Ok(changes) => self.submit(changes, Waiting::Sweep),
                Err(error) => return self.fail(&format!("the store is damaged: {error}")),
            }
            self.flush();
        }
        if let Err(error) = self.checkpoint_if_due() {
            self.on_engine_error(&error);
        }
        match self.shared.engine.durable() {
            Ok(durable) => self.cut_log(durable),
            Err(error) => self.on_engine_error(&error),
        }
    }

    fn checkpoint_if_due(&mut self) -> Result<(), EngineError> {
        let logged = self.log.stats().bytes;
        let is_due = CHECKPOINT_BYTES <= logged - self.checkpoint_at;
        if !is_due && !self.shared.engine.wants_checkpoint() {
            return Ok(());
        }
        self.checkpoint_at = logged;
        self.checkpoint()
    }

    fn checkpoint(&mut self) -> Result<(), EngineError> {
        // The engine may never be ahead of what a crash leaves of the log.
        if self.settings.durability == Durability::Os
            && let Err(error) = self.log.sync()
        {
            self.on_log_error(&error);
            return Ok(());
        }
        self.shared.engine.checkpoint()
    }

    fn cut_log(&mut self, durable: EntryId) {
        if self.engine_full.take().is_some() {
            tracing::info!("there is room for the engine again: writes are taken");
            self.refresh_health();
        }
        if let Err(error) = self
            .log
            .remove_through(durable, self.settings.log_retain_bytes)
        {
            tracing::warn!(%error, "an old segment of the log stays");
        }
    }

    fn finish(&mut self) {
        if self.shared.refusal().is_none() {
            if let Err(error) = self.log.mark() {
                self.on_log_error(&error);
            } else if let Err(error) = self.checkpoint() {
                self.on_engine_error(&error);
            }
        }
        self.shared.engine.close();
        self.publish();
    }

    fn publish(&self) {
        let epoch = self.replica.epoch();
        let committed = self.replica.committed().index;
        self.shared
            .publish(self.log.stats(), self.log.disk_bytes(), epoch, committed);
    }
}

/// Leaves the node failed if the thread ends by a broken invariant.
struct FailOnPanic(Arc<Shared>);

impl Drop for FailOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let reason = "an invariant of the chain was broken; see the log".to_owned();
            self.0.set_health(Health::Failed(reason));
        }
    }
}

fn unknown(reason: &str) -> String {
    format!("{reason}; it is not known whether the write took effect")
}

fn size_of(change: &Change) -> usize {
    match change {
        Change::Put { key, value } => key.len() + value.len(),
        Change::Remove { key } | Change::Collect { key, .. } => key.len(),
        Change::Merge { key, ops, .. } => key.len() + ops.iter().map(size_of_op).sum::<usize>(),
    }
}

fn size_of_op(op: &ElementOp) -> usize {
    match op {
        ElementOp::ClearAll => 1,
        ElementOp::Clear { group } => group.len(),
        ElementOp::Add { group, value } | ElementOp::Remove { group, value } => {
            group.len() + value.len()
        }
    }
}

/// Milliseconds since 1970; 0 before.
pub(crate) fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(u64::MAX))
}
