//! The seam to the engine: the ordered map that is the log, applied.
//!
//! The engine is a cache of the log. After a crash it may have lost all that was not part of a
//! finished checkpoint, per tree and from the end. Then the log is replayed. It must never show
//! anything else than some state it was once brought to.
//!
//! Invariants:
//! - ENGINE-1 a tree's data and the id of the entry up to which it holds everything
//!   ([`Engine::applied`]) become durable in one atomic step.
//! - ENGINE-2 a snapshot shows whole commits only, and always the same.
//! - ENGINE-3 the log keeps every entry after [`Engine::durable`].

mod lsm;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use fader_chain::{EntryId, ROWS, RangeContent};
use fader_services::{Direction, Table, View};

use crate::status::OpenError;

pub use lsm::LsmEngine;

/// What entries did to keys: a value, or `None` for a removal.
pub type Mutations = BTreeMap<Bytes, Option<Bytes>>;

/// One key and what becomes of it, lent.
pub type Pair<'a> = (&'a Bytes, Option<&'a Bytes>);

/// Mutations as an engine takes them.
pub fn pairs(mutations: &Mutations) -> Vec<Pair<'_>> {
    let pairs = mutations.iter();
    pairs.map(|(key, value)| (key, value.as_ref())).collect()
}

/// The trees of an engine, apart because they are read in different ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tree {
    /// Registers and all else that is as large as users make it; and the chain's rows, which change
    /// with them.
    Registers,
    /// Counters, the catalog and all else that is small and read by key.
    Counters,
    /// Index entries: empty values, read by range.
    Index,
}

impl Tree {
    /// All of them.
    pub const ALL: [Tree; 3] = [Tree::Registers, Tree::Counters, Tree::Index];

    /// The name of its folder.
    pub fn name(self) -> &'static str {
        match self {
            Tree::Registers => "registers",
            Tree::Counters => "counters",
            Tree::Index => "index",
        }
    }

    /// The tree that holds `key`.
    pub fn of(key: &[u8]) -> Tree {
        match key.get(TABLE_AT).copied() {
            Some(table) if Table::is_of_users(table) || table == ROWS => Tree::Registers,
            Some(table) if table == Table::Index as u8 => Tree::Index,
            _ => Tree::Counters,
        }
    }

    /// The one tree that holds all of `start..end`, if one does.
    fn of_range(start: &[u8], end: &[u8]) -> Option<Tree> {
        let is_one = end <= table_end(start)?.as_slice();
        is_one.then(|| Tree::of(start))
    }
}

/// What is said of an engine that is damaged, where the log does not have all that it held.
pub(crate) fn damaged(what: &str) -> OpenError {
    OpenError::damaged(format!(
        "the engine is damaged: {what}. The log does not have all that it held. Restore the data \
         folder from a copy"
    ))
}

/// Where the keys of the collection's table that has `key` end, if it is in one.
fn table_end(key: &[u8]) -> Option<Vec<u8>> {
    let mut next = key.get(..=TABLE_AT)?.to_vec();
    next[TABLE_AT] = next[TABLE_AT].checked_add(1)?;
    Some(next)
}

/// Where a key says which table it is of: behind the collection's id.
const TABLE_AT: usize = 8;

/// What makes the range of `content`, as `view` shows it, what it should be.
///
/// # Errors
/// [`EngineError`] when the view cannot be read.
pub fn difference(view: &dyn View, content: &RangeContent) -> Result<Mutations, EngineError> {
    let mut mutations = Mutations::new();
    for pair in view.scan(&content.start, &content.end, Direction::Forward) {
        let (key, _) = pair.map_err(|error| EngineError {
            message: error.to_string(),
            is_full: false,
        })?;
        mutations.insert(key, None);
    }
    let rows = content.rows.iter().cloned();
    mutations.extend(rows.map(|(key, value)| (key, Some(value))));
    Ok(mutations)
}

/// A view that threads may share and keep.
pub type Snapshot = Arc<dyn View + Send + Sync>;

/// The engine cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the engine failed: {message}")]
pub struct EngineError {
    /// What happened.
    pub message: String,
    /// Whether there was no room, which may end by itself.
    pub is_full: bool,
}

/// An ordered map with snapshots and checkpoints. Only one thread changes it.
pub trait Engine: Send + Sync {
    /// The entry up to which the tree held everything when it was opened.
    fn applied(&self, tree: Tree) -> EntryId;

    /// The state after the last commit.
    fn snapshot(&self) -> Snapshot;

    /// Brings the state to the entry `last`, in one step; no key is there twice. Not durable yet.
    ///
    /// # Errors
    /// [`EngineError`]: the state is unknown and the node must stop, unless `is_full`.
    fn commit(&self, mutations: &[Pair<'_>], last: EntryId) -> Result<(), EngineError>;

    /// Whether so much is not durable yet that a checkpoint is due.
    fn wants_checkpoint(&self) -> bool;

    /// Begins to make the state durable; waits for a checkpoint before it to end. The log must be
    /// durable up to here.
    ///
    /// # Errors
    /// As [`Engine::commit`], of this or of an earlier checkpoint.
    fn checkpoint(&self) -> Result<(), EngineError>;

    /// The medium has little room, of which so many bytes are free: rows that were removed are to
    /// leave it. Waits as a checkpoint does, and asks the same of the log.
    ///
    /// # Errors
    /// As [`Engine::checkpoint`].
    fn reclaim(&self, free: u64) -> Result<(), EngineError>;

    /// The medium has room again.
    fn end_reclaim(&self);

    /// The entry up to which everything is durable.
    ///
    /// # Errors
    /// As [`Engine::commit`], of work behind the scenes.
    fn durable(&self) -> Result<EntryId, EngineError>;

    /// Whether it was being filled when it was opened: then it stands for no entry.
    fn is_filling(&self) -> bool;

    /// From here it stands for no entry: durable when this returns.
    ///
    /// # Errors
    /// As [`Engine::commit`].
    fn begin_fill(&self) -> Result<(), EngineError>;

    /// Makes a range hold what `content` says, and nothing else.
    ///
    /// # Errors
    /// As [`Engine::commit`].
    fn fill(&self, content: &RangeContent) -> Result<(), EngineError>;

    /// It holds everything up to `at`: durable, with all ranges, when this returns.
    ///
    /// # Errors
    /// As [`Engine::commit`].
    fn end_fill(&self, at: EntryId) -> Result<(), EngineError>;

    /// Bytes on the medium.
    fn disk_bytes(&self) -> u64;

    /// Waits until the checkpoints begun are done and ends the engine's threads.
    fn close(&self);
}

#[cfg(test)]
mod tests;
