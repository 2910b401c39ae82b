//! The newest values of rows that are small and read again and again: each request looks for its
//! domain, each write for its counters. In a tree that takes several tables, and newer values that
//! are to be passed over.
//!
//! Invariants:
//! - ROWS-1 what is kept of a row is its newest value, and says below which snapshots see it; older
//!   snapshots look in the tree.
//! - ROWS-2 what a reader found is taken only if no commit has begun since its snapshot.
//!
//! Deliberately absent: registers, which are as large as users make them, and seldom read twice;
//! scans.

use ahash::AHashMap;
use bytes::Bytes;
use lsm_tree::SeqNo;
use parking_lot::Mutex;

use crate::storage::engine::{Pair, Tree};

/// Rows kept. When one more comes, all go: what is read again is soon there again.
const ROWS_MAX: usize = 1 << 12;
/// Greater values are not kept.
const VALUE_BYTES_MAX: usize = 1 << 10;

struct Row {
    value: Option<Bytes>,
    /// Snapshots of this or later ones see it.
    from: SeqNo,
}

#[derive(Default)]
struct Rows {
    by_key: AHashMap<Bytes, Row>,
    /// Snapshots below it lack the newest commit, or part of it.
    newest: SeqNo,
}

/// Rows of the tree of counters, at their newest values.
#[derive(Default)]
pub(super) struct RowCache(Mutex<Rows>);

impl RowCache {
    /// The value of `key`, or that it has none, as a snapshot of what is below `below` sees it; if
    /// that is known.
    pub(super) fn get(&self, key: &[u8], below: SeqNo) -> Option<Option<Bytes>> {
        let rows = self.0.lock();
        let row = rows.by_key.get(key).filter(|row| row.from <= below)?;
        Some(row.value.clone())
    }

    /// A snapshot of what is below `below` was looked in for `key`.
    pub(super) fn note(&self, key: &[u8], value: Option<&[u8]>, below: SeqNo) {
        if !is_small(value) {
            return;
        }
        let mut rows = self.0.lock();
        if below < rows.newest {
            return;
        }
        if ROWS_MAX <= rows.by_key.len() {
            rows.by_key.clear();
        }
        let row = Row {
            value: value.map(Bytes::copy_from_slice),
            from: below,
        };
        rows.by_key.insert(Bytes::copy_from_slice(key), row);
    }

    /// `mutations` are about to be committed; snapshots of what is below `from` will see them.
    pub(super) fn commit(&self, mutations: &[Pair<'_>], from: SeqNo) {
        let mut rows = self.0.lock();
        rows.newest = from;
        // Most keys of a commit are of the other trees: none of them is here.
        let ours = |(key, _): &&Pair<'_>| Tree::of(key) == Tree::Counters;
        for (key, value) in mutations.iter().filter(ours) {
            let value = value.map(|value| &value[..]);
            if !is_small(value) {
                rows.by_key.remove(&key[..]);
            } else if let Some(row) = rows.by_key.get_mut(&key[..]) {
                let value = value.map(Bytes::copy_from_slice);
                *row = Row { value, from };
            }
        }
    }
}

fn is_small(value: Option<&[u8]>) -> bool {
    value.is_none_or(|value| value.len() <= VALUE_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &[u8] = b"c";

    fn commit(recent: &RowCache, value: Option<&[u8]>, from: SeqNo) {
        let value = value.map(Bytes::copy_from_slice);
        recent.commit(&[(&Bytes::from_static(KEY), value.as_ref())], from);
    }

    fn shown(recent: &RowCache, below: SeqNo) -> Option<Option<Bytes>> {
        recent.get(KEY, below)
    }

    #[test]
    fn a_read_row_is_shown_to_this_and_later_snapshots() {
        let recent = RowCache::default();
        recent.note(KEY, Some(b"1"), 5);
        assert_eq!(shown(&recent, 4), None);
        assert_eq!(shown(&recent, 5), Some(Some("1".into())));
        assert_eq!(shown(&recent, 9), Some(Some("1".into())));
    }

    #[test]
    fn a_commit_is_shown_to_each_later_snapshot() {
        let recent = RowCache::default();
        recent.note(KEY, None, 5);
        commit(&recent, Some(b"2"), 6);
        assert_eq!(shown(&recent, 5), None);
        assert_eq!(shown(&recent, 6), Some(Some("2".into())));
        commit(&recent, None, 7);
        assert_eq!(shown(&recent, 7), Some(None));
    }

    #[test]
    fn a_look_before_a_commit_tells_nothing_after_it() {
        let recent = RowCache::default();
        commit(&recent, Some(b"2"), 6);
        recent.note(KEY, Some(b"1"), 5);
        assert_eq!(shown(&recent, 6), None);
        recent.note(KEY, Some(b"2"), 6);
        assert_eq!(shown(&recent, 6), Some(Some("2".into())));
    }

    #[test]
    fn the_cache_has_a_bound() {
        let recent = RowCache::default();
        let large = vec![0; VALUE_BYTES_MAX + 1];
        recent.note(KEY, Some(&large), 5);
        assert_eq!(shown(&recent, 5), None);
        recent.note(KEY, Some(b"1"), 5);
        commit(&recent, Some(&large), 6);
        assert_eq!(shown(&recent, 6), None);
        for number in 0..2 * ROWS_MAX {
            recent.note(&number.to_be_bytes(), None, 6);
            assert!(recent.0.lock().by_key.len() <= ROWS_MAX);
        }
    }
}
