//! The marks of a session: below which LSN a page is too old to be read, by key range.
//!
//! A session that read a page at some LSN accepts no older version of the same keys, on any
//! page they are now. A split gives the right page the LSN of the left page's new version, so LSNs
//! of a key only rise, across pages.

use std::collections::BTreeMap;
use std::ops::Bound;

use bytes::Bytes;

use crate::guard::{self, Guard};
use crate::page::Page;

/// The least LSN of each key range. Two entries at most for each page that was read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Marks {
    /// From this key to the next one: this LSN. Below the first key: 0.
    from: BTreeMap<Bytes, u64>,
}

impl Marks {
    /// The marks of a session that has read nothing.
    pub fn new() -> Self {
        Marks::default()
    }

    /// The least LSN at which `key` may be read.
    pub fn at(&self, key: &[u8]) -> u64 {
        let below = self
            .from
            .range::<[u8], _>((Bound::Unbounded, Bound::Included(key)))
            .next_back();
        below.map_or(0, |(_, lsn)| *lsn)
    }

    /// Whether `key` may be read on `page`. If not, read the page again: the store has a newer
    /// version.
    pub fn accepts(&self, page: &Page, key: &[u8]) -> bool {
        !guard::has(Guard::Marks) || self.at(key) <= page.lsn()
    }

    /// Whether every key of `page` from `from` on may be read on it.
    pub fn accept_all(&self, page: &Page, from: &[u8]) -> bool {
        let end = page.high().map_or(Bound::Unbounded, Bound::Excluded);
        let behind = self.from.range::<[u8], _>((Bound::Excluded(from), end));
        self.accepts(page, from) && behind.into_iter().all(|(key, _)| self.accepts(page, key))
    }

    /// Whether each key of `page` has this version as its mark: [`Marks::raise`] changes nothing.
    pub fn know(&self, page: &Page) -> bool {
        let end = page.high().map_or(Bound::Unbounded, Bound::Excluded);
        let mut behind = self
            .from
            .range::<[u8], _>((Bound::Excluded(page.low()), end));
        behind.next().is_none() && self.at(page.low()) == page.lsn()
    }

    /// Takes note of a page that was read: no key of its range is read from an older version after.
    pub fn raise(&mut self, page: &Page) {
        let (low, high) = (page.low(), page.high());
        let lsn = page.lsn();
        if let Some(high) = high {
            let kept = self.at(high);
            self.from.insert(Bytes::copy_from_slice(high), kept);
        }
        let first = self.at(low);
        self.from.insert(Bytes::copy_from_slice(low), first);
        let inside = self.from.range_mut::<[u8], _>((
            Bound::Included(low),
            high.map_or(Bound::Unbounded, Bound::Excluded),
        ));
        for (_, mark) in inside {
            *mark = lsn.max(*mark);
        }
        self.join();
    }

    /// Neighbours with one LSN become one range.
    fn join(&mut self) {
        let mut last = 0;
        self.from
            .retain(|_, lsn| std::mem::replace(&mut last, *lsn) != *lsn);
    }
}

#[cfg(test)]
mod tests;
