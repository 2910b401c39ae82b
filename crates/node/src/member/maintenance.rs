//! What the chain thread does beside requests: lives and their ends, errors of the disk, the sweep,
//! checkpoints, and the log's end.

use std::sync::Arc;

use fader_chain::{
    ChainMember, Configuration, CorrelationId, Identity, Input, Replica, Role, Stop, Wiring,
};
use fader_services::{Reason, ViewError, catalog};

use super::cluster_links::{Lease, MemberEvent};
use super::mode_drain::{DrainBlocker, DrainingDomains};
use super::pending::PendingRequest;
use super::quorum::Members;
use super::refusal::{Kind, Refusal};
use super::thread::ChainThread;
use crate::random;
use crate::status::{Health, HealthCause};
use crate::storage::engine::{Engine, EngineError};
use crate::storage::log::{Durability, LogError};

/// Bytes of log that a start may have to apply again.
const CHECKPOINT_BYTES: u64 = 64 << 20;
/// Milliseconds between two attempts at the last step of a change of mode.
const AGAIN_MS: u64 = 100;
/// Milliseconds between two looks for room after the disk was full.
const RESUME_MS: u64 = 100;
/// Milliseconds between two looks whether the disk has more than its reserve.
const ROOM_MS: u64 = 100;
/// Milliseconds between two times at which removed rows are let go, while it has not.
const RECLAIM_MS: u64 = 10_000;

impl ChainThread {
    /// Begins an incarnation on what the log and the engine hold. Alone it adopts an epoch by
    /// itself.
    pub(super) fn live(&mut self, me: Identity) {
        self.holding.forget();
        self.rowless.clear();
        self.replica = Replica::new(me, self.settings.settings());
        self.lease = Lease::none(me.incarnation);
        let (durable, applied) = (self.log.kept().clone(), self.requests.applied());
        let filling = self.is_filling;
        self.step(Input::Recovered {
            durable,
            applied,
            filling,
        });
        if self.links.is_none() {
            let alone = self.alone(me);
            self.step(Input::Configuration(alone));
            self.step(Input::Lease { until: u64::MAX });
        }
        self.flush();
    }

    /// The next epoch of a chain of one.
    fn alone(&mut self, me: Identity) -> Arc<Configuration> {
        self.epoch += 1;
        let member = ChainMember {
            node: me.node,
            incarnation: me.incarnation,
            disk: me.disk,
            role: Role::Serving,
        };
        Arc::new(Configuration {
            epoch: self.epoch,
            wiring: Wiring::Star,
            members: vec![member],
            last_serving: vec![(me.node, me.disk)],
            absent: Vec::new(),
            // GC-2: every member, this one, has applied it.
            safe_point: self.requests.applied(),
            lossy: fader_chain::UncleanRecovery::default(),
            version: fader_chain::Version::NEWEST,
        })
    }

    /// The coordinator knows this member under another incarnation.
    pub(super) fn live_again(&mut self, me: Identity) {
        if self.log_full.is_some() || self.shared.failure().is_some() {
            return;
        }
        self.step(Input::PersistFailed);
        self.drop_work();
        self.live(me);
    }

    pub(super) fn on_configuration(&mut self, configuration: Arc<Configuration>) {
        let is_out = self.replica.ends_with(&configuration);
        let was_joining = self.replica.is_joining();
        self.holding.forget();
        self.step(Input::Configuration(configuration));
        if let Some(adopted) = self.replica.configuration() {
            let members = Members {
                now: adopted.size(),
                whole: adopted.whole_size(),
            };
            self.requests.on_members(members);
            self.shared.on_members(members);
        }
        if is_out {
            self.notify(match was_joining {
                true => MemberEvent::LeftOut,
                false => MemberEvent::IncarnationOver,
            });
        }
    }

    /// LD-2: some disk of the chain is an old copy that passed for the disk.
    pub(super) fn on_stop(&mut self, stop: Stop) {
        match stop {
            Stop::Ahead(entries) => tracing::error!(
                entries,
                "this member knows entries committed that its chain has not: the chain began again \
                 with an old copy of a disk. The member has stopped, and its folder stays as it is"
            ),
            Stop::Behind(entries) => {
                tracing::error!(
                    entries,
                    "this member served, and lacks entries that are committed: its folder is an \
                     old copy. It joins again, and is sent what it lacks"
                );
                self.notify(MemberEvent::LeftOut);
            }
        }
    }

    pub(super) fn on_log_error(&mut self, error: &LogError) {
        if error.is_full() {
            if self.log_full.is_none() {
                tracing::warn!(%error, "no room for the log: writes are refused until there is");
            }
            self.log_full = Some(HealthCause::full(error));
        } else {
            self.fail(HealthCause::store(error));
        }
        self.refresh_health();
        self.drop_work();
        // Its last step may never have happened.
        self.requests.sweep().restart();
        self.step(Input::PersistFailed);
        self.notify(MemberEvent::Stopped);
    }

    fn on_engine_error(&mut self, error: &EngineError) {
        if !error.is_full {
            return self.fail(HealthCause::store(error));
        }
        self.on_full(error);
        self.refresh_health();
    }

    pub(super) fn fail(&mut self, cause: HealthCause) {
        let code = cause.code();
        tracing::error!(
            reason = %cause,
            %code,
            "the node failed: restart it when the cause is gone"
        );
        let was_failed = self.shared.failure().is_some();
        self.shared.set_health(Health::Failed(cause));
        if !was_failed {
            self.stop();
        }
    }

    /// What is read is not what was written.
    pub(super) fn on_damage(&mut self, context: String) {
        self.shared.on_damage();
        self.fail(HealthCause::Damaged { context });
    }

    /// The request of a client that is an input, and what is known of it when the replica cannot
    /// take it. An eventual write may be held in part.
    pub(super) fn asked(input: &Input) -> Option<(CorrelationId, Kind)> {
        let kind = match input {
            Input::Write { .. } | Input::Outcome { .. } => Kind::Unknown,
            _ => Kind::Never,
        };
        input.token().map(|token| (token, kind))
    }

    /// A request cannot be decided, since it reads what is damaged. Nothing was appended for it,
    /// and a single member goes on with all that can be read. What it does by itself, sweeps and
    /// what is due, it leaves alone from then on.
    pub(super) fn on_unreadable(
        &mut self,
        asked: Option<(CorrelationId, Kind)>,
        error: &ViewError,
    ) {
        let Some((token, kind)) = asked.filter(|_| self.links.is_none()) else {
            return self.on_damage(error.to_string());
        };
        if !std::mem::replace(&mut self.is_unreadable, true) {
            tracing::error!(
                %error,
                "the store is damaged: requests that need what cannot be read are refused. The \
                 next start names the file, and makes the engine anew if the log has everything"
            );
        }
        if let Some(work) = self.requests.take_if_there(token) {
            work.fail(Refusal::of_health(kind, &HealthCause::damaged(error)));
        }
    }

    /// I23: it answers no request, so its session can end at once, and the others go on without it.
    fn stop(&mut self) {
        if self.links.is_some() {
            self.step(Input::PersistFailed);
            self.notify(MemberEvent::Stopped);
        }
    }

    /// Who sees the health sees the counters of the incarnation it tells of: they go first.
    fn refresh_health(&self) {
        self.publish();
        let cause = self.log_full.as_ref().or(self.engine_full.as_ref());
        self.shared
            .set_health(cause.map_or(Health::Serving, |cause| Health::ReadOnly(cause.clone())));
    }

    pub(super) fn on_idle(&mut self) {
        if self.shared.failure().is_some() {
            return;
        }
        if self.log_full.is_none()
            && let Err(error) = self.log.mark()
        {
            self.on_log_error(&error);
        }
    }

    /// Looks whether there is room again, however much is asked meanwhile: clients that retry leave
    /// no moment idle.
    fn resume_if_due(&mut self) {
        let now = self.settings.clock.monotonic_ms();
        if self.log_full.is_none() || self.shared.failure().is_some() || now < self.resume_at_ms {
            return;
        }
        self.resume_at_ms = now + RESUME_MS;
        self.renew_snapshot();
        self.try_to_resume();
    }

    /// Goes on after the disk was full, in a new incarnation, if there is room again.
    fn try_to_resume(&mut self) {
        let full = self.log_full.clone();
        match self.log.begin(true) {
            Err(error) => return self.on_log_error(&error),
            Ok(()) if self.links.is_some() => self.notify(MemberEvent::IncarnationOver),
            Ok(()) => match random::incarnation() {
                Ok(incarnation) => self.live(Identity {
                    incarnation,
                    ..self.replica.identity()
                }),
                Err(error) => return self.fail(HealthCause::store(&error)),
            },
        }
        if self.log_full == full && self.log.is_open() {
            tracing::info!("there is room for the log again: writes are taken");
            self.log_full = None;
            self.refresh_health();
        }
    }

    /// Deleted collections are swept by entries, and those are the head's.
    pub(super) fn is_sweeper(&self) -> bool {
        self.replica.is_head() && self.replica.is_ready()
    }

    /// What is due between two turns: a step of the sweep, draining collections, checkpoints, and
    /// the log's end.
    pub(super) fn maintain(&mut self) {
        self.resume_if_due();
        if self.shared.refusal().is_some() && self.engine_full.is_none() {
            return;
        }
        let may_sweep = self.is_sweeper() && !self.is_unreadable;
        if may_sweep {
            self.requests.look_for_work();
        }
        if self.engine_full.is_none() && may_sweep && self.requests.sweep().is_due() {
            self.submit(Box::new(PendingRequest::Sweep));
            self.flush();
        }
        self.close_collections();
        self.let_blocks_go();
        let written = self.checkpoint_if_due();
        if let Err(error) = written.and_then(|()| self.reclaim_if_due()) {
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
        self.behind_the_log(|engine| engine.checkpoint())
    }

    /// Has the engine write, once the log has all that the engine has.
    fn behind_the_log(
        &mut self,
        write: impl FnOnce(&dyn Engine) -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        // The engine may never be ahead of what a crash leaves of the log.
        if self.settings.durability == Durability::Os
            && let Err(error) = self.log.sync()
        {
            self.on_log_error(&error);
            return Ok(());
        }
        write(&*self.shared.engine)
    }

    /// Has rows that were removed leave the disk while it has only its reserve left.
    fn reclaim_if_due(&mut self) -> Result<(), EngineError> {
        let now_ms = self.settings.clock.monotonic_ms();
        if now_ms < self.room_at_ms || self.is_filling {
            return Ok(());
        }
        self.room_at_ms = now_ms + ROOM_MS;
        let was_short = self.requests.room.is_short();
        let Some(free) = self.requests.room.look() else {
            if was_short {
                self.shared.engine.end_reclaim();
            }
            return Ok(());
        };
        self.renew_snapshot();
        if now_ms < self.reclaim_at_ms {
            return Ok(());
        }
        self.reclaim_at_ms = now_ms + RECLAIM_MS;
        self.behind_the_log(|engine| engine.reclaim(free))
    }

    /// Tables that were merged leave the disk when no snapshot reads them. While it has no room, no
    /// entry may come that would bring another snapshot.
    fn renew_snapshot(&mut self) {
        if !self.is_filling {
            let applied = self.requests.applied();
            let snapshot = self.shared.engine.snapshot();
            self.requests.on_applied(snapshot, applied);
        }
    }

    fn cut_log(&mut self, durable: fader_chain::EntryId) {
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

    pub(super) fn finish(&mut self) {
        self.dismiss(&Refusal::new(Kind::Again, Reason::Stopping));
        if self.shared.refusal().is_none() {
            if let Err(error) = self.log.mark() {
                self.on_log_error(&error);
            } else if let Err(error) = self.checkpoint() {
                self.on_engine_error(&error);
            }
        }
        self.shared.engine.close();
        self.publish();
        // What is in the log is durable now, and the session ends with this (COORD-5).
        if let Some(report) = self.replica.progress() {
            self.notify(MemberEvent::Report(report));
        }
    }

    pub(super) fn publish(&self) {
        self.shared.on_parked(self.requests.parked.len());
        self.tell_hand_over();
        let applied = self.requests.applied();
        let (log, log_disk_bytes) = (self.log.stats(), self.log.disk_bytes());
        self.shared
            .publish(log, log_disk_bytes, applied, &self.replica);
    }
}

/// Collections on their way to the mode `strong`. The chain refuses the last step until no member
/// can hold eventual writes of the collection; then it is asked again.
impl ChainThread {
    /// Takes the last step of those that are not being asked for, if it is time.
    pub(super) fn close_collections(&mut self) {
        if let Err(error) = self.find_closings() {
            return self.fail(HealthCause::damaged(&error));
        }
        let now = self.settings.clock.monotonic_ms();
        if self.draining_domains.known.is_empty() || now < self.draining_domains.due_ms {
            return;
        }
        self.draining_domains.due_ms = now + AGAIN_MS;
        if self.is_sweeper() {
            for draining in self.draining_domains.known.clone() {
                if !self.requests.is_closing(draining.collection) {
                    self.submit(Box::new(PendingRequest::Close(draining.collection)));
                }
            }
            self.flush();
        }
        if let Err(error) = self.tell_closings() {
            self.fail(HealthCause::damaged(&error));
        }
    }

    fn find_closings(&mut self) -> Result<(), ViewError> {
        if self.draining_domains.is_stale && !self.is_filling {
            self.draining_domains = DrainingDomains {
                is_stale: false,
                known: catalog::draining(&**self.requests.snapshot())?,
                due_ms: 0,
            };
            self.shared.blockers.set(Vec::new());
        }
        Ok(())
    }

    /// What each of them waits for.
    fn tell_closings(&self) -> Result<(), ViewError> {
        let committed = &**self.requests.snapshot();
        let waiting = self.draining_domains.known.iter().map(|draining| {
            let awaited = self.replica.awaited(draining.collection.0, committed);
            let (absent, silent) = awaited?;
            Ok(DrainBlocker {
                draining: draining.clone(),
                absent,
                silent,
            })
        });
        let waiting = waiting.collect::<Result<_, ViewError>>()?;
        self.shared.blockers.set(waiting);
        Ok(())
    }
}
