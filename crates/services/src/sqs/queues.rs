//! Queues as a whole: they are created, listed, described, tagged, purged and deleted.
//!
//! A queue is *made* in two parts: its collection (`catalog`), and its settings, which its own
//! chain writes. Between the two it is there for CreateQueue and DeleteQueue only.
//!
//! Invariants:
//! - QU-7 what was sent before a purge is not received after it.

mod tags;

use bytes::Bytes;
use fader_chain::{Change, Guard};

use self::tags::{check_tags, sorted};
pub(crate) use self::tags::{tag, tags, untag};
use crate::catalog::{self, AccountId, Name, State};
use crate::key::KeyRange;
use crate::service::Context;
use crate::sqs::command::{CreateQueue, List, Named, Pairs, Request, SetQueueAttributes};
use crate::sqs::dead;
use crate::sqs::error::{Code, Error};
use crate::sqs::grants;
use crate::sqs::handle::derive;
use crate::sqs::layout;
use crate::sqs::limits::Limits;
use crate::sqs::message::Counters;
use crate::sqs::queue::{Queue, Terms};
use crate::sqs::reply::{Page, Reply};
use crate::sqs::settings::{Settings, account_in};
use crate::{Direction, Kind, Mode, Reason, Rule, View, ViewError};

const NAME_BYTES_MAX: usize = 80;
/// Rows about deleted queues that one creation or deletion clears away: more than it adds.
const FORGOTTEN: usize = 4;

type Decided = Result<(Reply, Vec<Change>), Error>;

/// Creates a queue; one that is there already and differs in nothing that is given stays as it is.
pub(crate) fn create(
    view: &dyn View,
    context: &Context<'_, Limits>,
    request: &Request,
    command: &CreateQueue,
) -> Decided {
    let terms = Terms::new(view, context);
    grants::check_owner(request, terms)?;
    check_name(&command.queue)?;
    let name = Name::new(Kind::Queue, context.account, &command.queue);
    let entry = catalog::collection(view, name)?;
    if let Some(entry) = &entry
        && let Some(queue) = Queue::open(terms, entry.collection)?
    {
        check_same(&queue.settings, command, context.limits)?;
        return Ok((Reply::Queue(command.queue.clone()), Vec::new()));
    }
    let secret = derive(request.seed, "secret", 0);
    let (account, now_ms, limits) = (context.account, context.now_ms, context.limits);
    let (region, queue) = (&request.region, &command.queue);
    let mut settings = Settings::new(account, region, queue, secret, now_ms, limits);
    check_type(command)?;
    set_all(&mut settings, &command.attributes, context)?;
    check_tags(&command.tags, context.limits)?;
    settings.tags = sorted(command.tags.clone());
    let (collection, mut changes) = match entry {
        Some(entry) => (entry.collection, Vec::new()),
        None => {
            check_new(view, context, command)?;
            let mode = mode(command)?;
            let mut changes = forget_deleted(terms)?;
            let (collection, created) = catalog::create(view, name, mode, None)?;
            changes.extend(created);
            (collection, changes)
        }
    };
    let mut queue = Queue::made(terms, collection, settings.clone());
    let policy = settings.show("RedrivePolicy")?.unwrap_or_default();
    let linked = dead::relink(&mut queue, &policy, None)?;
    changes.extend(linked);
    queue.counters = Counters {
        clock_ms: context.now_ms,
        ..Counters::default()
    };
    queue.set(settings);
    changes.extend(queue.finish());
    Ok((Reply::Queue(command.queue.clone()), changes))
}

/// Whether a name that is not taken can be.
fn check_new(
    view: &dyn View,
    context: &Context<'_, Limits>,
    command: &CreateQueue,
) -> Result<(), Error> {
    let key = layout::deleted_key(context.account, &command.queue);
    let deleted_ms = catalog::number(view, &key, 0)?;
    let wait_s = context.limits.recreate_s;
    if deleted_ms != 0 && context.now_ms < deleted_ms + wait_s * 1000 {
        let message = format!(
            "You must wait {wait_s} seconds after deleting a queue before you can create another \
             with the same name."
        );
        return Err(Error::new(Code::QueueDeletedRecently, message));
    }
    let most = context.limits.queues_per_account;
    if most <= catalog::count(view, Kind::Queue, context.account)? {
        let message = format!("The account has {most} queues, the most that it may have.");
        return Err(Error::new(Code::OverLimit, message));
    }
    Ok(())
}

fn mode(command: &CreateQueue) -> Result<Mode, Error> {
    let mode = command.mode().unwrap_or_default();
    let checked = check_mode(&command.queue, mode);
    checked.map_err(|rule| Error::new(Code::InvalidParameterValue, rule.to_string()))?;
    Ok(mode)
}

/// Refuses a mode that a queue of this name cannot have, in words. Receives are strong, and the
/// order of a FIFO queue is that of its sends.
pub(crate) fn check_mode(queue: &str, mode: Mode) -> Result<(), Rule> {
    let is_fifo = queue.ends_with(".fifo");
    if !mode.is_at_rest() || mode == Mode::Eventual || (is_fifo && mode != Mode::Strong) {
        return Err(Rule::QueueMode { is_fifo, mode });
    }
    Ok(())
}

fn check_name(name: &str) -> Result<(), Error> {
    let plain = name.strip_suffix(".fifo").unwrap_or(name);
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if plain.is_empty() || NAME_BYTES_MAX < name.len() || !plain.bytes().all(is_plain) {
        let message =
            "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length";
        return Err(Error::new(Code::InvalidParameterValue, message));
    }
    Ok(())
}

/// The name and the attribute FifoQueue say the same.
fn check_type(command: &CreateQueue) -> Result<(), Error> {
    let given = command
        .attributes
        .iter()
        .find(|(name, _)| name == "FifoQueue");
    let given = given.map(|(_, value)| value.as_str());
    match (command.queue.ends_with(".fifo"), given) {
        (true, Some("true")) | (false, None) => Ok(()),
        (false, Some("false")) => Err(Error::new(
            Code::InvalidAttributeName,
            "Unknown Attribute FifoQueue.",
        )),
        _ => Err(Error::new(
            Code::InvalidParameterValue,
            "The name of a FIFO queue can only include alphanumeric characters, hyphens, or \
             underscores, must end with .fifo suffix and be 1 to 80 in length.",
        )),
    }
}

/// What is given of a queue that exists must be as it is.
fn check_same(settings: &Settings, command: &CreateQueue, limits: &Limits) -> Result<(), Error> {
    check_type(command)?;
    for (name, value) in &command.attributes {
        let mut asked = settings.clone();
        asked.set(name, value, limits)?;
        if asked.show(name)? != settings.show(name)? {
            let message = format!(
                "A queue already exists with the same name and a different value for attribute \
                 {name}"
            );
            return Err(Error::new(Code::QueueNameExists, message));
        }
    }
    Ok(())
}

fn set_all(
    settings: &mut Settings,
    attributes: &Pairs,
    context: &Context<'_, Limits>,
) -> Result<(), Error> {
    for (name, value) in attributes {
        settings.set(name, value, context.limits)?;
        if name == "RedrivePolicy" {
            find_dead_letters(settings, value, context)?;
        }
    }
    settings.check()
}

/// Where the dead-letter queue of a policy that is set now is.
fn find_dead_letters(
    settings: &mut Settings,
    text: &str,
    context: &Context<'_, Limits>,
) -> Result<(), Error> {
    let Some(redrive) = &mut settings.redrive else {
        return Ok(());
    };
    if redrive.queue() == settings.name {
        return Ok(());
    }
    let is_of_account = account_in(&redrive.arn) == Some(&context.account.0);
    let place = context.towards.filter(|_| is_of_account);
    let place = place
        .ok_or_else(|| Error::value(text, "RedrivePolicy", "Dead letter target does not exist."))?;
    redrive.place = Some((place.chain, place.collection));
    Ok(())
}

/// Deletes a queue at once: its rows are left to be swept.
pub(crate) fn delete(
    view: &dyn View,
    context: &Context<'_, Limits>,
    request: &Request,
    command: &Named,
) -> Decided {
    let terms = Terms::new(view, context);
    let name = Name::new(Kind::Queue, context.account, &command.queue);
    let entry = catalog::collection(view, name)?.ok_or_else(Error::no_such_queue)?;
    let mut changes = forget_deleted(terms)?;
    match Queue::open(terms, entry.collection)? {
        None => grants::check_owner(request, terms)?,
        Some(mut queue) => {
            grants::check(&queue.settings, request, terms)?;
            let old = queue
                .settings
                .redrive
                .take()
                .and_then(|redrive| redrive.place);
            changes.extend(dead::relink(&mut queue, "", old)?);
            queue.clear_chore();
            changes.extend(queue.finish());
        }
    }
    changes.extend(catalog::delete(view, name, &entry)?);
    changes.extend(note_deleted(terms, &command.queue));
    Ok((Reply::Done, changes))
}

/// Decides what a request does to names, on the system chain of a cluster that has its queues on
/// `chains` others.
pub(crate) fn names(
    view: &dyn View,
    context: &Context<'_, Limits>,
    chains: u32,
    request: &Request,
    queue: &str,
    created: Option<&CreateQueue>,
) -> Option<Decided> {
    let name = Name::new(Kind::Queue, context.account, queue);
    // One that the system chain has itself comes and goes in one step.
    if let Ok(Some(_)) = catalog::collection(view, name) {
        return None;
    }
    let terms = Terms::new(view, context);
    Some(
        grants::check_owner(request, terms).and_then(|()| match created {
            Some(command) => enter(view, context, chains, command),
            None => condemn(view, context, queue),
        }),
    )
}

fn enter(
    view: &dyn View,
    context: &Context<'_, Limits>,
    chains: u32,
    command: &CreateQueue,
) -> Decided {
    check_name(&command.queue)?;
    let name = Name::new(Kind::Queue, context.account, &command.queue);
    let reply = Reply::Queue(command.queue.clone());
    match catalog::placed(view, name)?.map(|placed| placed.state) {
        Some(State::Deleting) => {
            let reason = Reason::DomainDeleting;
            return Err(Error::unavailable(reason, reason.sentence()));
        }
        Some(_) => return Ok((reply, Vec::new())),
        None => {}
    }
    check_type(command)?;
    check_new(view, context, command)?;
    let mut changes = forget_deleted(Terms::new(view, context))?;
    let mode = mode(command)?;
    let entered = catalog::enter(view, name, mode, None, chains, Bytes::new())?;
    changes.extend(entered);
    Ok((reply, changes))
}

fn condemn(view: &dyn View, context: &Context<'_, Limits>, queue: &str) -> Decided {
    let terms = Terms::new(view, context);
    let name = Name::new(Kind::Queue, context.account, queue);
    let placed = catalog::placed(view, name)?.ok_or_else(Error::no_such_queue)?;
    let mut changes = Vec::new();
    if placed.state != State::Deleting {
        changes = forget_deleted(terms)?;
        changes.extend(catalog::condemn(name, &placed));
        changes.extend(note_deleted(terms, queue));
    }
    Ok((Reply::Done, changes))
}

fn note_deleted(terms: Terms<'_>, queue: &str) -> [Change; 2] {
    let key = layout::deleted_key(terms.account, queue);
    [
        catalog::put_number(key, terms.now_ms),
        Change::Put {
            key: layout::deleted_time_key(terms.now_ms, terms.account, queue),
            value: Bytes::new(),
        },
    ]
}

/// Forgets queues that were deleted long ago.
fn forget_deleted(terms: Terms<'_>) -> Result<Vec<Change>, ViewError> {
    let before_ms = terms.now_ms.saturating_sub(terms.limits.recreate_s * 1000);
    let KeyRange { start, end } = layout::deleted_before(before_ms);
    let mut changes = Vec::new();
    for pair in terms
        .view
        .scan(&start, &end, Direction::Forward)
        .take(FORGOTTEN)
    {
        let (key, _) = pair?;
        let (account, name) = layout::split_deleted(&key)?;
        let named = layout::deleted_key(&AccountId(account), &name);
        if catalog::number(terms.view, &named, 0)? < before_ms {
            changes.push(Change::Remove { key: named });
        }
        changes.push(Change::Remove { key });
    }
    Ok(changes)
}

/// A page of the account's queues.
pub(crate) fn list(
    view: &dyn View,
    context: &Context<'_, Limits>,
    request: &Request,
    command: &List,
) -> Result<Reply, Error> {
    grants::check_owner(request, Terms::new(view, context))?;
    let count = page_size(command, context.limits)?;
    let after = command.next_token.as_deref().map(open_token).transpose()?;
    let names = catalog::names(
        view,
        Kind::Queue,
        context.account,
        &command.queue,
        after.as_deref().map(str::as_bytes),
        count + 1,
    )?;
    Ok(Reply::Queues(page(names, count, command)))
}

/// How many queues a page has at most.
pub(crate) fn page_size(command: &List, limits: &Limits) -> Result<usize, Error> {
    let most = limits.page_queues;
    let Some(given) = command.max_results else {
        return Ok(most);
    };
    let count = usize::try_from(given)
        .ok()
        .filter(|count| (1..=most).contains(count));
    count.ok_or_else(|| {
        let reason = format!("MaxResults must be an integer between 1 and {most}.");
        Error::value(&given.to_string(), "MaxResults", &reason)
    })
}

/// A page of at most `count` names. A token is given only where a size was asked for, as on AWS.
pub(crate) fn page(mut names: Vec<String>, count: usize, command: &List) -> Page {
    let has_more = count < names.len();
    names.truncate(count);
    let last = names
        .last()
        .filter(|_| has_more && command.max_results.is_some());
    let next_token = last.map(|name| seal_token(name));
    Page { names, next_token }
}

fn seal_token(name: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(name)
}

/// The name after which a page begins.
pub(crate) fn open_token(token: &str) -> Result<String, Error> {
    use base64::Engine as _;
    let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD
        .decode(token)
        .ok();
    let name = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    name.ok_or_else(|| {
        Error::new(
            Code::InvalidParameterValue,
            "Invalid or expired next token.",
        )
    })
}

/// Says that a queue is there.
pub(crate) fn url(
    view: &dyn View,
    context: &Context<'_, Limits>,
    request: &Request,
    command: &Named,
) -> Result<Reply, Error> {
    let queue = Queue::of(view, context)?;
    grants::check(&queue.settings, request, Terms::new(view, context))?;
    Ok(Reply::Queue(command.queue.clone()))
}

/// Changes attributes.
pub(crate) fn set(
    view: &dyn View,
    context: &Context<'_, Limits>,
    request: &Request,
    command: &SetQueueAttributes,
) -> Decided {
    let mut queue = Queue::of(view, context)?;
    grants::check(&queue.settings, request, Terms::new(view, context))?;
    let mut settings = queue.settings.clone();
    set_all(&mut settings, &command.attributes, context)?;
    if settings == queue.settings {
        return Ok((Reply::Done, Vec::new()));
    }
    settings.modified_ms = queue.now_ms;
    let is_longer = queue.settings.retention_s < settings.retention_s;
    let is_shorter = settings.retention_s < queue.settings.retention_s;
    let old = queue
        .settings
        .redrive
        .as_ref()
        .and_then(|redrive| redrive.place);
    queue.set(settings);
    if is_longer {
        queue.find_low()?;
    }
    if is_shorter {
        let now_ms = queue.now_ms;
        queue.note_chore(now_ms);
    }
    let mut changes = Vec::new();
    if command
        .attributes
        .iter()
        .any(|(name, _)| name == "RedrivePolicy")
    {
        let policy = queue.settings.show("RedrivePolicy")?.unwrap_or_default();
        changes = dead::relink(&mut queue, &policy, old)?;
    }
    changes.extend(queue.finish());
    Ok((Reply::Done, changes))
}

/// Purges a queue: a new era begins, and rows of the old one go in bounded steps (QL-3).
pub(crate) fn purge(
    view: &dyn View,
    context: &Context<'_, Limits>,
    request: &Request,
    command: &Named,
) -> Decided {
    let mut queue = Queue::of(view, context)?;
    grants::check(&queue.settings, request, Terms::new(view, context))?;
    let wait_s = context.limits.purge_s;
    let purged_ms = queue.counters.purged_ms;
    if purged_ms != 0 && queue.now_ms < purged_ms + wait_s * 1000 {
        let message = format!(
            "Only one PurgeQueue operation on {} is allowed every {wait_s} seconds.",
            command.queue
        );
        return Err(Error::new(Code::PurgeQueueInProgress, message));
    }
    queue.counters.purged_ms = queue.now_ms;
    if queue.has(Guard::QueuePurge) {
        queue.counters = Counters {
            era: queue.counters.era + 1,
            ready: 0,
            delayed: 0,
            in_flight: 0,
            ready_low: None,
            scheduled_low: None,
            first: queue.counters.last + 1,
            is_unswept: true,
            ..queue.counters.clone()
        };
        let now_ms = queue.now_ms;
        queue.note_chore(now_ms);
    }
    Ok((Reply::Done, queue.finish()))
}
