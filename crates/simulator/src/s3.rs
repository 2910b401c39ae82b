//! A world for buckets: the S3 of [`fader_services`] and its blocks on the members of three chains.
//! The first has the names, the others have the buckets. Its clients put, upload in parts, copy,
//! delete, read and list; they make buckets, empty them and delete them.
//!
//! ```text
//!   client ── bytes ──▶ members: durable, apart from records
//!          ── rows, commit ──▶ head: decide ──▶ log ──▶ members with bytes (BGATE-1) ──▶ commit
//!   creation ── names: enter ──▶ own chain: found, make
//!   deletion ── own chain: end ──▶ names: free ──▶ own chain: settle     (steps of `services`)
//!   collector at the head: leases over ─▶ fence ─▶ rows go      garbage ─ wait ─▶ rows go
//! ```
//!
//! Members crash between bytes, record and state, lose their disks, are partitioned, and join
//! again. Messages with rows, commits and verdicts are lost, repeated and late. Bytes are damaged;
//! clocks on the wall are put to other times. Some reads take almost as long as garbage waits.
//!
//! Invariants:
//! - MWORLD-4 the same seed and rules give the same run.
//!
//! Checked at each commit, against a naive bucket:
//! - `winner`: commits decide conditions in their order. `twice`: an attempt is committed once.
//! - `whole`: the members of the configuration have the bytes of what an entry names, durable.
//! - `place`: a name stands for one bucket, at one place. One of which a client was told is there.
//! - `deleted`: a bucket goes by a request about it, for ever. `empty`: it had no version.
//!
//! Checked of what clients are told:
//! - `lost`: an eventual put that a member took is placed, or a later one is; at the end too. But
//!   for those of buckets that went, and of members that were away or lost their disks.
//! - `linear`: a read and a list show the bucket at one commit between question and answer.
//! - `deleted`: the name of a bucket that is told to be gone does not stand for it.
//! - `read`: for the wait of garbage a read has the bytes that it found. `bytes`: they are right.
//!
//! Checked when faults have ended:
//! - `whole`: each member has the bytes of each version. `gone`: and no others, nor their rows,
//!   nor a row of a bucket that went. `place`: no step is left.
//! - `versions`: the versions are those of the naive bucket.

mod buckets;
mod bytes;
mod calls;
mod chain;
mod clients;
mod collect;
mod faults;
mod reads;
mod tentative;
mod uploads;
mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use ::bytes::Bytes;
use fader_chain::Guards;
use fader_services::MapView;
use fader_services::catalog::AccountId;
use fader_services::request::{Limits, Outcome};
use fader_services::steps::Heard;

use self::buckets::{Finisher, Ledger};
use self::bytes::Copied;
use self::calls::Call;
use self::chain::{Chain, Entry};
use self::clients::Client;
use self::collect::{Ask, Collector};
use self::reads::Read;
use self::tentative::Operation;
use self::watch::Model;
use crate::membership::Run;
use crate::world::queue::Queue;
use crate::world::trace::Trace;
use crate::world::{Failure, Random};

/// When faults end, and when everything is quiescent, in microseconds.
const CALM: u64 = 8_000_000;
const END: u64 = CALM + 40_000_000;
/// How often members send again, the head looks for what is to go, and bytes are read again.
const BEAT: u64 = 20_000;
const LOOK: u64 = 100_000;
const SCRUB: u64 = 400_000;
/// How long a member is out of reach before it is left out.
const MISSED: u64 = 150_000;
/// The lease of a block, and the wait of garbage, in milliseconds.
const LEASE_MS: u64 = 2_000;
const WAIT_MS: u64 = 1_500;
/// Bytes of an object in the index, and of a block.
const INLINE: u64 = 16;
const BLOCK: u32 = 32;

/// The chain that has the names, and all chains.
const SYSTEM: usize = 0;
const CHAINS: usize = 3;

const ACCOUNT: &str = "000000000001";
const NAMES: [&str; 3] = ["photos", "films", "notes"];
const KEYS: [&str; 5] = ["a", "b/1", "b/2", "c", "d"];

/// A rule of those that carry requests and bytes: what a mutant leaves out. Those of the service
/// are [`fader_chain::Guard`]s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The head takes the row of a block only with the bytes.
    OwnBytes,
    /// BGATE-1: a member logs the row of a block only with the bytes.
    Gate,
    /// Bytes count when they are synced.
    SyncBytes,
    /// A member joins when it has the bytes of all rows.
    JoinBytes,
    /// Bytes whose row is in the log are not dropped as rowless.
    KeepLogged,
    /// Garbage waits.
    Wait,
    /// GWAIT-1: the wait is one of a clock that is never put to another time.
    Monotonic,
    /// A lease that is over is no end: the bucket is asked.
    Fence,
    /// A copy has blocks of its own.
    CopyBytes,
    /// The rows of parts stay when they are completed.
    PartRows,
    /// A condition is decided on the newest state.
    Newest,
    /// A list and a read are answered at a member that has what was committed before.
    Fresh,
    /// Bytes are compared with their checksum before they repair others.
    CheckedRepair,
    /// And before they are served.
    CheckedRead,
    /// A chain checks the id of the bucket that a request is about.
    Collection,
    /// SB-7: whether a bucket is empty is decided on the newest state of its chain.
    NewestEmpty,
    /// SB-7: the step that frees a name begins when the end of the bucket is committed.
    EndCommitted,
    /// ROUTE-3: a client is told that a bucket is gone when its name is free.
    AnswerFreed,
    /// SE-4: no member takes an eventual put of a closed attempt.
    Closed,
    /// SE-2: what a promotion replaces is found on the newest state.
    SettleNewest,
    /// COLLECT-5: a closed attempt ends behind a barrier.
    Barrier,
}

#[derive(Clone, Debug)]
enum Event {
    Client(usize),
    /// A call reaches the head.
    Call(usize),
    Answer(usize, Outcome),
    Deadline(usize),
    Read(usize),
    /// The head's log reaches a member, in an epoch: from where, with how much is committed, and
    /// the floor.
    Log((usize, u64), usize, Vec<Rc<Entry>>, (usize, usize)),
    Synced(usize, u64, usize),
    Acknowledged(usize, u64, usize),
    /// Bytes reach a member; as a repair of its own.
    Bytes(usize, u128, Copied, bool),
    Flushed(usize, u64, u128),
    Beat,
    Look,
    Scrub,
    /// An eventual put reaches a member.
    Take(usize, usize),
    /// The head hears of what a member holds.
    Settle(usize),
    /// All members have told what they hold, in this epoch.
    Gathered(u64),
    Ask(usize),
    Told(usize, Outcome),
    GiveUp(Vec<u128>),
    Fault,
    Start(usize, u64),
    /// A finisher of a step waits no longer for what it asked.
    Patience(usize, u64),
}

struct World {
    random: Random,
    /// Events, each with the chain at which it happens.
    queue: Queue<(usize, Event)>,
    now: u64,
    guards: Guards,
    without: Option<Rule>,
    limits: Limits,
    account: AccountId,
    /// The first has the names of buckets, the others have buckets.
    chains: Vec<Chain>,
    /// The chain at which something happens now.
    on: usize,
    clients: Vec<Client>,
    calls: Vec<Call>,
    reads: Vec<Read>,
    asks: Vec<Ask>,
    collectors: Vec<Collector>,
    models: Vec<Model>,
    finishers: Vec<Option<Finisher>>,
    ledger: Ledger,
    /// The bytes of each block that was ever cut, and those of each version, by its ETag.
    blocks: BTreeMap<u128, Bytes>,
    bodies: BTreeMap<String, Bytes>,
    /// Whether disks are lost, or bytes damaged: not both, or nothing could repair them.
    wipes: bool,
    is_versioned: bool,
    /// Whether buckets take eventual puts.
    is_mixed: bool,
    operations: Vec<Operation>,
    claims: BTreeMap<&'static str, usize>,
    trace: Trace,
    failure: Option<Failure>,
}

/// The run of a seed, perhaps without a rule.
pub fn run(seed: u64, guards: &Guards, without: Option<Rule>, is_traced: bool) -> Run {
    let mut world = World::new(seed, guards, without, is_traced);
    world.make_first();
    let mut events = 0;
    while world.failure.is_none()
        && let Some((at, (on, event))) = world.queue.next()
        && at < END
    {
        (world.now, world.on) = (at, on);
        world.happen(event);
        events += 1;
    }
    world.check_end();
    Run {
        failure: world.failure,
        claims: world.claims,
        trace: world.trace.take(),
        events,
    }
}

impl World {
    fn new(seed: u64, guards: &Guards, without: Option<Rule>, is_traced: bool) -> Self {
        let mut random = Random::new(seed ^ 0x5333_5300);
        let mut limits = Limits::default();
        limits.s3.inline_bytes = INLINE;
        limits.s3.block_bytes = BLOCK;
        limits.s3.part_bytes_min = 1;
        limits.blocks.lease_ms = LEASE_MS;
        limits.s3.garbage_look_ms = 500;
        let chains = (0..CHAINS).map(|_| Chain::new(&mut random)).collect();
        let kind = random.below(8);
        let mut world = World {
            wipes: random.chance(500),
            is_versioned: kind < 2,
            is_mixed: 4 <= kind,
            operations: Vec::new(),
            random,
            queue: Queue::default(),
            now: 0,
            guards: guards.clone(),
            without,
            limits,
            account: AccountId(ACCOUNT.to_owned()),
            chains,
            on: SYSTEM,
            clients: Client::all(),
            calls: Vec::new(),
            reads: Vec::new(),
            asks: Vec::new(),
            collectors: (0..CHAINS).map(|_| Collector::default()).collect(),
            models: (0..CHAINS).map(|_| Model::default()).collect(),
            finishers: Vec::new(),
            ledger: Ledger::default(),
            blocks: BTreeMap::new(),
            bodies: BTreeMap::new(),
            claims: BTreeMap::new(),
            trace: Trace::new(is_traced),
            failure: None,
        };
        for on in 0..CHAINS {
            world.on = on;
            world.plan(BEAT, Event::Beat);
            world.plan(LOOK, Event::Look);
            world.plan(SCRUB, Event::Scrub);
            world.plan(300_000, Event::Fault);
        }
        for client in 0..world.clients.len() {
            let at = world.random.between(1_000, 50_000);
            world.plan(at, Event::Client(client));
        }
        world
    }

    /// Plans an event at the chain at which something happens now.
    fn plan(&mut self, at: u64, event: Event) {
        self.queue.plan(at, (self.on, event));
    }

    fn has(&self, rule: Rule) -> bool {
        self.without != Some(rule)
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
            Event::Read(read) => self.read_on(read),
            Event::Log((member, epoch), from, log, (commits, floor)) => {
                self.hear(member, epoch, from, &log, commits, floor);
            }
            Event::Synced(member, life, length) => self.synced(member, life, length),
            Event::Acknowledged(member, epoch, length) => {
                self.acknowledged(member, epoch, length);
            }
            Event::Bytes(member, id, copied, is_repair) => {
                self.bytes_come(member, id, copied, is_repair);
            }
            Event::Flushed(member, life, id) => self.flushed(member, life, id),
            Event::Beat => self.beat(),
            Event::Look => self.look(),
            Event::Scrub => self.scrub(),
            Event::Take(call, member) => self.take(call, member),
            Event::Settle(operation) => self.settle(operation),
            Event::Gathered(epoch) => self.gathered(epoch),
            Event::Ask(ask) => self.ask(ask),
            Event::Told(ask, outcome) => self.told(ask, &outcome),
            Event::GiveUp(ids) => self.fence_all(&ids),
            Event::Fault => self.strike(),
            Event::Start(member, life) => self.start(member, life),
            Event::Patience(finisher, asked) => {
                self.hear_step(finisher, asked, Heard::Nothing);
            }
        }
    }

    /// How long a message travels; nothing where it is lost.
    fn travel(&mut self, permille_lost: u32) -> Option<u64> {
        let is_lost = !self.is_calm() && self.random.chance(permille_lost);
        let travel = self.random.skewed(200, 4_000);
        (!is_lost).then_some(self.now + travel)
    }

    /// When a message arrives that is late now and then, and when it does once more, if it does.
    fn arrivals(&mut self, may_repeat: bool) -> Vec<u64> {
        let late = |random: &mut Random, now: u64| now + random.between(100_000, 5_000_000);
        let mut arrivals = Vec::new();
        if let Some(time) = self.travel(50) {
            let is_late = !self.is_calm() && self.random.chance(60);
            arrivals.push(if is_late {
                late(&mut self.random, self.now)
            } else {
                time
            });
        }
        if may_repeat && !self.is_calm() && self.random.chance(100) {
            arrivals.push(late(&mut self.random, self.now));
        }
        arrivals
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

    /// The blocks that have rows in a view.
    fn rows(view: &MapView) -> BTreeSet<u128> {
        let rows = fader_services::blocks::rows_from(view, None, usize::MAX);
        rows.expect(READABLE)
            .into_iter()
            .map(|(id, _)| id)
            .collect()
    }
}

const READABLE: &str = "a view in memory can be read";

#[cfg(test)]
mod tests;
