//! A table of a page's keys: where a slot is, with less of a search.
//!
//! A binary search of a leaf waits for a line of memory in each of its steps, a hash table mostly
//! for one. A reader makes a table for a page that it comes to often. It is never stored.
//!
//! A key that a leaf's table does not find may still be in the leaf: the search decides. So keys
//! whose hashes collide, also those that were chosen for it, cost time and never change an answer.
//!
//! An inner page is searched by the order of its keys. Without a low key its first child begins at
//! the empty key. Then the page has no prefix, and all its heads may be equal. So its table has the
//! prefix of all other children, and eight bytes of each behind that.

use std::cmp::Ordering;

use xxhash_rust::xxh3::xxh3_64;

use super::{PAGE_BYTES_MAX, Page, Route, padded, partition_point};
use crate::slot::SlotRef;

/// A cell: where its slot begins, its size, and a part of its key's hash. A slot is never empty, so
/// neither is a cell of one. The smaller the cells are, the more of them stay in a cache.
const CELL_BYTES: usize = 5;
/// Bytes behind the last cell: each is read by a whole number.
const FAR: usize = size_of::<u64>() - CELL_BYTES;
const START_BITS: u32 = 20;
const SIZE_BITS: u32 = 12;
const MARK_BITS: u32 = 8;
/// Cells that a key may be in: those from its own on. With these the work of a reader is bounded.
const PROBES: usize = 16;
/// The table takes at most this part of the bytes of its page.
const PART: usize = 8;

const _: () = assert!(PAGE_BYTES_MAX <= 1 << START_BITS);
const _: () = assert!(START_BITS + SIZE_BITS + MARK_BITS == 8 * CELL_BYTES as u32);

/// Where the slots of one version of a page are.
#[derive(Clone, Debug)]
pub struct KeyTable(Table);

#[derive(Clone, Debug)]
enum Table {
    /// Of a leaf.
    Cells(Cells),
    /// Of an inner page.
    Heads(Heads),
}

/// Of all children but the first.
#[derive(Clone, Debug)]
struct Heads {
    /// With this all their keys begin.
    prefix: Box<[u8]>,
    /// The first bytes of each key behind the prefix.
    heads: Box<[u64]>,
}

impl KeyTable {
    /// The table of a page. None where it would take more than an eighth of a leaf's bytes; that of
    /// an inner page takes less than half of its page's.
    pub fn new(page: &Page) -> Option<KeyTable> {
        let table = match page.is_leaf() {
            true => Table::Cells(Cells::new(page)?),
            false => Table::Heads(Heads::new(page)),
        };
        Some(KeyTable(table))
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        match &self.0 {
            Table::Cells(cells) => cells.0.len(),
            Table::Heads(of) => of.prefix.len() + size_of_val(&*of.heads),
        }
    }
}

/// Of a leaf's slots.
#[derive(Clone, Debug)]
struct Cells(Box<[u8]>);

impl Cells {
    /// Three of four are taken. Large slots have none.
    fn new(page: &Page) -> Option<Cells> {
        let count = page.count + page.count / 3 + 1;
        if page.body.len() < count * CELL_BYTES * PART {
            return None;
        }
        let mut cells = Cells(vec![0; count * CELL_BYTES + FAR].into());
        let mut key = page.prefix().to_vec();
        for index in 0..page.count {
            key.truncate(page.prefix().len());
            key.extend_from_slice(page.suffix(index));
            let (start, end) = (page.offset(index), page.offset(index + 1));
            let size = end - start;
            let (first, mark) = cells.place(&key);
            let mut free = (first..count).take(PROBES).filter(|at| cells.get(*at) == 0);
            if size < 1 << SIZE_BITS
                && let Some(at) = free.next()
            {
                let cell = mark << (START_BITS + SIZE_BITS) | (start << SIZE_BITS | size) as u64;
                let bytes = &mut cells.0[at * CELL_BYTES..][..CELL_BYTES];
                bytes.copy_from_slice(&cell.to_le_bytes()[..CELL_BYTES]);
            }
        }
        Some(cells)
    }

    fn count(&self) -> usize {
        (self.0.len() - FAR) / CELL_BYTES
    }

    fn get(&self, at: usize) -> u64 {
        let bytes = self.0[at * CELL_BYTES..]
            .first_chunk()
            .expect("bytes behind each cell");
        u64::from_le_bytes(*bytes) & ((1 << (8 * CELL_BYTES)) - 1)
    }

    /// The first cell of a key, and what its cell has of its hash.
    fn place(&self, key: &[u8]) -> (usize, u64) {
        let hash = xxh3_64(key);
        let first = ((hash >> 32) * self.count() as u64) >> 32;
        (first as usize, hash & ((1 << MARK_BITS) - 1))
    }

    /// Where slots are that may have `key`: start and size.
    fn slots(&self, key: &[u8]) -> impl Iterator<Item = (usize, usize)> {
        let (first, mark) = self.place(key);
        let cells = (first..self.count()).take(PROBES).map(|at| self.get(at));
        let cells = cells.take_while(|cell| *cell != 0);
        let own = cells.filter(move |cell| cell >> (START_BITS + SIZE_BITS) == mark);
        own.map(|cell| {
            let part = |from: u32, bits: u32| (cell >> from) as usize & ((1 << bits) - 1);
            (part(SIZE_BITS, START_BITS), part(0, SIZE_BITS))
        })
    }
}

impl Heads {
    fn new(page: &Page) -> Heads {
        let keys = (1..page.count).map(|index| page.key(index).to_vec());
        let keys: Vec<Vec<u8>> = keys.collect();
        let prefix = match &keys[..] {
            [first, .., last] => {
                let pairs = first.iter().zip(last);
                &first[..pairs.take_while(|(one, other)| one == other).count()]
            }
            _ => &[],
        };
        let heads = keys.iter().map(|key| head(&key[prefix.len()..]));
        Heads {
            heads: heads.collect(),
            prefix: prefix.into(),
        }
    }

    /// Index of the last child of `page` that begins at `key` or below; 0 also where none does.
    fn child(&self, page: &Page, key: &[u8]) -> usize {
        let (start, rest) = key.split_at(self.prefix.len().min(key.len()));
        match start.cmp(&self.prefix) {
            Ordering::Less => return 0,
            Ordering::Greater => return self.heads.len(),
            Ordering::Equal => (),
        }
        let head = head(rest);
        let mut low = partition_point(&self.heads, |at| *at < head);
        let mut high = low + self.heads[low..].partition_point(|at| *at == head);
        while low < high {
            let middle = low.midpoint(high);
            match page.key(middle + 1) <= key {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        low
    }
}

fn head(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(padded(bytes))
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
        let cells = match &table.0 {
            Table::Cells(cells) => cells,
            Table::Heads(heads) => {
                let index = heads.child(self, key);
                let is_at_end = index == 0 || index + 1 == self.count;
                let beyond = is_at_end.then(|| self.beyond(key)).flatten();
                return Err(beyond.unwrap_or_else(|| Route::Down(self.child(index))));
            }
        };
        let found = cells.slots(key).find_map(|(start, size)| {
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
