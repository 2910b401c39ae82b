//! Draws what a profile leaves open: latencies, ages and faults.

use std::f64::consts::TAU;
use std::sync::Mutex;
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::profile::{Call, Latency, Staleness};

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It happens and is answered.
    Answered,
    /// It is refused with this status, before anything happened.
    Refused(u16),
    /// It never arrives.
    LostRequest,
    /// It happens; its caller hears nothing.
    LostAnswer,
    /// It happens at any time; its caller hears nothing.
    Late,
}

/// A source of drawn faults: one for each service, so that one's calls do not move another's.
#[derive(Debug)]
pub(super) struct FaultSource(Mutex<ChaCha8Rng>);

impl FaultSource {
    pub(super) fn new(seed: u64, stream: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(stream);
        FaultSource(Mutex::new(random))
    }

    /// Whether something of this frequency happens now.
    pub(super) fn happens(&self, thousandths: u16) -> bool {
        0 < thousandths && self.below(1000) < usize::from(thousandths)
    }

    /// A number below `end`, which is not 0.
    pub(super) fn below(&self, end: usize) -> usize {
        self.draw(|random| random.random_range(0..end))
    }

    /// What becomes of a call.
    pub(super) fn fate(&self, call: &Call, is_write: bool, is_conditional: bool) -> Fate {
        let rates = &call.faults;
        let fates = [
            (rates.unavailable, Fate::Refused(503)),
            (rates.throttled, Fate::Refused(429)),
            (
                if is_conditional { rates.conflict } else { 0 },
                Fate::Refused(409),
            ),
            (rates.lost_request, Fate::LostRequest),
            (rates.lost_answer, Fate::LostAnswer),
            (if is_write { rates.late } else { 0 }, Fate::Late),
        ];
        let drawn = fates.into_iter().find(|(rate, _)| self.happens(*rate));
        drawn.map_or(Fate::Answered, |(_, fate)| fate)
    }

    /// The latency of a call of this many bytes, before and after it takes effect.
    pub(super) fn latency(&self, call: &Call, bytes: u64) -> (Duration, Duration) {
        let base = match &call.latency {
            Latency::None => Duration::ZERO,
            Latency::Constant(latency) => *latency,
            Latency::LogNormal { median, sigma } => median.mul_f64((sigma * self.normal()).exp()),
            Latency::Table(rows) => interpolate(rows, self.unit()),
        };
        let all = base + call.per_mib.mul_f64(bytes as f64 / f64::from(1 << 20));
        if all.is_zero() {
            return (all, all);
        }
        let before = all.mul_f64(self.unit());
        (before, all - before)
    }

    /// When a late call takes effect.
    pub(super) fn lateness(&self, call: &Call) -> Duration {
        call.late_max.mul_f64(self.unit())
    }

    /// The age of the state that a read shows.
    pub(super) fn age(&self, staleness: &Staleness) -> Duration {
        match staleness {
            Staleness::None => Duration::ZERO,
            Staleness::Constant(age) => *age,
            Staleness::Uniform(max) => max.mul_f64(self.unit()),
            Staleness::Exponential(mean) => {
                let age = mean.mul_f64(-(1.0 - self.unit()).ln());
                age.min(staleness.max())
            }
            Staleness::TwoPeaked {
                near,
                far,
                far_share,
            } => {
                let peak = if self.happens(*far_share) { far } else { near };
                peak.mul_f64(self.unit())
            }
        }
    }

    /// From 0, and below 1.
    fn unit(&self) -> f64 {
        self.draw(|random| random.random_range(0.0..1.0))
    }

    /// Of the standard normal distribution, by Box and Muller.
    fn normal(&self) -> f64 {
        let (one, two) = (1.0 - self.unit(), self.unit());
        (-2.0 * one.ln()).sqrt() * (TAU * two).cos()
    }

    fn draw<T>(&self, draw: impl FnOnce(&mut ChaCha8Rng) -> T) -> T {
        draw(&mut self.0.lock().expect("nothing panics while drawing"))
    }
}

fn interpolate(rows: &[(f64, Duration)], quantile: f64) -> Duration {
    let above = rows.iter().position(|(at, _)| quantile < *at);
    match above {
        Some(0) => rows[0].1,
        Some(above) => {
            let ((low, from), (high, to)) = (rows[above - 1], rows[above]);
            let share = (quantile - low) / (high - low);
            from.mul_f64(1.0 - share) + to.mul_f64(share)
        }
        None => rows.last().map_or(Duration::ZERO, |(_, latency)| *latency),
    }
}

#[cfg(test)]
mod tests;
