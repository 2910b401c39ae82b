//! Steps across chains: what one entry of one chain begins and another chain is to finish.
//!
//! The decision that begins a step puts a record of it into its own entry, at the *origin*. Any
//! node that finds the record has the step *taken* on the chain that it is for. Then it has the
//! record *settled* with what came of it. A step that was taken leaves a mark, so that it is taken
//! once however often it is asked for, and however late.
//!
//! ```text
//! origin       's'                            the number of the next step (varint)
//!              's' number:u64be            -> version:u8=1  to:varint  action
//! destination  't' origin:u32be            -> floor:varint   every step below was settled
//!              't' origin:u32be number:u64be -> outcome      a step that was taken
//!
//! begin (origin) ──▶ take (destination) ──▶ settle (origin)
//! ```
//!
//! A step tells the floor of its origin: the least number that was not settled when it began. A
//! request for a step below it needs an answer and no more. So the destination keeps its own floor
//! instead of the marks below it.
//!
//! Collections of other chains come and go by steps too (`catalog/placement.rs`). Their number is
//! that of the collection; their record and their mark are the catalog's, as version 3 of a cluster
//! has them.
//!
//! Invariants:
//! - (STEP-5) a step's record is in the entry of the decision that began it.
//! - (STEP-6) a record is settled only when its step was taken.
//! - (STEP-7) a step that was taken is not taken again.
//! - (STEP-8) every step below the floor that a step tells was settled when it began.
//!
//! Deliberately absent: who finishes a step and when; that is the node's (ROUTE-3, ROUTE-4 there).

mod finish;
mod seam;
mod wire;

use bytes::Bytes;
use fader_chain::{ChainId, Change, DecodeError, Guard, Guards, Reader, Version, put_varint};

pub use finish::{Ask, Finish, Heard};
pub use seam::{Refusal, Steps};

use crate::Kind;
use crate::catalog::{self, DomainEntry, NameBuf, State, number, put_number};
use crate::forward::wire::Wire;
use crate::request;
use crate::{CollectionId, Decision, Direction, KeyBuilder, SYSTEM, Table, View, ViewError};

const VERSION: u8 = 1;
/// Marks below the floor that one step takes away: more than come between two steps, so that they
/// do not gather.
const MARKS_PER_STEP: usize = 64;

/// A step that was begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its number at its origin; given once.
    pub number: u64,
    /// The chain that is to take it.
    pub to: ChainId,
    /// The least number of its origin that was not settled when it began.
    pub floor: u64,
    /// What is to be done there.
    pub action: Action,
}

/// What a step does on the chain that takes it, and what its origin does when it hears of that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// The collection is there from now on, unless it was razed before.
    Found(NameBuf, DomainEntry),
    /// The collection is there no more, and will never be.
    Raze(NameBuf, CollectionId),
    /// Of queues.
    Queue(crate::sqs::QueueStep),
    /// The name is free: its collection, on the chain that began the step, has ended.
    Free(NameBuf, CollectionId),
    /// Of the counters of tests.
    #[cfg(feature = "counter")]
    Counter(crate::counter::Transfer),
}

impl Action {
    /// The version of a cluster that it came with. Those of names of an older kind travel as
    /// commands of the catalog, which an older process knows.
    pub fn since(&self) -> Version {
        match self {
            Action::Found(name, _) | Action::Raze(name, _) => name.kind.since(),
            Action::Queue(_) => Kind::Queue.since(),
            Action::Free(..) => Version::EIGHTH,
            #[cfg(feature = "counter")]
            Action::Counter(_) => Kind::Counter.since(),
        }
    }
}

/// What is asked of a chain about a step.
#[derive(Clone, Debug)]
pub enum Command {
    /// Of the chain that it is for: take it.
    Take(ChainId, Step),
    /// Of its origin: it was taken, and this came of it.
    Settle(Step, Bytes),
}

impl Command {
    /// The step that it is about.
    pub fn step(&self) -> &Step {
        match self {
            Command::Take(_, step) | Command::Settle(step, _) => step,
        }
    }
}

/// What a chain says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It was taken, now or before, and this came of it.
    Done(Bytes),
    /// It was taken and settled so long ago that its outcome is forgotten.
    Passed,
}

/// Begins a step on the chain `to`: the step, and what records it.
///
/// # Errors
/// [`ViewError`] when the store cannot be read.
pub fn begin(
    view: &dyn View,
    guards: &Guards,
    to: ChainId,
    action: Action,
) -> Result<(Step, Vec<Change>), ViewError> {
    let (mut steps, changes) = begin_all(view, guards, vec![(to, action)])?;
    let step = steps.pop().expect("there is one for each action");
    Ok((step, changes))
}

/// Begins a step for each action, on the chain beside it, in one decision.
///
/// # Errors
/// [`ViewError`] when the store cannot be read.
pub fn begin_all(
    view: &dyn View,
    guards: &Guards,
    actions: Vec<(ChainId, Action)>,
) -> Result<(Vec<Step>, Vec<Change>), ViewError> {
    if actions.is_empty() {
        return Ok((Vec::new(), Vec::new()));
    }
    let mut next = number(view, &next_key(), 0)?;
    let first = records(view).next().transpose()?.map(|(key, _)| key);
    let floor = match first {
        Some(key) => number_of(&key)?,
        None => next,
    };
    let (mut steps, mut changes) = (Vec::new(), Vec::new());
    for (to, action) in actions {
        let mut record = vec![VERSION];
        put_varint(&mut record, u64::from(to.0));
        action.put(&mut record);
        if guards.has(Guard::StepRecorded) {
            changes.push(Change::Put {
                key: record_key(next),
                value: Bytes::from(record),
            });
        }
        steps.push(Step {
            number: next,
            to,
            floor,
            action,
        });
        next += 1;
    }
    changes.push(put_number(next_key(), next));
    Ok((steps, changes))
}

/// All steps of this origin that are not settled, at most `count`.
///
/// # Errors
/// [`ViewError`] when the store cannot be read.
pub fn unsettled(view: &dyn View, count: usize) -> Result<Vec<Step>, ViewError> {
    let mut steps = Vec::new();
    for it in catalog::unfinished(view)?.into_iter().take(count) {
        steps.extend(of_collection(it.name, &it.placed));
    }
    let mut floor = None;
    for pair in records(view).take(count - steps.len()) {
        let (key, value) = pair?;
        let number = number_of(&key)?;
        let floor = *floor.get_or_insert(number);
        let mut reader = Reader::new(value);
        if reader.byte()? != VERSION {
            return Err(DecodeError::new("the record of a step").into());
        }
        let to = ChainId(reader.varint_u32()?);
        let action = Action::read(&mut reader)?;
        reader.end()?;
        steps.push(Step {
            number,
            to,
            floor,
            action,
        });
    }
    Ok(steps)
}

/// The step that brings a collection on another chain where it is to be; none if it is there.
pub fn of_collection(name: NameBuf, placed: &catalog::DomainPlacement) -> Option<Step> {
    let collection = placed.entry.collection;
    let action = match placed.state {
        State::Live => return None,
        State::Creating => Action::Found(name, placed.entry.clone()),
        State::Deleting => Action::Raze(name, collection),
    };
    Some(Step {
        number: collection.0,
        to: placed.chain,
        floor: 0,
        action,
    })
}

/// Takes a step that `origin` began (STEP-7).
///
/// # Errors
/// [`ViewError`] when the store cannot be read.
pub fn take(
    view: &dyn View,
    guards: &Guards,
    origin: ChainId,
    step: &Step,
) -> Result<Decision<Taken>, ViewError> {
    let done = |outcome: Bytes, changes| Decision {
        outcome: Taken::Done(outcome),
        changes,
    };
    if let Some(changes) = take_of_name(view, guards, step)? {
        return Ok(done(Bytes::new(), changes));
    }
    let mark = mark_key(origin, step.number);
    let floor = number(view, &floor_key(origin), 0)?;
    if guards.has(Guard::StepOnce) {
        if let Some(outcome) = view.get(&mark)? {
            return Ok(done(outcome, Vec::new()));
        }
        if step.number < floor {
            return Ok(Decision {
                outcome: Taken::Passed,
                changes: Vec::new(),
            });
        }
    }
    let (outcome, mut changes) = request::take_step(view, guards, &step.action)?;
    changes.push(Change::Put {
        key: mark,
        value: outcome.clone(),
    });
    if floor < step.floor {
        changes.push(put_number(floor_key(origin), step.floor));
    }
    changes.extend(forget_marks(view, origin, floor.max(step.floor))?);
    Ok(done(outcome, changes))
}

/// Settles a step at its origin: `outcome` is what the chain that took it said. One that is settled
/// changes nothing.
///
/// # Errors
/// [`ViewError`] when the store cannot be read.
pub fn settle(view: &dyn View, step: &Step, outcome: &Bytes) -> Result<Vec<Change>, ViewError> {
    if let Some(changes) = settle_of_name(view, &step.action)? {
        return Ok(changes);
    }
    let key = record_key(step.number);
    if view.get(&key)?.is_none() {
        return Ok(Vec::new());
    }
    let mut changes = request::settle_step(view, &step.action, outcome)?;
    changes.push(Change::Remove { key });
    Ok(changes)
}

/// What a collection's own chain does when it comes or goes; nothing of any other step.
fn take_of_name(
    view: &dyn View,
    guards: &Guards,
    step: &Step,
) -> Result<Option<Vec<Change>>, ViewError> {
    Ok(match &step.action {
        Action::Found(name, entry) => Some(catalog::found(view, name.name(), entry)?),
        Action::Raze(name, collection) => {
            let mut changes = catalog::raze(view, name.name(), *collection)?;
            // One that was razed before leaves nothing more.
            if !changes.is_empty() {
                let razed = request::razed(view, guards, name.name(), step.to, *collection)?;
                changes.extend(razed);
            }
            Some(changes)
        }
        Action::Queue(_) | Action::Free(..) => None,
        #[cfg(feature = "counter")]
        Action::Counter(_) => None,
    })
}

/// What the system chain does then.
fn settle_of_name(view: &dyn View, action: &Action) -> Result<Option<Vec<Change>>, ViewError> {
    let (name, collection, is_gone) = match action {
        Action::Found(name, entry) => (name, entry.collection, false),
        Action::Raze(name, collection) => (name, *collection, true),
        Action::Queue(_) | Action::Free(..) => return Ok(None),
        #[cfg(feature = "counter")]
        Action::Counter(_) => return Ok(None),
    };
    catalog::settle(view, name.name(), collection, is_gone).map(Some)
}

/// Takes marks away that are below the floor.
fn forget_marks(view: &dyn View, origin: ChainId, floor: u64) -> Result<Vec<Change>, ViewError> {
    let (start, end) = (mark_key(origin, 0), mark_key(origin, floor));
    let marks = view.scan(&start, &end, Direction::Forward);
    let forgotten = marks.take(MARKS_PER_STEP);
    forgotten
        .map(|pair| Ok(Change::Remove { key: pair?.0 }))
        .collect()
}

fn records(view: &dyn View) -> crate::Scan<'_> {
    let end = KeyBuilder::new(SYSTEM, Table::Steps).build_end();
    view.scan(&record_key(0), &end, Direction::Forward)
}

fn number_of(key: &[u8]) -> Result<u64, DecodeError> {
    let number = key.last_chunk::<8>();
    let number = number.ok_or_else(|| DecodeError::new("the number of a step"))?;
    Ok(u64::from_be_bytes(*number))
}

fn next_key() -> Bytes {
    KeyBuilder::new(SYSTEM, Table::Steps).build()
}

fn record_key(number: u64) -> Bytes {
    KeyBuilder::new(SYSTEM, Table::Steps)
        .raw(&number.to_be_bytes())
        .build()
}

fn floor_key(origin: ChainId) -> Bytes {
    KeyBuilder::new(SYSTEM, Table::Taken)
        .raw(&origin.0.to_be_bytes())
        .build()
}

fn mark_key(origin: ChainId, number: u64) -> Bytes {
    KeyBuilder::new(SYSTEM, Table::Taken)
        .raw(&origin.0.to_be_bytes())
        .raw(&number.to_be_bytes())
        .build()
}

#[cfg(test)]
mod tests;
