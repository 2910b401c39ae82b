//! A world for queues: the SQS of [`fader_services`] on the members of two chains, with producers,
//! consumers, dead letters, move tasks, long polls and purges.
//!
//! ```text
//!   client ── call ──▶ head: decide ──▶ log ──▶ members sync ──▶ commit ──▶ answer
//!      ▲                 │ wait            dead letters: steps to the other chain
//!      └── woken ◀── Waiters
//! ```
//!
//! Members crash, lose what they had not synced, lose their disks, and are partitioned. Messages
//! are lost; heads change; clocks on the wall drift and are put to other times. A client that hears
//! nothing does not know what came of its call.
//!
//! Invariants:
//! - MWORLD-3 the same seed and guards give the same run.
//!
//! Checked at each commit, by the log of both chains (`ledger`):
//! - `lost`, `once`: a message leaves its queue by its deletion, a purge or a move alone, and an
//!   unknown outcome is at most one message.
//! - `held`, `delayed`, `order`, `removed`, `purged`: who receives what, and when.
//! - `letters`: none is received more often than its queue allows. `first`: deduplication.
//! - `whole`: a message is in one queue, or on its way to one.
//!
//! Checked of what clients are told:
//! - `lost`: an acknowledged send is in the log. `removed`: nothing is received after its
//!   acknowledged deletion. `named`: a repeated request is answered as the first time.
//! - `woken`: where a long poll waits, nothing can be received. `drained`: when faults have ended
//!   all messages are received, and every step is settled.

mod chain;
mod clients;
mod faults;
mod ledger;
mod service;
mod watch;

use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use fader_chain::{ChainId, Guards};
use fader_services::catalog::AccountId;
use fader_services::request::{Limits, Outcome};
use fader_services::steps::{self, Command, Finish};

use self::chain::{Chain, Entry};
use self::clients::{Call, Client};
use self::ledger::Ledger;
use crate::membership::Run;
use crate::world::queue::Queue;
use crate::world::trace::Trace;
use crate::world::{Failure, Random};

/// When faults end, and when all queues are empty again, in microseconds.
const CALM: u64 = 8_000_000;
const END: u64 = CALM + 30_000_000;
/// How long the answer to a finisher is waited for.
const PATIENCE: u64 = 100_000;
/// How often members send again, waiters are looked at, and steps that are not settled.
const BEAT: u64 = 20_000;
const LOOK: u64 = 100_000;
/// How often work that is due is looked for.
const WORK: u64 = 500_000;
/// How long a member is out of reach before it is left out.
const MISSED: u64 = 150_000;
/// Members that have an eventual send before it is acknowledged.
const W: usize = 2;

const ACCOUNT: &str = "000000000001";

/// A queue of the run.
struct Kept {
    name: &'static str,
    chain: usize,
    /// Where its dead letters go to, and after how many receives.
    dead: Option<(usize, u32)>,
    delay_s: u64,
    is_mixed: bool,
}

const fn kept(name: &'static str, chain: usize, dead: Option<(usize, u32)>) -> Kept {
    Kept {
        name,
        chain,
        dead,
        delay_s: 0,
        is_mixed: false,
    }
}

const QUEUES: [Kept; 8] = [
    kept("failed", 0, None),
    kept("far-failed", 1, None),
    kept("rows-failed.fifo", 0, None),
    kept("jobs", 0, Some((0, 2))),
    kept("far", 0, Some((1, 2))),
    kept("rows.fifo", 1, Some((2, 3))),
    Kept {
        is_mixed: true,
        ..kept("mixed", 1, None)
    },
    Kept {
        delay_s: 1,
        ..kept("slow", 1, None)
    },
];

impl Kept {
    fn is_fifo(&self) -> bool {
        self.name.ends_with(".fifo")
    }
}

/// Who asked for a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asker {
    finisher: u64,
    asked: u64,
}

#[derive(Clone, Debug)]
enum Event {
    Client(usize),
    /// A call reaches the head of its chain, or any member.
    Call(usize),
    Answer(usize, Outcome),
    Deadline(usize),
    /// The head's log reaches a member, in an epoch.
    Log(usize, (usize, u64), usize, Vec<Rc<Entry>>),
    Synced(usize, usize, u64, usize),
    Acknowledged(usize, usize, u64, usize),
    /// An eventual send reaches another member, and is synced there.
    Copy(usize, usize, Bytes),
    Kept(usize, usize, u64, Bytes, usize),
    Beat(usize),
    Look(usize),
    Work(usize),
    Fault,
    Start(usize, usize, u64),
    Ask(Asker, usize, Command),
    Told(Asker, Command, Outcome),
    Timeout(Asker),
}

struct World {
    random: Random,
    queue: Queue<Event>,
    now: u64,
    guards: Guards,
    limits: Limits,
    account: AccountId,
    chains: Vec<Chain>,
    clients: Vec<Client>,
    calls: Vec<Call>,
    finishers: BTreeMap<u64, (Finish, u64)>,
    next_finisher: u64,
    ledger: Ledger,
    /// The calls of eventual sends, by their registers.
    arrivals: BTreeMap<Bytes, usize>,
    /// Members that have an eventual send, by its call.
    holders: BTreeMap<usize, usize>,
    /// When clients were told that messages are deleted.
    deleted: BTreeMap<u128, u64>,
    /// Messages by the handles that clients were shown.
    gone: BTreeMap<String, u128>,
    /// Eventual sends that were acknowledged.
    promised: Vec<u128>,
    claims: BTreeMap<&'static str, usize>,
    trace: Trace,
    failure: Option<Failure>,
}

/// The run of a seed.
pub fn run(seed: u64, guards: &Guards, is_traced: bool) -> Run {
    let mut world = World::new(seed, guards, is_traced);
    world.create_queues();
    let mut events = 0;
    while world.failure.is_none()
        && let Some((at, event)) = world.queue.next()
        && at < END
    {
        world.now = at;
        world.happen(event);
        events += 1;
    }
    world.check_drained();
    Run {
        failure: world.failure,
        claims: world.claims,
        trace: world.trace.take(),
        events,
    }
}

impl World {
    fn new(seed: u64, guards: &Guards, is_traced: bool) -> Self {
        let mut random = Random::new(seed ^ 0x5351_5300);
        let mut limits = Limits::default();
        limits.sqs.deduplication_s = 3;
        limits.sqs.purge_s = 1;
        let chains = vec![Chain::new(0, &mut random), Chain::new(1, &mut random)];
        let mut world = World {
            random,
            queue: Queue::default(),
            now: 0,
            guards: guards.clone(),
            limits,
            account: AccountId(ACCOUNT.to_owned()),
            chains,
            clients: Client::all(),
            calls: Vec::new(),
            finishers: BTreeMap::new(),
            next_finisher: 0,
            ledger: Ledger::new(QUEUES.len()),
            arrivals: BTreeMap::new(),
            holders: BTreeMap::new(),
            deleted: BTreeMap::new(),
            gone: BTreeMap::new(),
            promised: Vec::new(),
            claims: BTreeMap::new(),
            trace: Trace::new(is_traced),
            failure: None,
        };
        for at in 0..2 {
            world.queue.plan(BEAT, Event::Beat(at));
            world.queue.plan(LOOK, Event::Look(at));
            world.queue.plan(WORK, Event::Work(at));
        }
        for client in 0..world.clients.len() {
            let at = world.random.between(1_000, 50_000);
            world.queue.plan(at, Event::Client(client));
        }
        world.queue.plan(300_000, Event::Fault);
        world
    }

    fn is_calm(&self) -> bool {
        CALM <= self.now
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Client(client) => self.client_goes_on(client),
            Event::Call(call) => self.arrive(call),
            Event::Answer(call, outcome) => self.answer(call, outcome),
            Event::Deadline(call) => self.give_up(call),
            Event::Log(at, (member, epoch), from, log) => {
                self.hear(at, member, epoch, from, &log);
            }
            Event::Synced(at, member, life, length) => self.synced(at, member, life, length),
            Event::Acknowledged(at, member, epoch, length) => {
                self.acknowledged(at, member, epoch, length);
            }
            Event::Copy(at, member, key) => self.copy(at, member, &key),
            Event::Kept(at, member, life, key, call) => {
                self.kept_there(at, member, life, &key, call);
            }
            Event::Beat(at) => self.beat(at),
            Event::Look(at) => self.look(at),
            Event::Work(at) => self.work(at),
            Event::Fault => self.strike(),
            Event::Start(at, member, life) => self.start(at, member, life),
            Event::Ask(asker, at, command) => self.decide_step(asker, at, command),
            Event::Told(asker, command, outcome) => self.told(asker, &command, outcome),
            Event::Timeout(asker) => self.hear_finisher(asker, steps::Heard::Nothing),
        }
    }

    /// How long a message travels; nothing where it is lost.
    fn travel(&mut self, permille_lost: u32) -> Option<u64> {
        let is_lost = !self.is_calm() && self.random.chance(permille_lost);
        let travel = self.random.skewed(200, 4_000);
        (!is_lost).then_some(self.now + travel)
    }

    fn count(&mut self, claim: &'static str) {
        *self.claims.entry(claim).or_default() += 1;
    }

    fn fail(&mut self, guarantee: &'static str, text: &str) {
        let at = self.now / 1_000;
        let failure = Failure::new(guarantee, format!("{text} (at {at} ms)"));
        self.trace.say(self.now, || format!("FAILED {failure}"));
        self.failure.get_or_insert(failure);
    }

    /// The index of a queue on a chain.
    fn queue_of(&self, chain: ChainId, collection: fader_services::CollectionId) -> Option<usize> {
        let chain = self.chains.iter().position(|it| it.id == chain)?;
        let view = &self.chains[chain].committed;
        (0..QUEUES.len()).find(|at| {
            QUEUES[*at].chain == chain
                && self.chains[chain]
                    .place(view, &self.account, QUEUES[*at].name)
                    .is_some_and(|place| place.collection == collection)
        })
    }
}

#[cfg(test)]
mod tests;
