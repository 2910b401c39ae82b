//! The rows of exports, and the names under which clients know them.

use bytes::Bytes;
use fader_chain::{ChainId, Change, DecodeError, Reader};

use crate::catalog::AccountId;
use crate::exports::{Error, Limits};
use crate::forward::wire::Wire as _;
use crate::key::KeyRange;
use crate::service::Context;
use crate::sqs::{wire_choice, wire_fields};
use crate::{CollectionId, Direction, KeyBuilder, SYSTEM, Table, View, ViewError};

const VERSION: u8 = 1;
/// Where the time stands in an id: above so many random bits.
pub(crate) const TIME_SHIFT: u32 = 80;

/// Where the objects of an export go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The bucket.
    pub bucket: String,
    /// Keys begin so.
    pub prefix: Option<String>,
    /// The account that must own the bucket.
    pub owner: Option<String>,
}
wire_fields!(Place {
    bucket,
    prefix,
    owner
});

/// What came of an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// Everything is there: the items, and the key of the manifest.
    Whole((u64, String)),
    /// It cannot be done: a code and a sentence.
    Failed((String, String)),
}
wire_choice!(Finding, "what came of an export", { 0 => Whole(it), 1 => Failed(it) });

/// How far an export has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing has worked on it yet.
    Pending,
    /// A process works on it, or did.
    Running,
    /// It has ended.
    Ended(Finding),
}
wire_choice!(State, "the state of an export", { 0 => Pending, 1 => Running, 2 => Ended(it) });

impl State {
    /// Whether nothing more will happen.
    pub fn has_ended(&self) -> bool {
        matches!(self, State::Ended(_))
    }
}

/// What is known of an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// Its id: when it was asked for, and random bits.
    pub id: u128,
    /// The client's word for it.
    pub token: String,
    /// The domain.
    pub domain: String,
    /// The region of its ARN.
    pub region: String,
    /// The domain's chain.
    pub chain: ChainId,
    /// The domain's collection.
    pub collection: CollectionId,
    /// Where the objects go.
    pub place: Place,
    /// When it was asked for, in milliseconds since 1970. Everything acknowledged before is in it.
    pub requested_ms: u64,
    /// How far it has come.
    pub state: State,
    /// The last attempt; 0 before the first.
    pub attempt: u32,
    /// Until when that has it, in milliseconds since 1970.
    pub lease_ms: u64,
}
wire_fields!(Export {
    id,
    token,
    domain,
    region,
    chain,
    collection,
    place,
    requested_ms,
    state,
    attempt,
    lease_ms,
});

impl Export {
    /// Whether an attempt may be claimed.
    pub(crate) fn is_free(&self, now_ms: u64) -> bool {
        !self.state.has_ended() && self.lease_ms <= now_ms
    }

    /// The key of an object of it: `PREFIX/AWSSimpleDB/EXPORT/DOMAIN/NAME`.
    pub fn key_of(&self, name: &str) -> String {
        let prefix = self.place.prefix.as_deref().unwrap_or_default();
        let slash = match prefix.is_empty() || prefix.ends_with('/') {
            true => "",
            false => "/",
        };
        let id = id_text(self.id);
        format!("{prefix}{slash}AWSSimpleDB/{id}/{}/{name}", self.domain)
    }
}

/// An id as a UUID.
pub fn id_text(id: u128) -> String {
    let hex = format!("{id:032x}");
    let parts = [
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..],
    ];
    parts.join("-")
}

/// The ARN of an export.
pub fn arn(account: &AccountId, export: &Export) -> String {
    format!(
        "arn:aws:sdb:{}:{}:domain/{}/export/{}",
        export.region,
        account.0,
        export.domain,
        id_text(export.id)
    )
}

/// The id in an ARN of this account's.
pub(crate) fn id_of_arn(arn: &str, account: &AccountId) -> Result<u128, Error> {
    if !(20..=2048).contains(&arn.len()) || !arn.starts_with("arn:") {
        return Err(Error::invalid("exportArn"));
    }
    let id = arn
        .rsplit_once("/export/")
        .map(|(_, id)| id.replace('-', ""));
    let id = id.filter(|id| id.len() == 32 && arn.contains(&*account.0));
    let id = id.and_then(|id| u128::from_str_radix(&id, 16).ok());
    id.ok_or_else(Error::no_such_export)
}

fn exports(account: &AccountId) -> KeyBuilder {
    KeyBuilder::new(SYSTEM, Table::Exports).text(account.0.as_bytes())
}

/// Exports of an account with ids from this one on.
pub(crate) fn exports_of(account: &AccountId, from: u128) -> KeyRange {
    KeyRange {
        start: export_key(account, from),
        end: exports(account).build_end(),
    }
}

pub(crate) fn export_key(account: &AccountId, id: u128) -> Bytes {
    exports(account).raw(&id.to_be_bytes()).build()
}

fn of_chain(chain: ChainId) -> KeyBuilder {
    KeyBuilder::new(SYSTEM, Table::UnfinishedExports).raw(&chain.0.to_be_bytes())
}

/// Exports that have not ended, of domains on this chain.
pub(crate) fn unfinished_of(chain: ChainId) -> KeyRange {
    of_chain(chain).build_range()
}

fn of_collection(chain: ChainId, collection: CollectionId) -> KeyBuilder {
    of_chain(chain).raw(&collection.0.to_be_bytes())
}

pub(crate) fn waiting_key(chain: ChainId, collection: CollectionId, id: u128) -> Bytes {
    let keys = of_collection(chain, collection);
    keys.raw(&id.to_be_bytes()).build()
}

/// Whether an export of a domain has not ended (EXPORT-1).
///
/// # Errors
/// [`ViewError`] when the store cannot be read.
pub(crate) fn is_under_way(
    view: &dyn View,
    chain: ChainId,
    collection: CollectionId,
) -> Result<bool, ViewError> {
    let keys = of_collection(chain, collection);
    let (start, end) = (keys.clone().build(), keys.build_end());
    let first = view.scan(&start, &end, Direction::Forward).next();
    Ok(first.transpose()?.is_some())
}

/// The id at the end of a key.
pub(crate) fn id_of(key: &[u8]) -> Result<u128, DecodeError> {
    let id = key.last_chunk::<16>();
    let id = id.ok_or_else(|| DecodeError::new("the id of an export"))?;
    Ok(u128::from_be_bytes(*id))
}

/// The account of an export that has not ended.
pub(crate) fn account(value: &Bytes) -> Result<AccountId, DecodeError> {
    let text = std::str::from_utf8(value).map_err(|_| DecodeError::new("an account"))?;
    Ok(AccountId(text.to_owned()))
}

pub(crate) fn get(
    view: &dyn View,
    account: &AccountId,
    id: u128,
) -> Result<Option<Export>, ViewError> {
    let row = view.get(&export_key(account, id))?;
    Ok(row.map(decode).transpose()?)
}

pub(crate) fn put(account: &AccountId, export: &Export) -> Change {
    let mut value = vec![VERSION];
    export.put(&mut value);
    Change::Put {
        key: export_key(account, export.id),
        value: Bytes::from(value),
    }
}

pub(crate) fn decode(value: Bytes) -> Result<Export, DecodeError> {
    let mut reader = Reader::new(value);
    if reader.byte()? != VERSION {
        return Err(DecodeError::new("the version of an export"));
    }
    let export = <Export as crate::forward::wire::Wire>::read(&mut reader)?;
    reader.end()?;
    Ok(export)
}

/// Up to `count` exports of the account that are not known any more.
pub(crate) fn forgotten(
    view: &dyn View,
    context: &Context<'_, Limits>,
    count: usize,
) -> Result<Vec<Change>, ViewError> {
    let known = context.now_ms.saturating_sub(context.limits.kept_ms);
    let start = export_key(context.account, 0);
    let end = export_key(context.account, u128::from(known) << TIME_SHIFT);
    let mut changes = Vec::new();
    for pair in view.scan(&start, &end, Direction::Forward).take(count) {
        let (key, value) = pair?;
        if decode(value)?.state.has_ended() {
            changes.push(Change::Remove { key });
        }
    }
    Ok(changes)
}
