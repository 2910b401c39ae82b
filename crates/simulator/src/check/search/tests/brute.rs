//! Tiny histories, and a search for an order that tries all there are. It tries every sequence of
//! some of the operations, and every part of what eventual ones might do.

use std::collections::BTreeSet;

use bytes::Bytes;
use fader_chain::{ElementOp, EntryId, NodeId, Register, Stamp};
use proptest::prelude::*;

use crate::history::*;
use crate::service::{Answer, Service, pairs_of};

/// Register and value; there is one group.
type Pairs = BTreeSet<(Bytes, Bytes)>;

/// One call, and what becomes of it.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    call: Call,
    /// Where in its interval it acts.
    acts: u64,
    /// Which of its elements, if it is eventual.
    part: u8,
    /// Whether the client hears the truth.
    is_true: bool,
}

fn op() -> impl Strategy<Value = ElementOp> {
    let value = prop::sample::select(vec!["1", "2"]);
    (0_u8..4, value).prop_map(|(kind, value)| match kind {
        0 => ElementOp::ClearAll,
        1 => super::remove(value),
        _ => super::add(value),
    })
}

fn request() -> impl Strategy<Value = Request> {
    let key = || prop::sample::select(vec![Bytes::from("x"), Bytes::from("y")]);
    let condition = prop::sample::select(vec![
        Condition::Exists,
        Condition::Absent,
        Condition::Has {
            group: "a".into(),
            value: "1".into(),
        },
    ]);
    let write = (key(), prop::collection::vec(op(), 1..3));
    let write = write.prop_map(|(key, ops)| Write { key, ops });
    (
        prop::collection::vec((key(), condition), 0..2),
        prop::collection::vec(key(), 0..2),
        prop::collection::vec(write, 0..2),
    )
        .prop_map(|(conditions, reads, writes)| Request {
            conditions,
            reads,
            writes,
        })
}

/// One plan; about a third are eventual writes, a third reads.
pub(super) fn plan() -> impl Strategy<Value = Plan> {
    let times = (0_u64..40, 1_u64..20, 0_u64..20);
    (request(), 0_u8..6, times, any::<u8>(), 0_u8..4).prop_map(
        |(mut request, kind, (begin, length, acts), part, truth)| {
            let level = match kind {
                0 | 1 if !request.writes.is_empty() => super::eventual(1),
                _ => Level::Strong,
            };
            if level != Level::Strong || kind == 2 {
                request.conditions.clear();
                request.reads.clear();
            }
            if kind == 3 || request.keys().is_empty() {
                request = super::get("x");
            }
            let at = |micros: u64| Moment {
                nanos: micros * 1_000,
                step: micros,
            };
            let outcome = if kind == 4 {
                None
            } else {
                Some(Outcome::Unknown)
            };
            let call = Call {
                client: 1,
                session: None,
                name: None,
                borrowed: None,
                node: NodeId(1),
                invoked: at(begin),
                level,
                request,
                end: outcome.map(|outcome| (at(begin + length), outcome)),
            };
            Plan {
                call,
                acts: begin + acts.min(length),
                part,
                is_true: truth > 0,
            }
        },
    )
}

/// Runs the plans one after the other, as they act, and lets the strong ones that end have answers.
pub(super) fn run(plans: &[Plan], service: Service) -> History {
    let mut plans = plans.to_vec();
    plans.sort_by_key(|plan| plan.acts);
    let mut state = Pairs::new();
    for plan in &mut plans {
        let before = state.clone();
        if !is_strong(&plan.call) {
            let bits = flips(&plan.call, &state);
            let part = bits
                .iter()
                .enumerate()
                .filter(|(at, _)| plan.part & 1 << at != 0);
            part.for_each(|(_, pair)| flip(&mut state, pair));
            continue;
        }
        let truth = act(&plan.call.request, &mut state, service);
        let told = match plan.is_true {
            true => truth,
            false => lie(&plan.call.request, &truth, &before),
        };
        if let Some((_, outcome)) = &mut plan.call.end {
            *outcome = Outcome::Done(reply(&plan.call.request, &told));
        }
    }
    plans.sort_by_key(|plan| plan.call.invoked);
    History {
        calls: plans.into_iter().map(|plan| plan.call).collect(),
        ..History::default()
    }
}

fn lie(request: &Request, truth: &Answer, state: &Pairs) -> Answer {
    if !request.is_read() {
        return match truth {
            Answer::ConditionFailed => Answer::Done(vec![Vec::new(); request.reads.len()]),
            _ => Answer::ConditionFailed,
        };
    }
    let pair = (Bytes::from("a"), Bytes::from("2"));
    let has = state.iter().any(|(_, value)| *value == pair.1);
    let lied = if has { Vec::new() } else { vec![pair] };
    Answer::Done(vec![lied; request.reads.len()])
}

fn reply(request: &Request, answer: &Answer) -> Reply {
    let Answer::Done(registers) = answer else {
        return decided(answer);
    };
    if !request.is_read() {
        return decided(answer);
    }
    let shown = request.reads.iter().zip(registers).map(|(key, pairs)| {
        let mut register = Register::default();
        for (group, value) in pairs {
            let (group, value) = (group.clone(), value.clone());
            register.merge(&[ElementOp::Add { group, value }], Stamp::ZERO);
        }
        assert_eq!(pairs_of(&register), *pairs);
        Shown {
            key: key.clone(),
            register,
            tentative: false,
        }
    });
    Reply::Shown {
        epoch: 1,
        commit: EntryId::ZERO,
        safe_point: EntryId::ZERO,
        registers: shown.collect(),
    }
}

fn decided(answer: &Answer) -> Reply {
    Reply::Decided {
        entry: EntryId::ZERO,
        result: answer.encode(),
    }
}

fn is_strong(call: &Call) -> bool {
    call.level == Level::Strong
}

fn values(state: &Pairs, key: &Bytes) -> Vec<(Bytes, Bytes)> {
    let own = state.iter().filter(|(of, _)| of == key);
    own.map(|(_, value)| (Bytes::from("a"), value.clone()))
        .collect()
}

/// Does all of a strong request.
fn act(request: &Request, state: &mut Pairs, service: Service) -> Answer {
    let holds = request.conditions.iter().all(|(key, condition)| {
        let shown = values(state, key);
        match condition {
            Condition::Exists => !shown.is_empty(),
            Condition::Absent => shown.is_empty(),
            Condition::Has { value, .. } => shown.iter().any(|(_, one)| one == value),
            Condition::Version(_) => false,
        }
    });
    if !holds {
        return Answer::ConditionFailed;
    }
    let answer = request.reads.iter().map(|key| values(state, key)).collect();
    for write in &request.writes {
        let old = values(state, &write.key).len();
        let after = written(write, state);
        let new = values(&after, &write.key).len();
        assert!(
            new <= old || new <= service.pairs_max,
            "two values never meet the limit"
        );
        *state = after;
    }
    Answer::Done(answer)
}

fn written(write: &Write, state: &Pairs) -> Pairs {
    let mut after = state.clone();
    let adds = |pair: &(Bytes, Bytes)| {
        write.ops.iter().any(|op| match op {
            ElementOp::Add { value, .. } => *value == pair.1,
            _ => false,
        })
    };
    for op in &write.ops {
        match op {
            ElementOp::ClearAll | ElementOp::Clear { .. } => {
                after.retain(|pair| pair.0 != write.key || adds(pair));
            }
            ElementOp::Add { value, .. } => {
                after.insert((write.key.clone(), value.clone()));
            }
            ElementOp::Remove { value, .. } => {
                let pair = (write.key.clone(), value.clone());
                if !adds(&pair) {
                    after.remove(&pair);
                }
            }
        }
    }
    after
}

/// The pairs that an eventual request might change.
fn flips(call: &Call, state: &Pairs) -> Vec<(Bytes, Bytes)> {
    let write = &call.request.writes[0];
    let after = written(write, state);
    state.symmetric_difference(&after).cloned().collect()
}

fn flip(state: &mut Pairs, pair: &(Bytes, Bytes)) {
    if !state.remove(pair) {
        state.insert(pair.clone());
    }
}

/// Whether some order explains every answer.
pub(super) fn is_possible(history: &History, service: Service) -> bool {
    let left: Vec<&Call> = history.calls.iter().collect();
    order(&left, &Pairs::new(), service)
}

fn order(left: &[&Call], state: &Pairs, service: Service) -> bool {
    let is_required = |call: &Call| is_strong(call) && call.done().is_some();
    if !left.iter().any(|call| is_required(call)) {
        return true;
    }
    left.iter().enumerate().any(|(at, call)| {
        let mut rest = left.to_vec();
        rest.remove(at);
        let is_late = rest.iter().any(|other| {
            let end = other
                .done()
                .filter(|_| is_strong(other))
                .map(|(end, _)| end);
            end.is_some_and(|end| end < call.invoked)
        });
        if is_late {
            return false;
        }
        if !is_strong(call) {
            let bits = flips(call, state);
            return (0_u32..1 << bits.len()).any(|part| {
                let mut state = state.clone();
                let chosen = bits
                    .iter()
                    .enumerate()
                    .filter(|(at, _)| part & 1 << at != 0);
                chosen.for_each(|(_, pair)| flip(&mut state, pair));
                order(&rest, &state, service)
            });
        }
        let mut after = state.clone();
        let answer = act(&call.request, &mut after, service);
        let told = call.done().map(|(_, told)| told);
        told.is_none_or(|told| *told == reply(&call.request, &answer))
            && order(&rest, &after, service)
    })
}
