//! What may go wrong, and how often.

use std::sync::Mutex;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::error::{Error, ErrorKind, Result};

/// How often a cloud does the worst that it promises: nothing by default. Frequencies are in
/// thousandths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weather {
    /// What decides.
    pub seed: u64,
    /// Calls that are refused before anything happens.
    pub refused: u16,
    /// Writes that happen and whose answer is lost.
    pub unanswered: u16,
    /// How many writes an eventual read of domains may miss.
    pub lag: usize,
    /// Short receives that find nothing, though there is something.
    pub empty_receives: u16,
    /// Receives in another order than messages were sent in.
    pub disorder: u16,
    /// Removed messages that are received once more.
    pub resurrections: u16,
}

/// Draws what happens.
#[derive(Debug)]
pub(super) struct Dice(Mutex<ChaCha8Rng>);

impl Dice {
    /// Dice of their own for each service.
    pub(super) fn new(weather: Weather, stream: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(weather.seed);
        random.set_stream(stream);
        Dice(Mutex::new(random))
    }

    /// Whether something of this frequency happens now.
    pub(super) fn happens(&self, thousandths: u16) -> bool {
        0 < thousandths && self.below(1000) < usize::from(thousandths)
    }

    /// A number below `end`, which is not 0.
    pub(super) fn below(&self, end: usize) -> usize {
        let mut random = self.0.lock().expect("nothing panics while drawing");
        random.random_range(0..end)
    }

    /// Refuses some calls.
    pub(super) fn begin(&self, weather: &Weather, call: &str) -> Result<()> {
        if self.happens(weather.refused) {
            let kind = ErrorKind::Unavailable { retry_after: None };
            return Err(Error::new(kind, format!("{call}: refused by the weather")));
        }
        Ok(())
    }

    /// Loses the answers of some writes.
    pub(super) fn end<T>(&self, weather: &Weather, call: &str, answer: Result<T>) -> Result<T> {
        if answer.is_ok() && self.happens(weather.unanswered) {
            let context = format!("{call}: its answer is lost in the weather");
            return Err(Error::new(ErrorKind::Ambiguous, context));
        }
        answer
    }
}
