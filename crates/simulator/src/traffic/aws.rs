//! The retries of AWS's SDKs, as published for 2026, with 100 callers.
//!
//! Standard: three attempts. A retry costs 5 tokens of 500 after a refusal and 14 after a failure,
//! which its success gives back. The delay is at random below a bound that starts at 1 s after a
//! refusal and at 50 ms after a failure. The bound doubles up to 20 s.
//!
//! Adaptive: the same behind a bucket of tokens whose rate follows a cubic curve. It is 0.7 of the
//! rate at a refusal, then up again, never more than twice of what was measured in half a second.
//! Every attempt takes one token, as in botocore; where a retry takes five, the bound of twice what
//! was measured strangles it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use super::chance::Chance;
use super::client::{Client, Reply, Turn};
use super::scenario::Moment;
use super::service::seconds;

const CALLERS: u32 = 100;
const ATTEMPTS: u32 = 3;
const QUOTA: u32 = 500;
const COST_REFUSED: u32 = 5;
const COST_FAILED: u32 = 14;
const DELAY_REFUSED: f64 = 1.0;
const DELAY_FAILED: f64 = 0.050;
const DELAY_MAX: f64 = 20.0;
const RETRY_AFTER_SLACK: f64 = 5.0;

/// What a request at hand went through.
#[derive(Clone, Copy, Default)]
struct Try {
    attempts: u32,
    /// Tokens that its success gives back.
    cost: u32,
}

/// Standard mode.
pub(super) struct Retrying {
    idle: u32,
    quota: u32,
    tries: BTreeMap<u32, Try>,
    sleeping: BinaryHeap<Reverse<(Moment, u32)>>,
    chance: Chance,
}

impl Retrying {
    pub(super) fn new(seed: u64) -> Retrying {
        Retrying {
            idle: CALLERS,
            quota: QUOTA,
            tries: BTreeMap::new(),
            sleeping: BinaryHeap::new(),
            chance: Chance::new(seed),
        }
    }

    /// What wants to be sent now, whose caller is awake.
    fn next(&mut self, turn: &mut Turn<'_>) -> Option<u32> {
        if let Some(Reverse((at, request))) = self.sleeping.peek().copied()
            && at <= turn.now
        {
            self.sleeping.pop();
            return Some(request);
        }
        if self.idle == 0 {
            return None;
        }
        let request = turn.work.take()?;
        self.idle -= 1;
        Some(request)
    }

    fn wake(&self) -> Option<Moment> {
        self.sleeping.peek().map(|Reverse((at, _))| *at)
    }

    fn settle(&mut self, turn: &mut Turn<'_>, request: u32, reply: Reply) {
        let mut tried = self.tries.remove(&request).unwrap_or_default();
        tried.attempts += 1;
        let (cost, base) = match reply {
            Reply::Ok => {
                self.quota = (self.quota + tried.cost.max(1)).min(QUOTA);
                self.idle += 1;
                return;
            }
            Reply::Refused(_) => (COST_REFUSED, DELAY_REFUSED),
            Reply::Error | Reply::Timeout => (COST_FAILED, DELAY_FAILED),
        };
        if ATTEMPTS <= tried.attempts || self.quota < cost {
            turn.failures.push(request);
            self.idle += 1;
            return;
        }
        self.quota -= cost;
        tried.cost = cost;
        let most = (base * f64::from(1 << (tried.attempts - 1))).min(DELAY_MAX);
        let mut delay = most * self.chance.unit();
        if let Reply::Refused(Some(after)) = reply {
            let after = f64::from(after) / 1e3;
            delay = delay.clamp(after, after + RETRY_AFTER_SLACK);
        }
        self.tries.insert(request, tried);
        let at = turn.now + seconds(delay);
        self.sleeping.push(Reverse((at, request)));
    }
}

impl Client for Retrying {
    fn turn(&mut self, turn: &mut Turn<'_>) {
        while let Some(request) = self.next(turn) {
            turn.sends.push(request);
        }
        turn.wake = self.wake();
    }

    fn reply(&mut self, turn: &mut Turn<'_>, request: u32, _sent: Moment, reply: Reply) {
        self.settle(turn, request, reply);
        self.turn(turn);
    }
}

/// Adaptive mode.
pub(super) struct Adaptive {
    standard: Retrying,
    bucket: Bucket,
    /// Callers that wait for tokens.
    held: VecDeque<u32>,
}

/// The bucket; times in seconds.
#[derive(Default)]
struct Bucket {
    is_enabled: bool,
    rate: f64,
    most: f64,
    tokens: f64,
    filled: f64,
    measured: f64,
    counted: f64,
    counted_at: f64,
    last_max: f64,
    refused_at: f64,
}

impl Adaptive {
    pub(super) fn new(seed: u64) -> Adaptive {
        Adaptive {
            standard: Retrying::new(seed),
            bucket: Bucket::default(),
            held: VecDeque::new(),
        }
    }
}

impl Client for Adaptive {
    fn turn(&mut self, turn: &mut Turn<'_>) {
        while let Some(request) = self.standard.next(turn) {
            self.held.push_back(request);
        }
        turn.wake = self.standard.wake();
        let now = turn.now as f64 / 1e9;
        while let Some(request) = self.held.front().copied() {
            if let Err(wait) = self.bucket.take(now) {
                let at = turn.now + seconds(wait) + 1;
                turn.wake = Some(turn.wake.map_or(at, |wake| wake.min(at)));
                break;
            }
            self.held.pop_front();
            turn.sends.push(request);
        }
    }

    fn reply(&mut self, turn: &mut Turn<'_>, request: u32, _sent: Moment, reply: Reply) {
        let now = turn.now as f64 / 1e9;
        self.bucket.update(now, matches!(reply, Reply::Refused(_)));
        self.standard.settle(turn, request, reply);
        self.turn(turn);
    }
}

impl Bucket {
    const BETA: f64 = 0.7;
    const SCALE: f64 = 0.4;
    const SMOOTH: f64 = 0.8;
    const RATE_MIN: f64 = 0.5;

    /// Takes a token, or says in how many seconds there will be one.
    fn take(&mut self, now: f64) -> Result<(), f64> {
        if !self.is_enabled {
            return Ok(());
        }
        self.fill(now);
        if 1.0 <= self.tokens + 1e-9 {
            self.tokens -= 1.0;
            return Ok(());
        }
        Err((1.0 - self.tokens) / self.rate)
    }

    fn fill(&mut self, now: f64) {
        self.tokens = (self.tokens + (now - self.filled) * self.rate).min(self.most);
        self.filled = now;
    }

    fn update(&mut self, now: f64, is_refused: bool) {
        let half = (now * 2.0).floor() / 2.0;
        self.counted += 1.0;
        if self.counted_at < half {
            let rate = self.counted / (half - self.counted_at);
            self.measured = rate * Self::SMOOTH + self.measured * (1.0 - Self::SMOOTH);
            (self.counted, self.counted_at) = (0.0, half);
        }
        let rate = if is_refused {
            self.last_max = match self.is_enabled {
                true => self.measured.min(self.rate),
                false => self.measured,
            };
            self.refused_at = now;
            self.is_enabled = true;
            self.last_max * Self::BETA
        } else {
            let window = (self.last_max * (1.0 - Self::BETA) / Self::SCALE).cbrt();
            Self::SCALE * (now - self.refused_at - window).powi(3) + self.last_max
        };
        let rate = rate.min(2.0 * self.measured);
        self.fill(now);
        self.rate = rate.max(Self::RATE_MIN);
        self.most = rate.max(1.0);
        self.tokens = self.tokens.min(self.most);
    }
}
