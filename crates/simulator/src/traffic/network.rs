//! The way between clients and a service, and what is measured on it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::chance::Chance;
use super::client::{Algorithm, Client, Reply, Turn, Work};
use super::scenario::{Change, Moment, OfferedLoad, Refusal, Scenario};
use super::service::{Arrival, Service, seconds};

/// Progress is counted in steps of 10 ms; rates over 25 of them.
const STEP: Moment = 10_000_000;
const STEPS: usize = 25;

/// What one run came to. Rates are of the measured time.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Requests answered, of the capacity.
    pub goodput: f64,
    /// Refused attempts (and silent ones) of all that ended.
    pub rejected: f64,
    /// Requests given up permanently, of all that ended, over the whole run.
    pub failed: f64,
    /// Milliseconds from a request's first attempt, or from when it was wanted, to its answer.
    pub median_ms: f64,
    /// The same, for the slowest of a hundred.
    pub p99_ms: f64,
    /// Jain's index of the clients' goodput.
    pub jain: f64,
    /// Seconds from the start until a rate of 90 % of the capacity, over 250 ms; none if never.
    pub rise: Option<f64>,
    /// The same, from when the capacity returned.
    pub recovery: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Change(usize),
    Demand,
    Turn(u32),
    Arrive(u32),
    Advance,
    Reply(u32, Code),
}

/// A reply, as it travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Code {
    Ok,
    Refused,
    Error,
    Timeout,
}

#[derive(Clone, Copy, Debug)]
struct Attempt {
    client: u32,
    request: u32,
    sent: Moment,
    is_open: bool,
}

struct ClientState {
    client: Box<dyn Client>,
    work: Work,
    wake: Option<Moment>,
    /// When each of its requests began.
    begun: Vec<Moment>,
    answered: u64,
}

struct Run<'a> {
    scenario: &'a Scenario,
    now: Moment,
    events: BinaryHeap<Reverse<(Moment, u64, Event)>>,
    number: u64,
    service: Service,
    advance: Option<Moment>,
    round_trip: Moment,
    chance: Chance,
    parties: Vec<ClientState>,
    attempts: Vec<Attempt>,
    tally: Tally,
}

#[derive(Default)]
struct Tally {
    ok: u64,
    refused: u64,
    other: u64,
    failed: u64,
    ended: u64,
    latencies: Vec<u32>,
    steps: Vec<u32>,
}

/// Runs `clients` clients of one kind in a scenario.
pub fn measure(scenario: &Scenario, algorithm: Algorithm, clients: u32, seed: u64) -> Measured {
    let mut run = Run::new(scenario, algorithm, clients, seed);
    let end = seconds(scenario.measured.0 + scenario.measured.1);
    while let Some(Reverse((at, _, event))) = run.events.pop() {
        if end <= at {
            break;
        }
        run.now = at;
        run.handle(event);
    }
    run.measured()
}

impl<'a> Run<'a> {
    fn new(scenario: &'a Scenario, algorithm: Algorithm, clients: u32, seed: u64) -> Run<'a> {
        let parties = (0..clients).map(|index| ClientState {
            client: algorithm.client(scenario, index, clients, seed * 1_000 + u64::from(index)),
            work: Work {
                is_endless: scenario.demand == OfferedLoad::Endless,
                ..Work::default()
            },
            wake: None,
            begun: Vec::new(),
            answered: 0,
        });
        let mut run = Run {
            scenario,
            now: 0,
            events: BinaryHeap::new(),
            number: 0,
            service: Service::new(&scenario.shape, seed),
            advance: None,
            round_trip: seconds(scenario.shape.round_trip),
            chance: Chance::new(!seed),
            parties: parties.collect(),
            attempts: Vec::new(),
            tally: Tally::default(),
        };
        for (index, (at, _)) in scenario.changes.iter().enumerate() {
            run.plan(seconds(*at), Event::Change(index));
        }
        for party in 0..clients {
            // Clients do not start in step.
            let at = seconds(run.chance.unit() * scenario.shape.round_trip);
            run.plan(at, Event::Turn(party));
            run.parties[party as usize].wake = Some(at);
        }
        run.plan(0, Event::Demand);
        run
    }

    fn plan(&mut self, at: Moment, event: Event) {
        self.number += 1;
        self.events.push(Reverse((at, self.number, event)));
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Change(index) => match self.scenario.changes[index].1 {
                Change::Capacity(factor) => self.service.set_factor(self.now, factor),
                Change::RoundTrip(span) => self.round_trip = seconds(span),
            },
            Event::Demand => self.demand(),
            Event::Turn(party) => {
                if self.parties[party as usize].wake == Some(self.now) {
                    self.parties[party as usize].wake = None;
                    self.turn(party, None);
                }
            }
            Event::Arrive(attempt) => self.arrive(attempt),
            Event::Advance => {
                // One that was planned before something earlier was.
                if self.advance != Some(self.now) {
                    return;
                }
                self.advance = None;
                let mut done = Vec::new();
                self.service.advance(self.now, &mut done);
                for attempt in done {
                    self.answer(attempt, self.now);
                }
                self.watch();
            }
            Event::Reply(attempt, code) => self.reply(attempt, code),
        }
    }

    /// A request that is wanted now, of a client in turn at random.
    fn demand(&mut self) {
        let OfferedLoad::PerSecond(rate) = self.scenario.demand else {
            return;
        };
        let party = (self.chance.unit() * self.parties.len() as f64) as u32;
        let it = &mut self.parties[party as usize];
        let request = it.begun.len() as u32;
        it.begun.push(self.now);
        it.work.waiting.push_back(request);
        self.turn(party, None);
        let at = self.now + seconds(self.chance.exponential(1.0 / rate));
        self.plan(at, Event::Demand);
    }

    fn arrive(&mut self, attempt: u32) {
        match self.service.arrive(self.now, attempt) {
            Arrival::Refused => {
                if self.scenario.shape.refusal != Refusal::Silence {
                    self.back(attempt, self.now, Code::Refused);
                }
            }
            Arrival::Answered(at) => self.answer(attempt, at),
            Arrival::Held => self.watch(),
        }
    }

    fn answer(&mut self, attempt: u32, at: Moment) {
        let is_error = self.chance.happens(self.scenario.shape.errors);
        let code = if is_error { Code::Error } else { Code::Ok };
        self.back(attempt, at, code);
    }

    fn back(&mut self, attempt: u32, at: Moment, code: Code) {
        self.plan(at + self.round_trip / 2, Event::Reply(attempt, code));
    }

    /// Sees to it that the service is asked when something is done.
    fn watch(&mut self) {
        let due = self.service.due().map(|at| at.max(self.now));
        if let Some(at) = due
            && self.advance.is_none_or(|planned| at < planned)
        {
            self.advance = Some(at);
            self.plan(at, Event::Advance);
        }
    }

    fn reply(&mut self, attempt: u32, code: Code) {
        let it = &mut self.attempts[attempt as usize];
        if !it.is_open {
            return;
        }
        it.is_open = false;
        let Attempt {
            client,
            request,
            sent,
            ..
        } = *it;
        let is_measured = seconds(self.scenario.measured.0) <= self.now;
        let party = &mut self.parties[client as usize];
        let reply = match code {
            Code::Ok => Reply::Ok,
            Code::Error => Reply::Error,
            Code::Timeout => Reply::Timeout,
            Code::Refused => Reply::Refused(match self.scenario.shape.refusal {
                Refusal::RetryAfter(milliseconds) => Some(milliseconds),
                _ => None,
            }),
        };
        if code == Code::Ok {
            let latency = self.now - party.begun[request as usize];
            self.tally.ended += 1;
            self.tally.step(self.now);
            if is_measured {
                party.answered += 1;
                self.tally.ok += 1;
                self.tally.latencies.push((latency / 1_000) as u32);
            }
        } else if is_measured {
            match code {
                Code::Refused | Code::Timeout => self.tally.refused += 1,
                _ => self.tally.other += 1,
            }
        }
        self.turn(client, Some((request, sent, reply)));
    }

    /// Gives a client its turn and does what it wants.
    fn turn(&mut self, index: u32, reply: Option<(u32, Moment, Reply)>) {
        let party = &mut self.parties[index as usize];
        let mut turn = Turn {
            now: self.now,
            capacity: self.scenario.shape.most() * self.service.factor,
            work: &mut party.work,
            sends: Vec::new(),
            failures: Vec::new(),
            wake: None,
        };
        match reply {
            None => party.client.turn(&mut turn),
            Some((request, sent, reply)) => party.client.reply(&mut turn, request, sent, reply),
        }
        let Turn {
            sends,
            failures,
            wake,
            ..
        } = turn;
        let wake = wake.map(|at| at.max(self.now));
        let is_new = wake != party.wake;
        party.wake = wake;
        self.tally.failed += failures.len() as u64;
        self.tally.ended += failures.len() as u64;
        if let Some(at) = wake
            && is_new
        {
            self.plan(at, Event::Turn(index));
        }
        for request in sends {
            self.send(index, request);
        }
    }

    fn send(&mut self, client: u32, request: u32) {
        let begun = &mut self.parties[client as usize].begun;
        if begun.len() <= request as usize {
            begun.resize(request as usize + 1, self.now);
        }
        let attempt = self.attempts.len() as u32;
        self.attempts.push(Attempt {
            client,
            request,
            sent: self.now,
            is_open: true,
        });
        self.plan(self.now + self.round_trip / 2, Event::Arrive(attempt));
        if self.scenario.shape.may_be_late() {
            let timeout = self.now + seconds(self.scenario.timeout);
            self.plan(timeout, Event::Reply(attempt, Code::Timeout));
        }
    }

    fn measured(mut self) -> Measured {
        let (from, span) = self.scenario.measured;
        let tally = &mut self.tally;
        tally.latencies.sort_unstable();
        let quantile = |part: f64| {
            let at = (tally.latencies.len() as f64 * part) as usize;
            tally
                .latencies
                .get(at)
                .map_or(f64::NAN, |us| f64::from(*us) / 1e3)
        };
        let attempts = (tally.ok + tally.refused + tally.other).max(1);
        let shares: Vec<f64> = self.parties.iter().map(|it| it.answered as f64).collect();
        let sum: f64 = shares.iter().sum();
        let squares: f64 = shares.iter().map(|share| share * share).sum();
        let returned = self.scenario.changes.iter().rev().find_map(|it| match it {
            (at, Change::Capacity(_)) => Some(*at),
            _ => None,
        });
        let most = match self.scenario.demand {
            OfferedLoad::Endless => self.scenario.shape.most(),
            OfferedLoad::PerSecond(rate) => rate,
        };
        Measured {
            goodput: tally.ok as f64 / span / self.scenario.capacity(),
            rejected: tally.refused as f64 / attempts as f64,
            failed: tally.failed as f64 / tally.ended.max(1) as f64,
            median_ms: quantile(0.5),
            p99_ms: quantile(0.99),
            jain: sum * sum / (squares * shares.len() as f64),
            rise: tally.reaches(0.0, from + span, most),
            recovery: returned.and_then(|at| tally.reaches(at, from + span, most)),
        }
    }
}

impl Tally {
    fn step(&mut self, now: Moment) {
        let at = (now / STEP) as usize;
        if self.steps.len() <= at {
            self.steps.resize(at + 1, 0);
        }
        self.steps[at] += 1;
    }

    /// Seconds from `start` until the rate over 25 steps is 90 % of `most`.
    fn reaches(&self, start: f64, end: f64, most: f64) -> Option<f64> {
        let first = (seconds(start) / STEP) as usize;
        let last = ((seconds(end) / STEP) as usize).min(self.steps.len());
        let wanted = 0.9 * most * (STEPS as u64 * STEP) as f64 / 1e9;
        let mut sum = 0;
        for at in first..last {
            sum += self.steps[at];
            if first + STEPS <= at {
                sum -= self.steps[at - STEPS];
            }
            if wanted <= f64::from(sum) {
                return Some((at + 1 - first) as f64 * STEP as f64 / 1e9);
            }
        }
        None
    }
}
