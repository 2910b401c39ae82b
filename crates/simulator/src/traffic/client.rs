//! What a client is, and which there are.

use std::collections::VecDeque;

use fader_window::Rule;

use super::aws::{Adaptive, Retrying};
use super::limiter::{Law, Limited};
use super::scenario::{Moment, Scenario};
use super::threads::{Oracle, Threads};
use super::windowed::Windowed;

/// How an attempt ended, as its client sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Reply {
    Ok,
    /// Refused for overload, with the milliseconds after which to come again.
    Refused(Option<u32>),
    Error,
    Timeout,
}

/// What there is to do.
#[derive(Debug, Default)]
pub(super) struct Work {
    pub(super) is_endless: bool,
    pub(super) waiting: VecDeque<u32>,
    /// The next of an endless supply.
    pub(super) next: u32,
}

impl Work {
    /// A request that was never sent.
    pub(super) fn take(&mut self) -> Option<u32> {
        if !self.is_endless {
            return self.waiting.pop_front();
        }
        self.next += 1;
        Some(self.next - 1)
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.is_endless && self.waiting.is_empty()
    }
}

/// A client's turn: what it sees and what it does.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    pub(super) now: Moment,
    /// What the capacity is now: for the oracle only.
    pub(super) capacity: f64,
    pub(super) work: &'a mut Work,
    pub(super) sends: Vec<u32>,
    /// Given up permanently.
    pub(super) failures: Vec<u32>,
    /// When it wants its next turn if nothing else happens.
    pub(super) wake: Option<Moment>,
}

/// A client.
pub(super) trait Client {
    /// Time passed, or there is new work.
    fn turn(&mut self, turn: &mut Turn<'_>);
    /// The attempt of `request` that was sent at `sent` ended.
    fn reply(&mut self, turn: &mut Turn<'_>, request: u32, sent: Moment, reply: Reply);
}

/// What clients do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// Knows the capacity and paces; the ceiling, not realisable.
    Oracle,
    /// Knows its share of the capacity, but not when the others send; not realisable either.
    Uncoordinated,
    /// So many requests in flight, chosen by hand for the scenario; not realisable.
    Fixed(u32),
    /// 34 threads, each backing off exponentially up to 400 ms: the article's opponent.
    Threads,
    /// 100 callers with the retries of AWS's standard mode (2026).
    AwsStandard,
    /// The same with its adaptive mode, which limits the rate.
    AwsAdaptive,
    /// Netflix's additive increase, multiplicative decrease.
    NetflixAimd,
    /// Netflix's Vegas.
    Vegas,
    /// Netflix's Gradient2.
    Gradient2,
    /// Vector's adaptive request concurrency.
    VectorArc,
    /// The article's rule.
    Seed,
    /// Fader's.
    Ours,
}

/// All that are realisable.
pub const ALGORITHMS: [Algorithm; 9] = [
    Algorithm::Threads,
    Algorithm::AwsStandard,
    Algorithm::AwsAdaptive,
    Algorithm::NetflixAimd,
    Algorithm::Vegas,
    Algorithm::Gradient2,
    Algorithm::VectorArc,
    Algorithm::Seed,
    Algorithm::Ours,
];

impl Algorithm {
    /// Its name.
    pub fn name(self) -> String {
        match self {
            Algorithm::Oracle => "oracle".into(),
            Algorithm::Uncoordinated => "oracle, each alone".into(),
            Algorithm::Fixed(count) => format!("fixed, best: {count}"),
            Algorithm::Threads => "34 threads, back-off".into(),
            Algorithm::AwsStandard => "AWS standard".into(),
            Algorithm::AwsAdaptive => "AWS adaptive".into(),
            Algorithm::NetflixAimd => "Netflix AIMD".into(),
            Algorithm::Vegas => "Netflix Vegas".into(),
            Algorithm::Gradient2 => "Netflix Gradient2".into(),
            Algorithm::VectorArc => "Vector ARC".into(),
            Algorithm::Seed => "the seed".into(),
            Algorithm::Ours => "ours".into(),
        }
    }

    /// The client `index` of `clients`.
    pub(super) fn client(
        self,
        scenario: &Scenario,
        index: u32,
        clients: u32,
        seed: u64,
    ) -> Box<dyn Client> {
        match self {
            Algorithm::Oracle => Box::new(Oracle::new(&scenario.shape, index, clients)),
            Algorithm::Uncoordinated => Box::new(Oracle::alone(&scenario.shape, clients, seed)),
            Algorithm::Fixed(count) => Box::new(Threads::fixed(count.div_ceil(clients))),
            Algorithm::Threads => Box::new(Threads::backing_off(seed)),
            Algorithm::AwsStandard => Box::new(Retrying::new(seed)),
            Algorithm::AwsAdaptive => Box::new(Adaptive::new(seed)),
            Algorithm::NetflixAimd => Box::new(Limited::new(Law::aimd())),
            Algorithm::Vegas => Box::new(Limited::new(Law::vegas(seed))),
            Algorithm::Gradient2 => Box::new(Limited::new(Law::gradient2())),
            Algorithm::VectorArc => Box::new(Limited::new(Law::arc())),
            Algorithm::Seed => Box::new(Windowed::new(Rule::Aimd, seed)),
            Algorithm::Ours => Box::new(Windowed::new(Rule::Adaptive, seed)),
        }
    }
}
