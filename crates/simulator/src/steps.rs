//! A world for steps across chains: two chains, counters that move between them, and nodes that
//! finish what others began, by the rules of [`fader_services::steps`].
//!
//! ```text
//!   client ── Move ──▶ origin: record ──▶ told that it began
//!                        │  ▲                  │
//!     sweeper ── finds ──┘  └──── settle ──── Finish ──── take ──▶ destination
//! ```
//!
//! A chain decides on its newest state and commits later. At a crash it loses the end of what is
//! not committed, with every answer to it. Messages are lost, doubled, and come long after their
//! sender has gone. A finisher ends at any moment, between any two of its steps.
//!
//! Invariants:
//! - MWORLD-2 the same seed and guards give the same run.
//!
//! Checked at each commit and in the end:
//! - (COUNTER-1) the counters and what is under way between them are what was added.
//! - (STEP-7) a step has one outcome, and who is told one is told that.
//! - (ROUTE-4) when faults have ended, every step is settled, and no mark is left but of the last
//!   ones.

mod chain;

use std::collections::BTreeMap;

use fader_chain::{ChainId, Guards};
use fader_services::counter::{Reply, Request};
use fader_services::request::{self, Outcome};
use fader_services::steps::{self, Ask, Command, Finish, Heard, Step, Taken};

use self::chain::{Chain, NAMES};
use crate::membership::Run;
use crate::world::Failure;
use crate::world::queue::Queue;
use crate::world::random::Random;
use crate::world::trace::Trace;

/// How long the answer to a command is waited for, in microseconds.
const PATIENCE: u64 = 50_000;
/// How often what is not settled is looked for.
const LOOK: u64 = 40_000;
/// When faults end, and when everything is settled.
const CALM: u64 = 2_000_000;
const END: u64 = CALM + 2_000_000;
/// Moves that are begun.
const MOVES: usize = 40;

/// Who asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asker {
    Client,
    /// A finisher, and the number of what it asked.
    Finisher(u64, u64),
}

#[derive(Clone, Debug)]
enum Event {
    Begin(usize),
    Ask(Asker, usize, request::Request),
    Commit(usize),
    Answer(Asker, usize, request::Request, Outcome),
    Timeout(u64, u64),
    Look(usize),
    Crash(usize),
}

/// Something that one chain's entry did, for the checks.
#[derive(Clone, Debug)]
enum Deed {
    Nothing,
    Added(u64),
    Began,
    Took(ChainId, u64, Taken),
}

struct World {
    random: Random,
    queue: Queue<Event>,
    now: u64,
    guards: Guards,
    chains: [Chain; 2],
    finishers: BTreeMap<u64, (Finish, u64)>,
    next: u64,
    added: u64,
    outcomes: BTreeMap<(ChainId, u64), Taken>,
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
    world.check_settled();
    Run {
        failure: world.failure,
        claims: world.claims,
        trace: world.trace.take(),
        events,
    }
}

impl World {
    fn new(seed: u64, guards: &Guards, is_traced: bool) -> Self {
        let mut world = World {
            random: Random::new(seed ^ 0x57e9_5057),
            queue: Queue::default(),
            now: 0,
            guards: guards.clone(),
            chains: [Chain::new(0), Chain::new(1)],
            finishers: BTreeMap::new(),
            next: 0,
            added: 0,
            outcomes: BTreeMap::new(),
            claims: BTreeMap::new(),
            trace: Trace::new(is_traced),
            failure: None,
        };
        for at in 0..2 {
            world.queue.plan(LOOK, Event::Look(at));
            world.queue.plan(100_000, Event::Crash(at));
        }
        for number in 0..MOVES {
            let at = world.random.between(1_000, CALM + CALM / 4);
            world.queue.plan(at, Event::Begin(number));
        }
        world
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Begin(number) => self.begin(number),
            Event::Ask(asker, at, request) => self.decide(asker, at, request),
            Event::Commit(at) => self.commit(at),
            Event::Answer(asker, at, request, outcome) => self.answer(asker, at, &request, outcome),
            Event::Timeout(finisher, asked) => self.hear(finisher, asked, Heard::Nothing),
            Event::Look(at) => self.look(at),
            Event::Crash(at) => self.crash(at),
        }
    }

    /// A client asks for something, of one chain or the other.
    fn begin(&mut self, number: usize) {
        let at = self.random.below(2);
        let by = self.random.between(1, 9);
        let request = match number % 3 {
            0 => Request::Add {
                name: NAMES[at].to_owned(),
                by,
                limit: u64::MAX,
            },
            _ => Request::Move {
                name: NAMES[at].to_owned(),
                to: NAMES[1 - at].to_owned(),
                by,
                limit: self.random.between(5, 60),
            },
        };
        self.send(Asker::Client, at, &request::Request::Counter(request));
    }

    /// A message leaves: now and then it is lost, comes twice, or long after.
    fn send(&mut self, asker: Asker, at: usize, request: &request::Request) {
        let is_calm = CALM <= self.now;
        let copies = match () {
            () if is_calm => 1,
            () if self.random.chance(100) => 0,
            // A client's own request has a name: the chain knows it again.
            () if asker != Asker::Client && self.random.chance(200) => 2,
            () => 1,
        };
        for _ in 0..copies {
            let travel = match !is_calm && self.random.chance(100) {
                true => self.random.between(PATIENCE, 8 * PATIENCE),
                false => self.random.skewed(200, 4_000),
            };
            let event = Event::Ask(asker, at, request.clone());
            self.queue.plan(self.now + travel, event);
        }
    }

    fn decide(&mut self, asker: Asker, at: usize, request: request::Request) {
        let place = self.chains[1 - at].place();
        let outcome = self.chains[at].decide(&request, place, &self.guards);
        let deed = deed_of(&request, &outcome);
        self.trace.say(self.now, || {
            format!("c{at} decides {request:?}: {outcome:?}")
        });
        let answer = (asker, request, outcome);
        self.chains[at].pend(answer, deed);
        let delay = self.random.skewed(100, 3_000);
        self.queue.plan(self.now + delay, Event::Commit(at));
    }

    /// The oldest entry of a chain is committed, and its asker is told.
    fn commit(&mut self, at: usize) {
        let Some(((asker, request, outcome), deed)) = self.chains[at].commit() else {
            return;
        };
        match deed {
            Deed::Nothing => {}
            Deed::Added(by) => self.added += by,
            Deed::Began => self.count("began"),
            Deed::Took(origin, number, taken) => self.took(origin, number, &taken),
        }
        self.check_sum();
        if CALM <= self.now || !self.random.chance(100) {
            let at_time = self.now + self.random.skewed(200, 4_000);
            let event = Event::Answer(asker, at, request, outcome);
            self.queue.plan(at_time, event);
        }
    }

    fn took(&mut self, origin: ChainId, number: u64, taken: &Taken) {
        if *taken == Taken::Passed {
            return self.count("passed");
        }
        let known = self
            .outcomes
            .entry((origin, number))
            .or_insert_with(|| taken.clone());
        if known != taken {
            let text = format!("step {number} of {origin} is {taken:?} after {known:?}");
            self.fail("STEP-7", &text);
        }
        self.count("taken");
    }

    fn answer(&mut self, asker: Asker, at: usize, request: &request::Request, outcome: Outcome) {
        match asker {
            Asker::Client => {
                if let Ok(reply) = &outcome
                    && let Some(step) = reply.begun()
                {
                    self.finish(at, step.clone());
                }
            }
            Asker::Finisher(finisher, asked) => {
                let heard = match (request, outcome) {
                    (request::Request::Step(Command::Take(..)), Ok(request::Reply::Step(it))) => {
                        Heard::Taken(it)
                    }
                    (_, Ok(_)) => Heard::Settled,
                    (_, Err(_)) => Heard::Nothing,
                };
                self.hear(finisher, asked, heard);
            }
        }
    }

    /// A node begins to finish a step.
    fn finish(&mut self, origin: usize, step: Step) {
        self.next += 1;
        let finish = Finish::new(self.chains[origin].id, step, self.guards.clone());
        self.finishers.insert(self.next, (finish, 0));
        self.ask_next(self.next);
    }

    fn ask_next(&mut self, finisher: u64) {
        // Its node ends here, in any state.
        if self.now < CALM && self.random.chance(150) {
            self.finishers.remove(&finisher);
            return self.count("ended");
        }
        let Some((finish, asked)) = self.finishers.get_mut(&finisher) else {
            return;
        };
        *asked += 1;
        let asked = *asked;
        match finish.ask() {
            Ask::Of(ChainId(at), command) => {
                let asker = Asker::Finisher(finisher, asked);
                self.send(asker, at as usize, &request::Request::Step(command));
                let event = Event::Timeout(finisher, asked);
                self.queue.plan(self.now + PATIENCE, event);
            }
            Ask::Nothing(_) => {
                self.finishers.remove(&finisher);
                self.count("finished");
            }
        }
    }

    fn hear(&mut self, finisher: u64, asked: u64, heard: Heard) {
        match self.finishers.get_mut(&finisher) {
            Some((finish, now)) if *now == asked => finish.hear(heard),
            // It asked something else meanwhile, or it has ended.
            _ => return,
        }
        self.ask_next(finisher);
    }

    /// A node looks what is not settled, and finishes it.
    fn look(&mut self, at: usize) {
        self.queue.plan(self.now + LOOK, Event::Look(at));
        let unsettled = steps::unsettled(&self.chains[at].committed, 64);
        for step in unsettled.expect("a view in memory can be read") {
            self.finish(at, step);
        }
    }

    fn crash(&mut self, at: usize) {
        if self.now < CALM {
            let next = self.now + self.random.between(20_000, 200_000);
            self.queue.plan(next, Event::Crash(at));
            let kept = self.random.below(4);
            let lost = self.chains[at].crash(kept);
            if lost != 0 {
                self.count("lost entries");
            }
        }
    }

    /// COUNTER-1: what is recorded and was not added on the other chain is under way, or comes
    /// back.
    fn check_sum(&mut self) {
        let mut sum: u64 = self.chains.iter().map(Chain::value).sum();
        for chain in &self.chains {
            let unsettled = steps::unsettled(&chain.committed, usize::MAX);
            for step in unsettled.expect("a view in memory can be read") {
                let outcome = self.outcomes.get(&(chain.id, step.number));
                let is_there = matches!(outcome, Some(Taken::Done(done)) if chain::is_moved(done));
                if !is_there {
                    sum += chain::moved_by(&step);
                }
            }
        }
        if sum != self.added {
            let text = format!("{sum} are there, {} were added", self.added);
            self.fail("COUNTER-1", &text);
        }
        self.count("COUNTER-1");
    }

    /// ROUTE-4.
    fn check_settled(&mut self) {
        if self.failure.is_some() {
            return;
        }
        for at in 0..2 {
            let chain = &self.chains[at];
            let unsettled = steps::unsettled(&chain.committed, usize::MAX);
            let unsettled = unsettled.expect("a view in memory can be read");
            let marks = chain.marks();
            if let Some(step) = unsettled.first() {
                let text = format!("step {} of {} is not settled", step.number, chain.id);
                return self.fail("ROUTE-4", &text);
            }
            if MOVES / 2 < marks {
                let text = format!("{marks} marks are left on {}", chain.id);
                return self.fail("ROUTE-4", &text);
            }
        }
        self.count("ROUTE-4");
    }

    fn count(&mut self, claim: &'static str) {
        *self.claims.entry(claim).or_default() += 1;
    }

    fn fail(&mut self, guarantee: &'static str, text: &str) {
        let at = self.now / 1_000;
        let failure = Failure::new(guarantee, format!("{text} (at {at} ms)"));
        self.failure.get_or_insert(failure);
    }
}

/// What an entry did, as its decision says.
fn deed_of(request: &request::Request, outcome: &Outcome) -> Deed {
    match (request, outcome) {
        (request::Request::Counter(Request::Add { by, .. }), Ok(_)) => Deed::Added(*by),
        (_, Ok(request::Reply::Counter(Reply::Moving(_)))) => Deed::Began,
        (request::Request::Step(Command::Take(origin, step)), Ok(request::Reply::Step(taken))) => {
            Deed::Took(*origin, step.number, taken.clone())
        }
        _ => Deed::Nothing,
    }
}

#[cfg(test)]
mod tests;
