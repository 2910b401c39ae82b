//! The promises of queues, domains and objects, as functions of a finished run.
//!
//! | check | what it shows |
//! |---|---|
//! | [`lost`] | an acknowledged message is received until a remove of it was asked for |
//! | [`removed`] | a message is not received after its acknowledged remove |
//! | [`held`] | a message has one holder per visibility time |
//! | [`linear`] | conditional writes and strong reads have an order (Wing and Gong) |
//! | [`fresh`] | an eventual read is no older than its law |
//! | [`whole`] | a batch is seen as a whole |
//!
//! Those of logs are in [`super::slots`].

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::history::{Access, Deed, Failure, History};
use super::slots::{followed, slots};
use fader_history::check::{every_level, search};
use fader_history::object::{self, Reply, Value, Verb};
use fader_history::{Clock, Header, Moment, Outcome, Rules};

/// States that one search visits at most.
const EFFORT: usize = 200_000;

/// How often each promise was put to the test.
pub(super) type Claims = BTreeMap<&'static str, usize>;

/// What may be asked of the queues of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Promise {
    /// Answers take no time: a receive has happened when it is answered, not when it was invoked.
    pub(super) answers_at_once: bool,
    /// No send was repeated under other ids, unless its outcome says that it may have been. Queues
    /// in a bucket repeat a put without an answer.
    pub(super) ids_are_final: bool,
}

/// All checks.
pub(super) fn all(
    history: &History,
    staleness: Duration,
    promise: Promise,
) -> Result<Claims, Failure> {
    let mut claims = Claims::new();
    claims.insert("lost", lost(history)?);
    claims.insert("removed", removed(history, promise)?);
    claims.insert("held", held(history)?);
    claims.insert("linear", linear(history)?);
    claims.insert("fresh", fresh(history, staleness)?);
    claims.insert("whole", whole(history)?);
    claims.insert("slots", slots(history)?);
    claims.insert("followed", followed(history, staleness)?);
    Ok(claims)
}

fn seconds(time: Duration) -> String {
    format!("{:.3} s", time.as_secs_f64())
}

/// No acknowledged message is lost. The run has drained the queue.
fn lost(history: &History) -> Result<usize, Failure> {
    let received: BTreeSet<&str> = history
        .deliveries
        .iter()
        .map(|one| one.id.as_str())
        .collect();
    let mut claims = 0;
    for send in &history.sends {
        let Some(Ok(each)) = &send.outcome else {
            continue;
        };
        for (body, id) in send.bodies.iter().zip(each) {
            let Ok(id) = id else { continue };
            claims += 1;
            if !received.contains(id.as_str()) {
                return Err(Failure {
                    guarantee: "lost",
                    text: format!(
                        "message {id} ({body:?}), sent at {} and acknowledged, was never received",
                        seconds(send.span.invoked)
                    ),
                });
            }
        }
    }
    Ok(claims)
}

/// No message is received after its acknowledged remove: not under its id, nor under another one
/// unless its send was ambiguous.
fn removed(history: &History, promise: Promise) -> Result<usize, Failure> {
    let mut gone: BTreeMap<&str, Duration> = BTreeMap::new();
    for remove in history.removes.iter().filter(|remove| remove.succeeded) {
        let Some(ended) = remove.span.ended else {
            continue;
        };
        for name in [&remove.id, &remove.body] {
            let at = gone.entry(name).or_insert(ended);
            *at = ended.min(*at);
        }
    }
    let is_clear = |outcome: &Option<Result<Vec<_>, _>>| match outcome {
        Some(Ok(each)) => each.iter().all(Result::is_ok),
        _ => false,
    };
    let is_clear = |outcome| promise.ids_are_final && is_clear(outcome);
    let ambiguous = history.sends.iter().filter(|send| !is_clear(&send.outcome));
    for body in ambiguous.flat_map(|send| &send.bodies) {
        gone.remove(body.as_str());
    }
    for delivery in &history.deliveries {
        let names = [&delivery.id, &delivery.body];
        let removed = names.into_iter().filter_map(|name| gone.get(name.as_str()));
        let received = match promise.answers_at_once {
            true => delivery.answered,
            false => delivery.invoked,
        };
        let Some(removed) = removed.min().filter(|removed| **removed < received) else {
            continue;
        };
        return Err(Failure {
            guarantee: "removed",
            text: format!(
                "message {} ({:?}), removed by {}, was received at {}",
                delivery.id,
                delivery.body,
                seconds(*removed),
                seconds(delivery.answered)
            ),
        });
    }
    Ok(gone.len())
}

/// When a holder's time ends at the earliest that it may count on.
fn held_until(history: &History, at: usize) -> Duration {
    let delivery = &history.deliveries[at];
    let own = history.hides.iter();
    let own = own.filter(|hide| hide.by == delivery.by && hide.id == delivery.id);
    own.fold(delivery.invoked + delivery.visibility, |until, hide| {
        let hidden = hide.span.invoked + hide.time;
        match hide.succeeded {
            true => hidden,
            // It may have shown the message.
            false => until.min(hide.span.invoked),
        }
    })
}

/// A message has one holder per visibility time.
fn held(history: &History) -> Result<usize, Failure> {
    let mut by_message: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, delivery) in history.deliveries.iter().enumerate() {
        by_message.entry(&delivery.id).or_default().push(at);
    }
    let mut claims = 0;
    for holders in by_message.values() {
        for (nth, one) in holders.iter().enumerate() {
            for other in &holders[nth + 1..] {
                claims += 1;
                overlap(history, *one, *other)?;
            }
        }
    }
    Ok(claims)
}

fn overlap(history: &History, one: usize, other: usize) -> Result<(), Failure> {
    let (first, second) = (&history.deliveries[one], &history.deliveries[other]);
    // A remove ends a hold, too: the message may come back where the remove had no effect.
    let until = |at: usize| {
        let delivery = &history.deliveries[at];
        let removes = history.removes.iter();
        let own = removes.filter(|remove| remove.id == delivery.id);
        let removed = own.map(|remove| remove.span.invoked).min();
        let until = held_until(history, at);
        removed.map_or(until, |removed| until.min(removed))
    };
    let (first_until, second_until) = (until(one), until(other));
    let begin = first.answered.max(second.answered);
    if begin < first_until.min(second_until) {
        return Err(Failure {
            guarantee: "held",
            text: format!(
                "message {} ({:?}) has two holders at {}: process {} until {} and process {} \
                 until {}",
                first.id,
                first.body,
                seconds(begin),
                first.by.0,
                seconds(first_until),
                second.by.0,
                seconds(second_until),
            ),
        });
    }
    Ok(())
}

fn moment(time: Duration, step: u64) -> Moment {
    Moment {
        nanos: time.as_nanos() as u64,
        step,
    }
}

/// Conditional writes and strong reads of each register have an order that explains all answers.
fn linear(history: &History) -> Result<usize, Failure> {
    let log = object::Log {
        header: Header {
            clock: Clock::Virtual,
            ..Header::default()
        },
        operations: history.accesses.iter().filter_map(operation).collect(),
    };
    let searched = search(&log, &every_level, EFFORT, &Rules::default());
    searched
        .map(|searched| searched.ordered)
        .map_err(|fault| Failure {
            guarantee: "linear",
            text: fault.to_string(),
        })
}

/// A call as the search takes it. Two calls overlap where one ends at the very moment the other
/// begins.
fn operation(access: &Access) -> Option<object::Operation> {
    let value = |value: &Option<String>| match value {
        Some(text) => Value::from(text.as_str()),
        None => Value::None,
    };
    let (verb, reply) = match &access.deed {
        Deed::Eventual(_) => return None,
        Deed::Read(shown) => (Verb::Read, Some(Reply::shows(value(shown)))),
        Deed::Write {
            expected,
            value: to,
            held,
        } => {
            let verb = Verb::Swap {
                from: value(expected),
                to: Value::from(to.as_str()),
            };
            let reply = held.map(|held| match held {
                true => Reply::default(),
                false => Reply::unmet(),
            });
            (verb, reply)
        }
    };
    let called = moment(access.span.invoked, 0);
    let ended = access.span.ended.map(|ended| moment(ended, 1));
    Some(object::Operation {
        end: ended.zip(reply.map(Outcome::Done)),
        ..strong_call(&access.register, verb, called)
    })
}

/// A strong call on a register that has no answer yet.
pub(crate) fn strong_call(register: &str, verb: Verb, called: Moment) -> object::Operation {
    object::Operation {
        process: 0,
        session: None,
        endpoint: "the cloud".into(),
        name: None,
        attempt: 1,
        level: "strong".into(),
        intended: called,
        called,
        action: object::Request {
            key: register.into(),
            verb,
        },
        end: None,
        price: None,
    }
}

/// An eventual read shows no value that was overwritten, by an acknowledged write, longer ago than
/// the law says.
fn fresh(history: &History, staleness: Duration) -> Result<usize, Failure> {
    let mut overwritten: BTreeMap<(&str, Option<&str>), Duration> = BTreeMap::new();
    for access in &history.accesses {
        let Deed::Write {
            expected,
            held: Some(true),
            ..
        } = &access.deed
        else {
            continue;
        };
        if let Some(ended) = access.span.ended {
            overwritten.insert((&access.register, expected.as_deref()), ended);
        }
    }
    let mut claims = 0;
    for access in &history.accesses {
        let (Deed::Eventual(value), Some(_)) = (&access.deed, access.span.ended) else {
            continue;
        };
        claims += 1;
        let Some(gone) = overwritten.get(&(access.register.as_str(), value.as_deref())) else {
            continue;
        };
        if *gone + staleness < access.span.invoked {
            return Err(Failure {
                guarantee: "fresh",
                text: format!(
                    "{} showed {value:?} at {}, which was overwritten by {}",
                    access.register,
                    seconds(access.span.invoked),
                    seconds(*gone),
                ),
            });
        }
    }
    Ok(claims)
}

/// All items of a batch have one tag.
fn whole(history: &History) -> Result<usize, Failure> {
    for seen in &history.batches {
        if seen.tags.windows(2).any(|two| two[0] != two[1]) {
            return Err(Failure {
                guarantee: "whole",
                text: format!("at {} a batch was {:?}", seconds(seen.answered), seen.tags),
            });
        }
    }
    Ok(history.batches.len())
}

#[cfg(test)]
mod tests;
