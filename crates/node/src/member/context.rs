//! What a request is about: its domain, as a view has it, and the level at which it is permitted.

use fader_chain::{ALL_GUARDS, ChainId, View};
use fader_services::catalog::{self, DomainEntry};
use fader_services::level::Level;
use fader_services::service::{Class, Service};
use fader_services::simpledb::{Context, Error, Limits, Request, SimpleDb};
use fader_services::{CollectionId, Mode, Pace, ViewError};

use super::call::Call;
use super::quorum::{Members, check_level};
use crate::clock;

/// Whether a request that changes nothing looks at single keys only.
pub(crate) fn reads_keys(request: &Request) -> bool {
    SimpleDb::class(request) == Class::Keyed
}

/// The domain of a request, if this chain has it, and it is the one that is meant.
pub(crate) fn domain_of(view: &dyn View, call: &Call) -> Result<Option<DomainEntry>, ViewError> {
    let Some(name) = call.request.domain() else {
        return Ok(None);
    };
    let entry = catalog::domain(view, &call.account, name)?;
    Ok(entry.filter(|entry| is_meant(call, entry.collection)))
}

/// Whether a collection is that of a request, by its id where that is known already.
pub(crate) fn is_meant(call: &Call, collection: CollectionId) -> bool {
    call.demand
        .collection
        .is_none_or(|meant| meant == collection)
}

/// Runs `run` with what a request is about on `view`, at the level that it is permitted:
/// in a chain of so many members, within these limits, at this pace.
pub(crate) fn in_context<T>(
    view: &dyn View,
    call: &Call,
    (members, limits, pace): (Members, &Limits, &dyn Pace),
    run: impl FnOnce(&Context<'_>, Level) -> Result<T, Error>,
) -> Result<T, Error> {
    let entry = domain_of(view, call)?;
    let level = check_level(entry.as_ref(), &call.demand, &call.request, members)?;
    let context = Context {
        account: &call.account,
        collection: entry.as_ref().map(|entry| entry.collection),
        mode: entry.map_or(Mode::Strong, |entry| entry.mode),
        unsettled_items: 0,
        now_ms: clock::now_ms(),
        limits,
        pace,
        chain: ChainId::SYSTEM,
        towards: None,
        guards: &ALL_GUARDS,
    };
    run(&context, level)
}
