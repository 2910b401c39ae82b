//! A deterministic world: whole clusters of the real replica, their disks, clocks and network, a
//! coordinator and clients, on one thread and from one seed.
//!
//! ```text
//!   Plan ──▶ World: queue of events ──▶ machine ──▶ Replica::step ──▶ effects ──▶ queue
//!              │                          ▲  │
//!              │  faults, clients         │  ├─ disk: records, engine
//!              ▼                          │  ├─ network: other machines
//!           History ◀─────────────────────┘  └─ coordinator: pings, configurations
//! ```
//!
//! Invariants:
//! - WORLD-1 the same plan and guards give the same history, byte for byte.
//! - what a replica is told is what its shell may tell it. Clocks drift within rho, records
//!   survive as a prefix, and messages were once sent.
//!
//! Deliberately absent: forged messages, and clocks whose rates are beyond rho while their machine
//! runs.

mod client;
pub(crate) mod clock;
mod controllers;
mod coordinator;
mod decommission;
mod disk;
mod events;
mod faults;
mod host;
mod losses;
mod machine;
mod moves;
mod network;
mod operator;
mod plan;
mod process;
pub(crate) mod queue;
mod quiescence;
pub(crate) mod random;
mod run;
mod run_profile;
mod shrink;
mod stops;
pub(crate) mod trace;
mod watch;

use std::sync::Arc;

use fader_chain::{DiskId, Guards, NodeId};

use self::client::Client;
use self::clock::Clock;
use self::controllers::Controller;
use self::coordinator::Coordinator;
use self::disk::Disk;
use self::events::Event;
pub use self::losses::losses;
use self::machine::Machine;
use self::network::{End, Network};
pub use self::network::{Kind, NetworkFaults};
pub use self::operator::Wish;
pub use self::plan::{BitRot, Choice, Fault, Micros, Mode, Order, Plan, RotHow, Target};
use self::queue::Queue;
pub(crate) use self::random::Random;
pub use self::run::{Failure, Run, run};
pub use self::run_profile::RunProfile;
pub use self::shrink::shrink;
use self::trace::Trace;
use self::watch::Watch;
use crate::history::{Fact, History, Moment};
use crate::service::Service;

/// rho: by how much a clock's rate may be wrong, in parts of a million.
const RHO_PPM: u64 = 1_000;
/// S: how long the coordinator waits for a member.
const SESSION: Micros = 300_000;
/// L: how long a lease is, by the clock that measures it (FN-3).
const LEASE: Micros = SESSION / 2;
/// How often a process hears its clock, and pings.
const TICK: Micros = 20_000;
/// How often the coordinator looks at its sessions.
const COORDINATOR_TICK: Micros = 15_000;
/// What a register may hold.
const PAIRS_MAX: usize = 4;

/// A world.
#[derive(Debug)]
pub(crate) struct World {
    plan: Plan,
    guards: Guards,
    random: Random,
    now: u64,
    /// Moments given so far.
    moments: u64,
    events: u64,
    queue: Queue<Event>,
    network: Network,
    coordinator: Coordinator,
    coordinator_clock: Clock,
    coordinator_down_until: u64,
    controllers: Vec<Controller>,
    controls: Random,
    machines: Vec<Machine>,
    clients: Vec<Client>,
    /// The client of each call.
    callers: Vec<usize>,
    nodes: u32,
    /// Requests of the operator so far.
    turns: u64,
    is_calm: bool,
    service: Service,
    watch: Watch,
    trace: Trace,
    history: History,
    failure: Option<Failure>,
}

impl World {
    /// The world of `plan`, before anything happens.
    pub(crate) fn new(plan: &Plan, guards: Guards, is_traced: bool) -> Self {
        let mut random = Random::new(plan.seed ^ 0x005e_ed0f_0afa_de12);
        let coordinator_clock = clock(&mut random);
        let size = plan.members as usize;
        let coordinator = Coordinator::new(SESSION, size, plan.wiring, guards.clone());
        let mut world = World {
            plan: plan.clone(),
            guards,
            network: Network::new(plan.network_faults),
            random,
            now: 0,
            moments: 0,
            events: 0,
            queue: Queue::default(),
            coordinator,
            coordinator_clock,
            coordinator_down_until: 0,
            controllers: Vec::new(),
            controls: controllers::controls(plan.seed),
            machines: Vec::new(),
            clients: Vec::new(),
            callers: Vec::new(),
            nodes: 0,
            turns: 0,
            is_calm: false,
            service: Service {
                pairs_max: PAIRS_MAX,
            },
            watch: Watch::default(),
            trace: Trace::new(is_traced),
            history: History {
                drift_ppm: RHO_PPM,
                ..History::default()
            },
            failure: None,
        };
        world.begin();
        world
    }

    fn begin(&mut self) {
        for machine in 0..self.plan.members as usize {
            let node = self.new_node();
            let disk = Disk::new(DiskId(self.random.name()));
            let clock = clock(&mut self.random);
            self.machines.push(Machine::new(node, disk, clock));
            let at = self.random.between(0, 5_000);
            self.queue.plan(at, Event::Start { machine });
        }
        for index in 0..self.plan.faults.len() {
            let (at, _) = self.plan.faults[index];
            self.queue.plan(at, Event::Fault { index });
        }
        if self.plan.mode == Mode::Liveness {
            self.queue.plan(self.plan.calm_at, Event::Calm);
        }
        self.queue.plan(COORDINATOR_TICK, Event::CoordinatorTick);
        self.begin_controllers();
        if self.plan.modes {
            self.queue.plan(operator::LOOK, Event::Operator);
        }
        let orders = std::mem::take(&mut self.plan.clients);
        for (client, orders) in orders.into_iter().enumerate() {
            let stride = self.plan.stride;
            self.clients.push(Client::new(client, stride, orders));
            self.queue.plan(50_000, Event::Client { client });
        }
    }

    /// A number that no node has had (D16).
    fn new_node(&mut self) -> NodeId {
        self.nodes += 1;
        NodeId(self.nodes)
    }

    /// The machine of a node that is not gone.
    fn machine_of(&self, node: NodeId) -> Option<usize> {
        self.machines
            .iter()
            .position(|machine| machine.node == node)
    }

    /// A moment that no other equals.
    fn moment(&mut self) -> Moment {
        self.moments += 1;
        Moment {
            nanos: self.now * 1_000,
            step: self.moments,
        }
    }

    fn note(&mut self, fact: Fact) {
        let at = self.moment();
        let event = crate::history::Event { at, fact };
        self.trace.say(self.now, || format!("      {event}"));
        self.history.events.push(event);
    }

    fn fail(&mut self, guarantee: &'static str, text: impl Into<String>) {
        let failure = Failure::new(guarantee, text.into());
        self.trace.say(self.now, || format!("FAILED {failure}"));
        self.failure.get_or_insert(failure);
    }

    /// Sends over the network; each copy arrives as an event of its own.
    fn send(&mut self, from: End, to: End, event: &Event) {
        for at in self.network.deliveries(self.now, &mut self.random) {
            let (from, to, event) = (from, to, Box::new(event.clone()));
            self.queue.plan(at, Event::Arrive { from, to, event });
        }
    }

    fn configuration(&self) -> Option<Arc<fader_chain::Configuration>> {
        self.coordinator.configuration().cloned()
    }
}

/// A machine's clocks: rates within rho, each since another day.
fn clock(random: &mut Random) -> Clock {
    let rho = RHO_PPM.cast_signed();
    let drift = random.between(0, 2 * RHO_PPM).cast_signed() - rho;
    Clock {
        origin: random.between(10_000_000, 900_000_000),
        drift_ppm: *random.pick(&[0, -rho, rho, drift]),
        ahead_ms: random.between(0, 400).cast_signed() - 200,
    }
}

#[cfg(test)]
mod tests;
