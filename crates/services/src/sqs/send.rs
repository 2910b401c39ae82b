//! SendMessage and SendMessageBatch.
//!
//! Invariants:
//! - QU-3 within five minutes of a first send a message of the same deduplication id is not put
//!   again, though it was deleted since. Its send answers as the first one did.

use fader_chain::{Change, Guard};

use crate::service::Context;
use crate::sqs::batch;
use crate::sqs::checksum;
use crate::sqs::command::{Attribute, Caller, Request, SendEntry, SendMessage, Value};
use crate::sqs::error::{Code, Error};
use crate::sqs::grants;
use crate::sqs::handle::uuid;
use crate::sqs::layout::{self, Recent};
use crate::sqs::limits::Limits;
use crate::sqs::message::{Body, FirstSend, Row};
use crate::sqs::queue::{Queue, Terms};
use crate::sqs::reply::{Entry, Reply, Sent};
use crate::sqs::settings::Settings;
use crate::{View, ViewError};

const NAME_BYTES_MAX: usize = 256;
const ID_BYTES_MAX: usize = 128;
const TRACE_HEADER: &str = "AWSTraceHeader";
const WRONG_TYPE: &str = "The request include parameter that is not valid for this queue type.";
/// Ends of deduplication windows that one send clears away: more than it adds.
const ENDS_PER_SEND: usize = 2;

/// Decides a send.
pub(crate) fn decide(
    view: &dyn View,
    context: &Context<'_, Limits>,
    request: &Request,
    command: &SendMessage,
) -> Result<(Reply, Vec<Change>), Error> {
    let mut queue = Queue::of(view, context)?;
    grants::check(&queue.settings, request, Terms::new(view, context))?;
    check_batch(command, &queue.settings, context.limits)?;
    let mut sent = Vec::new();
    let bodies = command.entries.iter().map(|entry| &entry.body);
    let sums = checksum::of_bodies(bodies.map(|body| body.as_deref().unwrap_or_default()));
    for ((index, entry), sum) in (0..).zip(&command.entries).zip(sums) {
        let id = uuid(request.seed, "message", index);
        sent.push(Entry {
            id: entry.id.clone(),
            outcome: send_one(&mut queue, request, entry, id, sum),
        });
    }
    batch::single(command.is_batch, &mut sent)?;
    forget_recent(&mut queue, command.entries.len())?;
    Ok((Reply::Sent(sent), queue.finish()))
}

/// What is refused whole.
pub(crate) fn check_batch(
    command: &SendMessage,
    settings: &Settings,
    limits: &Limits,
) -> Result<(), Error> {
    if !command.is_batch {
        return Ok(());
    }
    let ids = command.entries.iter().map(|entry| &*entry.id);
    batch::check(ids, "SendMessageBatchRequestEntry", limits)?;
    let bytes: usize = command.entries.iter().map(SendEntry::size).sum();
    let most = limits.message_bytes;
    if most < bytes {
        let message = format!(
            "Batch requests cannot be longer than {most} bytes. You have sent {bytes} bytes."
        );
        return Err(Error::new(Code::BatchRequestTooLong, message));
    }
    if settings.is_fifo() {
        for entry in &command.entries {
            check_fifo(entry, settings)?;
        }
    }
    Ok(())
}

/// Sends a message under an id. The MD5 of its body is known.
fn send_one(
    queue: &mut Queue<'_>,
    request: &Request,
    entry: &SendEntry,
    id: u128,
    md5_of_body: u128,
) -> Result<Sent, Error> {
    let limits = queue.terms.limits;
    let (mut body, delay_s) = read(&queue.settings, limits, &request.caller, entry)?;
    body.id = id;
    body.sent_ms = queue.now_ms;
    body.sender = request.caller.principal.sender();
    let sent = Sent {
        id,
        md5_of_body,
        md5_of_attributes: checksum::of_attributes(&body.attributes),
        md5_of_system_attributes: checksum::of_attributes(&entry.system_attributes),
        sequence: None,
    };
    match queue.settings.is_fifo() {
        true => send_once(queue, &body, delay_s, &sent),
        false => {
            put(queue, &body, delay_s)?;
            Ok(sent)
        }
    }
}

fn put(queue: &mut Queue<'_>, body: &Body, delay_s: u64) -> Result<u64, ViewError> {
    let at_ms = queue.now_ms + delay_s * 1000;
    queue.counters.totals.sent += 1;
    queue.add(body, at_ms, 0, 0, queue.now_ms)
}

/// Puts a message into a FIFO queue unless its deduplication id came a short time ago.
fn send_once(queue: &mut Queue<'_>, body: &Body, delay_s: u64, sent: &Sent) -> Result<Sent, Error> {
    let is_group_scope = queue
        .settings
        .fifo
        .as_ref()
        .is_some_and(|it| it.is_group_scope);
    let group = body.group.as_deref().unwrap_or_default();
    let scope = if is_group_scope { group } else { "" };
    let id = body.deduplication_id.as_deref().unwrap_or_default();
    let key = layout::recent_key(queue.collection, Recent::Send, scope, id);
    let first = queue.row::<FirstSend>(&key)?;
    let is_recent =
        |first: &FirstSend| queue.now_ms < first.end_ms || !queue.has(Guard::QueueDuplicateEnds);
    if let Some(first) = first
        .filter(is_recent)
        .filter(|_| queue.has(Guard::QueueDuplicate))
    {
        // The checksums are of what was sent now: SDKs compare them with that.
        return Ok(Sent {
            id: first.id,
            sequence: Some(first.number),
            ..sent.clone()
        });
    }
    let number = put(queue, body, delay_s)?;
    let first = FirstSend {
        end_ms: queue.now_ms + queue.terms.limits.deduplication_s * 1000,
        id: sent.id,
        number,
    };
    let (collection, end_ms) = (queue.collection, first.end_ms);
    let end = layout::recent_end_key(collection, Recent::Send, end_ms, number);
    queue.put(end, key.clone());
    queue.put(key, first.encode());
    Ok(Sent {
        sequence: Some(number),
        ..sent.clone()
    })
}

/// Clears away what is remembered and over.
pub(crate) fn forget_recent(queue: &mut Queue<'_>, sends: usize) -> Result<(), ViewError> {
    if !queue.settings.is_fifo() {
        return Ok(());
    }
    let from_ms = queue.counters.recent_ms;
    let range = layout::recent_ends(queue.collection, from_ms, queue.now_ms);
    for (end, key) in queue.scan(&range, ENDS_PER_SEND * sends)? {
        queue.counters.recent_ms = layout::recent_end(&end)?;
        queue.remove(end);
        // A row that was written again since has an end of its own.
        let is_over = match queue.get(&key)? {
            Some(row) => end_of(row)? <= queue.now_ms,
            None => true,
        };
        if is_over {
            queue.remove(key);
        }
    }
    Ok(())
}

/// The end is the first field of what is remembered of sends, and of receives.
fn end_of(row: bytes::Bytes) -> Result<u64, ViewError> {
    let mut reader = fader_chain::Reader::new(row);
    reader.byte()?;
    Ok(reader.varint()?)
}

/// The content of a message, and its delay.
pub(crate) fn read(
    settings: &Settings,
    limits: &Limits,
    caller: &Caller,
    entry: &SendEntry,
) -> Result<(Body, u64), Error> {
    let text = entry.body.clone().filter(|text| !text.is_empty());
    let text = text.ok_or_else(|| Error::missing("MessageBody"))?;
    check_text(&text)?;
    let most = limits
        .message_bytes
        .min(usize::try_from(settings.message_bytes).unwrap_or(0));
    if most < entry.size() {
        let message = format!(
            "One or more parameters are invalid. Reason: Message must be shorter than {most} bytes."
        );
        return Err(Error::new(Code::InvalidParameterValue, message));
    }
    check_attributes(&entry.attributes, limits)?;
    let own_trace = trace_header(&entry.system_attributes)?;
    let delay_s = delay_s(settings, limits, entry)?;
    if settings.is_fifo() {
        check_fifo(entry, settings)?;
    } else if let Some(id) = &entry.deduplication_id {
        return Err(Error::value(id, "MessageDeduplicationId", WRONG_TYPE));
    }
    if let Some(group) = &entry.group_id {
        check_id("MessageGroupId", group)?;
    }
    let given = entry.deduplication_id.clone();
    let body = Body {
        id: 0,
        sender: String::new(),
        sent_ms: 0,
        deduplication_id: match settings.is_fifo() {
            true => Some(given.unwrap_or_else(|| checksum::deduplication_id(&text))),
            false => None,
        },
        text,
        attributes: entry.attributes.clone(),
        trace_header: own_trace.or_else(|| caller.trace.clone()),
        group: entry.group_id.clone(),
        source_arn: None,
    };
    Ok((body, delay_s))
}

fn delay_s(settings: &Settings, limits: &Limits, entry: &SendEntry) -> Result<u64, Error> {
    let Some(given) = entry.delay_seconds else {
        return Ok(settings.delay_s);
    };
    let seconds = u64::try_from(given)
        .ok()
        .filter(|seconds| *seconds <= limits.delay_s);
    let refuse = |reason: &str| Error::value(&given.to_string(), "DelaySeconds", reason);
    match seconds {
        Some(0) if settings.is_fifo() => Ok(settings.delay_s),
        Some(_) if settings.is_fifo() => Err(refuse(WRONG_TYPE)),
        Some(seconds) => Ok(seconds),
        None => {
            let most = limits.delay_s;
            Err(refuse(&format!("DelaySeconds must be >= 0 and <= {most}.")))
        }
    }
}

/// What a FIFO queue wants of a message.
fn check_fifo(entry: &SendEntry, settings: &Settings) -> Result<(), Error> {
    let group = entry.group_id.as_ref().filter(|group| !group.is_empty());
    check_id(
        "MessageGroupId",
        group.ok_or_else(|| Error::missing("MessageGroupId"))?,
    )?;
    let is_content_based = settings.fifo.as_ref().is_some_and(|it| it.is_content_based);
    match &entry.deduplication_id {
        Some(id) => check_id("MessageDeduplicationId", id),
        None if is_content_based => Ok(()),
        None => Err(Error::new(
            Code::InvalidParameterValue,
            "The queue should either have ContentBasedDeduplication enabled or \
             MessageDeduplicationId provided explicitly",
        )),
    }
}

/// Ids of groups, deduplication and attempts: 1 to 128 visible characters of ASCII.
pub(crate) fn check_id(parameter: &str, id: &str) -> Result<(), Error> {
    let is_plain = id.bytes().all(|byte| byte.is_ascii_graphic());
    if (1..=ID_BYTES_MAX).contains(&id.len()) && is_plain {
        return Ok(());
    }
    let reason = format!(
        "{parameter} can only include alphanumeric and punctuation characters. 1 to 128 in length."
    );
    Err(Error::value(id, parameter, &reason))
}

fn check_text(text: &str) -> Result<(), Error> {
    // Most texts have nothing else. All bytes are looked at, so that several are at a time.
    let is_plain = |so_far: bool, byte: u8| so_far & matches!(byte, b' '..=b'~');
    if text.bytes().fold(true, is_plain) {
        return Ok(());
    }
    let is_carried = |character: char| {
        matches!(u32::from(character),
            0x9 | 0xA | 0xD | 0x20..=0xD7FF | 0xE000..=0xFFFD | 0x10000..=0x0010_FFFF)
    };
    if text.chars().all(is_carried) {
        return Ok(());
    }
    let message = "Invalid characters found. Valid unicode characters are #x9 | #xA | #xD | #x20 \
                   to #xD7FF | #xE000 to #xFFFD | #x10000 to #x10FFFF.";
    Err(Error::new(Code::InvalidMessageContents, message))
}

fn check_attributes(attributes: &[Attribute], limits: &Limits) -> Result<(), Error> {
    let (count, most) = (attributes.len(), limits.message_attributes);
    if most < count {
        return invalid(format!(
            "Number of message attributes [{count}] exceeds the allowed maximum [{most}]."
        ));
    }
    for (index, attribute) in attributes.iter().enumerate() {
        check_name(&attribute.name)?;
        if attributes[..index]
            .iter()
            .any(|it| it.name == attribute.name)
        {
            return invalid(format!(
                "Message attribute name '{}' already exists.",
                attribute.name
            ));
        }
        check_value(attribute)?;
    }
    Ok(())
}

fn check_name(name: &str) -> Result<(), Error> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if name.is_empty() || NAME_BYTES_MAX < name.len() {
        return invalid(format!(
            "Length of message attribute name must be between 1 and {NAME_BYTES_MAX} bytes."
        ));
    }
    let lower = name.to_ascii_lowercase();
    if !name.bytes().all(is_plain) {
        return invalid(
            "Invalid non-alphanumeric character was found in the message attribute \
                        name. Can only include alphanumeric characters, hyphens, underscores, or \
                        dots."
                .to_owned(),
        );
    }
    if name.starts_with('.') || name.ends_with('.') || name.contains("..") {
        return invalid(format!(
            "You can't use message attribute names like '{name}': periods \
                                neither begin nor end a name, nor follow each other."
        ));
    }
    if lower.starts_with("aws.") || lower.starts_with("amazon.") {
        return invalid(
            "You can't use message attribute names beginning with 'AWS.' or \
                        'Amazon.'. These strings are reserved for internal use."
                .to_owned(),
        );
    }
    Ok(())
}

fn check_value(attribute: &Attribute) -> Result<(), Error> {
    let Attribute {
        name,
        data_type,
        value,
    } = attribute;
    if data_type.is_empty() {
        return invalid(format!(
            "The message attribute '{name}' must contain non-empty message attribute type."
        ));
    }
    let kind = data_type.split('.').next().unwrap_or_default();
    if !matches!(kind, "String" | "Number" | "Binary") || NAME_BYTES_MAX < data_type.len() {
        return invalid(format!(
            "The message attribute '{name}' has an invalid message attribute type, the set of \
             supported type prefixes is Binary, Number, and String."
        ));
    }
    let is_empty = match value {
        Value::List => {
            let message = "Message attribute list values in SendMessage operation are not \
                           supported.";
            return Err(Error::new(Code::UnsupportedOperation, message));
        }
        Value::Text(text) => kind == "Binary" || text.is_empty(),
        Value::Binary(bytes) => kind != "Binary" || bytes.is_empty(),
        Value::Missing => true,
    };
    if is_empty {
        return invalid(format!(
            "The message attribute '{name}' must contain a non-empty message attribute value for \
             message attribute type '{data_type}'."
        ));
    }
    match value {
        Value::Text(text) if kind == "Number" => check_number(text),
        Value::Text(text) => check_text(text),
        _ => Ok(()),
    }
}

fn check_number(text: &str) -> Result<(), Error> {
    let is_plain = text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || matches!(byte, b'+' | b'-' | b'.' | b'e' | b'E'));
    match text.parse::<f64>() {
        Ok(number) if is_plain && number.is_finite() => Ok(()),
        _ => invalid(format!(
            "Can't cast the value of message (user) attribute '{text}' to a number."
        )),
    }
}

fn invalid<T>(message: String) -> Result<T, Error> {
    Err(Error::new(Code::InvalidParameterValue, message))
}

fn trace_header(attributes: &[Attribute]) -> Result<Option<String>, Error> {
    let mut header = None;
    for attribute in attributes {
        match &attribute.value {
            Value::Text(text)
                if attribute.name == TRACE_HEADER && attribute.data_type == "String" =>
            {
                header = Some(text.clone());
            }
            _ => {
                return invalid(format!(
                    "Message system attribute '{}' is invalid: only {TRACE_HEADER} of type String \
                     can be sent.",
                    attribute.name
                ));
            }
        }
    }
    Ok(header)
}
