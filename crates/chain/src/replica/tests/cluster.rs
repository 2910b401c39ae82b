//! A few replicas with their disks, engines and links, all moved by hand.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;

use super::super::Step;
use super::toy::{Store, ToyHost, merge, show, show_items, show_name, show_stamp};
use crate::*;

/// One member with its disk.
pub(super) struct Member {
    pub(super) replica: Replica,
    pub(super) host: ToyHost,
    /// Records of earlier incarnations.
    pub(super) durable: Vec<Record>,
    /// Records written and not yet reported durable.
    pub(super) unsynced: VecDeque<(Lsn, Record)>,
    /// The engine was filled to this id, and that is not yet durable.
    pub(super) filled: Option<EntryId>,
    /// What an engine that is slow has not taken yet; `None` for one that is not.
    pub(super) held: Option<VecDeque<Effect>>,
    pub(super) is_up: bool,
    pub(super) incarnations: u128,
    /// Milliseconds by which its wall clock is ahead.
    pub(super) skew: i64,
    /// How many disks it has lost.
    pub(super) losses: u128,
}

impl Member {
    /// The engine takes what it is handed.
    fn work(&mut self, effect: Effect) -> Option<Input> {
        let store = &mut self.host.store;
        match effect {
            Effect::Apply { id, mutations } => {
                store.apply(id, &mutations);
                return Some(Input::Applied(id));
            }
            Effect::Fill(TransferStep::Begin) => store.filling = true,
            Effect::Fill(TransferStep::Range(range)) => {
                let is_outside = |key: &Bytes| *key < range.start || range.end <= *key;
                store.rows.retain(|key, _| is_outside(key));
                store.rows.extend(range.rows);
            }
            Effect::Fill(TransferStep::End { at }) => {
                self.filled = Some(at);
                return None;
            }
            other => unreachable!("{other:?} is not for the engine"),
        }
        Some(Input::Filled)
    }
}

fn identity(node: u32, incarnations: u128, losses: u128) -> Identity {
    Identity {
        node: NodeId(node),
        incarnation: Incarnation(100 * u128::from(node) + incarnations),
        disk: DiskId(u128::from(node) + (losses << 32)),
    }
}

/// Tokens from here on are those of many writes whose answers no test looks at.
pub(super) const LOADING: CorrelationId = CorrelationId(1_000_000);

/// The whole of it.
#[derive(Default)]
pub(super) struct Cluster {
    pub(super) members: BTreeMap<u32, Member>,
    pub(super) links: BTreeMap<(u32, u32), VecDeque<Envelope>>,
    pub(super) now: Now,
    /// Of members that start from now on.
    pub(super) settings: ReplicaSettings,
    /// Of configurations from now on.
    pub(super) safe_point: EntryId,
    pub(super) lossy: UncleanRecovery,
    /// Whether reports for the safe point are worth seeing.
    pub(super) shows_safe_points: bool,
    /// What sessions have seen, by name.
    pub(super) sessions: BTreeMap<String, Session>,
    /// The session and scope of each request.
    pub(super) asked: BTreeMap<CorrelationId, (Option<String>, Scope)>,
    pub(super) reports: controller::Reports,
    /// What happened that a script wants to see.
    pub(super) events: Vec<String>,
    /// Copies of disks.
    pub(super) copies: BTreeMap<u32, (Vec<Record>, Store)>,
    /// Every record that a member wrote.
    pub(super) written: Vec<(u32, Record)>,
    /// Every answer that was given.
    pub(super) answers: Vec<(CorrelationId, Reply)>,
    /// Every entry that an engine was given.
    pub(super) applied: BTreeSet<EntryId>,
    #[cfg(feature = "mutants")]
    pub(super) guards: Guards,
}

impl Cluster {
    pub(super) fn identity(&self, node: u32) -> Identity {
        let member = &self.members[&node];
        identity(node, member.incarnations, member.losses)
    }

    /// Starts `node`, anew or with what its disk holds.
    pub(super) fn start(&mut self, node: u32) {
        let (durable, store, incarnations, losses, skew) = match self.members.remove(&node) {
            Some(it) => {
                let Member {
                    incarnations,
                    losses,
                    skew,
                    ..
                } = it;
                (it.durable, it.host.store, incarnations + 1, losses, skew)
            }
            None => (Vec::new(), Store::default(), 1, 0, 0),
        };
        let mut folded = RecoveredState::default();
        durable
            .iter()
            .cloned()
            .for_each(|record| folded.take(record));
        let (applied, filling) = (store.applied, store.filling);
        let replica = Replica::new(identity(node, incarnations, losses), self.settings);
        #[cfg(feature = "mutants")]
        let replica = replica.with_guards(self.guards.clone());
        let member = Member {
            replica,
            host: ToyHost {
                store,
                ..ToyHost::default()
            },
            durable,
            unsynced: VecDeque::new(),
            filled: None,
            held: None,
            is_up: true,
            incarnations,
            skew,
            losses,
        };
        self.members.insert(node, member);
        self.step(
            node,
            Input::Recovered {
                durable: folded,
                applied,
                filling,
            },
        );
    }

    /// The member loses what was not synced.
    pub(super) fn crash(&mut self, node: u32) {
        let member = self.members.get_mut(&node).unwrap();
        member.is_up = false;
        member.unsynced.clear();
        (member.filled, member.held) = (None, None);
        self.links
            .retain(|(from, to), _| *from != node && *to != node);
    }

    /// One step and its effects; records and messages wait to be moved.
    pub(super) fn step(&mut self, node: u32, input: Input) {
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            let member = self.members.get_mut(&node).unwrap();
            if !member.is_up {
                return;
            }
            let mut effects = Vec::new();
            let now = Now {
                wall: self.now.wall.saturating_add_signed(member.skew),
                ..self.now
            };
            let stepped = member
                .replica
                .step(now, input, &mut member.host, &mut effects);
            stepped.unwrap();
            for effect in effects {
                inputs.extend(self.perform(node, effect));
            }
        }
    }

    fn perform(&mut self, node: u32, effect: Effect) -> Option<Input> {
        let member = self.members.get_mut(&node).unwrap();
        match effect {
            Effect::Persist { lsn, record } => {
                self.written.push((node, record.clone()));
                member.unsynced.push_back((lsn, record));
            }
            Effect::Send { to, envelope } => {
                self.links
                    .entry((node, to.0))
                    .or_default()
                    .push_back(envelope);
            }
            Effect::Apply { .. } | Effect::Fill(_) => {
                if let Effect::Apply { id, .. } = effect {
                    self.applied.insert(id);
                }
                match &mut member.held {
                    Some(held) => held.push_back(effect),
                    None => return member.work(effect),
                }
            }
            Effect::Reply { token, .. } if LOADING <= token => {}
            Effect::Reply { token, reply } => {
                self.answers.push((token, reply.clone()));
                let told = self.go_on(node, token, &reply);
                let text = self.describe(node, token, reply);
                self.events
                    .push(format!("n{node} answers {}: {text}", token.0));
                self.events.extend(told);
            }
            Effect::Coordinator(report) => {
                self.reports.note(NodeId(node), report);
                let is_usual = matches!(report, Report::Floor { .. } | Report::Heard { .. });
                if !is_usual || self.shows_safe_points {
                    self.events.push(format!("n{node} reports {report:?}"));
                }
            }
            Effect::Stop(stop) => self.events.push(format!("n{node} stops: {stop:?}")),
            Effect::StaleMessage { from, epoch } => {
                let dropped = format!("n{node} drops what {from} said in epoch {epoch}");
                self.events.push(dropped);
            }
        }
        None
    }

    /// The session of the request goes on; gives what it is told.
    fn go_on(&mut self, node: u32, token: CorrelationId, reply: &Reply) -> Vec<String> {
        let Some((Some(name), scope)) = self.asked.get(&token) else {
            return Vec::new();
        };
        let session = self.sessions.remove(name).unwrap_or_default();
        let member = &self.members[&node];
        let next = member
            .replica
            .next_session(session, scope, reply, &member.host.store);
        let (session, told) = next.unwrap();
        self.sessions.insert(name.clone(), session);
        let told = told.iter();
        told.map(|(name, outcome)| format!("and tells {}: {}", show_name(name), show(outcome)))
            .collect()
    }

    fn describe(&self, node: u32, token: CorrelationId, reply: Reply) -> String {
        let member = &self.members[&node];
        let scope = self.asked.get(&token).map(|(_, scope)| scope);
        match reply {
            Reply::Show { at } => {
                let view = member.replica.view_at(at, &member.host.store);
                format!("at {at}: {}", show_items(&*view, scope))
            }
            Reply::ShowTentative { at } => {
                let view = member.replica.tentative_view(&member.host.store);
                format!("at {at}, tentatively: {}", show_items(&*view, scope))
            }
            Reply::ShowRegister(shown) => {
                let values: Vec<_> = shown.register.pairs().map(|(_, value)| value).collect();
                let tentative = match shown.tentative {
                    true => ", tentative",
                    false => "",
                };
                format!("at {}{tentative}: {values:?}", shown.commit)
            }
            Reply::Held(receipt) => {
                let writes = receipt.writes.iter().map(|written| match &written.status {
                    OperationStatus::Tentative(stamp) => {
                        format!("{} is {}", show_name(&written.name), show_stamp(*stamp))
                    }
                    OperationStatus::Settled(id, outcome) => {
                        let name = show_name(&written.name);
                        format!("{name} was settled by {id}: {}", show(outcome))
                    }
                });
                let writes: Vec<String> = writes.collect();
                let detached = match receipt.detached {
                    true => ", detached",
                    false => "",
                };
                format!("held{detached}, {}", writes.join(", "))
            }
            Reply::Outcomes(outcomes) => {
                let outcomes = outcomes.iter();
                let outcomes = outcomes.map(|(id, outcome)| format!("{} by {id}", show(outcome)));
                outcomes.collect::<Vec<_>>().join(", ")
            }
            Reply::Forgotten => "forgotten".to_owned(),
            Reply::Lost(name) => format!("lost {}", show_name(&name)),
            Reply::Decided { id: Some(id) } => format!("done as {id}"),
            Reply::Decided { id: None } => "done without an entry".to_owned(),
            Reply::Repeated { id, result } => {
                format!("as before, {id}: {}", String::from_utf8_lossy(&result))
            }
            Reply::Refused(refusal) => format!("refused, {refusal:?}"),
            Reply::Unknown => "Unknown".to_owned(),
        }
    }

    /// The disk has everything.
    pub(super) fn sync(&mut self, node: u32) -> bool {
        let member = self.members.get_mut(&node).unwrap();
        let lsn = member.unsynced.back().map(|(lsn, _)| *lsn);
        let filled = member.filled.take();
        let records = member.unsynced.drain(..).map(|(_, record)| record);
        member.durable.extend(records);
        if let Some(at) = filled {
            let store = &mut member.host.store;
            (store.filling, store.applied) = (false, at);
            self.step(node, Input::Filled);
        }
        if let Some(lsn) = lsn {
            self.step(node, Input::Persisted(lsn));
        }
        lsn.is_some() || filled.is_some()
    }

    /// The engine takes nothing until it is to take all.
    pub(super) fn hold(&mut self, node: u32) {
        self.members.get_mut(&node).unwrap().held = Some(VecDeque::new());
    }

    /// The engine takes what it has been handed, and is slow no more.
    pub(super) fn take(&mut self, node: u32) {
        loop {
            let member = self.members.get_mut(&node).unwrap();
            let Some(effect) = member.held.as_mut().and_then(VecDeque::pop_front) else {
                member.held = None;
                return;
            };
            if let Some(input) = member.work(effect) {
                self.step(node, input);
            }
        }
    }

    /// The member's disk is gone; it is down.
    pub(super) fn lose(&mut self, node: u32) {
        self.crash(node);
        let member = self.members.get_mut(&node).unwrap();
        member.losses += 1;
        member.durable.clear();
        member.host.store = Store::default();
    }

    /// The member's disk is copied.
    pub(super) fn copy(&mut self, node: u32) {
        let member = &self.members[&node];
        let copy = (member.durable.clone(), member.host.store.clone());
        self.copies.insert(node, copy);
    }

    /// The copy is put back in the disk's place; the member is down.
    pub(super) fn paste(&mut self, node: u32) {
        self.crash(node);
        let copy = self.copies[&node].clone();
        let member = self.members.get_mut(&node).unwrap();
        (member.durable, member.host.store) = copy;
    }

    /// The member's engine loses a row, and no check notices.
    pub(super) fn bit_rot(&mut self, node: u32, key: &[u8]) {
        let rotten = self.members.get_mut(&node).unwrap();
        rotten.host.store.rows.remove(key).unwrap();
    }

    /// What is different in the engines of two members.
    pub(super) fn differences(&self, one: u32, other: u32) -> Vec<Bytes> {
        let (one, other) = (
            &self.members[&one].host.store,
            &self.members[&other].host.store,
        );
        let keys = one.rows.keys().chain(other.rows.keys());
        let keys: BTreeSet<&Bytes> = keys
            .filter(|key| one.rows.get(*key) != other.rows.get(*key))
            .collect();
        keys.into_iter().cloned().collect()
    }

    /// The head settles an eventual operation, as if it had been promoted.
    pub(super) fn settle(&mut self, node: u32, key: &Bytes, ops: Vec<ElementOp>, stamp: Stamp) {
        let member = self.members.get_mut(&node).unwrap();
        let mut effects = Vec::new();
        let mut step = Step {
            now: self.now,
            host: &mut member.host,
            effects: &mut effects,
        };
        let changes = vec![merge(key, ops)];
        let appended = member.replica.append(
            |_| stamp,
            None,
            Outcome::Applied.encode(),
            changes,
            &mut step,
        );
        appended.unwrap();
        for effect in effects {
            self.perform(node, effect);
        }
    }

    /// Sends what the members have gathered.
    pub(super) fn flush(&mut self) {
        let nodes: Vec<u32> = self.members.keys().copied().collect();
        for node in nodes {
            self.step(node, Input::Flush);
        }
    }

    /// Delivers the oldest message of a link.
    pub(super) fn deliver(&mut self, from: u32, to: u32) -> bool {
        let message = self
            .links
            .get_mut(&(from, to))
            .and_then(VecDeque::pop_front);
        let Some(envelope) = message else {
            return false;
        };
        if self.members.get(&to).is_some_and(|member| member.is_up) {
            self.step(to, Input::Message(envelope));
        }
        true
    }

    /// Disks and links work until nothing is left to do.
    pub(super) fn run(&mut self) {
        for _ in 0..10_000 {
            self.flush();
            let nodes: Vec<u32> = self.members.keys().copied().collect();
            let mut moved = false;
            for node in nodes {
                moved |= self.sync(node);
            }
            let links: Vec<(u32, u32)> = self.links.keys().copied().collect();
            for (from, to) in links {
                moved |= self.deliver(from, to);
            }
            if !moved {
                return;
            }
        }
        panic!("it does not come to rest");
    }

    /// A configuration reaches those members.
    pub(super) fn configure(&mut self, configuration: &Arc<Configuration>, nodes: &[u32]) {
        for node in nodes {
            self.step(*node, Input::Configuration(configuration.clone()));
        }
    }
}
