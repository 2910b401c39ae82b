//! CreateDomain, DeleteDomain, ListDomains and DomainMetadata.

use std::fmt::Display;

use bytes::Bytes;
use fader_chain::{ChainId, Change};

use crate::catalog::{AccountId, DomainPlacement, Name, State};
use crate::level::DefaultConsistency;
use crate::simpledb::counters;
use crate::simpledb::{
    BoxUsage, Code, Context, CostedReply, DomainMetadata, Error, Limits, PageToken, Reply, Request,
    token, validate,
};
use crate::{CollectionId, Decision, Mode, Reason, View, catalog, exports};

const PAGE_DOMAINS_MAX: i64 = 100;

/// Creates a domain; one that is there already stays as it is.
pub(crate) fn create(
    view: &dyn View,
    context: &Context<'_>,
    domain: &str,
    mode: Option<Mode>,
    preference: Option<DefaultConsistency>,
) -> Result<(BoxUsage, Vec<Change>), Error> {
    validate::domain_name(domain)?;
    validate::creation_mode(mode)?;
    if let Some(entry) = catalog::domain(view, context.account, domain)? {
        check_same(domain, "mode", mode, Some(entry.mode.promised()))?;
        check_same(domain, "preference", preference, entry.preference)?;
        return Ok((BoxUsage::DOMAIN, Vec::new()));
    }
    if context.limits.domains_per_account <= catalog::domain_count(view, context.account)? {
        let message = "Number of domains limit exceeded.";
        return Err(Error::new(Code::NumberDomainsExceeded, message));
    }
    let mode = mode.unwrap_or_default();
    let name = Name::domain(context.account, domain);
    let (_, changes) = catalog::create(view, name, mode, preference)?;
    Ok((BoxUsage::DOMAIN, changes))
}

/// Decides what a request does to names, on the system chain of a cluster that has its domains on
/// `chains` others. That is the first step of a creation or a deletion, which others finish
/// (`catalog/placement.rs`). Nothing of requests that do nothing to names.
pub fn decide_names(
    view: &dyn View,
    account: &AccountId,
    limits: &Limits,
    chains: u32,
    request: &Request,
) -> Option<Decision<Result<CostedReply, Error>>> {
    // One that the system chain has itself comes and goes in one step.
    if let Ok(Some(_)) = catalog::domain(view, account, request.domain()?) {
        return None;
    }
    let changes = match request {
        Request::CreateDomain {
            domain,
            mode,
            preference,
        } => begin(view, account, limits, chains, domain, *mode, *preference),
        Request::DeleteDomain { domain } => end(view, account, domain),
        _ => return None,
    };
    Some(match changes {
        Ok(changes) => Decision {
            outcome: Ok(CostedReply {
                reply: Reply::Done,
                box_usage: BoxUsage::DOMAIN,
            }),
            changes,
        },
        Err(error) => Decision {
            outcome: Err(error),
            changes: Vec::new(),
        },
    })
}

/// Begins to create a domain; whether one that is there is as it is asked for, its own chain says.
fn begin(
    view: &dyn View,
    account: &AccountId,
    limits: &Limits,
    chains: u32,
    domain: &str,
    mode: Option<Mode>,
    preference: Option<DefaultConsistency>,
) -> Result<Vec<Change>, Error> {
    validate::domain_name(domain)?;
    validate::creation_mode(mode)?;
    let name = Name::domain(account, domain);
    match catalog::placed(view, name)? {
        Some(DomainPlacement {
            state: State::Deleting,
            ..
        }) => return Err(Error::later(Reason::DomainDeleting)),
        Some(_) => return Ok(Vec::new()),
        None => {}
    }
    if limits.domains_per_account <= catalog::domain_count(view, account)? {
        let message = "Number of domains limit exceeded.";
        return Err(Error::new(Code::NumberDomainsExceeded, message));
    }
    let mode = mode.unwrap_or_default();
    let entered = catalog::enter(view, name, mode, preference, chains, Bytes::new())?;
    Ok(entered)
}

/// Begins to delete a domain.
fn end(view: &dyn View, account: &AccountId, domain: &str) -> Result<Vec<Change>, Error> {
    validate::domain_name(domain)?;
    let name = Name::domain(account, domain);
    Ok(match catalog::placed(view, name)? {
        Some(placed) if placed.state != State::Deleting => {
            check_exports(view, placed.chain, placed.entry.collection)?;
            catalog::condemn(name, &placed)
        }
        _ => Vec::new(),
    })
}

/// A property that is asked of a domain must be the one it has.
fn check_same<P: PartialEq + Display>(
    domain: &str,
    property: &str,
    asked: Option<P>,
    created: Option<P>,
) -> Result<(), Error> {
    let Some(asked) = asked.filter(|asked| created.as_ref() != Some(asked)) else {
        return Ok(());
    };
    let created = created.map_or("none".to_owned(), |created| created.to_string());
    Err(Error::new(
        Code::ConditionalCheckFailed,
        format!(
            "Conditional check failed. Domain ({domain}) has {property} ({created}) \
             but was expected with ({asked})"
        ),
    ))
}

/// Deletes a domain at once, with all that it holds: its keys are left to be purged.
pub(crate) fn delete(
    view: &dyn View,
    context: &Context<'_>,
    domain: &str,
) -> Result<(BoxUsage, Vec<Change>), Error> {
    validate::domain_name(domain)?;
    let name = Name::domain(context.account, domain);
    let Some(entry) = catalog::collection(view, name)? else {
        return Ok((BoxUsage::DOMAIN, Vec::new()));
    };
    check_exports(view, ChainId::SYSTEM, entry.collection)?;
    let changes = catalog::delete(view, name, &entry)?;
    Ok((BoxUsage::DOMAIN, changes))
}

/// A domain stays as long as an export of it has not ended (EX-1).
fn check_exports(view: &dyn View, chain: ChainId, collection: CollectionId) -> Result<(), Error> {
    match exports::is_under_way(view, chain, collection)? {
        false => Ok(()),
        true => Err(Error::new(
            Code::DeleteConflict,
            "The domain cannot be deleted: an export of it has not ended.",
        )),
    }
}

/// A page of the account's domains.
pub(crate) fn list(
    view: &dyn View,
    context: &Context<'_>,
    max_count: Option<i64>,
    next_token: Option<&PageToken>,
) -> Result<CostedReply, Error> {
    let count = max_count.unwrap_or(PAGE_DOMAINS_MAX);
    if !(1..=PAGE_DOMAINS_MAX).contains(&count) {
        let message = format!(
            "Value ({count}) for parameter MaxNumberOfDomains is invalid. \
             MaxNumberOfDomains must be between 1 and {PAGE_DOMAINS_MAX}."
        );
        return Err(Error::new(Code::InvalidParameterValue, message));
    }
    let count = usize::try_from(count).expect("it is from 1 to 100");
    let after = next_token
        .map(|sealed| token::open(sealed, token::Kind::Domains, context.account, b""))
        .transpose()?;
    let mut names = catalog::domain_names(view, context.account, after.as_deref(), count + 1)?;
    let has_more = count < names.len();
    names.truncate(count);
    let next_token = names
        .last()
        .filter(|_| has_more)
        .map(|last| token::seal(token::Kind::Domains, context.account, b"", last.as_bytes()));
    let reply = Reply::Domains { names, next_token };
    Ok(CostedReply {
        reply,
        box_usage: BoxUsage::DOMAIN_READ,
    })
}

/// What the domain counts, at the time of the request.
pub(crate) fn metadata(
    view: &dyn View,
    context: &Context<'_>,
    domain: &str,
) -> Result<CostedReply, Error> {
    validate::domain_name(domain)?;
    let collection = context.collection.ok_or_else(Error::no_such_domain)?;
    let counters = counters::counters(view, collection)?.ok_or_else(Error::no_such_domain)?;
    let reply = Reply::Metadata(DomainMetadata {
        item_count: counters.item_count,
        item_names_bytes: counters.item_names_bytes,
        attribute_name_count: counters.attribute_name_count,
        attribute_names_bytes: counters.attribute_names_bytes,
        attribute_value_count: counters.attribute_value_count,
        attribute_values_bytes: counters.attribute_values_bytes,
        timestamp_s: context.now_ms / 1000,
    });
    Ok(CostedReply {
        reply,
        box_usage: BoxUsage::DOMAIN_READ,
    })
}
