//! The names of collections in the system collection, and the collections they stand for.
//!
//! Numbers are varints. A garbage marker is its key alone.
//!
//! ```text
//! entry := version:u8=2  collection:varint  mode:u8  preference:bytes (text; empty: none)  owner
//! owner := account:bytes      of a kind whose names are the cluster's; else nothing
//! ```
//!
//! Version 1 ends with the collection: strong, and no preference. Version 3 is that of a collection
//! on another chain (`placed.rs`).
//!
//! Invariants:
//! - DOMAIN-1 'c' of an account counts its entries in 'd', 'o' those of another kind in 'e'.
//! - 'l' has the names of an account that are the cluster's, each with its entry in 'e'.
//! - DOMAIN-2 a collection id is given once: 'n' is greater than every id ever given.

use bytes::Bytes;
use fader_chain::{Change, DecodeError, Reader, put_bytes, put_varint};

use crate::catalog::access_key::{decode_preference, text};
use crate::catalog::placement::{VERSION_PLACED, is_shown};
use crate::catalog::{AccountId, DomainEntry, Name, NameBuf, modes, placement};
use crate::level::DefaultConsistency;
use crate::request::founded;
use crate::simpledb::metadata_key;
use crate::{
    CollectionId, Direction, KeyBuilder, Kind, Mode, SYSTEM, Table, View, ViewError, split_text,
};

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
    collection(view, Name::domain(account, name))
}

/// The collection of this name, if it is on this chain.
///
/// # Errors
/// [`ViewError`] when the store cannot be read.
pub fn collection(view: &dyn View, name: Name<'_>) -> Result<Option<DomainEntry>, ViewError> {
    match view.get(&name_key(name))? {
        Some(value) if value.first() != Some(&VERSION_PLACED) => {
            Ok(Some(decode_entry(name.kind, value)?.0))
        }
        _ => Ok(None),
    }
}

/// The account whose collection a name of the cluster stands for, on any chain.
///
/// # Errors
/// [`ViewError`] when the store cannot be read.
pub fn owner(view: &dyn View, name: Name<'_>) -> Result<Option<AccountId>, ViewError> {
    if !name.kind.is_of_cluster() {
        return Ok(None);
    }
    Ok(match view.get(&name_key(name))? {
        None => None,
        Some(value) if value.first() == Some(&VERSION_PLACED) => {
            placement::decode(name.kind, value)?.1
        }
        Some(value) => decode_entry(name.kind, value)?.1,
    })
}

/// Puts the entry of a collection.
pub(super) fn put_entry(name: Name<'_>, entry: &DomainEntry) -> Change {
    Change::Put {
        key: name_key(name),
        value: encode_entry(name, entry),
    }
}

fn encode_entry(name: Name<'_>, entry: &DomainEntry) -> Bytes {
    let mut value = vec![VERSION];
    put_varint(&mut value, entry.collection.0);
    value.push(entry.mode.byte());
    let preference = entry.preference.map(|preference| preference.to_string());
    put_bytes(&mut value, preference.unwrap_or_default().as_bytes());
    put_owner(name, &mut value);
    Bytes::from(value)
}

/// Appends the owner of a name that is the cluster's.
pub(super) fn put_owner(name: Name<'_>, value: &mut Vec<u8>) {
    if name.kind.is_of_cluster() {
        put_bytes(value, name.account.0.as_bytes());
    }
}

/// Reads what [`put_owner`] wrote.
pub(super) fn read_owner(
    kind: Kind,
    reader: &mut Reader,
) -> Result<Option<AccountId>, DecodeError> {
    kind.is_of_cluster()
        .then(|| text(reader.bytes()?, "the owner of a name").map(AccountId))
        .transpose()
}

fn decode_entry(kind: Kind, value: Bytes) -> Result<(DomainEntry, Option<AccountId>), DecodeError> {
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
    let owner = read_owner(kind, &mut reader)?;
    reader.end()?;
    let entry = DomainEntry {
        collection,
        mode,
        preference,
    };
    Ok((entry, owner))
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
    names(view, Kind::Domain, account, "", after, count)
}

/// Up to `count` names of collections of this kind of `account` that begin with `beginning` and
/// come after `after`, in byte order.
pub(crate) fn names(
    view: &dyn View,
    kind: Kind,
    account: &AccountId,
    beginning: &str,
    after: Option<&[u8]>,
    count: usize,
) -> Result<Vec<String>, ViewError> {
    let prefix = match kind {
        Kind::Domain => KeyBuilder::new(SYSTEM, Table::Domains).text(account.0.as_bytes()),
        kind => {
            let table = match kind.is_of_cluster() {
                true => Table::Owned,
                false => Table::Names,
            };
            of_kind(table, kind).text(account.0.as_bytes())
        }
    };
    let (keys, name_at) = (prefix.clone(), prefix.clone().build().len());
    let prefix = prefix.raw(beginning.as_bytes());
    let start = match after.filter(|name| beginning.as_bytes() <= *name) {
        Some(name) => keys.raw(name).raw(&[0x00]),
        None => prefix.clone(),
    };
    let mut names = Vec::new();
    for pair in view.scan(&start.build(), &prefix.build_end(), Direction::Forward) {
        let (key, value) = pair?;
        let name = String::from_utf8(key.slice(name_at..).into());
        let name = name.map_err(|_| DecodeError::new("the name of a collection"))?;
        let value = match kind.is_of_cluster() {
            false => Some(value),
            true => view.get(&name_key(Name::new(kind, account, &name)))?,
        };
        if value.is_some_and(|value| is_shown(&value)) {
            names.push(name);
        }
        if count <= names.len() {
            break;
        }
    }
    Ok(names)
}

/// All collections of a kind that are on this chain, by owner and name. Kinds whose names are the
/// cluster's, and domains, are not included.
pub(crate) fn collections(
    view: &dyn View,
    kind: Kind,
) -> impl Iterator<Item = Result<(NameBuf, CollectionId), ViewError>> {
    let prefix = of_kind(Table::Names, kind);
    let (start, end) = (prefix.clone().build(), prefix.build_end());
    let text_at = start.len();
    let pairs = view.scan(&start, &end, Direction::Forward);
    pairs.filter_map(move |pair| {
        let read = |(key, value): (Bytes, Bytes)| -> Result<_, ViewError> {
            if value.first() == Some(&VERSION_PLACED) {
                return Ok(None);
            }
            let wrong = || DecodeError::new("the name of a collection");
            let (account, name) = split_text(&key[text_at..]).ok_or_else(wrong)?;
            let text = |bytes: Vec<u8>| String::from_utf8(bytes).map_err(|_| wrong());
            let name = NameBuf {
                kind,
                account: AccountId(text(account)?),
                name: text(name.to_vec())?,
            };
            let (entry, _) = decode_entry(kind, value)?;
            Ok(Some((name, entry.collection)))
        };
        pair.and_then(read).transpose()
    })
}

/// The ids of all collections of a kind that are on this chain.
pub(crate) fn ids(
    view: &dyn View,
    kind: Kind,
) -> impl Iterator<Item = Result<CollectionId, ViewError>> {
    let prefix = of_kind(Table::Names, kind);
    let (start, end) = (prefix.clone().build(), prefix.build_end());
    let pairs = view.scan(&start, &end, Direction::Forward);
    pairs.filter_map(move |pair| {
        let read = |(_, value): (Bytes, Bytes)| -> Result<_, ViewError> {
            if value.first() == Some(&VERSION_PLACED) {
                return Ok(None);
            }
            Ok(Some(decode_entry(kind, value)?.0.collection))
        };
        pair.and_then(read).transpose()
    })
}

/// How many domains `account` has.
pub(crate) fn domain_count(view: &dyn View, account: &AccountId) -> Result<u64, ViewError> {
    count(view, Kind::Domain, account)
}

/// How many collections of this kind `account` has.
pub(crate) fn count(view: &dyn View, kind: Kind, account: &AccountId) -> Result<u64, ViewError> {
    number(view, &count_key(kind, account), 0)
}

/// Enters a collection whose name is free: its id, and the changes of this collection.
pub(crate) fn create(
    view: &dyn View,
    name: Name<'_>,
    mode: Mode,
    preference: Option<DefaultConsistency>,
) -> Result<(CollectionId, Vec<Change>), ViewError> {
    let (collection, next) = next_collection(view)?;
    let entry = DomainEntry {
        collection,
        mode,
        preference,
    };
    let mut changes = vec![next, put_entry(name, &entry)];
    changes.extend(one_more(view, name, Bytes::new())?);
    if mode != Mode::Strong {
        changes.push(Change::set_mode(collection.0, mode, false));
    }
    changes.push(founded(name.kind, collection));
    Ok((collection, changes))
}

/// What the account's count and list become when it has this name too. `kept` is beside the name in
/// the list of names that are the cluster's.
pub(super) fn one_more(
    view: &dyn View,
    name: Name<'_>,
    kept: Bytes,
) -> Result<Vec<Change>, ViewError> {
    let number = count(view, name.kind, name.account)? + 1;
    let mut changes = vec![put_number(count_key(name.kind, name.account), number)];
    if name.kind.is_of_cluster() {
        changes.push(Change::Put {
            key: owned_key(name),
            value: kept,
        });
    }
    Ok(changes)
}

/// What they become without it.
pub(super) fn one_less(view: &dyn View, name: Name<'_>) -> Result<Vec<Change>, ViewError> {
    let number = count(view, name.kind, name.account)?.saturating_sub(1);
    let mut changes = vec![put_number(count_key(name.kind, name.account), number)];
    if name.kind.is_of_cluster() {
        changes.push(Change::Remove {
            key: owned_key(name),
        });
    }
    Ok(changes)
}

/// What was entered beside a name that is the cluster's, of a collection on another chain.
///
/// # Errors
/// [`ViewError`] when the store cannot be read.
pub(crate) fn kept(view: &dyn View, name: Name<'_>) -> Result<Option<Bytes>, ViewError> {
    let kept = view.get(&owned_key(name))?;
    Ok(kept.filter(|kept| !kept.is_empty()))
}

/// A collection's id that was never given, and the change that gives it.
pub(super) fn next_collection(view: &dyn View) -> Result<(CollectionId, Change), ViewError> {
    let next_key = KeyBuilder::new(SYSTEM, Table::NextCollection).build();
    let next = number(view, &next_key, SYSTEM.0 + 1)?;
    Ok((CollectionId(next), put_number(next_key, next + 1)))
}

/// Removes the entry of a collection that exists, and marks it as garbage.
pub(crate) fn delete(
    view: &dyn View,
    name: Name<'_>,
    entry: &DomainEntry,
) -> Result<Vec<Change>, ViewError> {
    let mut changes = unname(view, name, entry)?;
    changes.extend(buried(entry.collection));
    Ok(changes)
}

/// Removes the entry of a collection that exists, whose rows stay until it is [`buried`].
pub(crate) fn unname(
    view: &dyn View,
    name: Name<'_>,
    entry: &DomainEntry,
) -> Result<Vec<Change>, ViewError> {
    let mut changes = modes::forget(entry);
    changes.push(Change::Remove {
        key: name_key(name),
    });
    changes.extend(one_less(view, name)?);
    Ok(changes)
}

/// What ends a collection on its chain: it is not there any more, and its rows are to be swept.
pub(crate) fn buried(collection: CollectionId) -> [Change; 2] {
    [
        Change::Put {
            key: garbage_key(collection),
            value: Bytes::new(),
        },
        Change::Remove {
            key: metadata_key(collection),
        },
    ]
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
    name_key(Name::domain(account, name))
}

/// The key of the entry of a collection.
pub fn name_key(name: Name<'_>) -> Bytes {
    let Name {
        kind,
        account,
        name,
    } = name;
    let keys = match kind {
        Kind::Domain => KeyBuilder::new(SYSTEM, Table::Domains).text(account.0.as_bytes()),
        kind if kind.is_of_cluster() => of_kind(Table::Names, kind).text(b""),
        kind => of_kind(Table::Names, kind).text(account.0.as_bytes()),
    };
    keys.raw(name.as_bytes()).build()
}

fn owned_key(name: Name<'_>) -> Bytes {
    of_kind(Table::Owned, name.kind)
        .text(name.account.0.as_bytes())
        .raw(name.name.as_bytes())
        .build()
}

fn count_key(kind: Kind, account: &AccountId) -> Bytes {
    let keys = match kind {
        Kind::Domain => KeyBuilder::new(SYSTEM, Table::DomainCount),
        kind => of_kind(Table::NameCount, kind),
    };
    keys.raw(account.0.as_bytes()).build()
}

fn of_kind(table: Table, kind: Kind) -> KeyBuilder {
    KeyBuilder::new(SYSTEM, table).raw(&[kind.byte()])
}

fn garbage_key(collection: CollectionId) -> Bytes {
    KeyBuilder::new(SYSTEM, Table::Garbage)
        .raw(&collection.0.to_be_bytes())
        .build()
}

/// A number that is stored, or what stands for one that is not.
pub(crate) fn number(view: &dyn View, key: &[u8], absent: u64) -> Result<u64, ViewError> {
    let Some(value) = view.get(key)? else {
        return Ok(absent);
    };
    let mut reader = Reader::new(value);
    let number = reader.varint()?;
    reader.end()?;
    Ok(number)
}

/// Stores a number.
pub(crate) fn put_number(key: Bytes, number: u64) -> Change {
    let mut value = Vec::with_capacity(10);
    put_varint(&mut value, number);
    Change::Put {
        key,
        value: Bytes::from(value),
    }
}
