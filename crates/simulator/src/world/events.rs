//! What can happen, and who it happens to.

use std::sync::Arc;

use fader_chain::{Configuration, Envelope, Incarnation, Lsn, RequestId, Role};

use super::coordinator::{CoordinatorReply, Ping};
use super::network::{End, Kind};
use super::operator::Turn;
use super::stops::Sent;
use super::{COORDINATOR_TICK, TICK, World};
use crate::world::network::End::Coordinator as AtCoordinator;

/// Something that happens at one moment of the world.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// A process starts on a machine that has none.
    Start { machine: usize },
    /// What follows is for one process only.
    To {
        machine: usize,
        incarnation: u64,
        what: ProcessEvent,
    },
    /// A message arrives, unless the network is cut by now.
    Arrive {
        from: End,
        to: End,
        event: Box<Event>,
    },
    /// At a member.
    Message(Envelope),
    /// At a member.
    Clock(Sent),
    /// At the coordinator.
    Ping(Ping),
    /// At a member, in the incarnation that it is meant for.
    Pong(Incarnation, CoordinatorReply),
    /// The coordinator looks around.
    CoordinatorTick,
    /// A controller takes its next step.
    Control { controller: usize },
    /// A client goes on.
    Client { client: usize },
    /// A client waits no longer.
    Deadline { call: usize },
    /// A process dies.
    Crash { machine: usize },
    /// A fault of the plan.
    Fault { index: usize },
    /// Faults end.
    Calm,
    /// The operator looks around.
    Operator,
}

/// What happens to a process.
#[derive(Clone, Debug)]
pub(crate) enum ProcessEvent {
    Tick,
    Flush,
    Synced(Lsn),
    Worked,
    Request { call: usize },
    Outcome { call: usize, names: Vec<RequestId> },
    Abandon { call: usize },
    Message(Envelope),
    Clock(Sent),
    Pong(CoordinatorReply),
    Turn(Turn),
}

impl World {
    /// Lets the next event happen; false if there is none.
    pub(crate) fn happen(&mut self) -> bool {
        let Some((at, event)) = self.queue.next() else {
            return false;
        };
        self.now = at;
        self.events += 1;
        match event {
            Event::Start { machine } => self.start(machine),
            Event::To {
                machine,
                incarnation,
                what,
            } => self.process_gets(machine, incarnation, what),
            Event::Arrive { from, to, event } => {
                let is_heard = match &*event {
                    Event::Message(envelope) => {
                        let kind = Kind::of(&envelope.message);
                        self.network.hears(from, to, kind, self.now)
                    }
                    _ => true,
                };
                if is_heard && self.network.is_open(from, to, self.now) {
                    self.arrive(from, to, *event);
                }
            }
            Event::CoordinatorTick => self.coordinator_tick(),
            Event::Control { controller } => self.control(controller),
            Event::Crash { machine } => self.crash(machine, 1_000),
            Event::Client { client } => self.client_goes_on(client),
            Event::Deadline { call } => self.deadline(call),
            Event::Fault { index } => {
                let (_, fault) = self.plan.faults[index];
                self.strike(fault);
            }
            Event::Calm => self.calm(),
            Event::Operator => self.operate(),
            Event::Message(_) | Event::Clock(_) | Event::Ping(_) | Event::Pong(..) => {
                unreachable!("messages are wrapped in their arrival")
            }
        }
        true
    }

    fn arrive(&mut self, from: End, to: End, event: Event) {
        match (to, event) {
            (AtCoordinator, Event::Ping(ping)) => self.ping_arrives(from, ping),
            (End::Member(node), event) => {
                let Some(machine) = self.machine_of(node) else {
                    return;
                };
                let what = match event {
                    Event::Message(envelope) => ProcessEvent::Message(envelope),
                    Event::Clock(sent) => ProcessEvent::Clock(sent),
                    Event::Pong(incarnation, pong) if self.is_running(machine, incarnation) => {
                        ProcessEvent::Pong(pong)
                    }
                    _ => return,
                };
                let incarnation = self.machines[machine].incarnation;
                self.process_gets(machine, incarnation, what);
            }
            _ => {}
        }
    }

    fn is_running(&self, machine: usize, incarnation: Incarnation) -> bool {
        let process = self.machines[machine].process.as_ref();
        process.is_some_and(|process| process.me.incarnation == incarnation)
    }

    /// A process that stands still hears of everything when it goes on.
    fn process_gets(&mut self, machine: usize, incarnation: u64, what: ProcessEvent) {
        let here = &self.machines[machine];
        if here.incarnation != incarnation || here.process.is_none() {
            return;
        }
        if self.now < here.paused_until {
            let at = here.paused_until;
            self.queue.plan(
                at,
                Event::To {
                    machine,
                    incarnation,
                    what,
                },
            );
            return;
        }
        self.process_hears(machine, what);
    }

    /// Plans something for the process that runs now.
    pub(crate) fn plan_for(&mut self, machine: usize, delay: u64, what: ProcessEvent) {
        let incarnation = self.machines[machine].incarnation;
        let event = Event::To {
            machine,
            incarnation,
            what,
        };
        self.queue.plan(self.now + delay, event);
    }

    pub(crate) fn plan_tick(&mut self, machine: usize) {
        self.plan_for(machine, TICK, ProcessEvent::Tick);
    }

    fn coordinator_tick(&mut self) {
        self.queue
            .plan(self.now + COORDINATOR_TICK, Event::CoordinatorTick);
        self.coordinator_acts();
    }

    fn ping_arrives(&mut self, from: End, ping: Ping) {
        if !self.is_coordinator_up() {
            return;
        }
        let now = self.coordinator_clock.steady(self.now);
        let incarnation = ping.from.incarnation;
        let answer = self.coordinator.on_ping(now, ping);
        self.send(End::Coordinator, from, &Event::Pong(incarnation, answer));
        self.coordinator_acts();
    }

    /// Whether it is up; if it was down, it begins anew.
    pub(crate) fn is_coordinator_up(&mut self) -> bool {
        if self.now < self.coordinator_down_until {
            return false;
        }
        if std::mem::take(&mut self.coordinator_down_until) != 0 {
            let now = self.coordinator_clock.steady(self.now);
            self.coordinator.restart(now);
        }
        true
    }

    fn coordinator_acts(&mut self) {
        if !self.is_coordinator_up() {
            return;
        }
        let now = self.coordinator_clock.steady(self.now);
        if !self.controllers.is_empty() {
            self.coordinator.expire(now);
        } else if let Some(next) = self.coordinator.step(now) {
            self.on_published(&next);
        }
    }

    /// The coordinator has another configuration, and tells.
    pub(crate) fn on_published(&mut self, next: &Arc<Configuration>) {
        self.note(crate::history::Fact::Published(next.clone()));
        if let Some(node) = self.coordinator.wronged.take() {
            self.fail(
                "RM-1",
                format!("{node} serves, has a session, and is removed"),
            );
        }
        // It was made equal to the others.
        let serves = |here: &super::Machine| {
            let incarnation = here.process.as_ref().map(|it| it.me.incarnation);
            let mut members = next.members.iter();
            members.any(|it| it.role == Role::Serving && Some(it.incarnation) == incarnation)
        };
        let copies = self.machines.iter_mut().filter(|it| it.is_copy);
        for here in copies {
            here.is_copy = !serves(here);
        }
        let members: Vec<_> = self.coordinator.members().collect();
        for member in members {
            let news = Event::Pong(member.incarnation, CoordinatorReply::News(next.clone()));
            self.send(End::Coordinator, End::Member(member.node), &news);
        }
    }
}
