//! Calls as operations of components.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use fader_chain::{ElementOp, RequestId};

use super::model::{Action, Bits, Component, Effect, Operation, PAIRS_MAX, Strong, Test, Told};
use crate::history::{Call, Condition, History, Level, Moment, Outcome, Reply, Write};
use crate::service::{Answer, Pairs, Service, pairs_of};

/// The components of a run, or how many calls one has that names too many pairs.
pub(super) fn components(history: &History, service: Service) -> Vec<Result<Component, usize>> {
    let mut groups: Vec<(BTreeSet<&Bytes>, Vec<usize>)> = Vec::new();
    for (at, call) in history.calls.iter().enumerate() {
        let keys = call.request.keys().into_iter();
        if call.is_strong() {
            join(&mut groups, keys.collect(), at);
        } else {
            keys.for_each(|key| join(&mut groups, BTreeSet::from([key]), at));
        }
    }
    let build = |(keys, calls): (BTreeSet<&Bytes>, Vec<usize>)| {
        let keys: Vec<Bytes> = keys.into_iter().cloned().collect();
        Builder::new(history, keys, &calls).build(&calls, service)
    };
    groups.into_iter().map(build).collect()
}

fn join<'a>(
    groups: &mut Vec<(BTreeSet<&'a Bytes>, Vec<usize>)>,
    keys: BTreeSet<&'a Bytes>,
    call: usize,
) {
    let mut joined = (keys, vec![call]);
    groups.retain_mut(|(known, calls)| {
        let is_apart = known.is_disjoint(&joined.0);
        if !is_apart {
            joined.0.append(known);
            joined.1.append(calls);
        }
        is_apart
    });
    joined.1.sort_unstable();
    joined.1.dedup();
    groups.push(joined);
}

struct Builder<'a> {
    history: &'a History,
    keys: Vec<Bytes>,
    names: Vec<(Bytes, Bytes, Bytes)>,
    numbers: BTreeMap<(Bytes, Bytes, Bytes), usize>,
}

impl<'a> Builder<'a> {
    /// Numbers every pair that the calls name.
    fn new(history: &'a History, keys: Vec<Bytes>, calls: &[usize]) -> Self {
        let mut builder = Builder {
            history,
            keys,
            names: Vec::new(),
            numbers: BTreeMap::new(),
        };
        for call in calls {
            builder.number(&history.calls[*call]);
        }
        builder
    }

    fn number(&mut self, call: &Call) {
        for (key, condition) in &call.request.conditions {
            if let Condition::Has { group, value } = condition {
                self.add(key, group, value);
            }
        }
        for write in &call.request.writes {
            for op in &write.ops {
                if let ElementOp::Add { group, value } | ElementOp::Remove { group, value } = op {
                    self.add(&write.key, group, value);
                }
            }
        }
        for (key, pairs) in call
            .request
            .reads
            .iter()
            .zip(shown(call).unwrap_or_default())
        {
            for (group, value) in pairs {
                self.add(key, &group, &value);
            }
        }
    }

    fn add(&mut self, key: &Bytes, group: &Bytes, value: &Bytes) {
        let name = (key.clone(), group.clone(), value.clone());
        if self.keys.contains(key) && !self.numbers.contains_key(&name) {
            self.numbers.insert(name.clone(), self.names.len());
            self.names.push(name);
        }
    }

    fn build(self, calls: &[usize], service: Service) -> Result<Component, usize> {
        if self.names.len() > PAIRS_MAX {
            return Err(calls.len());
        }
        let mut operations: Vec<Operation> = Vec::new();
        let mut known: BTreeMap<RequestId, usize> = BTreeMap::new();
        for at in calls {
            let call = &self.history.calls[*at];
            for (name, action) in self.actions(call) {
                let ended = match action {
                    Action::Strong(Strong {
                        answer: Some(_), ..
                    }) => call.done(),
                    _ => None,
                };
                let operation = Operation {
                    calls: vec![*at],
                    invoked: call.invoked,
                    ended: ended.map(|(end, _)| end),
                    action,
                };
                match name.and_then(|name| known.get(&name).copied()) {
                    Some(first) => again(&mut operations[first], operation),
                    None => {
                        known.extend(name.map(|name| (name, operations.len())));
                        operations.push(operation);
                    }
                }
            }
        }
        operations.sort_by_key(|operation| operation.invoked);
        Ok(Component {
            versioned: (0..self.keys.len())
                .map(|key| is_versioned(&operations, key))
                .collect(),
            operations,
            keys: self.keys.iter().map(|key| self.pairs_of_key(key)).collect(),
            names: self.names,
            pairs_max: service.pairs_max,
        })
    }

    /// What a call may do to this component's registers.
    fn actions(&self, call: &Call) -> Vec<(Option<RequestId>, Action)> {
        if matches!(call.end, Some((_, Outcome::Refused(_)))) {
            return Vec::new();
        }
        match call.level {
            Level::Strong | Level::Barrier => {
                let strong = self.strong(call);
                let is_idle = call.request.is_read() && strong.answer.is_none();
                let action = (!is_idle).then_some((call.name, Action::Strong(strong)));
                action.into_iter().collect()
            }
            Level::Eventual { .. } => {
                let writes = call.request.writes.iter().enumerate();
                let own = writes.filter(|(_, write)| self.keys.contains(&write.key));
                own.map(|(part, write)| (call.part(part), Action::Eventual(self.effect(write))))
                    .collect()
            }
            Level::Bounded(_) => Vec::new(),
        }
    }

    fn strong(&self, call: &Call) -> Strong {
        let conditions = call.request.conditions.iter();
        let (entry, answer) = match call.done() {
            Some((_, Reply::Decided { entry, result })) => {
                let answer = Answer::decode(result.clone()).ok();
                (Some(*entry), answer.map(|answer| self.told(call, answer)))
            }
            Some((_, Reply::Shown { .. })) => {
                let shown = shown(call).unwrap_or_default();
                (None, Some(self.told(call, Answer::Done(shown))))
            }
            _ => (None, None),
        };
        Strong {
            conditions: conditions
                .map(|(key, condition)| (self.key(key), self.test(key, condition)))
                .collect(),
            reads: call.request.reads.iter().map(|key| self.key(key)).collect(),
            writes: call
                .request
                .writes
                .iter()
                .map(|write| self.effect(write))
                .collect(),
            answer,
            entry,
        }
    }

    fn told(&self, call: &Call, answer: Answer) -> Told {
        match answer {
            Answer::Done(registers) => {
                let shown = call.request.reads.iter().zip(registers);
                let bits = shown.map(|(key, pairs)| {
                    let pairs = pairs
                        .iter()
                        .map(|(group, value)| self.pair(key, group, value));
                    pairs.fold(Bits::default(), Bits::or)
                });
                Told::Done(bits.collect())
            }
            Answer::ConditionFailed => Told::ConditionFailed,
            Answer::LimitExceeded => Told::LimitExceeded,
        }
    }

    fn test(&self, key: &Bytes, condition: &Condition) -> Test {
        match condition {
            Condition::Exists => Test::Exists,
            Condition::Absent => Test::Absent,
            Condition::Has { group, value } => Test::Has(self.pair(key, group, value)),
            Condition::Version(version) => Test::Version(*version),
        }
    }

    /// Within one write, what it puts survives what it clears.
    fn effect(&self, write: &Write) -> Effect {
        let (mut drops, mut adds) = (Bits::default(), Bits::default());
        for op in &write.ops {
            match op {
                ElementOp::ClearAll => drops = drops.or(self.pairs_of_key(&write.key)),
                ElementOp::Clear { group } => {
                    let of_group = |(key, known, _): &(Bytes, Bytes, Bytes)| {
                        *key == write.key && known == group
                    };
                    drops = drops.or(self.pairs(of_group));
                }
                ElementOp::Add { group, value } => {
                    adds = adds.or(self.pair(&write.key, group, value));
                }
                ElementOp::Remove { group, value } => {
                    drops = drops.or(self.pair(&write.key, group, value));
                }
            }
        }
        Effect {
            key: self.key(&write.key),
            drops: drops.without(adds),
            adds,
        }
    }

    fn key(&self, key: &Bytes) -> usize {
        let at = self.keys.binary_search(key);
        at.expect("a component has all registers of its calls")
    }

    fn pair(&self, key: &Bytes, group: &Bytes, value: &Bytes) -> Bits {
        let name = (key.clone(), group.clone(), value.clone());
        self.numbers
            .get(&name)
            .map_or(Bits::default(), |at| Bits::one(*at))
    }

    fn pairs_of_key(&self, key: &Bytes) -> Bits {
        self.pairs(|(known, _, _)| known == key)
    }

    fn pairs(&self, is_meant: impl Fn(&(Bytes, Bytes, Bytes)) -> bool) -> Bits {
        let names = self.names.iter().enumerate();
        let meant = names.filter(|(_, name)| is_meant(name));
        meant.fold(Bits::default(), |bits, (at, _)| bits.or(Bits::one(at)))
    }
}

fn is_versioned(operations: &[Operation], key: usize) -> bool {
    let is_asked = operations.iter().any(|operation| match &operation.action {
        Action::Strong(strong) => {
            let mut conditions = strong.conditions.iter();
            conditions.any(|(of, test)| *of == key && matches!(test, Test::Version(_)))
        }
        Action::Eventual(_) => false,
    });
    let is_eventual = operations.iter().any(|operation| match &operation.action {
        Action::Strong(_) => false,
        Action::Eventual(effect) => effect.key == key,
    });
    is_asked && !is_eventual
}

/// What a strong call showed of the registers it read.
fn shown(call: &Call) -> Option<Vec<Pairs>> {
    if !call.is_strong() {
        return None;
    }
    match call.done()?.1 {
        Reply::Shown { registers, .. } => Some(
            registers
                .iter()
                .map(|shown| pairs_of(&shown.register))
                .collect(),
        ),
        Reply::Decided { result, .. } => match Answer::decode(result.clone()) {
            Ok(Answer::Done(registers)) => Some(registers),
            _ => None,
        },
        Reply::Accepted { .. } => None,
    }
}

/// A retry: the first answer that any client heard is the operation's.
fn again(first: &mut Operation, retry: Operation) {
    let is_sooner = |end: Moment| first.ended.is_none_or(|known| end < known);
    first.calls.extend(retry.calls);
    if retry.ended.is_some_and(is_sooner) {
        first.ended = retry.ended;
        first.action = retry.action;
    }
}
