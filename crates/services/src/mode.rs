//! The mode of a collection: who may write to it, and what a removal leaves behind.
//!
//! `opening` and `closing` are the safe places between `strong` and `mixed`: marks are kept, and
//! no eventual write is taken (docs/protocol, reconfiguration.md, section 9).

use std::fmt::{Display, Formatter};
use std::str::FromStr;

use crate::level::Malformed;

/// The mode of a collection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// Every write passes the head in stamp order; marks go at once.
    #[default]
    Strong,
    /// On the way from `Strong` to `Mixed` or `Eventual`.
    Opening,
    /// Strong and eventual writes on the same keys.
    Mixed,
    /// On the way to `Strong`.
    Closing,
    /// Eventual writes only; reads of both kinds.
    Eventual,
}

impl Mode {
    /// Whether a collection can be created in it.
    pub fn is_at_rest(self) -> bool {
        !matches!(self, Mode::Opening | Mode::Closing)
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
        self.takes_eventual() || self == Mode::Closing
    }

    /// Whether strong writes are taken.
    pub fn takes_strong(self) -> bool {
        self != Mode::Eventual
    }
}

/// In the order of the bytes that stand for them at rest, from 0.
const MODES: [Mode; 5] = [
    Mode::Strong,
    Mode::Opening,
    Mode::Mixed,
    Mode::Closing,
    Mode::Eventual,
];

impl Mode {
    /// The byte that stands for the mode at rest.
    pub(crate) fn byte(self) -> u8 {
        self as u8
    }

    /// The mode that a byte stands for.
    pub(crate) fn from_byte(byte: u8) -> Option<Mode> {
        MODES.get(usize::from(byte)).copied()
    }
}

impl Display for Mode {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Mode::Strong => "strong",
            Mode::Opening => "opening",
            Mode::Mixed => "mixed",
            Mode::Closing => "closing",
            Mode::Eventual => "eventual",
        })
    }
}

/// Reads the mode that a collection is created with: the header `x-fader-collection-mode`.
impl FromStr for Mode {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Self, Malformed> {
        match text.trim() {
            "strong" => Ok(Mode::Strong),
            "mixed" => Ok(Mode::Mixed),
            "eventual" => Ok(Mode::Eventual),
            other => Err(Malformed::new(format!(
                "'{other}' is no mode of a collection: one of strong, mixed and eventual"
            ))),
        }
    }
}

#[cfg(test)]
mod tests;
