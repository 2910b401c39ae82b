//! Amazon SimpleDB (2009-04-15, and Query of 2007-11-07): what each action means.

mod box_usage;
mod error;
mod limits;
mod request;
#[allow(dead_code, reason = "the actions that page use it as they arrive")]
mod token;

pub use box_usage::BoxUsage;
pub use error::{Code, Error};
pub use limits::Limits;
pub use request::{
    Attribute, AttributeDelete, AttributePut, DomainMetadata, Expected, Item, ItemDelete, ItemPut,
    PageToken, Reply, Request,
};

use crate::catalog::AccountId;
use crate::{CollectionId, Decision, Pace, View, ViewError};
use fader_chain::Change;

/// What a decision or an answer knows beside the view.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// Who asks.
    pub account: &'a AccountId,
    /// The domain the request names, as the catalog knows it; `None` when it knows none, or the
    /// request names none.
    pub collection: Option<CollectionId>,
    /// Milliseconds since 1970, settled once by the member that decides.
    pub now_ms: u64,
    /// The limits in force.
    pub limits: &'a Limits,
    /// When to end a page.
    pub pace: &'a dyn Pace,
}

/// A reply with what it cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Answered {
    /// The reply.
    pub reply: Reply,
    /// The box usage to report.
    pub box_usage: BoxUsage,
}

/// Decides a request that may change state ([`Request::is_write`]).
///
/// `view` is the newest state of the log, pending entries included.
pub fn decide(
    view: &dyn View,
    context: &Context<'_>,
    request: &Request,
) -> Decision<Result<Answered, Error>> {
    let _ = (view, context, request);
    unimplemented!()
}

/// Answers a request that changes nothing, on a committed view.
///
/// # Errors
/// [`Error`] as SimpleDB words it.
pub fn answer(
    view: &dyn View,
    context: &Context<'_>,
    request: &Request,
) -> Result<Answered, Error> {
    let _ = (view, context, request);
    unimplemented!()
}

/// Changes that remove up to `batch` keys of deleted domains; none when nothing is left to sweep.
///
/// # Errors
/// [`ViewError`] when the store cannot be read.
pub fn sweep(view: &dyn View, batch: usize) -> Result<Vec<Change>, ViewError> {
    let _ = (view, batch);
    unimplemented!()
}
