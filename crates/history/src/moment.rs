//! Points of a run's time.

use std::fmt;

/// A point of a run's time. In logs of measurements `step` is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment {
    /// Nanoseconds since the run's start.
    pub nanos: u64,
    /// In simulations, the event's number in the run, which orders events of one time.
    pub step: u64,
}

impl Moment {
    /// After every other moment.
    pub const END: Moment = Moment {
        nanos: u64::MAX,
        step: u64::MAX,
    };

    /// The moment so many nanoseconds after the start, without a step.
    pub const fn at(nanos: u64) -> Self {
        Moment { nanos, step: 0 }
    }

    /// Whole microseconds since the run's start.
    pub const fn micros(self) -> u64 {
        self.nanos / 1_000
    }

    /// Nanoseconds from `earlier` to this moment; negative if `earlier` is later.
    pub fn since(self, earlier: Moment) -> i64 {
        let apart = i128::from(self.nanos) - i128::from(earlier.nanos);
        i64::try_from(apart).unwrap_or(if apart < 0 { i64::MIN } else { i64::MAX })
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Moment::END {
            return write!(f, "never");
        }
        let (millis, rest) = (self.nanos / 1_000_000, self.nanos % 1_000_000);
        match rest % 1_000 {
            0 => write!(f, "{millis}.{:03}ms", rest / 1_000)?,
            _ => write!(f, "{millis}.{rest:06}ms")?,
        }
        match self.step {
            0 => Ok(()),
            step => write!(f, "#{step}"),
        }
    }
}
