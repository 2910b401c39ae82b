//! Merging of tables, so that few are read for a key and replaced rows leave the medium.
//!
//! ```text
//! memory ─▶ level 0 ─▶ 256 MiB ─▶ … ─▶ a tenth ─▶ the last level: nearly all rows
//! ```
//!
//! A row that was replaced stays until its level is merged with the next one. So each level has at
//! most a tenth of what the next one has, or 256 MiB.
//!
//! Invariants:
//! - a table that was merged is deleted, also when no commit follows: once no snapshot reads it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use lsm_tree::compaction::{Leveled, MoveDown};
use lsm_tree::{AbstractTree, AnyTree};

use super::{Core, State, Tree, is_damage};

/// Bytes of the first level behind level 0: lsm-tree's own number.
const FIRST_BYTES: u64 = 256 << 20;
/// Between levels, also lsm-tree's.
const RATIO: u64 = 10;
/// Levels that a tree has.
const LEVELS: usize = 7;

impl Core {
    pub(super) fn merge_tables(&self) {
        self.work(
            |state| &mut state.merge_error,
            |core, state| state.is_merge_due || core.deletable(state).next().is_some(),
            Self::merge_if_due,
        );
    }

    fn merge_if_due(&self) -> lsm_tree::Result<()> {
        let mut state = self.state.lock();
        if !state.is_merge_due {
            drop(state);
            return self.delete_merged();
        }
        (state.is_merge_due, state.is_merging) = (false, true);
        drop(state);
        let merged = self.merge_all();
        let seqno = self.publish_versions();
        let mut state = self.state.lock();
        state.is_merging = false;
        match merged {
            Ok(trees) => {
                let replaced = trees.into_iter().map(|tree| (tree, seqno));
                state.replaced.extend(replaced);
                Ok(())
            }
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

    /// Merges what is to be merged. Says in which trees something was.
    fn merge_all(&self) -> lsm_tree::Result<Vec<Tree>> {
        let mut merged = Vec::new();
        for (name, tree) in &self.trees {
            let before = tree.current_version().id();
            let mut version = None;
            while version != Some(tree.current_version().id()) {
                version = Some(tree.current_version().id());
                let last = tree
                    .current_version()
                    .level(LEVELS - 1)
                    .map_or(0, |it| it.size());
                let ratios = ratios(last, levels(tree));
                let strategy = Leveled::default().with_level_ratio_policy(ratios);
                tree.compact(Arc::new(strategy), self.watermark(*name))?;
            }
            if version != Some(before) {
                merged.push(*name);
            }
        }
        Ok(merged)
    }

    /// Lets the next snapshot see the tables as they are now.
    fn publish_versions(&self) -> lsm_tree::SeqNo {
        let _committing = self.committing.lock();
        let seqno = self.seqno.next();
        self.publish(seqno);
        seqno
    }

    /// The trees with merged tables that no snapshot reads any more.
    fn deletable(&self, state: &State) -> impl Iterator<Item = Tree> {
        let replaced = state.replaced.iter();
        let read = replaced.filter(|(tree, seqno)| **seqno <= self.watermark(**tree));
        read.map(|(tree, _)| *tree)
    }

    /// Deletes tables that were merged. The tree does so when its list of tables changes; here the
    /// list becomes another one with the same tables.
    fn delete_merged(&self) -> lsm_tree::Result<()> {
        let due: Vec<Tree> = self.deletable(&self.state.lock()).collect();
        for name in due {
            let tree = &self.trees[&name];
            if let Some(level) = empty_level(tree) {
                tree.compact(Arc::new(MoveDown(level, level)), self.watermark(name))?;
            }
            self.state.lock().replaced.remove(&name);
        }
        Ok(())
    }
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
