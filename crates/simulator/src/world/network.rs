//! The network: between any two ends messages are late, lost, repeated and overtaken, and any
//! direction of any link may be cut.

use std::collections::BTreeMap;

use fader_chain::{Message, NodeId};

use super::random::Random;

/// Where messages begin and end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum End {
    /// A member.
    Member(NodeId),
    /// The coordinator.
    Coordinator,
}

/// What a message is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Entries on their way down.
    Entries,
    /// Confirmations and commits.
    Confirms,
    /// Greetings.
    Handshakes,
    /// Version queries.
    Queries,
    /// Operations, and that they are held.
    Offers,
    /// Operations for the head.
    Promotions,
    /// Quorum reads.
    Shows,
    /// The exchange of overlays.
    Overlays,
    /// Questions of barriers.
    Barriers,
    /// Fills.
    Fills,
    /// Digests.
    Digests,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 11] = [
        Kind::Entries,
        Kind::Confirms,
        Kind::Handshakes,
        Kind::Queries,
        Kind::Offers,
        Kind::Promotions,
        Kind::Shows,
        Kind::Overlays,
        Kind::Barriers,
        Kind::Fills,
        Kind::Digests,
    ];

    /// What `message` is about.
    pub(crate) fn of(message: &Message) -> Self {
        match message {
            Message::Append { .. } | Message::Resend { .. } => Kind::Entries,
            Message::Confirm { .. } | Message::Commit { .. } => Kind::Confirms,
            Message::Hello { .. } => Kind::Handshakes,
            Message::Query { .. } | Message::QueryAnswer { .. } => Kind::Queries,
            Message::Offer { .. } | Message::Held { .. } => Kind::Offers,
            Message::Promote { .. } => Kind::Promotions,
            Message::Show { .. } | Message::Shown { .. } => Kind::Shows,
            Message::Overlay { .. } => Kind::Overlays,
            Message::Gather { .. } | Message::Gathered { .. } => Kind::Barriers,
            Message::TransferRequest { .. } | Message::TransferChunk { .. } => Kind::Fills,
            Message::Digest { .. } | Message::Compared { .. } => Kind::Digests,
        }
    }
}

/// How a network behaves where it is not cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkFaults {
    /// The least delay, in microseconds.
    pub delay_min: u64,
    /// The greatest delay of a message that is not stray.
    pub delay_max: u64,
    /// Messages lost, of a thousand.
    pub loss: u32,
    /// Messages that arrive twice, of a thousand.
    pub twice: u32,
    /// Messages of which another copy arrives when it is not expected any more, of a thousand.
    pub stray: u32,
    /// The greatest delay of such a copy.
    pub stray_max: u64,
}

/// The network of a world.
#[derive(Clone, Debug)]
pub(crate) struct Network {
    network_faults: NetworkFaults,
    /// Until when each direction is cut.
    cuts: BTreeMap<(End, End), u64>,
    /// Until when messages of one kind are lost in one direction.
    mutes: BTreeMap<(End, End, Kind), u64>,
}

impl Network {
    pub(crate) fn new(network_faults: NetworkFaults) -> Self {
        Network {
            network_faults,
            cuts: BTreeMap::new(),
            mutes: BTreeMap::new(),
        }
    }

    /// Cuts one direction until the time `until`.
    pub(crate) fn cut(&mut self, from: End, to: End, until: u64) {
        let cut = self.cuts.entry((from, to)).or_default();
        *cut = until.max(*cut);
    }

    /// Loses messages of one kind in one direction until the time `until`.
    pub(crate) fn mute(&mut self, from: End, to: End, kind: Kind, until: u64) {
        let mute = self.mutes.entry((from, to, kind)).or_default();
        *mute = until.max(*mute);
    }

    /// From now on these are the fault rates.
    pub(crate) fn change(&mut self, network_faults: NetworkFaults) {
        self.network_faults = network_faults;
    }

    /// Ends all cuts.
    pub(crate) fn heal(&mut self) {
        self.cuts.clear();
        self.mutes.clear();
    }

    /// Whether a message that arrives now gets through.
    pub(crate) fn is_open(&self, from: End, to: End, now: u64) -> bool {
        self.cuts.get(&(from, to)).is_none_or(|until| *until <= now)
    }

    /// Whether a message of this kind that arrives now gets through where nothing is cut.
    pub(crate) fn hears(&self, from: End, to: End, kind: Kind, now: u64) -> bool {
        let mute = self.mutes.get(&(from, to, kind));
        mute.is_none_or(|until| *until <= now)
    }

    /// When the copies of a message sent now arrive; stray copies too.
    pub(crate) fn deliveries(&self, now: u64, random: &mut Random) -> Vec<u64> {
        let network_faults = &self.network_faults;
        let mut deliveries = Vec::new();
        if !random.chance(network_faults.loss) {
            deliveries
                .push(now + random.skewed(network_faults.delay_min, network_faults.delay_max));
        }
        if random.chance(network_faults.twice) {
            deliveries
                .push(now + random.skewed(network_faults.delay_min, network_faults.delay_max));
        }
        if random.chance(network_faults.stray) {
            deliveries
                .push(now + random.between(network_faults.delay_max, network_faults.stray_max));
        }
        deliveries
    }
}
