//! What becomes of a member whose log or engine says by its checksums that it is damaged (I23;
//! docs/internals/protocol/failures.md, section 2).
//!
//! It has stopped, and its session is over, so the others go on without it. When the chain no
//! longer counts on its disk to begin again alone (AL-1), its folder is set aside. The member joins
//! with an empty one, as one that lost its disk (LD-1). Nothing is deleted: what is set aside is
//! the operator's.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use fader_chain::controller::is_of;
use fader_chain::{ChainMember, Configuration, DiskId, Identity, NodeId, Role};

use super::process::Process;
use super::{Cluster, Event, Slot};
use crate::member::Member;
use crate::status::{Health, HealthCause};

/// What a chain needs of the folder of a member that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// Nothing: others may restart the chain, each alone.
    Nothing,
    /// Another member serves: with the next configuration the chain needs nothing of it.
    Passing,
    /// The chain may have to restart with it.
    Folder,
}

impl Need {
    /// What the chain of `newest` needs of the members that are lost, by their disks.
    fn of(
        newest: &Configuration,
        sessions: &[Identity],
        is_lost: impl Fn(NodeId, DiskId) -> bool,
    ) -> Self {
        let mut last = newest.last_serving.iter();
        if !last.any(|(node, disk)| is_lost(*node, *disk)) {
            return Need::Nothing;
        }
        let serves = |member: &ChainMember| {
            let is_live = sessions.iter().any(|live| is_of(member, live));
            member.role == Role::Serving && is_live && !is_lost(member.node, member.disk)
        };
        match newest.members.iter().any(serves) {
            true => Need::Passing,
            false => Need::Folder,
        }
    }
}

impl Cluster {
    /// Replaces the folders of damaged members on which no chain counts any more.
    pub(super) fn mend(&self) {
        for (at, slot) in self.slots.iter().enumerate() {
            if !slot.is_damaged() {
                self.revive(&self.name_at(at), slot);
                continue;
            }
            slot.is_unreadable.store(true, Ordering::Relaxed);
            if let Some(incarnation) = self.stop(slot, Member::kill) {
                self.coordinator.close(incarnation);
            }
            if self.need() == Need::Nothing {
                self.replace(&self.name_at(at), slot);
            }
        }
    }

    /// The names of the nodes whose members here are damaged.
    pub(crate) fn damaged(&self) -> Vec<String> {
        let slots = self.slots.iter().enumerate();
        let damaged = slots.filter(|(_, slot)| slot.is_damaged());
        damaged.map(|(at, _)| self.name_at(at)).collect()
    }

    /// The members that run here, with the names of their nodes.
    pub(crate) fn named_members(&self) -> Vec<(String, Arc<Member>)> {
        let running = self.slots.iter().enumerate().filter_map(|(at, slot)| {
            let running = slot.running.read();
            Some((self.name_at(at), running.as_ref()?.member.clone()))
        });
        running.collect()
    }

    /// The name of the node that has it.
    pub(super) fn name_of(&self, slot: &Slot) -> String {
        let mut slots = self.slots.iter();
        let at = slots.position(|it| std::ptr::eq(it, slot));
        self.name_at(at.unwrap_or_default())
    }

    fn name_at(&self, at: usize) -> String {
        match &self.process {
            Some(process) => process.own_name().to_owned(),
            None => format!("n{}", at + 1),
        }
    }

    /// Whether a member here is damaged.
    pub(super) fn is_damaged(&self) -> bool {
        self.slots.iter().any(Slot::is_damaged)
    }

    /// The worst that is said of a member: of one that failed the others know by its session.
    pub(crate) fn health(&self) -> Health {
        if self.process.is_some() && self.is_damaged() {
            // The process goes on with its other chains.
            return Health::ReadOnly(HealthCause::MemberDamaged);
        }
        if let (true, Some(member)) = (self.is_lone(), self.any()) {
            return member.health();
        }
        let failed = self.failed_health();
        if let (Some(failed), true) = (&failed, self.process.is_some()) {
            return failed.clone();
        }
        let healths = self.slots.iter().filter_map(|slot| {
            let running = slot.running.read();
            running.as_ref().map(|running| running.member.health())
        });
        let healths: Vec<Health> = healths.collect();
        let serving = healths.contains(&Health::Serving);
        match (serving, healths.into_iter().next()) {
            (true, _) => Health::Serving,
            // Its member begins again: the process goes on.
            (false, Some(Health::Failed(cause))) => Health::ReadOnly(cause),
            (false, Some(health)) => health,
            (false, None) if failed.is_some() => failed.unwrap_or(Health::Serving),
            (false, None) => Health::ReadOnly(HealthCause::MembersKilled),
        }
    }

    /// What the chain needs of the folders of members here that ended.
    pub(super) fn need(&self) -> Need {
        if let Some(process) = &self.process {
            return self.need_of_ours(process);
        }
        let well = self.slots.iter().filter(|slot| !slot.is_damaged());
        let well: Vec<NodeId> = well
            .filter_map(|slot| Some(slot.running.read().as_ref()?.node))
            .collect();
        let is_lost = |node, _| !well.contains(&node);
        self.configuration().map_or(Need::Folder, |newest| {
            Need::of(&newest, &self.coordinator.sessions(), is_lost)
        })
    }

    /// The same of the folder of this process; a disk of an unknown owner counts as its. The newest
    /// configuration, read after the member has ended, tells. Which disk the folder is may not be
    /// readable any more.
    fn need_of_ours(&self, process: &Process) -> Need {
        let may_be_ours = |_, disk| {
            let name = process.name_of(disk);
            name.is_none_or(|name| name == process.own_name())
        };
        let newest = process.home.coordinator().newest_of(process.chain);
        match newest {
            Ok(Some(newest)) => Need::of(&newest, &self.coordinator.sessions(), may_be_ours),
            Ok(None) | Err(_) => Need::Folder,
        }
    }

    pub(super) fn replace(&self, name: &str, slot: &Slot) {
        let aside = aside(&slot.folder);
        let renamed = std::fs::rename(&slot.folder, &aside);
        // Only now: no member begins on what is damaged.
        slot.is_unreadable.store(false, Ordering::Relaxed);
        let begun = renamed
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

#[cfg(test)]
mod tests;
