//! What a scheduler chooses among, so that a search can try every order.

use std::fmt::Debug;
use std::time::Duration;

use super::faults::Fate;

/// What an event reads or writes at a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// The call: `PUT`, `LIST`, `receive`.
    pub call: &'static str,
    /// The object's key, or the prefix of a list.
    pub name: String,
    /// Whether it concerns all names that begin with `name`.
    pub is_prefix: bool,
    /// Whether it may change them.
    pub is_write: bool,
}

impl Access {
    /// Whether the order of two events can be told from their outcomes.
    pub fn conflicts(&self, other: &Access) -> bool {
        let meets = match (self.is_prefix, other.is_prefix) {
            (false, false) => self.name == other.name,
            (true, false) => other.name.starts_with(&self.name),
            (false, true) => self.name.starts_with(&other.name),
            (true, true) => {
                self.name.starts_with(&other.name) || other.name.starts_with(&self.name)
            }
        };
        meets && (self.is_write || other.is_write)
    }
}

/// A timer or an event that can happen next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alternative {
    /// Its number, the same in each run that made the same choices before.
    pub number: u64,
    /// When it is due. A scheduler may choose it before another one that is due earlier: calls
    /// take any time.
    pub at: Duration,
    /// The process that it concerns.
    pub process: usize,
    /// What it does at a service; `None` for a timer of the process.
    pub access: Option<Access>,
}

/// What a scheduler decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The timer or event of this index is next.
    Next(usize),
    /// A process crashes.
    Crash(usize),
    /// The run ends here: the future that [`super::Executor::search`] runs is dropped.
    End,
}

/// Decides what is next.
pub trait Scheduler: Debug + Send {
    /// One of the timers and events that can be next, a crash, or the end.
    fn choose(&mut self, alternatives: &[Alternative]) -> Choice;

    /// What becomes of a call that is sent now.
    fn fate(&mut self, _access: &Access) -> Fate {
        Fate::Answered
    }
}
