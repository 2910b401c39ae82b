//! The text of levels, names, stamps and outcomes; `parse` reads it.

use std::fmt::{Display, Formatter, Result};

use fader_chain::{RequestId, Stamp};

use crate::level::{
    Bound, Cause, ConsistencyOptions, DefaultConsistency, Level, Outcome, Outcomes,
    SettlementNotice,
};

/// Shows level, bound and outcome: the header `x-fader-consistency`. Session and name have headers
/// of their own.
impl Display for ConsistencyOptions {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{}", self.level)?;
        if let Some(bound) = self.bound {
            write!(f, "; bound={bound}")?;
        }
        if self.outcome {
            write!(f, "; outcome")?;
        }
        Ok(())
    }
}

impl Display for DefaultConsistency {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let consistency = ConsistencyOptions {
            level: self.level,
            bound: self.bound,
            ..ConsistencyOptions::default()
        };
        write!(f, "{consistency}")
    }
}

impl Display for Level {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match *self {
            Level::Default => write!(f, "default"),
            Level::Strong => write!(f, "strong"),
            Level::Barrier => write!(f, "barrier"),
            Level::Eventual { r, w, sloppy } => {
                write!(f, "eventual; r={r}; w={w}")?;
                write!(f, "{}", if sloppy { "; sloppy" } else { "" })
            }
        }
    }
}

impl Display for Bound {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Bound::Millis(millis) => write!(f, "{millis}ms"),
            Bound::Versions(versions) => write!(f, "{versions}v"),
        }
    }
}

impl Display for Outcome {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Outcome::Applied => write!(f, "applied"),
            Outcome::Superseded(None) => write!(f, "superseded"),
            Outcome::Superseded(Some(cause)) => write!(f, "superseded; {cause}"),
            Outcome::Detached => write!(f, "detached"),
        }
    }
}

impl Display for Cause {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Cause::Limit(code) => write!(f, "cause=limit; code={}", code.name()),
            Cause::Gone => write!(f, "cause=gone"),
        }
    }
}

impl Display for Outcomes {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{}", self.common)?;
        self.parts
            .iter()
            .try_for_each(|(part, outcome)| write!(f, ", {part}={outcome}"))
    }
}

impl Display for SettlementNotice {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{} {}", show_name(&self.name), self.outcome)
    }
}

/// A request's name: `CLIENT/SEQ`, and the part where there are parts.
pub fn show_name(name: &RequestId) -> String {
    let RequestId { client, seq, part } = name;
    let client = client.id;
    match part {
        0 => format!("{client:032x}/{seq}"),
        part => format!("{client:032x}/{seq}/{part}"),
    }
}

/// A stamp: of a strong write its version, of an eventual one its base, clock, node and counter.
pub fn show_stamp(stamp: &Stamp) -> String {
    if stamp.is_strong() {
        return stamp.base.to_string();
    }
    let Stamp {
        base,
        clock,
        node,
        counter,
    } = stamp;
    format!("{base}+{clock}.{node}.{counter}")
}
