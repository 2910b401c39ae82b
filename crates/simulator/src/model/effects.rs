//! What a step of a member does to the state of the model.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use fader_chain::{
    Change, Effect, EntryId, Fate, Fill, Input, Lsn, Mutation, NodeId, Now, Record, Reply, Token,
};

use super::explore::hash;
use super::node::{Shell, register};
use super::scenarios::{Ask, keys_of};
use super::world::{NOW, Packet, World};

impl World {
    /// One input, what it causes at the member itself, and what it then sends.
    pub(super) fn step(&mut self, node: NodeId, input: Input) -> Result<(), String> {
        self.step_at(NOW, node, input)
    }

    pub(super) fn step_at(&mut self, now: Now, node: NodeId, input: Input) -> Result<(), String> {
        let mut inputs = VecDeque::from([input]);
        let mut is_flushed = false;
        loop {
            let input = match inputs.pop_front() {
                Some(input) => input,
                None if is_flushed => break,
                None => Input::Flush,
            };
            is_flushed = matches!(input, Input::Flush);
            let scenario = self.scenario.clone();
            let stepped = self.node_mut(node);
            let mut effects = Vec::new();
            let mut shell = Shell {
                store: &mut stepped.store,
                fixed: &mut stepped.fixed,
                asks: &scenario.asks,
            };
            let result = stepped.replica.step(now, input, &mut shell, &mut effects);
            result.map_err(|error| error.to_string())?;
            let mut persisted = None;
            for effect in effects {
                if let Some(next) = self.perform(node, effect, &mut persisted)? {
                    inputs.push_back(next);
                }
            }
            inputs.extend(persisted.map(Input::Persisted));
        }
        self.rehash(node);
        Ok(())
    }

    fn perform(
        &mut self,
        id: NodeId,
        effect: Effect,
        persisted: &mut Option<Lsn>,
    ) -> Result<Option<Input>, String> {
        match effect {
            Effect::Persist { lsn, record } => {
                if let Record::Operation(operation) = &record {
                    self.check_stamping(id, operation)?;
                }
                let waits = self.scenario.loses_unsynced && !matches!(record, Record::Epoch(_));
                let node = self.node_mut(id);
                if waits || !node.unsynced.is_empty() {
                    node.unsynced.push_back((lsn, record));
                } else {
                    node.durable.take(record);
                    *persisted = Some(lsn);
                }
            }
            Effect::Send { to, envelope } => {
                let packet = Packet { to, envelope };
                let key = hash(&packet);
                let is_known = || self.messages.iter().any(|(other, _)| *other == key);
                if self.scenario.is_fifo || !is_known() {
                    Arc::make_mut(&mut self.messages).push((key, Arc::new(packet)));
                }
            }
            Effect::Apply {
                id: entry,
                mutations,
            } => {
                self.apply(id, entry, &mutations)?;
                return Ok(Some(Input::Applied(entry)));
            }
            Effect::Fill(fill) => return self.fill(id, fill),
            Effect::Reply { token, reply } => self.replied(id, token, reply)?,
            Effect::Coordinator(report) => {
                Arc::make_mut(&mut self.coordinator)
                    .reports
                    .note(id, report);
            }
        }
        Ok(None)
    }

    fn apply(&mut self, id: NodeId, entry: EntryId, mutations: &[Mutation]) -> Result<(), String> {
        let node = self.node_mut(id);
        let logged = node
            .durable
            .entries
            .iter()
            .chain(node.unsynced.iter().filter_map(|(_, record)| match record {
                Record::Entry(entry) => Some(entry),
                _ => None,
            }));
        let logged = logged
            .into_iter()
            .find(|logged| logged.id == entry)
            .cloned();
        let rows = Arc::make_mut(&mut node.store.rows);
        for mutation in mutations {
            match &mutation.value {
                Some(value) => rows.insert(mutation.key.clone(), value.clone()),
                None => rows.remove(&mutation.key),
            };
        }
        node.store.applied = entry;
        node.durable.release(entry);
        let logged =
            logged.ok_or_else(|| format!("I4: {entry} is applied and was never logged"))?;
        let asks = self.scenario.clone();
        Arc::make_mut(&mut self.ledger).commit(&logged, &asks.asks)?;
        let keys = logged.changes.iter().map(Change::key);
        keys.cloned()
            .try_for_each(|key| self.check_state(id, entry, &key))
    }

    fn fill(&mut self, id: NodeId, fill: Fill) -> Result<Option<Input>, String> {
        let node = self.node_mut(id);
        match fill {
            Fill::Begin => node.store.filling = true,
            Fill::Range(range) => {
                let rows = Arc::make_mut(&mut node.store.rows);
                rows.retain(|key, _| *key < range.start || range.end <= *key);
                rows.extend(range.rows);
            }
            Fill::End { at } => {
                (node.store.filling, node.store.applied) = (false, at);
                let keys: Vec<Bytes> = self
                    .ledger
                    .state_at(at)
                    .map(|state| state.keys().cloned().collect())
                    .unwrap_or_default();
                for key in keys {
                    self.check_state(id, at, &key)?;
                }
            }
        }
        Ok(Some(Input::Filled))
    }

    fn replied(&mut self, id: NodeId, token: Token, reply: Reply) -> Result<(), String> {
        let ask = token.0 as usize % self.scenario.asks.len();
        let scenario = self.scenario.clone();
        match reply {
            Reply::Decided { id: Some(entry) } | Reply::Repeated { id: entry, .. } => {
                let ledger = Arc::make_mut(&mut self.ledger);
                let committed = ledger.log.get(entry.index as usize - 1);
                if committed.is_none_or(|committed| committed.entry.id != entry) {
                    return Err(format!("I6: {entry} was answered and is not committed"));
                }
                ledger.known[ask].answered = Some(entry);
                for key in keys_of(&scenario.asks[ask]) {
                    let version = ledger.version_at(key, entry);
                    ledger.show(key, version);
                }
            }
            Reply::Show { at } => {
                let Ask::Read { key, .. } = &scenario.asks[ask] else {
                    return Ok(());
                };
                let began = self.ledger.known[ask].began;
                self.check_shown(id, at, key, began)?;
                Arc::make_mut(&mut self.ledger).known[ask].answered = Some(at);
            }
            Reply::Held(receipt) => {
                let known = &mut Arc::make_mut(&mut self.ledger).known[ask];
                known.stamp = receipt
                    .writes
                    .iter()
                    .find_map(|written| match written.fate {
                        Fate::Tentative(stamp) => Some(stamp),
                        Fate::Settled(..) => None,
                    });
            }
            Reply::ShowRegister(shown) => self.check_covers(id, ask, &shown.register)?,
            Reply::ShowTentative { .. } => {
                let node = &self.nodes[&id].1;
                let Ask::Read { key, .. } = &scenario.asks[ask] else {
                    return Ok(());
                };
                let shown = {
                    let view = node.replica.tentative_view(&node.store);
                    register(&*view, key)
                };
                self.check_covers(id, ask, &shown)?;
            }
            _ => {}
        }
        Ok(())
    }
}
