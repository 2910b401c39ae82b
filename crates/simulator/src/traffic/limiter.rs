//! Clients that limit what is in flight: Netflix's concurrency-limits and Vector's ARC.
//!
//! After their published descriptions and defaults, not yet compared with the programs: limits as
//! there, one sample per reply, without Netflix's optional window of samples. A refused request
//! goes behind the rest, five attempts, as in the seed.

use std::collections::{BTreeMap, VecDeque};

use super::chance::Chance;
use super::client::{Client, Reply, Turn};
use super::scenario::Moment;

const ATTEMPTS: u32 = 5;

/// A client with a limit.
pub(super) struct Limited {
    law: Law,
    in_flight: u32,
    attempts: BTreeMap<u32, u32>,
    again: VecDeque<u32>,
    is_fresh: bool,
}

/// One reply, as a law sees it.
struct Sample {
    now: f64,
    latency: f64,
    in_flight: u32,
    is_dropped: bool,
}

/// How the limit moves.
pub(super) enum Law {
    Aimd { limit: f64 },
    Vegas(Box<Vegas>),
    Gradient2(Gradient2),
    Arc(Arc),
}

pub(super) struct Vegas {
    limit: f64,
    baseline: f64,
    jitter: f64,
    samples: f64,
    chance: Chance,
}

pub(super) struct Gradient2 {
    limit: f64,
    long: f64,
    samples: f64,
}

pub(super) struct Arc {
    limit: f64,
    past: Option<(f64, f64)>,
    next: f64,
    sum: f64,
    samples: f64,
    is_reached: bool,
    is_pressed: bool,
}

impl Law {
    pub(super) fn aimd() -> Law {
        Law::Aimd { limit: 20.0 }
    }

    pub(super) fn vegas(seed: u64) -> Law {
        let mut chance = Chance::new(seed);
        Law::Vegas(Box::new(Vegas {
            limit: 20.0,
            baseline: 0.0,
            jitter: 0.5 + chance.unit() / 2.0,
            samples: 0.0,
            chance,
        }))
    }

    pub(super) fn gradient2() -> Law {
        Law::Gradient2(Gradient2 {
            limit: 20.0,
            long: 0.0,
            samples: 0.0,
        })
    }

    pub(super) fn arc() -> Law {
        Law::Arc(Arc {
            limit: 1.0,
            past: None,
            next: 0.0,
            sum: 0.0,
            samples: 0.0,
            is_reached: false,
            is_pressed: false,
        })
    }

    fn limit(&self) -> u32 {
        let limit = match self {
            Law::Aimd { limit } => *limit,
            Law::Vegas(law) => law.limit,
            Law::Gradient2(law) => law.limit,
            Law::Arc(law) => law.limit,
        };
        limit as u32
    }

    fn take(&mut self, sample: &Sample) {
        match self {
            Law::Aimd { limit } => {
                if sample.is_dropped {
                    *limit *= 0.9;
                } else if *limit <= f64::from(sample.in_flight * 2) {
                    *limit += 1.0;
                }
                *limit = limit.floor().clamp(20.0, 200.0);
            }
            Law::Vegas(law) => law.take(sample),
            Law::Gradient2(law) => law.take(sample),
            Law::Arc(law) => law.take(sample),
        }
    }
}

impl Vegas {
    fn take(&mut self, sample: &Sample) {
        self.samples += 1.0;
        if self.jitter * 30.0 * self.limit <= self.samples {
            self.jitter = 0.5 + self.chance.unit() / 2.0;
            self.samples = 0.0;
            self.baseline = sample.latency;
            return;
        }
        if self.baseline == 0.0 || sample.latency < self.baseline {
            self.baseline = sample.latency;
            return;
        }
        let queue = (self.limit * (1.0 - self.baseline / sample.latency)).ceil();
        let log = self.limit.log10().floor().max(1.0);
        self.limit += if sample.is_dropped {
            -log
        } else if f64::from(sample.in_flight * 2) < self.limit {
            0.0
        } else if queue <= log {
            6.0 * log
        } else if queue < 3.0 * log {
            log
        } else if 6.0 * log < queue {
            -log
        } else {
            0.0
        };
        self.limit = self.limit.clamp(1.0, 1_000.0);
    }
}

impl Gradient2 {
    fn take(&mut self, sample: &Sample) {
        // A mean of the first ten, then an exponential average over 600.
        self.samples += 1.0;
        let weight = match self.samples <= 10.0 {
            true => 1.0 / self.samples,
            false => 2.0 / 601.0,
        };
        self.long += (sample.latency - self.long) * weight;
        if 2.0 < self.long / sample.latency {
            self.long *= 0.95;
        }
        if f64::from(sample.in_flight) < self.limit / 2.0 {
            return;
        }
        let gradient = (1.5 * self.long / sample.latency).clamp(0.5, 1.0);
        let next = self.limit * gradient + 4.0;
        self.limit = (self.limit * 0.8 + next * 0.2).clamp(20.0, 200.0);
    }
}

impl Arc {
    fn take(&mut self, sample: &Sample) {
        self.is_reached |= self.limit <= f64::from(sample.in_flight);
        if sample.is_dropped {
            self.is_pressed = true;
        } else {
            self.sum += sample.latency;
            self.samples += 1.0;
        }
        if sample.now < self.next {
            return;
        }
        let current = (0.0 < self.samples).then(|| self.sum / self.samples);
        if let (Some(current), Some((mean, variance))) = (current, self.past) {
            let threshold = mean + 2.5 * variance.sqrt();
            if self.limit < 200.0 && self.is_reached && !self.is_pressed && current <= mean {
                self.limit += 1.0;
            } else if 1.0 < self.limit && (self.is_pressed || threshold <= current) {
                self.limit = (self.limit * 0.9).floor().max(1.0);
            }
        } else if self.is_pressed && 1.0 < self.limit {
            self.limit = (self.limit * 0.9).floor().max(1.0);
        }
        if let Some(current) = current {
            // An exponential average of mean and variance, of weight 0.4.
            let (mean, variance) = self.past.unwrap_or((current, 0.0));
            let by = current - mean;
            let step = 0.4 * by;
            self.past = Some((mean + step, (1.0 - 0.4) * (variance + by * step)));
        }
        self.next = sample.now + self.past.map_or(sample.latency, |(mean, _)| mean);
        (self.sum, self.samples) = (0.0, 0.0);
        (self.is_reached, self.is_pressed) = (false, false);
    }
}

impl Limited {
    pub(super) fn new(law: Law) -> Limited {
        Limited {
            law,
            in_flight: 0,
            attempts: BTreeMap::new(),
            again: VecDeque::new(),
            is_fresh: false,
        }
    }
}

impl Client for Limited {
    fn turn(&mut self, turn: &mut Turn<'_>) {
        while self.in_flight < self.law.limit() {
            // Behind the rest; of an endless supply, one in two.
            self.is_fresh = !self.is_fresh && !turn.work.is_empty();
            let again = match self.is_fresh {
                true => None,
                false => self.again.pop_front(),
            };
            let Some(request) = again.or_else(|| turn.work.take()) else {
                break;
            };
            self.in_flight += 1;
            turn.sends.push(request);
        }
    }

    fn reply(&mut self, turn: &mut Turn<'_>, request: u32, sent: Moment, reply: Reply) {
        self.law.take(&Sample {
            now: turn.now as f64 / 1e9,
            latency: (turn.now - sent) as f64 / 1e9,
            in_flight: self.in_flight,
            is_dropped: matches!(reply, Reply::Refused(_) | Reply::Timeout),
        });
        self.in_flight -= 1;
        let attempts = self.attempts.remove(&request).unwrap_or(0) + 1;
        if reply != Reply::Ok && attempts < ATTEMPTS {
            self.attempts.insert(request, attempts);
            self.again.push_back(request);
        } else if reply != Reply::Ok {
            turn.failures.push(request);
        }
        self.turn(turn);
    }
}
