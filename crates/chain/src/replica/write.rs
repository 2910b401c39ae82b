//! Strong writes and conditional operations, in both wirings (docs/internals/protocol/chain.md,
//! sections 5,
//! 6, 8, 9).
//!
//! Invariants:
//! - (I4) an entry is forwarded (chain wiring) and confirmed after it is persisted; commits are
//!   counted from confirmations of this epoch.
//! - (I11) decision and append are one step. The answer waits for the entry's own commit, and for
//!   the engine to have it, so that the client can then read it.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use bytes::Bytes;

use super::{PossibleInputs, Replica, Reply, Step};
use crate::change::{Change, Mutation, apply};
use crate::config::NodeId;
use crate::dedup::{self, DedupCursor, DedupState};
use crate::entry::{Entry, RequestId};
use crate::guard::Guard;
use crate::host::{CorrelationId, Decided, Refusal};
use crate::log::Slot;
use crate::record::Record;
use crate::stamp::{EntryId, Stamp};
use crate::view::{View, ViewError};

mod commit;

/// What is known of a member to which entries are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Follower {
    /// Up to where entries were sent; `None` until it answered the handshake.
    pub(super) sent: Option<EntryId>,
    /// The commit id it was told last.
    pub(super) told: EntryId,
    /// When something was sent to it that it should react to.
    pub(super) said_at: Option<u64>,
}

/// Who waits for the commit of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Waiting {
    id: EntryId,
    token: CorrelationId,
    /// The name under which the result is kept, where the request found it decided already.
    repeats: Option<RequestId>,
}

/// The state of the strong path that does not outlive a crash.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Writes {
    pub(super) followers: BTreeMap<NodeId, Follower>,
    /// Confirmations of this epoch, by member.
    pub(super) confirmed: BTreeMap<NodeId, EntryId>,
    /// In the order of the ids.
    waiting: VecDeque<Waiting>,
    /// The id confirmed last in this epoch.
    pub(super) confirm_sent: Option<EntryId>,
    /// The commit id that the predecessor was told (chain wiring).
    pub(super) told_upstream: EntryId,
    /// Whether the head is to be told what is persisted here, as the chain waits for a member.
    pub(super) tells_head: bool,
    /// Whether the source is to be asked for what follows the last entry.
    pub(super) resend_due: bool,
    /// When the commit id last grew, or something last waited to be committed.
    pub(super) progress_at: u64,
}

impl Writes {
    /// See [`PossibleInputs`]: a flush leaves nothing unsaid, so what was said follows from what is
    /// here. A confirmation counts as far as it is above the commit id; for what a joining member
    /// is kept entries, wherever it is.
    pub(super) fn hash_future<H: Hasher>(
        &self,
        ahead: &PossibleInputs,
        commit: EntryId,
        joining: Option<NodeId>,
        state: &mut H,
    ) {
        for (node, follower) in &self.followers {
            (node, follower.sent).hash(state);
            let is_acquainted = follower.sent.is_none() && follower.said_at.is_some();
            is_acquainted.hash(state);
        }
        for (node, confirmed) in &self.confirmed {
            let confirmed = match joining == Some(*node) {
                true => *confirmed,
                false => commit.max(*confirmed),
            };
            if confirmed != commit {
                (node, confirmed).hash(state);
            }
        }
        (&self.waiting, self.resend_due, self.tells_head).hash(state);
        if ahead.time {
            (&self.followers, &self.confirmed, self.confirm_sent).hash(state);
            (self.told_upstream, self.progress_at).hash(state);
        }
    }

    pub(super) fn on_epoch(&mut self, same_epoch: bool) {
        let confirmed = std::mem::take(&mut self.confirmed);
        *self = Writes {
            waiting: std::mem::take(&mut self.waiting),
            ..Writes::default()
        };
        if !same_epoch {
            self.confirmed = confirmed;
        }
    }

    pub(super) fn send_handshakes(&mut self, nodes: impl Iterator<Item = NodeId>, told: EntryId) {
        let follower = Follower {
            sent: None,
            told,
            said_at: None,
        };
        self.followers = nodes.map(|node| (node, follower)).collect();
    }

    /// Followers that have not answered a handshake, and have not just been sent one.
    pub(super) fn handshakes_due(&mut self, now: u64) -> Vec<NodeId> {
        let due = |follower: &Follower| follower.sent.is_none() && follower.said_at.is_none();
        let mut nodes = Vec::new();
        for (node, follower) in &mut self.followers {
            if due(follower) {
                follower.said_at = Some(now);
                nodes.push(*node);
            }
        }
        nodes
    }

    pub(super) fn ask_again(&mut self) {
        self.resend_due = true;
        self.confirm_sent = None;
    }

    /// Tokens that wait for entries above `after`.
    pub(super) fn cut(&mut self, after: EntryId) -> Vec<CorrelationId> {
        let from = self.waiting.partition_point(|waiting| waiting.id <= after);
        self.waiting
            .drain(from..)
            .map(|waiting| waiting.token)
            .collect()
    }

    pub(super) fn drain(&mut self) -> impl Iterator<Item = CorrelationId> + use<> {
        std::mem::take(&mut self.waiting)
            .into_iter()
            .map(|waiting| waiting.token)
    }

    pub(super) fn is_waited_for(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether every follower has answered what was sent to it, and nothing is to be said.
    pub(super) fn are_said(&self) -> bool {
        let mut followers = self.followers.values();
        let is_said = |it: &Follower| it.sent.is_some() && it.said_at.is_none();
        followers.all(is_said) && !self.resend_due && !self.tells_head
    }

    /// What `node` has confirmed in this epoch.
    pub(super) fn confirmed_by(&self, node: NodeId) -> EntryId {
        self.confirmed.get(&node).copied().unwrap_or_default()
    }

    /// Answers `token` when `id` is committed and applied.
    fn wait(&mut self, id: EntryId, token: CorrelationId, repeats: Option<RequestId>) {
        let at = self.waiting.partition_point(|other| other.id <= id);
        self.waiting.insert(at, Waiting { id, token, repeats });
    }
}

impl Replica {
    /// WR-1, CO-1: looks the name up, decides on the whole log, appends.
    pub(super) fn on_submit(
        &mut self,
        token: CorrelationId,
        request: Option<RequestId>,
        barrier: Vec<Bytes>,
        step: &mut Step<'_>,
    ) -> Result<(), ViewError> {
        if let Some(refusal) = self.refuses_submit() {
            step.refuse(token, refusal);
            return Ok(());
        }
        let request = match request {
            Some(name) => Some(self.name_here(token, name, None, step)?),
            None => None,
        };
        if !barrier.is_empty() {
            return self.begin_barrier(token, request, barrier, step);
        }
        self.decide(token, request, step)
    }

    pub(super) fn refuses_submit(&self) -> Option<Refusal> {
        let uncommitted = self.log.last().index.saturating_sub(self.commit.index);
        if !self.is_ready() {
            Some(Refusal::NotServing)
        } else if !self.is_head() {
            Some(Refusal::NotHead)
        } else if self.settings.uncommitted_max as u64 <= uncommitted {
            Some(Refusal::Overloaded)
        } else {
            None
        }
    }

    /// Decides the request of `token` on the state after the whole log, and appends the entry.
    pub(super) fn decide(
        &mut self,
        token: CorrelationId,
        request: Option<RequestId>,
        step: &mut Step<'_>,
    ) -> Result<(), ViewError> {
        if let Some(name) = request
            && let Some(known) = self.known(&name, step.host.committed())?
        {
            self.answer_known(token, name, known, step);
            return Ok(());
        }
        let committed = step.host.committed();
        let logged = self.log.newest(committed);
        let state: &dyn View = match self.guards.has(Guard::DecideLogged) {
            true => &logged,
            false => committed,
        };
        let decided = match self.guards.has(Guard::OverlayApart) {
            true => step.host.decide(token, state)?,
            false => step.host.decide(token, &*self.tentative_view(state))?,
        };
        let is_refusal = decided.changes.is_empty();
        if is_refusal && !self.needs_entry(&decided, request) {
            self.answer_without_entry(token, decided.depends_on_state, step);
            return Ok(());
        }
        let id = self.append(
            Stamp::strong,
            request,
            decided.result,
            decided.changes,
            step,
        )?;
        let answers_early = !self.guards.has(Guard::AnswerWhenCommitted)
            || (is_refusal && !self.guards.has(Guard::NoWaitsCommit));
        if answers_early {
            step.reply(token, Reply::Decided { id: Some(id) });
        } else {
            self.writes.wait(id, token, None);
        }
        Ok(())
    }

    /// XO-2: what became of this name, in the whole log and in the results.
    pub(super) fn known(
        &self,
        name: &RequestId,
        committed: &dyn View,
    ) -> Result<Option<DedupState>, ViewError> {
        if !self.guards.has(Guard::Dedupe) {
            return Ok(None);
        }
        let counts = |id: EntryId| {
            let slot = self.log.get(id);
            let is_no = slot.is_some_and(|slot| slot.entry.changes.is_empty());
            (id <= self.commit || self.guards.has(Guard::DedupePending))
                && (!is_no || self.guards.has(Guard::DedupeNo))
        };
        if let Some(id) = self.log.named(name)
            && counts(id)
        {
            return Ok(Some(DedupState::Logged(id)));
        }
        dedup::known(name, committed)
    }

    fn answer_known(
        &mut self,
        token: CorrelationId,
        name: RequestId,
        known: DedupState,
        step: &mut Step<'_>,
    ) {
        match known {
            DedupState::Logged(id) => self.writes.wait(id, token, Some(name)),
            DedupState::Decided { id, result } => step.reply(token, Reply::Repeated { id, result }),
            DedupState::Settled { .. } => step.refuse(token, Refusal::NameUsed(name)),
            DedupState::TooOld => step.refuse(token, Refusal::TooOld(name)),
            DedupState::TooFar => step.refuse(token, Refusal::TooFar(name)),
        }
    }

    /// D12: an outcome that depends on the state is an entry. A chain of one may spare it for a
    /// request without a name. No other member can be handed what it rests on, and no retry can be
    /// told otherwise. So to wait until what was seen is committed is enough.
    fn needs_entry(&self, decided: &Decided, request: Option<RequestId>) -> bool {
        let is_spared = self.is_alone() && request.is_none();
        decided.depends_on_state && !is_spared && self.guards.has(Guard::NoLogged)
    }

    fn answer_without_entry(
        &mut self,
        token: CorrelationId,
        depends_on_state: bool,
        step: &mut Step<'_>,
    ) {
        let id = self.log.last();
        let waits = depends_on_state && self.guards.has(Guard::NoLogged);
        if !waits || id <= self.log.applied() {
            step.reply(token, Reply::Decided { id: None });
        } else {
            self.writes.wait(id, token, None);
        }
    }

    /// Numbers an entry, applies it to the newest state, hands it to the disk.
    pub(super) fn append(
        &mut self,
        stamp: impl FnOnce(EntryId) -> Stamp,
        request: Option<RequestId>,
        result: Bytes,
        changes: Vec<Change>,
        step: &mut Step<'_>,
    ) -> Result<EntryId, ViewError> {
        let prev = self.log.last();
        let id = EntryId::new(self.epoch(), prev.index + 1);
        let safe_point = self
            .configuration
            .as_ref()
            .map(|adopted| adopted.safe_point);
        let stamp = stamp(id);
        assert!(stamp.base <= id, "I14: {stamp:?} is beyond its entry {id}");
        let entry = Arc::new(Entry {
            id,
            prev,
            safe_point: safe_point.unwrap_or_default(),
            stamp,
            request,
            result,
            changes,
        });
        self.take(entry, step)?;
        Ok(id)
    }

    /// Takes an entry that follows the last one.
    fn take(&mut self, entry: Arc<Entry>, step: &mut Step<'_>) -> Result<(), ViewError> {
        let defers = self.is_behind_gap() && self.guards.has(Guard::FillDefers);
        let mutations = match defers {
            true => None,
            false => Some(Arc::new(self.compute(&entry, step)?)),
        };
        let lsn = self.persist(Record::Entry(entry.clone()), step);
        if self.commit == self.log.last() {
            self.writes.progress_at = step.now.monotonic;
        }
        self.log.push(Slot {
            entry,
            lsn,
            persisted_at: None,
            mutations,
        });
        Ok(())
    }

    /// What applying `entry` to the newest state does.
    pub(super) fn compute(
        &mut self,
        entry: &Entry,
        step: &Step<'_>,
    ) -> Result<Vec<Mutation>, ViewError> {
        self.log.compute(entry, step.host.committed(), compute)
    }

    /// WR-3: entries from this member's source, in sequence.
    pub(super) fn on_append(
        &mut self,
        from: NodeId,
        after: EntryId,
        entries: Vec<Arc<Entry>>,
        commit: EntryId,
        step: &mut Step<'_>,
    ) -> Result<(), ViewError> {
        let source = self
            .adopted()
            .and_then(|adopted| adopted.source(self.me.node));
        if source != Some(from) && self.guards.has(Guard::EpochCheck) {
            return Ok(());
        }
        if self.log.last() < after {
            self.writes.resend_due = true;
        }
        for entry in entries {
            if entry.id.index <= self.log.last().index {
                let ours = self.log.at_index(entry.id.index);
                assert!(
                    ours.is_none_or(|ours| ours == entry.id),
                    "I3: {} came where {ours:?} is",
                    entry.id
                );
                // The sender does not know how far this member is.
                self.writes.confirm_sent = None;
                self.writes.told_upstream = EntryId::ZERO;
                continue;
            }
            if entry.prev != self.log.last() {
                self.writes.resend_due = true;
                break;
            }
            self.take(entry, step)?;
        }
        self.learn(commit, step)
    }
}

/// What an entry does to the state `newest`, with what is kept of its name. `swept` is what was
/// learned of that state from the entries before: it makes no difference but of time.
///
/// # Errors
/// [`ViewError`] when the state cannot be read, or is not one that the entry could follow.
pub fn compute(
    entry: &Entry,
    newest: &dyn View,
    swept: &mut DedupCursor,
) -> Result<Vec<Mutation>, ViewError> {
    let under = entry.under();
    let mut out: Vec<Mutation> = Vec::with_capacity(entry.changes.len() + 2);
    for change in &entry.changes {
        let current = match change {
            Change::Put { .. } | Change::Remove { .. } => None,
            Change::Merge { key, .. }
            | Change::Collect { key, .. }
            | Change::SetMode { key, .. } => {
                let earlier = out.iter().rev().find(|mutation| mutation.key == *key);
                match earlier {
                    Some(mutation) => mutation.value.clone(),
                    None => newest.get(key)?,
                }
            }
        };
        apply(change, current, &under, &mut out)?;
    }
    if let Some(name) = entry.request {
        dedup::record(entry, name, newest, swept, &mut out)?;
    }
    Ok(out)
}
