//! A segment's state, as a process knows it.

use object_store::UpdateVersion;

use crate::bucket::listing::Listed;
use crate::bucket::state::Seen;
use crate::bucket::store::Store;
use crate::bucket::time::Landed;

/// A state as known, with the version that an update names.
#[derive(Clone, Debug)]
pub(in crate::bucket) struct View {
    pub(in crate::bucket) seen: Seen,
    pub(super) version: Option<UpdateVersion>,
}

impl View {
    /// The state as a list would show it; `None` if that is not known.
    pub(in crate::bucket) fn listed(&self) -> Option<Listed> {
        let e_tag = self.version.as_ref()?.e_tag.clone();
        match self.seen.landed {
            Landed::Modified(modified) => Some(Listed { e_tag, modified }),
            Landed::Answered(_) => None,
        }
    }

    /// How many messages are visible now.
    pub(in crate::bucket) fn visible(&self, store: &Store) -> usize {
        self.seen.visible(&store.moment(), &store.guards).len()
    }

    /// The state of a segment that has none.
    pub(super) fn absent(count: usize) -> Self {
        View {
            seen: Seen::absent(count),
            version: None,
        }
    }
}
