//! How the members of a cluster in one process do, for people who look.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use fader_chain::{Configuration, NodeId, Role};

use super::{Cluster, Running};

/// The state of a member, as `cluster status` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberStatus {
    /// Its name: `n1`, `n2`, …
    pub name: String,
    /// Whether it runs, is paused, or was killed.
    pub state: &'static str,
    /// Its place: `head`, `serving`, `joining`, or none.
    pub role: Option<&'static str>,
    /// The side of a partition it is on.
    pub side: usize,
    /// The epoch it is in.
    pub epoch: u64,
    /// The last entry it knows committed.
    pub commit_index: u64,
    /// Blocks of objects that it holds.
    pub blocks: u64,
}

impl Cluster {
    /// The configuration in force, with who has which role.
    pub fn status(&self) -> (Option<Arc<Configuration>>, Vec<MemberStatus>) {
        let newest = self.configuration();
        let members = self.slots.iter().enumerate().map(|(at, slot)| {
            let node = *slot.node.lock();
            let running = slot.running.read();
            let counters = running.as_ref().map(|running| running.member.counters());
            let is_paused = |running: &Running| running.member.shared().gate.is_closed();
            MemberStatus {
                name: format!("n{}", at + 1),
                state: match &*running {
                    None if slot.is_unreadable.load(Ordering::Relaxed) => "damaged",
                    None if slot.failures.lock().rests() => "failed",
                    None => "killed",
                    Some(running) if running.member.shared().is_damaged() => "damaged",
                    Some(running) if running.member.shared().ahead().is_some() => "ahead",
                    Some(running) if is_paused(running) => "paused",
                    Some(_) => "running",
                },
                role: newest
                    .as_ref()
                    .zip(node)
                    .and_then(|(newest, node)| role(newest, node)),
                side: node.map_or(0, |node| self.links.side(node)),
                epoch: counters.map_or(0, |counters| counters.epoch),
                commit_index: counters.map_or(0, |counters| counters.commit_index),
                blocks: counters.map_or(0, |counters| counters.blocks.blocks),
            }
        });
        let members = members.collect();
        (newest, members)
    }
}

/// What a node is in a configuration.
pub(super) fn role(configuration: &Configuration, node: NodeId) -> Option<&'static str> {
    let member = configuration.member(node)?;
    Some(match member.role {
        _ if configuration.head() == node => "head",
        Role::Serving => "serving",
        Role::Syncing => "joining",
        Role::Leaving => "leaving",
    })
}
