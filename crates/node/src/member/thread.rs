//! The thread that drives the chain: it alone steps the replica, writes the log and brings the
//! engine forward.
//!
//! One iteration takes what is queued, steps the replica with each, and sends its messages to
//! others. It writes all records in one go, syncs once, applies once, answers all. Nothing else
//! touches the log, so the latency of a lone write is one wake-up, one write and one sync.
//!
//! Invariants:
//! - a reader who got an answer sees what it says: replies leave after the engine has it.
//! - THREAD-3 the log lets go of nothing that the engine has not made durable.
//! - between two turns, all records are written and all that is committed is applied.
//!
//! Deliberately absent: rules of the chain; those are `fader_chain::Replica`'s. What is due beside
//! requests is in `upkeep`.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use fader_chain::{
    Configuration, CorrelationId, Effect, EntryId, Envelope, Identity, Input, Level, Lsn, Mutation,
    Record, Replica, TransferStep,
};
use fader_services::Table;

use super::cluster_links::{ClusterLinks, Lease, MemberEvent, Notifier};
use super::fetching::Holding;
use super::mode_drain::DrainingDomains;
use super::pending::PendingRequest;
use super::pending::ask::Ask;
use super::refusal::{Kind, Refusal};
use super::request_table::RequestTable;
use super::state::{Shared, TICK_AT_REST};
use crate::settings::Settings;
use crate::status::{Health, HealthCause};
use crate::storage::blocks::BlockId;
use crate::storage::cache::touches;
use crate::storage::engine::{EngineError, Pair};
use crate::storage::log::Log;

mod effects;

/// How often the thread looks after itself when no request comes.
const TICK: Duration = Duration::from_millis(100);
/// The same for a member of a chain of several, which may have to say something again.
const TICK_IN_COMPANY: Duration = Duration::from_millis(20);
/// Jobs in one turn.
const BATCH_JOBS: usize = 512;
/// Bytes of records in one turn, beyond which no further job is taken.
const BATCH_BYTES: usize = 4 << 20;
/// A turn of a lone node takes jobs for so long, or for twice as long as the last write took. While
/// the disk syncs, clients of the turn before ask for more: a turn of all requests leaves the
/// processors idle then (docs/internals/decisions/0005-processor-time.md). In company each turn
/// costs messages, too.
const BATCH_TIME: Duration = Duration::from_micros(500);

/// What the thread is asked to do.
pub(crate) enum Job {
    /// A request that may change state.
    Submit(Box<PendingRequest>),
    /// A request that changes nothing, at a level.
    Read(Box<PendingRequest>, Level),
    /// Another member says something.
    Message(Envelope),
    /// The coordinator published a configuration.
    Configuration(Arc<Configuration>),
    /// The incarnation is over; another begins.
    Live(Identity),
    /// The role of the head is to go to another member, or stays (HM-4).
    HandOver(bool),
    /// A reader found that the store is damaged.
    Damaged(String),
    /// Bytes of these blocks are to go, if they have no row.
    Rowless(Vec<BlockId>),
    /// A test moved the clock. This is dropped when the thread has looked at it.
    Time(Sender<()>),
    /// Finish, make everything durable, and end.
    Close,
    /// End at once, as a process that is killed.
    Kill,
}

/// The thread's state.
pub(crate) struct ChainThread {
    pub(super) jobs: Receiver<Job>,
    pub(super) settings: Settings,
    pub(super) shared: Arc<Shared>,
    pub(super) links: Option<ClusterLinks>,
    pub(super) replica: Replica,
    pub(super) requests: RequestTable,
    pub(super) log: Log,
    /// The greatest epoch adopted on this disk.
    pub(super) epoch: u64,
    /// Whether the engine stands for nothing, since it is being filled.
    pub(super) is_filling: bool,
    /// Records to write, with the place of the last.
    records: Vec<Record>,
    records_last: Lsn,
    records_bytes: usize,
    /// What is to be done to the engine, in order.
    applies: Vec<(EntryId, Arc<Vec<Mutation>>)>,
    fills: VecDeque<TransferStep>,
    /// Blocks without a row, with the last entry that was applied when that was found.
    pub(super) rowless: BTreeMap<BlockId, EntryId>,
    /// What waits for bytes of blocks.
    pub(super) holding: Holding,
    /// Reads that wait until the engine has an entry.
    pub(super) to_show: Vec<(EntryId, CorrelationId)>,
    effects: Vec<Effect>,
    /// Collections on their way to the mode `strong`.
    pub(super) draining_domains: DrainingDomains,
    /// Eventual writes whose next input is due when the effects are performed.
    pub(super) turned: VecDeque<Box<PendingRequest>>,
    /// The lease, and the alarms of clocks that were heeded.
    pub(super) lease: Lease,
    pub(super) alarms: u64,
    /// Whether the role of the head is to go to another member.
    pub(super) hands_over: bool,
    /// Whether nothing is under way, and nothing came since that was found.
    is_at_rest: bool,
    /// When the replica was told the time last.
    ticked_at: u64,
    /// When it was looked last for clients that have gone while they waited, and the next deadline
    /// of those that wait.
    pub(super) looked_at: u64,
    pub(super) until_ms: Option<u64>,
    /// The log's bytes when the last checkpoint began.
    pub(super) checkpoint_at: u64,
    /// Why the log takes nothing, while it has no room.
    pub(super) log_full: Option<HealthCause>,
    /// Whether a request could not be decided since something it reads is damaged.
    pub(super) is_unreadable: bool,
    /// When it is looked for room again.
    pub(super) resume_at_ms: u64,
    /// When it is looked whether the disk has only its reserve left, and when removed rows are let
    /// go then.
    pub(super) room_at_ms: u64,
    pub(super) reclaim_at_ms: u64,
    /// Why the engine makes nothing durable, while it has no room.
    pub(super) engine_full: Option<HealthCause>,
}

/// Where a member goes on after recovery.
#[derive(Clone, Copy)]
pub(crate) struct RecoveryPoint {
    /// The engine has everything up to this entry.
    pub(crate) applied: EntryId,
    /// The greatest epoch that was adopted.
    pub(crate) epoch: u64,
}

impl ChainThread {
    /// A thread's state after recovery. The log is begun or goes on.
    pub(crate) fn new(
        jobs: Receiver<Job>,
        settings: Settings,
        shared: Arc<Shared>,
        log: Log,
        recovered: RecoveryPoint,
        me: Identity,
        links: Option<ClusterLinks>,
    ) -> Self {
        let RecoveryPoint { applied, epoch } = recovered;
        let committed = shared.engine.snapshot();
        let is_filling = shared.engine.is_filling();
        let mut thread = ChainThread {
            jobs,
            replica: Replica::new(me, settings.settings()),
            requests: RequestTable::new(
                settings.clone(),
                shared.blocks.clone(),
                committed,
                applied,
            ),
            settings,
            links,
            log,
            epoch,
            is_filling,
            records: Vec::new(),
            records_last: Lsn::default(),
            records_bytes: 0,
            applies: Vec::new(),
            fills: VecDeque::new(),
            rowless: BTreeMap::new(),
            holding: Holding::default(),
            to_show: Vec::new(),
            effects: Vec::new(),
            draining_domains: DrainingDomains::new(),
            turned: VecDeque::new(),
            lease: Lease::default(),
            alarms: 0,
            hands_over: false,
            is_at_rest: false,
            ticked_at: 0,
            looked_at: 0,
            until_ms: None,
            checkpoint_at: 0,
            log_full: None,
            is_unreadable: false,
            resume_at_ms: 0,
            room_at_ms: 0,
            reclaim_at_ms: 0,
            engine_full: None,
            shared,
        };
        match thread.log.resume() {
            Ok(()) => thread.live(me),
            Err(error) => thread.on_log_error(&error),
        }
        thread.publish();
        thread
    }

    /// Serves until it is told to end, or until no handle is left that could ask.
    pub(crate) fn run(mut self) {
        let _failed_if_it_panics = FailOnPanic {
            shared: self.shared.clone(),
            notices: self.links.as_ref().map(|it| it.notices.clone()),
        };
        loop {
            let patience = self.patience();
            let next = self.jobs.recv_timeout(patience);
            self.shared.gate.pass();
            self.shared.on_rest(false);
            self.requests.room.on_turn();
            let rests_on = matches!(next, Err(RecvTimeoutError::Timeout));
            self.is_at_rest &= rests_on;
            let flow = match next {
                Ok(job) => self.iterate(job),
                Err(RecvTimeoutError::Timeout) => {
                    self.take_lease();
                    self.on_idle();
                    Flow::On
                }
                Err(RecvTimeoutError::Disconnected) => Flow::Close,
            };
            match flow {
                Flow::On => {}
                Flow::Close => break,
                Flow::Kill => return,
            }
            self.attend();
            self.tick_if_due();
            self.maintain();
            self.publish();
            self.is_at_rest = rests_on && self.has_nothing_under_way();
            self.shared.on_rest(self.is_at_rest);
        }
        self.finish();
    }

    fn patience(&mut self) -> Duration {
        let sweeps = self.requests.sweep().is_due() && self.is_sweeper() && !self.is_unreadable;
        if sweeps {
            return Duration::ZERO;
        }
        self.rest(self.tick())
    }

    fn tick(&self) -> Duration {
        match self.links {
            _ if self.is_at_rest => TICK_AT_REST,
            None => TICK,
            Some(_) => TICK_IN_COMPANY,
        }
    }

    /// Whether no request, member or block is waited for.
    fn has_nothing_under_way(&self) -> bool {
        let (holding, draining) = (&self.holding, &self.draining_domains);
        let has_room = self.log_full.is_none() && self.engine_full.is_none();
        has_room
            && self.replica.is_at_rest()
            && !self.requests.has_any()
            && !self.requests.room.is_short()
            && holding.is_empty()
            && draining.known.is_empty()
            && !draining.is_stale
            && self.rowless.is_empty()
    }

    /// Steps with what is queued and makes it durable.
    fn iterate(&mut self, first: Job) -> Flow {
        let begin = Instant::now();
        let mut next = Some(first);
        let mut flow = Flow::On;
        let mut jobs = 0;
        let mut has_yielded = false;
        while let Some(job) = next {
            match job {
                Job::Close => flow = Flow::Close,
                Job::Kill => return Flow::Kill,
                job => self.take(job),
            }
            jobs += 1;
            let has_room = jobs < BATCH_JOBS && self.records_bytes < BATCH_BYTES;
            next = match flow {
                Flow::On if has_room && self.has_time(begin) => self.next_of_turn(&mut has_yielded),
                _ => None,
            };
        }
        self.flush();
        flow
    }

    /// Whether a turn that began then takes more.
    fn has_time(&self, begin: Instant) -> bool {
        self.links.is_some() || begin.elapsed() < BATCH_TIME.max(2 * self.log.last_write())
    }

    /// What is queued. Before an iteration is over, a thread that is about to ask for something, on
    /// a machine that is busy, does so first. One write and one sync are for all. On one that is
    /// idle this is nothing.
    fn next_of_turn(&self, has_yielded: &mut bool) -> Option<Job> {
        let next = self.jobs.try_recv().ok();
        if next.is_some() || *has_yielded {
            return next;
        }
        *has_yielded = true;
        std::thread::yield_now();
        self.jobs.try_recv().ok()
    }

    fn take(&mut self, job: Job) {
        self.take_lease();
        match job {
            Job::Submit(work) => {
                self.shared.on_dequeued();
                match self.shared.refusal() {
                    Some(cause) => work.fail(Refusal::of_health(Kind::Again, &cause)),
                    None => self.submit(work),
                }
            }
            Job::Read(work, level) => {
                self.shared.on_dequeued();
                self.read(work, level);
            }
            Job::Message(envelope) => self.hear(envelope),
            Job::Configuration(configuration) => self.on_configuration(configuration),
            Job::Live(me) => self.live_again(me),
            Job::HandOver(is_asked) => self.hands_over = is_asked,
            Job::Damaged(context) => {
                self.shared.on_dequeued();
                self.on_damage(context);
            }
            Job::Rowless(ids) => self.note_rowless(ids),
            Job::Time(heard) => {
                self.tick_at(self.settings.clock.monotonic_ms());
                drop(heard);
            }
            Job::Close | Job::Kill => {}
        }
    }

    pub(super) fn submit(&mut self, mut work: Box<PendingRequest>) {
        if self.is_for_the_next_head(&work) {
            return Self::leave_to_the_next_head(*work);
        }
        let ask = match work.ask() {
            Ask::Gather(name) => self.gather(name, &work),
            Ask::Hold(..) if self.turns_away(&mut work) => {
                return work.refuse(fader_chain::Refusal::Denied);
            }
            ask => ask,
        };
        let token = self.requests.put(work);
        self.step(ask.of(token));
    }

    /// Says what has gathered, writes, syncs, applies, answers, until there is nothing left.
    pub(super) fn flush(&mut self) {
        self.step(Input::Flush);
        while self.work() && self.links.is_some() {
            self.step(Input::Flush);
        }
    }

    /// Writes, syncs and applies until there is nothing left. Says whether there was anything.
    fn work(&mut self) -> bool {
        let mut has_worked = false;
        while self.work_once() {
            has_worked = true;
        }
        has_worked
    }

    /// One step on the disk, if any is due.
    fn work_once(&mut self) -> bool {
        if !self.records.is_empty() {
            self.write_records();
        } else if !self.applies.is_empty() {
            self.apply();
        } else if let Some(fill) = self.fills.pop_front() {
            self.fill(fill);
        } else {
            return false;
        }
        true
    }

    fn write_records(&mut self) {
        let records = std::mem::take(&mut self.records);
        self.records_bytes = 0;
        if self.shared.failure().is_some() {
            return self.step(Input::PersistFailed);
        }
        if let Err(cause) = self.check_blocks(&records) {
            return self.fail(cause);
        }
        match self.log.append(&records) {
            Ok(()) => self.step(Input::Persisted(self.records_last)),
            Err(error) => self.on_log_error(&error),
        }
    }

    /// Brings the engine forward, before anyone is answered.
    fn apply(&mut self) {
        let applies = std::mem::take(&mut self.applies);
        let last = applies.last().expect("there is something to apply").0;
        let pairs = newest(&applies);
        if let Err(error) = self.shared.engine.commit(&pairs, last) {
            return self.fail(HealthCause::store(&error));
        }
        self.shared.keys.on_applied(&pairs);
        self.shared.collections.on_applied(&pairs);
        self.shared.blocks.on_applied(&pairs, last);
        if touches(&pairs, Table::Garbage) {
            self.requests.sweep().on_garbage();
        }
        if touches(&pairs, Table::Closing) {
            self.draining_domains.on_change();
        }
        self.requests.on_changed(&pairs);
        self.on_applied(last);
        self.step(Input::Applied(last));
        self.wake();
    }

    fn on_applied(&mut self, last: EntryId) {
        self.log.kept_mut().release(last);
        self.requests
            .on_applied(self.shared.engine.snapshot(), last);
        let due = |(at, _): &mut (EntryId, CorrelationId)| *at <= last;
        for (at, token) in self.to_show.extract_if(.., due).collect::<Vec<_>>() {
            self.show(token, at);
        }
    }

    fn fill(&mut self, fill: TransferStep) {
        let engine = self.shared.engine.clone();
        let filled = match &fill {
            TransferStep::Begin => engine.begin_fill(),
            TransferStep::Range(content) => engine.fill(content),
            TransferStep::End { at } => engine.end_fill(*at),
        };
        match (filled, fill) {
            (Err(error), _) => self.fail(HealthCause::store(&error)),
            (Ok(()), TransferStep::Begin) => {
                self.is_filling = true;
                self.step(Input::Filled);
            }
            (Ok(()), TransferStep::Range(_)) => {
                self.requests.on_filling(engine.snapshot());
                self.step(Input::Filled);
            }
            (Ok(()), TransferStep::End { at }) => {
                self.is_filling = false;
                self.shared.keys.clear();
                self.shared.collections.clear();
                self.draining_domains.on_change();
                self.on_applied(at);
                self.step(Input::Filled);
            }
        }
    }

    pub(super) fn step(&mut self, input: Input) {
        self.heed_clocks();
        let mut effects = std::mem::take(&mut self.effects);
        let asked = Self::asked(&input);
        let now = self.settings.clock.now();
        let stepped = self
            .replica
            .step(now, input, &mut self.requests, &mut effects);
        if let Err(error) = stepped {
            self.on_unreadable(asked, &error);
        }
        effects.drain(..).for_each(|effect| self.perform(effect));
        if self.effects.capacity() < effects.capacity() {
            self.effects = effects;
        }
        while let Some(work) = self.turned.pop_front() {
            self.submit(work);
        }
    }

    fn tick_if_due(&mut self) {
        let now_ms = self.settings.clock.monotonic_ms();
        if self.ticked_at + self.tick().as_millis() as u64 <= now_ms {
            self.tick_at(now_ms);
        }
    }

    fn tick_at(&mut self, now_ms: u64) {
        self.ticked_at = now_ms;
        self.give_up();
        self.look_for_bytes();
        self.step(Input::Tick);
        self.flush();
        if self.links.is_some() {
            let now = self.settings.clock.now();
            self.shared.on_behind(self.replica.behind(now));
            self.shared.on_waits(self.replica.wait_reasons(now));
        }
    }

    /// What is waiting for the disk is forgotten: it was never said to be durable.
    pub(super) fn drop_work(&mut self) {
        self.records.clear();
        self.records_bytes = 0;
        self.applies.clear();
        self.fills.clear();
    }

    pub(super) fn on_full(&mut self, error: &EngineError) {
        if self.engine_full.is_none() {
            tracing::warn!(%error, "no room for the engine: writes are refused until there is");
        }
        self.engine_full = Some(HealthCause::full(error));
    }
}

fn pair(mutation: &Mutation) -> Pair<'_> {
    (&mutation.key, mutation.value.as_ref())
}

/// What the entries come to, each key once.
fn newest(applies: &[(EntryId, Arc<Vec<Mutation>>)]) -> Vec<Pair<'_>> {
    match applies {
        [(_, entry)] => entry.iter().map(pair).collect(),
        _ => {
            let all = applies.iter().flat_map(|(_, entry)| entry.iter().map(pair));
            all.collect::<BTreeMap<_, _>>().into_iter().collect()
        }
    }
}

/// What comes after a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    On,
    Close,
    Kill,
}

/// Leaves the member failed if the thread ends by a broken invariant, and ends its session at once.
struct FailOnPanic {
    shared: Arc<Shared>,
    notices: Option<Notifier>,
}

impl Drop for FailOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.shared.set_health(Health::Failed(HealthCause::Broken));
            if let Some(notices) = &self.notices {
                notices.notify(MemberEvent::Stopped);
            }
        }
    }
}
