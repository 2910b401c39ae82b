//! Pages of a queue's lists, and the deletion of the leftovers that they show.

use object_store::path::Path;

use super::Receiver;
use crate::bucket::guard::Guard;
use crate::bucket::listing::{Page, Pages};
use crate::bucket::names::{Part, SegmentName};
use crate::bucket::pool::hash;
use crate::bucket::segment_handle::part_key;
use crate::error::Result;

/// Leftovers that one page deletes, at most.
const LEFTOVERS_MAX: usize = 64;
/// A process deletes a leftover at one of so many lists that show it: most often another process
/// has deleted it by then.
const TURNS: u64 = 8;
impl Receiver {
    /// A list of the queue.
    pub(in crate::bucket) fn pages(&self) -> Pages {
        self.inner().lists += 1;
        Pages::new(&self.store, &self.folder, self.retention)
    }

    /// The next page of a list. What is left over is deleted beside the caller.
    ///
    /// # Errors
    /// Those of [`Pages::next`].
    pub(in crate::bucket) async fn page(&self, pages: &mut Pages) -> Result<Page> {
        let page = pages.next().await?;
        let lists = self.inner().lists;
        let is_due = |name| {
            hash(self.seed, name)
                .wrapping_add(lists)
                .is_multiple_of(TURNS)
        };
        let mut leftovers = Vec::new();
        for name in page.orphans.iter().filter(|name| is_due(**name)) {
            leftovers.push(self.key(*name, Part::State));
        }
        for (name, has_state) in page.retired.iter().filter(|(name, _)| is_due(*name)) {
            let segment = self.key(*name, Part::Segment);
            let state = has_state.then(|| self.key(*name, Part::State));
            match self.store.guards.has(Guard::SegmentBeforeStateRetention) {
                true => leftovers.extend([Some(segment), state].into_iter().flatten()),
                false => leftovers.extend([state, Some(segment)].into_iter().flatten()),
            }
        }
        leftovers.truncate(LEFTOVERS_MAX);
        self.delete(leftovers);
        Ok(page)
    }

    /// Deletes leftovers, in this order, beside the caller.
    fn delete(&self, leftovers: Vec<Path>) {
        if leftovers.is_empty() {
            return;
        }
        let store = self.store.clone();
        let deletes = async move {
            for key in leftovers {
                // A later list deletes it otherwise.
                if store.delete_surely(&key).await.is_err() {
                    return;
                }
            }
        };
        drop(self.store.runtime.spawn(deletes));
    }

    fn key(&self, name: SegmentName, part: Part) -> Path {
        let last = part_key(&self.store, name, part);
        self.folder.clone().join(last)
    }
}
