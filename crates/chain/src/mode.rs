//! The mode of a collection: who may write to it, what a removal leaves behind, and how it changes
//! (docs/internals/protocol/reconfiguration.md, section 9).
//!
//! The mode is part of the state. A change of mode is an entry ([`Change::SetMode`]), and the mode
//! that an entry was decided in is what the log before it says (MD-1). The chain keeps of each
//! collection that is not `strong`, among its own keys:
//!
//! ```text
//! standing := mode:u8  since:id  opened:id  abandoned:u8
//! ```
//!
//! Invariants:
//! - MODE-1 `opened` is the entry that made the collection something else than strong. Every base
//!   of an operation of the collection is at or above it (MD-2).
//!
//! Deliberately absent: who asks for a change, and what else it changes; that is the service's.
//!
//! [`Change::Turn`]: crate::Change::Turn

use std::fmt::{Display, Formatter};
use std::str::FromStr;

use bytes::Bytes;

use crate::codec::{DecodeError, Reader};
use crate::config::{AbsentMember, Configuration};
use crate::keys::{collection_of, mode_key};
use crate::stamp::EntryId;
use crate::view::{View, ViewError};

/// The mode of a collection. The numbers are those of the modes at rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Mode {
    /// Every write passes the head in stamp order; marks go at once.
    #[default]
    Strong = 0,
    /// `Strong` in all that is promised, and called so; marks are kept until every member has
    /// applied what was settled (MD-6).
    Drained = 1,
    /// Strong and eventual writes on the same keys.
    Mixed = 2,
    /// On the way to `Drained`: no eventual write is taken, those that were are settled.
    Draining = 3,
    /// Eventual writes only; reads of both kinds.
    Eventual = 4,
}

impl Mode {
    /// All modes.
    pub const ALL: [Mode; 5] = [
        Mode::Strong,
        Mode::Drained,
        Mode::Mixed,
        Mode::Draining,
        Mode::Eventual,
    ];

    /// Whether a collection can be created in it, and stay in it.
    pub fn is_at_rest(self) -> bool {
        !matches!(self, Mode::Drained | Mode::Draining)
    }

    /// The mode whose promises it keeps.
    pub fn promised(self) -> Mode {
        match self {
            Mode::Drained => Mode::Strong,
            mode => mode,
        }
    }

    /// Whether removals leave marks, so that an older operation that comes later finds them.
    pub fn keeps_marks(self) -> bool {
        self != Mode::Strong
    }

    /// Whether eventual writes are taken.
    pub fn takes_eventual(self) -> bool {
        matches!(self, Mode::Mixed | Mode::Eventual)
    }

    /// Whether eventual operations that were taken before are settled, rather than refused.
    pub fn settles_eventual(self) -> bool {
        self.takes_eventual() || self == Mode::Draining
    }

    /// Whether strong writes are taken.
    pub fn takes_strong(self) -> bool {
        self != Mode::Eventual
    }

    /// The byte that stands for the mode at rest.
    pub fn byte(self) -> u8 {
        self as u8
    }

    /// The mode that a byte stands for.
    pub fn from_byte(byte: u8) -> Option<Mode> {
        Mode::ALL.into_iter().find(|mode| mode.byte() == byte)
    }

    /// Reads the byte of a mode.
    pub(crate) fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Mode::from_byte(reader.byte()?).ok_or_else(|| DecodeError::new("a mode"))
    }
}

impl Display for Mode {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Mode::Strong | Mode::Drained => "strong",
            Mode::Mixed => "mixed",
            Mode::Draining => "draining",
            Mode::Eventual => "eventual",
        })
    }
}

/// A word that is no mode of rest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no mode of a collection: one of strong, mixed and eventual")]
pub struct UnknownMode(String);

/// Reads a mode that can be asked for.
impl FromStr for Mode {
    type Err = UnknownMode;

    fn from_str(text: &str) -> Result<Self, UnknownMode> {
        let word = text.trim();
        let mut at_rest = Mode::ALL.into_iter().filter(|mode| mode.is_at_rest());
        let mode = at_rest.find(|mode| mode.to_string() == word);
        mode.ok_or_else(|| UnknownMode(word.to_owned()))
    }
}

/// What the chain keeps of a collection's mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModeState {
    /// The mode.
    pub mode: Mode,
    /// The entry that put it.
    pub since: EntryId,
    /// The entry with which its eventual writers' time began (MODE-1).
    pub opened: EntryId,
    /// Of a collection that is draining: whether it goes on without those who are absent.
    pub is_abandoned: bool,
}

impl ModeState {
    /// That of `collection` in `state`; nothing is kept of a strong one.
    ///
    /// # Errors
    /// [`ViewError`] when the store cannot be read.
    pub fn of(state: &dyn View, collection: u64) -> Result<ModeState, ViewError> {
        Ok(match state.get(&mode_key(collection))? {
            Some(value) => ModeState::decode(value)?,
            None => ModeState::default(),
        })
    }

    /// That of the collection of a register; nothing is kept of what is in none.
    pub(crate) fn of_register(state: &dyn View, key: &[u8]) -> Result<ModeState, ViewError> {
        match collection_of(key) {
            Some(collection) => ModeState::of(state, collection),
            None => Ok(ModeState::default()),
        }
    }

    /// Whether an operation is settled that was accepted at a member whose log ended with `accept`
    /// (MD-5). One of an earlier time of eventual writers is not: what was removed since has left
    /// no mark that would turn it away.
    pub fn settles(&self, accept: EntryId) -> bool {
        self.mode.settles_eventual() && self.opened <= accept
    }

    /// Whom a collection that is draining waits for: who may have taken operations of it, and does
    /// not serve (MD-4).
    pub fn awaits<'a>(
        &self,
        configuration: &'a Configuration,
    ) -> impl Iterator<Item = &'a AbsentMember> {
        let waits = self.mode == Mode::Draining && !self.is_abandoned;
        let opened = self.opened.epoch;
        let absent = configuration.absent.iter();
        absent.filter(move |absent| waits && opened < absent.left)
    }

    /// What the entry `id` makes of it.
    pub(crate) fn turned(self, mode: Mode, is_abandoned: bool, id: EntryId) -> Option<ModeState> {
        let opened = match self.mode.settles_eventual() {
            true => self.opened,
            false => id,
        };
        mode.keeps_marks().then_some(ModeState {
            mode,
            since: id,
            opened,
            is_abandoned,
        })
    }

    pub(crate) fn encode(&self) -> Bytes {
        let mut out = vec![self.mode.byte()];
        self.since.encode(&mut out);
        self.opened.encode(&mut out);
        out.push(u8::from(self.is_abandoned));
        out.into()
    }

    pub(crate) fn decode(value: Bytes) -> Result<ModeState, DecodeError> {
        let mut reader = Reader::new(value);
        let standing = ModeState {
            mode: Mode::decode(&mut reader)?,
            since: EntryId::decode(&mut reader)?,
            opened: EntryId::decode(&mut reader)?,
            is_abandoned: reader.byte()? != 0,
        };
        reader.end()?;
        Ok(standing)
    }
}

#[cfg(test)]
mod tests;
