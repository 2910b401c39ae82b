//! Packets under way: they are sent, and lost when their receiver is down or has left their epoch.

use fader_chain::Guard;

use super::{State, World};
use crate::model::links::links_to;
use crate::model::scenarios::Delivery;

impl World {
    /// Puts a packet on its way.
    pub(in crate::model) fn send(&mut self, state: &mut State, link: usize, packet: u32) {
        if self.scene.scenario.delivery == Delivery::AnyOrder {
            state.links[0] = self.queues.add(state.links[0], packet);
        } else if self.hears(state, packet) {
            let queue = self
                .queues
                .push(state.links[link], packet, &mut self.packets);
            state.links[link] = queue;
        }
    }

    /// Whether a message is not refused for ever: its receiver lives, and has not left its epoch.
    fn hears(&self, state: &State, packet: u32) -> bool {
        let packet = &self.packets[packet];
        let place = packet.to.0 as usize - 1;
        let brief = self.brief(state, place);
        let is_old = packet.envelope.epoch < brief.epoch;
        place < self.count() && brief.is_up && !(is_old && self.scene.guards.has(Guard::EpochCheck))
    }

    /// A member has left its epoch or is down: of what is under way to it much is lost.
    pub(super) fn cut_links(&mut self, state: &mut State, place: usize) {
        let is_fifo = self.scene.scenario.delivery != Delivery::AnyOrder;
        for link in links_to(place).filter(|_| is_fifo) {
            state.links[link] = self.cut_link(state, state.links[link]);
        }
        if !is_fifo {
            state.links[0] = self.cut_link(state, state.links[0]);
        }
    }

    fn cut_link(&mut self, state: &State, queue: u32) -> u32 {
        let list = self.queues.list(queue);
        let kept: Vec<u32> = list
            .iter()
            .copied()
            .filter(|packet| self.hears(state, *packet))
            .collect();
        match kept.len() == list.len() {
            true => queue,
            false => self.queues.put(kept),
        }
    }
}
