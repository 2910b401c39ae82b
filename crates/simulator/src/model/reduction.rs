//! What happens with the step that makes it possible, since nothing is lost by that
//! (docs/internals/testing.md, "What the model leaves out").

use fader_chain::{EntryId, Envelope, Identity, Message, NodeId};

use super::scenarios::Delivery;
use super::step::{NOW, Packet};
use super::world::{Cause, MEMBERS_MAX, State, World};

/// What tells `to` that a member takes part in `epoch`, and nothing else.
fn word(from: Identity, epoch: u64, to: usize) -> Packet {
    let message = Message::Overlay {
        asks: false,
        commit: EntryId::ZERO,
        clock: NOW.wall,
        operations: Vec::new(),
    };
    Packet {
        to: NodeId(to as u32 + 1),
        envelope: Envelope {
            epoch,
            from: from.node,
            incarnation: from.incarnation,
            message,
        },
    }
}

impl World {
    /// What happens before anything else can make a difference to it. Members that take part in one
    /// epoch know that of each other, and what changes nothing in its receiver arrives.
    pub(super) fn hurry(&mut self, before: &State, state: &mut State) -> Result<(), String> {
        let epoch = |world: &World, state: &State, place: usize| {
            let brief = world.brief(state, place);
            brief.is_ready.then_some((brief.epoch, brief.identity))
        };
        for (from, to) in self.pairs() {
            let (one, other) = (epoch(self, state, from), epoch(self, state, to));
            let is_new = one != epoch(self, before, from) || other != epoch(self, before, to);
            if let (Some((epoch, identity)), Some((other, _))) = (one, other)
                && is_new
                && epoch == other
                && !self.claims
            {
                let packet = self.packets.put(word(identity, epoch, to)).0;
                self.happen(state, to, Cause::Message(packet))?;
            }
        }
        let mut is_stable = false;
        while !is_stable {
            is_stable = true;
            for link in 0..state.links.len() {
                let place = link / MEMBERS_MAX;
                for packet in self.queues.list(state.links[link]).to_vec() {
                    if self.changes_nothing(state, place, packet)? {
                        state.links[link] = self.queues.without(state.links[link], packet);
                        self.happen(state, place, Cause::Message(packet))?;
                        is_stable = false;
                    }
                }
            }
        }
        Ok(())
    }

    fn pairs(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let count = self.count();
        let pairs = (0..count).flat_map(move |from| (0..count).map(move |to| (from, to)));
        pairs.filter(|(from, to)| from != to)
    }

    /// Whether a message changes nothing in its receiver now, nor as long as its epoch lasts. The
    /// receiver holds, or has heard, what the message says, and answers at most.
    fn changes_nothing(
        &mut self,
        state: &State,
        place: usize,
        packet: u32,
    ) -> Result<bool, String> {
        let stays = match &self.packets[packet].envelope.message {
            Message::Commit { .. }
            | Message::Confirm { .. }
            | Message::Offer { .. }
            | Message::Held { .. } => true,
            Message::Overlay { .. } => !self.claims,
            _ => false,
        };
        if !stays || !self.is_heard(state, packet) {
            return Ok(false);
        }
        let outcome = self.outcome(state.nodes[place], Cause::Message(packet))?;
        let outcome = &self.outcomes[outcome as usize];
        Ok(outcome.node == state.nodes[place]
            && outcome.events.is_empty()
            && outcome.reports.is_empty())
    }

    /// Whether a message arrives with the step that sends it, or never: an overlay that holds
    /// nothing, where no read claims a quorum by it.
    pub(super) fn is_instant(&self, packet: u32) -> bool {
        let scenario = &self.scene.scenario;
        let message = &self.packets[packet].envelope.message;
        let is_plain = match message {
            Message::Overlay { operations, .. } => operations.is_empty() && !self.claims,
            Message::Resend { .. } => true,
            _ => false,
        };
        is_plain && scenario.delivery == Delivery::Together
    }

    /// Whether the receiver takes part in the message's epoch now.
    pub(super) fn is_heard(&self, state: &State, packet: u32) -> bool {
        let Packet { to, envelope } = &self.packets[packet];
        let brief = self.brief(state, to.0 as usize - 1);
        brief.is_ready && brief.epoch == envelope.epoch
    }
}
