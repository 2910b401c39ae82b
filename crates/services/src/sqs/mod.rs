//! Amazon SQS (2012-11-05): what each action means.
//!
//! ```text
//! request ─▶ decide ─▶ reply + changes ─▶ (commit) ─▶ ShowReceived: the messages of a receive,
//!              │                                       read on a committed view
//!              └▶ Wait: a long poll
//! ```
//!
//! The invariants QL, QU, QG and QM are where they are kept: `layout`, `queue`, `groups`,
//! `receive`, `send`, `change`, `dead`, `moving`, `queues`, `grants`.
//!
//! Deliberately absent: wire formats and queue URLs (gateway), time and randomness (they come in
//! with the request), encryption (its attributes are kept). Also fairness between groups of a
//! standard queue, and AWS's quotas on rates.

mod attempts;
mod batch;
mod change;
mod checksum;
pub mod command;
mod dead;
mod error;
mod figures;
#[cfg(test)]
mod fuzz;
mod grants;
mod groups;
mod handle;
mod layout;
mod limits;
mod message;
mod moving;
mod queue;
mod queues;
mod receive;
mod reply;
mod seam;
mod send;
mod settings;
mod show;
mod tentative;
mod upkeep;
mod wire;

pub use command::{Caller, Command, Request};
pub use dead::QueueStep;
pub use error::{Code, Error};
pub(crate) use figures::FIGURES;
pub(crate) use layout::has_table;
pub use limits::Limits;
pub use moving::split_task_handle;
pub(crate) use queue::stir;
pub(crate) use queues::check_mode;
pub use reply::{
    ChangedEntry, Entry, Message, Page, Peeked, Received, Reply, Sent, SentEntry, Task, show_uuid,
};
pub use seam::Sqs;
pub use settings::{NEW_QUEUE, Times, account_in, name_in};
pub use show::show_sequence;
pub(crate) use wire::{wire_choice, wire_fields};

use fader_chain::{ALL_GUARDS, ChainId, Change, Guards};

use crate::catalog::{AccountId, NameBuf};
use crate::figures::Shown;
use crate::service::{Context, Wait};
use crate::{CollectionId, View, ViewError};

/// What a decision comes to.
type Decided = Result<(Reply, Vec<Change>), Error>;

/// Decides a request that may change state.
///
/// # Errors
/// [`Wait`] of a long poll.
pub(crate) fn decide(
    view: &dyn View,
    context: &Context<'_, Limits>,
    request: &Request,
) -> Result<Decided, Wait> {
    Ok(match &request.command {
        Command::AddPermission(it) => grants::add(view, context, request, it),
        Command::CancelMessageMoveTask(it) => moving::cancel(view, context, request, it),
        Command::ChangeMessageVisibility(it) => change::visibility(view, context, request, it),
        Command::CreateQueue(it) => queues::create(view, context, request, it),
        Command::DeleteMessage(it) => change::delete(view, context, request, it),
        Command::DeleteQueue(it) => queues::delete(view, context, request, it),
        Command::PurgeQueue(it) => queues::purge(view, context, request, it),
        Command::ReceiveMessage(it) => return receive::decide(view, context, request, it),
        Command::RemovePermission(it) => grants::remove(view, context, request, it),
        Command::SendMessage(it) => send::decide(view, context, request, it),
        Command::SetQueueAttributes(it) => queues::set(view, context, request, it),
        Command::StartMessageMoveTask(it) => moving::start(view, context, request, it),
        Command::TagQueue(it) => queues::tag(view, context, request, it),
        Command::UntagQueue(it) => queues::untag(view, context, request, it),
        Command::GetQueueAttributes(_)
        | Command::GetQueueUrl(_)
        | Command::ListDeadLetterSourceQueues(_)
        | Command::ListMessageMoveTasks(_)
        | Command::ListQueueTags(_)
        | Command::ListQueues(_)
        | Command::PeekMessages(_)
        | Command::ShowReceived(_) => {
            answer(view, context, request).map(|reply| (reply, Vec::new()))
        }
    })
}

/// Answers a request that changes nothing.
///
/// # Errors
/// [`Error`] as SQS words it; a request that writes is refused as an internal failure.
pub(crate) fn answer(
    view: &dyn View,
    context: &Context<'_, Limits>,
    request: &Request,
) -> Result<Reply, Error> {
    match &request.command {
        Command::GetQueueAttributes(it) => show::attributes(view, context, request, it),
        Command::GetQueueUrl(it) => queues::url(view, context, request, it),
        Command::ListDeadLetterSourceQueues(it) => show::sources(view, context, request, it),
        Command::ListMessageMoveTasks(it) => moving::list(view, context, request, it),
        Command::ListQueueTags(_) => queues::tags(view, context, request),
        Command::ListQueues(it) => queues::list(view, context, request, it),
        Command::PeekMessages(it) => show::peek(view, context, request, it),
        Command::ShowReceived(it) => Ok(show::complete(view, it)?),
        _ => Err(Error::new(
            Code::InternalError,
            "A write was sent where only reads are answered.",
        )),
    }
}

/// What changes when the first queue of a chain that has work to do at `now_ms` does some of it. It
/// does `batch` rows at most; nothing when there is none. Asked again it goes on.
///
/// # Errors
/// [`ViewError`] when the store cannot be read.
pub fn upkeep(
    view: &dyn View,
    limits: &Limits,
    guards: &Guards,
    chain: ChainId,
    now_ms: u64,
    batch: usize,
) -> Result<Vec<Change>, ViewError> {
    let account = AccountId(String::new());
    let terms = queue::Terms {
        view,
        account: &account,
        limits,
        guards,
        chain,
        now_ms,
    };
    upkeep::upkeep(terms, batch)
}

/// What else changes when a queue is razed: its dead-letter queue forgets it.
///
/// # Errors
/// [`ViewError`] when the store cannot be read.
pub(crate) fn razed(
    view: &dyn View,
    guards: &Guards,
    account: &AccountId,
    chain: ChainId,
    collection: CollectionId,
) -> Result<Vec<Change>, ViewError> {
    let terms = queue::Terms {
        view,
        account,
        limits: &Limits::default(),
        guards,
        chain,
        now_ms: 0,
    };
    let Some(mut queue) = queue::Queue::open(terms, collection)? else {
        return Ok(Vec::new());
    };
    let redrive = queue.settings.redrive.take();
    let old = redrive.and_then(|redrive| redrive.place);
    dead::relink(&mut queue, "", old).map_err(|error| ViewError::Refused {
        context: error.message,
    })
}

/// Adds the numbers of the queue in a collection to those that are shown, unless it is not made.
///
/// # Errors
/// [`ViewError`] when the store cannot be read.
pub(crate) fn figures(
    view: &dyn View,
    limits: &Limits,
    chain: ChainId,
    now_ms: u64,
    name: &NameBuf,
    collection: CollectionId,
) -> Result<Option<Shown>, ViewError> {
    let terms = queue::Terms {
        view,
        account: &name.account,
        limits,
        guards: &ALL_GUARDS,
        chain,
        now_ms,
    };
    let values = figures::values(terms, collection)?;
    Ok(values.map(|values| Shown {
        account: name.account.clone(),
        name: name.name.clone(),
        values,
    }))
}

#[cfg(test)]
mod tests;
