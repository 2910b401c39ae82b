//! An export begins: what is asked for is judged, and counted.

use fader_chain::{ChainId, Change};

use crate::catalog::{self, AccountId, Name, State as Stage};
use crate::exports::rows::{
    Export, State, TIME_SHIFT, decode, exports_of, forgotten, put, waiting_key,
};
use crate::exports::{Code, Decided, Error, Limits, Reply, Start};
use crate::key::KeyRange;
use crate::service::Context;
use crate::{CollectionId, Direction, View, ViewError};

const TOKEN_BYTES_MAX: usize = 1024;
const PREFIX_CHARACTERS_MAX: usize = 850;
/// Exports that are forgotten with each that begins.
const FORGOTTEN: usize = 16;

/// Where a domain is, if it is there.
pub(crate) fn domain_at(
    view: &dyn View,
    name: Name<'_>,
) -> Result<Option<(ChainId, CollectionId)>, ViewError> {
    if let Some(entry) = catalog::collection(view, name)? {
        return Ok(Some((ChainId::SYSTEM, entry.collection)));
    }
    let placed = catalog::placed(view, name)?;
    let placed = placed.filter(|it| it.state == Stage::Live);
    Ok(placed.map(|it| (it.chain, it.entry.collection)))
}

/// Begins an export, or finds the one that the same request began.
pub(crate) fn start(view: &dyn View, context: &Context<'_, Limits>, start: &Start) -> Decided {
    check(start)?;
    let Context {
        account,
        now_ms,
        limits,
        ..
    } = *context;
    let recent = limits.day_ms.max(limits.token_ms);
    let from = u128::from(now_ms.saturating_sub(recent)) << TIME_SHIFT;
    let KeyRange { start: first, end } = exports_of(account, from);
    let (mut of_account, mut of_domain) = (0, 0);
    for pair in view.scan(&first, &end, Direction::Forward) {
        let export = decode(pair?.1)?;
        let age = now_ms.saturating_sub(export.requested_ms);
        if export.token == start.token && age < limits.token_ms {
            let is_same = export.domain == start.domain && export.place == start.place;
            return match is_same {
                true => Ok((Reply::Export(Box::new(export)), Vec::new())),
                false => Err(Error::new(
                    Code::Conflict,
                    "The client token was used for a request with other parameters.",
                )),
            };
        }
        if age < limits.day_ms {
            of_account += 1;
            of_domain += usize::from(export.domain == start.domain);
        }
    }
    let name = Name::domain(account, &start.domain);
    let (chain, collection) = domain_at(view, name)?.ok_or_else(Error::no_such_domain)?;
    if limits.of_domain <= of_domain || limits.of_account <= of_account {
        return Err(Error::new(
            Code::NumberExportsLimitExceeded,
            "The quota of exports within 24 hours was exceeded.",
        ));
    }
    let random = start.seed & ((1 << TIME_SHIFT) - 1);
    let export = Export {
        // As UUIDs of version 7 have it.
        id: (u128::from(now_ms) << TIME_SHIFT)
            | (random & !(0xf << 76) & !(0x3 << 62))
            | (7 << 76)
            | (2 << 62),
        token: start.token.clone(),
        domain: start.domain.clone(),
        region: start.region.clone(),
        chain,
        collection,
        place: start.place.clone(),
        requested_ms: now_ms,
        state: State::Pending,
        attempt: 0,
        lease_ms: 0,
    };
    let mut changes = forgotten(view, context, FORGOTTEN)?;
    changes.push(put(account, &export));
    changes.push(Change::Put {
        key: waiting_key(chain, collection, export.id),
        value: account.0.clone().into_bytes().into(),
    });
    Ok((Reply::Export(Box::new(export)), changes))
}

fn check(start: &Start) -> Result<(), Error> {
    if start.domain.is_empty() {
        return Err(Error::invalid("domainName"));
    }
    if !(1..=TOKEN_BYTES_MAX).contains(&start.token.len()) {
        return Err(Error::invalid("clientToken"));
    }
    let place = &start.place;
    if !is_bucket(&place.bucket) {
        return Err(Error::invalid("s3Bucket"));
    }
    let characters = place.prefix.as_ref().map(|it| it.chars().count());
    if characters.is_some_and(|count| !(1..=PREFIX_CHARACTERS_MAX).contains(&count)) {
        return Err(Error::invalid("s3KeyPrefix"));
    }
    match &place.owner {
        Some(owner) if !AccountId::is_valid(owner) => Err(Error::invalid("s3BucketOwner")),
        _ => Ok(()),
    }
}

/// `[a-z0-9A-Z]+[\.\-\w]*[a-z0-9A-Z]+`, of 3 to 255 characters.
fn is_bucket(name: &str) -> bool {
    let bytes = name.as_bytes();
    let is_end = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    (3..=255).contains(&bytes.len())
        && is_end(bytes.first())
        && is_end(bytes.last())
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_'))
}
