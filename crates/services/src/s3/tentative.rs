//! Eventual puts to a bucket of the mode `mixed` that keeps no versions.
//!
//! A member that takes one stamps an operation on the register of its key. That is a clear of what
//! is older, and one element, the object with its bytes, or with its blocks. Reads show it from its
//! promotion on: then the head places it as a strong put does, on the newest state. A strong write
//! of the key clears the register, so an operation that is older comes to nothing.
//!
//! ```text
//! 'A' key  :  group ""  element := attempt content object sent:varint
//! ```
//!
//! Invariants:
//! - SE-1 an eventual put has no condition.
//! - SE-2 what a promotion replaces is found at the promotion, by the head.
//! - SE-3 a bucket that keeps versions, or did, is never of the mode `mixed`.
//! - SE-4 a member whose log has a fence of an attempt, committed or not, takes no put of it
//!   (`blocks::check_attempt`).
//! - SE-6 a promotion names blocks that have their rows, and no attempt twice: else it comes to
//!   nothing.
//!
//! An eventual put of blocks that comes to nothing leaves them to their leases (SE-5, `fence`).

use bytes::Bytes;
use fader_chain::{ALL_GUARDS, Accepted, Change, ElementOp, Settled, TombstonePolicy};

use crate::s3::bucket::{Asked, Bucket, Terms, settings};
use crate::s3::command::{Command, PutObject, Request};
use crate::s3::conditions::WriteConditions;
use crate::s3::error::{Code, Error};
use crate::s3::layout::{decode, encode, split_put_register};
use crate::s3::limits::Limits;
use crate::s3::objects::{check_put, place, shown};
use crate::s3::reply::Reply;
use crate::s3::rows::{Attempt, Block, Content, Object, State, Version, VersionId};
use crate::s3::settings::Versioning;
use crate::service::{Acceptance, Context};
use crate::sqs::wire_fields;
use crate::{CollectionId, Mode, Rule, View, ViewError, blocks, catalog};

/// What an element holds.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Arrival {
    attempt: u128,
    content: Content,
    object: Object,
    sent_ms: u64,
}
wire_fields!(Arrival {
    attempt,
    content,
    object,
    sent_ms,
});

pub(crate) fn refused() -> Error {
    Error::new(
        Code::InvalidArgument,
        "Eventual writes are puts without conditions to buckets of the mode mixed only.",
    )
}

/// Whether a put has no condition; if it is none, not at all.
pub(crate) fn is_plain(request: &Request) -> Option<&PutObject> {
    match &request.command {
        Command::PutObject(put) if put.conditions == WriteConditions::default() => Some(put),
        _ => None,
    }
}

/// The attempt of a put of blocks.
pub(crate) fn attempt(request: &Request) -> Option<&Attempt> {
    match &request.command {
        Command::PutObject(put) => match put.content {
            Content::Blocks(_) => Some(&put.attempt),
            Content::Inline(_) => None,
        },
        _ => None,
    }
}

/// Refuses a mode that a bucket cannot have, in words (SE-3).
pub(crate) fn check_mode(
    view: &dyn View,
    collection: CollectionId,
    mode: Mode,
) -> Result<(), catalog::Refusal> {
    let settings = settings(view, collection)?;
    let keeps = settings.is_some_and(|it| it.versioning != Versioning::Off);
    match mode {
        Mode::Mixed if keeps => Err(Rule::BucketVersions.into()),
        _ => Ok(check_new_mode(mode)?),
    }
}

/// The same of a new bucket.
pub(crate) fn check_new_mode(mode: Mode) -> Result<(), Rule> {
    match mode {
        Mode::Strong | Mode::Mixed => Ok(()),
        mode => Err(Rule::BucketMode(mode)),
    }
}

/// Decides an eventual put on what this member shows: the bucket's settings, and nothing else.
pub(crate) fn accept(
    view: &dyn View,
    context: &Context<'_, Limits>,
    request: &Request,
) -> Result<Acceptance<Reply>, Error> {
    let put = is_plain(request).ok_or_else(refused)?;
    let asked = Asked {
        view,
        context,
        request,
    };
    let bucket = Bucket::named(asked)?;
    let is_kept = bucket.settings.versioning != Versioning::Off;
    if is_kept || !context.mode.takes_eventual() {
        return Err(refused());
    }
    if let Content::Blocks(blocks) = &put.content {
        let is_here = |block: &Block| block.chain == context.chain;
        if !bucket.is_of(put.attempt.bucket) {
            return Err(Error::made_again());
        }
        if !blocks.iter().all(is_here) {
            return Err(Error::of(Code::AttemptFenced));
        }
    }
    let object = check_put(&bucket, asked, put)?;
    let arrival = Arrival {
        attempt: put.attempt.id,
        content: put.content.clone(),
        object: object.clone(),
        sent_ms: context.now_ms,
    };
    let version = Version {
        number: 0,
        id: VersionId::Null,
        modified_ms: context.now_ms,
        noncurrent_ms: 0,
        state: State::Object(Box::new(object)),
    };
    let add = ElementOp::Add {
        group: Bytes::new(),
        value: encode(&arrival),
    };
    Ok(Acceptance {
        answered: Reply::Put(shown(&bucket, &put.key, &version)),
        writes: vec![Accepted {
            key: bucket.keys.put_register(&put.key),
            ops: vec![clear(), add],
        }],
    })
}

/// What is older goes.
fn clear() -> ElementOp {
    ElementOp::Clear {
        group: Bytes::new(),
    }
}

/// A strong write of a key: an eventual put that is older comes to nothing.
pub(crate) fn superseding(key: Bytes) -> Change {
    Change::Merge {
        key,
        ops: vec![clear()],
        marks: TombstonePolicy::Kept,
    }
}

/// Settles an eventual put on the newest state of the log: its object is placed.
pub(crate) fn settle(
    newest: &dyn View,
    limits: &Limits,
    key: &Bytes,
    ops: Vec<ElementOp>,
) -> Result<Settled, ViewError> {
    let (collection, name) = split_put_register(key)?;
    let terms = Terms {
        view: newest,
        limits,
        guards: &ALL_GUARDS,
        now_ms: 0,
        mode: Mode::Strong,
    };
    let bucket = Bucket::open(terms, collection)?;
    let Some(mut bucket) = bucket.filter(|it| !it.settings.is_deleted) else {
        return Ok(Settled::Refused(Bytes::from_static(&[GONE])));
    };
    for op in &ops {
        let ElementOp::Add { value, .. } = op else {
            continue;
        };
        let arrival: Arrival = decode(value.clone())?;
        if !is_whole(&bucket, &arrival)? {
            return Ok(Settled::Refused(Bytes::from_static(&[GONE])));
        }
        bucket.terms.now_ms = arrival.sent_ms;
        bucket.put(bucket.keys.content(arrival.attempt), &arrival.content);
        let state = State::Object(Box::new(arrival.object));
        place(&mut bucket, &name, state, 0).map_err(|error| ViewError::Refused {
            context: error.message,
        })?;
    }
    let mut changes = bucket.finish();
    changes.push(Change::Merge {
        key: key.clone(),
        ops,
        marks: TombstonePolicy::Kept,
    });
    Ok(Settled::Apply(changes))
}

/// Whether an object may be placed (SE-6). A collection is one bucket's, so it needs no id.
fn is_whole(bucket: &Bucket<'_>, arrival: &Arrival) -> Result<bool, ViewError> {
    if bucket.has_row(&bucket.keys.content(arrival.attempt))? {
        return Ok(false);
    }
    let Content::Blocks(blocks) = &arrival.content else {
        return Ok(true);
    };
    for block in blocks {
        if blocks::row(bucket.terms.view, block.id)?.is_none() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// As `simpledb::encode_cause` writes it.
const GONE: u8 = 2;
