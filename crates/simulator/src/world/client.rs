//! Clients: each does one thing after the other, and asks again under the same name while it does
//! not know what came of it.

use std::collections::BTreeMap;

use bytes::Bytes;
use fader_chain::{EntryId, Refusal, Reply, RequestId, Session};

use super::World;
use super::events::{Event, What};
use super::host::Seen;
use super::plan::{Micros, Order, Target};
use super::process::token_of;
use crate::history::{self, Call, Condition, Fact, Level, Outcome, Shown};
use crate::service::State;

/// How long a client waits for an answer.
const PATIENCE: Micros = 600_000;

/// A client.
#[derive(Debug)]
pub(crate) struct Client {
    number: u32,
    orders: Vec<Order>,
    next: usize,
    tries: u32,
    is_waiting: bool,
    session: Session,
    /// The version of each register that it saw last.
    versions: BTreeMap<Bytes, EntryId>,
}

impl Client {
    pub(crate) fn new(number: usize, orders: Vec<Order>) -> Self {
        Client {
            number: u32::try_from(number).expect("there are few clients"),
            orders,
            next: 0,
            tries: 0,
            is_waiting: false,
            session: Session::default(),
            versions: BTreeMap::new(),
        }
    }

    /// Whether it has nothing left to do.
    pub(crate) fn is_done(&self) -> bool {
        self.orders.len() <= self.next
    }

    fn call(&self) -> Option<Call> {
        let order = self.orders.get(self.next)?;
        let name = RequestId {
            client: u128::from(self.number) + 1,
            seq: self.next as u64 + 1,
            part: 0,
        };
        let mut request = order.request.clone();
        for (key, condition) in &mut request.conditions {
            if let Condition::Version(version) = condition {
                *version = self.versions.get(key).copied().unwrap_or_default();
            }
        }
        Some(Call {
            client: self.number,
            session: order.has_session.then_some(self.number),
            name: (!request.is_read()).then_some(name),
            node: fader_chain::NodeId(0),
            invoked: history::Moment::default(),
            level: order.level,
            request,
            end: None,
        })
    }
}

impl World {
    /// A client asks for the next thing, or for the same again.
    pub(crate) fn client_goes_on(&mut self, client: usize) {
        let asking = &self.clients[client];
        let Some(mut call) = asking.call().filter(|_| !asking.is_waiting) else {
            return;
        };
        if let Some(first) = self.watch.asked(call.name) {
            // XO-6: one name, one request.
            call.request = self.history.calls[first].request.clone();
        }
        let target = self.clients[client].orders[self.clients[client].next].target;
        let machine = self.machine_asked(target);
        let at = self.history.calls.len();
        call.node = self.machines[machine].node;
        call.invoked = self.moment();
        self.watch.ask(call.name, at);
        self.clients[client].is_waiting = true;
        self.trace.say(self.now, || format!("{call}"));
        self.history.calls.push(call);
        self.callers.push(client);
        if self.machines[machine].process.is_none() {
            self.end(at, Outcome::Refused("nobody there"));
            return;
        }
        self.plan_for(machine, 0, What::Request { call: at });
        let deadline = self.now + PATIENCE;
        self.queue.plan(deadline, Event::Deadline { call: at });
    }

    fn machine_asked(&self, target: Target) -> usize {
        let head = || {
            let configuration = self.configuration()?;
            self.machine_of(configuration.head())
        };
        match target {
            Target::Head => head().unwrap_or(0),
            Target::Machine(machine) => machine % self.machines.len(),
        }
    }

    /// The token that a call carries.
    pub(crate) fn session_of(&self, call: usize) -> Session {
        match self.history.calls[call].session {
            Some(_) => self.clients[self.callers[call]].session.clone(),
            None => Session::default(),
        }
    }

    pub(crate) fn deadline(&mut self, call: usize) {
        if self.history.calls[call].end.is_some() {
            return;
        }
        let node = self.history.calls[call].node;
        self.end(call, Outcome::Unknown);
        let machine = self.machine_of(node);
        let serves = |machine: &usize| {
            let process = self.machines[*machine].process.as_ref();
            process.is_some_and(|process| process.calls.contains_key(&token_of(call)))
        };
        if let Some(machine) = machine.filter(serves) {
            self.plan_for(machine, 0, What::Abandon { call });
        }
    }

    /// A call is over, and its client goes on.
    pub(crate) fn end(&mut self, call: usize, outcome: Outcome) {
        if self.history.calls[call].end.is_some() {
            return;
        }
        let at = self.moment();
        let is_unsure = matches!(outcome, Outcome::Unknown | Outcome::Refused(_));
        self.history.calls[call].end = Some((at, outcome));
        let ended = &self.history.calls[call];
        self.trace.say(self.now, || format!("      {ended}"));
        let client = self.callers[call];
        let asking = &mut self.clients[client];
        asking.is_waiting = false;
        let retries = asking.orders[asking.next].retries;
        let pause = if is_unsure && asking.tries < retries {
            asking.tries += 1;
            self.random.between(5_000, 80_000)
        } else {
            asking.tries = 0;
            asking.next += 1;
            asking
                .orders
                .get(asking.next)
                .map_or(0, |order| order.pause)
        };
        self.queue.plan(self.now + pause, Event::Client { client });
    }

    /// A replica answers.
    pub(crate) fn answer(&mut self, machine: usize, call: usize, reply: Reply) {
        let outcome = match reply {
            Reply::Decided { id } => {
                let entry = id.unwrap_or(EntryId::ZERO);
                let result = self.watch.decision(call);
                self.learn(call, entry);
                Outcome::Done(history::Reply::Decided { entry, result })
            }
            Reply::Repeated { id, result } => self.repeated(call, id, result),
            Reply::Show { at } => self.shown(machine, call, at),
            Reply::ShowRegister(shown) => {
                let key = self.history.calls[call].request.reads[0].clone();
                self.learn(call, shown.commit);
                self.registers(
                    machine,
                    shown.commit,
                    vec![Shown {
                        key,
                        register: shown.register,
                        tentative: shown.tentative,
                    }],
                )
            }
            Reply::ShowTentative { at } => self.shown(machine, call, at),
            Reply::Held(receipt) => self.held(machine, call, &receipt),
            Reply::Lost(name) => {
                let session = &mut self.clients[self.callers[call]].session;
                session.tentative.retain(|(_, _, other)| *other != name);
                Outcome::Lost(vec![name])
            }
            Reply::Refused(refusal) => Outcome::Refused(match refusal {
                Refusal::NotHead => "not the head",
                Refusal::NotServing => "not serving",
                Refusal::Overloaded => "overloaded",
                Refusal::TooOld(_) => "too old",
            }),
            Reply::Unknown => Outcome::Unknown,
        };
        self.end(call, outcome);
    }

    fn repeated(&mut self, call: usize, entry: EntryId, result: Bytes) -> Outcome {
        self.learn(call, entry);
        Outcome::Done(history::Reply::Decided { entry, result })
    }

    /// The session has seen this commit.
    fn learn(&mut self, call: usize, commit: EntryId) {
        let session = &mut self.clients[self.callers[call]].session;
        session.committed = session.committed.max(commit);
    }

    /// What a member shows at `at`, read before its next step.
    fn shown(&mut self, machine: usize, call: usize, at: EntryId) -> Outcome {
        self.learn(call, at);
        let reads = &self.history.calls[call].request.reads;
        let here = &self.machines[machine];
        let process = here.process.as_ref().expect("it has just stepped");
        let view = process.replica.view_at(at, here.disk.state());
        let seen = Seen(view.as_ref());
        let shown = reads.iter().map(|key| Shown {
            key: key.clone(),
            register: seen.register(key),
            tentative: false,
        });
        let shown: Vec<Shown> = shown.collect();
        let client = &mut self.clients[self.callers[call]];
        for shown in &shown {
            client
                .versions
                .insert(shown.key.clone(), shown.register.version);
        }
        self.registers(machine, at, shown)
    }

    fn registers(&self, machine: usize, commit: EntryId, registers: Vec<Shown>) -> Outcome {
        let process = self.machines[machine].process.as_ref();
        let replica = &process.expect("it has just stepped").replica;
        let floor = replica.configuration().map(|adopted| adopted.floor);
        Outcome::Done(history::Reply::Shown {
            epoch: replica.epoch(),
            commit,
            floor: match self.plan.mixed {
                true => floor.unwrap_or_default(),
                false => commit,
            },
            registers,
        })
    }

    fn held(&mut self, machine: usize, call: usize, receipt: &fader_chain::Receipt) -> Outcome {
        let node = self.machines[machine].node;
        let now = self.machines[machine].clock.steady(self.now);
        let process = self.machines[machine].process.as_ref();
        let lease = process.is_some_and(|process| now < process.lease.until);
        let Level::Eventual { quorum, .. } = self.history.calls[call].level else {
            return Outcome::Unknown;
        };
        let attached = !receipt.detached;
        for (name, key, stamp) in &receipt.operations {
            let session = &mut self.clients[self.callers[call]].session;
            session.tentative.push((key.clone(), *stamp, *name));
            self.note(Fact::Acknowledged {
                node,
                name: *name,
                quorum,
                attached,
                lease,
            });
        }
        let stamps = receipt.operations.iter().map(|(_, _, stamp)| *stamp);
        Outcome::Done(history::Reply::Accepted {
            stamps: stamps.collect(),
            attached,
            fates: Vec::new(),
        })
    }
}
