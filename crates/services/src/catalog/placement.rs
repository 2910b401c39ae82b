//! Collections on other chains: what the system chain knows of them, and what their own chain does.
//!
//! In a cluster of several chains the system chain has the names, each with the chain and the
//! collection that it stands for. The collection's own chain has its entry, with its mode and its
//! rows. The only chain of a small cluster has the same.
//!
//! ```text
//! system:   placed := version:u8=3  state:u8  chain:varint  collection:varint
//!                     mode:u8  preference:bytes  owner           at the key of a name's entry
//!           'u' collection:u64be -> name                         a step that is not finished
//! its own:  'r' collection:u64be                                 a collection that was razed
//! ```
//!
//! A collection comes and goes in three steps, each an entry of one chain, idempotent by id. They
//! are steps across chains as any (`steps`): 'u' is the record at the origin.
//!
//! ```text
//! create   enter: creating (system) ──▶ found (its own) ──▶ settle: live (system)
//! delete   condemn: deleting (system) ──▶ raze (its own) ──▶ settle: gone (system)
//! ```
//!
//! Where only its own chain knows whether a collection may go, that chain decides it. The end of
//! the name is a step of that chain, with a record there.
//!
//! ```text
//! end      end (its own) ──▶ free: gone (system)
//! ```
//!
//! Invariants:
//! - SAGA-1 a collection is there from the settlement of its creation to that of its deletion.
//!   Before the first no node looks for it on its chain. A node that does not find it on its chain
//!   finishes its deletion before it says so. One that its own chain ended is there until then. Its
//!   name is not given again before it is free.
//! - SAGA-2 what was razed, or has ended, is never founded, however late that is asked for.
//! - SAGA-3 each step is done once, by the first node that gets to it: repeated it changes nothing.
//! - SAGA-4 'u' has the collections that are creating or deleting.

use bytes::Bytes;
use fader_chain::{
    ALL_GUARDS, ChainId, Change, DecodeError, Guard, Guards, Reader, put_bytes, put_varint,
};

use crate::catalog::access_key::decode_preference;
use crate::catalog::domains::{
    buried, collection, decode_mode, name_key, next_collection, one_less, one_more, put_entry,
    put_owner, read_owner,
};
use crate::catalog::{AccountId, DomainEntry, Name, NameBuf, modes};
use crate::level::DefaultConsistency;
use crate::request::founded;
use crate::simpledb::metadata_key;
use crate::{CollectionId, Direction, KeyBuilder, Kind, Mode, SYSTEM, Table, View, ViewError};

/// The version of an entry that says where a domain is.
pub(super) const VERSION_PLACED: u8 = 3;

/// How far a collection on another chain has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Its chain may not have it yet.
    Creating,
    /// It is there.
    Live,
    /// Its chain may not have it any more.
    Deleting,
}

/// What the system chain knows of a collection on another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DomainPlacement {
    /// How far it has come.
    pub state: State,
    /// Where it is.
    pub chain: ChainId,
    /// Its collection and, as it was created, its mode and preference.
    pub entry: DomainEntry,
}

/// A step across chains that was begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingSaga {
    /// Whose step.
    pub name: NameBuf,
    /// What is known of it.
    pub placed: DomainPlacement,
}

/// Where the collection of this name is, if it is on another chain.
///
/// # Errors
/// [`ViewError`] when the store cannot be read.
pub fn placed(view: &dyn View, name: Name<'_>) -> Result<Option<DomainPlacement>, ViewError> {
    match view.get(&name_key(name))? {
        Some(value) if value.first() == Some(&VERSION_PLACED) => {
            Ok(Some(decode(name.kind, value)?.0))
        }
        _ => Ok(None),
    }
}

/// Where the collection of this name is, on any chain.
///
/// # Errors
/// [`ViewError`] when the store cannot be read.
pub fn located(view: &dyn View, name: Name<'_>) -> Result<Option<DomainPlacement>, ViewError> {
    let own = |entry| DomainPlacement {
        state: State::Live,
        chain: ChainId::SYSTEM,
        entry,
    };
    match placed(view, name)? {
        None => Ok(collection(view, name)?.map(own)),
        placed => Ok(placed),
    }
}

/// Whether the value of a domain's entry is that of one that is there for all to see.
pub(super) fn is_shown(value: &[u8]) -> bool {
    !matches!(value, [VERSION_PLACED, state, ..] if *state == State::Creating as u8)
}

/// All steps that are not finished, by collection (SAGA-4).
///
/// # Errors
/// [`ViewError`] when the store cannot be read.
pub fn unfinished(view: &dyn View) -> Result<Vec<PendingSaga>, ViewError> {
    let prefix = KeyBuilder::new(SYSTEM, Table::Unfinished);
    let (start, end) = (prefix.clone().build(), prefix.build_end());
    let mut all = Vec::new();
    for pair in view.scan(&start, &end, Direction::Forward) {
        let mut reader = Reader::new(pair?.1);
        let name = NameBuf::read(&mut reader)?;
        reader.end()?;
        if let Some(placed) = placed(view, name.name())? {
            all.push(PendingSaga { name, placed });
        }
    }
    Ok(all)
}

/// Enters a collection that does not exist yet on one of `chains` chains, by turns. `kept` is
/// beside its name in the list of its account, where that has one.
pub(crate) fn enter(
    view: &dyn View,
    name: Name<'_>,
    mode: Mode,
    preference: Option<DefaultConsistency>,
    chains: u32,
    kept: Bytes,
) -> Result<Vec<Change>, ViewError> {
    let (collection, next) = next_collection(view)?;
    let turn = (collection.0 - SYSTEM.0 - 1) % u64::from(chains.max(1));
    let placed = DomainPlacement {
        state: State::Creating,
        chain: ChainId(1 + u32::try_from(turn).expect("it is below the number of chains")),
        entry: DomainEntry {
            collection,
            mode,
            preference,
        },
    };
    let mut changes = vec![next, put(name, &placed)];
    changes.extend(one_more(view, name, kept)?);
    changes.push(note(name, collection));
    Ok(changes)
}

/// Begins to delete a collection.
pub(crate) fn condemn(name: Name<'_>, placed: &DomainPlacement) -> Vec<Change> {
    let condemned = DomainPlacement {
        state: State::Deleting,
        ..placed.clone()
    };
    vec![put(name, &condemned), note(name, placed.entry.collection)]
}

/// The last step on the system chain: of a creation and of a deletion.
pub(crate) fn settle(
    view: &dyn View,
    name: Name<'_>,
    collection: CollectionId,
    is_gone: bool,
) -> Result<Vec<Change>, ViewError> {
    let placed = placed(view, name)?;
    let Some(placed) = placed.filter(|it| it.entry.collection == collection) else {
        return Ok(Vec::new());
    };
    let done = Change::Remove {
        key: unfinished_key(collection),
    };
    Ok(match placed.state {
        // Who founded it may be late: it is being razed, or was founded by others.
        State::Creating if !is_gone => {
            let live = DomainPlacement {
                state: State::Live,
                ..placed
            };
            vec![put(name, &live), done]
        }
        State::Deleting if is_gone => {
            let mut changes = forget(view, name)?;
            changes.push(done);
            changes
        }
        State::Creating | State::Live | State::Deleting => Vec::new(),
    })
}

/// The step on the system chain of a collection that its own chain has ended: its name is free.
pub(crate) fn free(
    view: &dyn View,
    guards: &Guards,
    name: Name<'_>,
    collection: CollectionId,
) -> Result<Vec<Change>, ViewError> {
    let is_other =
        |it: DomainPlacement| it.entry.collection != collection && guards.has(Guard::S3FreesOwn);
    if placed(view, name)?.is_none_or(is_other) {
        return Ok(Vec::new());
    }
    let mut changes = forget(view, name)?;
    // Who founded it may not have said so yet.
    changes.push(Change::Remove {
        key: unfinished_key(collection),
    });
    Ok(changes)
}

/// A name is gone.
fn forget(view: &dyn View, name: Name<'_>) -> Result<Vec<Change>, ViewError> {
    let mut changes = vec![Change::Remove {
        key: name_key(name),
    }];
    changes.extend(one_less(view, name)?);
    Ok(changes)
}

/// The step of a creation on the collection's own chain.
pub(crate) fn found(
    view: &dyn View,
    name: Name<'_>,
    entry: &DomainEntry,
) -> Result<Vec<Change>, ViewError> {
    let collection = entry.collection;
    let is_razed = view.get(&razed_key(collection))?.is_some();
    let is_there = view.get(&metadata_key(collection))?.is_some();
    if is_razed || is_there {
        return Ok(Vec::new());
    }
    let mut changes = vec![put_entry(name, entry), founded(name.kind, collection)];
    if entry.mode != Mode::Strong {
        changes.push(Change::set_mode(collection.0, entry.mode, false));
    }
    Ok(changes)
}

/// The step of a deletion on the collection's own chain (SAGA-2). Its keys are left to be swept.
pub(crate) fn raze(
    view: &dyn View,
    name: Name<'_>,
    id: CollectionId,
) -> Result<Vec<Change>, ViewError> {
    if view.get(&razed_key(id))?.is_some() {
        return Ok(Vec::new());
    }
    let entry = collection(view, name)?.filter(|entry| entry.collection == id);
    let Some(entry) = entry else {
        return Ok(vec![razed(id)]);
    };
    let mut changes = end(&ALL_GUARDS, name, &entry);
    changes.extend(buried(id));
    Ok(changes)
}

/// Ends a collection by a decision of its own chain (SAGA-2). Its rows stay until it is [`buried`].
pub(crate) fn end(guards: &Guards, name: Name<'_>, entry: &DomainEntry) -> Vec<Change> {
    let mut changes = Vec::new();
    if guards.has(Guard::S3Ended) {
        changes.push(razed(entry.collection));
    }
    changes.extend(modes::forget(entry));
    changes.push(Change::Remove {
        key: name_key(name),
    });
    changes
}

fn razed(collection: CollectionId) -> Change {
    Change::Put {
        key: razed_key(collection),
        value: Bytes::new(),
    }
}

fn put(name: Name<'_>, placed: &DomainPlacement) -> Change {
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
    put_owner(name, &mut value);
    Change::Put {
        key: name_key(name),
        value: Bytes::from(value),
    }
}

/// Where a collection is, and who owns a name that is the cluster's.
pub(super) fn decode(
    kind: Kind,
    value: Bytes,
) -> Result<(DomainPlacement, Option<AccountId>), DecodeError> {
    let mut reader = Reader::new(value);
    reader.byte()?;
    let state = match reader.byte()? {
        0 => State::Creating,
        1 => State::Live,
        2 => State::Deleting,
        _ => return Err(DecodeError::new("how far a collection has come")),
    };
    let placed = DomainPlacement {
        state,
        chain: ChainId(reader.varint_u32()?),
        entry: DomainEntry {
            collection: CollectionId(reader.varint()?),
            mode: decode_mode(&mut reader)?,
            preference: decode_preference(reader.bytes()?)?,
        },
    };
    let owner = read_owner(kind, &mut reader)?;
    reader.end()?;
    Ok((placed, owner))
}

fn note(name: Name<'_>, collection: CollectionId) -> Change {
    let mut value = Vec::new();
    name.put(&mut value);
    Change::Put {
        key: unfinished_key(collection),
        value: Bytes::from(value),
    }
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
