//! How a request is refused that no service has answered: what its caller does next, and why.

use fader_services::catalog;
use fader_services::request::{Refusal as Refused, ServiceName};
use fader_services::service::Trouble;
use fader_services::{Failure, Reason, Unavailable};

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

    /// What a member said that did nothing now, for this reason.
    pub(crate) fn of_member(reason: Reason, words: String) -> Self {
        Refusal {
            kind: Kind::Again,
            reason,
            words: Some(words.into()),
        }
    }

    /// What is known of a request when one more member has refused it. What may have taken effect
    /// at one may have done so in spite of what the others say.
    pub(crate) fn then(self, next: Refusal) -> Self {
        match self.kind {
            Kind::Unknown => self,
            _ => next,
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
        service.word(Trouble::Unavailable(self.into()))
    }

    /// What another process said that did nothing.
    pub(crate) fn told(failure: &Failure) -> Self {
        let words = match failure {
            Failure::Later(why) => why.detail.clone(),
            Failure::Unreadable(error) => Some(error.to_string().into()),
        };
        Refusal {
            kind: Kind::Elsewhere,
            reason: failure.reason(),
            words,
        }
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        Unavailable::from(self).fmt(f)
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

/// What a service, or another process, is told of it.
impl From<&Refusal> for Unavailable {
    fn from(refusal: &Refusal) -> Self {
        Unavailable {
            reason: refusal.reason,
            // The sentence of this one reason says it.
            is_unsure: refusal.kind == Kind::Unknown && refusal.reason != Reason::Lost,
            detail: refusal.words.clone(),
        }
    }
}

/// For a service to put into words.
impl From<Refusal> for Trouble {
    fn from(refusal: Refusal) -> Self {
        Trouble::Unavailable((&refusal).into())
    }
}

impl From<Refusal> for catalog::Refusal {
    fn from(refusal: Refusal) -> Self {
        catalog::Refusal::Unavailable((&refusal).into())
    }
}

#[cfg(test)]
mod tests;
