//! Building a tree from sorted records, bottom-up: each page is written once, full, and leaves the
//! builder as soon as its right sibling begins.

use bytes::Bytes;

use crate::divide::{Sizes, cells_min, separator};
use crate::error::TreeError;
use crate::key::KeyRef;
use crate::page::{Page, PageId};
use crate::record::{check_key, check_payload};
use crate::slot::Slot;
use crate::stamp::Stamp;
use crate::write::{Cell, Content, Edition, Frame};

/// Collects sorted records into pages. It holds one page of each level.
#[derive(Debug)]
pub struct Builder {
    sizes: Sizes,
    horizon: Stamp,
    lsn: u64,
    levels: Vec<Level>,
    count: u64,
}

#[derive(Debug)]
struct Level {
    /// Id of the page under construction.
    id: PageId,
    low: Bytes,
    entries: Vec<(Bytes, Owned)>,
    bytes: usize,
    has_emitted: bool,
}

#[derive(Debug)]
enum Owned {
    Slot(Slot),
    Child(PageId),
}

impl Level {
    fn new(id: PageId, low: Bytes, has_emitted: bool) -> Self {
        Level {
            id,
            low,
            entries: Vec::new(),
            bytes: 0,
            has_emitted,
        }
    }

    fn page(
        &self,
        level: usize,
        right: Option<(&[u8], PageId)>,
        horizon: Stamp,
        lsn: u64,
        edition: &mut Edition<'_>,
    ) -> Page {
        let cells: Vec<Cell<'_>> = self.entries.iter().map(cell).collect();
        let level = u8::try_from(level).expect("fewer levels than bits of an id");
        let low = &self.low;
        let frame = Frame {
            level,
            low,
            right,
            horizon,
        };
        frame.page(&cells, edition.envelope(lsn))
    }
}

fn cell(entry: &(Bytes, Owned)) -> Cell<'_> {
    let (key, owned) = entry;
    Cell {
        key: KeyRef::whole(key),
        content: match owned {
            Owned::Slot(slot) => Content::Slot(slot.as_ref()),
            Owned::Child(child) => Content::Child(*child),
        },
    }
}

impl Builder {
    /// A builder of an empty tree. `horizon` is that of all its pages: [`Stamp::ZERO`] for a new
    /// collection.
    pub fn new(sizes: Sizes, horizon: Stamp) -> Self {
        Builder {
            sizes,
            horizon,
            lsn: 1,
            levels: Vec::new(),
            count: 0,
        }
    }

    /// The same for a tree that replaces an empty one: `lsn` is above that of its root.
    #[must_use]
    pub fn at_lsn(self, lsn: u64) -> Self {
        Builder { lsn, ..self }
    }

    /// Adds a slot; keys come in strictly ascending order. Pages that are complete are appended to
    /// `out`: they can be created at once, nothing leads to them before the root is written. A slot
    /// without registers is none.
    ///
    /// # Errors
    /// [`TreeError::Order`] and [`TreeError::Record`]; the slot was not added.
    pub fn push(
        &mut self,
        key: Bytes,
        slot: Slot,
        edition: &mut Edition<'_>,
        out: &mut Vec<(PageId, Page)>,
    ) -> Result<(), TreeError> {
        check_key(&key)?;
        slot.payload.as_ref().map_or(Ok(()), check_payload)?;
        if slot.as_ref().newest().is_none() {
            return Ok(());
        }
        let last = self.levels.first().and_then(|leaf| leaf.entries.last());
        if last.is_some_and(|(before, _)| *before >= key) {
            return Err(TreeError::Order { index: self.count });
        }
        self.count += 1;
        self.add(0, key, Owned::Slot(slot), edition, out);
        Ok(())
    }

    fn add(
        &mut self,
        level: usize,
        key: Bytes,
        owned: Owned,
        edition: &mut Edition<'_>,
        out: &mut Vec<(PageId, Page)>,
    ) {
        if self.levels.len() == level {
            self.levels
                .push(Level::new(edition.page_id(), Bytes::new(), false));
        }
        let number = u8::try_from(level).expect("fewer levels than bits of an id");
        let at = &mut self.levels[level];
        let entry = (key, owned);
        // The ends of a page are at most as long as its keys; no prefix is counted on.
        let ends = at.low.len() + entry.0.len();
        let frame = Frame {
            level: number,
            low: &[],
            right: None,
            horizon: self.horizon,
        }
        .bytes(0);
        let bytes = cell(&entry).bytes(0);
        let is_full = frame + ends + at.bytes + bytes > self.sizes.limit(number);
        if is_full && at.entries.len() >= cells_min(number) {
            let before = at.entries.last().expect("a full page has entries");
            let low: Bytes = separator(&cell(before), &cell(&entry)).into();
            let next = Level::new(edition.page_id(), low.clone(), true);
            let done = std::mem::replace(&mut self.levels[level], next);
            let right = Some((&low[..], self.levels[level].id));
            let page = done.page(level, right, self.horizon, self.lsn, edition);
            out.push((done.id, page));
            self.add(level + 1, done.low, Owned::Child(done.id), edition, out);
        }
        let at = &mut self.levels[level];
        at.bytes += bytes;
        at.entries.push(entry);
    }

    /// The last pages are appended to `out`; the root comes back, to be written last, under the
    /// tree's id.
    pub fn finish(mut self, edition: &mut Edition<'_>, out: &mut Vec<(PageId, Page)>) -> Page {
        if self.levels.is_empty() {
            self.levels.push(Level::new(PageId(0), Bytes::new(), false));
        }
        let mut level = 0;
        loop {
            let at = &self.levels[level];
            let page = at.page(level, None, self.horizon, self.lsn, edition);
            if !at.has_emitted {
                return page;
            }
            let (id, low) = (at.id, at.low.clone());
            out.push((id, page));
            self.add(level + 1, low, Owned::Child(id), edition, out);
            level += 1;
        }
    }
}

impl Page {
    /// The root of an empty tree.
    pub fn empty(horizon: Stamp, edition: &mut Edition<'_>) -> Page {
        Builder::new(Sizes::default(), horizon).finish(edition, &mut Vec::new())
    }
}

#[cfg(test)]
mod tests;
