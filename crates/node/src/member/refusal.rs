//! How a request is refused that no service has answered: what its caller does next, and why.

use fader_chain::RequestId;
use fader_services::catalog;
use fader_services::level::show_name;
use fader_services::simpledb::{Code, Error};
use fader_services::{Reason, ViewError};

/// What the caller does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It asks elsewhere: nothing was done here, and another member may do it.
    Elsewhere,
    /// It asks again, later: nothing was done.
    Again,
    /// It looks, or asks under the request's name: the request may have taken effect, once.
    Unknown,
    /// Nothing: the same is refused for ever.
    Never,
}

/// A request that is not answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) kind: Kind,
    pub(crate) reason: Reason,
    /// What the store says itself; of all other reasons their sentence says it.
    words: Option<Box<str>>,
}

impl Refusal {
    /// For this reason.
    pub(crate) fn new(kind: Kind, reason: Reason) -> Self {
        Refusal {
            kind,
            reason,
            words: None,
        }
    }

    /// The store's own words.
    pub(crate) fn of_store(kind: Kind, words: impl Into<Box<str>>) -> Self {
        Refusal {
            kind,
            reason: Reason::Store,
            words: Some(words.into()),
        }
    }

    /// What another process said that did nothing: an older one has sentences alone.
    pub(crate) fn told(words: &str) -> Self {
        Refusal {
            kind: Kind::Elsewhere,
            reason: Reason::of(words),
            words: Some(words.into()),
        }
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.words.as_deref().unwrap_or(self.reason.sentence()))?;
        match (self.kind, self.reason) {
            (Kind::Unknown, Reason::Lost) | (Kind::Elsewhere | Kind::Again | Kind::Never, _) => {
                Ok(())
            }
            (Kind::Unknown, _) => f.write_str("; it is not known whether the write took effect"),
        }
    }
}

impl From<fader_chain::Refusal> for Refusal {
    fn from(refusal: fader_chain::Refusal) -> Self {
        use fader_chain::Refusal as Of;
        match refusal {
            Of::NotHead | Of::NotServing => Refusal::new(Kind::Elsewhere, Reason::NoMember),
            Of::NotDrained | Of::Denied => Refusal::new(Kind::Again, Reason::NoMember),
            Of::Quorum => Refusal::new(Kind::Again, Reason::TooFewMembers),
            Of::Overloaded => Refusal::new(Kind::Again, Reason::Overloaded),
            Of::TooOld(_) | Of::NameUsed(_) => Refusal::new(Kind::Never, Reason::NameTooOld),
        }
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        Error::unavailable(refusal.reason, &refusal.to_string())
    }
}

impl From<Refusal> for catalog::Refusal {
    fn from(refusal: Refusal) -> Self {
        catalog::Refusal::View(ViewError(refusal.to_string()))
    }
}

/// The refusal of a name that another request has (XO-6).
pub(crate) fn another_request() -> Error {
    Error::new(
        Code::InvalidParameterCombination,
        "The request's name is that of another request",
    )
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
