//! How a collection's pending updates are spread over queues, and the names of these.
//!
//! Names: `DATABASE-TREE-NUMBER` by the hash of a key, `DATABASE-TREE-PAGE` for updates of a leaf's
//! records. `DATABASE-TREE-proposals` has records that wait for approval, `DATABASE-atomic` whole
//! transactions, `DATABASE-lock` the token of a store without conditions.
//!
//! Invariants:
//! - SPREAD-1 with queues of leaves a record is sent on once at most: from that of a leaf to that
//!   of its tree. Checkpoints of the latter reach all pages.
//! - SPREAD-2 approved records go to the queue of their tree: they waited as proposals before.

use std::fmt;
use std::str::FromStr;

use fader_blink::{Op, PageId, Record};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::catalogue::{Collection, CollectionId, QUEUES_MAX};

/// The name of [`PendingQueues::PerLeaf`].
const PER_LEAF: &str = "per-leaf";
/// Digits of a page's id in a name.
const PAGE_DIGITS: usize = 32;

/// The pending-update queues of a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Written", try_from = "Written")]
pub enum PendingQueues {
    /// So many, 1 to [`QUEUES_MAX`]; the hash of a key chooses. Each index has as many.
    PerCollection(u16),
    /// One for inserts and deletes, and one for the updates of each leaf: those of the paper. Each
    /// index has one.
    PerLeaf,
}

impl PendingQueues {
    /// How many queues of a tree have numbers.
    pub(crate) fn numbered(self) -> u16 {
        match self {
            PendingQueues::PerCollection(count) => count,
            PendingQueues::PerLeaf => 1,
        }
    }

    /// The queues of an index of a collection that has these.
    pub(crate) fn of_index(self) -> Self {
        PendingQueues::PerCollection(self.numbered())
    }

    /// Whether a collection may have so many.
    pub(crate) fn is_possible(self) -> bool {
        (1..=QUEUES_MAX).contains(&self.numbered())
    }
}

impl Default for PendingQueues {
    /// One queue.
    fn default() -> Self {
        PendingQueues::PerCollection(1)
    }
}

impl fmt::Display for PendingQueues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PendingQueues::PerCollection(count) => write!(f, "{count}"),
            PendingQueues::PerLeaf => f.write_str(PER_LEAF),
        }
    }
}

impl FromStr for PendingQueues {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == PER_LEAF {
            return Ok(PendingQueues::PerLeaf);
        }
        let count = text.parse().map(PendingQueues::PerCollection);
        let possible = count.ok().filter(|queues| queues.is_possible());
        possible.ok_or_else(|| format!("a number from 1 to {QUEUES_MAX}, or {PER_LEAF}"))
    }
}

/// As the catalogue has it: a number, or a name.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    Number(u16),
    Name(String),
}

impl From<PendingQueues> for Written {
    fn from(queues: PendingQueues) -> Written {
        match queues {
            PendingQueues::PerCollection(count) => Written::Number(count),
            PendingQueues::PerLeaf => Written::Name(PER_LEAF.to_owned()),
        }
    }
}

impl TryFrom<Written> for PendingQueues {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        let queues = match written {
            Written::Number(count) => PendingQueues::PerCollection(count),
            Written::Name(name) => name.parse()?,
        };
        match queues.is_possible() {
            true => Ok(queues),
            false => Err(format!("a collection has 1 to {QUEUES_MAX} queues")),
        }
    }
}

/// One queue of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Place {
    /// Of the tree, by its number.
    Number(u16),
    /// Of updates of this leaf's records.
    Leaf(PageId),
    /// Of records that wait for approval.
    Proposals,
    /// Of the token that is a hint.
    Hint,
}

impl Place {
    /// The queue of a tree that takes records of any page: the one for the hash of these bytes.
    pub(crate) fn of_tree(queues: PendingQueues, bytes: &[u8]) -> Place {
        let number = match queues.numbered() {
            1 => 0,
            count => xxh3_64(bytes) % u64::from(count),
        };
        Place::Number(u16::try_from(number).expect("below the number of queues"))
    }

    /// The queue that a record is committed to. `leaf` is the page that its writer believes to have
    /// its key, if the writer knows one.
    pub(crate) fn of(tree: &Collection, record: &Record, leaf: Option<PageId>) -> Place {
        if tree.is_curated {
            return Place::Proposals;
        }
        match (tree.queues, &record.op, leaf) {
            (PendingQueues::PerLeaf, Op::Update(_), Some(leaf)) => Place::Leaf(leaf),
            (queues, _, _) => Place::of_tree(queues, &record.key),
        }
    }

    /// The queue's name.
    pub(crate) fn name(self, database: &str, tree: CollectionId) -> String {
        let prefix = Place::prefix(database, tree);
        match self {
            Place::Number(number) => format!("{prefix}{number}"),
            Place::Leaf(page) => format!("{prefix}{:032x}", page.0),
            Place::Proposals => format!("{prefix}proposals"),
            Place::Hint => format!("{prefix}hint"),
        }
    }

    /// What the names of all queues of a tree begin with.
    pub(crate) fn prefix(database: &str, tree: CollectionId) -> String {
        format!("{database}-{tree}-")
    }

    /// The leaf whose updates go to the queue with this rest of a name behind the prefix.
    pub(crate) fn leaf_of(rest: &str) -> Option<PageId> {
        let id = u128::from_str_radix(rest, 16).ok();
        id.filter(|_| rest.len() == PAGE_DIGITS).map(PageId)
    }
}

#[cfg(test)]
mod tests;
