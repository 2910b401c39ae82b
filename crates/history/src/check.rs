//! Checks: each is a function of a log, and names the promise that the log breaks.
//!
//! | check | what it shows | cost |
//! |---|---|---|
//! | [`registers()`] | linearizability of registers whose writes have distinct values | a sort |
//! | [`search()`] | linearizability of any [`Model`] | exponential at worst, so bounded |
//! | [`sessions()`] | the four session guarantees | a sort |
//! | [`staleness()`] | how old what reads showed was | a sort |
//! | [`kept()`] | acknowledged writes are in a final read | a sort |

mod kept;
mod places;
mod registers;
mod search;
mod sessions;
mod staleness;

use std::fmt;

pub use kept::{Kept, kept};
pub use registers::{Breach, Judged, Registers, registers};
pub use search::objects::{Act, Objects};
pub use search::{Found, Model, SearchFailure, Searched, Timed, explore, search, shortest};
pub use sessions::{Guarantee, Sessions, sessions};
pub use staleness::{Bin, Reading, Reference, Staleness, Visibility, staleness};

use crate::{Action, Unfit, Violation};

/// Which levels a check judges: those whose operations promise what it checks.
pub type Levels<'a, A> = &'a dyn Fn(&<A as Action>::Level) -> bool;

/// Judges operations of every level.
pub fn every_level<L>(_level: &L) -> bool {
    true
}

/// Why a check does not find a log good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The log breaks a promise.
    Violated(Violation),
    /// The check cannot take the log.
    Unfit(Unfit),
}

impl From<Violation> for Fault {
    fn from(violation: Violation) -> Self {
        Fault::Violated(violation)
    }
}

impl From<Unfit> for Fault {
    fn from(unfit: Unfit) -> Self {
        Fault::Unfit(unfit)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Violated(violation) => write!(f, "{violation}"),
            Fault::Unfit(unfit) => write!(f, "{unfit}"),
        }
    }
}

#[cfg(test)]
mod tests;
