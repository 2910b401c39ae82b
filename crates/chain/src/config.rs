//! The configuration of a chain: who its members are, in which order, in which epoch
//! (docs/internals/protocol/chain.md, section 2).
//!
//! Invariants:
//! - CONFIG-1 serving members come first, then at most one that syncs or leaves; nodes are
//!   distinct.
//! - CONFIG-2 there is at least one serving membership: the last serving member is never removed
//!   (RM-2).
//!
//! Deliberately absent: how configurations are agreed on; that is the coordinator's.

mod encoding;

use crate::stamp::EntryId;
use crate::version::Version;

/// A node of the cluster: a number given once per disk and never again (D16), so that it can be
/// part of a stamp.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

impl std::fmt::Display for NodeId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "n{}", self.0)
    }
}

/// A chain of a cluster. It is numbered for ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChainId(pub u32);

impl ChainId {
    /// The chain that knows which collections, accounts and access keys there are.
    pub const SYSTEM: ChainId = ChainId(0);
}

impl std::fmt::Display for ChainId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "chain {}", self.0)
    }
}

/// One incarnation of a node's process, chosen at random when it starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Incarnation(pub u128);

/// A disk, chosen at random when its folder is created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DiskId(pub u128);

/// How entries travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Wiring {
    /// The head sends to every member and commits (CRAQ, section 4.1, as the multicast option).
    Star,
    /// Each member sends to its successor, the tail commits.
    Chain,
}

/// What a member of the write path may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// It answers clients.
    Serving,
    /// It takes part in every commit and answers no request (I10).
    Syncing,
    /// It is syncing, and it is to be decommissioned: it takes no more operations, and hands off
    /// what it holds (LV-2).
    Leaving,
}

impl Role {
    /// Whether it takes part in commits and answers no request.
    pub fn is_syncing(self) -> bool {
        self != Role::Serving
    }
}

/// One place of the write path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChainMember {
    /// Whose it is.
    pub node: NodeId,
    /// In which of its incarnations.
    pub incarnation: Incarnation,
    /// With which disk.
    pub disk: DiskId,
    /// What it may do.
    pub role: Role,
}

impl ChainMember {
    /// Whose it is: of one incarnation of a node, with one disk.
    pub(crate) fn identity(&self) -> (NodeId, Incarnation, DiskId) {
        (self.node, self.incarnation, self.disk)
    }
}

/// A disk that had a membership and does not serve: it may hold eventual operations that no member
/// has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AbsentMember {
    /// Whose it is.
    pub node: NodeId,
    /// In which incarnation it had the membership: that one gets no other.
    pub incarnation: Incarnation,
    /// The disk.
    pub disk: DiskId,
    /// The epoch after the last one in which it had a membership; of a syncing member, the current
    /// one.
    pub left: u64,
    /// Whether its state was found to differ from the others' (I21). Before it serves, all of it is
    /// compared with its donor's, with any content of its log (DG-3).
    pub must_fill: bool,
}

/// How often a chain began again without all that was acknowledged (AL-4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UncleanRecovery {
    /// How many times an operator ordered it.
    pub count: u64,
    /// The epoch with which it did the last time; 0 for never.
    pub epoch: u64,
}

/// The members of a chain in one epoch.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Configuration {
    /// Its number, from 1.
    pub epoch: u64,
    /// How entries travel.
    pub wiring: Wiring,
    /// The write path, head first.
    pub members: Vec<ChainMember>,
    /// The serving members of the newest configuration that had any: who may restart the chain
    /// alone after all were down (AL-1).
    pub last_serving: Vec<(NodeId, DiskId)>,
    /// Who had a membership and has not come back to serving: a collection that closes for eventual
    /// writers waits for them (MD-4).
    pub absent: Vec<AbsentMember>,
    /// Marks made by entries at or below it may be collected (reconfiguration.md, section 8).
    pub safe_point: EntryId,
    /// Whether, and when, acknowledged writes may have been lost (AL-4).
    pub lossy: UncleanRecovery,
    /// What its members may write, in this epoch.
    pub version: Version,
}

impl Configuration {
    /// Whether `other` has the same head, in the same incarnation.
    pub(crate) fn is_headed_as(&self, other: &Configuration) -> bool {
        self.members[0].identity() == other.members[0].identity()
    }

    /// N: the members of the write path, the syncing one included.
    pub fn size(&self) -> usize {
        self.members.len()
    }

    /// The disks that it speaks of, each with the number that it gives its member.
    pub fn disks(&self) -> impl Iterator<Item = (NodeId, DiskId)> {
        let members = self.members.iter().map(|member| (member.node, member.disk));
        let absent = self.absent.iter().map(|absent| (absent.node, absent.disk));
        members
            .chain(absent)
            .chain(self.last_serving.iter().copied())
    }

    /// How many members it has once those who are absent have come back.
    pub fn whole_size(&self) -> usize {
        let is_no_member = |absent: &&AbsentMember| self.member(absent.node).is_none();
        self.size() + self.absent.iter().filter(is_no_member).count()
    }

    /// Whether this incarnation had a membership and has none any more, if it ever heard of it or
    /// not. It gets no other (SL-4), and ends (I24).
    pub(crate) fn has_left(&self, node: NodeId, incarnation: Incarnation) -> bool {
        let is_it = |other, its| (other, its) == (node, incarnation);
        let mut members = self.members.iter();
        let mut absent = self.absent.iter();
        !members.any(|member| is_it(member.node, member.incarnation))
            && absent.any(|absent| is_it(absent.node, absent.incarnation))
    }

    /// Whether the state on this disk was found to differ, and has not been made equal (DG-3).
    pub fn must_fill(&self, disk: DiskId) -> bool {
        let is_wrong = |absent: &AbsentMember| absent.disk == disk && absent.must_fill;
        self.absent.iter().any(is_wrong)
    }

    /// The membership of `node`, if it has one.
    pub fn member(&self, node: NodeId) -> Option<&ChainMember> {
        self.members.iter().find(|member| member.node == node)
    }

    /// The place of `node` in the write path, from 0.
    pub fn position(&self, node: NodeId) -> Option<usize> {
        self.members.iter().position(|member| member.node == node)
    }

    /// The first member: it numbers entries.
    pub fn head(&self) -> NodeId {
        self.members[0].node
    }

    /// The last serving member.
    pub fn tail(&self) -> NodeId {
        let serving = self.serving().last();
        serving.expect("CONFIG-2: some member serves")
    }

    /// Who records commits first and answers version queries: never a syncing member.
    pub fn commit_point(&self) -> NodeId {
        match self.wiring {
            Wiring::Star => self.head(),
            Wiring::Chain => self.tail(),
        }
    }

    /// The member before `node`.
    pub fn predecessor(&self, node: NodeId) -> Option<NodeId> {
        let before = self.position(node)?.checked_sub(1)?;
        Some(self.members[before].node)
    }

    /// The member after `node`.
    pub fn successor(&self, node: NodeId) -> Option<NodeId> {
        let after = self.position(node)? + 1;
        self.members.get(after).map(|member| member.node)
    }

    /// Who sends `node` its `Hello` and its entries: in star wiring the head, in chain wiring the
    /// predecessor (AD-3, WR-2, WC-2). The head has no predecessor.
    pub fn source(&self, node: NodeId) -> Option<NodeId> {
        match self.wiring {
            Wiring::Star => Some(self.head()).filter(|head| *head != node),
            Wiring::Chain => self.predecessor(node),
        }
    }

    /// To whom `node` sends entries and `Hello`.
    pub fn followers(&self, node: NodeId) -> impl Iterator<Item = NodeId> {
        self.members
            .iter()
            .map(|member| member.node)
            .filter(move |other| self.source(*other) == Some(node))
    }

    /// Everyone but `node`.
    pub fn others(&self, node: NodeId) -> impl Iterator<Item = NodeId> {
        self.members
            .iter()
            .map(|member| member.node)
            .filter(move |other| *other != node)
    }

    /// The members that answer clients, in order.
    pub fn serving(&self) -> impl Iterator<Item = NodeId> {
        self.members
            .iter()
            .filter(|member| member.role == Role::Serving)
            .map(|member| member.node)
    }

    /// The member that joins or leaves, if there is one.
    pub fn syncing(&self) -> Option<NodeId> {
        self.members
            .iter()
            .find(|member| member.role.is_syncing())
            .map(|member| member.node)
    }

    /// The member that is to be decommissioned, if there is one.
    pub fn leaving(&self) -> Option<NodeId> {
        self.syncing().filter(|node| {
            self.member(*node)
                .is_some_and(|member| member.role == Role::Leaving)
        })
    }
}
