//! What one member does with one input: its next state, and what leaves it.
//!
//! Nothing here looks at other members. So what a member in one state does with one input is
//! computed once, for all states of the whole in which that happens.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use fader_chain::{
    Change, Configuration, CorrelationId, Effect, EntryId, Envelope, Identity, Incarnation, Input,
    Lsn, Mutation, NodeId, Now, Operation, OperationStatus, Record, ReplicaSettings, Reply, Report,
    RequestId, Scope, Session as Seen, Stamp, TransferStep, WriteAck, result_key,
};

use super::client_requests::{COLLECTION, ClientRequest, keys_of};
use super::ledger::Event;
use super::node::{Node, Session, register, replica};
use super::scenarios::PreparedScenario;
use super::shell::Shell;

/// The one client of the model; a request's number is its place among the asks, from 1.
pub(super) const CLIENT: u128 = 1;
/// Steps happen now, until moments pass.
pub(super) const NOW: Now = Now {
    monotonic: 1_000,
    wall: 1_000,
};
/// Milliseconds by which what rests before it is settled has rested, and nothing is late yet.
const SOON_MS: u64 = 1;
/// Milliseconds by which all that waits for a while has waited.
const LATER_MS: u64 = 9_000;
/// Milliseconds of a moment, in scenarios in which time passes.
pub(super) const MOMENT_MS: u64 = 10;

/// A message and whom it is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Packet {
    pub(super) to: NodeId,
    pub(super) envelope: Envelope,
}

/// What happens to a member.
#[derive(Clone, Debug)]
pub(super) enum MemberEvent {
    Message(Envelope),
    /// A request arrives, for the first time or again.
    Ask {
        ask: usize,
        attempt: usize,
    },
    Hear(Arc<Configuration>),
    Plain(SimpleEvent),
}

/// What happens to a member without more to be said.
#[derive(Clone, Copy, Debug)]
pub(super) enum SimpleEvent {
    /// It starts with what it has.
    Start,
    /// It starts in a new incarnation.
    Return,
    EndLease,
    Crash,
    /// One more record becomes durable.
    Sync,
    /// The head settles what it holds.
    Promote,
    /// What is done after a while: what was not answered is said again.
    Tick,
    /// No client will write eventually any more: what matters for that only is forgotten.
    NoMoreWrites,
    /// One more moment is over.
    Pass,
    /// The upload brings the bytes of the block.
    BytesCome,
    /// They come from another member.
    BytesFetched,
    /// They are durable.
    BytesSynced,
    /// The sender of their records has them no more.
    BytesGone,
    /// It is found that they have no row, and are old.
    BytesRowless,
    /// They go, as they have no row.
    BytesDropped,
    /// They go, as their row was removed.
    BytesReclaimed,
    /// A crash has lost them.
    BytesLost,
    /// A crash has set the engine back by one entry.
    SetBack,
}

/// What leaves a member.
#[derive(Debug, Default)]
pub(super) struct Emitted {
    pub(super) packets: Vec<Packet>,
    pub(super) events: Vec<Event>,
    pub(super) reports: Vec<Report>,
    /// Whether a request has come: what is stamped is new.
    is_asked: bool,
}

/// What a chain of this scenario is tuned to.
pub(super) fn settings(scene: &PreparedScenario) -> ReplicaSettings {
    ReplicaSettings {
        window_entries: scene.scenario.window,
        promote_after_ms: 1,
        digest_ms: match scene.scenario.ticks {
            true => ReplicaSettings::default().digest_ms,
            false => u64::MAX,
        },
        ..ReplicaSettings::default()
    }
}

impl Node {
    /// Does what `happening` asks for.
    ///
    /// # Errors
    /// What went wrong, in words.
    pub(super) fn take(
        &mut self,
        scene: &PreparedScenario,
        happening: MemberEvent,
    ) -> Result<Emitted, String> {
        let mut out = Emitted::default();
        match happening {
            MemberEvent::Message(envelope) => {
                self.hear(scene, envelope, &mut out)?;
            }
            MemberEvent::Ask { ask, attempt } => {
                out.is_asked = true;
                self.step(scene, 0, input(scene, ask, attempt), &mut out)?;
            }
            MemberEvent::Hear(newest) => {
                self.holdings.forget();
                self.step(scene, 0, Input::Configuration(newest), &mut out)?;
            }
            MemberEvent::Plain(kind) => self.take_plain(scene, kind, &mut out)?,
        }
        Ok(out)
    }

    fn take_plain(
        &mut self,
        scene: &PreparedScenario,
        kind: SimpleEvent,
        out: &mut Emitted,
    ) -> Result<(), String> {
        match kind {
            SimpleEvent::Start => self.start(scene, out),
            SimpleEvent::Return => {
                let before = self.replica.identity();
                let me = Identity {
                    incarnation: Incarnation(before.incarnation.0 + 1),
                    ..before
                };
                self.replica = replica(me, settings(scene), &scene.guards);
                self.unsynced.clear();
                self.fixed = None;
                self.holdings.on_return();
                (self.is_up, self.session) = (true, Session::Live);
                self.start(scene, out)
            }
            SimpleEvent::EndLease => {
                self.session = Session::Ended;
                // Where time passes it matters when that was.
                let until = match scene.scenario.moments {
                    0 => 0,
                    _ => self.now().monotonic,
                };
                self.step(scene, 0, Input::Lease { until }, out)
            }
            SimpleEvent::Crash => {
                (self.is_up, self.session) = (false, Session::Ended);
                self.unsynced.clear();
                self.fixed = None;
                self.holdings.on_crash();
                self.replica = replica(self.replica.identity(), settings(scene), &scene.guards);
                Ok(())
            }
            SimpleEvent::Sync => match self.unsynced.pop_front() {
                Some((lsn, record)) => {
                    self.log_bytes(scene, &record)?;
                    self.durable.take(record);
                    self.step(scene, 0, Input::Persisted(lsn), out)
                }
                None => Ok(()),
            },
            SimpleEvent::Promote => self.step(scene, SOON_MS, Input::Flush, out),
            SimpleEvent::NoMoreWrites => {
                self.ahead.writes = false;
                Ok(())
            }
            SimpleEvent::Pass => {
                self.passed += MOMENT_MS;
                Ok(())
            }
            SimpleEvent::Tick => self.step(scene, LATER_MS, Input::Tick, out),
            kind => self.take_bytes(scene, kind, out),
        }
    }

    fn start(&mut self, scene: &PreparedScenario, out: &mut Emitted) -> Result<(), String> {
        let recovered = Input::Recovered {
            durable: self.durable.clone(),
            applied: self.store.applied,
            filling: self.store.filling,
        };
        self.step(scene, 0, recovered, out)?;
        self.step(scene, 0, Input::Lease { until: u64::MAX }, out)
    }

    /// One input, `later` milliseconds from now, what it causes at the member itself, and what it
    /// then sends.
    pub(super) fn step(
        &mut self,
        scene: &PreparedScenario,
        later: u64,
        input: Input,
        out: &mut Emitted,
    ) -> Result<(), String> {
        let now = Now {
            monotonic: self.now().monotonic + later,
            ..self.now()
        };
        let mut inputs = VecDeque::from([input]);
        let mut is_flushed = false;
        loop {
            let input = match inputs.pop_front() {
                Some(input) => input,
                None if is_flushed => break,
                None => Input::Flush,
            };
            is_flushed = matches!(input, Input::Flush);
            let mut effects = Vec::new();
            let mut shell = Shell {
                store: &mut self.store,
                fixed: &mut self.fixed,
                scene,
            };
            let result = self.replica.step(now, input, &mut shell, &mut effects);
            result.map_err(|error| error.to_string())?;
            let mut persisted = None;
            for effect in effects {
                inputs.extend(self.perform(scene, effect, &mut persisted, out)?);
            }
            inputs.extend(persisted.map(Input::Persisted));
        }
        Ok(())
    }

    fn perform(
        &mut self,
        scene: &PreparedScenario,
        effect: Effect,
        persisted: &mut Option<Lsn>,
        out: &mut Emitted,
    ) -> Result<Option<Input>, String> {
        match effect {
            Effect::Persist { lsn, record } => {
                if let Record::Operation(operation) = &record
                    && operation.stamp.node == self.replica.identity().node.0
                {
                    let held = match out.is_asked {
                        true => self.held_beside(operation),
                        false => Stamp::ZERO,
                    };
                    out.events.push(Event::Stamped(operation.clone(), held));
                }
                let scope = scene.scenario.bytes.as_ref();
                let lacks = scope.is_some_and(|it| self.holdings.waits_inside(it, &record));
                let waits = scene.scenario.loses_unsynced && !matches!(record, Record::Epoch(_));
                if waits || lacks || !self.unsynced.is_empty() {
                    self.unsynced.push_back((lsn, record));
                } else {
                    self.log_bytes(scene, &record)?;
                    self.durable.take(record);
                    *persisted = Some(lsn);
                }
            }
            Effect::Send { to, envelope } => out.packets.push(Packet { to, envelope }),
            Effect::Apply {
                id: entry,
                mutations,
            } => {
                self.apply(scene, entry, &mutations, out)?;
                return Ok(Some(Input::Applied(entry)));
            }
            Effect::Fill(fill) => {
                self.fill(scene, fill, out);
                return Ok(Some(Input::Filled));
            }
            Effect::Reply { token, reply } => self.replied(scene, token, reply, out),
            Effect::Coordinator(report) => out.reports.push(report),
            // No copy of a disk is put back that could pass for it: this is a violation.
            Effect::Stop(stop) => panic!("I3, I6: a member stops, {stop:?}"),
            Effect::StaleMessage { .. } => {}
        }
        Ok(None)
    }

    /// A record is written to the disk.
    fn log_bytes(&mut self, scene: &PreparedScenario, record: &Record) -> Result<(), String> {
        let scope = scene.scenario.bytes.as_ref();
        scope.map_or(Ok(()), |scope| self.holdings.on_logged(scope, record))
    }

    /// The greatest stamp of the other operations that are held on the register of this one.
    fn held_beside(&self, operation: &Operation) -> Stamp {
        let mut end = operation.key.to_vec();
        end.push(0);
        let held = self.replica.operations_within(&operation.key, &end);
        let others = held.filter(|held| held.name != operation.name);
        others.map(|held| held.stamp).max().unwrap_or_default()
    }

    fn apply(
        &mut self,
        scene: &PreparedScenario,
        id: EntryId,
        mutations: &[Mutation],
        out: &mut Emitted,
    ) -> Result<(), String> {
        let unsynced = self.unsynced.iter().filter_map(|(_, record)| match record {
            Record::Entry(entry) => Some(entry),
            _ => None,
        });
        let mut logged = self.durable.entries.iter().chain(unsynced);
        let entry = logged.find(|entry| entry.id == id).cloned();
        let entry = entry.ok_or_else(|| format!("I4: {id} is applied and was never logged"))?;
        let before = self.store.clone();
        let rows = Arc::make_mut(&mut self.store.rows);
        for mutation in mutations {
            match &mutation.value {
                Some(value) => rows.insert(mutation.key.clone(), value.clone()),
                None => rows.remove(&mutation.key),
            };
        }
        self.store.applied = id;
        let scope = scene.scenario.bytes.as_ref();
        if let Some(scope) = scope {
            self.holdings.on_applied(scope, id, &entry.changes, before);
        }
        if scope.is_none_or(|scope| !scope.sets_back) {
            self.durable.release(id);
        }
        // Recovery passes over what has a result.
        if let Some(name) = entry.request {
            self.durable.operations.remove(&name);
        }
        out.events.push(Event::Committed(entry.clone()));
        let merged = entry.changes.iter().filter(|change| {
            // What is put whole is no register.
            matches!(change, Change::Merge { .. } | Change::Collect { .. })
        });
        for key in merged.map(Change::key) {
            self.tell_state(id, key, out);
        }
        Ok(())
    }

    fn tell_state(&self, at: EntryId, key: &Bytes, out: &mut Emitted) {
        out.events.push(Event::State {
            at,
            key: key.clone(),
            register: register(&self.store, key),
        });
    }

    fn fill(&mut self, scene: &PreparedScenario, fill: TransferStep, out: &mut Emitted) {
        match fill {
            TransferStep::Begin => self.store.filling = true,
            TransferStep::Range(range) => {
                let rows = Arc::make_mut(&mut self.store.rows);
                rows.retain(|key, _| *key < range.start || range.end <= *key);
                rows.extend(range.rows);
            }
            TransferStep::End { at } => {
                (self.store.filling, self.store.applied) = (false, at);
                self.holdings.on_filled();
                let rows = &self.store.rows;
                let operations = &mut self.durable.operations;
                operations.retain(|name, _| !rows.contains_key(&result_key(*name)));
                for key in &scene.keys {
                    self.tell_state(at, key, out);
                }
            }
        }
    }

    fn replied(
        &self,
        scene: &PreparedScenario,
        token: CorrelationId,
        reply: Reply,
        out: &mut Emitted,
    ) {
        let asks = &scene.scenario.asks;
        let ask = token.0 as usize % asks.len();
        let key = match &asks[ask] {
            ClientRequest::Read { key, .. } => key,
            _ => &Bytes::new(),
        };
        let size = self.replica.configuration().map_or(0, |it| it.size());
        out.events.push(match reply {
            Reply::Decided { id: Some(entry) } | Reply::Repeated { id: entry, .. } => {
                Event::Answered { ask, entry }
            }
            Reply::Refused(_) => Event::Refused { ask },
            Reply::Show { at } => {
                // The engine may have more by now, all of it committed.
                let at = at.max(self.store.applied);
                let register = self.register_at(at, key);
                Event::Shown { ask, at, register }
            }
            Reply::Held(receipt) => held(ask, receipt),
            Reply::ShowRegister(shown) => Event::ShownByQuorum {
                ask,
                size,
                register: shown.register,
            },
            Reply::ShowTentative { .. } => {
                let view = self.replica.tentative_view(&self.store);
                Event::ShownByQuorum {
                    ask,
                    size,
                    register: register(&*view, key),
                }
            }
            _ => return,
        });
    }
}

/// An eventual write is acknowledged.
fn held(ask: usize, receipt: WriteAck) -> Event {
    let (mut stamps, mut settled) = (Vec::new(), Vec::new());
    for written in receipt.writes {
        match written.status {
            OperationStatus::Tentative(stamp) => stamps.push((written.key, stamp)),
            OperationStatus::Settled(_, outcome) => settled.push(outcome),
        }
    }
    Event::Held {
        ask,
        stamps,
        settled,
    }
}

/// What the session of an eventual write has seen: nothing, but where it lies.
fn session(scene: &PreparedScenario, ask: usize) -> Seen {
    let forged = scene.scenario.forged.filter(|(it, _)| *it == ask);
    let seen = |(_, base): (usize, EntryId)| {
        let stamp = Stamp {
            base,
            ..Stamp::strong(base)
        };
        let name = RequestId {
            client: (CLIENT + 1).into(),
            seq: 1,
            part: 0,
        };
        let keys = keys_of(&scene.scenario.asks[ask]).into_iter();
        let tentative = keys.map(|key| (key.clone(), stamp, name));
        Seen {
            committed: EntryId::ZERO,
            tentative: tentative.collect(),
        }
    };
    forged.map(seen).unwrap_or_default()
}

/// A request as a member gets it. A retry has a token of its own, and the same name.
fn input(scene: &PreparedScenario, ask: usize, attempt: usize) -> Input {
    let asks = &scene.scenario.asks;
    let token = CorrelationId((ask + asks.len() * attempt) as u64);
    let request = RequestId {
        client: CLIENT.into(),
        seq: scene.seq(ask),
        part: 0,
    };
    match &asks[ask] {
        ClientRequest::Read { key, level } => Input::Read {
            token,
            scope: Scope::Keys(vec![key.clone()]),
            level: *level,
            session: None,
        },
        ClientRequest::Eventual { w, .. } | ClientRequest::Merge { w, .. } => Input::Write {
            token,
            request: Some(request),
            digest: None,
            w: *w,
            sloppy: false,
            session: session(scene, ask),
        },
        ClientRequest::Close => Input::Close {
            token,
            collection: COLLECTION,
        },
        // Nothing is kept of a command about blocks.
        ClientRequest::Rows(_) => Input::Submit {
            token,
            request: None,
            barrier: Vec::new(),
        },
        it => Input::Submit {
            token,
            request: Some(request),
            barrier: match it {
                ClientRequest::PutIfAbsent { key, .. } if it.is_barrier() => vec![key.clone()],
                _ => Vec::new(),
            },
        },
    }
}
