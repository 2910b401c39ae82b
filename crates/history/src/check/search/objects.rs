//! The model of objects: compare-and-set registers, sets, counters and queues.

use std::collections::BTreeMap;

use super::{Model, Timed};
use crate::check::Levels;
use crate::object::{Reply, Request, Text, Value, Verb};
use crate::{Log, Operation, Outcome, Rule, Rules};

/// The operations on one object. Its state is a [`Value`]: of a set and a queue a list, of a
/// counter a number.
#[derive(Clone, Debug)]
pub struct Objects {
    /// The operations, an operation for all attempts of a request.
    pub operations: Vec<Timed<Act>>,
    initial: Value,
    is_register: bool,
    rules: Rules,
}

/// A request to an object and its answer, if it has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Act {
    /// What was asked.
    pub verb: Verb,
    /// What was told.
    pub reply: Option<Reply>,
}

/// The objects of a log, and the place in the log of each of their operations.
pub(in crate::check) fn of_log(
    log: &Log<Request>,
    levels: Levels<'_, Request>,
    rules: &Rules,
) -> BTreeMap<Text, (Objects, Vec<usize>)> {
    let mut objects: BTreeMap<Text, (Objects, Vec<usize>)> = BTreeMap::new();
    let mut named: BTreeMap<(Text, Text), usize> = BTreeMap::new();
    for (at, operation) in log.operations.iter().enumerate() {
        let key = &operation.action.key;
        let (object, places) = objects.entry(key.clone()).or_insert_with(|| {
            let none = Objects::new(Vec::new(), rules.clone());
            (none, Vec::new())
        });
        let Some(timed) = timed(operation, levels(&operation.level), rules) else {
            continue;
        };
        let name = operation
            .name
            .as_ref()
            .filter(|_| rules.has(Rule::AttemptsJoined));
        let place = object.operations.len();
        let first = name.map(|name| *named.entry((key.clone(), name.clone())).or_insert(place));
        match first.filter(|first| *first < place) {
            Some(first) => join(&mut object.operations[first], timed),
            None => {
                object.operations.push(timed);
                places.push(at);
            }
        }
    }
    for (object, _) in objects.values_mut() {
        *object = Objects::new(std::mem::take(&mut object.operations), rules.clone());
    }
    objects
}

/// An operation as the search takes it; none if it says nothing.
fn timed(operation: &Operation<Request>, is_judged: bool, rules: &Rules) -> Option<Timed<Act>> {
    let is_judged = is_judged || !rules.has(Rule::OtherLevels);
    let verb = operation.action.verb.clone();
    let (returned, reply) = match &operation.end {
        Some((at, Outcome::Done(reply))) if is_judged => (Some(*at), Some(reply.clone())),
        Some((_, Outcome::Refused(_))) if rules.has(Rule::RefusedNever) => return None,
        _ if verb == Verb::Read => return None,
        Some((at, Outcome::Unknown)) if !rules.has(Rule::UnknownMayNot) => (Some(*at), None),
        _ => (None, None),
    };
    Some(Timed {
        called: operation.called,
        returned,
        operation: Act { verb, reply },
    })
}

/// Another attempt of the same request: it acts once, between the first call and the first answer.
fn join(first: &mut Timed<Act>, attempt: Timed<Act>) {
    first.called = first.called.min(attempt.called);
    let is_first = |at| first.returned.is_none_or(|known| at < known);
    if attempt.returned.is_some_and(is_first) {
        first.returned = attempt.returned;
        first.operation = attempt.operation;
    }
}

impl Objects {
    /// One object, of the kind that its operations are of.
    pub fn new(operations: Vec<Timed<Act>>, rules: Rules) -> Self {
        let verbs = || operations.iter().map(|one| &one.operation.verb);
        let is_count = verbs().any(|verb| matches!(verb, Verb::Increment(_)));
        let is_list = verbs().any(|verb| {
            matches!(
                verb,
                Verb::Add(_) | Verb::Remove(_) | Verb::Push(_) | Verb::Pop
            )
        });
        Objects {
            initial: match (is_count, is_list) {
                (true, _) => Value::Number(0),
                (_, true) => Value::List(Vec::new()),
                _ => Value::None,
            },
            is_register: !is_count && !is_list,
            operations,
            rules,
        }
    }

    /// Whether what is left has an order if all have one: so a part that has none shows that all
    /// have none. True of reads, and of a register's writes that no answer speaks of.
    pub(super) fn may_drop(&self, at: usize) -> bool {
        let act = &self.operations[at].operation;
        if self.is_read(act) {
            return true;
        }
        let Verb::Write(written) = &act.verb else {
            return false;
        };
        let is_seen = |other: &Timed<Act>| match (&other.operation.verb, &other.operation.reply) {
            (Verb::Read, Some(reply)) => reply.shown.as_ref() == Some(written),
            (Verb::Swap { from, .. }, reply) => {
                from == written || reply.as_ref().is_none_or(|reply| reply.is_unmet)
            }
            _ => false,
        };
        self.is_register && !self.operations.iter().any(is_seen)
    }
}

impl Model for Objects {
    type State = Value;
    type Operation = Act;

    fn initial(&self) -> Value {
        self.initial.clone()
    }

    fn after(&self, state: &Value, act: &Act) -> Vec<Value> {
        let shown = act.reply.as_ref().and_then(|reply| reply.shown.as_ref());
        let is_unmet = act.reply.as_ref().is_some_and(|reply| reply.is_unmet);
        let next = match &act.verb {
            Verb::Read => is_shown(state, shown).then(|| state.clone()),
            Verb::Write(value) => Some(value.clone()),
            Verb::Swap { from, .. } if is_unmet => {
                let is_other = state != from || !self.rules.has(Rule::FailedSwap);
                is_other.then(|| state.clone())
            }
            Verb::Swap { from, to } => {
                let is_met = state == from || !self.rules.has(Rule::DoneSwap);
                is_met.then(|| to.clone())
            }
            Verb::Add(_) | Verb::Remove(_) => changed(state, &act.verb),
            Verb::Increment(by) => match state {
                Value::Number(count) => count.checked_add(*by).map(Value::Number),
                _ => None,
            }
            .filter(|sum| shown.is_none() || is_shown(sum, shown)),
            Verb::Push(value) => match state {
                Value::List(values) => {
                    let values = values.iter().chain([value]).cloned();
                    Some(Value::List(values.collect()))
                }
                _ => None,
            },
            Verb::Pop => return self.popped(state, shown),
        };
        next.into_iter().collect()
    }

    fn is_read(&self, act: &Act) -> bool {
        match (&act.verb, &act.reply) {
            (Verb::Read, _) => true,
            (Verb::Swap { .. }, Some(reply)) => reply.is_unmet,
            _ => false,
        }
    }

    /// Of a register: no other answer sees what it holds before the first answer that an unanswered
    /// operation explains. So it may as well act just before that one.
    fn may_wait(&self, _act: &Act) -> bool {
        self.is_register
    }
}

impl Objects {
    fn popped(&self, state: &Value, shown: Option<&Value>) -> Vec<Value> {
        let Value::List(values) = state else {
            return Vec::new();
        };
        if values.is_empty() {
            let is_right = shown.is_none_or(|shown| *shown == Value::None);
            return if is_right {
                vec![state.clone()]
            } else {
                Vec::new()
            };
        }
        let without = |at: usize| {
            let mut left = values.clone();
            left.remove(at);
            Value::List(left)
        };
        let reach = if self.rules.has(Rule::QueueOrder) {
            1
        } else {
            values.len()
        };
        let taken = values.iter().take(reach).enumerate();
        let fitting = taken.filter(|(_, value)| shown.is_none_or(|shown| shown == *value));
        fitting.map(|(at, _)| without(at)).collect()
    }
}

/// Whether a read that shows this may be of this state. An empty list may be shown as nothing; the
/// elements of a set in any order.
fn is_shown(state: &Value, shown: Option<&Value>) -> bool {
    match (state, shown) {
        (_, None) => false,
        (Value::List(values), Some(Value::None)) => values.is_empty(),
        (Value::List(values), Some(Value::List(shown))) => {
            let mut shown = shown.clone();
            shown.sort_unstable();
            let mut values = values.clone();
            values.sort_unstable();
            values == shown
        }
        (state, Some(shown)) => state == shown,
    }
}

fn changed(state: &Value, verb: &Verb) -> Option<Value> {
    let Value::List(values) = state else {
        return None;
    };
    let mut values = values.clone();
    match verb {
        Verb::Add(value) => {
            if let Err(at) = values.binary_search(value) {
                values.insert(at, value.clone());
            }
        }
        Verb::Remove(value) => {
            if let Ok(at) = values.binary_search(value) {
                values.remove(at);
            }
        }
        _ => return None,
    }
    Some(Value::List(values))
}
