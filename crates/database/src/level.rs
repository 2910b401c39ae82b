//! Levels of a transaction: the ladder of Brantner and others (2008), each with all promises of the
//! ones before it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What a transaction promises.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Nothing: dirty pages are written as they are. Concurrent updates of one page get lost. The
    /// baseline of the paper.
    Naive,
    /// No acknowledged update is lost; all copies come to one state.
    #[default]
    Basic,
    /// A session reads its own writes, never reads backwards, and its writes keep their order.
    Monotonic,
    /// All records of a transaction take effect, or none, also when the client never returns.
    Atomic,
}

impl Level {
    /// All levels, the weakest first.
    pub const ALL: [Level; 4] = [Level::Naive, Level::Basic, Level::Monotonic, Level::Atomic];

    /// Its name on the command line and in the catalogue.
    pub fn name(self) -> &'static str {
        match self {
            Level::Naive => "naive",
            Level::Basic => "basic",
            Level::Monotonic => "monotonic",
            Level::Atomic => "atomic",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Level {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Level::ALL.into_iter().find(|level| level.name() == name);
        found.ok_or_else(|| format!("level {name:?}: choose naive, basic, monotonic or atomic"))
    }
}
