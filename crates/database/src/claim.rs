//! What claim objects mean: the decisions of a client that creates one, and of those that receive
//! the pointer to it.
//!
//! A transaction over one message's bound is a claim object. Its pointer is sent before; creating
//! the object commits. A claim goes when its records were sent on, an abort claim never.
//!
//! Invariants:
//! - CLAIM-1 a transaction that was told to be committed is sent on by any client that receives its
//!   pointer.
//! - CLAIM-2 a transaction that was told to be given up never takes effect. After a creation
//!   without an answer an abort proves nothing: the claim may have been created, sent on and freed
//!   before.

use crate::guard::{Guard, Guards};
use crate::message::Frame;

/// From this receive on a pointer without a claim is given up: at least a visibility lies between
/// two receives.
pub(crate) const POINTER_RECEIVES: u64 = 3;

/// What stands under a claim's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Standing {
    /// Nothing: not yet created, or freed after its records were sent on.
    Nothing,
    /// The transaction.
    Transaction,
    /// An abort, which stays.
    Abort,
}

impl Standing {
    /// What a frame under the name means; `None` is no object.
    pub(crate) fn of(frame: Option<&Frame>) -> Self {
        match frame {
            None => Standing::Nothing,
            Some(Frame::Transaction(_)) => Standing::Transaction,
            Some(Frame::Abort | Frame::Pointer(_)) => Standing::Abort,
        }
    }
}

/// What the client of a transaction is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Fate {
    /// It is committed.
    Committed,
    /// It was given up, and never takes effect.
    GivenUp,
    /// It may have been committed.
    Unknown,
}

/// The fate of a transaction whose claim could not be created, by what was found under the name
/// after that. `any_unanswered`: a creation before had no answer.
pub(crate) fn fate(found: Standing, any_unanswered: bool) -> Fate {
    match found {
        // A name is random, and freed only after the records were sent on.
        Standing::Transaction | Standing::Nothing => Fate::Committed,
        Standing::Abort if any_unanswered => Fate::Unknown,
        Standing::Abort => Fate::GivenUp,
    }
}

/// What is done with a pointer that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum OnPointer {
    /// Its client may still be creating the claim.
    Wait,
    /// The claim's name is occupied with an abort, and looked at again.
    Occupy,
    /// The records are sent on, then the pointer is removed, then the claim freed.
    SendOn,
    /// The pointer is removed. An abort claim stays: a slow client must not create its name.
    Drop,
}

/// What to do with a pointer at its `receives`th receive.
pub(crate) fn on_pointer(found: Standing, receives: u64, guards: Guards) -> OnPointer {
    match found {
        Standing::Transaction => OnPointer::SendOn,
        Standing::Abort => OnPointer::Drop,
        Standing::Nothing if receives < POINTER_RECEIVES => OnPointer::Wait,
        Standing::Nothing if guards.has(Guard::AbortClaim) => OnPointer::Occupy,
        Standing::Nothing => OnPointer::Drop,
    }
}
