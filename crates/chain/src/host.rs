//! What a replica asks of the shell that drives it, in the middle of a step: reads, and the
//! service's decisions. Nothing here waits or changes anything outside.

use bytes::Bytes;

use crate::change::{Change, ElementOp};
use crate::entry::RequestId;
use crate::operation::Operation;
use crate::stamp::EntryId;
use crate::view::{View, ViewError};

/// Ties replies to requests; the shell hands them out, and never twice in one incarnation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CorrelationId(pub u64);

/// A decision of the service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decided {
    /// The outcome as kept for retries by name; empty where the request has none.
    pub result: Bytes,
    /// What it changes; empty for a refusal and for what changes nothing.
    pub changes: Vec<Change>,
    /// Whether the outcome depends on the state: then it is an entry even without changes (D12). A
    /// malformed request is refused in any state.
    pub depends_on_state: bool,
}

/// The service's last look at an eventual operation (PR-3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled {
    /// The surviving elements enter, with what derives from them.
    Apply(Vec<Change>),
    /// All of it is refused; the outcome says why.
    Refused(Bytes),
}

/// One write of an accepted eventual request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// The register.
    pub key: Bytes,
    /// What is done to it.
    pub ops: Vec<ElementOp>,
}

/// The shell, as a step sees it.
pub trait Host {
    /// The engine's state, as of the last entry reported by `Input::Applied`.
    fn committed(&self) -> &dyn View;

    /// Decides the strong request of `token` on the newest state of the log.
    ///
    /// # Errors
    /// [`ViewError`] when the store fails: the member stops.
    fn decide(&self, token: CorrelationId, newest: &dyn View) -> Result<Decided, ViewError>;

    /// Whether `result`, kept under the name of the request of `token` since before names had
    /// owners, is this request's and not another account's (XO-7).
    fn is_own(&self, token: CorrelationId, result: &Bytes) -> bool {
        let _ = (token, result);
        true
    }

    /// Decides the eventual request of `token` on what this member shows; `None` is a refusal that
    /// the shell answers.
    ///
    /// # Errors
    /// [`ViewError`] when the store fails.
    fn accept(
        &self,
        token: CorrelationId,
        tentative: &dyn View,
    ) -> Result<Option<Vec<Accepted>>, ViewError>;

    /// Looks at `operation`, reduced to its surviving elements, before it is settled.
    ///
    /// # Errors
    /// [`ViewError`] when the store fails.
    fn settle(&self, operation: &Operation, newest: &dyn View) -> Result<Settled, ViewError>;

    /// Keeps the engine's state as it is now, under its applied id, until the next call (JN-4).
    fn fix(&mut self);

    /// The state kept by `fix`, with its id.
    fn fixed(&self) -> Option<(EntryId, &dyn View)>;

    /// Lets go of the state kept by `fix`.
    fn unfix(&mut self);
}

/// What a request was answered before it was executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Refusal {
    /// This member is not the head; the head of its configuration is named. Nothing was done.
    NotHead,
    /// No lease, not ready, or joining. Nothing was done.
    NotServing,
    /// A window is full (BP). Nothing was done.
    Overloaded,
    /// The name's number is below the client's window (XO-4). Never executed under this name.
    TooOld(RequestId),
    /// The name's number is too far above those of its client (XO-8). Nothing was done.
    TooFar(RequestId),
    /// The name is of another request: an eventual write, where this one is strong, or the other
    /// way round (XO-6). Never executed under this name.
    NameUsed(RequestId),
    /// R or W is 0 or more than the members there are, or R is more than one for a query. Nothing
    /// was done.
    Quorum,
    /// A member may hold eventual operations of the collection that is to become strong, or has not
    /// applied all of their settlements (MD-4, MD-6). Nothing was done.
    NotDrained,
    /// The service refused the eventual write ([`Host::accept`]); why is the shell's to say.
    /// Nothing was done.
    Denied,
}
