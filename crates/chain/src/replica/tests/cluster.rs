//! A few replicas with their disks, engines and links, all moved by hand.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;

use super::super::Step;
use crate::*;

/// A request as the toy service understands it: registers with one group and one value.
#[derive(Clone, Debug)]
pub(super) enum Command {
    /// Replaces the value.
    Put { key: Bytes, value: Bytes },
    /// Removes the value.
    Delete { key: Bytes },
    /// Replaces the value if it is `old` (`none` for absent).
    Cas {
        key: Bytes,
        old: Bytes,
        value: Bytes,
    },
    /// Moves the value of one register to another, if the first has one and the second none.
    Move { from: Bytes, to: Bytes },
    /// Adds a value beside those that are there.
    Add { key: Bytes, value: Bytes },
}

/// A member's engine.
#[derive(Clone, Debug, Default)]
pub(super) struct Store {
    pub(super) rows: BTreeMap<Bytes, Bytes>,
    pub(super) applied: EntryId,
    pub(super) filling: bool,
}

impl Store {
    fn apply(&mut self, id: EntryId, mutations: &[Mutation]) {
        for mutation in mutations {
            let key = &mutation.key;
            match &mutation.value {
                Some(value) => drop(self.rows.insert(key.clone(), value.clone())),
                None => drop(self.rows.remove(key)),
            }
        }
        self.applied = id;
    }
}

impl View for Store {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, ViewError> {
        Ok(self.rows.get(key).cloned())
    }

    fn scan(&self, start: &[u8], end: &[u8], direction: Direction) -> Scan<'_> {
        let range = self
            .rows
            .range(Bytes::copy_from_slice(start)..Bytes::copy_from_slice(end));
        let pairs = range.map(|(key, value)| Ok((key.clone(), value.clone())));
        match direction {
            Direction::Forward => Box::new(pairs),
            Direction::Backward => Box::new(pairs.rev()),
        }
    }
}

/// The toy service over a store.
#[derive(Debug, Default)]
pub(super) struct ToyHost {
    pub(super) store: Store,
    pub(super) requests: RefCell<BTreeMap<Token, Command>>,
    pub(super) fixed: Option<Store>,
}

/// The values of a register, joined by `+`; `none` when there are none.
pub(super) fn shown(view: &dyn View, key: &Bytes) -> String {
    let register = view
        .get(key)
        .unwrap()
        .map(|bytes| Register::decode(bytes).unwrap());
    let register = register.unwrap_or_default();
    let values: Vec<_> = register
        .pairs()
        .map(|(_, value)| String::from_utf8_lossy(value).into_owned())
        .collect();
    match values.is_empty() {
        true => "none".to_owned(),
        false => values.join("+"),
    }
}

/// Element operations that put one value in place of all others, or remove all.
pub(super) fn replace(value: Option<&Bytes>) -> Vec<ElementOp> {
    let group = Bytes::from_static(b"v");
    let mut ops = vec![ElementOp::Clear {
        group: group.clone(),
    }];
    if let Some(value) = value {
        ops.push(ElementOp::Add {
            group,
            value: value.clone(),
        });
    }
    ops
}

fn merge(key: &Bytes, ops: Vec<ElementOp>) -> Change {
    Change::Merge {
        key: key.clone(),
        ops,
        marks: Marks::Kept,
    }
}

impl Host for ToyHost {
    fn committed(&self) -> &dyn View {
        &self.store
    }

    fn decide(&self, token: Token, newest: &dyn View) -> Result<Decided, ViewError> {
        let requests = self.requests.borrow();
        let (changes, result) = match &requests[&token] {
            Command::Put { key, value } => (vec![merge(key, replace(Some(value)))], "ok".into()),
            Command::Delete { key } => (vec![merge(key, replace(None))], "ok".into()),
            Command::Cas { key, old, value } => {
                let found = shown(newest, key);
                match found.as_bytes() == old {
                    true => (vec![merge(key, replace(Some(value)))], "yes".into()),
                    false => (Vec::new(), format!("no, it is {found}")),
                }
            }
            Command::Move { from, to } => match (shown(newest, from), shown(newest, to)) {
                (value, absent) if value != "none" && absent == "none" => {
                    let value = Bytes::from(value);
                    let changes =
                        vec![merge(from, replace(None)), merge(to, replace(Some(&value)))];
                    (changes, "moved".into())
                }
                _ => (Vec::new(), "not moved".into()),
            },
            Command::Add { key, value } => {
                let add = ElementOp::Add {
                    group: Bytes::from_static(b"v"),
                    value: value.clone(),
                };
                (vec![merge(key, vec![add])], "ok".into())
            }
        };
        Ok(Decided {
            result: Bytes::from(result),
            changes,
            depends_on_state: true,
        })
    }

    fn accept(
        &self,
        token: Token,
        _tentative: &dyn View,
    ) -> Result<Option<Vec<Accepted>>, ViewError> {
        let (key, ops) = match &self.requests.borrow()[&token] {
            Command::Put { key, value } => (key.clone(), replace(Some(value))),
            Command::Delete { key } => (key.clone(), replace(None)),
            Command::Add { key, value } => {
                let add = ElementOp::Add {
                    group: Bytes::from_static(b"v"),
                    value: value.clone(),
                };
                (key.clone(), vec![add])
            }
            Command::Cas { .. } | Command::Move { .. } => return Ok(None),
        };
        Ok(Some(vec![Accepted { key, ops }]))
    }

    /// A register takes at most two values.
    fn settle(&self, operation: &Operation, newest: &dyn View) -> Result<Settled, ViewError> {
        let register = newest.get(&operation.key)?;
        let mut register = register.map_or(Ok(Register::default()), Register::decode)?;
        let before = register.pairs().count();
        register.merge(&operation.ops, operation.stamp);
        let after = register.pairs().count();
        if 2 < after && before < after {
            return Ok(Settled::Refused(Bytes::from_static(b"limit")));
        }
        Ok(Settled::Apply(vec![merge(
            &operation.key,
            operation.ops.clone(),
        )]))
    }

    fn fix(&mut self) {
        self.fixed = Some(self.store.clone());
    }

    fn fixed(&self) -> Option<(EntryId, &dyn View)> {
        let fixed = self.fixed.as_ref()?;
        Some((fixed.applied, fixed))
    }

    fn unfix(&mut self) {
        self.fixed = None;
    }
}

/// One member with its disk.
pub(super) struct Member {
    pub(super) replica: Replica,
    pub(super) host: ToyHost,
    /// Records of earlier lives.
    pub(super) durable: Vec<Record>,
    /// Records written and not yet reported durable.
    pub(super) unsynced: VecDeque<(Lsn, Record)>,
    /// The engine was filled to this id, and that is not yet durable.
    pub(super) filled: Option<EntryId>,
    /// What an engine that is slow has not taken yet; `None` for one that is not.
    pub(super) held: Option<Vec<(EntryId, Arc<Vec<Mutation>>)>>,
    pub(super) is_up: bool,
    pub(super) lives: u128,
}

/// Tokens from here on are those of many writes whose answers nobody wants to see.
pub(super) const LOADING: Token = Token(1_000_000);

/// The whole of it.
#[derive(Default)]
pub(super) struct Cluster {
    pub(super) members: BTreeMap<u32, Member>,
    pub(super) links: BTreeMap<(u32, u32), VecDeque<Envelope>>,
    pub(super) now: Now,
    /// Of members that start from now on.
    pub(super) tuning: Tuning,
    /// Of configurations from now on.
    pub(super) floor: EntryId,
    /// Whether reports for the floor are worth seeing.
    pub(super) shows_floors: bool,
    /// What happened that a script wants to see.
    pub(super) events: Vec<String>,
    #[cfg(feature = "mutants")]
    pub(super) guards: Guards,
}

impl Cluster {
    pub(super) fn identity(node: u32, life: u128) -> Identity {
        Identity {
            node: NodeId(node),
            incarnation: Incarnation(life),
            disk: DiskId(u128::from(node)),
        }
    }

    /// Starts `node`, anew or with what its disk holds.
    pub(super) fn start(&mut self, node: u32) {
        let (durable, store, lives) = match self.members.remove(&node) {
            Some(member) => (member.durable, member.host.store, member.lives + 1),
            None => (Vec::new(), Store::default(), 1),
        };
        let mut folded = Durable::default();
        durable
            .iter()
            .cloned()
            .for_each(|record| folded.take(record));
        let (applied, filling) = (store.applied, store.filling);
        let replica = Replica::new(Self::identity(node, lives), self.tuning);
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
            lives,
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
            let stepped = member
                .replica
                .step(self.now, input, &mut member.host, &mut effects);
            stepped.unwrap();
            for effect in effects {
                inputs.extend(self.perform(node, effect));
            }
        }
    }

    fn perform(&mut self, node: u32, effect: Effect) -> Option<Input> {
        let member = self.members.get_mut(&node).unwrap();
        match effect {
            Effect::Persist { lsn, record } => member.unsynced.push_back((lsn, record)),
            Effect::Send { to, envelope } => {
                self.links
                    .entry((node, to.0))
                    .or_default()
                    .push_back(envelope);
            }
            Effect::Apply { id, mutations } => match &mut member.held {
                Some(held) => held.push((id, mutations)),
                None => {
                    member.host.store.apply(id, &mutations);
                    return Some(Input::Applied(id));
                }
            },
            Effect::Fill(fill) => {
                let store = &mut member.host.store;
                match fill {
                    Fill::Begin => store.filling = true,
                    Fill::Range(range) => {
                        store
                            .rows
                            .retain(|key, _| *key < range.start || range.end <= *key);
                        store.rows.extend(range.rows);
                    }
                    Fill::End { at } => {
                        member.filled = Some(at);
                    }
                }
            }
            Effect::Reply { token, .. } if LOADING <= token => {}
            Effect::Reply { token, reply } => {
                let text = self.describe(node, reply);
                self.events
                    .push(format!("n{node} answers {}: {text}", token.0));
            }
            Effect::Coordinator(report) => {
                if !matches!(report, Report::Floor { .. }) || self.shows_floors {
                    self.events.push(format!("n{node} reports {report:?}"));
                }
            }
        }
        None
    }

    fn describe(&self, node: u32, reply: Reply) -> String {
        let member = &self.members[&node];
        match reply {
            Reply::Show { at } => {
                let view = member.replica.view_at(at, &member.host.store);
                let keys = member.host.store.rows.keys();
                let items = keys.filter(|key| key[0] != 0xff).cloned();
                let mut items: Vec<Bytes> = items.collect();
                let unapplied = member.replica.last() != member.host.store.applied;
                if unapplied {
                    items.extend([Bytes::from_static(b"k"), Bytes::from_static(b"l")]);
                    items.sort();
                    items.dedup();
                }
                let shown: Vec<_> = items
                    .iter()
                    .map(|key| (key, shown(&*view, key)))
                    .filter(|(_, value)| value != "none")
                    .map(|(key, value)| format!("{}={value}", String::from_utf8_lossy(key)))
                    .collect();
                format!("at {at}: {}", shown.join(" "))
            }
            Reply::Decided { id: Some(id) } => format!("done as {id}"),
            Reply::Decided { id: None } => "done without an entry".to_owned(),
            Reply::Repeated { id, result } => {
                format!("as before, {id}: {}", String::from_utf8_lossy(&result))
            }
            Reply::Refused(refusal) => format!("refused, {refusal:?}"),
            other => format!("{other:?}"),
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
            self.step(node, Input::Filled(at));
        }
        if let Some(lsn) = lsn {
            self.step(node, Input::Persisted(lsn));
        }
        lsn.is_some() || filled.is_some()
    }

    /// The engine takes nothing until it is to take all.
    pub(super) fn hold(&mut self, node: u32) {
        self.members.get_mut(&node).unwrap().held = Some(Vec::new());
    }

    /// The engine takes what it has been handed, and is slow no more.
    pub(super) fn take(&mut self, node: u32) {
        let held = self.members.get_mut(&node).unwrap().held.take();
        for (id, mutations) in held.unwrap_or_default() {
            let member = self.members.get_mut(&node).unwrap();
            member.host.store.apply(id, &mutations);
            self.step(node, Input::Applied(id));
        }
    }

    /// The member's disk is gone; it is down.
    pub(super) fn lose(&mut self, node: u32) {
        self.crash(node);
        let member = self.members.get_mut(&node).unwrap();
        member.durable.clear();
        member.host.store = Store::default();
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
        let appended = member
            .replica
            .append(|_| stamp, None, Bytes::new(), changes, &mut step);
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
        panic!("it does not come to rest: {:?}", self.links);
    }

    /// A configuration reaches those members.
    pub(super) fn configure(&mut self, configuration: &Arc<Configuration>, nodes: &[u32]) {
        for node in nodes {
            self.step(*node, Input::Configuration(configuration.clone()));
        }
    }
}
