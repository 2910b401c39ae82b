//! The state of a segment: what became of each of its messages. Bytes, and the pure decision what
//! a write of it says (rules BQUEUE-3, BQUEUE-6, BQUEUE-7, BQUEUE-8).
//!
//! Invariants:
//! - STATE-1 a message that was removed stays removed.
//! - STATE-2 a claim's id is never used again.
//! - STATE-3 only the newest claim of a message may remove or hide it; a peek may remove it.

use std::time::Duration;

use bytes::Bytes;
use fader_chain::{DecodeError, put_varint};

use super::frame::{Kind, open, seal};
use super::guard::{Guard, Guards};
use super::names::Holding;
use super::time::{Hidden, Landed, Moment};
use crate::error::{Error, ErrorKind, Result};

/// What became of one message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) is_removed: bool,
    /// The newest claim's id; 0 if there was none.
    pub(super) claim: u128,
    pub(super) hidden: Hidden,
    /// Claims so far.
    pub(super) receives: u64,
}

/// What became of all messages of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct State {
    /// A random number of the write, so that no two states have equal bytes: an ETag may be a
    /// digest of them.
    pub(super) write: u64,
    pub(super) entries: Vec<Entry>,
}

impl State {
    /// The state of a segment that nothing has happened to.
    pub(super) fn new(count: usize) -> Self {
        State {
            write: 0,
            entries: vec![Entry::default(); count],
        }
    }

    pub(super) fn encode(&self) -> Bytes {
        let mut out = self.write.to_be_bytes().to_vec();
        put_varint(&mut out, self.entries.len() as u64);
        for entry in &self.entries {
            out.push(u8::from(entry.is_removed));
            if entry.is_removed {
                continue;
            }
            out.extend_from_slice(&entry.claim.to_be_bytes());
            put_varint(&mut out, entry.receives);
            entry.hidden.encode(&mut out);
        }
        seal(Kind::State, &out)
    }

    /// Reads what `encode` wrote, for a segment of `count` messages.
    ///
    /// # Errors
    /// `Malformed`.
    pub(super) fn decode(key: &str, bytes: &Bytes, count: usize) -> Result<Self> {
        open(key, Kind::State, bytes, |reader| {
            let write = reader.u64()?;
            if reader.count()? != count {
                return Err(DecodeError::new("another count than its segment's"));
            }
            let mut entries = Vec::with_capacity(count);
            for _ in 0..count {
                let is_removed = match reader.byte()? {
                    0 => false,
                    1 => true,
                    _ => return Err(DecodeError::new("an unknown mark of a message")),
                };
                if is_removed {
                    entries.push(Entry {
                        is_removed,
                        ..Entry::default()
                    });
                    continue;
                }
                entries.push(Entry {
                    is_removed,
                    claim: reader.u128()?,
                    receives: reader.varint()?,
                    hidden: Hidden::decode(reader)?,
                });
            }
            Ok(State { write, entries })
        })
    }
}

/// A state as a process knows it.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) state: State,
    pub(super) landed: Landed,
    /// Whether there is a state object.
    pub(super) exists: bool,
}

impl Seen {
    /// No state object.
    pub(super) fn absent(count: usize) -> Self {
        Seen {
            state: State::new(count),
            landed: Landed::Answered(Duration::ZERO),
            exists: false,
        }
    }

    /// The messages that can be received, in order.
    pub(super) fn visible(&self, at: &Moment, guards: &Guards) -> Vec<usize> {
        let entries = self.state.entries.iter().enumerate();
        let visible = entries.filter(|(_, entry)| {
            !entry.is_removed && !entry.hidden.is_hidden(self.landed, at, guards)
        });
        visible.map(|(index, _)| index).collect()
    }
}

/// What is asked of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    /// Some messages.
    Claim {
        /// A number that was never used.
        id: u128,
        /// At most so many.
        max: usize,
        /// Hidden for so long.
        visibility: Duration,
    },
    /// A message is to be removed.
    Remove { index: usize, holding: Holding },
    /// A message is to be hidden for this long from now on.
    Hide {
        index: usize,
        claim: u128,
        time: Duration,
    },
}

/// What becomes of an operation.
#[derive(Debug)]
pub(super) enum Answer {
    /// It is granted when the write of the plan landed; a claim gets these messages, each with the
    /// number of its receives.
    OnWrite(Vec<(usize, u64)>),
    /// It is granted without a write.
    Done,
    /// It is refused.
    Refused(Error),
    /// No message is visible now.
    Nothing,
}

/// What happens to a segment next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// Nothing is written.
    Nothing,
    /// This state.
    Write(State),
    /// All messages are removed: the segment is deleted, then its state.
    Delete,
}

/// A decision about operations: an answer for each, and the act.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) answers: Vec<Answer>,
    pub(super) act: Act,
}

/// Decides what one write makes of operations. `is_reread` says that the state was read after a
/// write was refused.
pub(super) fn plan(
    seen: &Seen,
    operations: &[Operation],
    at: &Moment,
    is_reread: bool,
    guards: &Guards,
) -> Plan {
    let mut next = seen.state.clone();
    for entry in &mut next.entries {
        entry.hidden = entry.hidden.carried(seen.landed, at.now, guards);
    }
    let mut shown = vec![false; next.entries.len()];
    for index in seen.visible(at, guards) {
        shown[index] = true;
    }
    let mut drafts = Drafts {
        seen,
        next,
        shown,
        at,
        is_reread,
        guards,
    };
    // Removes and hides first: what they show can be claimed by the same write.
    let mut answers: Vec<Option<Answer>> = operations
        .iter()
        .map(|operation| match operation {
            Operation::Claim { .. } => None,
            Operation::Remove { index, holding } => Some(drafts.remove(*index, *holding)),
            Operation::Hide { index, claim, time } => Some(drafts.hide(*index, *claim, *time)),
        })
        .collect();
    let is_last = drafts.next.entries.iter().all(|entry| entry.is_removed);
    let removes = operations
        .iter()
        .any(|operation| matches!(operation, Operation::Remove { .. }));
    let is_last = is_last || (!guards.has(Guard::LastOfAll) && removes && drafts.none_held());
    for (operation, answer) in operations.iter().zip(&mut answers) {
        if let Operation::Claim {
            id,
            max,
            visibility,
        } = operation
        {
            *answer = Some(match is_last {
                true => Answer::Nothing,
                false => drafts.claim(*id, *max, *visibility),
            });
        }
    }
    let answers: Vec<Answer> = answers
        .into_iter()
        .map(|answer| answer.unwrap_or(Answer::Nothing))
        .collect();
    let writes = answers
        .iter()
        .any(|answer| matches!(answer, Answer::OnWrite(_)));
    let act = match (writes, is_last) {
        (_, true) => Act::Delete,
        (true, false) => Act::Write(drafts.next),
        (false, false) => Act::Nothing,
    };
    Plan { answers, act }
}

struct Drafts<'a> {
    seen: &'a Seen,
    next: State,
    /// Whether each message can be claimed.
    shown: Vec<bool>,
    at: &'a Moment,
    is_reread: bool,
    guards: &'a Guards,
}

impl Drafts<'_> {
    fn remove(&mut self, index: usize, holding: Holding) -> Answer {
        let expects_state = match holding {
            Holding::Claim(_) => true,
            Holding::Peek { had_state } => had_state,
        };
        let entry = &self.next.entries[index];
        // A state goes after its segment, so a message whose state is gone is gone.
        if entry.is_removed || (expects_state && !self.seen.exists) {
            return Answer::Done;
        }
        if let Holding::Claim(id) = holding
            && self.checks_newest()
            && entry.claim != id
        {
            let context = "the message was received again: this receipt is an old one";
            return Answer::Refused(Error::new(ErrorKind::Invalid, context));
        }
        self.next.entries[index] = Entry {
            is_removed: true,
            ..Entry::default()
        };
        self.shown[index] = false;
        Answer::OnWrite(Vec::new())
    }

    fn checks_newest(&self) -> bool {
        self.guards.has(Guard::NewestClaim)
            && (self.is_reread || self.guards.has(Guard::NewestAtEveryWrite))
    }

    fn hide(&mut self, index: usize, claim: u128, time: Duration) -> Answer {
        let before = &self.seen.state.entries[index];
        let is_newest = before.claim == claim || !self.guards.has(Guard::HideNewest);
        let is_hidden = before
            .hidden
            .is_hidden(self.seen.landed, self.at, self.guards);
        let entry = &mut self.next.entries[index];
        if !self.seen.exists || entry.is_removed || !is_newest || !is_hidden {
            let context = "the message is not in flight with this receipt";
            return Answer::Refused(Error::new(ErrorKind::Invalid, context));
        }
        entry.hidden = match time.is_zero() {
            true => Hidden::Not,
            false => Hidden::For(time),
        };
        self.shown[index] = time.is_zero();
        Answer::OnWrite(Vec::new())
    }

    fn claim(&mut self, id: u128, max: usize, visibility: Duration) -> Answer {
        let found = (0..self.shown.len()).filter(|index| self.shown[*index]);
        let found: Vec<usize> = found.take(max).collect();
        if found.is_empty() {
            return Answer::Nothing;
        }
        let claimed = found.into_iter().map(|index| {
            self.shown[index] = false;
            let entry = &mut self.next.entries[index];
            entry.receives += 1;
            entry.claim = claim_id(id, self.guards);
            entry.hidden = Hidden::For(visibility);
            if !self.guards.has(Guard::ClaimByStoreClock) {
                entry.hidden = Hidden::Until(self.at.wall + visibility);
            }
            if !self.guards.has(Guard::ClaimByModified) {
                entry.hidden = Hidden::Until(self.at.store + visibility);
            }
            (index, entry.receives)
        });
        Answer::OnWrite(claimed.collect())
    }

    /// Whether no message that is left is claimed; for a mutant.
    fn none_held(&self) -> bool {
        let mut left = self.next.entries.iter().filter(|entry| !entry.is_removed);
        left.all(|entry| entry.claim == 0)
    }
}

/// What stands for a claim in an entry.
fn claim_id(id: u128, guards: &Guards) -> u128 {
    match guards.has(Guard::ClaimIds) {
        true => id,
        false => 1,
    }
}

/// Whether the claim `id` has all these messages of a state.
pub(super) fn has_claimed(
    state: &State,
    id: u128,
    claimed: &[(usize, u64)],
    guards: &Guards,
) -> bool {
    let id = claim_id(id, guards);
    claimed.iter().all(|(index, _)| {
        let entry = &state.entries[*index];
        !entry.is_removed && entry.claim == id
    })
}

#[cfg(test)]
mod tests;
