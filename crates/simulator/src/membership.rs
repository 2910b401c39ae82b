//! A world for sessions: processes that keep them, watch each other's and act as controllers, by
//! the rules of [`fader_chain::membership`], on a model of ZooKeeper.
//!
//! ```text
//!   Process: Keeper, Watch, controller ──▶ server ──▶ leader ──▶ one order of changes
//!        ▲                                   │  lags    │ elections
//!        └────────── answer, or none ◀───────┴──────────┘
//! ```
//!
//! A request may be carried out long after its client gave up. Its members do nothing but have
//! leases and adopt configurations.
//!
//! Invariants:
//! - MWORLD-1 the same seed and guards give the same run.
//!
//! Checked at each change and each lease:
//! - (FN-2) no incarnation is left out of a configuration that has a lease, and serves in the epoch
//!   that it adopted.
//! - (ZNODE-10) no incarnation that has a lease is missing in a write of its session; ZNODE-2 no
//!   session with such an incarnation is removed.
//! - (ZNODE-3) epochs increase; ZNODE-4 no number is given twice; ZNODE-9 all processes speak a
//!   version that rises.
//! - (SL-6) when faults have ended, a member whose thread stands still is out soon after S and its
//!   last lease.
//! - (CATALOG-2, CATALOG-3) a key that was disabled opens nothing after S (`keys.rs`).
//! - (I20) when faults have ended, every process has a lease for each of its incarnations, and
//!   every incarnation a membership.

mod checks;
mod keys;
mod process;
mod zookeeper;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fader_chain::{ChainId, Guards, Incarnation, NodeId, Version};

use self::keys::{KeyEvent, Keys};
use self::process::{Now, Process, Way, Wish};
use self::zookeeper::{Link, Op, Outcome, Path, ZooKeeper};
use crate::world::Failure;
use crate::world::clock::Clock;
use crate::world::queue::Queue;
use crate::world::random::Random;
use crate::world::trace::Trace;

/// S.
const SESSION: Duration = Duration::from_millis(300);
/// L, as a member measures it (FN-3), in milliseconds.
const LEASE_MS: u64 = 149;
/// rho, in parts of a million.
const RHO_PPM: u64 = 1_000;
const PROCESSES: u32 = 3;
const CHAINS: u32 = 2;
const SERVERS: usize = 3;
/// How long a process waits for an answer, in microseconds.
const PATIENCE: u64 = 150_000;
/// How often it pings, and looks.
const PING: u64 = 30_000;
const LOOK: u64 = 20_000;
/// How often servers hear of changes.
const HEAR: u64 = 10_000;
/// When faults end, and when everything is well again.
const CALM: u64 = 5_000_000;
const END: u64 = CALM + 5_000_000;
/// When one member's thread stands still after that, for how long, and by when it is out. That is
/// S, the rest of its last lease, and what a controller takes.
const HANG: u64 = CALM + 1_000_000;
const HANG_TIME: u64 = 1_500_000;
const OUT: u64 = 700_000;

/// A run that has happened.
#[derive(Debug)]
pub struct Run {
    /// What is wrong with it.
    pub failure: Option<Failure>,
    /// How many claims each check found true, and how often what is rare happened.
    pub claims: BTreeMap<&'static str, usize>,
    /// The account, if it was asked for.
    pub trace: Vec<String>,
    /// How many events there were.
    pub events: u64,
}

/// A request on its way.
#[derive(Clone, Debug)]
struct Call {
    number: u64,
    process: usize,
    way: Way,
    server: usize,
    link: Link,
    seen: usize,
    op: Op,
}

#[derive(Clone, Debug)]
enum Event {
    Start(usize, u64),
    Tick(usize, u64),
    Look(usize, u64),
    AtServer(Call),
    AtLeader(Call),
    /// An answer, with how new the server's state was, and the watches that fired before.
    Answer(Call, Outcome, usize, Vec<Path>),
    Timeout(Call),
    Hear,
    Fault,
    /// When faults have ended, the thread of one member stands still.
    Hang,
    /// By now the member with that incarnation is out.
    Hung(ChainId, Incarnation),
    /// A process ends, and one that speaks the newest version takes its place.
    Upgrade(usize),
    Keys(KeyEvent),
}

struct World {
    random: Random,
    queue: Queue<Event>,
    now: u64,
    calls: u64,
    zookeeper: ZooKeeper,
    processes: Vec<Process>,
    numbers: BTreeSet<NodeId>,
    keys: Keys,
    claims: BTreeMap<&'static str, usize>,
    trace: Trace,
    failure: Option<Failure>,
}

/// The run of a seed.
pub fn run(seed: u64, guards: &Guards, is_traced: bool) -> Run {
    let mut world = World::new(seed, guards, is_traced);
    let mut events = 0;
    while world.failure.is_none()
        && let Some((at, event)) = world.queue.next()
        && at < END
    {
        world.now = at;
        world.happen(event);
        events += 1;
    }
    world.check_well();
    Run {
        failure: world.failure,
        claims: world.claims,
        trace: world.trace.take(),
        events,
    }
}

impl World {
    fn new(seed: u64, guards: &Guards, is_traced: bool) -> Self {
        let mut random = Random::new(seed ^ 0x5e55_1015);
        let is_upgraded = random.chance(300);
        let version = match is_upgraded {
            true => Version::OLDEST,
            false => Version::NEWEST,
        };
        let processes = (0..PROCESSES).map(|place| {
            let rho = RHO_PPM.cast_signed();
            let clock = Clock {
                origin: random.between(10_000_000, 900_000_000),
                drift_ppm: *random.pick(&[0, -rho, rho]),
                ahead_ms: 0,
            };
            Process::new(place, version, clock, guards.clone())
        });
        let mut world = World {
            processes: processes.collect(),
            random,
            queue: Queue::default(),
            now: 0,
            calls: 0,
            zookeeper: ZooKeeper::new(SERVERS, version, guards.clone()),
            numbers: BTreeSet::new(),
            keys: Keys::new(seed, guards),
            claims: BTreeMap::new(),
            trace: Trace::new(is_traced),
            failure: None,
        };
        for process in 0..world.processes.len() {
            world.queue.plan(1_000, Event::Start(process, 0));
            if is_upgraded {
                let at = world.random.between(400_000, 4_000_000);
                world.queue.plan(at, Event::Upgrade(process));
            }
        }
        world.queue.plan(HEAR, Event::Hear);
        world.queue.plan(500_000, Event::Fault);
        world.queue.plan(HANG, Event::Hang);
        world.plan_keys();
        world
    }

    fn happen(&mut self, event: Event) {
        // A process that stands still hears of everything when it goes on.
        let hears = match &event {
            Event::Tick(process, _) | Event::Look(process, _) => Some(*process),
            Event::Answer(call, ..) | Event::Timeout(call) => Some(call.process),
            _ => None,
        };
        if let Some(until) = hears.map(|process| self.processes[process].paused_until)
            && self.now < until
        {
            self.queue.plan(until, event);
            return;
        }
        match event {
            Event::Start(process, run) if self.processes[process].run == run => self.start(process),
            Event::Tick(process, run) if self.processes[process].run == run => {
                self.queue.plan(self.now + PING, Event::Tick(process, run));
                self.step(process, |process, now| process.tick(now));
            }
            Event::Look(process, run) if self.processes[process].run == run => {
                self.queue.plan(self.now + LOOK, Event::Look(process, run));
                if self.processes[process].way(Way::Watch).call.is_none() {
                    self.step(process, |process, now| process.look(now));
                }
            }
            Event::Start(..) | Event::Tick(..) | Event::Look(..) => {}
            Event::AtServer(call) => self.at_server(call),
            Event::AtLeader(call) => self.at_leader(call),
            Event::Answer(call, outcome, seen, notices) => {
                self.answer(&call, outcome, seen, &notices);
            }
            Event::Timeout(call) => self.answer(&call, Outcome::Lost, 0, &[]),
            Event::Hear => {
                self.queue.plan(self.now + HEAR, Event::Hear);
                for server in 0..self.zookeeper.servers() {
                    self.hear(server);
                }
            }
            Event::Fault => self.fault(),
            Event::Hang => self.hang_once(),
            Event::Hung(chain, incarnation) => self.check_hung(chain, incarnation),
            Event::Keys(event) => self.on_keys(event),
            Event::Upgrade(process) => {
                self.processes[process].speaks = Version::NEWEST;
                self.crash(process, self.now + 50_000);
            }
        }
    }

    fn start(&mut self, process: usize) {
        let here = &mut self.processes[process];
        here.is_up = true;
        let run = here.run;
        let server = self.random.below(SERVERS);
        for way in [Way::Session, Way::Watch, Way::Control] {
            let connection = self.processes[process].way(way);
            connection.server = server;
            connection.number = run << 32;
        }
        self.queue.plan(self.now, Event::Tick(process, run));
        self.queue.plan(self.now + LOOK, Event::Look(process, run));
    }

    /// Lets a process do something, and does what it wants.
    fn step(&mut self, process: usize, act: impl FnOnce(&mut Process, Now) -> Vec<Wish>) {
        let now = Now {
            at: self.now,
            fresh: self.random.name(),
        };
        for wish in act(&mut self.processes[process], now) {
            match wish {
                Wish::Send(way, op) => self.send(process, way, op),
                Wish::Leased(chain) => self.leased(process, chain),
                Wish::Numbered(node) => {
                    self.count("ZNODE-4");
                    if !self.numbers.insert(node) {
                        self.fail("ZNODE-4", &format!("{node} is given twice"));
                    }
                }
            }
        }
    }

    fn send(&mut self, process: usize, way: Way, op: Op) {
        self.calls += 1;
        let connection = self.processes[process].way(way);
        connection.call = Some(self.calls);
        let call = Call {
            number: self.calls,
            process,
            way,
            server: connection.server,
            link: (process, connection.number),
            seen: connection.seen,
            op,
        };
        self.queue
            .plan(self.now + PATIENCE, Event::Timeout(call.clone()));
        let at = self.now + self.travel();
        self.queue.plan(at, Event::AtServer(call));
    }

    /// The delay of a message: now and then longer than any wait.
    fn travel(&mut self) -> u64 {
        match self.now < CALM && self.random.chance(15) {
            true => self.random.between(PATIENCE / 2, 4 * PATIENCE),
            false => self.random.skewed(200, 4_000),
        }
    }

    fn at_server(&mut self, call: Call) {
        let server = call.server;
        if self.zookeeper.applied(server) < call.seen {
            // It is behind what was seen.
            self.reply(call, Outcome::Lost);
            return;
        }
        match &call.op {
            Op::Get(_) | Op::Watched(_) | Op::Sessions => {
                let outcome = self.zookeeper.read(server, call.link, &call.op);
                self.reply(call, outcome);
            }
            Op::Sync if self.zookeeper.is_deposed(server, self.now) => {
                self.count("deposed");
                self.reply(call, Outcome::Done);
            }
            _ => {
                let at = self.now.max(self.zookeeper.reaches_at(server)) + self.travel();
                self.queue.plan(at, Event::AtLeader(call));
            }
        }
    }

    fn at_leader(&mut self, call: Call) {
        let reaches_at = self.zookeeper.reaches_at(call.server);
        if self.now < reaches_at {
            // Another leader is elected meanwhile: it is lost, or comes later.
            if self.random.chance(500) {
                let at = reaches_at + self.travel();
                self.queue.plan(at, Event::AtLeader(call));
            }
            return;
        }
        let outcome = match &call.op {
            Op::Sync => Outcome::Done,
            op => self.zookeeper.change(op),
        };
        let process = &mut self.processes[call.process];
        let is_late = process.way(call.way).call != Some(call.number);
        self.trace.say(self.now, || {
            let late = if is_late { " late" } else { "" };
            let what = (&call.op, &outcome);
            format!("n{} {}{late}: {what:?}", call.process, call.number)
        });
        if is_late && !matches!(call.op, Op::Sync) {
            self.count(match outcome {
                Outcome::Done => "late done",
                _ => "late refused",
            });
        }
        if matches!(outcome, Outcome::Done) {
            self.changed(&call.op);
        }
        self.zookeeper.catch_up(call.server, usize::MAX);
        self.reply(call, outcome);
    }

    fn reply(&mut self, call: Call, outcome: Outcome) {
        if self.now < CALM && self.random.chance(10) {
            return;
        }
        let seen = self.zookeeper.applied(call.server);
        let notices = match call.way {
            Way::Watch => self.zookeeper.notices(call.server, call.link),
            Way::Session | Way::Control => Vec::new(),
        };
        let at = self.now + self.travel();
        self.queue
            .plan(at, Event::Answer(call, outcome, seen, notices));
    }

    /// An answer comes, if it is waited for.
    fn answer(&mut self, call: &Call, outcome: Outcome, seen: usize, notices: &[Path]) {
        let server = self.random.below(SERVERS);
        let connection = self.processes[call.process].way(call.way);
        if connection.call != Some(call.number) {
            return;
        }
        connection.call = None;
        connection.seen = connection.seen.max(seen);
        if matches!(outcome, Outcome::Lost) {
            connection.server = server;
            connection.number += 1;
        }
        let way = call.way;
        self.step(call.process, |process, now| {
            process.on_notices(way, notices);
            process.on_outcome(way, outcome, now)
        });
    }

    fn hear(&mut self, server: usize) {
        if self.now < self.zookeeper.reaches_at(server) {
            return;
        }
        let lag = self.zookeeper.lag(server);
        let count = match self.now < CALM && self.random.chance(300) {
            true => self.random.below(lag + 1),
            false => lag,
        };
        self.zookeeper.catch_up(server, count);
    }

    fn fault(&mut self) {
        if CALM <= self.now {
            return;
        }
        let wait = self.random.between(50_000, 600_000);
        self.queue.plan(self.now + wait, Event::Fault);
        let time = self.random.skewed(20_000, 900_000).min(CALM - self.now);
        let until = self.now + time;
        let process = self.random.below(self.processes.len());
        let server = self.random.below(SERVERS);
        match self.random.below(6) {
            0 => self.crash(process, until),
            5 => drop(self.hang(process, until)),
            1 => self.processes[process].paused_until = until,
            2 | 3 => self.zookeeper.lag_until(server, until),
            _ => {
                let known_at = until + self.random.skewed(0, 300_000);
                self.zookeeper.elect(server, until, known_at.min(CALM));
            }
        }
        self.trace.say(self.now, || {
            format!("a fault of n{process} or server {server} for {time} us")
        });
    }

    /// The thread of one of its members stands still until then.
    fn hang(&mut self, process: usize, until: u64) -> ChainId {
        let chain = ChainId(u32::try_from(self.random.below(CHAINS as usize)).unwrap_or_default());
        self.processes[process].hung = Some((chain, until));
        chain
    }

    fn hang_once(&mut self) {
        let process = self.random.below(self.processes.len());
        let chain = self.hang(process, self.now + HANG_TIME);
        if let Some(incarnation) = self.processes[process].incarnations.get(&chain) {
            let incarnation = incarnation.identity.incarnation;
            self.queue
                .plan(self.now + OUT, Event::Hung(chain, incarnation));
        }
    }

    /// A process ends, and starts again then.
    fn crash(&mut self, process: usize, until: u64) {
        let here = &mut self.processes[process];
        here.stop();
        let run = here.run;
        self.queue.plan(until, Event::Start(process, run));
    }

    fn count(&mut self, claim: &'static str) {
        *self.claims.entry(claim).or_default() += 1;
    }

    fn fail(&mut self, guarantee: &'static str, text: &str) {
        self.trace
            .say(self.now, || format!("FAILED {guarantee}: {text}"));
        let at = self.now / 1_000;
        let failure = Failure::new(guarantee, format!("{text} (at {at} ms)"));
        self.failure.get_or_insert(failure);
    }
}

#[cfg(test)]
mod tests;
