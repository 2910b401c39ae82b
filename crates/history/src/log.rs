//! A run's operations, and what is known of all of them.

use std::fmt;

use crate::{Action, Operation};

/// What is known of all operations of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Which clock the times are of.
    pub clock: Clock,
    /// What was asked: an address, or the name of a model.
    pub target: String,
    /// The names of the levels that operations were asked for at.
    pub levels: Vec<String>,
    /// The name of the price book, if operations have prices.
    pub prices: Option<String>,
    /// The seed of the run's random choices.
    pub seed: Option<u64>,
    /// What orders the versions of a key.
    pub order: Order,
}

/// A clock. All times of a log are nanoseconds since the run's start by one clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// A machine's monotonic clock.
    Monotonic {
        /// The run's start, in nanoseconds since 1970.
        start_unix_nanos: u64,
    },
    /// A simulation's clock.
    Virtual,
}

impl Default for Clock {
    fn default() -> Self {
        Clock::Monotonic {
            start_unix_nanos: 0,
        }
    }
}

/// What orders the versions of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Replies tell places: stamps, or revisions.
    Told,
    /// A key has one writer, which waits for each write: the order of its calls.
    #[default]
    OneWriter,
}

/// A run's operations.
#[derive(Clone, Debug, PartialEq)]
pub struct Log<A: Action> {
    /// What is known of all of them.
    pub header: Header,
    /// In any order; a check names an operation by its place here.
    pub operations: Vec<Operation<A>>,
}

/// An operation that a check cannot take, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfit {
    /// Its place in the log.
    pub operation: usize,
    /// Why.
    pub reason: String,
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "operation {}: {}", self.operation, self.reason)
    }
}

impl<A: Action> Default for Log<A> {
    fn default() -> Self {
        Log {
            header: Header::default(),
            operations: Vec::new(),
        }
    }
}

impl<A: Action> Log<A> {
    /// Whether every operation returns at or after its call.
    ///
    /// # Errors
    /// The first that does not.
    pub fn check(&self) -> Result<(), Unfit> {
        let mut numbered = self.operations.iter().enumerate();
        let early = numbered.find(|(_, operation)| operation.returned() < operation.called);
        match early {
            None => Ok(()),
            Some((at, operation)) => Err(Unfit {
                operation: at,
                reason: format!(
                    "it returned at {}, before it was called at {}",
                    operation.returned(),
                    operation.called
                ),
            }),
        }
    }
}
