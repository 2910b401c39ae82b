//! A state of the model, and every step that can follow.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hash;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use fader_chain::controller::{self, Facts, Reports, Shift};
use fader_chain::{
    Configuration, Envelope, Guard, Guards, Identity, Incarnation, Input, Level, Message, NodeId,
    Now, RequestId, Role, Scope, Session as Seen, Token, Tuning,
};

use super::explore::hash;
use super::ledger::{Known, Ledger};
use super::node::{Node, Session, replica};
use super::scenarios::{Ask, Scenario};

/// The one client of the model; a request's number is its place among the asks, from 1.
pub(super) const CLIENT: u128 = 1;
/// All steps happen now.
pub(super) const NOW: Now = Now {
    monotonic: 1_000,
    wall: 1_000,
};

/// So much later that whatever waits for a while has waited.
const LATER: Now = Now {
    monotonic: 10_000,
    wall: 1_000,
};

/// One step of the model.
#[derive(Clone, Debug)]
pub(super) enum Action {
    /// A message arrives.
    Deliver(u128, Arc<Packet>),
    /// A request arrives at a member, for the first time or again.
    Ask(usize, NodeId),
    /// A member hears of the newest configuration.
    Hear(NodeId),
    /// A member's lease ends.
    EndLease(NodeId),
    /// A member crashes.
    Crash(NodeId),
    /// A member starts again, in a new life.
    Return(NodeId),
    /// The next configuration is published.
    Publish(Option<Shift>, bool),
    /// One more record becomes durable.
    Sync(NodeId),
    /// What a member does after a while: it promotes, and says again what was not answered.
    Tick(NodeId),
}

/// A message and whom it is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Packet {
    pub(super) to: NodeId,
    pub(super) envelope: Envelope,
}

/// What may still happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Budget {
    retries: u8,
    crashes: u8,
    lease_ends: u8,
    returns: u8,
    moves: u8,
    floors: u8,
}

#[derive(Clone, Debug)]
pub(super) struct Coordinator {
    pub(super) configuration: Arc<Configuration>,
    pub(super) reports: Reports,
}

/// A state.
#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) scenario: Arc<Scenario>,
    guards: Guards,
    pub(super) nodes: BTreeMap<NodeId, (u128, Arc<Node>)>,
    /// In the order in which they were sent.
    pub(super) messages: Arc<Vec<(u128, Arc<Packet>)>>,
    pub(super) coordinator: Arc<Coordinator>,
    pub(super) ledger: Arc<Ledger>,
    budget: Budget,
}

impl World {
    /// The first state: everyone has started, and takes part in the first epoch.
    pub(super) fn first(scenario: &Arc<Scenario>, guards: &Guards) -> Result<Self, String> {
        let identity = |number: usize| Identity {
            node: NodeId(number as u32 + 1),
            incarnation: Incarnation(1),
            disk: fader_chain::DiskId(number as u128 + 1),
        };
        let members: Vec<Identity> = (0..scenario.members).map(identity).collect();
        let configuration = controller::first(&members, scenario.wiring);
        let mut world = World {
            scenario: scenario.clone(),
            guards: guards.clone(),
            nodes: BTreeMap::new(),
            messages: Arc::default(),
            coordinator: Arc::new(Coordinator {
                configuration: Arc::new(configuration),
                reports: Reports::default(),
            }),
            ledger: Arc::new(Ledger {
                known: vec![Known::default(); scenario.asks.len()],
                ..Ledger::default()
            }),
            budget: Budget {
                retries: scenario.retries,
                crashes: scenario.crashes,
                lease_ends: scenario.lease_ends,
                returns: scenario.returns,
                moves: scenario.moves,
                floors: scenario.floors,
            },
        };
        for number in 0..scenario.members + scenario.spares {
            let me = identity(number);
            let node = Node::new(me, world.tuning(), guards);
            world.nodes.insert(me.node, (0, Arc::new(node)));
            world.start(me.node)?;
        }
        world.settle()?;
        world.check_reads()?;
        Ok(world)
    }

    /// Everyone hears of the first configuration and is greeted: what happens on the way is part of
    /// the scenarios with a second epoch.
    fn settle(&mut self) -> Result<(), String> {
        let members: Vec<NodeId> = self.coordinator.configuration.serving().collect();
        for member in members {
            let newest = self.coordinator.configuration.clone();
            self.step(member, Input::Configuration(newest))?;
        }
        while !self.messages.is_empty() {
            let (_, packet) = Arc::make_mut(&mut self.messages).remove(0);
            self.step(packet.to, Input::Message(packet.envelope.clone()))?;
        }
        Ok(())
    }

    fn tuning(&self) -> Tuning {
        Tuning {
            window_entries: self.scenario.window,
            promote_after_ms: 1_000,
            ..Tuning::default()
        }
    }

    /// What tells this state from others.
    pub(super) fn fingerprint(&self) -> u128 {
        let mut mixed = hash(&(
            self.budget,
            &self.coordinator.configuration,
            &self.coordinator.reports,
            &self.ledger.shown,
            &self.ledger.known,
        ));
        for (node, _) in self.nodes.values() {
            mixed = mixed.rotate_left(1) ^ node;
        }
        for committed in &self.ledger.log {
            mixed ^= hash(&committed.entry.id);
        }
        // In FIFO links the order within each link is part of the state; elsewhere there is none.
        let mut links: BTreeMap<(NodeId, NodeId), u128> = BTreeMap::new();
        for (key, packet) in self.messages.iter() {
            let link = match self.scenario.is_fifo {
                true => (packet.envelope.from, packet.to),
                false => (NodeId(0), NodeId(0)),
            };
            let sum = links.entry(link).or_default();
            *sum = match self.scenario.is_fifo {
                true => hash(&(*sum, key)),
                false => *sum ^ key,
            };
        }
        hash(&(mixed, links))
    }

    /// Every step that can be taken now.
    pub(super) fn actions(&self) -> Vec<Action> {
        let mut actions = Vec::new();
        let mut links = BTreeSet::new();
        for (key, packet) in self.messages.iter() {
            // Of a FIFO link the oldest message is next.
            if !self.scenario.is_fifo || links.insert((packet.envelope.from, packet.to)) {
                actions.push(Action::Deliver(*key, packet.clone()));
            }
        }
        for (ask, known) in self.ledger.known.iter().enumerate() {
            let is_retry = 0 < known.sent;
            let is_read = matches!(self.scenario.asks[ask], Ask::Read { .. });
            if is_retry && (self.budget.retries == 0 || is_read) {
                continue;
            }
            let takers = self
                .nodes
                .iter()
                .filter(|(_, (_, node))| self.takes(ask, node));
            actions.extend(takers.map(|(id, _)| Action::Ask(ask, *id)));
        }
        for (id, (_, node)) in &self.nodes {
            self.member_actions(*id, node, &mut actions);
        }
        for shift in self.shifts() {
            actions.push(Action::Publish(shift, false));
        }
        if 0 < self.budget.floors {
            actions.push(Action::Publish(None, true));
        }
        actions
    }

    fn takes(&self, ask: usize, node: &Node) -> bool {
        if !node.is_up || !node.replica.is_ready() {
            return false;
        }
        match &self.scenario.asks[ask] {
            Ask::Read { .. } | Ask::Eventual { .. } => node.replica.may_serve(NOW),
            _ => node.replica.is_head(),
        }
    }

    fn member_actions(&self, id: NodeId, node: &Node, actions: &mut Vec<Action>) {
        let newest = &self.coordinator.configuration;
        if node.is_up && node.replica.epoch() < newest.epoch {
            actions.push(Action::Hear(id));
        }
        if node.is_up && node.session == Session::Live && 0 < self.budget.lease_ends {
            actions.push(Action::EndLease(id));
        }
        if node.is_up && 0 < self.budget.crashes {
            actions.push(Action::Crash(id));
        }
        let is_gone = !node.is_up || node.session == Session::Ended;
        if is_gone && 0 < self.budget.returns {
            actions.push(Action::Return(id));
        }
        if node.is_up && !node.unsynced.is_empty() {
            actions.push(Action::Sync(id));
        }
        if node.is_up && 0 < node.replica.eventual_counts().held {
            actions.push(Action::Tick(id));
        }
    }

    /// What the controller might want to change besides what it must.
    fn shifts(&self) -> Vec<Option<Shift>> {
        let newest = &self.coordinator.configuration;
        if self.scenario.epochs <= newest.epoch {
            return Vec::new();
        }
        let mut shifts = vec![None];
        if 0 < self.budget.moves {
            let serving = newest.serving().skip(1);
            shifts.extend(serving.map(|node| Some(Shift::Head(node))));
            shifts.push(Some(Shift::Back(newest.head())));
        }
        shifts
    }

    /// The state after `action`, or nothing if it changes nothing.
    ///
    /// # Errors
    /// The violation, in words.
    pub(super) fn after(&self, action: &Action) -> Result<Option<World>, String> {
        let mut next = self.clone();
        let stepped = catch_unwind(AssertUnwindSafe(|| next.act(action)));
        let changed = stepped.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            Err(format!("a member stopped: {}", text.unwrap_or_default()))
        })?;
        if !changed {
            return Ok(None);
        }
        next.check_reads()?;
        next.forget_messages();
        Ok(Some(next))
    }

    fn act(&mut self, action: &Action) -> Result<bool, String> {
        match action {
            Action::Deliver(key, packet) => return self.deliver(*key, packet),
            Action::Ask(ask, node) => self.ask(*ask, *node)?,
            Action::Hear(node) => {
                let newest = self.coordinator.configuration.clone();
                self.step(*node, Input::Configuration(newest))?;
            }
            Action::EndLease(node) => {
                self.budget.lease_ends -= 1;
                self.node_mut(*node).session = Session::Ended;
                self.step(*node, Input::Lease { until: 0 })?;
            }
            Action::Crash(node) => {
                self.budget.crashes -= 1;
                let crashed = self.node_mut(*node);
                crashed.is_up = false;
                crashed.session = Session::Ended;
                crashed.unsynced.clear();
                self.rehash(*node);
            }
            Action::Return(node) => {
                self.budget.returns -= 1;
                self.come_back(*node)?;
            }
            Action::Publish(shift, floor) => return Ok(self.publish(*shift, *floor)),
            Action::Sync(node) => self.sync(*node)?,
            Action::Tick(node) => return self.tick(*node),
        }
        Ok(true)
    }

    /// A message that is without effect for good is forgotten, wherever that can be told: states
    /// that differ in such messages only are one.
    fn deliver(&mut self, key: u128, packet: &Packet) -> Result<bool, String> {
        let to = packet.to;
        let Some((before, node)) = self.nodes.get(&to) else {
            return Ok(false);
        };
        let is_up = node.is_up;
        if self.scenario.is_fifo {
            let messages = Arc::make_mut(&mut self.messages);
            let first = messages.iter().position(|(other, _)| *other == key);
            messages.remove(first.expect("it is to be delivered"));
            if is_up {
                self.step(to, Input::Message(packet.envelope.clone()))?;
            }
            return Ok(true);
        }
        if !is_up {
            return Ok(false);
        }
        let epoch = node.replica.epoch();
        let is_ready = node.replica.is_ready() && packet.envelope.epoch == epoch;
        let (before, messages) = (*before, self.messages.len());
        let known = hash(&(&self.ledger.known, self.ledger.log.len()));
        self.step(to, Input::Message(packet.envelope.clone()))?;
        let is_same = self.nodes[&to].0 == before
            && self.messages.len() == messages
            && hash(&(&self.ledger.known, self.ledger.log.len())) == known;
        let is_over = match &packet.envelope.message {
            // Said again it would only have entries sent again, and they may arrive again anyway.
            Message::Resend { .. } => is_ready,
            message => is_ready && is_same && self.is_inert(to, message),
        };
        if is_over {
            Arc::make_mut(&mut self.messages).retain(|(other, _)| *other != key);
        }
        Ok(is_over || !is_same)
    }

    /// Whether a message that had no effect will have none as long as the epoch lasts.
    fn is_inert(&self, to: NodeId, message: &Message) -> bool {
        let replica = &self.nodes[&to].1.replica;
        match message {
            Message::Hello { .. } | Message::QueryAnswer { .. } => true,
            Message::Append {
                after,
                entries,
                commit,
            } => {
                let last = entries.last().map_or(*after, |entry| entry.id);
                last <= replica.last() && *commit <= replica.commit()
            }
            Message::Confirm { id } => *id <= replica.last(),
            Message::Commit { id } => *id <= replica.commit(),
            _ => false,
        }
    }

    fn ask(&mut self, ask: usize, node: NodeId) -> Result<(), String> {
        let ledger = Arc::make_mut(&mut self.ledger);
        let (above, before) = (ledger.held_on(&self.scenario.asks, ask), ledger.held());
        let known = &mut ledger.known[ask];
        if 0 < known.sent {
            self.budget.retries -= 1;
        } else {
            (known.above, known.before) = (above, before);
        }
        known.sent += 1;
        // A retry has a token of its own, and the same name.
        let token = Token((ask + self.scenario.asks.len() * usize::from(known.sent - 1)) as u64);
        let request = RequestId {
            client: CLIENT,
            seq: ask as u64 + 1,
            part: 0,
        };
        let input = match &self.scenario.asks[ask] {
            Ask::Read { key, r } => {
                let key = key.clone();
                let ledger = Arc::make_mut(&mut self.ledger);
                ledger.known[ask].began = ledger.shown(&key);
                Input::Read {
                    token,
                    scope: Scope::Keys(vec![key]),
                    level: match r {
                        None => Level::Strong,
                        Some(r) => Level::Eventual {
                            r: *r,
                            sloppy: false,
                        },
                    },
                    session: Seen::default(),
                }
            }
            Ask::Eventual { w, .. } => Input::Write {
                token,
                request: Some(request),
                w: *w,
                sloppy: false,
                session: Seen::default(),
            },
            _ => Input::Submit {
                token,
                request: Some(request),
                barrier: Vec::new(),
            },
        };
        self.step(node, input)
    }

    fn come_back(&mut self, node: NodeId) -> Result<(), String> {
        let tuning = self.tuning();
        let guards = self.guards.clone();
        let back = self.node_mut(node);
        let Identity {
            incarnation, disk, ..
        } = back.replica.identity();
        let me = Identity {
            node,
            incarnation: Incarnation(incarnation.0 + 1),
            disk,
        };
        back.replica = replica(me, tuning, &guards);
        back.unsynced.clear();
        back.fixed = None;
        (back.is_up, back.session) = (true, Session::Live);
        self.start(node)
    }

    fn start(&mut self, node: NodeId) -> Result<(), String> {
        let (durable, store) = {
            let node = &self.nodes[&node].1;
            (node.durable.clone(), &node.store)
        };
        let recovered = Input::Recovered {
            durable,
            applied: store.applied,
            filling: store.filling,
        };
        self.step(node, recovered)?;
        self.step(node, Input::Lease { until: u64::MAX })
    }

    fn publish(&mut self, shift: Option<Shift>, floor: bool) -> bool {
        let newest = &self.coordinator.configuration;
        if self.scenario.epochs <= newest.epoch {
            return false;
        }
        let lives = |node: &&(u128, Arc<Node>)| node.1.is_up && node.1.session == Session::Live;
        let sessions = self.nodes.values().filter(lives);
        let facts = Facts {
            sessions: sessions.map(|(_, node)| node.replica.identity()).collect(),
            reports: self.coordinator.reports.clone(),
            size: self.scenario.members + self.scenario.spares,
            wiring: self.scenario.wiring,
            shift,
            raise_floor: floor,
        };
        let Some(next) = controller::next(newest, &facts) else {
            return false;
        };
        self.budget.moves -= u8::from(shift.is_some());
        self.budget.floors -= u8::from(floor);
        Arc::make_mut(&mut self.coordinator).configuration = Arc::new(next);
        true
    }

    fn sync(&mut self, node: NodeId) -> Result<(), String> {
        let synced = self.node_mut(node);
        let Some((lsn, record)) = synced.unsynced.pop_front() else {
            return Ok(());
        };
        synced.durable.take(record);
        self.step(node, Input::Persisted(lsn))
    }

    fn tick(&mut self, node: NodeId) -> Result<bool, String> {
        let (before, messages) = (self.nodes[&node].0, self.messages.len());
        self.step_at(LATER, node, Input::Tick)?;
        Ok(self.nodes[&node].0 != before || self.messages.len() != messages)
    }

    pub(super) fn node_mut(&mut self, node: NodeId) -> &mut Node {
        let (_, node) = self.nodes.get_mut(&node).expect("nodes do not vanish");
        Arc::make_mut(node)
    }

    pub(super) fn rehash(&mut self, node: NodeId) {
        if let Some((known, node)) = self.nodes.get_mut(&node) {
            *known = hash(&**node);
        }
    }

    /// Messages of epochs that their receivers have left are refused for ever.
    fn forget_messages(&mut self) {
        if !self.guards.has(Guard::EpochCheck) {
            return;
        }
        let nodes = &self.nodes;
        let is_over = |packet: &Packet| {
            let to = nodes.get(&packet.to);
            to.is_none_or(|(_, node)| packet.envelope.epoch < node.replica.epoch())
        };
        if self.messages.iter().any(|(_, packet)| is_over(packet)) {
            Arc::make_mut(&mut self.messages).retain(|(_, packet)| !is_over(packet));
        }
    }

    /// Whether every request that was sent was answered; for traces.
    pub(super) fn answered(&self) -> usize {
        let known = self.ledger.known.iter();
        known.filter(|known| known.answered.is_some()).count()
    }

    /// The state in a few lines.
    pub(super) fn describe(&self) -> String {
        let mut lines = Vec::new();
        let newest = &self.coordinator.configuration;
        let seats: Vec<String> = newest
            .seats
            .iter()
            .map(|seat| match seat.role {
                Role::Serving => seat.node.to_string(),
                Role::Syncing => format!("{}(s)", seat.node),
            })
            .collect();
        lines.push(format!("    epoch {} [{}]", newest.epoch, seats.join(", ")));
        for (id, (_, node)) in &self.nodes {
            let replica = &node.replica;
            lines.push(format!(
                "    {id}: {} epoch {} ready {} last {} commit {}",
                if node.is_up { "up" } else { "down" },
                replica.epoch(),
                replica.is_ready(),
                replica.last(),
                replica.commit(),
            ));
        }
        lines.join("\n")
    }
}
