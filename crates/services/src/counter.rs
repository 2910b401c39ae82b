//! Counters: the second service, for tests alone (docs/internals/decisions/0012-counter.md).
//!
//! A counter is a number with a name. It is as small as a service can be that has collections of
//! its own, conditions, reads, waits, and steps across chains. So tests of what carries services
//! need no other.
//!
//! ```text
//! 'm'  := value:varint       of the counter's collection: as long as it is there
//! ```
//!
//! Invariants:
//! - COUNTER-1 the sum of all counters and of what is under way between them changes by `Add`
//!   alone.

mod seam;
mod wire;

use bytes::Bytes;
use fader_chain::Change;

pub use seam::Counter;

use crate::catalog::{self, AccountId, Name, State, number, put_number};
use crate::request::Limits;
use crate::service::{Context, Wait};
use crate::simpledb::metadata_key;
use crate::steps::{self, Action, Step};
use crate::{CollectionId, Failure, Kind, Mode, Reason, Rule, View, ViewError};

/// A request about a counter.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are what the line above them says")]
pub enum Request {
    /// Creates it with the value 0; one that is there stays as it is.
    Create(String),
    /// Deletes it; one that is not there is fine.
    Delete(String),
    /// Adds to it, if it does not come above the limit.
    Add { name: String, by: u64, limit: u64 },
    /// Its value.
    Read(String),
    /// Its value when that is at least so much, or at the deadline, in milliseconds since 1970.
    Wait {
        name: String,
        least: u64,
        until_ms: u64,
    },
    /// Takes from it and adds to another one, if that does not come above the limit.
    Move {
        name: String,
        to: String,
        by: u64,
        limit: u64,
    },
}

/// What it comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// It is done.
    Done,
    /// The value, after what was asked.
    Value(u64),
    /// It was taken, and is to be added on another chain.
    Moving(Step),
}

/// Why it was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is none of that name.
    #[error("there is no such counter")]
    NoCounter,
    /// Its value would be above the limit, or below 0.
    #[error("the counter's value is {0}")]
    Value(u64),
    /// The other counter would come above the limit, or is not there: nothing was moved.
    #[error("the other counter takes no more")]
    NotMoved,
    /// Not now, or the store could not be read.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// It can never be carried out.
    #[error(transparent)]
    Invalid(#[from] Rule),
}

/// A move on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    from: CollectionId,
    to: CollectionId,
    by: u64,
    limit: u64,
}

const MOVED: &[u8] = b"";
const NOT_MOVED: &[u8] = b"!";

impl From<ViewError> for Refusal {
    fn from(error: ViewError) -> Self {
        Refusal::Failed(error.into())
    }
}

type Decided = Result<(Reply, Vec<Change>), Refusal>;

fn value(view: &dyn View, collection: CollectionId) -> Result<Option<u64>, ViewError> {
    let key = metadata_key(collection);
    match view.get(&key)? {
        Some(_) => number(view, &key, 0).map(Some),
        None => Ok(None),
    }
}

fn set(collection: CollectionId, value: u64) -> Change {
    put_number(metadata_key(collection), value)
}

/// The counter of the context, with its value.
fn counter<L>(view: &dyn View, context: &Context<'_, L>) -> Result<(CollectionId, u64), Refusal> {
    let collection = context.collection.ok_or(Refusal::NoCounter)?;
    let value = value(view, collection)?.ok_or(Refusal::NoCounter)?;
    Ok((collection, value))
}

fn create(view: &dyn View, account: &AccountId, name: &str) -> Decided {
    let name = Name::new(Kind::Counter, account, name);
    if catalog::collection(view, name)?.is_some() {
        return Ok((Reply::Done, Vec::new()));
    }
    let (_, changes) = catalog::create(view, name, Mode::Strong, None)?;
    Ok((Reply::Done, changes))
}

fn delete(view: &dyn View, account: &AccountId, name: &str) -> Decided {
    let name = Name::new(Kind::Counter, account, name);
    let changes = match catalog::collection(view, name)? {
        Some(entry) => catalog::delete(view, name, &entry)?,
        None => Vec::new(),
    };
    Ok((Reply::Done, changes))
}

/// What it does to names on the system chain.
fn names(view: &dyn View, account: &AccountId, chains: u32, request: &Request) -> Option<Decided> {
    let (name, is_created) = match request {
        Request::Create(name) => (name, true),
        Request::Delete(name) => (name, false),
        _ => return None,
    };
    let name = Name::new(Kind::Counter, account, name);
    Some(
        catalog::placed(view, name)
            .map_err(Refusal::from)
            .and_then(|placed| {
                let changes = match placed.map(|placed| (placed.state, placed)) {
                    None if is_created => {
                        catalog::enter(view, name, Mode::Strong, None, chains, Bytes::new())?
                    }
                    Some((State::Deleting, _)) if is_created => {
                        return Err(Failure::from(Reason::DomainDeleting).into());
                    }
                    Some((State::Creating | State::Live, placed)) if !is_created => {
                        catalog::condemn(name, &placed)
                    }
                    _ => Vec::new(),
                };
                Ok((Reply::Done, changes))
            }),
    )
}

fn add<L>(view: &dyn View, context: &Context<'_, L>, by: u64, limit: u64) -> Decided {
    let (collection, value) = counter(view, context)?;
    let sum = value.checked_add(by).filter(|sum| *sum <= limit);
    let sum = sum.ok_or(Refusal::Value(value))?;
    Ok((Reply::Value(sum), vec![set(collection, sum)]))
}

fn wait<L>(
    view: &dyn View,
    context: &Context<'_, L>,
    least: u64,
    until_ms: u64,
) -> Result<Decided, Wait> {
    match counter(view, context) {
        Ok((_, value)) if value < least && context.now_ms < until_ms => Err(Wait {
            until_ms,
            alike: least,
            wake_ms: None,
        }),
        Ok((_, value)) => Ok(Ok((Reply::Value(value), Vec::new()))),
        Err(refusal) => Ok(Err(refusal)),
    }
}

/// On one chain it is one entry; across chains it begins a step.
fn move_to(view: &dyn View, context: &Context<'_, Limits>, by: u64, limit: u64) -> Decided {
    let (from, value) = counter(view, context)?;
    let towards = context.towards.ok_or(Refusal::NotMoved)?;
    let rest = value.checked_sub(by).ok_or(Refusal::Value(value))?;
    let transfer = Transfer {
        from,
        to: towards.collection,
        by,
        limit,
    };
    if towards.chain != context.chain {
        let action = Action::Counter(transfer);
        let (step, mut changes) = steps::begin(view, context.guards, towards.chain, action)?;
        changes.push(set(from, rest));
        return Ok((Reply::Moving(step), changes));
    }
    if from == transfer.to {
        return Ok((Reply::Value(value), Vec::new()));
    }
    let (outcome, mut changes) = transfer.take(view)?;
    if outcome == NOT_MOVED {
        return Err(Refusal::NotMoved);
    }
    changes.push(set(from, rest));
    Ok((Reply::Value(rest), changes))
}

impl Transfer {
    /// How much is moved.
    pub fn by(&self) -> u64 {
        self.by
    }

    /// The step on the chain of the counter that is added to.
    pub(crate) fn take(&self, view: &dyn View) -> Result<(Bytes, Vec<Change>), ViewError> {
        let sum = value(view, self.to)?.and_then(|value| value.checked_add(self.by));
        Ok(match sum.filter(|sum| *sum <= self.limit) {
            Some(sum) => (Bytes::from_static(MOVED), vec![set(self.to, sum)]),
            None => (Bytes::from_static(NOT_MOVED), Vec::new()),
        })
    }

    /// What the counter that was taken from makes of it: what was not added comes back.
    pub(crate) fn settle(&self, view: &dyn View, outcome: &[u8]) -> Result<Vec<Change>, ViewError> {
        let value = value(view, self.from)?.filter(|_| outcome == NOT_MOVED);
        Ok(match value {
            Some(value) => vec![set(self.from, value.saturating_add(self.by))],
            None => Vec::new(),
        })
    }
}

#[cfg(test)]
mod tests;
