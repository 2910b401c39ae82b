//! A service of registers whose staleness and latencies follow known laws, for any runtime's time.
//!
//! It is what measurements are calibrated on. Each law says the share of reads that show the latest
//! version by the time since its write returned. Measured shares are compared with it.
//!
//! Lags count from a write's return. A strong read shows every write that took effect before it was
//! called. An eventual one shows the newest version that its law lets it see at its call.
//!
//! Deliberately absent: SimpleDB's rules; `cloud`'s model has them, and no such law.

use std::collections::{BTreeMap, BTreeSet};
use std::f64::consts::TAU;
use std::time::Duration;

use async_trait::async_trait;
use fader_cloud::Runtime;
use fader_history::object::{Outcome, Place, Reply, Request, Text, Value, Verb};
use parking_lot::Mutex;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::drive::Provider;
use crate::providers::{CONDITIONAL, STRONG};

/// When eventual reads see a write.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Law {
    /// At once.
    Fresh,
    /// Each read is late by up to this time, all times alike.
    Uniform(Duration),
    /// Each read is late by an exponential time of this mean.
    Exponential(Duration),
    /// Each read is late by a log-normal time.
    LogNormal {
        /// Its median.
        median: Duration,
        /// The standard deviation of its natural logarithm.
        sigma: f64,
    },
    /// Some reads are fresh, the others late by a time within bounds, all times alike.
    Partly {
        /// The share of fresh ones.
        fresh: f64,
        /// The least lateness of the others.
        from: Duration,
        /// The greatest.
        to: Duration,
    },
    /// A write reaches each replica after an exponential time; each read asks one of them.
    Replicas {
        /// How many there are.
        count: usize,
        /// The mean time.
        mean: Duration,
    },
}

/// How long requests take.
#[derive(Clone, Debug, PartialEq)]
pub enum Taking {
    /// Always the same.
    Constant(Duration),
    /// A log-normal time.
    LogNormal {
        /// Its median.
        median: Duration,
        /// The standard deviation of its natural logarithm.
        sigma: f64,
    },
    /// Quantiles, rising from 0 to 1, with the milliseconds at each; linear between them.
    Table(&'static [(f64, f64)]),
}

/// How a service behaves.
#[derive(Clone, Debug, PartialEq)]
pub struct Behaviour {
    /// Eventual reads' staleness.
    pub law: Law,
    /// Eventual reads.
    pub eventual_read: Taking,
    /// Strong reads.
    pub strong_read: Taking,
    /// Writes without a condition.
    pub write: Taking,
    /// Writes with one.
    pub swap: Taking,
    /// By which factor a request takes longer while others to its register are under way.
    pub contention: f64,
    /// The machine that asks, where it is slow enough to matter.
    pub machine: Option<Machine>,
}

/// A machine with one core, on which clients run as threads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Machine {
    /// Time of the core for each request.
    pub request: Duration,
    /// The threads that it schedules for nothing.
    pub threads: usize,
    /// Time of the core for each request and each thread beyond these.
    pub thread: Duration,
}

/// The service.
#[derive(Debug)]
pub struct Registers {
    runtime: Runtime,
    behaviour: Behaviour,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    random: ChaCha8Rng,
    registers: BTreeMap<Text, Vec<Version>>,
    count: u64,
    /// Requests under way, by their register.
    under_way: BTreeMap<Text, usize>,
    /// Until when the machine's core is taken.
    core: Duration,
    /// Every client that has asked.
    clients: BTreeSet<u32>,
}

/// A version of a register; the newest is the last.
#[derive(Debug)]
struct Version {
    value: Value,
    number: u64,
    returned: Option<Duration>,
    /// When it reaches each replica, after its return.
    lags: Vec<Duration>,
}

impl Law {
    /// The share of eventual reads that show a version at this time after its write's return, if no
    /// other write follows.
    pub fn share(&self, time: Duration) -> f64 {
        let time = time.as_secs_f64();
        match *self {
            Law::Fresh => 1.0,
            Law::Uniform(most) => (time / most.as_secs_f64()).min(1.0),
            Law::Exponential(mean) | Law::Replicas { mean, .. } => {
                1.0 - (-time / mean.as_secs_f64()).exp()
            }
            Law::LogNormal { median, sigma } => {
                normal_share((time / median.as_secs_f64()).ln() / sigma)
            }
            Law::Partly { fresh, from, to } => {
                let (from, to) = (from.as_secs_f64(), to.as_secs_f64());
                fresh + (1.0 - fresh) * ((time - from) / (to - from)).clamp(0.0, 1.0)
            }
        }
    }

    /// Beyond which hardly a read is late: one in a billion.
    fn longest(&self) -> Duration {
        match *self {
            Law::Fresh => Duration::ZERO,
            Law::Uniform(most) => most,
            Law::Exponential(mean) | Law::Replicas { mean, .. } => mean * 21,
            Law::LogNormal { median, sigma } => median.mul_f64((6.0 * sigma).exp()),
            Law::Partly { to, .. } => to,
        }
    }

    /// How late one read is.
    fn late(&self, random: &mut ChaCha8Rng) -> Duration {
        match *self {
            Law::Fresh => Duration::ZERO,
            Law::Uniform(most) => most.mul_f64(random.random()),
            Law::Exponential(mean) | Law::Replicas { mean, .. } => {
                mean.mul_f64(-(1.0 - random.random::<f64>()).ln())
            }
            Law::LogNormal { median, sigma } => median.mul_f64((sigma * normal(random)).exp()),
            Law::Partly { fresh, from, to } => match random.random::<f64>() < fresh {
                true => Duration::ZERO,
                false => from + (to - from).mul_f64(random.random()),
            },
        }
    }
}

impl Taking {
    /// How long one request takes.
    pub fn draw(&self, random: &mut ChaCha8Rng) -> Duration {
        match self {
            Taking::Constant(time) => *time,
            Taking::LogNormal { median, sigma } => median.mul_f64((sigma * normal(random)).exp()),
            Taking::Table(rows) => Duration::from_secs_f64(at(rows, random.random()) / 1e3),
        }
    }
}

impl Behaviour {
    /// Fitted to SimpleDB as Ampaporn and Gertphol have it, in 2015: the quantiles of its table I
    /// and the curve of its figure 8. Writes with conditions are as those without.
    pub fn of_2015() -> Self {
        // The points above the third quartile are the paper's outliers, so that the means are its.
        const WRITES: &[(f64, f64)] = &[
            (0.0, 42.0),
            (0.25, 50.0),
            (0.5, 56.0),
            (0.75, 103.0),
            (0.9065, 182.5),
            (0.99, 600.0),
            (1.0, 2391.0),
        ];
        const EVENTUAL: &[(f64, f64)] = &[
            (0.0, 9.0),
            (0.25, 14.0),
            (0.5, 16.0),
            (0.75, 18.0),
            (0.9219, 24.0),
            (0.999, 66.0),
            (1.0, 1576.0),
        ];
        const STRONG: &[(f64, f64)] = &[
            (0.0, 9.0),
            (0.25, 14.0),
            (0.5, 16.0),
            (0.75, 18.0),
            (0.9134, 24.0),
            (0.999, 50.0),
            (1.0, 1350.0),
        ];
        Behaviour {
            law: Law::Partly {
                fresh: 0.3,
                from: Duration::from_millis(500),
                to: Duration::from_millis(600),
            },
            eventual_read: Taking::Table(EVENTUAL),
            strong_read: Taking::Table(STRONG),
            write: Taking::Table(WRITES),
            swap: Taking::Table(WRITES),
            contention: 1.0,
            machine: None,
        }
    }

    /// Fitted to SimpleDB as "The cost of eventual consistency" has it, in 2010: its four means,
    /// with a spread that is assumed (sigma 0.4).
    pub fn of_2010() -> Self {
        Behaviour::of_2010_beyond(0.0)
    }

    /// The same of a service whose clients take so many milliseconds of each mean themselves.
    fn of_2010_beyond(client: f64) -> Self {
        const SIGMA: f64 = 0.4;
        let of_mean = |millis: f64| Taking::LogNormal {
            median: Duration::from_secs_f64(millis / 1e3 * (-SIGMA * SIGMA / 2.0).exp()),
            sigma: SIGMA,
        };
        Behaviour {
            law: Law::Fresh,
            eventual_read: of_mean(22.0 - client),
            strong_read: of_mean(23.0 - client),
            write: of_mean(110.0 - client),
            swap: of_mean(118.0 - client),
            contention: 1.0,
            machine: None,
        }
    }

    /// The same under many threads. The paper shows its figures as pictures. It says of them that
    /// one item takes longer than 1,000, that 100 threads hide this, and that more threads take
    /// longer. So requests to a busy item take a third longer (assumed), and the machine's core 3
    /// ms for each request. That is the rate of 34 threads on such a machine in the article of
    /// 2008.
    pub fn of_2010_threads() -> Self {
        let request = Duration::from_millis(3);
        Behaviour {
            contention: 4.0 / 3.0,
            machine: Some(Machine {
                request,
                threads: 100,
                thread: Duration::from_micros(15),
            }),
            ..Behaviour::of_2010_beyond(request.as_secs_f64() * 1e3)
        }
    }
}

impl Registers {
    /// An empty service.
    pub fn new(runtime: Runtime, behaviour: Behaviour, seed: u64) -> Self {
        Registers {
            runtime,
            behaviour,
            state: Mutex::new(State {
                random: ChaCha8Rng::seed_from_u64(seed),
                registers: BTreeMap::new(),
                count: 0,
                under_way: BTreeMap::new(),
                core: Duration::ZERO,
                clients: BTreeSet::new(),
            }),
        }
    }

    fn now(&self) -> Duration {
        self.runtime.clock.monotonic()
    }

    /// What a read shows, and how long it takes.
    fn read(&self, key: &Text, level: &str) -> (Reply, Duration) {
        let (now, law) = (self.now(), self.behaviour.law);
        let State {
            random, registers, ..
        } = &mut *self.state.lock();
        let versions = registers.get(key).map_or(&[][..], Vec::as_slice);
        let (taking, found) = match level {
            STRONG => (&self.behaviour.strong_read, versions.last()),
            _ => {
                let late = law.late(random);
                let replica = match law {
                    Law::Replicas { count, .. } => Some(random.random_range(0..count)),
                    _ => None,
                };
                let is_seen = |version: &&Version| {
                    let lag = replica.map_or(late, |replica| version.lags[replica]);
                    let returned = version.returned;
                    lag.is_zero() || returned.is_some_and(|returned| returned + lag <= now)
                };
                let found = versions.iter().rev().find(is_seen);
                (&self.behaviour.eventual_read, found)
            }
        };
        let reply = Reply {
            shown: Some(found.map_or(Value::None, |version| version.value.clone())),
            is_unmet: false,
            place: found.map(|version| Place(vec![version.number])),
        };
        (reply, taking.draw(random))
    }

    /// Writes now; the version's number, or none if the condition does not hold.
    fn write(&self, key: &Text, from: Option<&Value>, to: &Value) -> Option<u64> {
        let (now, law) = (self.now(), self.behaviour.law);
        let state = &mut *self.state.lock();
        let versions = state.registers.entry(key.clone()).or_default();
        let newest = versions
            .last()
            .map_or(&Value::None, |version| &version.value);
        if from.is_some_and(|from| from != newest) {
            return None;
        }
        // What every read sees, or something newer, is enough of the past.
        let is_seen = |version: &Version| {
            let seen = version.returned.map(|returned| returned + law.longest());
            seen.is_some_and(|seen| seen < now)
        };
        let seen = versions.iter().rposition(is_seen).unwrap_or(0);
        versions.drain(..seen);
        state.count += 1;
        let copies = match law {
            Law::Replicas { count, .. } => count,
            _ => 0,
        };
        versions.push(Version {
            value: to.clone(),
            number: state.count,
            returned: None,
            lags: (0..copies).map(|_| law.late(&mut state.random)).collect(),
        });
        Some(state.count)
    }

    fn returned(&self, key: &Text, number: u64) {
        let now = self.now();
        let mut state = self.state.lock();
        let versions = state.registers.get_mut(key);
        let mut versions = versions.into_iter().flatten();
        if let Some(version) = versions.find(|version| version.number == number) {
            version.returned = Some(now);
        }
    }

    /// A write takes effect somewhere within its time.
    async fn change(
        &self,
        key: &Text,
        from: Option<&Value>,
        to: &Value,
        taking: &Taking,
        factor: f64,
    ) -> Outcome {
        let (time, share) = {
            let random = &mut self.state.lock().random;
            (taking.draw(random).mul_f64(factor), random.random::<f64>())
        };
        let before = time.mul_f64(share);
        self.runtime.clock.sleep(before).await;
        let written = self.write(key, from, to);
        self.runtime.clock.sleep(time - before).await;
        match written {
            None => Outcome::Done(Reply::unmet()),
            Some(number) => {
                self.returned(key, number);
                Outcome::Done(Reply {
                    place: Some(Place(vec![number])),
                    ..Reply::default()
                })
            }
        }
    }
}

impl Registers {
    /// How long a client waits until the machine's core has done its request; none without a
    /// machine.
    fn turn(&self, client: u32) -> Option<Duration> {
        let machine = self.behaviour.machine?;
        let now = self.now();
        let mut state = self.state.lock();
        state.clients.insert(client);
        let beyond = state.clients.len().saturating_sub(machine.threads);
        let beyond = u32::try_from(beyond).unwrap_or(u32::MAX);
        state.core = state.core.max(now) + machine.request + machine.thread * beyond;
        Some(state.core - now)
    }

    /// Counts a request as under way; by which factor it takes longer.
    fn begin(&self, key: &Text) -> f64 {
        let mut state = self.state.lock();
        let count = state.under_way.entry(key.clone()).or_default();
        *count += 1;
        if 1 < *count {
            self.behaviour.contention
        } else {
            1.0
        }
    }

    fn end(&self, key: &Text) {
        if let Some(count) = self.state.lock().under_way.get_mut(key) {
            *count -= 1;
        }
    }
}

#[async_trait]
impl Provider for Registers {
    async fn ask(&self, client: u32, request: &Request, level: &str) -> Outcome {
        let (key, swap) = (&request.key, &self.behaviour.swap);
        if let Some(wait) = self.turn(client) {
            self.runtime.clock.sleep(wait).await;
        }
        let factor = self.begin(key);
        let outcome = match &request.verb {
            Verb::Read => {
                let (reply, time) = self.read(key, level);
                self.runtime.clock.sleep(time.mul_f64(factor)).await;
                Outcome::Done(reply)
            }
            Verb::Write(to) if level == CONDITIONAL => {
                self.change(key, None, to, swap, factor).await
            }
            Verb::Write(to) => {
                let taking = &self.behaviour.write;
                self.change(key, None, to, taking, factor).await
            }
            Verb::Swap { from, to } => self.change(key, Some(from), to, swap, factor).await,
            verb => Outcome::Refused(format!("a register is not asked for {verb:?}").into()),
        };
        self.end(key);
        outcome
    }
}

/// Of the standard normal distribution, by Box and Muller.
pub(crate) fn normal(random: &mut ChaCha8Rng) -> f64 {
    let (one, two): (f64, f64) = (1.0 - random.random::<f64>(), random.random());
    (-2.0 * one.ln()).sqrt() * (TAU * two).cos()
}

/// The share of the standard normal distribution below a value: Abramowitz and Stegun 7.1.26, right
/// to 2e-7.
pub(crate) fn normal_share(value: f64) -> f64 {
    let x = value.abs() / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let terms = [
        0.254_829_592,
        -0.284_496_736,
        1.421_413_741,
        -1.453_152_027,
        1.061_405_429,
    ];
    let sum = terms.iter().rev().fold(0.0, |sum, term| (sum + term) * t);
    let tail = sum * (-x * x).exp() / 2.0;
    if value < 0.0 { tail } else { 1.0 - tail }
}

/// The value at a share, linear between the rows.
fn at(rows: &[(f64, f64)], share: f64) -> f64 {
    let above = rows.partition_point(|(quantile, _)| *quantile <= share);
    let above = above.clamp(1, rows.len() - 1);
    let ((low, from), (high, to)) = (rows[above - 1], rows[above]);
    from + (to - from) * (share - low) / (high - low)
}

#[cfg(test)]
mod tests;
