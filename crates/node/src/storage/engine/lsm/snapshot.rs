//! What the engine held between two commits (ENGINE-2).
//!
//! Deliberately absent: what keeps it from being merged away; that is the engine's.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use fader_services::{Direction, Scan, View, ViewError};
use lsm_tree::{AbstractTree, Guard, IterGuardImpl, SeqNo};

use super::merge::Merge;
use super::{Core, MARKER, view_error};
use crate::storage::engine::{Tree, table_end};

/// Rows that a snapshot keeps of the tree of counters, at most.
const KEPT_ROWS_MAX: usize = 1 << 14;

pub(super) struct LsmSnapshot {
    core: Arc<Core>,
    below: SeqNo,
    /// All of that tree, if it was kept.
    counters: OnceLock<BTreeMap<Bytes, Bytes>>,
}

impl LsmSnapshot {
    /// What is committed below `below`, which is counted among the open ones.
    pub(super) fn new(core: Arc<Core>, below: SeqNo) -> Self {
        LsmSnapshot {
            core,
            below,
            counters: OnceLock::new(),
        }
    }
}

impl Drop for LsmSnapshot {
    fn drop(&mut self) {
        let mut snapshots = self.core.snapshots.lock();
        count_down(&mut snapshots.open, self.below);
        if self.counters.get().is_some() {
            count_down(&mut snapshots.kept, self.below);
        }
    }
}

fn count_down(counts: &mut BTreeMap<SeqNo, usize>, below: SeqNo) {
    if let Some(count) = counts.get_mut(&below) {
        *count -= 1;
        if *count == 0 {
            counts.remove(&below);
        }
    }
}

impl View for LsmSnapshot {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, ViewError> {
        match Tree::of(key) {
            Tree::Counters => self.get_counter(key),
            tree => self.get_from(tree, key),
        }
    }

    fn scan(&self, start: &[u8], end: &[u8], direction: Direction) -> Scan<'_> {
        if end <= start {
            return Box::new(std::iter::empty());
        }
        if let Some(tree) = Tree::of_range(start, end) {
            return self.scan_tree(tree, start, end, direction);
        }
        match table_end(start) {
            // The other trees are not looked at before this one's part is over. To find the first
            // key of a tree may mean to pass over thousands of its newer values.
            Some(middle) if middle.as_slice() < end && direction == Direction::Forward => {
                let first = self.scan_tree(Tree::of(start), start, &middle, direction);
                let end = end.to_vec();
                let rest = move || self.scan_trees(&middle, &end, direction);
                Box::new(first.chain(std::iter::once_with(rest).flatten()))
            }
            _ => Box::new(self.scan_trees(start, end, direction)),
        }
    }

    /// A counter may change with each write. Later its newer values would all have to be passed
    /// over to find it, and none of them could be merged away. What is too much to keep, or cannot
    /// be read, is looked for as ever.
    fn keep(&self) {
        let everything = self.core.trees[&Tree::Counters].range::<&[u8], _>(.., self.below, None);
        let rows = everything.map(pair).take(KEPT_ROWS_MAX + 1);
        if let Ok(rows) = rows.collect::<Result<BTreeMap<_, _>, _>>()
            && rows.len() <= KEPT_ROWS_MAX
            && self.counters.set(rows).is_ok()
        {
            let mut snapshots = self.core.snapshots.lock();
            *snapshots.kept.entry(self.below).or_default() += 1;
        }
    }
}

impl LsmSnapshot {
    fn get_counter(&self, key: &[u8]) -> Result<Option<Bytes>, ViewError> {
        if let Some(counters) = self.counters.get() {
            return Ok(counters.get(key).cloned());
        }
        if let Some(value) = self.core.recent.get(key, self.below) {
            return Ok(value);
        }
        let value = self.get_from(Tree::Counters, key)?;
        self.core.recent.note(key, value.as_deref(), self.below);
        Ok(value)
    }

    fn get_from(&self, tree: Tree, key: &[u8]) -> Result<Option<Bytes>, ViewError> {
        let value = self.core.trees[&tree].get(key, self.below);
        Ok(value.map_err(|error| view_error(&error))?.map(Bytes::from))
    }

    fn scan_tree(&self, tree: Tree, start: &[u8], end: &[u8], direction: Direction) -> Scan<'_> {
        if let Some(counters) = self.counters.get().filter(|_| tree == Tree::Counters) {
            return counters.scan(start, end, direction);
        }
        let range = self.core.trees[&tree].range(start..end, self.below, None);
        match direction {
            Direction::Forward => Box::new(range.map(pair)),
            Direction::Backward => Box::new(range.rev().map(pair)),
        }
    }

    fn scan_trees(&self, start: &[u8], end: &[u8], direction: Direction) -> Merge<'_> {
        let scan = |tree| hide_marker(self.scan_tree(tree, start, end, direction)).peekable();
        Merge::new(Tree::ALL.map(scan).into(), direction)
    }
}

/// Each tree has its marker; none is a key of the map.
fn hide_marker(scan: Scan<'_>) -> Scan<'_> {
    let is_marker = |pair: &Result<(Bytes, Bytes), ViewError>| {
        pair.as_ref().is_ok_and(|(key, _)| &key[..] == MARKER)
    };
    Box::new(scan.filter(move |pair| !is_marker(pair)))
}

fn pair(guard: IterGuardImpl) -> Result<(Bytes, Bytes), ViewError> {
    let (key, value) = guard.into_inner().map_err(|error| view_error(&error))?;
    Ok((key.into(), value.into()))
}
