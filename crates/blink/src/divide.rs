//! Dividing cells into pages when they outgrow one.

use std::ops::Range;

use crate::error::SizesError;
use crate::page::PAGE_BYTES_MAX;
use crate::write::{Cell, Content, common, common_prefix};

/// How large pages grow before they split. The format does not depend on it: it may change at any
/// time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    leaf_bytes: usize,
    node_bytes: usize,
}

impl Default for Sizes {
    /// The paper's: leaves of 100 KB, inner pages of 57 KB.
    fn default() -> Self {
        Sizes {
            leaf_bytes: 100_000,
            node_bytes: 57_000,
        }
    }
}

impl Sizes {
    /// The smallest limit, bytes: small pages are for tests.
    pub const BYTES_MIN: usize = 256;
    /// The greatest limit, bytes.
    pub const BYTES_MAX: usize = PAGE_BYTES_MAX / 2;

    /// Limits for leaves and inner pages, envelope included. A page may be larger by the keys at
    /// which it begins and ends. So may a leaf with one record and an inner page with three
    /// children.
    ///
    /// # Errors
    /// [`SizesError`] outside of [`Sizes::BYTES_MIN`] and [`Sizes::BYTES_MAX`].
    pub fn new(leaf_bytes: usize, node_bytes: usize) -> Result<Self, SizesError> {
        let (min, max) = (Self::BYTES_MIN, Self::BYTES_MAX);
        for bytes in [leaf_bytes, node_bytes] {
            if !(min..=max).contains(&bytes) {
                return Err(SizesError { bytes, min, max });
            }
        }
        Ok(Sizes {
            leaf_bytes,
            node_bytes,
        })
    }

    pub(crate) fn limit(&self, level: u8) -> usize {
        if level == 0 {
            self.leaf_bytes
        } else {
            self.node_bytes
        }
    }
}

/// The least number of cells of a page that a split makes: an inner page with one child would only
/// add height.
pub(crate) fn cells_min(level: u8) -> usize {
    if level == 0 { 1 } else { 2 }
}

/// Cuts `cells` into pages of one level. `frame` is what a page has beside its cells. Pages are
/// about equal, so that each has room to grow; when the page grows at its end (`is_append`), all
/// but the last are full.
pub(crate) fn divide(
    cells: &[Cell<'_>],
    level: u8,
    frame: usize,
    limit: usize,
    is_append: bool,
) -> Vec<Range<usize>> {
    let least = cells_min(level);
    let whole = 0..cells.len();
    let prefix = common_prefix(cells);
    let total: usize = cells.iter().map(|cell| cell.bytes(prefix)).sum();
    if frame + total <= limit || cells.len() < 2 * least {
        return vec![whole];
    }
    let room = limit.saturating_sub(frame).max(1);
    let target = if is_append {
        room
    } else {
        total.div_ceil(total.div_ceil(room).max(2))
    };
    let mut pages = Vec::new();
    let (mut start, mut size) = (0, 0);
    for (index, cell) in cells.iter().enumerate() {
        let bytes = cell.bytes(prefix);
        // A cell goes to the page that has most of it. Only the least cells may outgrow a page.
        let is_full = size + bytes / 2 > target || size + bytes > room;
        let is_full = is_full && index - start >= least;
        if is_full && cells.len() - index >= least {
            pages.push(start..index);
            (start, size) = (index, 0);
        }
        size += bytes;
    }
    pages.push(start..cells.len());
    pages
}

/// The key at which the page that begins with `cell` begins. Of leaves it is the shortest key above
/// the page before, of inner pages the key of the first child.
pub(crate) fn separator(before: &Cell<'_>, cell: &Cell<'_>) -> Vec<u8> {
    let mut key = cell.key.to_vec();
    if let Content::Slot(_) = cell.content {
        key.truncate(common(&before.key.to_vec(), &key) + 1);
    }
    key
}
