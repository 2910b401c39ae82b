//! ReceiveMessage: a strong decision that moves deadlines and reads no content of messages, but of
//! those that it moves to a dead-letter queue.
//!
//! ```text
//! decide  picks messages, hides them until their deadline     ──▶ Reply::Received (rows by number)
//! commit  the reply's rows are read on a committed view (show.rs) ──▶ Reply::Messages
//! ```
//!
//! Invariants:
//! - QU-1 a received message is in no other receive before its deadline.
//! - QU-8 a message is not received after its retention.
//! - QU-11 at most `in_flight` messages of a queue are in flight.

use bytes::Bytes;
use fader_chain::{Change, Guard};

use crate::service::{Context, Wait};
use crate::sqs::attempts::{remember, repeated};
use crate::sqs::command::{ReceiveMessage, Request};
use crate::sqs::dead::{DeadLetters, Moved};
use crate::sqs::error::{Code, Error};
use crate::sqs::grants;
use crate::sqs::handle::Receipt;
use crate::sqs::layout::{Index, Spot};
use crate::sqs::limits::Limits;
use crate::sqs::message::{Group, Place, State};
use crate::sqs::queue::{Front, Queue, Terms};
use crate::sqs::reply::{Held, Received, Reply, Selection};
use crate::sqs::upkeep::sweep_ended;
use crate::{View, ViewError};

/// Rows of an index that one decision passes at most: messages that ended, and dead letters.
const PASSED_MAX: usize = 256;
/// Messages that a receive takes away at most because their retention is over.
const EXPIRED_MAX: usize = 16;
/// All receives of a queue wait for the same.
const ALIKE: u64 = 0;

/// What a receive asks, with the queue's defaults.
struct Asked {
    count: usize,
    visibility_ms: u64,
    until_ms: u64,
}

impl Asked {
    fn read(request: &ReceiveMessage, queue: &Queue<'_>) -> Result<Asked, Error> {
        let limits = queue.terms.limits;
        let most = limits.receive_messages as i64;
        let count = request.max_messages.unwrap_or(1);
        if !(1..=most).contains(&count) {
            let reason = format!("Must be between 1 and {most}, if provided.");
            return Err(Error::value(
                &count.to_string(),
                "MaxNumberOfMessages",
                &reason,
            ));
        }
        let within = |name, given: Option<i64>, most: u64, default| match given {
            None => Ok(default),
            Some(given) => match u64::try_from(given) {
                Ok(seconds) if seconds <= most => Ok(seconds),
                _ => {
                    let reason = format!("Must be >= 0 and <= {most}, if provided.");
                    Err(Error::value(&given.to_string(), name, &reason))
                }
            },
        };
        let settings = &queue.settings;
        let visibility_s = within(
            "VisibilityTimeout",
            request.visibility_timeout,
            limits.visibility_s,
            settings.visibility_s,
        )?;
        let wait_s = within(
            "WaitTimeSeconds",
            request.wait_seconds,
            limits.wait_s,
            settings.wait_s,
        )?;
        if let Some(attempt) = &request.attempt_id {
            super::send::check_id("ReceiveRequestAttemptId", attempt)?;
            if !settings.is_fifo() {
                let reason = "The request includes a parameter that is not valid for this queue \
                              type.";
                return Err(Error::value(attempt, "ReceiveRequestAttemptId", reason));
            }
        }
        Ok(Asked {
            count: count as usize,
            visibility_ms: visibility_s * 1000,
            until_ms: request.arrived_ms.saturating_add(wait_s * 1000),
        })
    }
}

/// What a decision to receive comes to.
type Decided = Result<Result<(Reply, Vec<Change>), Error>, Wait>;

/// Decides a receive.
pub(crate) fn decide(
    view: &dyn View,
    context: &Context<'_, Limits>,
    request: &Request,
    receive: &ReceiveMessage,
) -> Decided {
    match attempt(view, context, request, receive) {
        Ok(Picked::Nothing(wait)) => Err(wait),
        Ok(Picked::Decided(reply, changes)) => Ok(Ok((reply, changes))),
        Err(error) => Ok(Err(error)),
    }
}

enum Picked {
    Nothing(Wait),
    Decided(Reply, Vec<Change>),
}

fn attempt(
    view: &dyn View,
    context: &Context<'_, Limits>,
    request: &Request,
    receive: &ReceiveMessage,
) -> Result<Picked, Error> {
    let mut queue = Queue::of(view, context)?;
    grants::check(&queue.settings, request, Terms::new(view, context))?;
    let asked = Asked::read(receive, &queue)?;
    if queue.settings.is_fifo() {
        expire_due(&mut queue)?;
    }
    let mut dead = DeadLetters::default();
    let (messages, is_whole) = match repeated(&mut queue, asked.visibility_ms, receive)? {
        Some(messages) => (messages, true),
        None => pick(&mut queue, &mut dead, &asked)?,
    };
    // What was only found to be over is found again.
    let is_empty = messages.is_empty() && dead.is_empty() && is_whole;
    if is_empty && context.now_ms < asked.until_ms {
        return Ok(Picked::Nothing(Wait {
            until_ms: asked.until_ms,
            alike: ALIKE,
            wake_ms: next_due(&mut queue)?,
        }));
    }
    remember(&mut queue, receive, &messages);
    let collection = queue.collection;
    let received = Received {
        queue: queue.settings.name.clone(),
        collection,
        era: queue.counters.era,
        is_fifo: queue.settings.is_fifo(),
        selection: Selection {
            system_names: receive.system_names.clone(),
            attribute_names: receive.attribute_names.clone(),
        },
        messages,
        step: None,
    };
    let (step, mut changes) = dead.finish(&queue)?;
    changes.extend(queue.finish());
    let reply = Reply::Received(Box::new(Received { step, ..received }));
    Ok(Picked::Decided(reply, changes))
}

/// When the next message can be received that cannot be now. That is one that is hidden, or in a
/// FIFO queue one behind a message whose retention ends then.
fn next_due(queue: &mut Queue<'_>) -> Result<Option<u64>, ViewError> {
    let front = queue.front(Index::Scheduled, Spot::MIN, 1)?;
    let shown = front.rows.first().map(|(spot, _)| spot.at);
    let ended = queue.settings.is_fifo().then_some(queue.counters.chore_ms);
    let due = shown
        .into_iter()
        .chain(ended)
        .filter(|at| queue.now_ms < *at);
    Ok(due.min().filter(|_| queue.has(Guard::QueueWake)))
}

/// Takes messages of a FIFO queue away whose retention is over: those in flight block their groups.
/// Nothing is read before the time that is noted for it.
fn expire_due(queue: &mut Queue<'_>) -> Result<(), ViewError> {
    let due_ms = queue.counters.chore_ms;
    if due_ms != 0 && due_ms <= queue.now_ms {
        sweep_ended(queue, EXPIRED_MAX)?;
    }
    Ok(())
}

/// Picks messages, and says whether it looked at all that could be picked.
fn pick<'a>(
    queue: &mut Queue<'a>,
    dead: &mut DeadLetters<'a>,
    asked: &Asked,
) -> Result<(Vec<Held>, bool), Error> {
    let mut pick = Pick {
        visibility_ms: asked.visibility_ms,
        count: asked.count,
        passed: 0,
        is_full: false,
        held: Vec::new(),
        deadlines: Vec::new(),
    };
    match queue.settings.is_fifo() {
        true => pick.pick_groups(queue, dead)?,
        false => pick.pick_all(queue, dead)?,
    }
    if pick.is_full && pick.held.is_empty() && !queue.settings.is_fifo() {
        let message = format!(
            "The maximum number of in flight messages is reached: {}.",
            queue.terms.limits.in_flight
        );
        return Err(Error::new(Code::OverLimit, message));
    }
    for (until, group) in pick.deadlines {
        queue.insert(Index::Scheduled, until, group);
    }
    let is_whole = pick.passed < PASSED_MAX;
    Ok((pick.held, is_whole))
}

/// The picking of messages.
struct Pick {
    visibility_ms: u64,
    count: usize,
    /// Messages that were looked at.
    passed: usize,
    /// Whether a message was left because too many are in flight.
    is_full: bool,
    held: Vec<Held>,
    /// Their deadlines. They are entered last: one that is due at once is not received twice.
    deadlines: Vec<(Spot, Bytes)>,
}

impl Pick {
    fn is_done(&self) -> bool {
        self.count <= self.held.len() || PASSED_MAX <= self.passed
    }

    /// From a standard queue: what can be received since longest comes first.
    fn pick_all<'a>(
        &mut self,
        queue: &mut Queue<'a>,
        dead: &mut DeadLetters<'a>,
    ) -> Result<(), Error> {
        loop {
            let wanted = self.count - self.held.len();
            let ready = queue.front(Index::Ready, least_alive(queue), wanted)?;
            let is_due = queue.is_due();
            let mut due = Front::default();
            if is_due {
                due = queue.front(Index::Scheduled, Spot::MIN, wanted)?;
                if queue.has(Guard::QueueDelay) {
                    cut_due(&mut due, queue.now_ms);
                }
            }
            let mut order: Vec<(Spot, Index)> = Vec::new();
            match self.is_at_limit(queue) {
                true => self.is_full |= !ready.rows.is_empty(),
                false => order.extend(ready.rows.iter().map(|(spot, _)| (*spot, Index::Ready))),
            }
            order.extend(due.rows.iter().map(|(spot, _)| (*spot, Index::Scheduled)));
            order.sort_unstable_by_key(|(spot, _)| *spot);
            order.truncate(wanted);
            if order.is_empty() {
                return Ok(());
            }
            let of = |index| order.iter().filter(|(_, it)| *it == index).count();
            queue.take(Index::Ready, &ready, of(Index::Ready));
            if is_due {
                queue.take(Index::Scheduled, &due, of(Index::Scheduled));
            }
            for (spot, _) in &order {
                self.consider(queue, dead, spot.number)?;
            }
            if self.is_done() || dead.is_full() {
                return Ok(());
            }
        }
    }

    /// A message that was taken out of its index: it is received, moved, deleted, or put back.
    fn consider<'a>(
        &mut self,
        queue: &mut Queue<'a>,
        dead: &mut DeadLetters<'a>,
        number: u64,
    ) -> Result<(), Error> {
        self.passed += 1;
        let Some(state) = queue.state(number)? else {
            return Ok(());
        };
        let was_in_flight = matches!(state.place, Place::InFlight { .. });
        let before = Place::Ready(spot_of(&state, number));
        uncount(queue, &state);
        if queue.is_over(&state) {
            queue.expire(number);
            return Ok(());
        }
        match dead.move_there(queue, number, &state, spot_of(&state, number))? {
            Moved::Gone | Moved::Hidden => return Ok(()),
            Moved::Full => {}
            Moved::Not if !was_in_flight && self.is_at_limit(queue) => self.is_full = true,
            Moved::Not => return self.hold(queue, number, state),
        }
        let state = State {
            place: before,
            ..state
        };
        queue.enter(&state)?;
        queue.put_state(number, &state);
        Ok(())
    }

    fn is_at_limit(&self, queue: &Queue<'_>) -> bool {
        let limit = queue.terms.limits.in_flight;
        queue.has(Guard::QueueInFlight) && limit <= queue.counters.in_flight
    }

    /// Hides a message until its deadline.
    fn hold(&mut self, queue: &mut Queue<'_>, number: u64, state: State) -> Result<(), Error> {
        let deadline_ms = match queue.has(Guard::QueueDeadline) {
            true => queue.now_ms + self.visibility_ms,
            false => queue.now_ms,
        };
        let receives = state.receives.saturating_add(1);
        let first_receive_ms = match state.first_receive_ms {
            0 => queue.now_ms,
            first => first,
        };
        let held = State {
            place: Place::InFlight {
                until: Spot {
                    at: deadline_ms,
                    number,
                },
                since_ms: queue.now_ms,
                before: spot_of(&state, number),
            },
            receives,
            first_receive_ms,
            ..state
        };
        queue.counters.in_flight += 1;
        queue.counters.totals.received += 1;
        let until = Spot {
            at: deadline_ms,
            number,
        };
        let group = Bytes::copy_from_slice(held.group.as_bytes());
        self.deadlines.push((until, group));
        queue.put_state(number, &held);
        let receipt = Receipt {
            era: queue.counters.era,
            number,
            receive: receives,
        };
        self.held.push(Held {
            number,
            receives,
            first_receive_ms,
            handle: receipt.seal(queue.collection, queue.settings.secret),
        });
        Ok(())
    }

    /// From a FIFO queue: group by group, each in its order.
    fn pick_groups<'a>(
        &mut self,
        queue: &mut Queue<'a>,
        dead: &mut DeadLetters<'a>,
    ) -> Result<(), Error> {
        release_due(queue, self.count)?;
        while !self.is_done() && !dead.is_full() && !self.is_at_limit(queue) {
            let wanted = self.count - self.held.len();
            let front = queue.front(Index::Ready, Spot::MIN, wanted)?;
            if front.rows.is_empty() {
                release_due(queue, self.count)?;
                match queue.counters.ready_low {
                    Some(_) => continue,
                    None => return Ok(()),
                }
            }
            let mut changed: Vec<(String, Group)> = Vec::new();
            for (_, name) in &front.rows {
                if self.is_done() || dead.is_full() {
                    break;
                }
                let name = String::from_utf8_lossy(name).into_owned();
                let group = self.pick_group(queue, dead, &name)?;
                changed.push((name, group));
            }
            queue.take(Index::Ready, &front, changed.len());
            for (name, group) in changed {
                queue.place_group(&name, group)?;
            }
        }
        Ok(())
    }

    /// Takes messages of one group: the group as it is then, not yet placed.
    fn pick_group<'a>(
        &mut self,
        queue: &mut Queue<'a>,
        dead: &mut DeadLetters<'a>,
        name: &str,
    ) -> Result<Group, Error> {
        let mut group = queue.group(name)?;
        group.ready = None;
        let Some(head) = group.head else {
            return Ok(group);
        };
        let wanted = self.count - self.held.len() + 1;
        let waiting = queue.waiting_after(name, head.number, wanted)?;
        group.head = None;
        // A message on its way may come back: those behind it wait.
        let mut is_blocked = false;
        for spot in &waiting {
            let is_enough = self.is_done() || dead.is_full() || self.is_at_limit(queue);
            if is_enough || is_blocked || queue.now_ms < spot.at {
                group.head = Some(*spot);
                return Ok(group);
            }
            let moved = self.of_group(queue, dead, name, *spot)?;
            match moved {
                Moved::Gone => {}
                Moved::Hidden | Moved::Not => group.held += 1,
                Moved::Full => group.head = Some(*spot),
            }
            is_blocked = moved == Moved::Hidden;
        }
        if waiting.len() == wanted && group.head.is_none() {
            group.head = queue.waiting_after(name, head.number, 1)?.first().copied();
        }
        Ok(group)
    }

    /// A message that waits in its group: it is received, moved, deleted, or left.
    fn of_group<'a>(
        &mut self,
        queue: &mut Queue<'a>,
        dead: &mut DeadLetters<'a>,
        name: &str,
        spot: Spot,
    ) -> Result<Moved, Error> {
        self.passed += 1;
        let key = queue.keys().waiting(name, Spot { at: 0, ..spot });
        let Some(state) = queue.state(spot.number)? else {
            queue.remove(key);
            return Ok(Moved::Gone);
        };
        if queue.is_over(&state) {
            uncount(queue, &state);
            queue.expire(spot.number);
            queue.remove(key);
            return Ok(Moved::Gone);
        }
        let moved = dead.move_there(queue, spot.number, &state, spot)?;
        if moved != Moved::Full {
            uncount(queue, &state);
            queue.remove(key);
        }
        if moved == Moved::Not {
            self.hold(queue, spot.number, state)?;
        }
        Ok(moved)
    }
}

/// Messages of a FIFO queue whose deadline has passed go back to their places.
fn release_due(queue: &mut Queue<'_>, count: usize) -> Result<(), Error> {
    let mut released = 0;
    while released < PASSED_MAX {
        let mut due = queue.front(Index::Scheduled, Spot::MIN, count)?;
        cut_due(&mut due, queue.now_ms);
        if due.rows.is_empty() {
            return Ok(());
        }
        queue.take(Index::Scheduled, &due, due.rows.len());
        for (spot, _) in &due.rows {
            released += 1;
            let Some(state) = queue.state(spot.number)? else {
                continue;
            };
            uncount(queue, &state);
            if matches!(state.place, Place::InFlight { .. }) {
                queue.hold_group(&state.group, -1)?;
            } else {
                // It waited in its group all the time: it is entered again.
                queue.leave_group(&state.group, *spot)?;
            }
            let place = Place::Ready(spot_of(&state, spot.number));
            let state = State { place, ..state };
            queue.enter(&state)?;
            queue.put_state(spot.number, &state);
        }
        if queue.counters.ready_low.is_some() {
            return Ok(());
        }
    }
    Ok(())
}

/// Where a message stands among those that can be received: since when it can be.
fn spot_of(state: &State, number: u64) -> Spot {
    match state.place {
        Place::Ready(spot) | Place::Delayed(spot) | Place::Moving(spot) => spot,
        Place::InFlight { until, before, .. } => match state.group.is_empty() {
            true => Spot { number, ..until },
            false => before,
        },
    }
}

/// No ready message before it is alive: one is ready at its send or later.
fn least_alive(queue: &Queue<'_>) -> Spot {
    let before_ms = queue.now_ms.saturating_sub(queue.settings.retention_ms());
    match queue.has(Guard::QueueExpiry) {
        true => Spot {
            at: before_ms,
            number: 0,
        },
        false => Spot::MIN,
    }
}

/// Leaves those of a front whose time has come.
fn cut_due(front: &mut Front, now_ms: u64) {
    let count = front.rows.partition_point(|(spot, _)| spot.at <= now_ms);
    if let Some((spot, _)) = front.rows.get(count) {
        front.next = Some(*spot);
    }
    front.rows.truncate(count);
}

/// A message is not where it was counted.
fn uncount(queue: &mut Queue<'_>, state: &State) {
    match state.place {
        Place::Ready(_) => queue.counters.ready -= 1,
        Place::Delayed(_) => queue.counters.delayed -= 1,
        Place::InFlight { .. } => queue.counters.in_flight -= 1,
        Place::Moving(_) => {}
    }
}
