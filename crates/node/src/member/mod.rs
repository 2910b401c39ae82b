//! One member with its disk: its folder, its engine, its log, and the thread that drives it.
//!
//! ```text
//!  Member ──Job──▶ thread: desk (pending) ◀──▶ replica ──▶ read, write, following, maintenance
//! ```

pub(crate) mod blocks;
mod clocks;
pub(crate) mod cluster_links;
pub(crate) mod context;
pub(crate) mod copying;
mod fetching;
mod folder;
mod hand_over;
mod holding;
pub(crate) mod lease;
pub(crate) mod local_network;
mod maintenance;
mod mode_drain;
mod pause;
pub(crate) mod pending;
mod purge;
pub(crate) mod quorum;
mod read;
mod read_source;
pub(crate) mod refusal;
mod request_table;
mod room;
mod session_context;
mod sharing;
mod state;
pub(crate) mod thread;
pub(crate) mod turns;
mod waiting;
mod weight;
mod write;

use std::cell::OnceCell;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{SyncSender, TrySendError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fader_chain::{ChainId, Configuration, Layered, ReplicationLag};
use fader_services::blocks::{Known, Standpoint};
use fader_services::catalog::{self, Command, DomainEntry, Name};
use fader_services::figures::Figures;
use fader_services::level::{Bound, Level, ReplyMetadata};
use fader_services::request::{self, Limits, Outcome, Refusal as Refused, Reply as Answered};
use fader_services::service::Context;
use fader_services::{Call, PageBudget, Reason, View, ViewError};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::settings::Settings;
use crate::status::{Counters, Health};
use crate::storage::blocks::BlockId;
use crate::storage::engine::Snapshot;
use blocks::MemberBlocks;
use context::{Around, in_context, is_meant, name_of, unreadable};
use pending::{PendingRequest, SessionContext, SessionUpdate};
use quorum::{Quorum, check_level};
use read_source::Item;
use refusal::{Kind, Refusal};
use state::Shared;
use thread::Job;

pub(crate) use context::reads_keys;
pub(crate) use folder::Folder;
pub(crate) use read_source::ReadSource;

/// How long one member may take for a read.
pub(crate) const READ: Duration = Duration::from_secs(1);

/// A member that incarnations.
pub(crate) struct Member {
    shared: Arc<Shared>,
    jobs: SyncSender<Job>,
    settings: Settings,
    /// Whether it has no company: it is its chain.
    is_alone: bool,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Member {
    /// What it shares with its thread.
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// The way to its thread, for messages and configurations.
    pub(crate) fn jobs(&self) -> SyncSender<Job> {
        self.jobs.clone()
    }

    /// The state that it has applied.
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.shared.engine.snapshot()
    }

    /// Its numbers.
    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Its blocks.
    pub(crate) fn blocks(&self) -> &MemberBlocks {
        &self.shared.blocks
    }

    /// What it knows of its chain, for those who look what is to go. A member that has no company
    /// is all that have to have applied an entry.
    pub(crate) fn known(&self) -> Known {
        let newest = self.shared.newest();
        let safe_point = match self.is_alone {
            true => newest,
            false => self.shared.safe_point(),
        };
        Known { newest, safe_point }
    }

    /// What is known of each snapshot that is taken from now on, in the newest configuration.
    pub(crate) fn standpoint(&self, newest: &Configuration) -> Standpoint {
        Standpoint {
            state: self.shared.applied(),
            safe_point: self.shared.safe_point().max(newest.safe_point),
            oldest_snapshot: None,
        }
    }

    /// Drops the bytes of those of these blocks that have no row, in its own time.
    pub(crate) fn drop_rowless(&self, ids: Vec<BlockId>) {
        // Of a member that ends they stay.
        drop(self.jobs.try_send(Job::Rowless(ids)));
    }

    /// What the services show of the collections of its chain, of up to `most` by name.
    pub(crate) fn figures(&self, chain: ChainId, most: usize) -> Result<Figures, ViewError> {
        let (limits, now_ms) = (&self.settings.limits, self.settings.clock.now_ms());
        request::figures(&*self.snapshot(), limits, chain, now_ms, most)
    }

    /// Queues a client's request.
    pub(crate) fn enqueue(&self, job: Job) -> Result<(), Refusal> {
        let waiting = self.shared.queue_depth.fetch_add(1, Ordering::Relaxed);
        let sent = match waiting < self.settings.queue_depth_max as u64 {
            true => self.jobs.try_send(job),
            false => Err(TrySendError::Full(job)),
        };
        sent.map_err(|error| {
            self.shared.on_dequeued();
            match error {
                TrySendError::Full(_) => Refusal::new(Kind::Elsewhere, Reason::QueueFull),
                TrySendError::Disconnected(_) => Refusal::new(Kind::Elsewhere, Reason::Stopping),
            }
        })
    }

    /// A collection, as this member has applied it.
    pub(crate) fn collection(&self, name: Name<'_>) -> Result<Option<DomainEntry>, ViewError> {
        let key = cached_under(name);
        let generation = match self.shared.collections.get(&key) {
            Ok(entry) => return Ok(Some(entry)),
            Err(generation) => generation,
        };
        let entry = catalog::collection(&*self.snapshot(), name)?;
        if let Some(entry) = &entry {
            self.shared.collections.put(generation, key, entry.clone());
        }
        Ok(entry)
    }

    /// The level of a request and its bound, as far as this member knows its collection: the one
    /// that is meant.
    fn level(&self, call: &Call) -> Result<Option<(Level, Option<Bound>)>, Refused> {
        let Some(name) = name_of(call) else {
            return Ok(None);
        };
        let entry = self.collection(name).map_err(unreadable(call))?;
        let entry = entry.filter(|entry| is_meant(call, entry.collection));
        entry
            .map(|entry| check_level(Some(&entry), call, self.shared.members()))
            .transpose()
    }

    /// What a write asks if it is eventual, as far as this member knows its collection.
    pub(crate) fn quorum(&self, call: &Call) -> Result<Option<Quorum>, Refused> {
        Ok(self.level(call)?.and_then(|(level, _)| Quorum::of(level)))
    }

    /// How a read is answered that is not strong. Of a collection that is not known here, only who
    /// carries the request out can say.
    pub(crate) fn shows(&self, call: &Call) -> Result<Option<fader_chain::Level>, Refused> {
        let Some((level, bound)) = self.level(call)? else {
            return Ok(None);
        };
        Ok(match (level, bound) {
            (Level::Barrier, _) => Some(fader_chain::Level::Barrier),
            (Level::Eventual { .. }, Some(Bound::Versions(versions))) => {
                Some(fader_chain::Level::BoundVersions(versions))
            }
            (Level::Eventual { .. }, Some(Bound::Millis(millis))) => {
                Some(fader_chain::Level::BoundMillis(millis))
            }
            (Level::Eventual { r, sloppy, .. }, None) => Some(fader_chain::Level::Eventual {
                r: usize::from(r),
                // One member alone claims no quorum.
                sloppy: sloppy || r == 1,
            }),
            (Level::Strong | Level::Default, _) => None,
        })
    }

    /// What this member shows at a level, if it does in time, and what the session has seen then.
    pub(crate) async fn show(
        &self,
        call: &Arc<Call>,
        session: &SessionContext,
        level: fader_chain::Level,
        time: Duration,
    ) -> Option<(ReadSource, Option<Box<SessionUpdate>>)> {
        let is_all = level == fader_chain::Level::Strong || self.shared.is_settled();
        if self.is_alone && is_all && session.is_none() {
            // All that is committed is applied before anyone hears of it.
            return Some((ReadSource::Snapshot(self.snapshot()), None));
        }
        let (reply, answer) = oneshot::channel();
        let work = PendingRequest::Read {
            call: call.clone(),
            session: session.clone(),
            reply,
        };
        self.enqueue(Job::Read(Box::new(work), level)).ok()?;
        tokio::time::timeout(time, answer).await.ok()?.ok()?.ok()
    }

    /// Settles all that the members hold of eventual writes, as the head: whether all have answered
    /// in time (BR-1).
    pub(crate) async fn settle_all(&self) -> bool {
        let all = Arc::new(Call::of_node(Command::Confirm));
        let shown = self.show(&all, &None, fader_chain::Level::Barrier, READ);
        shown.await.is_some()
    }

    /// Answers from what a member shows; a scan beside the threads that serve.
    pub(crate) async fn answer(
        self: &Arc<Self>,
        source: ReadSource,
        call: &Arc<Call>,
    ) -> Result<(Answered, ReplyMetadata), Refused> {
        let source = match source {
            ReadSource::Snapshot(snapshot) => {
                let item = Item::committed(&*snapshot, call).map_err(unreadable(call))?;
                match item {
                    Some(item) => ReadSource::Item(snapshot, Box::new(item)),
                    None => ReadSource::Snapshot(snapshot),
                }
            }
            other => other,
        };
        if reads_keys(call) || matches!(source, ReadSource::Answered(_)) {
            return self.answer_from(source, call);
        }
        let (member, asked) = (Arc::clone(self), call.clone());
        let answered = tokio::task::spawn_blocking(move || member.answer_from(source, &asked));
        answered
            .await
            .unwrap_or_else(|_| Err(unreadable(call)(ViewError::Panicked)))
    }

    /// Answers a request that changes nothing from what is shown to it.
    fn answer_from(
        &self,
        source: ReadSource,
        call: &Call,
    ) -> Result<(Answered, ReplyMetadata), Refused> {
        let request = &call.request;
        match source {
            ReadSource::Answered(answered) => *answered,
            ReadSource::Snapshot(snapshot) => {
                let answered = self.with_context(&*snapshot, call, |context| {
                    request.answer(&*snapshot, context)
                })?;
                Ok((answered, ReplyMetadata::default()))
            }
            ReadSource::Item(snapshot, item) => {
                let metadata = item.metadata(call);
                let answered = self.with_context(&*snapshot, call, |context| {
                    request.answer_register(&*snapshot, context, item.shown)
                })?;
                Ok((answered, metadata))
            }
            ReadSource::Tentative(snapshot, tentative) => {
                let view = Layered::new(&*snapshot, tentative.mutations());
                let answered = self.with_context(&*snapshot, call, |context| {
                    let items = |collection| tentative.items(collection);
                    let context = Context {
                        unsettled_items: context.collection.map_or(0, items),
                        ..*context
                    };
                    request.answer(&view, &context)
                })?;
                let metadata = ReplyMetadata {
                    tentative: !tentative.mutations().is_empty(),
                    ..ReplyMetadata::default()
                };
                Ok((answered, metadata))
            }
        }
    }

    fn with_context(
        &self,
        view: &dyn View,
        call: &Call,
        run: impl FnOnce(&Context<'_, Limits>) -> Outcome,
    ) -> Outcome {
        let pace = Pace {
            time: self.settings.page_time,
            begun: OnceCell::new(),
        };
        let around = Around::new(&self.settings, self.shared.members(), &pace);
        in_context(view, call, around, |context, _| run(context))
    }

    /// Whether it can do its work.
    pub(crate) fn health(&self) -> Health {
        self.shared.health.read().clone()
    }

    /// How far the other members are behind, if this one is the head.
    pub(crate) fn behind(&self) -> Vec<ReplicationLag> {
        self.shared.behind.lock().clone()
    }

    /// Counters since the start.
    pub(crate) fn counters(&self) -> Counters {
        let counters = *self.shared.counters.lock();
        Counters {
            queue_depth: self.shared.queue_depth.load(Ordering::Relaxed),
            parked: self.shared.parked.load(Ordering::Relaxed),
            engine_disk_bytes: self.shared.engine.disk_bytes(),
            blocks: self.shared.blocks.figures(),
            ..counters
        }
    }

    /// Finishes what is queued, makes everything durable and ends the member's threads.
    pub(crate) fn close(&self) {
        self.shared.gate.open();
        self.end(Job::Close);
    }

    /// Ends its thread at once: what it was doing stays undone.
    pub(crate) fn kill(&self) {
        self.shared.gate.open();
        self.end(Job::Kill);
    }

    fn end(&self, how: Job) {
        let Some(thread) = self.thread.lock().take() else {
            return;
        };
        // Without a receiver the thread has ended already.
        drop(self.jobs.send(how));
        if thread.join().is_err() {
            tracing::error!("the chain thread ended by a broken invariant");
        }
        self.shared.blocks.close();
    }
}

/// The time of a page, from the first time that it is asked for: many reads never ask.
struct Pace {
    time: Duration,
    begun: OnceCell<Instant>,
}

impl PageBudget for Pace {
    fn is_over(&self) -> bool {
        let now = Instant::now();
        self.time <= now - *self.begun.get_or_init(|| now)
    }
}

/// The key of a name in the cache of collections: put together without `format!`, since every
/// request asks for one.
fn cached_under(
    Name {
        kind,
        account,
        name,
    }: Name<'_>,
) -> String {
    let mut key = String::with_capacity(account.0.len() + name.len() + 3);
    key.push(char::from(kind.byte()));
    key.push_str(&account.0);
    key.push('/');
    key.push_str(name);
    key
}
