//! Domains on other chains: what the system chain knows of them, and what their own chain does.
//!
//! In a cluster of several chains the system chain has the names, each with the chain and the
//! collection that it stands for; the domain's own chain has its entry, as the only chain of a
//! small cluster has, with its mode, its counters and its items.
//!
//! ```text
//! system:   placed := version:u8=3  state:u8  chain:varint  collection:varint
//!                     mode:u8  preference:bytes                  at the key of a domain's entry
//!           'u' collection:u64be -> account:bytes  name:bytes    a step that is not finished
//! its own:  'r' collection:u64be                                 a collection that was razed
//! ```
//!
//! A domain comes and goes in three steps, each an entry of one chain, idempotent by collection:
//!
//! ```text
//! create   enter: creating (system) ──▶ found (its own) ──▶ settle: live (system)
//! delete   condemn: deleting (system) ──▶ raze (its own) ──▶ settle: gone (system)
//! ```
//!
//! Invariants:
//! - D1 a domain is there from the settlement of its creation to that of its deletion: before the
//!   first nobody looks for it on its chain, and who does not find it on its chain finishes its
//!   deletion before saying so.
//! - D2 what was razed is never founded, however late that is asked for.
//! - D3 each step is done once, by whoever is first: repeated it changes nothing.
//! - D4 'u' has the collections that are creating or deleting.

use bytes::Bytes;
use fader_chain::{ChainId, Change, DecodeError, Reader, put_bytes, put_varint};

use crate::catalog::access_key::decode_preference;
use crate::catalog::domains::{
    count_key, decode_mode, domain, domain_count, domain_key, garbage_key, next_collection,
    put_entry, put_number,
};
use crate::catalog::{AccountId, DomainEntry, modes};
use crate::level::Preference;
use crate::simpledb::{Counters, metadata_key};
use crate::{CollectionId, Direction, KeyBuilder, Mode, SYSTEM, Table, View, ViewError};

/// The version of an entry that says where a domain is.
pub(super) const VERSION_PLACED: u8 = 3;

/// How far a domain on another chain has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Its chain may not have it yet.
    Creating,
    /// It is there.
    Live,
    /// Its chain may not have it any more.
    Deleting,
}

/// What the system chain knows of a domain on another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// How far it has come.
    pub state: State,
    /// Where it is.
    pub chain: ChainId,
    /// Its collection and, as it was created, its mode and preference.
    pub entry: DomainEntry,
}

/// A step across chains that somebody began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfinished {
    /// Whose domain.
    pub account: AccountId,
    /// Its name.
    pub name: String,
    /// What is known of it.
    pub placed: Placed,
}

/// Where the domain of `account` called `name` is, if it is on another chain.
///
/// # Errors
/// [`ViewError`] when the store cannot be read.
pub fn placed(
    view: &dyn View,
    account: &AccountId,
    name: &str,
) -> Result<Option<Placed>, ViewError> {
    match view.get(&domain_key(account, name))? {
        Some(value) if value.first() == Some(&VERSION_PLACED) => Ok(Some(decode(value)?)),
        _ => Ok(None),
    }
}

/// Whether the value of a domain's entry is that of one that is there for all to see.
pub(super) fn is_shown(value: &[u8]) -> bool {
    !matches!(value, [VERSION_PLACED, state, ..] if *state == State::Creating as u8)
}

/// All steps that are not finished, by collection (D4).
///
/// # Errors
/// [`ViewError`] when the store cannot be read.
pub fn unfinished(view: &dyn View) -> Result<Vec<Unfinished>, ViewError> {
    let prefix = KeyBuilder::new(SYSTEM, Table::Unfinished);
    let (start, end) = (prefix.clone().build(), prefix.build_end());
    let mut all = Vec::new();
    for pair in view.scan(&start, &end, Direction::Forward) {
        let mut reader = Reader::new(pair?.1);
        let (account, name) = (AccountId(text(&mut reader)?), text(&mut reader)?);
        reader.end()?;
        if let Some(placed) = placed(view, &account, &name)? {
            all.push(Unfinished {
                account,
                name,
                placed,
            });
        }
    }
    Ok(all)
}

/// Enters a domain that does not exist yet on one of `chains` chains, by turns.
pub(crate) fn enter(
    view: &dyn View,
    account: &AccountId,
    name: &str,
    properties: (Mode, Option<Preference>),
    chains: u32,
) -> Result<Vec<Change>, ViewError> {
    let (collection, next) = next_collection(view)?;
    let turn = (collection.0 - SYSTEM.0 - 1) % u64::from(chains.max(1));
    let (mode, preference) = properties;
    let placed = Placed {
        state: State::Creating,
        chain: ChainId(1 + u32::try_from(turn).expect("it is below the number of chains")),
        entry: DomainEntry {
            collection,
            mode,
            preference,
        },
    };
    Ok(vec![
        next,
        put(account, name, &placed),
        put_number(count_key(account), domain_count(view, account)? + 1),
        note(account, name, collection),
    ])
}

/// Begins to delete a domain.
pub(crate) fn condemn(account: &AccountId, name: &str, placed: &Placed) -> Vec<Change> {
    let condemned = Placed {
        state: State::Deleting,
        ..placed.clone()
    };
    vec![
        put(account, name, &condemned),
        note(account, name, placed.entry.collection),
    ]
}

/// The last step on the system chain: of a creation and of a deletion.
pub(super) fn settle(
    view: &dyn View,
    account: &AccountId,
    name: &str,
    (collection, is_gone): (CollectionId, bool),
) -> Result<Vec<Change>, ViewError> {
    let placed = placed(view, account, name)?;
    let Some(placed) = placed.filter(|it| it.entry.collection == collection) else {
        return Ok(Vec::new());
    };
    let done = Change::Remove {
        key: unfinished_key(collection),
    };
    Ok(match placed.state {
        // Who founded it may be late: it is being razed, or was founded by others.
        State::Creating if !is_gone => {
            let live = Placed {
                state: State::Live,
                ..placed
            };
            vec![put(account, name, &live), done]
        }
        State::Deleting if is_gone => {
            let count = domain_count(view, account)?.saturating_sub(1);
            let key = domain_key(account, name);
            vec![
                Change::Remove { key },
                put_number(count_key(account), count),
                done,
            ]
        }
        State::Creating | State::Live | State::Deleting => Vec::new(),
    })
}

/// The step of a creation on the domain's own chain.
pub(super) fn found(
    view: &dyn View,
    account: &AccountId,
    name: &str,
    entry: &DomainEntry,
) -> Result<Vec<Change>, ViewError> {
    let collection = entry.collection;
    let is_razed = view.get(&razed_key(collection))?.is_some();
    let is_there = view.get(&metadata_key(collection))?.is_some();
    if is_razed || is_there {
        return Ok(Vec::new());
    }
    let mut changes = vec![
        put_entry(account, name, entry),
        Counters::default().put(collection),
    ];
    if entry.mode != Mode::Strong {
        changes.push(Change::turn(collection.0, entry.mode, false));
    }
    Ok(changes)
}

/// The step of a deletion on the domain's own chain (D2). Its keys are left to be swept.
pub(super) fn raze(
    view: &dyn View,
    account: &AccountId,
    name: &str,
    collection: CollectionId,
) -> Result<Vec<Change>, ViewError> {
    if view.get(&razed_key(collection))?.is_some() {
        return Ok(Vec::new());
    }
    let mut changes = vec![Change::Put {
        key: razed_key(collection),
        value: Bytes::new(),
    }];
    let entry = domain(view, account, name)?.filter(|entry| entry.collection == collection);
    if let Some(entry) = entry {
        changes.extend(modes::forget(&entry));
        changes.extend([
            Change::Remove {
                key: domain_key(account, name),
            },
            Change::Remove {
                key: metadata_key(collection),
            },
            Change::Put {
                key: garbage_key(collection),
                value: Bytes::new(),
            },
        ]);
    }
    Ok(changes)
}

fn put(account: &AccountId, name: &str, placed: &Placed) -> Change {
    let DomainEntry {
        collection,
        mode,
        preference,
    } = &placed.entry;
    let mut value = vec![VERSION_PLACED, placed.state as u8];
    put_varint(&mut value, u64::from(placed.chain.0));
    put_varint(&mut value, collection.0);
    value.push(mode.byte());
    let preference = preference.map(|preference| preference.to_string());
    put_bytes(&mut value, preference.unwrap_or_default().as_bytes());
    Change::Put {
        key: domain_key(account, name),
        value: Bytes::from(value),
    }
}

fn decode(value: Bytes) -> Result<Placed, DecodeError> {
    let mut reader = Reader::new(value);
    reader.byte()?;
    let state = match reader.byte()? {
        0 => State::Creating,
        1 => State::Live,
        2 => State::Deleting,
        _ => return Err(DecodeError::new("how far a domain has come")),
    };
    let placed = Placed {
        state,
        chain: ChainId(reader.varint_u32()?),
        entry: DomainEntry {
            collection: CollectionId(reader.varint()?),
            mode: decode_mode(&mut reader)?,
            preference: decode_preference(reader.bytes()?)?,
        },
    };
    reader.end()?;
    Ok(placed)
}

fn note(account: &AccountId, name: &str, collection: CollectionId) -> Change {
    let mut value = Vec::new();
    put_bytes(&mut value, account.0.as_bytes());
    put_bytes(&mut value, name.as_bytes());
    Change::Put {
        key: unfinished_key(collection),
        value: Bytes::from(value),
    }
}

fn text(reader: &mut Reader) -> Result<String, DecodeError> {
    let text = String::from_utf8(reader.bytes()?.into());
    text.map_err(|_| DecodeError::new("a step across chains"))
}

fn unfinished_key(collection: CollectionId) -> Bytes {
    KeyBuilder::new(SYSTEM, Table::Unfinished)
        .raw(&collection.0.to_be_bytes())
        .build()
}

fn razed_key(collection: CollectionId) -> Bytes {
    KeyBuilder::new(SYSTEM, Table::Razed)
        .raw(&collection.0.to_be_bytes())
        .build()
}

#[cfg(test)]
mod tests;
