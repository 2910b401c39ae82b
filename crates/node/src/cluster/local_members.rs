//! The members here by their places in the newest configuration: who decides, who is read.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use fader_chain::{Configuration, NodeId, Role};

use super::Cluster;
use crate::member::Member;

impl Cluster {
    /// A member that runs, by number.
    pub(crate) fn member(&self, node: NodeId) -> Option<Arc<Member>> {
        let members = self.slots.iter().map(|slot| slot.running.read());
        let mut running = members.filter_map(|running| {
            let running = running.as_ref()?;
            (running.node == node).then(|| running.member.clone())
        });
        running.next()
    }

    /// The number of the member that is here, where the others are in other processes.
    pub(crate) fn own(&self) -> Option<NodeId> {
        let slot = self.slots.first()?;
        *slot.node.lock()
    }

    /// Whether the head is here.
    pub(crate) fn decides(&self) -> bool {
        let head = self.configuration().map(|newest| newest.head());
        head.is_some_and(|head| self.member(head).is_some())
    }

    /// Whether the head is of another process: where no member here can take a request, it is to be
    /// handed off.
    pub(crate) fn is_anothers(&self) -> bool {
        let head = self.configuration().map(|newest| newest.head());
        self.process.is_some() && head.is_some() && head != self.own()
    }

    /// The member that is here, if it serves.
    pub(crate) fn serving_here(&self, newest: &Configuration) -> Option<Arc<Member>> {
        let own = self.own()?;
        let member = newest.member(own)?;
        (member.role == Role::Serving).then(|| self.member(own))?
    }

    /// The member that catalogs are read at: the head, as long as there is one.
    pub(crate) fn local_member(&self) -> Option<Arc<Member>> {
        let head = self.head().map(|(_, head)| head);
        head.or_else(|| self.readers().into_iter().map(|(_, member)| member).next())
    }

    /// The head, if it is here. A lone member is the head of each configuration: none is looked at,
    /// which all threads would share a count of.
    pub(crate) fn head(&self) -> Option<(NodeId, Arc<Member>)> {
        if let (true, [slot]) = (self.is_lone(), &self.slots[..]) {
            let running = slot.running.read();
            let running = running.as_ref()?;
            return Some((running.node, running.member.clone()));
        }
        let node = self.configuration()?.head();
        Some((node, self.member(node)?))
    }

    /// The serving members, each time another one first.
    pub(crate) fn readers(&self) -> Vec<(NodeId, Arc<Member>)> {
        if self.is_lone() {
            return self.head().into_iter().collect();
        }
        let Some(newest) = self.configuration() else {
            return Vec::new();
        };
        let serving = newest
            .members
            .iter()
            .filter(|member| member.role == Role::Serving);
        let asked = *self.asked.read();
        let serving = serving.filter(|member| asked.is_none_or(|asked| asked == member.node));
        let running = serving.filter_map(|member| Some((member.node, self.member(member.node)?)));
        let mut members: Vec<_> = running.collect();
        if !members.is_empty() {
            let first = self.next.fetch_add(1, Ordering::Relaxed) % members.len();
            members.rotate_left(first);
        }
        members
    }
}
