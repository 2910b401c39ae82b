//! How a request is refused that no service has answered: what its caller does next, and why.

use fader_services::catalog;
use fader_services::request::{Refusal as Refused, ServiceName};
use fader_services::service::Trouble;
use fader_services::{Failure, Reason};

use crate::status::HealthCause;

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

    /// What a member's health says.
    pub(crate) fn of_health(kind: Kind, cause: &HealthCause) -> Self {
        Refusal::of_store(kind, cause.to_string())
    }

    /// The same of a member that has no company: there is no other to ask.
    pub(crate) fn of_lone(self) -> Self {
        match (self.kind, self.reason) {
            (Kind::Elsewhere, Reason::NoMember) => Refusal::new(Kind::Again, Reason::NoWrites),
            (Kind::Elsewhere, reason) => Refusal::new(Kind::Again, reason),
            _ => self,
        }
    }

    /// The same in the words of the service whose request is refused.
    pub(crate) fn of_service(&self, service: ServiceName) -> Refused {
        service.word(Trouble::Unavailable {
            reason: self.reason,
            words: self.to_string(),
        })
    }

    /// What another process said that did nothing.
    pub(crate) fn told(failure: &Failure) -> Self {
        Refusal {
            kind: Kind::Elsewhere,
            reason: failure.reason(),
            words: Some(failure.to_string().into()),
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
            Of::TooOld(_) | Of::TooFar(_) | Of::NameUsed(_) => {
                Refusal::new(Kind::Never, Reason::NameTooOld)
            }
        }
    }
}

/// What another process is told that may ask elsewhere.
impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Failure::Later {
            reason: refusal.reason,
            words: refusal.to_string(),
        }
    }
}

impl From<Refusal> for catalog::Refusal {
    fn from(refusal: Refusal) -> Self {
        catalog::Refusal::Unavailable {
            reason: refusal.reason,
            words: refusal.to_string(),
        }
    }
}

#[cfg(test)]
mod tests;
