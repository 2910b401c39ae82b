//! The numbers of queues that are shown to those who watch a node.

use crate::figures::{Figure, Joined};
use crate::sqs::layout;
use crate::sqs::message::{Row as _, State};
use crate::sqs::queue::{Queue, Terms};
use crate::sqs::show;
use crate::{CollectionId, ViewError};

const fn figure(name: &'static str, help: &'static str, joined: Joined) -> Figure {
    Figure { name, help, joined }
}

/// What is shown of each queue.
pub(crate) const FIGURES: [Figure; 9] = [
    figure(
        "sqs_visible_messages",
        "Messages that can be received",
        Joined::Sum,
    ),
    figure(
        "sqs_in_flight_messages",
        "Messages that were received and are hidden",
        Joined::Sum,
    ),
    figure(
        "sqs_delayed_messages",
        "Messages whose delay is not over",
        Joined::Sum,
    ),
    figure(
        "sqs_oldest_message_seconds",
        "Age of the message that was sent first",
        Joined::Max,
    ),
    figure("sqs_sent_messages", "Messages sent", Joined::Total),
    figure(
        "sqs_received_messages",
        "Messages received, each as often as it was",
        Joined::Total,
    ),
    figure(
        "sqs_deleted_messages",
        "Messages deleted by their receivers",
        Joined::Total,
    ),
    figure(
        "sqs_moved_messages",
        "Messages that went to another queue",
        Joined::Total,
    ),
    figure(
        "sqs_expired_messages",
        "Messages whose retention ended",
        Joined::Total,
    ),
];

/// The numbers of the queue in this collection; none where it is not made.
///
/// # Errors
/// [`ViewError`] when the store cannot be read.
pub(crate) fn values(
    terms: Terms<'_>,
    collection: CollectionId,
) -> Result<Option<Vec<u64>>, ViewError> {
    let Some(mut queue) = Queue::open(terms, collection)? else {
        return Ok(None);
    };
    let counts = show::count(&mut queue)?;
    let is_empty = counts.visible + counts.in_flight + counts.delayed == 0;
    let oldest_s = match is_empty {
        true => 0,
        false => oldest_s(&queue)?,
    };
    let totals = queue.counters.totals;
    Ok(Some(vec![
        counts.visible,
        counts.in_flight,
        counts.delayed,
        oldest_s,
        totals.sent,
        totals.received,
        totals.deleted,
        totals.moved,
        totals.expired,
    ]))
}

fn oldest_s(queue: &Queue<'_>) -> Result<u64, ViewError> {
    let range = queue.keys().states_from(queue.counters.first);
    let Some((key, row)) = queue.scan(&range, 1)?.pop() else {
        return Ok(0);
    };
    layout::number_of(&key)?;
    let state = State::decode(row)?;
    Ok(queue.now_ms.saturating_sub(state.kept_from_ms) / 1000)
}
