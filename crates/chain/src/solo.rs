//! One replica of one chain, as a pure state machine. Today a chain has one member, which is head,
//! tail and commit point at once; the inputs and effects are those of a longer chain.
//!
//! ```text
//!   Submit ──▶ Persist ──▶ (disk) ──▶ Persisted ──▶ Commit, then Reply
//!   Refused ─────────────────────────▶ with the commit of all it was decided on: Reply
//! ```
//!
//! The shell's contract: step, perform the effects in order, step again. Every token that goes in
//! comes out once, as `Reply` or `Fail`.
//!
//! Invariants (numbers of docs/protocol; asserted here):
//! - I1 an epoch is persisted before an entry is numbered in it.
//! - I3 an entry's `prev` is the entry numbered before it; `(epoch, index)` is never used twice, so
//!   a failed persist ends the epoch.
//! - I4 an entry is committed after every member of the write path persisted it.
//! - I5 the committed id never falls.
//! - I11 nothing is answered before all that it was decided on is committed.
//!
//! Deliberately absent until a chain has more members: forwarding, confirmations, leases, deduping
//! by request id.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::change::Change;
use crate::entry::{Entry, RequestId};
use crate::host::Token;
use crate::stamp::{EntryId, Stamp};

/// What happens to a replica.
#[derive(Debug)]
pub enum Input {
    /// The log was read: the greatest epoch adopted, and the last entry. Once, and first.
    Recovered {
        /// The greatest epoch that the log knows.
        epoch: u64,
        /// The log's last entry: this member is the whole write path, so all of it is committed.
        last: EntryId,
    },
    /// The epoch asked for by `PersistEpoch` is durable.
    EpochPersisted(u64),
    /// A decision that changes something.
    Submit {
        /// Who waits.
        token: Token,
        /// The request's name, where it has one.
        request: Option<RequestId>,
        /// The reply to keep for a retry.
        result: Bytes,
        /// The changes.
        changes: Vec<Change>,
    },
    /// A decision that changes nothing: it rests on the newest state, so it waits for that state.
    Refused {
        /// Who waits.
        token: Token,
    },
    /// Every entry up to this one is durable here.
    Persisted(EntryId),
    /// Nothing handed out by `Persist` and not yet `Persisted` is sure to be durable, or not to be.
    PersistFailed,
    /// The disk takes writes again.
    Resumed,
}

/// What the shell must do, in this order.
#[derive(Debug, PartialEq, Eq)]
pub enum Effect {
    /// Make durable that this epoch is adopted; entries of it follow the named one.
    PersistEpoch {
        /// The epoch.
        epoch: u64,
        /// The last entry before it.
        prev: EntryId,
    },
    /// Append the entry to the log and make it durable.
    Persist(Entry),
    /// Apply every entry up to this one.
    Commit(EntryId),
    /// Answer as decided.
    Reply(Token),
    /// Answer that the outcome is unknown.
    Fail(Token),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Before `Recovered`.
    New,
    /// `PersistEpoch` is out.
    Adopting,
    /// Entries are taken.
    Ready,
    /// A persist failed: no entry is taken until `Resumed`.
    Halted,
}

/// One replica.
#[derive(Debug)]
pub struct Replica {
    phase: Phase,
    /// The epoch adopted, or being adopted.
    epoch: u64,
    /// The last entry numbered.
    last: EntryId,
    committed: EntryId,
    /// Who waits, each for the commit of an entry; ids never fall from front to back.
    waiting: VecDeque<(EntryId, Token)>,
}

impl Default for Replica {
    fn default() -> Self {
        Self::new()
    }
}

impl Replica {
    /// A replica that waits to be told what its log holds.
    pub fn new() -> Self {
        Replica {
            phase: Phase::New,
            epoch: 0,
            last: EntryId::ZERO,
            committed: EntryId::ZERO,
            waiting: VecDeque::new(),
        }
    }

    /// The epoch in force, or being adopted.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The last entry committed.
    pub fn committed(&self) -> EntryId {
        self.committed
    }

    /// Takes one input; appends what is to be done to `effects`.
    pub fn step(&mut self, input: Input, effects: &mut Vec<Effect>) {
        match input {
            Input::Recovered { epoch, last } => self.on_recovered(epoch, last, effects),
            Input::EpochPersisted(epoch) => self.on_epoch_persisted(epoch),
            Input::Submit {
                token,
                request,
                result,
                changes,
            } => {
                self.on_submit(token, request, result, changes, effects);
            }
            Input::Refused { token } => self.on_refused(token, effects),
            Input::Persisted(id) => self.on_persisted(id, effects),
            Input::PersistFailed => self.on_persist_failed(effects),
            Input::Resumed => self.on_resumed(effects),
        }
        self.assert_invariants();
    }

    fn on_recovered(&mut self, epoch: u64, last: EntryId, effects: &mut Vec<Effect>) {
        assert_eq!(self.phase, Phase::New, "a log is recovered once");
        assert!(
            last.epoch <= epoch,
            "I1: entry {last} is of an epoch never adopted"
        );
        (self.epoch, self.last, self.committed) = (epoch, last, last);
        self.adopt_next(effects);
    }

    fn adopt_next(&mut self, effects: &mut Vec<Effect>) {
        self.phase = Phase::Adopting;
        self.epoch += 1;
        effects.push(Effect::PersistEpoch {
            epoch: self.epoch,
            prev: self.last,
        });
    }

    fn on_epoch_persisted(&mut self, epoch: u64) {
        assert_eq!((self.phase, self.epoch), (Phase::Adopting, epoch), "I1");
        self.phase = Phase::Ready;
    }

    fn on_submit(
        &mut self,
        token: Token,
        request: Option<RequestId>,
        result: Bytes,
        changes: Vec<Change>,
        effects: &mut Vec<Effect>,
    ) {
        if self.phase != Phase::Ready {
            effects.push(Effect::Fail(token));
            return;
        }
        let prev = self.last;
        let id = EntryId::new(self.epoch, prev.index + 1);
        self.last = id;
        self.waiting.push_back((id, token));
        let stamp = Stamp::strong(id);
        effects.push(Effect::Persist(Entry {
            id,
            prev,
            floor: EntryId::ZERO,
            stamp,
            request,
            result,
            changes,
        }));
    }

    fn on_refused(&mut self, token: Token, effects: &mut Vec<Effect>) {
        if self.last == self.committed {
            effects.push(Effect::Reply(token));
        } else {
            self.waiting.push_back((self.last, token));
        }
    }

    fn on_persisted(&mut self, id: EntryId, effects: &mut Vec<Effect>) {
        assert!(id <= self.last, "I4: {id} was never handed out");
        assert!(self.committed <= id, "I5: {id} is below what is committed");
        self.committed = id;
        effects.push(Effect::Commit(id));
        while let Some(&(awaited, token)) = self.waiting.front()
            && awaited <= id
        {
            self.waiting.pop_front();
            effects.push(Effect::Reply(token));
        }
    }

    fn on_persist_failed(&mut self, effects: &mut Vec<Effect>) {
        self.phase = Phase::Halted;
        self.last = self.committed;
        effects.extend(self.waiting.drain(..).map(|(_, token)| Effect::Fail(token)));
    }

    fn on_resumed(&mut self, effects: &mut Vec<Effect>) {
        if self.phase == Phase::Halted {
            self.adopt_next(effects);
        }
    }

    fn assert_invariants(&self) {
        assert!(
            self.committed <= self.last,
            "I4: committed {} beyond the log",
            self.committed
        );
        assert!(
            self.last.epoch <= self.epoch,
            "I1: {} is beyond epoch {}",
            self.last,
            self.epoch
        );
        let nothing_waits = self.waiting.is_empty();
        assert!(
            nothing_waits || self.committed < self.last,
            "I11: someone waits for nothing"
        );
        assert!(
            nothing_waits || self.phase == Phase::Ready,
            "I11: someone waits for ever"
        );
    }
}

#[cfg(test)]
mod tests;
