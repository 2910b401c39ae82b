//! The keys of objects below a prefix, and the texts of receipts.
//!
//! ```text
//! queues/NAME                                             settings
//! messages/NAME/INCARNATION/TIME-RANDOM-COUNT.0-state     what became of a segment's messages
//! messages/NAME/INCARNATION/TIME-RANDOM-COUNT.1-segment   messages
//! domains/NAME                                            manifest
//! logs/NAME/INCARNATION/NUMBER                            slot
//! snapshots/NAME/INCARNATION/NUMBER-RANDOM                snapshot
//! clock/RANDOM                                            written to learn the store's time
//! ```
//!
//! Invariants:
//! - NAME-1 a state's key sorts directly before its segment's.
//! - NAME-2 an incarnation, and the random part of a segment's name, are used once.

use std::fmt;

use object_store::path::Path;

use crate::error::{Error, ErrorKind, Result};
use crate::queues::Receipt;

/// Messages in a segment, at most.
pub(super) const SEGMENT_MESSAGES_MAX: usize = 100;

/// One life of a queue or a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Incarnation(pub(super) u64);

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The name of a segment: by the store's time, so that lists show old ones first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct SegmentName {
    /// A lower bound of the store's time when it was sent, in milliseconds since 1970, modulo 2^48.
    pub(super) time_ms: u64,
    /// Random.
    pub(super) random: u64,
    /// Its messages: 1 to [`SEGMENT_MESSAGES_MAX`].
    pub(super) count: usize,
}

impl fmt::Display for SegmentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = self.time_ms & ((1 << 48) - 1);
        write!(f, "{time:012x}-{:016x}-{:03}", self.random, self.count)
    }
}

impl SegmentName {
    /// Reads what `Display` wrote.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let name = SegmentName {
            time_ms: hex(parts.next()?, 12)?,
            random: hex(parts.next()?, 16)?,
            count: parts.next()?.parse().ok()?,
        };
        let is_exact = name.to_string() == text && parts.next().is_none();
        let is_count = (1..=SEGMENT_MESSAGES_MAX).contains(&name.count);
        (is_exact && is_count).then_some(name)
    }

    /// The id of one of its messages.
    pub(super) fn message_id(&self, index: usize) -> String {
        format!("{self}-{index:02}")
    }
}

fn hex(text: &str, digits: usize) -> Option<u64> {
    let is_hex = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hex.then(|| u64::from_str_radix(text, 16).ok())?
}

/// The two objects of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    /// What became of its messages.
    State,
    /// The messages.
    Segment,
}

/// The last part of the key of a segment's object. `is_state_first` is false for a mutant.
pub(super) fn part_text(name: SegmentName, part: Part, is_state_first: bool) -> String {
    match (part, is_state_first) {
        (Part::State, true) => format!("{name}.0-state"),
        (Part::State, false) => format!("z{name}.0-state"),
        (Part::Segment, _) => format!("{name}.1-segment"),
    }
}

/// The segment, and which of its objects, that the last part of a key names.
pub(super) fn parse_part(text: &str, is_state_first: bool) -> Option<(SegmentName, Part)> {
    let (name, suffix) = text.split_once('.')?;
    let part = match suffix {
        "0-state" => Part::State,
        "1-segment" => Part::Segment,
        _ => return None,
    };
    let name = match (part, is_state_first) {
        (Part::State, false) => name.strip_prefix('z')?,
        _ => name,
    };
    Some((SegmentName::parse(name)?, part))
}

/// The key of `parts` below a prefix.
pub(super) fn key(prefix: &Path, parts: &[&str]) -> Path {
    parts
        .iter()
        .fold(prefix.clone(), |path, part| path.join(*part))
}

/// The parts of a key below a folder.
pub(super) fn parts_below(folder: &Path, key: &Path) -> Vec<String> {
    let parts = key.prefix_match(folder);
    let parts = parts.map(|parts| parts.map(|part| part.as_ref().to_owned()));
    parts.map(Iterator::collect).unwrap_or_default()
}

/// An incarnation as the part of a key.
pub(super) fn parse_incarnation(text: &str) -> Option<Incarnation> {
    hex(text, 16).map(Incarnation)
}

/// A slot's number as the part of a key.
pub(super) fn parse_number(text: &str) -> Option<u64> {
    hex(text, 16)
}

/// How a message was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holding {
    /// By a claim with this id.
    Claim(u128),
    /// By a peek, which may have found a state.
    Peek {
        /// Whether it did.
        had_state: bool,
    },
}

/// What a receipt says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) incarnation: Incarnation,
    pub(super) segment: SegmentName,
    pub(super) index: usize,
    pub(super) holding: Holding,
}

impl Held {
    pub(super) fn receipt(&self) -> Receipt {
        let how = match self.holding {
            Holding::Claim(id) => format!("{id:032x}"),
            Holding::Peek { had_state: false } => "peek".to_owned(),
            Holding::Peek { had_state: true } => "peek-state".to_owned(),
        };
        let Held {
            incarnation,
            segment,
            index,
            ..
        } = self;
        Receipt(format!("{incarnation}.{segment}.{index}.{how}"))
    }

    pub(super) fn parse(receipt: &Receipt) -> Result<Self> {
        let invalid = || Error::new(ErrorKind::Invalid, "this is no receipt of this service");
        Held::read(&receipt.0).ok_or_else(invalid)
    }

    fn read(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        let held = Held {
            incarnation: parse_incarnation(parts.next()?)?,
            segment: SegmentName::parse(parts.next()?)?,
            index: parts.next()?.parse().ok()?,
            holding: match parts.next()? {
                "peek" => Holding::Peek { had_state: false },
                "peek-state" => Holding::Peek { had_state: true },
                id if id.len() == 32 => Holding::Claim(u128::from_str_radix(id, 16).ok()?),
                _ => return None,
            },
        };
        (held.index < held.segment.count && parts.next().is_none()).then_some(held)
    }
}

#[cfg(test)]
mod tests;
