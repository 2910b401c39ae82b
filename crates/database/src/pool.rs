//! The buffer pool: versions of pages that were read or written, up to a number of bytes.
//!
//! Pure: time is an argument. A reader holds a page by its clone, so a page in use is never lost.

use std::time::Duration;

use fader_blink::PageId;

use crate::recency::Recency;
use crate::store::Held;

#[derive(Debug)]
struct Entry {
    held: Held,
    /// When the store last showed this version as its newest, by the monotonic clock.
    seen: Duration,
    /// When a reader last asked for a checkpoint of this version.
    asked: Option<Duration>,
}

/// Pages of all collections: ids are random.
#[derive(Debug)]
pub(crate) struct Pool {
    pages: Recency<PageId, Entry>,
    bytes_max: usize,
}

impl Pool {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Pool {
            pages: Recency::default(),
            bytes_max,
        }
    }

    /// A page, and when the store last showed this version.
    pub(crate) fn get(&mut self, id: PageId) -> Option<(Held, Duration)> {
        let entry = self.pages.touch(&id)?;
        Some((entry.held.clone(), entry.seen))
    }

    /// Takes a version that was read or written at `now`. An older version than the pool's is
    /// dropped: two reads may end in the other order.
    pub(crate) fn put(&mut self, id: PageId, held: Held, now: Duration) {
        if let Some(old) = self.pages.get_mut(&id)
            && held.page.lsn() < old.held.page.lsn()
        {
            return;
        }
        let bytes = held.page.body().len() as u64;
        let entry = Entry {
            held,
            seen: now,
            asked: None,
        };
        self.pages.put(id, entry, bytes);
        while (self.bytes_max as u64) < self.pages.bytes()
            && self.pages.len() > 1
            && let Some(&oldest) = self.pages.oldest()
        {
            self.remove(oldest);
        }
    }

    /// The store showed the pool's version as the newest at `now`.
    pub(crate) fn confirm(&mut self, id: PageId, now: Duration) {
        if let Some(entry) = self.pages.get_mut(&id) {
            entry.seen = entry.seen.max(now);
        }
    }

    /// Whether a reader may ask for a checkpoint of a page at `now`: once in an `interval`.
    pub(crate) fn may_ask(&mut self, id: PageId, now: Duration, interval: Duration) -> bool {
        let Some(entry) = self.pages.get_mut(&id) else {
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
        self.pages.remove(&id);
    }
}

#[cfg(test)]
mod tests;
