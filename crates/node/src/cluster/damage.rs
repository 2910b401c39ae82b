//! What becomes of a member whose log or engine says by its checksums that it is damaged (I23;
//! docs/protocol/failures.md, section 2).
//!
//! It has stopped, and its session is over, so the others go on without it. When the chain no
//! longer counts on its disk to begin again alone (AL-1), its folder is set aside, and the member
//! joins with an empty one, as one that lost its disk (LD-1). Nothing is deleted: what is set aside
//! is the operator's.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use fader_chain::NodeId;

use super::{Cluster, Event, Slot};
use crate::member::Member;

impl Cluster {
    /// Replaces the folders of damaged members on which nobody counts any more.
    pub(super) fn mend(&self) {
        for (at, slot) in self.slots.iter().enumerate() {
            if slot.is_damaged() && !self.counts_on_the_damaged() {
                let name = match &self.process {
                    Some(process) => process.own_name().to_owned(),
                    None => format!("n{}", at + 1),
                };
                self.replace(&name, slot);
            }
        }
    }

    /// Whether one that may restart the chain alone is not known to be well.
    fn counts_on_the_damaged(&self) -> bool {
        let well = self.slots.iter().filter(|slot| !slot.is_damaged());
        let well: Vec<NodeId> = well
            .filter_map(|slot| Some(slot.running.read().as_ref()?.node))
            .collect();
        self.configuration().is_none_or(|newest| {
            let mut last = newest.last_serving.iter();
            last.any(|(node, _)| !well.contains(node))
        })
    }

    fn replace(&self, name: &str, slot: &Slot) {
        self.stop(slot, Member::kill);
        slot.is_unreadable.store(false, Ordering::Relaxed);
        let aside = aside(&slot.folder);
        let begun = std::fs::rename(&slot.folder, &aside)
            .map_err(|error| error.to_string())
            .and_then(|()| self.start(slot).map_err(|error| error.to_string()));
        match begun {
            Ok(()) => (self.tell)(Event::Replaced(name.to_owned(), aside)),
            Err(error) => tracing::error!(name, error, "a damaged member stays out"),
        }
    }
}

impl Slot {
    fn is_damaged(&self) -> bool {
        let running = self.running.read();
        let is_damaged = running
            .as_ref()
            .is_some_and(|running| running.member.shared().is_damaged());
        is_damaged || self.is_unreadable.load(Ordering::Relaxed)
    }
}

/// A name beside `folder` that nothing has yet.
fn aside(folder: &Path) -> PathBuf {
    let name = |number: u32| folder.with_extension(format!("damaged-{number}"));
    let free = (1..).map(name).find(|path| !path.exists());
    free.expect("there are more numbers than folders")
}
