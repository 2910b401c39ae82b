//! The configuration of a chain: who its members are, in which order, in which epoch
//! (docs/protocol/chain.md, section 2).
//!
//! Invariants:
//! - C1 serving seats come first, then at most one that syncs or leaves; nodes are distinct.
//! - C2 there is at least one serving seat: the last serving member is never removed (RM-2).
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

/// One life of a node's process, chosen at random when it starts.
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
    /// It takes part in every commit and answers nobody (I10).
    Syncing,
    /// As syncing, but it is to leave for good: it takes no more operations, and hands on what it
    /// holds (LV-2).
    Leaving,
}

impl Role {
    /// Whether it takes part in commits and answers nobody.
    pub fn is_syncing(self) -> bool {
        self != Role::Serving
    }
}

/// One place of the write path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seat {
    /// Whose it is.
    pub node: NodeId,
    /// In which of its lives.
    pub incarnation: Incarnation,
    /// With which disk.
    pub disk: DiskId,
    /// What it may do.
    pub role: Role,
}

impl Seat {
    /// Whose it is: of one life of a node, with one disk.
    pub(crate) fn life(&self) -> (NodeId, Incarnation, DiskId) {
        (self.node, self.incarnation, self.disk)
    }
}

/// A disk that had a seat and does not serve: it may hold eventual operations that no member has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Away {
    /// Whose it is.
    pub node: NodeId,
    /// In which life it had the seat: that one gets no other.
    pub incarnation: Incarnation,
    /// The disk.
    pub disk: DiskId,
    /// The epoch after the last one in which it had a seat; of a syncing member, the current one.
    pub left: u64,
    /// Whether its state was found to differ from the others' (I21): before it serves, it is
    /// compared with its greeter's, all of it, whatever its log holds (DG-3).
    pub must_fill: bool,
}

/// How often a chain began again without all that was acknowledged (AL-4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lossy {
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
    pub seats: Vec<Seat>,
    /// The serving members of the newest configuration that had any: who may restart the chain
    /// alone after all were down (AL-1).
    pub last_serving: Vec<(NodeId, DiskId)>,
    /// Who had a seat and has not come back to serving: a collection that closes for eventual
    /// writers waits for them (MD-4).
    pub away: Vec<Away>,
    /// Marks made by entries at or below it may be collected (reconfiguration.md, section 8).
    pub floor: EntryId,
    /// Whether, and when, acknowledged writes may have been lost (AL-4).
    pub lossy: Lossy,
    /// What its members may write, in this epoch.
    pub version: Version,
}

impl Configuration {
    /// Whether `other` has the same head, in the same life.
    pub(crate) fn is_headed_as(&self, other: &Configuration) -> bool {
        self.seats[0].life() == other.seats[0].life()
    }

    /// N: the members of the write path, the syncing one included.
    pub fn size(&self) -> usize {
        self.seats.len()
    }

    /// The disks that it speaks of, each with the number that it gives its member.
    pub fn disks(&self) -> impl Iterator<Item = (NodeId, DiskId)> {
        let seats = self.seats.iter().map(|seat| (seat.node, seat.disk));
        let away = self.away.iter().map(|away| (away.node, away.disk));
        seats.chain(away).chain(self.last_serving.iter().copied())
    }

    /// How many members it has once those who are away have come back.
    pub fn whole_size(&self) -> usize {
        let has_no_seat = |away: &&Away| self.seat(away.node).is_none();
        self.size() + self.away.iter().filter(has_no_seat).count()
    }

    /// Whether this life had a seat and has none any more, if it ever heard of it or not: it gets
    /// no other (SL-4), and ends (I24).
    pub(crate) fn has_left(&self, node: NodeId, incarnation: Incarnation) -> bool {
        let is_it = |other, life| (other, life) == (node, incarnation);
        let mut seats = self.seats.iter();
        let mut away = self.away.iter();
        !seats.any(|seat| is_it(seat.node, seat.incarnation))
            && away.any(|away| is_it(away.node, away.incarnation))
    }

    /// Whether the state on this disk was found to differ, and has not been made equal (DG-3).
    pub fn must_fill(&self, disk: DiskId) -> bool {
        let is_wrong = |away: &Away| away.disk == disk && away.must_fill;
        self.away.iter().any(is_wrong)
    }

    /// The seat of `node`, if it has one.
    pub fn seat(&self, node: NodeId) -> Option<&Seat> {
        self.seats.iter().find(|seat| seat.node == node)
    }

    /// The place of `node` in the write path, from 0.
    pub fn position(&self, node: NodeId) -> Option<usize> {
        self.seats.iter().position(|seat| seat.node == node)
    }

    /// The first member: it numbers entries.
    pub fn head(&self) -> NodeId {
        self.seats[0].node
    }

    /// The last serving member.
    pub fn tail(&self) -> NodeId {
        let serving = self.serving().last();
        serving.expect("C2: some member serves")
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
        Some(self.seats[before].node)
    }

    /// The member after `node`.
    pub fn successor(&self, node: NodeId) -> Option<NodeId> {
        let after = self.position(node)? + 1;
        self.seats.get(after).map(|seat| seat.node)
    }

    /// Who sends `node` its `Hello` and its entries: in star wiring the head, in chain wiring the
    /// predecessor (AD-3, WR-2, WC-2). The head has nobody.
    pub fn source(&self, node: NodeId) -> Option<NodeId> {
        match self.wiring {
            Wiring::Star => Some(self.head()).filter(|head| *head != node),
            Wiring::Chain => self.predecessor(node),
        }
    }

    /// To whom `node` sends entries and `Hello`.
    pub fn followers(&self, node: NodeId) -> impl Iterator<Item = NodeId> {
        self.seats
            .iter()
            .map(|seat| seat.node)
            .filter(move |other| self.source(*other) == Some(node))
    }

    /// Everyone but `node`.
    pub fn others(&self, node: NodeId) -> impl Iterator<Item = NodeId> {
        self.seats
            .iter()
            .map(|seat| seat.node)
            .filter(move |other| *other != node)
    }

    /// The members that answer clients, in order.
    pub fn serving(&self) -> impl Iterator<Item = NodeId> {
        self.seats
            .iter()
            .filter(|seat| seat.role == Role::Serving)
            .map(|seat| seat.node)
    }

    /// The member that joins or leaves, if there is one.
    pub fn syncing(&self) -> Option<NodeId> {
        self.seats
            .iter()
            .find(|seat| seat.role.is_syncing())
            .map(|seat| seat.node)
    }

    /// The member that is to leave for good, if there is one.
    pub fn leaving(&self) -> Option<NodeId> {
        self.syncing().filter(|node| {
            self.seat(*node)
                .is_some_and(|seat| seat.role == Role::Leaving)
        })
    }
}
