//! What the strong path sends, and sends again
//! (docs/internals/protocol/chain.md, sections 5 and 6).
//!
//! Everything here is cumulative: one `Append`, `Confirm` or `Commit` says what several inputs gave
//! rise to, which is what makes batches of what is queued.

use std::sync::Arc;

use super::{Phase, Replica, Step};
use crate::config::{Configuration, NodeId, Wiring};
use crate::entry::Entry;
use crate::guard::Guard;
use crate::message::Message;
use crate::stamp::EntryId;

impl Replica {
    /// The follower has everything up to `after`.
    pub(super) fn on_resend(&mut self, from: NodeId, after: EntryId) {
        let is_known = self.log.holds(after);
        if let Some(follower) = self.writes.followers.get_mut(&from) {
            follower.said_at = None;
            follower.told = EntryId::ZERO;
            // What is no longer here the follower will be greeted and filled with.
            follower.sent = is_known.then_some(after);
        }
    }

    /// Sends entries, confirmations, and what is committed.
    pub(super) fn flush_writes(&mut self, step: &mut Step<'_>) {
        let adopted = self.configuration.clone().expect("a ready member has one");
        if std::mem::take(&mut self.writes.resend_due)
            && let Some(source) = adopted.source(self.me.node)
        {
            let after = self.log.last();
            self.send(source, Message::Resend { after }, step);
        }
        self.flush_entries(step);
        self.flush_confirm(&adopted, step);
        if adopted.wiring == Wiring::Chain && self.writes.told_upstream < self.commit {
            self.writes.told_upstream = self.commit;
            if let Some(before) = adopted.predecessor(self.me.node) {
                self.send(before, Message::Commit { id: self.commit }, step);
            }
        }
    }

    /// WR-2: the head of a star sends at once; WC-2: a member of a chain when it has persisted.
    fn flush_entries(&mut self, step: &mut Step<'_>) {
        let is_star = self
            .configuration
            .as_ref()
            .is_some_and(|c| c.wiring == Wiring::Star);
        let last = match is_star || !self.guards.has(Guard::PersistFirst) {
            true => self.log.last(),
            false => self.persisted,
        };
        let mut sends = Vec::new();
        for (node, follower) in &mut self.writes.followers {
            let Some(mut sent) = follower.sent else {
                continue;
            };
            while sent < last {
                let entries = self
                    .log
                    .above(sent)
                    .take_while(|slot| slot.entry.id <= last);
                let mut bytes = 0;
                let has_room = |entry: &Arc<Entry>| {
                    let before = bytes;
                    bytes += entry.content_bytes();
                    before < self.settings.append_bytes_max
                };
                let entries: Vec<_> = entries
                    .take(self.settings.append_entries_max)
                    .map(|slot| slot.entry.clone())
                    .take_while(has_room)
                    .collect();
                let (after, commit) = (sent, self.commit);
                sent = entries.last().map_or(last, |entry| entry.id);
                follower.said_at.get_or_insert(step.now.monotonic);
                follower.told = commit;
                sends.push((
                    *node,
                    Message::Append {
                        after,
                        entries,
                        commit,
                    },
                ));
            }
            follower.sent = Some(sent);
            if follower.told < self.commit {
                follower.told = self.commit;
                sends.push((*node, Message::Commit { id: self.commit }));
            }
        }
        for (node, message) in sends {
            self.send(node, message, step);
        }
    }

    /// Star: every member confirms to the head. Chain: the syncing member to the tail.
    fn flush_confirm(&mut self, adopted: &Configuration, step: &mut Step<'_>) {
        let is_told = adopted.wiring == Wiring::Star || self.is_head();
        if std::mem::take(&mut self.writes.tells_head) && !is_told {
            // SL-1: commits tell the head that all have confirmed, and this who has not.
            let id = self.persisted;
            self.send(adopted.head(), Message::Confirm { id }, step);
        }
        let to = match adopted.wiring {
            Wiring::Star => Some(adopted.head()),
            Wiring::Chain => (adopted.syncing() == Some(self.me.node)).then(|| adopted.tail()),
        };
        let Some(to) = to.filter(|to| *to != self.me.node) else {
            return;
        };
        let id = match self.guards.has(Guard::PersistFirst) {
            true => self.persisted,
            false => self.log.last(),
        };
        if self.writes.confirm_sent.is_none_or(|sent| sent < id) {
            self.writes.confirm_sent = Some(id);
            self.send(to, Message::Confirm { id }, step);
        }
    }

    /// Says again what may have been lost: handshakes, entries, confirmations, commits.
    pub(super) fn retry_writes(&mut self, step: &mut Step<'_>) {
        let now = step.now.monotonic;
        let is_late = |at: u64| at + self.settings.retry_ms <= now;
        let joining = self.configuration.as_ref().and_then(|it| it.syncing());
        for (node, follower) in &mut self.writes.followers {
            if !follower.said_at.is_some_and(is_late) {
                continue;
            }
            follower.said_at = None;
            follower.told = EntryId::ZERO;
            // A joining member may lack what was committed without it: what it confirmed counts.
            // One that serves has it, and of a chain it confirms to the head only now and then.
            let confirmed = self.writes.confirmed.get(node).copied();
            let from = match joining == Some(*node) {
                true => confirmed.unwrap_or(self.commit),
                false => confirmed.unwrap_or_default().max(self.commit),
            };
            if follower.sent.is_some_and(|sent| from < sent) {
                follower.sent = Some(from.max(self.log.base()));
            }
        }
        let is_waiting = self.phase == Phase::Ready && self.commit < self.log.last();
        if is_waiting && is_late(self.writes.progress_at) {
            self.writes.progress_at = now;
            self.writes.confirm_sent = None;
            self.writes.told_upstream = EntryId::ZERO;
            self.writes.resend_due = true;
            self.writes.tells_head = true;
            // Chain wiring: commits come from the successor, who says them again when it is sent
            // again what it has.
            for follower in self.writes.followers.values_mut() {
                if follower.sent.is_some() {
                    follower.said_at.get_or_insert(now);
                }
            }
        }
    }
}
