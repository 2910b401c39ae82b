//! One run, and what is wrong with it.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use std::collections::BTreeMap;

use bytes::Bytes;
use fader_chain::{Entry, Guards, RequestId};

use super::events::Event;
use super::plan::{Micros, Mode, Order, Plan, Target};
use super::quiescence::fate_of;
use super::{Client, SESSION, World, client, operator};
use crate::check;
use crate::history::{Call, Fact, History, Level, Outcome, Refusal, Request};

/// What is wrong with a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What was not kept.
    pub guarantee: &'static str,
    /// How.
    pub text: String,
}

/// A run that has happened.
#[derive(Debug)]
pub struct Run {
    /// What happened.
    pub history: History,
    /// What is wrong with it.
    pub failure: Option<Failure>,
    /// How many claims each check found true.
    pub claims: Vec<(&'static str, usize)>,
    /// The account, if it was asked for.
    pub trace: Vec<String>,
    /// How many events there were.
    pub events: u64,
}

/// After this many events a run goes round in circles.
const EVENTS_MAX: u64 = 1_000_000;
/// When faults are over, everything is at rest within this time.
const RECOVERY: Micros = 8_000_000;
/// How often a world that should be quiescent is looked at.
const GLANCE: u64 = 50_000;

impl Failure {
    pub(crate) fn new(guarantee: &'static str, text: impl Into<String>) -> Self {
        Failure {
            guarantee,
            text: text.into(),
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.guarantee, self.text)
    }
}

/// Runs `plan`, and checks everything.
pub fn run(plan: &Plan, guards: &Guards, is_traced: bool) -> Run {
    let mut world = World::new(plan, guards.clone(), is_traced);
    let ended = catch_unwind(AssertUnwindSafe(|| world.go()));
    if let Err(panic) = ended {
        world.fail("panic", message_of(panic.as_ref()));
    }
    let history = std::mem::take(&mut world.history);
    let mut claims = Vec::new();
    if world.failure.is_none() {
        let service = world.service;
        match catch_unwind(AssertUnwindSafe(|| check::all(&history, service))) {
            Ok(Ok(found)) => claims = found,
            Ok(Err(violation)) => {
                world.fail(violation.guarantee, violation.to_string());
            }
            Err(panic) => world.fail("check", message_of(panic.as_ref())),
        }
    }
    Run {
        history,
        failure: world.failure.take(),
        claims,
        trace: world.trace.take(),
        events: world.events,
    }
}

fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "without a word".to_owned())
}

impl World {
    fn go(&mut self) {
        let settling = match self.plan.mode {
            Mode::Safety => 0,
            Mode::Liveness => SESSION,
        };
        let mut glance_at = self.plan.calm_at + settling;
        let mut is_probed = false;
        let mut bit_rot = self.plan.bit_rot;
        let mut rested_by = self.plan.calm_at + RECOVERY;
        let mut shaken_until = 0;
        while self.failure.is_none() && self.happen() {
            if EVENTS_MAX < self.events {
                self.fail("I20", "it goes round in circles");
            }
            if self.now < glance_at {
                continue;
            }
            glance_at = self.now + GLANCE;
            if self.plan.mode == Mode::Safety || self.is_lost() {
                return;
            }
            match self.rests() {
                Ok(()) if is_probed => {
                    self.judge_probes();
                    self.history.rest = self.member_states();
                    return;
                }
                Ok(()) => match bit_rot.take() {
                    Some(bit_rot) => {
                        self.bit_rot(bit_rot);
                        shaken_until = self.now + bit_rot.crash_after.unwrap_or_default();
                        rested_by = shaken_until + RECOVERY;
                    }
                    None if self.now <= shaken_until => {}
                    None => {
                        is_probed = true;
                        self.probe();
                    }
                },
                Err(missing) if rested_by < self.now => {
                    self.fail("I20", missing);
                }
                Err(_) => {}
            }
        }
    }

    /// At rest every member reads, and the head writes.
    fn probe(&mut self) {
        let keys = ["x", "y", "z"].map(|key| match self.plan.modes {
            true => operator::collected(key),
            false => Bytes::from_static(key.as_bytes()),
        });
        // The network may lose what a request needs; who is given up for that is back in a while.
        let order = |target, request| Order {
            retries: 40,
            ..Order::new(target, Level::Strong, request)
        };
        let read = Request {
            reads: keys.to_vec(),
            ..Request::default()
        };
        let write = Request {
            writes: vec![crate::history::Write {
                key: keys[0].clone(),
                ops: vec![fader_chain::ElementOp::ClearAll],
            }],
            ..Request::default()
        };
        let mut orders = self.unknown_orders();
        orders.push(order(Target::Head, write));
        let machines = 0..self.machines.len();
        orders.extend(machines.map(|machine| order(Target::Machine(machine), read.clone())));
        let client = self.clients.len();
        self.clients
            .push(Client::new(client, self.plan.stride, orders));
        self.queue.plan(self.now, Event::Client { client });
    }

    /// Strong requests whose outcome was not told, asked again: the chain knows (XO-2).
    fn unknown_orders(&self) -> Vec<Order> {
        let mut last: BTreeMap<RequestId, &Call> = BTreeMap::new();
        for call in self.history.calls.iter().filter(|call| call.is_strong()) {
            last.extend(call.name.map(|name| (name, call)));
        }
        let is_unknown = |call: &&Call| matches!(call.end, Some((_, Outcome::Unknown)));
        let unknown = last.into_iter().filter(|(_, call)| is_unknown(call));
        let orders = unknown.map(|(name, call)| Order {
            repeats: Some(client::order_of(name, self.plan.stride)),
            ..Order::new(Target::Head, call.level, call.request.clone())
        });
        orders.collect()
    }

    fn judge_probes(&mut self) {
        let probes = self.clients.len() - 1;
        let calls = self.history.calls.iter().zip(&self.callers);
        let calls = calls.filter(|(_, client)| **client == probes);
        let calls: Vec<&Call> = calls.map(|(call, _)| call).collect();
        // Also at rest a member may be given up for what the network lost, and refuse for a moment.
        let is_asked_again = |at: usize| {
            let call = calls[at];
            let is_its = |next: &&Call| {
                let is_there = next.node == call.node || !call.request.writes.is_empty();
                next.request == call.request && is_there
            };
            calls.get(at + 1).is_some_and(is_its)
        };
        let is_over = |call: &Call| {
            let is_told = matches!(
                call.end,
                Some((_, Outcome::Refused(Refusal::Said("too old"))))
            );
            call.done().is_some() || is_told
        };
        let mut unanswered = (0..calls.len()).filter(|at| !is_over(calls[*at]));
        let failed = unanswered.find(|at| !is_asked_again(*at));
        let failed = failed.map(|at| calls[at].to_string());
        if let Some(call) = failed {
            self.fail("I20", format!("at rest, and not served: {call}"));
        }
    }

    /// The entry that settles an operation is committed somewhere for the first time.
    pub(crate) fn settle(&mut self, entry: &Entry) {
        let Some(name) = entry.request.filter(|_| entry.is_settlement()) else {
            return;
        };
        if self.watch.settles(name, entry.stamp) {
            self.note(Fact::Settled {
                name,
                entry: entry.id,
                status: fate_of(&entry.result),
            });
        }
    }
}
