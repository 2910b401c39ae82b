//! The names of domains in the system collection, and the collections they stand for.
//!
//! Numbers are varints. A garbage marker is its key alone.
//!
//! ```text
//! domain entry := version:u8=2  collection:varint  mode:u8  preference:bytes (text; empty: none)
//! ```
//!
//! Version 1 ends with the collection: strong, and no preference. Version 3 is that of a domain on
//! another chain (`placed.rs`).
//!
//! Invariants:
//! - N1 'c' of an account counts its entries in 'd'.
//! - N2 a collection id is given once: 'n' is greater than every id ever given.

use bytes::Bytes;
use fader_chain::{Change, DecodeError, Reader, put_bytes, put_varint};

use crate::catalog::access_key::decode_preference;
use crate::catalog::placed::{VERSION_PLACED, is_shown};
use crate::catalog::{AccountId, DomainEntry, modes};
use crate::level::Preference;
use crate::{CollectionId, Direction, KeyBuilder, Mode, SYSTEM, Table, View, ViewError};

const VERSION: u8 = 2;
const VERSION_WITHOUT_MODE: u8 = 1;

/// The domain of `account` called `name`, if it is on this chain.
///
/// # Errors
/// [`ViewError`] when the store cannot be read.
pub fn domain(
    view: &dyn View,
    account: &AccountId,
    name: &str,
) -> Result<Option<DomainEntry>, ViewError> {
    match view.get(&domain_key(account, name))? {
        Some(value) if value.first() != Some(&VERSION_PLACED) => Ok(Some(decode_entry(value)?)),
        _ => Ok(None),
    }
}

/// Puts the entry of a domain.
pub(super) fn put_entry(account: &AccountId, name: &str, entry: &DomainEntry) -> Change {
    Change::Put {
        key: domain_key(account, name),
        value: encode_entry(entry),
    }
}

fn encode_entry(entry: &DomainEntry) -> Bytes {
    let mut value = vec![VERSION];
    put_varint(&mut value, entry.collection.0);
    value.push(entry.mode.byte());
    let preference = entry.preference.map(|preference| preference.to_string());
    put_bytes(&mut value, preference.unwrap_or_default().as_bytes());
    Bytes::from(value)
}

fn decode_entry(value: Bytes) -> Result<DomainEntry, DecodeError> {
    let mut reader = Reader::new(value);
    let version = reader.byte()?;
    let collection = CollectionId(reader.varint()?);
    let (mode, preference) = match version {
        VERSION_WITHOUT_MODE => (Mode::Strong, None),
        VERSION => (
            decode_mode(&mut reader)?,
            decode_preference(reader.bytes()?)?,
        ),
        _ => return Err(DecodeError::new("a domain entry's version")),
    };
    reader.end()?;
    Ok(DomainEntry {
        collection,
        mode,
        preference,
    })
}

pub(super) fn decode_mode(reader: &mut Reader) -> Result<Mode, DecodeError> {
    let mode = Mode::from_byte(reader.byte()?);
    mode.ok_or_else(|| DecodeError::new("a domain entry's mode"))
}

/// Up to `count` names of domains of `account` that come after `after`, in byte order.
pub(crate) fn domain_names(
    view: &dyn View,
    account: &AccountId,
    after: Option<&[u8]>,
    count: usize,
) -> Result<Vec<String>, ViewError> {
    let prefix = KeyBuilder::new(SYSTEM, Table::Domains).text(account.0.as_bytes());
    let name_at = prefix.clone().build().len();
    let start = match after {
        Some(name) => prefix.clone().raw(name).raw(&[0x00]),
        None => prefix.clone(),
    };
    let is_there = |pair: &Result<(Bytes, Bytes), ViewError>| {
        pair.as_ref().map_or(true, |(_, value)| is_shown(value))
    };
    view.scan(&start.build(), &prefix.build_end(), Direction::Forward)
        .filter(is_there)
        .take(count)
        .map(|pair| {
            let name = pair?.0.slice(name_at..);
            let name = String::from_utf8(name.into());
            Ok(name.map_err(|_| DecodeError::new("a domain's name"))?)
        })
        .collect()
}

/// How many domains `account` has.
pub(crate) fn domain_count(view: &dyn View, account: &AccountId) -> Result<u64, ViewError> {
    number(view, &count_key(account), 0)
}

/// Enters a domain that does not exist yet: its collection, and the changes of this collection.
pub(crate) fn create_domain(
    view: &dyn View,
    account: &AccountId,
    name: &str,
    (mode, preference): (Mode, Option<Preference>),
) -> Result<(CollectionId, Vec<Change>), ViewError> {
    let (collection, next) = next_collection(view)?;
    let count = domain_count(view, account)? + 1;
    let mut changes = vec![
        next,
        put_entry(
            account,
            name,
            &DomainEntry {
                collection,
                mode,
                preference,
            },
        ),
        put_number(count_key(account), count),
    ];
    if mode != Mode::Strong {
        changes.push(Change::turn(collection.0, mode, false));
    }
    Ok((collection, changes))
}

/// A collection's id that was never given, and the change that gives it.
pub(super) fn next_collection(view: &dyn View) -> Result<(CollectionId, Change), ViewError> {
    let next_key = KeyBuilder::new(SYSTEM, Table::NextCollection).build();
    let next = number(view, &next_key, SYSTEM.0 + 1)?;
    Ok((CollectionId(next), put_number(next_key, next + 1)))
}

/// Removes the entry of a domain that exists, and marks its collection as garbage.
pub(crate) fn delete_domain(
    view: &dyn View,
    account: &AccountId,
    name: &str,
    entry: &DomainEntry,
) -> Result<Vec<Change>, ViewError> {
    let count = domain_count(view, account)?.saturating_sub(1);
    let mut changes = modes::forget(entry);
    changes.extend([
        Change::Remove {
            key: domain_key(account, name),
        },
        put_number(count_key(account), count),
        Change::Put {
            key: garbage_key(entry.collection),
            value: Bytes::new(),
        },
    ]);
    Ok(changes)
}

/// The markers of deleted collections that may still have keys.
pub(crate) fn garbage(
    view: &dyn View,
) -> impl Iterator<Item = Result<(Bytes, CollectionId), ViewError>> {
    let prefix = KeyBuilder::new(SYSTEM, Table::Garbage);
    let (start, end) = (prefix.clone().build(), prefix.build_end());
    let id_at = start.len();
    view.scan(&start, &end, Direction::Forward)
        .map(move |pair| {
            let marker = pair?.0;
            let id = marker[id_at..].try_into();
            let id = id.map_err(|_| DecodeError::new("a garbage marker's collection"))?;
            Ok((marker, CollectionId(u64::from_be_bytes(id))))
        })
}

/// The key of the entry of the domain of `account` called `name`.
pub fn domain_key(account: &AccountId, name: &str) -> Bytes {
    KeyBuilder::new(SYSTEM, Table::Domains)
        .text(account.0.as_bytes())
        .raw(name.as_bytes())
        .build()
}

pub(super) fn count_key(account: &AccountId) -> Bytes {
    KeyBuilder::new(SYSTEM, Table::DomainCount)
        .raw(account.0.as_bytes())
        .build()
}

pub(super) fn garbage_key(collection: CollectionId) -> Bytes {
    KeyBuilder::new(SYSTEM, Table::Garbage)
        .raw(&collection.0.to_be_bytes())
        .build()
}

fn number(view: &dyn View, key: &[u8], absent: u64) -> Result<u64, ViewError> {
    let Some(value) = view.get(key)? else {
        return Ok(absent);
    };
    let mut reader = Reader::new(value);
    let number = reader.varint()?;
    reader.end()?;
    Ok(number)
}

pub(super) fn put_number(key: Bytes, number: u64) -> Change {
    let mut value = Vec::with_capacity(10);
    put_varint(&mut value, number);
    Change::Put {
        key,
        value: Bytes::from(value),
    }
}
