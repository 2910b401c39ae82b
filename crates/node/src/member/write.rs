//! Eventual operations in the shell: their way through the chain thread, and what a client is told.
//! Reads ask for what is shown (`source`); a write goes this way:
//!
//! ```text
//!  Stage::Strong ── decide: its level is eventual ──┐
//!                                                   ▼
//!  Stage::Eventual ──── Write ──▶ Held ──▶ told that it is tentative, or detached
//!                                  │ its outcome was asked for
//!  Stage::Held ────── Outcome ──▶ Outcomes ──▶ told how it ended
//! ```
//!
//! A write that does not get its W waits as long as its asker waits for it. Then it is forgotten
//! here, and the operation stays (EV-4).

use bytes::Bytes;
use fader_chain::{CorrelationId, EntryId, Input, Outcome, QuorumRead, Reply, RequestId, Scope};
use fader_services::service::{Sight, Trouble};
use fader_services::{Call, ViewError, blocks};

use super::context::{collection_of, name_of};
use super::pending::ask::Ask;
use super::pending::{PendingRequest, Stage};
use super::read_source::{Item, ReadSource};
use super::refusal::{Kind, Refusal};
use super::thread::ChainThread;

impl ChainThread {
    /// W members hold an eventual write.
    pub(super) fn on_held(
        &mut self,
        token: CorrelationId,
        held: &fader_chain::WriteAck,
        reply: &Reply,
    ) {
        let work = self.requests.take(token);
        // A client that asks after the reply finds it.
        self.shared
            .on_unsettled(self.replica.eventual_counts().held);
        match (self.shared.failure(), self.follow(&work, reply)) {
            (Some(cause), _) => work.fail(Refusal::of_health(Kind::Unknown, &cause)),
            (None, Ok(update)) => self.turned.extend(work.held(held, update)),
            (None, Err(error)) => work.fail(Refusal::of_store(Kind::Unknown, error.to_string())),
        }
    }

    /// An eventual write is settled, and its asker waits to hear how.
    pub(super) fn on_outcomes(
        &mut self,
        token: CorrelationId,
        settled: &[(EntryId, Outcome)],
        reply: &Reply,
    ) {
        let work = self.requests.take(token);
        match self.follow(&work, reply) {
            Ok(update) => work.settled(settled, update),
            Err(error) => work.fail(Refusal::of_store(Kind::Unknown, error.to_string())),
        }
    }

    /// Decides after a barrier on the register of the write (BR-1).
    pub(super) fn gather(&self, name: Option<RequestId>, work: &PendingRequest) -> Ask {
        let keys = match work {
            PendingRequest::Write { call, .. } => self.item(call),
            _ => Ok(None),
        };
        // What cannot be read is said by who decides.
        Ask::Decide(name, keys.ok().flatten().unwrap_or_default())
    }

    /// Whether this member's log, with all that is not committed, turns an eventual write away
    /// (SE-4). Then its answer is that.
    pub(super) fn turns_away(&self, work: &mut PendingRequest) -> bool {
        let PendingRequest::Write { call, outcome, .. } = work else {
            return false;
        };
        let Some(attempt) = call.request.attempt() else {
            return false;
        };
        let last = self.replica.last();
        let newest = self.replica.view_at(last, &**self.requests.snapshot());
        // What cannot be read, and a bucket that is not there, is said by who accepts it.
        let Ok(Some(bucket)) = collection_of(&*newest, call) else {
            return false;
        };
        let refused = blocks::check_attempt(&*newest, bucket.collection, attempt).err();
        let is_refused = refused.is_some();
        if let Some(refused) = refused {
            *outcome = Some(Err(refused));
        }
        is_refused
    }

    /// Begins a read that takes note of what is not settled. Whether there is no such collection,
    /// only the head can say.
    pub(super) fn read_tentative(&mut self, work: Box<PendingRequest>, level: fader_chain::Level) {
        let key = match &*work {
            PendingRequest::Read { call, .. } => self.item(call),
            _ => Ok(None),
        };
        let is_last = self.replica.is_head() && !self.lags(&work);
        let scope = match (key, work.is_query()) {
            // Of no collection: all that any member holds.
            (Ok(None), _) if is_of_none(&work) => Ok(Scope::All),
            (Ok(None), _) if !is_last => return work.refuse(fader_chain::Refusal::NotServing),
            (Ok(None), _) => {
                let at = self.requests.applied();
                let source = ReadSource::Snapshot(self.requests.snapshot().clone());
                return self.tell(work, &Reply::Show { at }, source);
            }
            (Ok(Some(_)), true) => Ok(Scope::All),
            (Ok(Some(keys)), false) => Ok(Scope::Keys(keys)),
            (Err(error), _) => Err(error),
        };
        let asked = scope.and_then(|scope| Ok((scope, self.awaited(&work)?)));
        self.ask_replica(work, level, asked);
    }

    /// The register that a request is about, if it is one; nothing without a collection.
    fn item(&self, call: &Call) -> Result<Option<Vec<Bytes>>, ViewError> {
        let collection = self.collection(call)?;
        let sight = collection.map(|collection| call.request.sight(collection));
        Ok(sight.map(|sight| match sight {
            Sight::Register(key) => vec![key],
            Sight::Registers(..) | Sight::Rows(_) => Vec::new(),
        }))
    }

    /// Answers an eventual read with what this member shows.
    pub(super) fn show_tentative(&mut self, token: CorrelationId, reply: &Reply) {
        let work = self.requests.take(token);
        let source = match &*work {
            PendingRequest::Read { call, .. } => self.tentative(call),
            _ => return work.refuse(fader_chain::Refusal::NotServing),
        };
        match source {
            Ok(source) => self.tell(work, reply, source),
            Err(error) => {
                let update = self.follow(&work, reply).ok().flatten();
                work.show_trouble(Trouble::Unreadable(error), update);
            }
        }
    }

    fn tentative(&self, call: &Call) -> Result<ReadSource, ViewError> {
        let snapshot = self.requests.snapshot().clone();
        match self.collection(call)? {
            Some(collection) => ReadSource::eventual(snapshot, collection, call, |start, end| {
                self.replica
                    .operations_within(start, end)
                    .cloned()
                    .collect()
            }),
            None => Ok(ReadSource::Snapshot(snapshot)),
        }
    }

    /// Answers an eventual read with what several members show.
    pub(super) fn show_register(
        &mut self,
        token: CorrelationId,
        shown: &QuorumRead,
        reply: &Reply,
    ) {
        let item = Item {
            committed: shown.committed.clone(),
            shown: shown.register.clone(),
        };
        let snapshot = self.requests.snapshot().clone();
        let work = self.requests.take(token);
        self.tell(work, reply, ReadSource::Item(snapshot, Box::new(item)));
    }

    /// Nothing was done. Where a collection is not known, another member may know it (7.4).
    pub(super) fn refuse(&mut self, token: CorrelationId, refusal: fader_chain::Refusal) {
        let work = self.requests.take(token);
        let is_elsewhere = refusal == fader_chain::Refusal::Denied
            && work.lacks_collection()
            && !self.replica.is_head();
        work.refuse(match is_elsewhere {
            true => fader_chain::Refusal::NotServing,
            false => refusal,
        });
    }

    /// Forgets what no asker waits for any more, and what is waited for too long.
    pub(super) fn give_up(&mut self) {
        for token in self.requests.overdue() {
            let so_far = self.replica.held_so_far(token);
            let work = self.requests.take(token);
            let held = match &*work {
                PendingRequest::Write {
                    stage: Stage::Held(_, held),
                    ..
                } => Some(fader_chain::WriteAck::clone(held)),
                _ => so_far,
            };
            let update = held.map(|held| self.follow(&work, &Reply::Held(held)));
            // What cannot be read is not known: the session stays where it was.
            work.miss(update.and_then(|update| update.ok().flatten()));
            self.step(Input::Abandon(token));
        }
        for token in self.requests.given_up() {
            self.to_show.retain(|(_, other)| *other != token);
            drop(self.requests.take(token));
            self.step(Input::Abandon(token));
        }
    }
}

/// Whether a read names no collection.
fn is_of_none(work: &PendingRequest) -> bool {
    matches!(work, PendingRequest::Read { call, .. } if name_of(call).is_none())
}
