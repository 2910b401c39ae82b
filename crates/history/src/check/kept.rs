//! Acknowledged writes against final reads.
//!
//! A final read of an object was called after every change of it was called and every acknowledged
//! one had returned. It must show
//! - of a register, a write that was asked for and that no acknowledged write follows;
//! - of a set, each element that was added and not removed since, and none that was not added, or
//!   was removed and not added since;
//! - of a counter, a sum between the acknowledged increments and all that may have acted.

use super::search::objects;
use super::{Act, Timed, every_level};
use crate::object::{Request, Value, Verb};
use crate::{Log, Moment, Rule, Rules, Violation};

use super::Fault;

/// What [`kept`] found good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// Objects with a final read.
    pub objects: usize,
    /// Objects without one, of which nothing is said.
    pub unread: usize,
    /// Changes that were acknowledged.
    pub acknowledged: usize,
    /// Changes whose outcome is unknown.
    pub doubtful: usize,
}

/// Judges every final read of a log.
///
/// # Errors
/// The first object of which a final read shows too little or too much; or an operation that
/// returned before its call.
pub fn kept(log: &Log<Request>, rules: &Rules) -> Result<Kept, Fault> {
    log.check()?;
    let mut kept = Kept::default();
    for (key, (object, places)) in objects::of_log(log, &every_level, rules) {
        let operations = &object.operations;
        let is_change = |one: &&Timed<Act>| one.operation.verb != Verb::Read;
        let changes = || operations.iter().filter(is_change);
        let quiet = changes()
            .map(|change| change.returned.unwrap_or(change.called))
            .max();
        let acknowledged = changes().filter(|change| change.is_required()).count();
        kept.acknowledged += acknowledged;
        kept.doubtful += changes().count() - acknowledged;
        let mut has_final = false;
        for (at, read) in operations.iter().enumerate() {
            let shown = read
                .operation
                .reply
                .as_ref()
                .and_then(|reply| reply.shown.as_ref());
            let is_final = quiet.is_none_or(|quiet| quiet < read.called);
            let (Verb::Read, Some(shown), true) = (&read.operation.verb, shown, is_final) else {
                continue;
            };
            has_final = true;
            if let Err((text, other)) = judge(operations, shown, rules) {
                let places = other.into_iter().chain([at]).map(|at| places[at]);
                let violation = Violation::new("kept", format!("{key}: {text}"));
                return Err(violation.operations(&log.operations, places).into());
            }
        }
        match has_final {
            true => kept.objects += 1,
            false => kept.unread += 1,
        }
    }
    Ok(kept)
}

/// What is wrong, and the operation that says so.
type Wrong = (String, Option<usize>);

fn judge(operations: &[Timed<Act>], shown: &Value, rules: &Rules) -> Result<(), Wrong> {
    let verbs = || operations.iter().map(|one| &one.operation.verb);
    if verbs().any(|verb| matches!(verb, Verb::Increment(_))) {
        return counter(operations, shown, rules);
    }
    if verbs().any(|verb| matches!(verb, Verb::Add(_) | Verb::Remove(_))) {
        return set(operations, shown, rules);
    }
    if verbs().any(|verb| matches!(verb, Verb::Push(_) | Verb::Pop)) {
        return Ok(());
    }
    register(operations, shown, rules)
}

fn register(operations: &[Timed<Act>], shown: &Value, rules: &Rules) -> Result<(), Wrong> {
    let writes = || {
        operations.iter().enumerate().filter_map(|(at, one)| {
            let is_unmet = one
                .operation
                .reply
                .as_ref()
                .is_some_and(|reply| reply.is_unmet);
            match &one.operation.verb {
                Verb::Write(to) | Verb::Swap { to, .. } if !is_unmet => Some((at, one, to)),
                _ => None,
            }
        })
    };
    let shown_write = writes().find(|(_, _, to)| *to == shown);
    if *shown != Value::None && shown_write.is_none() && rules.has(Rule::Invented) {
        return Err((format!("{shown} is shown, which was never written"), None));
    }
    let returned = match &shown_write {
        None if *shown != Value::None => return Ok(()),
        None => None,
        Some((_, write, _)) => Some(write.returned.unwrap_or(Moment::END)),
    };
    let follows = |write: &Timed<Act>| {
        write.is_required() && returned.is_none_or(|returned| returned < write.called)
    };
    match writes().find(|(_, write, _)| follows(write)) {
        Some((at, _, lost)) if rules.has(Rule::Kept) => Err((
            format!("{lost} was acknowledged and is lost: {shown} is shown"),
            Some(at),
        )),
        _ => Ok(()),
    }
}

fn set(operations: &[Timed<Act>], shown: &Value, rules: &Rules) -> Result<(), Wrong> {
    let shown: &[Value] = match shown {
        Value::List(elements) => elements,
        _ => &[],
    };
    let numbered = || operations.iter().enumerate();
    let is_of = |one: &Timed<Act>, verb: Verb| one.operation.verb == verb;
    // Whether another change of the element may have come after this one.
    let is_undone = |change: &Timed<Act>, by: &Verb| {
        let may_follow = |other: &&Timed<Act>| {
            other.operation.verb == *by && change.called <= other.returned.unwrap_or(Moment::END)
        };
        operations.iter().any(|other| may_follow(&other))
    };
    for (at, change) in numbered() {
        match &change.operation.verb {
            Verb::Add(element)
                if change.is_required()
                    && !shown.contains(element)
                    && !is_undone(change, &Verb::Remove(element.clone()))
                    && rules.has(Rule::Kept) =>
            {
                return Err((format!("{element} was added and is lost"), Some(at)));
            }
            Verb::Remove(element)
                if change.is_required()
                    && shown.contains(element)
                    && !is_undone(change, &Verb::Add(element.clone()))
                    && rules.has(Rule::Removed) =>
            {
                return Err((format!("{element} was removed and is shown"), Some(at)));
            }
            _ => {}
        }
    }
    for element in shown {
        let is_asked = numbered().any(|(_, one)| is_of(one, Verb::Add(element.clone())));
        if !is_asked && rules.has(Rule::Invented) {
            return Err((format!("{element} is shown, which was never added"), None));
        }
    }
    Ok(())
}

fn counter(operations: &[Timed<Act>], shown: &Value, rules: &Rules) -> Result<(), Wrong> {
    let (mut low, mut high) = (0_i64, 0_i64);
    for one in operations {
        if let Verb::Increment(by) = one.operation.verb {
            let is_sure = one.is_required();
            low += if is_sure { by } else { by.min(0) };
            high += if is_sure { by } else { by.max(0) };
        }
    }
    let count = match shown {
        Value::Number(count) => *count,
        Value::None => 0,
        other => return Err((format!("the counter shows {other}"), None)),
    };
    let is_low = count < low && rules.has(Rule::CounterLow);
    let is_high = high < count && rules.has(Rule::CounterHigh);
    match is_low || is_high {
        true => Err((
            format!("the counter shows {count}, not {low} to {high}"),
            None,
        )),
        false => Ok(()),
    }
}
