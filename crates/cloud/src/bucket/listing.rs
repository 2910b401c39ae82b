//! A list of a queue, page by page: its segments with their states, and what is left over (rules
//! BQUEUE-1 and BQUEUE-10).
//!
//! Invariants:
//! - a state is left over only if a key behind its segment's was listed, or the list's
//!   end.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use futures_util::stream::{BoxStream, StreamExt};
use object_store::ObjectMeta;
use object_store::path::Path;

use super::guard::Guard;
use super::markers::foreign;
use super::names::{Part, SegmentName, parse_part, parts_below};
use super::store::{Store, modified};
use crate::error::Result;

/// Keys of a page.
const PAGE: usize = 1000;

/// A state as a list shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) e_tag: Option<String>,
    pub(super) modified: Duration,
}

/// A segment as a list shows it.
#[derive(Debug)]
pub(super) struct Shown {
    pub(super) name: SegmentName,
    /// Its state's, if it has one.
    pub(super) state: Option<Listed>,
}

/// What a page shows of a queue.
#[derive(Debug, Default)]
pub(super) struct Page {
    pub(super) segments: Vec<Shown>,
    /// States without a segment.
    pub(super) orphans: Vec<SegmentName>,
    /// Segments past retention, and whether they have a state.
    pub(super) retired: Vec<(SegmentName, bool)>,
    /// Whether it is the last one.
    pub(super) is_last: bool,
}

/// A list under way.
pub(super) struct Pages {
    store: Store,
    folder: Path,
    retention: Duration,
    keys: BoxStream<'static, Result<ObjectMeta>>,
    /// States whose segment was not listed so far.
    states: BTreeMap<SegmentName, Listed>,
}

impl Pages {
    /// A list of the segments in `folder`. It makes no request before the first page.
    pub(super) fn new(store: &Store, folder: &Path, retention: Duration) -> Self {
        Pages {
            keys: store.list(folder),
            store: store.clone(),
            folder: folder.clone(),
            retention,
            states: BTreeMap::new(),
        }
    }

    /// The next page: at most 1,000 keys.
    ///
    /// # Errors
    /// Those of the requests; `Malformed` names an object that is not this service's.
    pub(super) async fn next(&mut self) -> Result<Page> {
        let mut page = Page::default();
        for _ in 0..PAGE {
            let Some(meta) = self.keys.next().await else {
                page.is_last = true;
                self.orphans(&mut page, |_| true);
                break;
            };
            self.take(&mut page, meta?)?;
        }
        Ok(page)
    }

    fn take(&mut self, page: &mut Page, meta: ObjectMeta) -> Result<()> {
        let is_state_first = self.store.guards.has(Guard::StatesFirst);
        let parts = parts_below(&self.folder, &meta.location);
        let parsed = match parts.as_slice() {
            [last] => parse_part(last, is_state_first),
            _ => None,
        };
        let Some((name, part)) = parsed else {
            return Err(foreign(&meta.location));
        };
        let modified = modified(&meta);
        match part {
            Part::State => {
                // States sort before their segments: an earlier one has none.
                self.orphans(page, |known| *known < name);
                let e_tag = meta.e_tag;
                let listed = Listed { e_tag, modified };
                match is_state_first {
                    true => drop(self.states.insert(name, listed)),
                    false => late_state(page, name, listed),
                }
            }
            Part::Segment => {
                let state = self.states.remove(&name);
                match self.is_over(modified) {
                    true => page.retired.push((name, state.is_some())),
                    false => page.segments.push(Shown { name, state }),
                }
            }
        }
        Ok(())
    }

    fn orphans(&mut self, page: &mut Page, is_over: impl Fn(&SegmentName) -> bool) {
        if self.store.guards.has(Guard::Orphans) {
            let over = self.states.extract_if(.., |name, _| is_over(name));
            page.orphans.extend(over.map(|(name, _)| name));
        }
    }

    /// Whether a segment of this Last-Modified is past the queue's retention.
    fn is_over(&self, modified: Duration) -> bool {
        let now = self.store.clock.lower(self.store.now());
        modified.saturating_add(self.retention) < now
    }
}

/// A state that is listed after all segments; for a mutant.
fn late_state(page: &mut Page, name: SegmentName, listed: Listed) {
    let mut segments = page.segments.iter_mut();
    match segments.find(|shown| shown.name == name) {
        Some(shown) => shown.state = Some(listed),
        None => page.orphans.push(name),
    }
}

impl fmt::Debug for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pages({})", self.folder)
    }
}
