//! Merging of tables, so that few are read for a key and replaced rows leave the medium.
//!
//! ```text
//! memory ─▶ level 0 ─▶ 256 MiB ─▶ … ─▶ a tenth ─▶ the last level: nearly all rows
//! ```
//!
//! A row that was replaced stays until its level is merged with the next one. So each level has at
//! most a tenth of what the next one has, or 256 MiB.
//!
//! Where the medium has little room, all levels are merged into the last one, part by part. There
//! removed rows end. A part takes at most three quarters of what is free. Level 0 is one part. If
//! it is larger, what is left of it must fit, without rows that were replaced or removed in it.
//!
//! Invariants:
//! - a table that was merged is deleted, also when no commit follows: once no snapshot reads it.
//! - a table that is in no list, as it could not be ended, is removed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use lsm_tree::compaction::{Leveled, MoveDown};
use lsm_tree::merge::Merger;
use lsm_tree::{AbstractTree, AnyTree, SeqNo, Table, TableId};

use super::{Core, RETRY, State, Tree, UNMERGED_MAX, files, finds_no_room, is_damage};

/// Bytes of the first level behind level 0: lsm-tree's own number.
const FIRST_BYTES: u64 = 256 << 20;
/// Between levels, also lsm-tree's.
const RATIO: u64 = 10;
/// Levels that a tree has.
const LEVELS: usize = 7;
/// The largest part that is merged has so many tables of the next level: lsm-tree's own number.
const PART_TABLES: u64 = 50;
/// Bytes of a table where the medium has little room, at most.
const TABLE_BYTES: u64 = 16 << 20;
/// How often it is looked whether a snapshot has ended.
const LOOK: Duration = Duration::from_millis(20);
/// A table of removals is so many times smaller, at least: the rows that it removes are larger.
const REMOVALS: u64 = 64;
/// Bytes of a table for each row beside its key and value, at most.
const ROW_BYTES: usize = 64;

/// Tables of a tree that were merged.
#[derive(Debug, Default)]
pub(super) struct Replaced {
    /// What must be visible before they are deleted.
    seqno: SeqNo,
    tables: BTreeSet<TableId>,
}

impl Core {
    pub(super) fn merge_tables(&self) {
        self.work(
            |state| &mut state.merge_error,
            |core, state| {
                state.has_leftovers || state.is_merge_due || core.deletable(state).next().is_some()
            },
            Self::merge_if_due,
        );
    }

    fn merge_if_due(&self) -> lsm_tree::Result<()> {
        let mut state = self.state.lock();
        if std::mem::take(&mut state.has_leftovers) {
            drop(state);
            let mut names = self.trees.keys();
            names.try_for_each(|name| self.remove_leftovers(*name))?;
            state = self.state.lock();
        }
        if !state.is_merge_due {
            drop(state);
            return self.delete_merged();
        }
        (state.is_merge_due, state.is_merging) = (false, true);
        let little_room = state.little_room;
        drop(state);
        let merged = self.merge_all(little_room);
        let mut state = self.state.lock();
        state.is_merging = false;
        match merged {
            Ok(()) => Ok(()),
            Err(error) if is_damage(&error) && self.tolerates.load(Ordering::Relaxed) => {
                tracing::error!(%error, "tables are not merged any more: one is damaged");
                state.is_unmergeable = true;
                Ok(())
            }
            Err(error) => {
                state.is_merge_due = true;
                Err(error)
            }
        }
    }

    /// Merges what is to be merged, where maybe only so much is free.
    fn merge_all(&self, little_room: Option<u64>) -> lsm_tree::Result<()> {
        for (name, tree) in &self.trees {
            let merged = match little_room {
                Some(free) => self.reclaim(*name, tree, free),
                None => self.merge_usually(*name, tree),
            };
            match merged {
                // The log may have taken the room meanwhile: removals go on, and it is tried again.
                Err(error) if little_room.is_some() && finds_no_room(&error) => {}
                merged => merged?,
            }
        }
        Ok(())
    }

    fn merge_usually(&self, name: Tree, tree: &AnyTree) -> lsm_tree::Result<()> {
        while self.merge_once(name, tree, usual(tree))? {}
        Ok(())
    }

    /// Says whether there was anything to merge.
    fn merge_once(&self, name: Tree, tree: &AnyTree, strategy: Leveled) -> lsm_tree::Result<bool> {
        let (before, old) = (tree.current_version().id(), tables(tree));
        let merged = tree.compact(Arc::new(strategy), self.watermark(name));
        let is_new = tree.current_version().id() != before;
        if is_new {
            self.note_replaced(name, &old - &tables(tree));
        }
        if merged.as_ref().is_err_and(finds_no_room) {
            self.remove_leftovers(name)?;
        }
        merged.map(|()| is_new)
    }

    /// Snapshots may read these tables of a tree, which its new list does not have.
    fn note_replaced(&self, name: Tree, tables: BTreeSet<TableId>) {
        let seqno = self.publish_versions();
        let mut state = self.state.lock();
        let replaced = state.replaced.entry(name).or_default();
        replaced.seqno = seqno;
        replaced.tables.extend(tables);
    }

    /// Merges all tables of a tree into its last level, until a snapshot keeps what was merged.
    /// Parts that are too large wait for the usual merges.
    fn reclaim(&self, name: Tree, tree: &AnyTree, free: u64) -> lsm_tree::Result<()> {
        while let Some(strategy) = reclaiming(tree, free, self.watermark(name))? {
            if !self.merge_once(name, tree, strategy)? {
                return self.merge_usually(name, tree);
            }
            if !self.await_deletion(name)? {
                break;
            }
        }
        Ok(())
    }

    /// Deletes tables of a tree that were merged, if no snapshot reads them soon. Says whether they
    /// are gone.
    fn await_deletion(&self, name: Tree) -> lsm_tree::Result<bool> {
        let end = Instant::now() + RETRY;
        let mut state = self.state.lock();
        while !self.deletable(&state).any(|it| it == name) {
            if state.is_closing || end <= Instant::now() {
                return Ok(false);
            }
            // The end of a snapshot is not told.
            self.changed.wait_for(&mut state, LOOK);
        }
        drop(state);
        self.delete_merged()?;
        Ok(true)
    }

    /// Whether removed rows may still be on the medium.
    pub(super) fn has_unmerged(&self, state: &State) -> bool {
        0 < state.memory
            || self
                .trees
                .values()
                .any(|tree| unmerged(tree) != Unmerged::Nothing)
    }

    /// Whether tables must come to level 0 before it is merged: a lone run would be moved. While it
    /// has no room, it gets no more than a few.
    pub(super) fn wants_tables(&self, state: &State) -> bool {
        let mut runs = self.trees.values().map(AnyTree::l0_run_count);
        let has_few = runs.all(|runs| runs < UNMERGED_MAX);
        let mut trees = self.trees.values();
        has_few && (0 < state.memory || trees.any(|it| unmerged(it) == Unmerged::New(1)))
    }

    /// Lets the next snapshot see the tables as they are now.
    fn publish_versions(&self) -> SeqNo {
        let _committing = self.committing.lock();
        let seqno = self.seqno.next();
        self.publish(seqno);
        seqno
    }

    /// The trees with merged tables that no snapshot reads any more.
    fn deletable(&self, state: &State) -> impl Iterator<Item = Tree> {
        let replaced = state.replaced.iter();
        let read = replaced.filter(|(tree, it)| it.seqno <= self.watermark(**tree));
        read.map(|(tree, _)| *tree)
    }

    /// Deletes tables that were merged. The tree does so when its list of tables changes; here the
    /// list becomes another one with the same tables.
    fn delete_merged(&self) -> lsm_tree::Result<()> {
        let due: Vec<Tree> = self.deletable(&self.state.lock()).collect();
        for name in due {
            let tree = &self.trees[&name];
            let deleted = empty_level(tree).map_or(Ok(()), |level| {
                tree.compact(Arc::new(MoveDown(level, level)), self.watermark(name))
            });
            self.state.lock().replaced.remove(&name);
            match deleted {
                // The list takes room, too.
                Err(error) if finds_no_room(&error) => self.remove_leftovers(name)?,
                deleted => deleted?,
            }
        }
        Ok(())
    }

    /// Removes tables of a tree that found no room while they were written, which the tree leaves
    /// alone until it is opened again. No merge may run.
    fn remove_leftovers(&self, name: Tree) -> lsm_tree::Result<()> {
        let tree = &self.trees[&name];
        let _no_checkpoint = tree.get_flush_lock();
        let (list, mut kept) = (tree.current_version().id(), tables(tree));
        if let Some(replaced) = self.state.lock().replaced.get(&name) {
            kept.extend(&replaced.tables);
        }
        files::remove_others(&tree.tree_config().path, list, &kept)?;
        Ok(())
    }
}

/// How tables are merged where there is room.
fn usual(tree: &AnyTree) -> Leveled {
    let version = tree.current_version();
    let last = version.level(LEVELS - 1).map_or(0, |it| it.size());
    Leveled::default().with_level_ratio_policy(ratios(last, levels(tree)))
}

fn tables(tree: &AnyTree) -> BTreeSet<TableId> {
    let version = tree.current_version();
    version.iter_tables().map(Table::id).collect()
}

/// What has not come to the last level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unmerged {
    Nothing,
    /// So many runs of level 0, and nothing else.
    New(usize),
    Levels,
}

fn unmerged(tree: &AnyTree) -> Unmerged {
    let version = tree.current_version();
    let mut levels = version.iter_levels().take(LEVELS - 1).skip(1);
    match (levels.any(|level| !level.is_empty()), tree.l0_run_count()) {
        (true, _) => Unmerged::Levels,
        (false, 0) => Unmerged::Nothing,
        (false, runs) => Unmerged::New(runs),
    }
}

/// How the next part is merged where so much is free; nothing if there is none. No level but the
/// last one may keep anything.
fn reclaiming(tree: &AnyTree, free: u64, watermark: SeqNo) -> lsm_tree::Result<Option<Leveled>> {
    let version = tree.current_version();
    let size = |level| version.level(level).map_or(0, |it| it.size());
    let (new, last) = (size(0), size(LEVELS - 1));
    let part = free / 4 * 3;
    // All of level 0 is one part.
    if part < new && !has_room_for_new(tree, watermark, part)? {
        return Ok(None);
    }
    let table = TABLE_BYTES.min(part / PART_TABLES);
    let table = match unmerged(tree) {
        // A lone run would be moved as it is: over more rows than a part may have.
        Unmerged::Nothing | Unmerged::New(1) => return Ok(None),
        Unmerged::New(_) if last != 0 => removals_bytes(part, new, last).min(table / REMOVALS),
        Unmerged::New(_) | Unmerged::Levels => table,
    };
    let all = Leveled::default().with_l0_threshold(0);
    let strategy = all.with_table_target_size(table.max(1));
    Ok(Some(strategy.with_level_ratio_policy(vec![0.0])))
}

/// Bytes of a table of removals that lie among as many rows as a quarter of a part has, if they lie
/// everywhere.
fn removals_bytes(part: u64, new: u64, last: u64) -> u64 {
    (part as f64 / 4.0 * (new as f64 / last as f64)) as u64
}

/// Whether so many bytes are room for what is left of level 0 when it is merged.
fn has_room_for_new(tree: &AnyTree, watermark: SeqNo, most: u64) -> lsm_tree::Result<bool> {
    let version = tree.current_version();
    let runs = version.level(0).into_iter().flat_map(|level| level.iter());
    let tables = runs.flat_map(|run| run.iter()).map(Table::scan);
    let (mut bytes, mut last) = (0, None);
    for row in Merger::new(tables.collect::<lsm_tree::Result<Vec<_>>>()?) {
        let row = row?;
        let is_replaced = last.as_ref() == Some(&row.key.user_key);
        if is_replaced && row.key.seqno < watermark {
            continue;
        }
        bytes += (ROW_BYTES + row.key.user_key.len() + row.value.len()) as u64;
        if most < bytes {
            return Ok(false);
        }
        last = Some(row.key.user_key);
    }
    Ok(true)
}

/// How many times as large as the one before each level is: of so many levels, the last of which
/// has so many bytes.
fn ratios(last_bytes: u64, levels: usize) -> Vec<f32> {
    // A last level above its size would be one that needs another level before it.
    let mut bytes = last_bytes + last_bytes / RATIO;
    let mut ratios = vec![RATIO as f32; levels.saturating_sub(2)];
    bytes /= RATIO.pow(ratios.len() as u32);
    while 2 * RATIO * FIRST_BYTES < bytes && ratios.len() < LEVELS - 3 {
        bytes /= RATIO;
        ratios.push(RATIO as f32);
    }
    let second = bytes as f32 / FIRST_BYTES as f32;
    let least = if ratios.is_empty() { RATIO as f32 } else { 0.0 };
    ratios.insert(0, second.max(least));
    ratios
}

/// Levels from the first one that has tables on, without level 0.
fn levels(tree: &AnyTree) -> usize {
    let version = tree.current_version();
    let mut levels = version.iter_levels().skip(1);
    let first = levels.position(|level| !level.is_empty());
    first.map_or(0, |first| LEVELS - 1 - first)
}

/// A level without tables.
fn empty_level(tree: &AnyTree) -> Option<u8> {
    let version = tree.current_version();
    let mut levels = version.iter_levels();
    levels.position(|level| level.is_empty()).map(|it| it as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that each level may have, from the first one on.
    fn sizes(last_bytes: u64, levels: usize) -> Vec<u64> {
        let ratios = ratios(last_bytes, levels);
        let first = FIRST_BYTES as f32;
        let sizes = ratios.iter().scan(first, |size, ratio| {
            *size *= ratio;
            Some(*size as u64)
        });
        std::iter::once(FIRST_BYTES).chain(sizes).collect()
    }

    #[test]
    fn levels_before_the_last_one_have_a_seventh_of_it_or_little() {
        for shift in 20..40 {
            let last_bytes = 3_u64 << shift;
            for levels in 0..LEVELS {
                let sizes = sizes(last_bytes, levels);
                let (last, before) = sizes.split_last().unwrap();
                assert!(last_bytes < *last, "{sizes:?} {last_bytes}");
                let before: u64 = before.iter().sum();
                let most = FIRST_BYTES + last_bytes / 100 * 14;
                assert!(before <= most, "{sizes:?} {last_bytes}");
                assert!(sizes.len() < LEVELS, "{sizes:?}");
            }
        }
    }

    #[test]
    fn levels_have_the_usual_sizes_where_there_are_few_rows() {
        assert_eq!(ratios(0, 0), [10.0]);
        assert_eq!(ratios(1 << 30, 1), [10.0]);
    }
}
