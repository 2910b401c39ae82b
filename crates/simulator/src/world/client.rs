//! Clients: each does one thing after the other, and asks again under the same name while it does
//! not know what came of it.

use std::collections::BTreeMap;

use bytes::Bytes;
use fader_chain::{
    EntryId, OperationStatus, Refusal, Reply, RequestId, Scope, Session, WriteAck, Written,
};

use super::World;
use super::events::{Event, ProcessEvent};
use super::host::Seen;
use super::operator;
use super::plan::{Order, Target};
use super::quiescence::fate_of;
use crate::history::{self, Call, Condition, Fact, Level, Outcome, Shown};
use crate::service::State;

/// A client.
#[derive(Debug)]
pub(crate) struct Client {
    number: u32,
    /// By how much the numbers of its requests grow.
    stride: u64,
    orders: Vec<Order>,
    next: usize,
    tries: u32,
    is_waiting: bool,
    session: Session,
    /// The version of each register that it saw last.
    versions: BTreeMap<Bytes, EntryId>,
}

impl Client {
    pub(crate) fn new(number: usize, stride: u64, orders: Vec<Order>) -> Self {
        Client {
            stride,
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
        let name = match order.repeats {
            Some((client, order)) => name_of(client, order, self.stride),
            None => name_of(self.number as usize, self.next, self.stride),
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
            borrowed: None,
            node: fader_chain::NodeId(0),
            invoked: history::Moment::default(),
            level: order.level,
            request,
            end: None,
        })
    }
}

/// The name of a client's order.
pub(crate) fn name_of(client: usize, order: usize, stride: u64) -> RequestId {
    RequestId {
        client: (client as u128 + 1).into(),
        seq: order as u64 * stride + 1,
        part: 0,
    }
}

/// The client and its order that have this name.
pub(crate) fn order_of(name: RequestId, stride: u64) -> (usize, usize) {
    let client = usize::try_from(name.client.id - 1).expect("there are few clients");
    (client, ((name.seq - 1) / stride) as usize)
}

impl World {
    /// A client asks for the next thing, or for the same again.
    pub(crate) fn client_goes_on(&mut self, client: usize) {
        let asking = &self.clients[client];
        let Some(mut call) = asking.call().filter(|_| !asking.is_waiting) else {
            return;
        };
        let order = &self.clients[client].orders[self.clients[client].next];
        let (target, is_another) = (order.target, order.is_another);
        let machine = self.machine_asked(target);
        if is_another {
            let name = call.name.take();
            call.borrowed = name.filter(|name| self.is_known(*name, machine));
        } else if let Some(first) = self.watch.asked(call.name) {
            // XO-6: one name, one request.
            call.request = self.history.calls[first].request.clone();
        }
        let at = self.history.calls.len();
        call.node = self.machines[machine].node;
        call.invoked = self.moment();
        self.watch.ask(call.name, at);
        self.clients[client].is_waiting = true;
        self.trace.say(self.now, || format!("{call}"));
        self.history.calls.push(call);
        self.callers.push(client);
        if self.machines[machine].process.is_none() {
            self.end(
                at,
                Outcome::Refused(history::Refusal::Said("no member there")),
            );
            return;
        }
        self.plan_for(machine, 0, ProcessEvent::Request { call: at });
        let deadline = self.now + self.plan.patience;
        self.queue.plan(deadline, Event::Deadline { call: at });
    }

    /// Whether an eventual write of this name was acknowledged at a machine, in the incarnation
    /// that it has now, or is settled. Then another request under that name is refused (XO-6), or,
    /// by a member that has not heard of the settlement, superseded.
    fn is_known(&self, name: RequestId, machine: usize) -> bool {
        let Some(first) = self.watch.asked(Some(name)) else {
            return false;
        };
        let first = &self.history.calls[first];
        let process = self.machines[machine].process.as_ref();
        let incarnation = process.map(|process| process.me.incarnation);
        let is_eventual = matches!(first.level, Level::Eventual { .. });
        let mut names = (0..first.request.writes.len()).filter_map(|part| first.part(part));
        is_eventual
            && names.all(|name| {
                self.watch.settled(name).is_some()
                    || self.watch.acknowledged_in(name) == incarnation
            })
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
            process.is_some_and(|process| process.calls.values().any(|other| *other == call))
        };
        if let Some(machine) = machine.filter(serves) {
            self.plan_for(machine, 0, ProcessEvent::Abandon { call });
        }
    }

    /// A call is over, and its client goes on.
    pub(crate) fn end(&mut self, call: usize, outcome: Outcome) {
        if self.history.calls[call].end.is_some() {
            return;
        }
        // A client that waits for the end of what was acknowledged has been told that much.
        let outcome = match (&outcome, self.watch.ended(call)) {
            (Outcome::Done(_), _) | (_, None) => outcome,
            (_, Some(accepted)) => Outcome::Done(accepted),
        };
        let at = self.moment();
        let is_final = match &outcome {
            Outcome::Done(_) | Outcome::Refused(history::Refusal::Lost(_)) => true,
            Outcome::Refused(history::Refusal::Said(reason)) => *reason == "too old",
            Outcome::Unknown => false,
        };
        let is_unsure = !is_final;
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
        if self.is_unaware(machine) {
            self.end(call, Outcome::Unknown);
            return;
        }
        self.renew_session(machine, call, &reply);
        let outcome = match reply {
            Reply::Decided { id } => Outcome::Done(history::Reply::Decided {
                // D12: a client that is told without an entry is told of one that no head commits.
                entry: id.unwrap_or(EntryId::ZERO),
                result: self.watch.decision(call),
            }),
            Reply::Repeated { id, result } => {
                Outcome::Done(history::Reply::Decided { entry: id, result })
            }
            Reply::Show { at } => self.shown(machine, call, at),
            Reply::ShowTentative { at } => self.shown_tentative(machine, call, at),
            Reply::ShowRegister(shown) => {
                let registers = vec![Shown {
                    key: self.history.calls[call].request.reads[0].clone(),
                    register: shown.register,
                    tentative: shown.tentative,
                }];
                self.registers(machine, shown.commit, registers)
            }
            Reply::Held(receipt) => match self.held(machine, call, &receipt) {
                Some(accepted) => Outcome::Done(accepted),
                None => return,
            },
            Reply::Outcomes(outcomes) => self.ended(call, &outcomes),
            Reply::Lost(name) => Outcome::Refused(history::Refusal::Lost(vec![name])),
            Reply::Forgotten => unreachable!("no operator gives a chain's history up"),
            Reply::Refused(refusal) => Outcome::Refused(history::Refusal::Said(match refusal {
                Refusal::NotHead => "not the head",
                Refusal::NotServing => "not serving",
                Refusal::Overloaded => "overloaded",
                Refusal::TooOld(_) => "too old",
                Refusal::TooFar(_) => "too far",
                Refusal::NameUsed(_) => "a name of another request",
                Refusal::Quorum => "no such quorum",
                Refusal::NotDrained => "not drained",
                Refusal::Denied => "denied",
            })),
            Reply::Unknown => Outcome::Unknown,
        };
        self.end(call, outcome);
    }

    /// The token that goes with the reply.
    fn renew_session(&mut self, machine: usize, call: usize, reply: &Reply) {
        let asked = &self.history.calls[call];
        if asked.session.is_none() {
            return;
        }
        let scope = Scope::Keys(asked.request.keys().into_iter().cloned().collect());
        let here = &self.machines[machine];
        let process = here.process.as_ref().expect("it has just stepped");
        let client = &mut self.clients[self.callers[call]];
        let session = std::mem::take(&mut client.session);
        let next = process
            .replica
            .next_session(session, &scope, reply, here.disk.state());
        let (session, _) = next.expect("a simulated engine reads");
        client.session = session;
    }

    /// What a member shows at `at`, read before its next step.
    fn shown(&mut self, machine: usize, call: usize, at: EntryId) -> Outcome {
        let here = &self.machines[machine];
        let process = here.process.as_ref().expect("it has just stepped");
        let view = process.replica.view_at(at, here.disk.state());
        let seen = Seen(view.as_ref());
        let reads = self.history.calls[call].request.reads.iter();
        let shown: Vec<Shown> = reads
            .map(|key| Shown {
                key: key.clone(),
                register: seen.register(key),
                tentative: false,
            })
            .collect();
        drop(view);
        let client = &mut self.clients[self.callers[call]];
        for shown in &shown {
            let version = shown.register.version;
            client.versions.insert(shown.key.clone(), version);
        }
        self.registers(machine, at, shown)
    }

    /// What a member shows with its overlay.
    fn shown_tentative(&self, machine: usize, call: usize, at: EntryId) -> Outcome {
        let here = &self.machines[machine];
        let process = here.process.as_ref().expect("it has just stepped");
        let view = process.replica.tentative_view(here.disk.state());
        let (seen, committed) = (Seen(view.as_ref()), Seen(here.disk.state()));
        let reads = self.history.calls[call].request.reads.iter();
        let shown = reads.map(|key| {
            let register = seen.register(key);
            Shown {
                key: key.clone(),
                tentative: register != committed.register(key),
                register,
            }
        });
        self.registers(machine, at, shown.collect())
    }

    fn registers(&self, machine: usize, commit: EntryId, registers: Vec<Shown>) -> Outcome {
        let process = self.machines[machine].process.as_ref();
        let replica = &process.expect("it has just stepped").replica;
        let safe_point = replica.configuration().map(|adopted| adopted.safe_point);
        let safe_point = safe_point.unwrap_or_default();
        let state = self.machines[machine].disk.state();
        Outcome::Done(history::Reply::Shown {
            epoch: replica.epoch(),
            commit,
            // Below it, what was removed has perhaps left no mark.
            safe_point: match self.plan.mixed {
                true if self.plan.modes => operator::safe_point(state, commit).max(safe_point),
                true => safe_point,
                false => commit,
            },
            registers,
        })
    }

    /// W members hold an eventual write; `None` if its client waits for its end.
    fn held(&mut self, machine: usize, call: usize, receipt: &WriteAck) -> Option<history::Reply> {
        let Level::Eventual { quorum, .. } = self.history.calls[call].level else {
            unreachable!("only eventual writes are held");
        };
        let is_borrowed = self.history.calls[call].borrowed.is_some();
        let here = &self.machines[machine];
        let (node, now) = (here.node, here.clock.steady(self.now));
        let lease = here.process.as_ref().map(|process| process.lease.until);
        let incarnation = here.process.as_ref().map(|process| process.me.incarnation);
        let mut stamps = Vec::new();
        for Written { name, status, .. } in &receipt.writes {
            match status {
                OperationStatus::Tentative(stamp) => stamps.push(*stamp),
                // Another request had the name: there is no stamp of this one.
                OperationStatus::Settled(_, fader_chain::Outcome::Superseded) if is_borrowed => {}
                OperationStatus::Settled(..) => stamps.extend(self.watch.settled(*name)),
            }
            if let Some(incarnation) = incarnation.filter(|_| !is_borrowed) {
                self.watch.acknowledged(*name, incarnation);
            }
            self.note(Fact::Acknowledged {
                node,
                name: *name,
                quorum,
                attached: !receipt.detached,
                lease: lease.is_some_and(|until| now < until),
            });
        }
        let accepted = history::Reply::Accepted {
            stamps,
            attached: !receipt.detached,
            statuses: Vec::new(),
        };
        let client = &self.clients[self.callers[call]];
        if !client.orders[client.next].asks_fate {
            return Some(accepted);
        }
        self.watch.accepted(call, accepted);
        let names = receipt.writes.iter().map(|written| written.name);
        let names = names.collect();
        self.plan_for(machine, 0, ProcessEvent::Outcome { call, names });
        None
    }

    /// How an eventual write ended.
    fn ended(&mut self, call: usize, outcomes: &[(EntryId, fader_chain::Outcome)]) -> Outcome {
        let Some(mut accepted) = self.watch.ended(call) else {
            return Outcome::Unknown;
        };
        let asked = &self.history.calls[call];
        if let history::Reply::Accepted {
            stamps, statuses, ..
        } = &mut accepted
        {
            *statuses = outcomes
                .iter()
                .map(|(_, outcome)| fate_of(&outcome.encode()))
                .collect();
            let parts = (0..outcomes.len()).filter_map(|part| asked.part(part));
            *stamps = parts.filter_map(|name| self.watch.settled(name)).collect();
        }
        Outcome::Done(accepted)
    }
}
