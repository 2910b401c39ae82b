//! Eventual sends to a queue of the mode `mixed`.
//!
//! A member that takes one stamps an operation on a register of its own, named by the message's id:
//! one element, the message. No reader looks into it before its promotion. Then the head enters the
//! message as a strong send does, at the time of its promotion, and the register goes.
//!
//! ```text
//! 'I' id  :  group ""  element := body delay:varint
//! ```

use bytes::Bytes;
use fader_chain::{
    ALL_GUARDS, Accepted, ChainId, Change, DecodeError, ElementOp, Reader, Settled, Stamp,
};

use crate::catalog::AccountId;
use crate::forward::wire::Wire as _;
use crate::service::{Acceptance, Context};
use crate::sqs::batch;
use crate::sqs::checksum;
use crate::sqs::command::{Command, Request};
use crate::sqs::error::{Code, Error};
use crate::sqs::grants;
use crate::sqs::handle::uuid;
use crate::sqs::layout::{arrival_key, split_arrival};
use crate::sqs::limits::Limits;
use crate::sqs::message::Body;
use crate::sqs::queue::{Queue, Terms, settings};
use crate::sqs::reply::{Entry, Reply, Sent};
use crate::sqs::send;
use crate::{View, ViewError};

/// Decides an eventual send on what this member shows: nothing but the queue's settings.
pub(crate) fn accept(
    view: &dyn View,
    context: &Context<'_, Limits>,
    request: &Request,
) -> Result<Acceptance<Reply>, Error> {
    let Command::SendMessage(command) = &request.command else {
        return Err(refused());
    };
    let collection = context.collection.ok_or_else(Error::no_such_queue)?;
    let settings = settings(view, collection)?.ok_or_else(Error::no_such_queue)?;
    grants::check(&settings, request, Terms::new(view, context))?;
    if settings.is_fifo() || !context.mode.takes_eventual() {
        return Err(refused());
    }
    send::check_batch(command, &settings, context.limits)?;
    let (mut sent, mut writes) = (Vec::new(), Vec::new());
    for (index, entry) in (0..).zip(&command.entries) {
        let read = send::read(&settings, context.limits, &request.caller, entry);
        let outcome = read.map(|(body, delay_s)| {
            let id = uuid(request.seed, "message", index);
            let body = Body {
                id,
                sent_ms: context.now_ms,
                sender: request.caller.principal.sender(),
                ..body
            };
            let mut element = Vec::new();
            body.put(&mut element);
            delay_s.put(&mut element);
            let add = ElementOp::Add {
                group: Bytes::new(),
                value: element.into(),
            };
            writes.push(Accepted {
                key: arrival_key(collection, id),
                ops: vec![add],
            });
            Sent {
                id,
                md5_of_body: checksum::of_body(&body.text),
                md5_of_attributes: checksum::of_attributes(&body.attributes),
                md5_of_system_attributes: checksum::of_attributes(&entry.system_attributes),
                sequence: None,
            }
        });
        sent.push(Entry {
            id: entry.id.clone(),
            outcome,
        });
    }
    batch::single(command.is_batch, &mut sent)?;
    Ok(Acceptance {
        answered: Reply::Sent(sent),
        writes,
    })
}

pub(crate) fn refused() -> Error {
    Error::new(
        Code::UnsupportedOperation,
        "Eventual writes are sends to standard queues of the mode mixed only.",
    )
}

/// Settles an eventual send on the newest state of the log: its message is entered.
pub(crate) fn settle(
    newest: &dyn View,
    limits: &Limits,
    key: &Bytes,
    ops: &[ElementOp],
    stamp: Stamp,
) -> Result<Settled, ViewError> {
    let (collection, _) =
        split_arrival(key).ok_or_else(|| DecodeError::new("a send's register"))?;
    let account = AccountId(String::new());
    let terms = Terms {
        view: newest,
        account: &account,
        limits,
        guards: &ALL_GUARDS,
        chain: ChainId::SYSTEM,
        now_ms: 0,
    };
    let Some(mut queue) = Queue::open(terms, collection)? else {
        return Ok(Settled::Refused(Bytes::from_static(&[GONE])));
    };
    for op in ops {
        let ElementOp::Add { value, .. } = op else {
            continue;
        };
        let mut reader = Reader::new(value.clone());
        let (body, delay_s) = (Body::read(&mut reader)?, u64::read(&mut reader)?);
        reader.end()?;
        queue.now_ms = queue.now_ms.max(body.sent_ms);
        let at_ms = queue.now_ms + delay_s * 1000;
        let kept_from_ms = body.sent_ms;
        queue.counters.totals.sent += 1;
        queue.add(&body, at_ms, 0, 0, kept_from_ms)?;
    }
    let mut changes = queue.finish();
    // The register keeps its mark as any other does; its message has rows of its own now.
    let _ = stamp;
    changes.push(Change::Merge {
        key: key.clone(),
        ops: ops.to_vec(),
        marks: fader_chain::TombstonePolicy::Kept,
    });
    Ok(Settled::Apply(changes))
}

/// As `simpledb::encode_cause` writes it.
const GONE: u8 = 2;
