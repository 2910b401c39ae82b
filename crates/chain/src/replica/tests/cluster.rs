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
    /// Removes one value.
    Remove { key: Bytes, value: Bytes },
    /// Replaces the value, and adds another one.
    PutAdd {
        key: Bytes,
        value: Bytes,
        other: Bytes,
    },
    /// Replaces the values of several registers.
    Puts(Vec<(Bytes, Bytes)>),
}

impl Command {
    /// What it does whatever the state; nothing for a condition.
    fn writes(&self) -> Vec<(Bytes, Vec<ElementOp>)> {
        let group = Bytes::from_static(b"v");
        let add = |value: &Bytes| ElementOp::Add {
            group: group.clone(),
            value: value.clone(),
        };
        match self {
            Command::Put { key, value } => vec![(key.clone(), replace(Some(value)))],
            Command::Delete { key } => vec![(key.clone(), replace(None))],
            Command::Add { key, value } => vec![(key.clone(), vec![add(value)])],
            Command::Remove { key, value } => {
                let value = value.clone();
                vec![(key.clone(), vec![ElementOp::Remove { group, value }])]
            }
            Command::PutAdd { key, value, other } => {
                let mut ops = replace(Some(value));
                ops.push(add(other));
                vec![(key.clone(), ops)]
            }
            Command::Puts(pairs) => {
                let pairs = pairs.iter();
                let puts = pairs.map(|(key, value)| (key.clone(), replace(Some(value))));
                puts.collect()
            }
            Command::Cas { .. } | Command::Move { .. } => Vec::new(),
        }
    }
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

/// The registers of `scope` that have values; `k` to `n` if it names none.
fn show_items(view: &dyn View, scope: Option<&Scope>) -> String {
    let keys = match scope {
        Some(Scope::Keys(keys)) => keys.clone(),
        _ => [&b"k"[..], b"l", b"m", b"n"]
            .map(Bytes::from_static)
            .to_vec(),
    };
    let items = keys.iter().map(|key| (key, shown(view, key)));
    let items = items.filter(|(_, value)| value != "none");
    let items = items.map(|(key, value)| format!("{}={value}", String::from_utf8_lossy(key)));
    items.collect::<Vec<_>>().join(" ")
}

/// A name as scripts write it.
pub(super) fn show_name(name: &RequestId) -> String {
    match name.part {
        0 => format!("{}/{}", name.client, name.seq),
        part => format!("{}/{}/{part}", name.client, name.seq),
    }
}

pub(super) fn show_stamp(stamp: Stamp) -> String {
    let Stamp {
        base,
        clock,
        node,
        counter,
    } = stamp;
    format!("{base}+{clock}.{node}.{counter}")
}

fn show(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Applied => "applied".to_owned(),
        Outcome::Superseded => "superseded".to_owned(),
        Outcome::Refused(reason) => format!("refused, {}", String::from_utf8_lossy(reason)),
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
            unconditional => {
                let writes = unconditional.writes().into_iter();
                let changes = writes.map(|(key, ops)| merge(&key, ops)).collect();
                (changes, "ok".into())
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
        let writes = self.requests.borrow()[&token].writes().into_iter();
        let accepted: Vec<_> = writes.map(|(key, ops)| Accepted { key, ops }).collect();
        Ok(Some(accepted).filter(|accepted| !accepted.is_empty()))
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
    /// Milliseconds by which its wall clock is ahead.
    pub(super) skew: i64,
    /// How many disks it has lost.
    pub(super) losses: u128,
}

fn identity(node: u32, lives: u128, losses: u128) -> Identity {
    Identity {
        node: NodeId(node),
        incarnation: Incarnation(100 * u128::from(node) + lives),
        disk: DiskId(u128::from(node) + (losses << 32)),
    }
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
    /// What sessions have seen, by name.
    pub(super) sessions: BTreeMap<String, Session>,
    /// The session and scope of each request.
    pub(super) asked: BTreeMap<Token, (Option<String>, Scope)>,
    pub(super) reports: controller::Reports,
    /// What happened that a script wants to see.
    pub(super) events: Vec<String>,
    #[cfg(feature = "mutants")]
    pub(super) guards: Guards,
}

impl Cluster {
    pub(super) fn identity(&self, node: u32) -> Identity {
        let member = &self.members[&node];
        identity(node, member.lives, member.losses)
    }

    /// Starts `node`, anew or with what its disk holds.
    pub(super) fn start(&mut self, node: u32) {
        let (durable, store, lives, losses, skew) = match self.members.remove(&node) {
            Some(it) => {
                let Member {
                    lives,
                    losses,
                    skew,
                    ..
                } = it;
                (it.durable, it.host.store, lives + 1, losses, skew)
            }
            None => (Vec::new(), Store::default(), 1, 0, 0),
        };
        let mut folded = Durable::default();
        durable
            .iter()
            .cloned()
            .for_each(|record| folded.take(record));
        let (applied, filling) = (store.applied, store.filling);
        let replica = Replica::new(identity(node, lives, losses), self.tuning);
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
                let told = self.go_on(node, token, &reply);
                let text = self.describe(node, token, reply);
                self.events
                    .push(format!("n{node} answers {}: {text}", token.0));
                self.events.extend(told);
            }
            Effect::Coordinator(report) => {
                self.reports.note(NodeId(node), report);
                if !matches!(report, Report::Floor { .. }) || self.shows_floors {
                    self.events.push(format!("n{node} reports {report:?}"));
                }
            }
        }
        None
    }

    /// The session of the request goes on; gives what it is told.
    fn go_on(&mut self, node: u32, token: Token, reply: &Reply) -> Vec<String> {
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

    fn describe(&self, node: u32, token: Token, reply: Reply) -> String {
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
                let writes = receipt.writes.iter().map(|written| match &written.fate {
                    Fate::Tentative(stamp) => {
                        format!("{} is {}", show_name(&written.name), show_stamp(*stamp))
                    }
                    Fate::Settled(id, outcome) => {
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
        member.losses += 1;
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
