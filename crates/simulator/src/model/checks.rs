//! What must hold in every state of the model, and at rest.

use std::sync::Arc;

use bytes::Bytes;
use fader_chain::{EntryId, NodeId, Operation, Register, Role, Scope, Stamp};

use super::node::{Node, register};
use super::scenarios::{Ask, keys_of};
use super::world::{CLIENT, NOW, World};

impl World {
    /// G2 (a): an eventual write is stamped above every strong one that was acknowledged.
    pub(super) fn check_stamping(
        &mut self,
        id: NodeId,
        operation: &Operation,
    ) -> Result<(), String> {
        let ask = operation.name.seq as usize - 1;
        let stamped_here = operation.stamp.node == id.0;
        let ledger = Arc::make_mut(&mut self.ledger);
        if operation.name.client != CLIENT || !stamped_here || ledger.known[ask].is_stamped {
            return Ok(());
        }
        ledger.known[ask].is_stamped = true;
        let acknowledged = self.scenario.asks.iter().zip(&self.ledger.known);
        let acknowledged = acknowledged
            .filter(|(ask, _)| ask.is_strong_write() && keys_of(ask).contains(&&operation.key))
            .filter_map(|(_, known)| known.answered);
        match acknowledged.max() {
            Some(strong) if operation.stamp < Stamp::strong(strong) => Err(format!(
                "G2: {id} stamps {:?} though {strong} was acknowledged",
                operation.stamp
            )),
            _ => Ok(()),
        }
    }

    /// What a member's engine shows at `at` is what the committed log gives.
    pub(super) fn check_state(&self, id: NodeId, at: EntryId, key: &Bytes) -> Result<(), String> {
        let node = &self.nodes[&id].1;
        let held = register(&node.store, key);
        let committed = self.ledger.state_at(at).and_then(|state| state.get(key));
        let committed = committed.cloned().unwrap_or_default();
        let same = held.pairs().eq(committed.pairs());
        match same {
            true => Ok(()),
            false => Err(format!(
                "I19: {id} has {held:?} at {at}, the log gives {committed:?}"
            )),
        }
    }

    /// G4: a quorum's read shows what was acknowledged by a quorum before it began.
    pub(super) fn check_covers(
        &mut self,
        id: NodeId,
        ask: usize,
        shown: &Register,
    ) -> Result<(), String> {
        let size = self.nodes[&id]
            .1
            .replica
            .configuration()
            .map_or(0, |it| it.size());
        let Ask::Read { key, r: Some(r) } = &self.scenario.asks[ask] else {
            return Ok(());
        };
        let before = self.ledger.known[ask].before;
        for (place, other) in self.scenario.asks.iter().enumerate() {
            let Ask::Eventual {
                key: written, w, ..
            } = other
            else {
                continue;
            };
            let is_quorum = size < w + r && written == key && before & 1 << place != 0;
            let stamp = self.ledger.known[place].stamp.unwrap_or_default();
            if is_quorum && shown.newest() < stamp {
                return Err(format!(
                    "G4: {id} shows {shown:?}, {stamp:?} was acknowledged"
                ));
            }
        }
        let known = &mut Arc::make_mut(&mut self.ledger).known[ask];
        known.answered = Some(shown.version);
        Ok(())
    }

    /// G3: nothing can happen any more.
    pub(super) fn check_rest(&self) -> Result<(), String> {
        let newest = &self.coordinator.configuration;
        let members: Option<Vec<&Node>> = newest
            .seats
            .iter()
            .map(|seat| {
                let node = &*self.nodes[&seat.node].1;
                let takes_part = node.is_up
                    && node.replica.identity().incarnation == seat.incarnation
                    && node.replica.is_ready();
                (takes_part && seat.role == Role::Serving).then_some(node)
            })
            .collect();
        let Some(members) = members else {
            return Ok(());
        };
        for node in &members {
            let id = node.replica.identity().node;
            let last = self
                .ledger
                .log
                .last()
                .map_or(EntryId::ZERO, |last| last.entry.id);
            if node.replica.last() != last || node.store.applied != last {
                return Err(format!(
                    "G3: at rest {id} ends at {}, not {last}",
                    node.replica.last()
                ));
            }
            if 0 < node.replica.eventual_counts().held {
                return Err(format!("G3: at rest {id} holds what is not settled"));
            }
        }
        Ok(())
    }

    /// G1: a read that began when `began` had been shown shows at least that.
    pub(super) fn check_shown(
        &mut self,
        id: NodeId,
        at: EntryId,
        key: &Bytes,
        began: EntryId,
    ) -> Result<(), String> {
        let node = &self.nodes[&id].1;
        let shown = node.register_at(at, key);
        if shown.version < began {
            return Err(format!(
                "G1: {id} shows {key:?} as of {} though {began} had been shown before",
                shown.version
            ));
        }
        let committed = self.ledger.state_at(at).and_then(|state| state.get(key));
        let committed = committed.cloned().unwrap_or_default();
        if !shown.pairs().eq(committed.pairs()) {
            return Err(format!(
                "I9: {id} shows {shown:?} at {at}, the log gives {committed:?}"
            ));
        }
        let version = shown.version;
        Arc::make_mut(&mut self.ledger).show(key, version);
        Ok(())
    }

    /// Every strong read that could be answered here and now, at every member.
    pub(super) fn check_reads(&mut self) -> Result<(), String> {
        let mut keys: Vec<Bytes> = Vec::new();
        for ask in &self.scenario.asks {
            keys.extend(keys_of(ask).into_iter().cloned());
        }
        keys.sort();
        keys.dedup();
        let serving: Vec<NodeId> = self.serving().collect();
        for key in &keys {
            let mut answers = Vec::new();
            for id in &serving {
                let scope = Scope::Keys(vec![key.clone()]);
                let answer = self.nodes[id].1.replica.answers_now(NOW, &scope);
                answers.extend(answer.map(|at| (*id, at)));
            }
            // Any order of them is possible: first all show, then each must show the greatest.
            for (id, at) in &answers {
                self.check_shown(*id, *at, key, EntryId::ZERO)?;
            }
            let greatest = self.ledger.shown(key);
            for (id, at) in &answers {
                self.check_shown(*id, *at, key, greatest)?;
            }
        }
        Ok(())
    }

    fn serving(&self) -> impl Iterator<Item = NodeId> {
        let serves = |node: &Node| node.is_up && node.replica.may_serve(NOW);
        self.nodes
            .iter()
            .filter(move |(_, (_, node))| serves(node))
            .map(|(id, _)| *id)
    }
}
