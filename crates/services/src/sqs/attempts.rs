//! Receives of FIFO queues that may be made again: the same attempt shows the same messages.

use crate::sqs::change::move_deadline;
use crate::sqs::command::ReceiveMessage;
use crate::sqs::error::Error;
use crate::sqs::handle::Receipt;
use crate::sqs::layout::{self, Recent, Spot};
use crate::sqs::message::{Attempt, Place, Row as _, State};
use crate::sqs::queue::Queue;
use crate::sqs::reply::Held;

/// The messages of the same attempt, if it was made before and none of them was changed since:
/// their deadlines begin anew.
pub(crate) fn repeated(
    queue: &mut Queue<'_>,
    visibility_ms: u64,
    receive: &ReceiveMessage,
) -> Result<Option<Vec<Held>>, Error> {
    let Some(id) = &receive.attempt_id else {
        return Ok(None);
    };
    let key = layout::recent_key(queue.collection, Recent::Attempt, "", id);
    let Some(attempt) = queue.row::<Attempt>(&key)? else {
        return Ok(None);
    };
    if attempt.end_ms <= queue.now_ms || attempt.era != queue.counters.era {
        return Ok(None);
    }
    let mut found = Vec::new();
    for (number, (receives, deadline_ms)) in &attempt.messages {
        match queue.state(*number)? {
            Some(state)
                if state.receives == *receives
                    && matches!(state.place, Place::InFlight { until, .. }
                        if until.at == *deadline_ms && queue.now_ms < until.at) =>
            {
                found.push((*number, state));
            }
            _ => return Ok(None),
        }
    }
    let mut held = Vec::new();
    for (number, state) in found {
        let until = Spot {
            at: queue.now_ms + visibility_ms,
            number,
        };
        move_deadline(queue, &state, until)?;
        let receipt = Receipt {
            era: queue.counters.era,
            number,
            receive: state.receives,
        };
        held.push(Held {
            number,
            receives: state.receives,
            first_receive_ms: state.first_receive_ms,
            handle: receipt.seal(queue.collection, queue.settings.secret),
        });
    }
    Ok(Some(held))
}

/// Remembers an attempt, so that it may be repeated.
pub(crate) fn remember(queue: &mut Queue<'_>, receive: &ReceiveMessage, messages: &[Held]) {
    let Some(id) = receive.attempt_id.as_ref().filter(|_| !messages.is_empty()) else {
        return;
    };
    let deadline = |queue: &Queue<'_>, number| match queue.state(number) {
        Ok(Some(State {
            place: Place::InFlight { until, .. },
            ..
        })) => until.at,
        _ => 0,
    };
    let numbers = messages.iter();
    let attempt = Attempt {
        end_ms: queue.now_ms + queue.terms.limits.deduplication_s * 1000,
        era: queue.counters.era,
        messages: numbers
            .map(|it| (it.number, (it.receives, deadline(queue, it.number))))
            .collect(),
    };
    let key = layout::recent_key(queue.collection, Recent::Attempt, "", id);
    let number = messages.first().map_or(0, |it| it.number);
    let (collection, end_ms) = (queue.collection, attempt.end_ms);
    let end = layout::recent_end_key(collection, Recent::Attempt, end_ms, number);
    queue.put(end, key.clone());
    queue.put(key, attempt.encode());
}
