//! A capacity on purpose: so many requests a second, or so many at a time. What is beyond is
//! refused: 503 of SimpleDB, RequestThrottled of SQS.
//!
//! Clients that look for a service's capacity (`docs/explanation/congestion-window.md`) can only be
//! judged at one that is known. It only ever refuses: what is admitted is carried out as without a
//! limit, what is refused took no effect. Gets and puts have a capacity each, since SimpleDB took
//! more of the ones than of the others; each front door has its own.
//!
//! ```text
//! arrives ─ half the latency ─▶ a token or a slot? ─▶ carried out, for at least the work ─ half ─▶
//!                                       └────────── refused ───────────────────────────── half ─▶
//! ```
//!
//! A receive that may wait for messages holds a slot for the work only: consumers at rest take no
//! capacity.
//!
//! Deliberately absent: shares of clients; limits of bandwidth.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::sleep;

use crate::metrics::{LimitMetrics, Limited};

/// Without a number of its own, a burst is what comes in this time.
const BURST_S: f64 = 0.1;
/// Requests a second, or at a time, that a limit can name: above what any machine does.
const CAPACITY_MAX: f64 = 1e6;
/// The longest latency and work. Longer than any client waits.
const TIME_MAX: Duration = Duration::from_secs(60);

/// What requests of one class the front door admits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Capacity {
    /// A bucket of tokens. Written `1300/s`, or `1300/s+100`.
    Rate {
        /// Requests a second; above 0.
        per_second: f64,
        /// Requests at once after a rest; at least 1.
        burst: f64,
    },
    /// So many at a time. Written `32`, or `32+200`.
    Slots {
        /// Requests that are worked on at a time; at least 1.
        slots: u32,
        /// Requests that wait for a slot.
        queue: u32,
    },
}

/// A limited capacity. Written as `gets=1300/s,puts=75/s,latency=113ms`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Limit {
    /// Of requests that only read; everything is admitted if there is none.
    pub gets: Option<Capacity>,
    /// Of requests that write.
    pub puts: Option<Capacity>,
    /// What every answer takes longer, refusals too: the way of a distant service.
    pub latency: Duration,
    /// What the work on a request takes at least; exponential, this is the mean. A slot is taken
    /// for so long.
    pub work: Duration,
}

/// What is wrong with the text of a limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimitError {
    /// A part is none.
    #[error(
        "{0:?} is not part of a limit such as gets=1300/s+100,puts=32+200,latency=113ms,work=20ms \
         (a rate with its burst, slots with their queue, times)"
    )]
    NoPart(String),
    /// A part is given more than once.
    #[error("{0} is given twice: say it once")]
    Twice(String),
}

impl FromStr for Limit {
    type Err = LimitError;

    fn from_str(text: &str) -> Result<Limit, LimitError> {
        let mut limit = Limit::default();
        let mut names = Vec::new();
        for part in text.split(',').map(str::trim) {
            let wrong = || LimitError::NoPart(part.to_owned());
            let (name, value) = part.split_once('=').ok_or_else(wrong)?;
            let name = name.trim();
            if names.contains(&name) {
                return Err(LimitError::Twice(name.to_owned()));
            }
            names.push(name);
            match name {
                "gets" => limit.gets = Some(capacity(value.trim()).ok_or_else(wrong)?),
                "puts" => limit.puts = Some(capacity(value.trim()).ok_or_else(wrong)?),
                "latency" => limit.latency = span(value.trim()).ok_or_else(wrong)?,
                "work" => limit.work = span(value.trim()).ok_or_else(wrong)?,
                _ => return Err(wrong()),
            }
        }
        Ok(limit)
    }
}

fn capacity(text: &str) -> Option<Capacity> {
    let (most, more) = match text.split_once('+') {
        Some((most, more)) => (most, Some(more)),
        None => (text, None),
    };
    if let Some(rate) = most.strip_suffix("/s") {
        let within = |number: &f64| number.is_finite() && 0.0 < *number && *number <= CAPACITY_MAX;
        let per_second = rate.parse().ok().filter(within)?;
        let burst = match more {
            None => (per_second * BURST_S).max(1.0),
            Some(more) => more.parse().ok().filter(|it| within(it) && 1.0 <= *it)?,
        };
        return Some(Capacity::Rate { per_second, burst });
    }
    let within = |number: &u32| f64::from(*number) <= CAPACITY_MAX;
    let slots = most.parse().ok().filter(|it| within(it) && 0 < *it)?;
    let queue = match more {
        None => 0,
        Some(more) => more.parse().ok().filter(within)?,
    };
    Some(Capacity::Slots { slots, queue })
}

fn span(text: &str) -> Option<Duration> {
    let (number, second_s) = match text.strip_suffix("ms") {
        Some(number) => (number, 1e-3),
        None => (text.strip_suffix('s')?, 1.0),
    };
    let span = Duration::try_from_secs_f64(number.parse::<f64>().ok()? * second_s).ok()?;
    Some(span).filter(|span| *span <= TIME_MAX)
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        for (name, capacity) in [("gets", self.gets), ("puts", self.puts)] {
            parts.extend(capacity.map(|capacity| match capacity {
                Capacity::Rate { per_second, burst } => format!("{name}={per_second}/s+{burst}"),
                Capacity::Slots { slots, queue } => format!("{name}={slots}+{queue}"),
            }));
        }
        for (name, span) in [("latency", self.latency), ("work", self.work)] {
            if !span.is_zero() {
                parts.push(format!("{name}={}ms", span.as_secs_f64() * 1e3));
            }
        }
        f.write_str(&parts.join(","))
    }
}

/// What a request takes of a capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    /// It only reads.
    Get,
    /// It writes.
    Put,
    /// It writes, and may wait long before.
    Poll,
}

impl From<bool> for Load {
    /// Of a request that writes, or not.
    fn from(is_write: bool) -> Self {
        match is_write {
            true => Load::Put,
            false => Load::Get,
        }
    }
}

/// A limit at work.
pub(crate) struct Limiter {
    latency: Duration,
    work: Duration,
    gets: RequestClass,
    puts: RequestClass,
}

/// Requests of one class.
struct RequestClass {
    gate: ClassLimit,
    metrics: LimitMetrics,
}

enum ClassLimit {
    Open,
    Bucket(Mutex<Bucket>),
    Slots {
        /// Of those that are worked on or wait.
        places: Semaphore,
        /// Of those that are worked on.
        slots: Semaphore,
    },
}

/// Tokens that come evenly, up to a burst.
struct Bucket {
    per_second: f64,
    burst: f64,
    tokens: f64,
    filled: Instant,
}

impl Bucket {
    fn take(&mut self, now: Instant) -> bool {
        let span = now.saturating_duration_since(self.filled).as_secs_f64();
        self.tokens = (self.tokens + span * self.per_second).min(self.burst);
        self.filled = self.filled.max(now);
        let is_taken = 1.0 <= self.tokens;
        if is_taken {
            self.tokens -= 1.0;
        }
        is_taken
    }
}

impl Limiter {
    /// `limit` at work, with a full bucket.
    pub(crate) fn new(limit: &Limit, metrics: &Limited) -> Limiter {
        Limiter {
            latency: limit.latency,
            work: limit.work,
            gets: RequestClass::new(limit.gets, metrics.of("gets")),
            puts: RequestClass::new(limit.puts, metrics.of("puts")),
        }
    }

    /// What `request` comes to; nothing where it is refused.
    pub(crate) async fn within<T>(
        &self,
        load: Load,
        request: impl Future<Output = T>,
    ) -> Option<T> {
        pause(self.latency / 2).await;
        let lane = match load {
            Load::Put | Load::Poll => &self.puts,
            Load::Get => &self.gets,
        };
        let outcome = lane.within(self.work, load, request).await;
        pause(self.latency / 2).await;
        outcome
    }
}

impl RequestClass {
    fn new(capacity: Option<Capacity>, metrics: LimitMetrics) -> RequestClass {
        let gate = match capacity {
            None => ClassLimit::Open,
            Some(Capacity::Rate { per_second, burst }) => ClassLimit::Bucket(Mutex::new(Bucket {
                per_second,
                burst,
                tokens: burst,
                filled: Instant::now(),
            })),
            Some(Capacity::Slots { slots, queue }) => ClassLimit::Slots {
                places: Semaphore::new(slots as usize + queue as usize),
                slots: Semaphore::new(slots as usize),
            },
        };
        RequestClass { gate, metrics }
    }

    async fn within<T>(
        &self,
        work: Duration,
        load: Load,
        request: impl Future<Output = T>,
    ) -> Option<T> {
        let mut held = None;
        match &self.gate {
            ClassLimit::Open => {}
            ClassLimit::Bucket(bucket) => {
                if !bucket.lock().take(Instant::now()) {
                    return self.refuse();
                }
            }
            ClassLimit::Slots { places, slots } => {
                let Ok(place) = places.try_acquire() else {
                    return self.refuse();
                };
                let slot = slots
                    .acquire()
                    .await
                    .expect("the semaphore is never closed");
                held = Some((place, slot));
            }
        }
        self.metrics.admitted.inc();
        let work = work.mul_f64(-(1.0 - rand::random::<f64>()).ln());
        let worked = async {
            pause(work).await;
            if load == Load::Poll {
                held = None;
            }
        };
        let (outcome, ()) = tokio::join!(request, worked);
        Some(outcome)
    }

    fn refuse<T>(&self) -> Option<T> {
        self.metrics.refused.inc();
        None
    }
}

/// Waits, but not for nothing: a timer of no time takes a millisecond.
async fn pause(span: Duration) {
    if !span.is_zero() {
        sleep(span).await;
    }
}

#[cfg(test)]
mod tests;
