//! How a request is refused, and how a client hears that it is not known what came of it.

use fader_chain::{Refusal, RequestId};
use fader_services::catalog;
use fader_services::level::show_name;
use fader_services::simpledb::{self, Code, Error};
use fader_services::{Reason, ViewError};

/// What a client is told whose request nobody took.
pub(crate) fn refused(refusal: Refusal) -> Error {
    match refusal {
        Refusal::NameUsed(_) => another_request(),
        Refusal::Quorum => unavailable(Reason::TooFewMembers.sentence()),
        Refusal::Overloaded => unavailable(Reason::Overloaded.sentence()),
        Refusal::TooOld(_) => unavailable(Reason::NameTooOld.sentence()),
        Refusal::NotHead | Refusal::NotServing | Refusal::NotDrained | Refusal::Denied => {
            unavailable(Reason::NoMember.sentence())
        }
    }
}

/// The refusal of a name that another request has (XO-6).
pub(crate) fn another_request() -> Error {
    Error::new(
        Code::InvalidParameterCombination,
        "The request's name is that of another request",
    )
}

/// The refusal while a node cannot say more.
pub(crate) fn unavailable(reason: &str) -> Error {
    Error {
        code: Code::ServiceUnavailable,
        message: format!(
            "Service AmazonSimpleDB is currently unavailable. Please try again later ({reason})"
        ),
        box_usage: simpledb::BoxUsage::default(),
    }
}

/// The same for the catalog.
pub(crate) fn catalog_unavailable(reason: &str) -> catalog::Refusal {
    catalog::Refusal::View(ViewError(reason.to_owned()))
}

/// What is said of a write that may have taken effect.
pub(crate) fn unknown(reason: &str) -> String {
    format!("{reason}; it is not known whether the write took effect")
}

/// ?17: what a session saw, or wrote, is nowhere any more.
pub(crate) fn lost(name: &RequestId) -> Error {
    Error::new(
        Code::TentativeValueLost,
        format!(
            "The write {} that this session made or was shown is held by no member that serves, \
             and was not settled. Write it again if it was yours, and go on with the token of this \
             reply, which does not name it any more.",
            show_name(name)
        ),
    )
}

/// AL-4: what a session saw committed is no part of the chain any more.
pub(crate) fn forgotten() -> Error {
    Error::new(
        Code::TentativeValueLost,
        "What this session has seen was lost with the disks that had it: an operator had the chain \
         go on with what another member had. Look at what there is, and go on with the token of \
         this reply.",
    )
}
