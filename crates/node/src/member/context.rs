//! What a request is about: its domain, as a view has it, and the level at which it is permitted.

use fader_chain::View;
use fader_services::catalog::{self, AccountId, DomainEntry};
use fader_services::level::{Demand, Level};
use fader_services::simpledb::{Context, Error, Limits, Request};
use fader_services::{Mode, Pace, ViewError};

use super::quorum::{Members, check_level};
use crate::clock;

/// Whether a request that changes nothing looks at single keys only.
pub(crate) fn reads_keys(request: &Request) -> bool {
    matches!(
        request,
        Request::GetAttributes { .. } | Request::DomainMetadata { .. }
    )
}

/// The domain of a request, if this chain has it, and it is the one that is meant.
pub(crate) fn domain_of(
    view: &dyn View,
    account: &AccountId,
    request: &Request,
    demand: &Demand,
) -> Result<Option<DomainEntry>, ViewError> {
    let Some(name) = request.domain() else {
        return Ok(None);
    };
    let entry = catalog::domain(view, account, name)?;
    let is_meant = |collection| demand.collection.is_none_or(|meant| meant == collection);
    Ok(entry.filter(|entry| is_meant(entry.collection)))
}

/// Runs `run` with what `account`'s request is about on `view`, at the level that it is permitted:
/// in a chain of so many members, within these limits, at this pace.
pub(crate) fn in_context<T>(
    view: &dyn View,
    account: &AccountId,
    (request, demand): (&Request, &Demand),
    (members, limits, pace): (Members, &Limits, &dyn Pace),
    run: impl FnOnce(&Context<'_>, Level) -> Result<T, Error>,
) -> Result<T, Error> {
    let entry = domain_of(view, account, request, demand)?;
    let level = check_level(entry.as_ref(), demand, request, members)?;
    let context = Context {
        account,
        collection: entry.as_ref().map(|entry| entry.collection),
        mode: entry.map_or(Mode::Strong, |entry| entry.mode),
        unsettled_items: 0,
        now_ms: clock::now_ms(),
        limits,
        pace,
    };
    run(&context, level)
}
