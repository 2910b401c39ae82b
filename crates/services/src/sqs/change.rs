//! DeleteMessage and ChangeMessageVisibility, with their batches.
//!
//! Invariants:
//! - QU-6 a handle changes the message of the receive that it was given for, of this queue, and no
//!   other. Where a newer one was given, it changes nothing.

use fader_chain::{Change, Guard};

use crate::service::Context;
use crate::sqs::batch;
use crate::sqs::command::{
    ChangeMessageVisibility, DeleteEntry, DeleteMessage, Request, VisibilityEntry,
};
use crate::sqs::error::{Code, Error};
use crate::sqs::grants;
use crate::sqs::handle::Receipt;
use crate::sqs::layout::{Index, Spot};
use crate::sqs::limits::Limits;
use crate::sqs::message::{Place, State};
use crate::sqs::queue::{Queue, Terms};
use crate::sqs::reply::{Entry, Reply};
use crate::{View, ViewError};

/// Decides a deletion.
pub(crate) fn delete(
    view: &dyn View,
    context: &Context<'_, Limits>,
    request: &Request,
    command: &DeleteMessage,
) -> Result<(Reply, Vec<Change>), Error> {
    let mut queue = Queue::of(view, context)?;
    grants::check(&queue.settings, request, Terms::new(view, context))?;
    if command.is_batch {
        let ids = command.entries.iter().map(|entry| &*entry.id);
        batch::check(ids, "DeleteMessageBatchRequestEntry", context.limits)?;
    }
    let mut changed = Vec::new();
    queue.postpone_lows();
    for entry in &command.entries {
        changed.push(Entry {
            id: entry.id.clone(),
            outcome: delete_one(&mut queue, entry),
        });
    }
    queue.settle_lows()?;
    batch::single(command.is_batch, &mut changed)?;
    Ok((Reply::Changed(changed), queue.finish()))
}

/// Decides a change of visibility.
pub(crate) fn visibility(
    view: &dyn View,
    context: &Context<'_, Limits>,
    request: &Request,
    command: &ChangeMessageVisibility,
) -> Result<(Reply, Vec<Change>), Error> {
    let mut queue = Queue::of(view, context)?;
    grants::check(&queue.settings, request, Terms::new(view, context))?;
    if command.is_batch {
        let ids = command.entries.iter().map(|entry| &*entry.id);
        batch::check(
            ids,
            "ChangeMessageVisibilityBatchRequestEntry",
            context.limits,
        )?;
    }
    let mut changed = Vec::new();
    queue.postpone_lows();
    for entry in &command.entries {
        changed.push(Entry {
            id: entry.id.clone(),
            outcome: move_one(&mut queue, entry),
        });
    }
    queue.settle_lows()?;
    batch::single(command.is_batch, &mut changed)?;
    Ok((Reply::Changed(changed), queue.finish()))
}

/// The receive that a handle is of, with the state of its message if that is there.
fn receive_of(
    queue: &Queue<'_>,
    handle: &Option<String>,
) -> Result<(Receipt, Option<State>), Error> {
    let handle = handle
        .as_ref()
        .ok_or_else(|| Error::missing("ReceiptHandle"))?;
    let (collection, secret) = (queue.collection, queue.settings.secret);
    let receipt = Receipt::open(handle, collection, secret, queue.has(Guard::QueueHandle));
    let receipt = receipt.ok_or_else(|| {
        let shown: String = handle.chars().take(100).collect();
        let message =
            format!("The input receipt handle \"{shown}\" is not a valid receipt handle.");
        Error::new(Code::ReceiptHandleIsInvalid, message)
    })?;
    let state = match receipt.era == queue.counters.era {
        true => queue.state(receipt.number)?,
        false => None,
    };
    Ok((receipt, state))
}

fn is_newest(queue: &Queue<'_>, receipt: Receipt, state: &State) -> bool {
    state.receives == receipt.receive || !queue.has(Guard::QueueHandleNewest)
}

fn delete_one(queue: &mut Queue<'_>, entry: &DeleteEntry) -> Result<(), Error> {
    let (receipt, state) = receive_of(queue, &entry.receipt_handle)?;
    let Some(state) = state else {
        return Ok(());
    };
    let is_newest = is_newest(queue, receipt, &state);
    let is_held = matches!(state.place, Place::InFlight { until, .. } if queue.now_ms < until.at);
    if queue.settings.is_fifo() && !(is_newest && is_held) {
        let handle = entry.receipt_handle.as_deref().unwrap_or_default();
        return Err(Error::value(
            handle,
            "ReceiptHandle",
            "The receipt handle has expired.",
        ));
    }
    if is_newest && !matches!(state.place, Place::Moving(_)) {
        queue.delete(receipt.number, &state)?;
        queue.counters.totals.deleted += 1;
    }
    Ok(())
}

fn move_one(queue: &mut Queue<'_>, entry: &VisibilityEntry) -> Result<(), Error> {
    let most = queue.terms.limits.visibility_s;
    let (receipt, state) = receive_of(queue, &entry.receipt_handle)?;
    let asked = entry.visibility_timeout;
    let asked = asked.ok_or_else(|| Error::missing("VisibilityTimeout"))?;
    let seconds = u64::try_from(asked).ok().filter(|seconds| *seconds <= most);
    let refuse = |reason: &str| Error::value(&asked.to_string(), "VisibilityTimeout", reason);
    let seconds =
        seconds.ok_or_else(|| refuse(&format!("Must be >= 0 and <= {most}, if provided.")))?;
    let handle = entry.receipt_handle.as_deref().unwrap_or_default();
    let gone = || {
        let reason = "Message does not exist or is not available for visibility timeout change.";
        Error::value(handle, "ReceiptHandle", reason)
    };
    let state = state
        .filter(|state| is_newest(queue, receipt, state))
        .ok_or_else(gone)?;
    let Place::InFlight {
        until, since_ms, ..
    } = state.place
    else {
        return Err(gone());
    };
    if until.at <= queue.now_ms {
        let message = format!(
            "Value {handle} for parameter ReceiptHandle is invalid. Reason: \
             Message does not exist or is not available for visibility timeout change."
        );
        return Err(Error::new(Code::MessageNotInflight, message));
    }
    let at = queue.now_ms + seconds * 1000;
    if since_ms + most * 1000 < at {
        let reason = format!(
            "Total VisibilityTimeout for the message is beyond the limit [{most} seconds]."
        );
        return Err(refuse(&reason));
    }
    let until = Spot {
        at,
        number: receipt.number,
    };
    Ok(move_deadline(queue, &state, until)?)
}

/// Gives a message in flight another deadline.
pub(crate) fn move_deadline(
    queue: &mut Queue<'_>,
    state: &State,
    to: Spot,
) -> Result<(), ViewError> {
    let Place::InFlight {
        until,
        since_ms,
        before,
    } = state.place
    else {
        return Ok(());
    };
    queue.withdraw(Index::Scheduled, until)?;
    let value = bytes::Bytes::copy_from_slice(state.group.as_bytes());
    queue.insert(Index::Scheduled, to, value);
    let place = Place::InFlight {
        until: to,
        since_ms,
        before,
    };
    queue.put_state(
        to.number,
        &State {
            place,
            ..state.clone()
        },
    );
    Ok(())
}
