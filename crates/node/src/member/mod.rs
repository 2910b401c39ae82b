//! One member with its disk: its folder, its engine, its log, and the thread that drives it.
//!
//! ```text
//!  Member ──Job──▶ thread: desk (pending) ◀──▶ replica ──▶ read, write, following, maintenance
//! ```

mod closing;
mod context;
mod desk;
mod folder;
mod following;
mod gate;
pub(crate) mod lease;
pub(crate) mod links;
mod maintenance;
pub(crate) mod pending;
pub(crate) mod quorum;
mod read;
pub(crate) mod refusal;
mod showing;
mod state;
mod sweep;
pub(crate) mod thread;
mod write;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{SyncSender, TrySendError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fader_chain::{Behind, Layered};
use fader_services::catalog::AccountId;
use fader_services::level::{Bound, Demand, Level, Receipt};
use fader_services::simpledb::{self, Answered, Context, Error, Request};
use fader_services::{Pace, Reason, View, ViewError};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::settings::Settings;
use crate::status::{Counters, Health};
use crate::storage::engine::Snapshot;
use context::{domain_of, in_context};
use pending::{Followed, Following, Work};
use quorum::{Quorum, check_level, check_quorum};
use refusal::{Kind, Refusal};
use showing::Item;
use state::Shared;
use thread::Job;

pub(crate) use context::reads_keys;
pub(crate) use folder::Folder;
pub(crate) use showing::Showing;

/// How long one member may take for a read.
pub(crate) const READ: Duration = Duration::from_secs(1);

/// A member that lives.
pub(crate) struct Member {
    shared: Arc<Shared>,
    jobs: SyncSender<Job>,
    settings: Settings,
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
                TrySendError::Full(_) => Refusal::new(Kind::Again, Reason::QueueFull),
                TrySendError::Disconnected(_) => Refusal::new(Kind::Elsewhere, Reason::Stopping),
            }
        })
    }

    /// What a write asks if it is eventual, as far as this member knows its domain.
    pub(crate) fn quorum(
        &self,
        account: &AccountId,
        request: &Request,
        demand: &Demand,
    ) -> Result<Option<Quorum>, Error> {
        let Some(entry) = domain_of(&*self.snapshot(), account, request, demand)? else {
            return Ok(None);
        };
        let level = check_level(Some(&entry), demand, request, self.shared.members())?;
        Ok(Quorum::of(level))
    }

    /// How a read is answered that is not strong. Of a domain that is not known here, only who
    /// carries the request out can say.
    pub(crate) fn shows(
        &self,
        account: &AccountId,
        request: &Request,
        demand: &Demand,
    ) -> Result<Option<fader_chain::Level>, Error> {
        let Some(entry) = domain_of(&*self.snapshot(), account, request, demand)? else {
            return Ok(None);
        };
        let (level, bound) =
            simpledb::permits(Some(entry.mode), entry.preference, demand, request)?;
        check_quorum(level, self.shared.members())?;
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

    /// Answers a request that changes nothing on `view`.
    pub(crate) fn answer(
        &self,
        view: &dyn View,
        account: &AccountId,
        request: &Request,
        demand: &Demand,
    ) -> Result<Answered, Error> {
        self.with_context(view, account, (request, demand), |context| {
            simpledb::answer(view, context, request)
        })
    }

    /// Answers a request that changes nothing from what is shown to it.
    pub(crate) fn answer_from(
        &self,
        showing: Showing,
        account: &AccountId,
        request: &Request,
        demand: &Demand,
    ) -> Result<(Answered, Receipt), Error> {
        let asked = (request, demand);
        match showing {
            Showing::Answered(answered) => *answered,
            Showing::Snapshot(snapshot) => {
                let answered = self.answer(&*snapshot, account, request, demand)?;
                Ok((answered, Receipt::default()))
            }
            Showing::Item(snapshot, item) => {
                let receipt = item.receipt(request);
                let answered = self.with_context(&*snapshot, account, asked, |context| {
                    simpledb::answer_item(&*snapshot, context, request, item.shown)
                })?;
                Ok((answered, receipt))
            }
            Showing::Tentative(snapshot, tentative) => {
                let view = Layered::new(&*snapshot, tentative.mutations());
                let answered = self.with_context(&*snapshot, account, asked, |context| {
                    let items = |collection| tentative.items(collection);
                    let context = Context {
                        unsettled_items: context.collection.map_or(0, items),
                        ..*context
                    };
                    simpledb::answer(&view, &context, request)
                })?;
                let receipt = Receipt {
                    tentative: !tentative.mutations().is_empty(),
                    ..Receipt::default()
                };
                Ok((answered, receipt))
            }
        }
    }

    /// What a member shows at a level, if it does in time, and what the session has seen then.
    pub(crate) async fn show(
        &self,
        account: &AccountId,
        (request, demand, session): (&Request, &Demand, &Following),
        (level, time): (fader_chain::Level, Duration),
    ) -> Option<(Showing, Option<Box<Followed>>)> {
        let (reply, answer) = oneshot::channel();
        let work = Work::Read {
            account: account.clone(),
            request: request.clone(),
            demand: demand.clone(),
            session: session.clone(),
            reply,
        };
        let job = Job::Read(Box::new(work), level);
        self.enqueue(job).ok()?;
        tokio::time::timeout(time, answer).await.ok()?.ok()?.ok()
    }

    /// Answers from what a member shows; a scan beside the threads that serve.
    pub(crate) async fn answer_aside(
        self: Arc<Self>,
        showing: Showing,
        account: &AccountId,
        request: &Request,
        demand: &Demand,
    ) -> Result<(Answered, Receipt), Error> {
        let showing = match showing {
            Showing::Snapshot(snapshot) => {
                match Item::committed(&*snapshot, account, request, demand)? {
                    Some(item) => Showing::Item(snapshot, Box::new(item)),
                    None => Showing::Snapshot(snapshot),
                }
            }
            other => other,
        };
        if reads_keys(request) || matches!(showing, Showing::Answered(_)) {
            return self.answer_from(showing, account, request, demand);
        }
        let (account, request, demand) = (account.clone(), request.clone(), demand.clone());
        let answered = tokio::task::spawn_blocking(move || {
            self.answer_from(showing, &account, &request, &demand)
        });
        answered
            .await
            .unwrap_or_else(|error| Err(ViewError(error.to_string()).into()))
    }

    fn with_context<T>(
        &self,
        view: &dyn View,
        account: &AccountId,
        asked: (&Request, &Demand),
        run: impl FnOnce(&Context<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let pace = Deadline {
            end: Instant::now() + self.settings.page_time,
        };
        let around = (
            self.shared.members(),
            &self.settings.limits,
            &pace as &dyn Pace,
        );
        in_context(view, account, asked, around, |context, _| run(context))
    }

    /// Whether it can do its work.
    pub(crate) fn health(&self) -> Health {
        self.shared.health.read().clone()
    }

    /// How far the other members are behind, if this one is the head.
    pub(crate) fn behind(&self) -> Vec<Behind> {
        self.shared.behind.lock().clone()
    }

    /// Counters since the start.
    pub(crate) fn counters(&self) -> Counters {
        let counters = *self.shared.counters.lock();
        Counters {
            queue_depth: self.shared.queue_depth.load(Ordering::Relaxed),
            engine_disk_bytes: self.shared.engine.disk_bytes(),
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
    }
}

struct Deadline {
    end: Instant,
}

impl Pace for Deadline {
    fn is_over(&self) -> bool {
        self.end <= Instant::now()
    }
}
