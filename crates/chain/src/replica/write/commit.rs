//! The commit point (docs/internals/protocol/chain.md, sections 5, 6). It counts confirmations.
//! Committed entries go to the engine, and the writes that wait for it are answered.

use super::Waiting;
use crate::config::{NodeId, Wiring};
use crate::dedup::{self, DedupState};
use crate::guard::Guard;
use crate::host::{CorrelationId, Refusal};
use crate::replica::{Effect, Replica, Reply, Step};
use crate::stamp::EntryId;
use crate::view::ViewError;

impl Replica {
    /// WR-6: a ready member takes over what the commit point recorded.
    pub(in crate::replica) fn learn(
        &mut self,
        commit: EntryId,
        step: &mut Step<'_>,
    ) -> Result<(), ViewError> {
        if self.is_commit_point() {
            return Ok(());
        }
        self.set_commit(commit.min(self.log.last()), step)
    }

    /// WR-4, WC-4: a member has persisted everything up to `id`, in this epoch.
    pub(in crate::replica) fn on_confirm(
        &mut self,
        from: NodeId,
        id: EntryId,
        step: &mut Step<'_>,
    ) -> Result<(), ViewError> {
        let is_ours = self.log.epoch_history().contains(id) || id <= self.commit;
        if !is_ours && self.guards.has(Guard::ConfirmId) {
            return Ok(());
        }
        let confirmed = self.writes.confirmed.entry(from).or_default();
        if *confirmed < id {
            *confirmed = id;
            self.note_delay(from, id, step.now.monotonic);
        }
        self.tick_heard(step);
        // One that has not answered its handshake is still to be greeted again, after a while.
        if let Some(follower) = self.writes.followers.get_mut(&from)
            && let Some(sent) = follower.sent
        {
            // What was sent behind it may be lost, and then no other member asks for it.
            follower.said_at = (id < sent).then_some(step.now.monotonic);
        }
        self.advance_commit(step)
    }

    /// WR-5, WC-5: the commit point counts who has persisted what.
    pub(in crate::replica) fn advance_commit(
        &mut self,
        step: &mut Step<'_>,
    ) -> Result<(), ViewError> {
        if !self.is_ready() || !self.is_commit_point() {
            return Ok(());
        }
        let adopted = self.configuration.as_ref().expect("a ready member has one");
        let confirmed = |node: NodeId| match node == self.me.node {
            true => self.persisted,
            false => self.writes.confirmed_by(node),
        };
        let counts = |member: &&crate::config::ChainMember| {
            let is_needed =
                adopted.wiring == Wiring::Star || adopted.syncing() == Some(member.node);
            let is_waited_for = member.role == crate::config::Role::Serving
                || self.guards.has(Guard::SyncingConfirms);
            member.node == self.me.node || (is_needed && is_waited_for)
        };
        let members = adopted.members.iter().filter(counts);
        let commit = members.map(|member| confirmed(member.node)).min();
        self.set_commit(commit.unwrap_or_default(), step)
    }

    fn set_commit(&mut self, commit: EntryId, step: &mut Step<'_>) -> Result<(), ViewError> {
        if commit <= self.commit {
            return Ok(());
        }
        self.commit = commit;
        self.writes.progress_at = step.now.monotonic;
        self.apply_committed(step);
        self.retry_reads(step)
    }

    /// Hands committed entries to the engine; above an open gap they wait (D9). A joining member
    /// that is sent what others had committed waits until it has them too. Its engine is not to be
    /// ahead of its records, nor its log released before they are durable.
    pub(in crate::replica) fn apply_committed(&mut self, step: &mut Step<'_>) {
        if self.joining.is_open() && self.guards.has(Guard::FillDefers) {
            return;
        }
        let upto = self.commit.min(self.persisted);
        let committed = self.log.above(self.applying);
        for slot in committed.take_while(|slot| slot.entry.id <= upto) {
            // JN-5: what is held back comes later.
            let Some(mutations) = slot.mutations.clone() else {
                return;
            };
            let id = slot.entry.id;
            step.effects.push(Effect::Apply { id, mutations });
            self.applying = id;
        }
    }

    /// The engine has everything up to `id`.
    pub(in crate::replica) fn on_applied(
        &mut self,
        id: EntryId,
        step: &mut Step<'_>,
    ) -> Result<(), ViewError> {
        if self.joining.is_open() {
            // Of the state that the engine had before the gap was opened.
            return Ok(());
        }
        let before = self.log.applied();
        self.on_applied_eventual(before, id, step)?;
        self.log.on_applied(id);
        while let Some(waiting) = self.writes.waiting.front()
            && waiting.id <= id
        {
            let Waiting { id, token, repeats } = *waiting;
            self.writes.waiting.pop_front();
            let reply = match repeats {
                None => Reply::Decided { id: Some(id) },
                Some(name) => match dedup::known(&name, step.host.committed())? {
                    Some(DedupState::Decided { id, result }) => Reply::Repeated { id, result },
                    Some(DedupState::Settled { .. }) => Reply::Refused(Refusal::NameUsed(name)),
                    _ => Reply::Unknown,
                },
            };
            step.reply(token, reply);
        }
        self.release();
        self.on_applied_reads(step)
    }

    /// LT-1, and what a joining member was told that it would be sent stays until it has it. Those
    /// that serve have everything that is committed.
    fn release(&mut self) {
        let keep = match self.is_alone() {
            true => 0,
            false => self.settings.window_entries,
        };
        let joining = self.adopted().and_then(|adopted| {
            let node = adopted.syncing()?;
            (adopted.source(node) == Some(self.me.node)).then_some(node)
        });
        let applied = self.log.applied();
        let held = joining.map(|node| self.writes.confirmed_by(node));
        self.log
            .release(held.map_or(applied, |held| held.min(applied)), keep);
    }

    pub(in crate::replica) fn abandon_write(&mut self, token: CorrelationId) {
        self.writes.waiting.retain(|waiting| waiting.token != token);
    }
}
