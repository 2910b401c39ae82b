//! How good the measurements are themselves: what is known is measured, again and again.
//!
//! Everything here is a function of its seeds, in virtual time.

use std::sync::Arc;
use std::time::Duration;

use fader_cloud::model::{Executor, Skew};
use fader_history::check::{sessions, staleness};
use fader_history::object::{Log, Operation, Outcome, Place, Reply, Request, Text, Verb};
use fader_history::{Clock, Header, Moment, Order, Rules};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::compare::{Measure, compare};
use crate::curve::Curve;
use crate::drive::{Party, drive_all};
use crate::generator::{Load, Until};
use crate::model::{Behaviour, Law, Registers, Taking};
use crate::providers::EVENTUAL;
use crate::run::Plan;
use crate::schedule::{Arrivals, Rate, Starts};
use crate::statistics::{Interval, mean, quantile};
use crate::workload::{Act, Intent, Workload};

/// Bins of a curve, as the seed has them.
const BIN: Duration = Duration::from_millis(10);
/// A bin counts if the truth is within, and it has that many writes.
const TRUTH: std::ops::RangeInclusive<f64> = 0.02..=0.98;
const WRITES_MIN: u64 = 20;
/// Writes of a run, and the time between them.
const WRITES: u64 = 100;
const PERIOD: Duration = Duration::from_secs(1);
/// Response times of a run.
const RESPONSES: usize = 10_000;

/// One writer of one key, and its readers.
pub struct OneKey {
    /// Whether it writes; every value is its operation's number.
    pub is_writer: bool,
}

impl Workload for OneKey {
    fn plan(&self, sequence: u64) -> Intent {
        let (act, value) = match self.is_writer {
            true => (Act::Write, Some(sequence)),
            false => (Act::Read, None),
        };
        Intent {
            act,
            key: 0,
            value,
            level: 0,
        }
    }
}

/// The laws of staleness, by name.
pub fn laws() -> [(&'static str, Law); 5] {
    let millis = Duration::from_millis;
    [
        ("uniform, 0 to 600 ms", Law::Uniform(millis(600))),
        ("exponential, mean 200 ms", Law::Exponential(millis(200))),
        (
            "log-normal, median 150 ms",
            Law::LogNormal {
                median: millis(150),
                sigma: 0.6,
            },
        ),
        (
            "30 % fresh, others 500 to 600 ms",
            Law::Partly {
                fresh: 0.3,
                from: millis(500),
                to: millis(600),
            },
        ),
        (
            "three replicas, mean 200 ms",
            Law::Replicas {
                count: 3,
                mean: millis(200),
            },
        ),
    ]
}

/// Of so many, so many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Share {
    /// All.
    pub all: u64,
    /// Those that are counted.
    pub counted: u64,
}

impl Share {
    fn add(&mut self, is_counted: bool) {
        self.all += 1;
        self.counted += u64::from(is_counted);
    }

    /// The share.
    pub fn value(&self) -> f64 {
        self.counted as f64 / self.all as f64
    }
}

/// How often bands of curves hold the truth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct BandCoverage {
    /// Bands that are clustered by write.
    pub clustered: Share,
    /// Wilson's of as many independent reads.
    pub naive: Share,
}

/// One run's log of one writer and this many readers.
pub fn one_key(law: Law, readers: u32, seed: u64) -> Log {
    let taking = |millis, sigma| Taking::LogNormal {
        median: Duration::from_millis(millis),
        sigma,
    };
    let behaviour = Behaviour {
        law,
        eventual_read: taking(20, 0.3),
        strong_read: taking(20, 0.3),
        write: taking(50, 0.2),
        swap: taking(50, 0.2),
        contention: 1.0,
        machine: None,
    };
    let executor = Executor::new(seed);
    let runtime = executor.process("clients", Skew::default()).runtime();
    let provider = Arc::new(Registers::new(runtime.clone(), behaviour, seed));
    let party = |is_writer, load, until, connections| Party {
        plan: Plan {
            name: String::from("calibration"),
            load,
            until,
            connections,
            threads: 1,
            errors_max: None,
            levels: vec![EVENTUAL.into()],
        },
        workload: Arc::new(OneKey { is_writer }),
        provider: provider.clone(),
        endpoint: "model".into(),
        first: u32::from(!is_writer),
    };
    let starts = Starts::Rate {
        rate: Rate::Constant(1.0 / PERIOD.as_secs_f64()),
        arrivals: Arrivals::Constant,
        seed,
    };
    let writer = party(true, Load::Open(starts), Until::Operations(WRITES), 1);
    let end = PERIOD * u32::try_from(WRITES).unwrap_or(u32::MAX);
    let readers = party(false, Load::Closed, Until::Elapsed(end), readers);
    let parties = vec![(Duration::ZERO, writer), (Duration::ZERO, readers)];
    let operations = executor.run(drive_all(&runtime, vec![parties]));
    Log {
        header: Header {
            clock: Clock::Virtual,
            target: String::from("model"),
            seed: Some(seed),
            ..Header::default()
        },
        operations,
    }
}

/// How often the bands of a law's curve hold the truth, over the bins of all seeds.
pub fn bands(law: Law, readers: u32, seeds: std::ops::Range<u64>) -> BandCoverage {
    let mut coverage = BandCoverage::default();
    let width = BIN.as_nanos() as u64;
    for seed in seeds {
        let log = one_key(law, readers, seed);
        let Ok(found) = staleness(&log, &Rules::default()) else {
            continue;
        };
        let mut curve = Curve::default();
        curve.add(&found, width, |reference| reference.since_return);
        for point in curve.points() {
            let (Some(from), Some(share)) = (point.from, point.share) else {
                continue;
            };
            // The law's mean over the reads of the bin.
            let times = found.readings.iter().filter_map(|reading| {
                let since = u64::try_from(reading.reference?.since_return).ok()?;
                (since / width == from / width).then_some(since)
            });
            let sum: f64 = times
                .map(|time| law.share(Duration::from_nanos(time)))
                .sum();
            let truth = sum / point.reads as f64;
            if !TRUTH.contains(&truth) || point.writes < WRITES_MIN {
                continue;
            }
            let naive = crate::statistics::wilson(share.estimate, point.reads as f64);
            coverage.clustered.add(holds(&share, truth));
            coverage.naive.add(holds(&naive, truth));
        }
    }
    coverage
}

fn holds(interval: &Interval, truth: f64) -> bool {
    interval.low <= truth && truth <= interval.high
}

/// A law of response times with its mean, median and 99th percentile.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// Its name.
    pub name: &'static str,
    law: TimeLaw,
    /// Mean, median, 99th percentile.
    truth: [f64; 3],
}

#[derive(Clone, Copy, Debug)]
enum TimeLaw {
    Exponential,
    LogNormal(f64),
    Uniform,
    /// Some are ten times as slow on average.
    Mixed(f64),
    /// Exponential, each response like the one before: of normal numbers with this correlation.
    Correlated(f64),
}

impl Times {
    /// The laws.
    pub fn all() -> [Times; 5] {
        let exponential = [1.0, std::f64::consts::LN_2, 100_f64.ln()];
        let sigma: f64 = 0.5;
        let z99 = 2.326_347_874_040_841;
        let mixed = 0.1;
        [
            Times {
                name: "exponential",
                law: TimeLaw::Exponential,
                truth: exponential,
            },
            Times {
                name: "log-normal",
                law: TimeLaw::LogNormal(sigma),
                truth: [(sigma * sigma / 2.0).exp(), 1.0, (z99 * sigma).exp()],
            },
            Times {
                name: "uniform",
                law: TimeLaw::Uniform,
                truth: [0.5, 0.5, 0.99],
            },
            Times {
                name: "one in ten slow",
                law: TimeLaw::Mixed(mixed),
                truth: [
                    1.0 + 9.0 * mixed,
                    mixed_quantile(mixed, 0.5),
                    mixed_quantile(mixed, 0.99),
                ],
            },
            Times {
                name: "autocorrelated",
                law: TimeLaw::Correlated(0.9),
                truth: exponential,
            },
        ]
    }

    /// A run's response times.
    pub fn draw(&self, seed: u64) -> Vec<f64> {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut state = normal(&mut random);
        (0..RESPONSES)
            .map(|_| match self.law {
                TimeLaw::Exponential => exponential(random.random()),
                TimeLaw::LogNormal(sigma) => (sigma * normal(&mut random)).exp(),
                TimeLaw::Uniform => random.random(),
                TimeLaw::Mixed(slow) => {
                    let scale = if random.random::<f64>() < slow {
                        10.0
                    } else {
                        1.0
                    };
                    scale * exponential(random.random())
                }
                TimeLaw::Correlated(correlation) => {
                    let own = (1.0 - correlation * correlation).sqrt();
                    state = correlation * state + own * normal(&mut random);
                    exponential(crate::model::normal_share(state))
                }
            })
            .collect()
    }

    /// How often the intervals of mean, median and 99th percentile hold the truth.
    pub fn coverage(&self, seeds: std::ops::Range<u64>) -> [Share; 3] {
        let mut coverage = [Share::default(); 3];
        for seed in seeds {
            let drawn = self.draw(seed);
            let found = [mean(&drawn), quantile(&drawn, 0.5), quantile(&drawn, 0.99)];
            for ((share, interval), truth) in coverage.iter_mut().zip(found).zip(self.truth) {
                share.add(interval.is_some_and(|interval| holds(&interval, truth)));
            }
        }
        coverage
    }
}

fn exponential(unit: f64) -> f64 {
    -(1.0 - unit).max(f64::MIN_POSITIVE).ln()
}

fn normal(random: &mut ChaCha8Rng) -> f64 {
    crate::model::normal(random)
}

/// The quantile of exponential times of which a share is ten times as slow, by bisection.
fn mixed_quantile(slow: f64, share: f64) -> f64 {
    let below = |time: f64| 1.0 - (1.0 - slow) * (-time).exp() - slow * (-time / 10.0).exp();
    let (mut low, mut high) = (0.0, 1e3);
    for _ in 0..100 {
        let middle = f64::midpoint(low, high);
        match below(middle) < share {
            true => low = middle,
            false => high = middle,
        }
    }
    high
}

/// Comparisons of pairs of runs: how often the second, slower by a factor, is called worse.
pub fn alarms(slower: f64, pairs: std::ops::Range<u64>) -> Share {
    let [law, ..] = Times::all();
    let mut alarms = Share::default();
    for pair in pairs {
        let base = law.draw(2 * pair);
        let mut new = law.draw(2 * pair + 1);
        new.iter_mut().for_each(|time| *time *= slower);
        let compared = compare(&base, &new, Measure::Mean, 0.0, 1);
        alarms.add(compared.is_some_and(|compared| compared.is_worse));
    }
    alarms
}

/// A log in which this many operations break each session guarantee, and what the check counts. The
/// guarantees are read your writes, monotonic reads, monotonic writes, writes follow reads.
pub fn injected(seed: u64) -> ([usize; 4], Option<[usize; 4]>) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut log = Log {
        header: Header {
            order: Order::Told,
            ..Header::default()
        },
        operations: Vec::new(),
    };
    let mut expected = [0; 4];
    for block in 0..random.random_range(20..60_u32) {
        let kind = random.random_range(0..4_usize);
        let is_broken = random.random::<bool>();
        expected[kind] += usize::from(is_broken);
        inject(&mut log, block, kind, is_broken);
    }
    let counted = sessions(&log, &Rules::default()).ok();
    let counted = counted.map(|found| found.all().map(|(_, guarantee)| guarantee.violated));
    (expected, counted)
}

/// Two operations of a session on a key of its own, the second of an older version if broken. The
/// versions that it does not write are another session's.
fn inject(log: &mut Log, block: u32, kind: usize, is_broken: bool) {
    let (own, other) = (2 * block, 2 * block + 1);
    let key = format!("k{block}");
    let begin = u64::from(block) * 1000;
    let (first, second): (i64, i64) = if is_broken { (2, 1) } else { (1, 2) };
    let mut add = |process, at, verb: Verb, version: i64| {
        let shown = (verb == Verb::Read).then(|| version.into());
        let reply = Reply {
            shown,
            is_unmet: false,
            place: Some(Place(vec![version.unsigned_abs()])),
        };
        log.operations.push(Operation {
            process,
            session: None,
            endpoint: Text::default(),
            name: None,
            attempt: 1,
            level: Text::default(),
            intended: Moment::at(begin + at),
            called: Moment::at(begin + at),
            action: Request {
                key: key.as_str().into(),
                verb,
            },
            end: Some((Moment::at(begin + at + 1), Outcome::Done(reply))),
            price: None,
        });
    };
    let write = |version: i64| Verb::Write(version.into());
    match kind {
        0 => {
            add(other, 0, write(second), second);
            add(own, 10, write(first), first);
            add(own, 20, Verb::Read, second);
        }
        1 => {
            add(other, 0, write(1), 1);
            add(other, 5, write(2), 2);
            add(own, 10, Verb::Read, first);
            add(own, 20, Verb::Read, second);
        }
        2 => {
            add(own, 10, write(first), first);
            add(own, 20, write(second), second);
        }
        _ => {
            add(other, 0, write(first), first);
            add(own, 10, Verb::Read, first);
            add(own, 20, write(second), second);
        }
    }
}

#[cfg(test)]
mod tests;
