//! What is read on a committed view: the messages of a receive, attributes of queues, and peeks.

use fader_chain::ViewError;

use crate::View;
use crate::service::Context;
use crate::sqs::checksum;
use crate::sqs::command::{Attribute, GetQueueAttributes, List, Pairs, PeekMessages, Request};
use crate::sqs::error::Error;
use crate::sqs::grants;
use crate::sqs::handle;
use crate::sqs::layout::{self, Index, Spot};
use crate::sqs::limits::Limits;
use crate::sqs::message::{Body, Place, Row as _, State};
use crate::sqs::queue::{Queue, Terms};
use crate::sqs::queues::{open_token, page, page_size};
use crate::sqs::reply::{Message, Peeked, Received, Reply, Selection};

/// Scheduled messages that are counted one by one, where some of them can be received already.
const COUNTED_MAX: usize = 10_000;

/// Messages that a peek passes at most. Those that are over are left out until they are purged, and
/// so are those on their way to another chain. Behind so many of them the next peek goes on.
const PEEKED_MAX: usize = 256;

/// The messages of a receive, read when its entry is committed. One that was deleted in between is
/// left out.
///
/// # Errors
/// [`ViewError`] when the store cannot be read.
pub(crate) fn complete(view: &dyn View, received: &Received) -> Result<Reply, ViewError> {
    let mut messages = Vec::with_capacity(received.messages.len());
    for (held, key) in received.messages.iter().zip(received.bodies()) {
        let Some(row) = view.get(&key)? else {
            continue;
        };
        let history = [
            ("ApproximateReceiveCount", u64::from(held.receives)),
            ("ApproximateFirstReceiveTimestamp", held.first_receive_ms),
        ];
        let sequence = received.is_fifo.then_some(held.number);
        let message = message(Body::decode(row)?, &received.selection, &history, sequence);
        messages.push(Message {
            handle: handle::show(&held.handle),
            ..message
        });
    }
    sum_bodies(&mut messages);
    Ok(Reply::Messages(messages))
}

/// Computes the MD5s of the bodies.
fn sum_bodies(messages: &mut [Message]) {
    let sums = checksum::of_bodies(messages.iter().map(|message| &*message.body));
    for (message, sum) in messages.iter_mut().zip(sums) {
        message.md5_of_body = sum;
    }
}

/// A sequence number as it is shown: of twenty digits.
pub fn show_sequence(number: u64) -> String {
    format!("{number:020}")
}

/// A message without its handle, and without the MD5 of its body.
fn message(
    body: Body,
    selection: &Selection,
    history: &[(&str, u64)],
    sequence: Option<u64>,
) -> Message {
    let names = &selection.system_names;
    let mut system = Pairs::new();
    let mut show = |name: &str, value: &dyn Fn() -> Option<String>| {
        if names.iter().any(|it| it == "All" || it == name) {
            system.extend(value().map(|value| (name.to_owned(), value)));
        }
    };
    show("SenderId", &|| Some(body.sender.clone()));
    show("SentTimestamp", &|| Some(body.sent_ms.to_string()));
    for (name, count) in history {
        show(name, &|| Some(count.to_string()));
    }
    show("SequenceNumber", &|| sequence.map(show_sequence));
    show("MessageDeduplicationId", &|| body.deduplication_id.clone());
    show("MessageGroupId", &|| body.group.clone());
    show("AWSTraceHeader", &|| body.trace_header.clone());
    show("DeadLetterQueueSourceArn", &|| body.source_arn.clone());
    let mut attributes = body.attributes;
    attributes.retain(|attribute| is_selected(attribute, &selection.attribute_names));
    Message {
        id: body.id,
        handle: String::new(),
        md5_of_body: 0,
        body: body.text,
        system,
        md5_of_attributes: checksum::of_attributes(&attributes),
        attributes,
    }
}

/// Whether a list of names, prefixes with `*` and `All` has an attribute. A dot before `*` counts
/// for nothing.
fn is_selected(attribute: &Attribute, names: &[String]) -> bool {
    names.iter().any(|name| match name.strip_suffix('*') {
        Some(prefix) => {
            let prefix = prefix.strip_suffix('.').unwrap_or(prefix);
            attribute.name.starts_with(prefix)
        }
        None => name == "All" || *name == attribute.name,
    })
}

/// Names of counts, which are computed.
const COUNTS: [&str; 5] = [
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
    "CreatedTimestamp",
    "LastModifiedTimestamp",
];

/// Attributes of a queue.
pub(crate) fn attributes(
    view: &dyn View,
    context: &Context<'_, Limits>,
    request: &Request,
    command: &GetQueueAttributes,
) -> Result<Reply, Error> {
    let mut queue = Queue::of(view, context)?;
    grants::check(&queue.settings, request, Terms::new(view, context))?;
    let is_all = command.names.iter().any(|name| name == "All");
    for name in command.names.iter().filter(|name| *name != "All") {
        if !COUNTS.contains(&name.as_str()) {
            // Of a FIFO queue's own attributes a standard queue has none.
            queue.settings.show(name)?;
        }
    }
    let is_asked = |name: &str| is_all || command.names.iter().any(|it| it == name);
    let mut shown = Pairs::new();
    if COUNTS.iter().any(|name| is_asked(name)) {
        let counts = count(&mut queue)?;
        let settings = &queue.settings;
        let values = [
            counts.visible,
            counts.in_flight,
            counts.delayed,
            settings.created_ms / 1000,
            settings.modified_ms / 1000,
        ];
        for (name, value) in COUNTS.iter().zip(values).filter(|(name, _)| is_asked(name)) {
            shown.push(((*name).to_owned(), value.to_string()));
        }
    }
    let set = queue.settings.show_all();
    shown.extend(set.into_iter().filter(|(name, _)| is_asked(name)));
    Ok(Reply::Pairs(shown))
}

/// How many messages there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) visible: u64,
    pub(crate) in_flight: u64,
    pub(crate) delayed: u64,
}

/// Counts, with messages whose deadline has passed among the visible ones.
pub(crate) fn count(queue: &mut Queue<'_>) -> Result<Counts, ViewError> {
    let counters = &queue.counters;
    let mut counts = Counts {
        visible: counters.ready,
        in_flight: counters.in_flight,
        delayed: counters.delayed,
    };
    let due = queue.front(Index::Scheduled, Spot::MIN, COUNTED_MAX)?;
    for (spot, _) in due
        .rows
        .iter()
        .take_while(|(spot, _)| spot.at <= queue.now_ms)
    {
        match queue.state(spot.number)?.map(|state| state.place) {
            Some(Place::InFlight { .. }) => counts.in_flight -= 1,
            Some(Place::Delayed(_)) => counts.delayed -= 1,
            _ => continue,
        }
        counts.visible += 1;
    }
    Ok(counts)
}

/// Shows messages and receives none: in order of number, those that are over left out.
pub(crate) fn peek(
    view: &dyn View,
    context: &Context<'_, Limits>,
    request: &Request,
    command: &PeekMessages,
) -> Result<Reply, Error> {
    let queue = Queue::of(view, context)?;
    grants::check(&queue.settings, request, Terms::new(view, context))?;
    let most = context.limits.receive_messages;
    let count = command.max_messages.unwrap_or(most as i64);
    let count = usize::try_from(count).unwrap_or(0).clamp(1, most);
    let first = queue.counters.first.max(command.after.saturating_add(1));
    let range = queue.keys().states_from(first);
    let selection = Selection {
        system_names: vec!["All".to_owned()],
        attribute_names: vec!["All".to_owned()],
    };
    let (mut messages, mut after) = (Vec::new(), command.after);
    let rows = queue.scan(&range, PEEKED_MAX)?;
    let is_cut = rows.len() == PEEKED_MAX;
    let last = rows.last().map(|(key, _)| layout::number_of(key));
    let last = last.transpose()?.filter(|_| is_cut);
    for (key, row) in rows {
        if messages.len() == count {
            break;
        }
        let (number, state) = (layout::number_of(&key)?, State::decode(row)?);
        // A message on its way to another chain is shown there.
        if queue.is_over(&state) || matches!(state.place, Place::Moving(_)) {
            continue;
        }
        let Some(body) = queue.body(number)? else {
            continue;
        };
        let history = [
            ("ApproximateReceiveCount", u64::from(state.receives)),
            ("ApproximateFirstReceiveTimestamp", state.first_receive_ms),
        ];
        // The number is where the next look goes on.
        messages.push(message(body, &selection, &history, Some(number)));
        after = number;
    }
    if messages.len() < count {
        after = last.unwrap_or(after);
    }
    sum_bodies(&mut messages);
    Ok(Reply::Peeked(Peeked { messages, after }))
}

/// A page of the queues that name this one as their dead-letter queue.
pub(crate) fn sources(
    view: &dyn View,
    context: &Context<'_, Limits>,
    request: &Request,
    command: &List,
) -> Result<Reply, Error> {
    let queue = Queue::of(view, context)?;
    grants::check(&queue.settings, request, Terms::new(view, context))?;
    let count = page_size(command, context.limits)?;
    let after = command.next_token.as_deref().map(open_token).transpose()?;
    let range = layout::sources_after(queue.collection, after.as_deref());
    let mut names = Vec::new();
    for (key, _) in queue.scan(&range, count + 1)? {
        names.push(layout::source_name(&key)?);
    }
    Ok(Reply::Queues(page(names, count, command)))
}
