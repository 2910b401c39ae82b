//! A hash table of a leaf's keys: where a slot is, without a search.
//!
//! A binary search waits for a line of memory in each of its steps, the table mostly for one. A
//! reader makes it for a leaf that it comes to often. It is never stored.
//!
//! A key that the table does not find may still be in the page: the search decides. So keys whose
//! hashes collide, also those that were chosen for it, cost time and never change an answer.

use xxhash_rust::xxh3::xxh3_64;

use super::{PAGE_BYTES_MAX, Page, Route};
use crate::slot::SlotRef;

/// A cell: where its slot begins, its size, and a part of its key's hash. A slot is never empty, so
/// neither is a cell of one.
const START_BITS: u32 = 20;
const SIZE_BITS: u32 = 21;
/// Cells that a key may be in: those from its own on. With these the work of a reader is bounded.
const PROBES: usize = 16;
/// The table takes at most this part of the bytes of its page.
const PART: usize = 8;

const _: () = assert!(PAGE_BYTES_MAX <= 1 << START_BITS);

/// Where the slots of one version of a leaf are.
#[derive(Clone, Debug)]
pub struct KeyTable {
    cells: Box<[u64]>,
}

impl KeyTable {
    /// The table of a leaf. None where it would take more than an eighth of the page's bytes.
    pub fn new(page: &Page) -> Option<KeyTable> {
        // Three of four cells are taken.
        let count = page.count + page.count / 3 + 1;
        let is_small = page.is_leaf() && count * size_of::<u64>() * PART <= page.body.len();
        if !is_small {
            return None;
        }
        let mut cells = vec![0; count].into_boxed_slice();
        let mut key = page.prefix().to_vec();
        for index in 0..page.count {
            key.truncate(page.prefix().len());
            key.extend_from_slice(page.suffix(index));
            let (start, end) = (page.offset(index), page.offset(index + 1));
            let (first, mark) = place(&key, count);
            let places = (first..count).take(PROBES);
            let mut free = places.filter(|at| cells[*at] == 0);
            if let Some(at) = free.next() {
                cells[at] = mark | (start as u64) << SIZE_BITS | (end - start) as u64;
            }
        }
        Some(KeyTable { cells })
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.cells)
    }

    /// Where slots are that may have `key`: start and size.
    fn places(&self, key: &[u8]) -> impl Iterator<Item = (usize, usize)> {
        let (first, mark) = place(key, self.cells.len());
        let cells = self.cells[first..].iter().take(PROBES);
        let cells = cells.take_while(|cell| **cell != 0);
        let own = cells.filter(move |cell| (*cell ^ mark) >> (START_BITS + SIZE_BITS) == 0);
        own.map(|cell| {
            let part = |from: u32, bits: u32| (cell >> from) as usize & ((1 << bits) - 1);
            (part(SIZE_BITS, START_BITS), part(0, SIZE_BITS))
        })
    }
}

/// The first cell of a key, and what its cell has of its hash.
fn place(key: &[u8], cells: usize) -> (usize, u64) {
    let hash = xxh3_64(key);
    let first = ((hash >> 32) * cells as u64) >> 32;
    (first as usize, hash << (START_BITS + SIZE_BITS))
}

impl Page {
    /// As [`Page::look`], by the table of this version of the page.
    ///
    /// # Errors
    /// As [`Page::look`].
    ///
    /// # Panics
    /// When the table is of another page.
    pub fn look_by(&self, table: &KeyTable, key: &[u8]) -> Result<SlotRef<'_>, Route> {
        let found = table.places(key).find_map(|(start, size)| {
            let slot = &self.body[start..start + size];
            let suffix = usize::from(u16::from_be_bytes([slot[0], slot[1]]));
            let start = key.strip_suffix(&slot[3..3 + suffix])?;
            (start == self.prefix()).then(|| Self::slot_in(slot))
        });
        // A key of the page is in its range.
        found.map_or_else(|| self.look(key), Ok)
    }
}

#[cfg(test)]
mod tests;
