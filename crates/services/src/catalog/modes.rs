//! The modes of collections, and how they change (docs/internals/protocol/reconfiguration.md,
//! section 9).
//!
//! The chain keeps the mode that counts ([`ModeState`]). A collection's entry in the catalog
//! repeats it for those who ask by name, changed by the same entries of the log. A change that
//! takes more than one entry has a marker, by which the head finds it, also after a failover.
//!
//! ```text
//! marker := 'h' collection:u64be -> account:bytes  name:bytes  kind     (`NameBuf::put`)
//! ```

use bytes::Bytes;
use fader_chain::{Change, DecodeError, ModeState, Reader};

use crate::catalog::domains::{collection, put_entry};
use crate::catalog::{DomainEntry, Name, NameBuf, Refusal};
use crate::request;
use crate::{CollectionId, Direction, KeyBuilder, Mode, Rule, SYSTEM, Table, View, ViewError};

/// A domain that is on its way to `strong`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrainingDomain {
    /// Its collection.
    pub collection: CollectionId,
    /// What it is called.
    pub name: NameBuf,
}

/// The domains that are on their way to `strong`, by collection.
///
/// # Errors
/// [`ViewError`] when the store cannot be read.
pub fn draining(view: &dyn View) -> Result<Vec<DrainingDomain>, ViewError> {
    let prefix = KeyBuilder::new(SYSTEM, Table::Closing);
    let (start, end) = (prefix.clone().build(), prefix.build_end());
    view.scan(&start, &end, Direction::Forward)
        .map(|pair| {
            let (key, value) = pair?;
            let collection = key[start.len()..].try_into();
            let collection = collection.map_err(|_| DecodeError::new("a draining collection"))?;
            let mut reader = Reader::new(value);
            let draining = DrainingDomain {
                collection: CollectionId(u64::from_be_bytes(collection)),
                name: NameBuf::read(&mut reader)?,
            };
            reader.end()?;
            Ok(draining)
        })
        .collect()
}

/// Begins to give a domain another mode, or does it where one entry is enough. `abandon`: it closes
/// without the members that are absent (MD-4).
pub(crate) fn set(
    view: &dyn View,
    name: Name<'_>,
    mode: Mode,
    abandon: bool,
) -> Result<Vec<Change>, Refusal> {
    if !mode.is_at_rest() || (abandon && mode != Mode::Strong) {
        return Err(Rule::Abandon.into());
    }
    let entry = collection(view, name)?;
    let entry = entry.ok_or_else(|| Refusal::NoSuchDomain(name.name.to_owned()))?;
    request::check_mode(view, name, entry.collection, mode)?;
    let standing = ModeState::of(view, entry.collection.0)?;
    let next = match mode {
        // MD-3, MD-4: not at once, but when what was taken is settled.
        Mode::Strong if entry.mode.settles_eventual() => Mode::Draining,
        mode => mode,
    };
    let is_awaited = entry.mode == Mode::Draining && !standing.is_abandoned;
    if next == entry.mode.promised() && !(abandon && is_awaited) {
        return Ok(Vec::new());
    }
    Ok(turn(name, &entry, next, abandon))
}

/// The next step of a draining domain: it becomes strong, and then needs to keep no marks. No
/// command: only the chain knows when each may be decided (MD-4, MD-6).
///
/// # Errors
/// [`ViewError`] when the store cannot be read.
pub fn close_collection(view: &dyn View, id: CollectionId) -> Result<Vec<Change>, ViewError> {
    let mut draining = draining(view)?.into_iter();
    let Some(draining) = draining.find(|draining| draining.collection == id) else {
        return Ok(Vec::new());
    };
    let Some(entry) = collection(view, draining.name.name())? else {
        return Ok(Vec::new());
    };
    let next = match entry.mode {
        Mode::Draining => Mode::Drained,
        _ => Mode::Strong,
    };
    Ok(turn(draining.name.name(), &entry, next, false))
}

/// All that an entry changes which gives a domain the mode `next`.
fn turn(name: Name<'_>, entry: &DomainEntry, next: Mode, abandon: bool) -> Vec<Change> {
    let collection = entry.collection;
    let key = marker_key(collection);
    let marker = match next {
        Mode::Draining | Mode::Drained => {
            let mut value = Vec::new();
            name.put(&mut value);
            Change::Put {
                key,
                value: Bytes::from(value),
            }
        }
        _ => Change::Remove { key },
    };
    vec![
        put_entry(
            name,
            &DomainEntry {
                mode: next,
                ..entry.clone()
            },
        ),
        marker,
        Change::set_mode(collection.0, next, abandon),
    ]
}

/// What a deleted domain leaves of its mode: nothing.
pub(super) fn forget(entry: &DomainEntry) -> Vec<Change> {
    match entry.mode {
        Mode::Strong => Vec::new(),
        _ => vec![
            Change::Remove {
                key: marker_key(entry.collection),
            },
            Change::set_mode(entry.collection.0, Mode::Strong, false),
        ],
    }
}

fn marker_key(collection: CollectionId) -> Bytes {
    KeyBuilder::new(SYSTEM, Table::Closing)
        .raw(&collection.0.to_be_bytes())
        .build()
}
