//! What a request is about: its collection, as a view has it, and the level at which it is
//! permitted.

use fader_chain::{ALL_GUARDS, ChainId, View};
use fader_services::catalog::{self, DomainEntry, Name};
use fader_services::level::Level;
use fader_services::request::{Limits, Refusal as Refused};
use fader_services::service::{Class, Context, Place, Trouble};
use fader_services::{Call, CollectionId, Mode, PageBudget, ViewError};

use super::quorum::{Members, check_level};
use crate::clock::Clock;
use crate::settings::Settings;

/// Where requests are decided and answered.
#[derive(Clone, Copy)]
pub(crate) struct Around<'a> {
    /// The chain.
    pub(crate) chain: ChainId,
    /// Its members.
    pub(crate) members: Members,
    pub(crate) clock: &'a Clock,
    pub(crate) limits: &'a Limits,
    pub(crate) pace: &'a dyn PageBudget,
}

impl<'a> Around<'a> {
    /// A member with these settings.
    pub(crate) fn new(settings: &'a Settings, members: Members, pace: &'a dyn PageBudget) -> Self {
        Around {
            chain: settings.placing.chain,
            members,
            clock: &settings.clock,
            limits: &settings.limits,
            pace,
        }
    }
}

/// Whether a request that changes nothing looks at single keys only.
pub(crate) fn reads_keys(call: &Call) -> bool {
    call.request.class() == Class::Keyed
}

/// The name of the collection that a request is about.
pub(crate) fn name_of(call: &Call) -> Option<Name<'_>> {
    let name = call.request.target().name();
    name.map(|(kind, name)| Name::new(kind, &call.account, name))
}

/// The name of the other collection that a request names, if it does.
pub(crate) fn towards_of(call: &Call) -> Option<Name<'_>> {
    let name = call.request.towards();
    name.map(|(kind, name)| Name::new(kind, &call.account, name))
}

/// The collection of a request, if this chain has it, and it is the one that is meant.
pub(crate) fn collection_of(
    view: &dyn View,
    call: &Call,
) -> Result<Option<DomainEntry>, ViewError> {
    let Some(name) = name_of(call) else {
        return Ok(None);
    };
    let entry = catalog::collection(view, name)?;
    Ok(entry.filter(|entry| is_meant(call, entry.collection)))
}

/// Whether a collection is that of a request, by its id where that is known already.
pub(crate) fn is_meant(call: &Call, collection: CollectionId) -> bool {
    call.consistency
        .collection
        .is_none_or(|meant| meant == collection)
}

/// Where the other collection is that a request names: where it says, else on this chain.
fn towards(view: &dyn View, call: &Call, chain: ChainId) -> Result<Option<Place>, ViewError> {
    let Some(name) = towards_of(call) else {
        return Ok(None);
    };
    if call.towards.is_some() {
        return Ok(call.towards);
    }
    let entry = catalog::collection(view, name)?;
    Ok(entry.map(|DomainEntry { collection, .. }| Place { chain, collection }))
}

/// What the store says that cannot be read, in the words of the request's service.
pub(crate) fn unreadable(call: &Call) -> impl Fn(ViewError) -> Refused {
    let service = call.request.service();
    move |error| service.word(Trouble::Unreadable(error))
}

/// Runs `run` with what a request is about on `view`, at the level that it is permitted.
pub(crate) fn in_context<T>(
    view: &dyn View,
    call: &Call,
    around: Around<'_>,
    run: impl FnOnce(&Context<'_, Limits>, Level) -> Result<T, Refused>,
) -> Result<T, Refused> {
    let Around {
        chain,
        members,
        clock,
        limits,
        pace,
    } = around;
    let entry = collection_of(view, call).map_err(unreadable(call))?;
    let (level, _) = check_level(entry.as_ref(), call, members)?;
    let context = Context {
        account: &call.account,
        collection: entry.as_ref().map(|entry| entry.collection),
        mode: entry.map_or(Mode::Strong, |entry| entry.mode),
        unsettled_items: 0,
        now_ms: clock.now_ms(),
        limits,
        pace,
        chain,
        towards: towards(view, call, chain).map_err(unreadable(call))?,
        guards: &ALL_GUARDS,
    };
    run(&context, level)
}
