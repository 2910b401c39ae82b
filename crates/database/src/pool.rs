//! The buffer pool: versions of pages that were read or written, up to a number of bytes.
//!
//! Pages that transactions read stay while checkpoints pass by: those have a part of their own.
//!
//! Pure: time is an argument. A reader holds a page by its clone, so a page in use is never lost.

use std::time::Duration;

use fader_blink::{KeyTable, Page, PageId, Route, SlotRef};

use crate::recency::Recency;
use crate::store::Held;

#[derive(Debug)]
struct Entry {
    held: Held,
    /// When the store last showed this version as its newest, by the monotonic clock.
    seen: Duration,
    /// When a reader last asked for a checkpoint of this version.
    asked: Option<Duration>,
    /// When a point read, or its coming, last put it before all others.
    moved: Duration,
    /// Point reads that came to this version.
    reads: u32,
    /// There from the read on that is number [`READS_BEFORE_TABLE`].
    table: Option<KeyTable>,
}

impl Entry {
    fn bytes(&self) -> u64 {
        let table = self.table.as_ref().map_or(0, KeyTable::bytes);
        (self.held.page.body().len() + table) as u64
    }

    /// The slot of a key in this version.
    fn look(&self, key: &[u8]) -> Result<SlotRef<'_>, Route> {
        match &self.table {
            Some(table) => self.held.page.look_by(table, key),
            None => self.held.page.look(key),
        }
    }
}

/// Point reads of one version of a page after which it gets a table of its keys. To make one takes
/// as long as some hundreds of searches.
const READS_BEFORE_TABLE: u32 = 64;
/// A point read moves a page that was moved longer ago. So the order of last uses is right up to
/// this time, and a read writes to few lines of memory.
const MOVED_FOR: Duration = Duration::from_millis(50);

/// The part of the pool that pages of upkeep alone may fill while readers want more: a quarter.
const UPKEEP_PART: u64 = 4;

/// When a point read is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// By the monotonic clock.
    pub(crate) now: Duration,
    /// Since when the store must have shown a leaf as the newest version.
    pub(crate) since: Duration,
}

/// For what a page is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// A transaction reads it.
    Read,
    /// A checkpoint and the like, which come to many pages once.
    Upkeep,
}

/// Pages of all collections: ids are random.
#[derive(Debug)]
pub(crate) struct Pool {
    /// Those that a transaction has read.
    read: Recency<PageId, Entry>,
    upkeep: Recency<PageId, Entry>,
    bytes_max: u64,
}

impl Pool {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Pool {
            read: Recency::default(),
            upkeep: Recency::default(),
            bytes_max: bytes_max as u64,
        }
    }

    /// A page, and when the store last showed this version.
    pub(crate) fn get(&mut self, id: PageId, used: Use) -> Option<(Held, Duration)> {
        if used == Use::Read
            && let Some(entry) = self.upkeep.remove(&id)
        {
            let bytes = entry.bytes();
            self.read.put(id, entry, bytes);
        }
        let entry = match self.read.touch(&id) {
            Some(entry) => entry,
            None => self.upkeep.touch(&id)?,
        };
        Some((entry.held.clone(), entry.seen))
    }

    /// Reads the slot of a key in a leaf that the store showed as the newest version late enough.
    /// None unless transactions have read all pages that lead to it. None also where a page on the
    /// way has split since its parent was read.
    pub(crate) fn read<T>(
        &mut self,
        root: PageId,
        key: &[u8],
        times: Times,
        mut take: impl FnMut(&Page, SlotRef<'_>) -> T,
    ) -> Option<T> {
        let mut id = root;
        for _ in 0..=u8::MAX {
            let entry = self.read.get_mut(&id)?;
            let step = match entry.look(key) {
                Err(Route::Down(child)) => Err(child),
                Ok(slot) if times.since <= entry.seen => Ok(take(&entry.held.page, slot)),
                _ => return None,
            };
            entry.reads = entry.reads.saturating_add(1);
            let is_often_read = entry.reads == READS_BEFORE_TABLE;
            if entry.moved + MOVED_FOR <= times.now {
                entry.moved = times.now;
                self.read.touch(&id);
            }
            if is_often_read {
                self.make_table(id);
            }
            match step {
                Err(child) => id = child,
                Ok(taken) => return Some(taken),
            }
        }
        None
    }

    /// Gives a page a table of its keys.
    fn make_table(&mut self, id: PageId) {
        let Some(entry) = self.read.get_mut(&id) else {
            return;
        };
        entry.table = KeyTable::new(&entry.held.page);
        let bytes = entry.bytes();
        self.read.resize(&id, bytes);
        self.make_room();
    }

    /// Takes a version that was read or written at `now`. An older version than the pool's is
    /// dropped: two reads may end in the other order.
    pub(crate) fn put(&mut self, id: PageId, held: Held, now: Duration, used: Use) {
        if let Some(old) = self.entry(id)
            && held.page.lsn() < old.held.page.lsn()
        {
            return;
        }
        let entry = Entry {
            held,
            seen: now,
            asked: None,
            moved: now,
            reads: 0,
            table: None,
        };
        let bytes = entry.bytes();
        let was_read = self.read.remove(&id).is_some();
        self.upkeep.remove(&id);
        match was_read || used == Use::Read {
            true => self.read.put(id, entry, bytes),
            false => self.upkeep.put(id, entry, bytes),
        }
        self.make_room();
    }

    /// Forgets pages until the others have no more bytes than they may have.
    fn make_room(&mut self) {
        while self.bytes_max < self.read.bytes() + self.upkeep.bytes()
            && self.read.len() + self.upkeep.len() > 1
        {
            let is_upkeep = self.bytes_max < UPKEEP_PART * self.upkeep.bytes();
            let from = match is_upkeep || self.read.len() == 0 {
                true => &mut self.upkeep,
                false => &mut self.read,
            };
            from.remove_oldest();
        }
    }

    fn entry(&mut self, id: PageId) -> Option<&mut Entry> {
        match self.read.get_mut(&id) {
            Some(entry) => Some(entry),
            None => self.upkeep.get_mut(&id),
        }
    }

    /// The store showed the pool's version as the newest at `now`.
    pub(crate) fn confirm(&mut self, id: PageId, now: Duration) {
        if let Some(entry) = self.entry(id) {
            entry.seen = entry.seen.max(now);
        }
    }

    /// Whether a reader may ask for a checkpoint of a page at `now`: once in an `interval`.
    pub(crate) fn may_ask(&mut self, id: PageId, now: Duration, interval: Duration) -> bool {
        let Some(entry) = self.entry(id) else {
            return false;
        };
        let is_early = entry.asked.is_some_and(|asked| now < asked + interval);
        if !is_early {
            entry.asked = Some(now);
        }
        !is_early
    }

    /// Forgets a page.
    pub(crate) fn remove(&mut self, id: PageId) {
        self.read.remove(&id);
        self.upkeep.remove(&id);
    }
}

#[cfg(test)]
mod tests;
