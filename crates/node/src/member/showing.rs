//! What a read is answered from: committed state, with the unsettled operations over it where it is
//! an eventual one.
//!
//! A member's thread gathers it; the caller's thread answers, so that a long Select holds nobody
//! up.
//!
//! Invariants:
//! - W1 operations and snapshot are of one moment: an operation leaves when its settlement is
//!   applied.

use std::sync::Arc;

use bytes::Bytes;
use fader_chain::{Operation, Register, View};
use fader_services::level::{self, Receipt};
use fader_services::service::{Service, Sight};
use fader_services::simpledb::{self, Answered, Error, Request, SimpleDb, Tentative};
use fader_services::{CollectionId, ViewError};

use super::call::Call;
use super::context::domain_of;
use crate::storage::engine::Snapshot;

/// What a read may be answered from.
pub(crate) enum Showing {
    /// The committed state.
    Snapshot(Snapshot),
    /// The same with what is not settled over it.
    Tentative(Snapshot, Box<Tentative>),
    /// One item.
    Item(Snapshot, Box<Item>),
    /// The answer, with what is told of it: the state was no engine's.
    Answered(Box<Result<(Answered, Receipt), Error>>),
}

/// What members show of one item.
pub(crate) struct Item {
    /// What is committed of it.
    pub(crate) committed: Register,
    /// The same with what is not settled.
    pub(crate) shown: Register,
}

impl Item {
    /// What is committed of the item whose place a request asked to be told, if it did and the
    /// domain is there.
    pub(crate) fn committed(view: &dyn View, call: &Call) -> Result<Option<Item>, ViewError> {
        if call.demand.level == level::Level::Default {
            return Ok(None);
        }
        let Some(entry) = domain_of(view, call)? else {
            return Ok(None);
        };
        let Sight::Register(key) = SimpleDb::sight(&call.request, entry.collection) else {
            return Ok(None);
        };
        let committed = register(view, &key)?;
        let shown = committed.clone();
        Ok(Some(Item { committed, shown }))
    }

    /// What is told of an answer about it.
    pub(crate) fn receipt(&self, request: &Request) -> Receipt {
        let stamp = self.shown.newest();
        let version = self.committed.version;
        Receipt {
            stamp: Some(stamp).filter(|stamp| *stamp != Default::default()),
            version: Some(version).filter(|version| *version != Default::default()),
            tentative: simpledb::is_tentative(request, &self.committed, &self.shown),
            ..Receipt::default()
        }
    }
}

impl Showing {
    /// Nothing can be shown: the answer says why.
    pub(crate) fn failed(error: impl Into<Error>) -> Showing {
        Showing::Answered(Box::new(Err(error.into())))
    }

    /// What an eventual read of one member is answered from: `operations` gives those that are not
    /// settled of the registers from one key to another.
    pub(crate) fn eventual(
        snapshot: Snapshot,
        collection: CollectionId,
        request: &Request,
        operations: impl FnOnce(&[u8], &[u8]) -> Vec<Arc<Operation>>,
    ) -> Result<Showing, ViewError> {
        match SimpleDb::sight(request, collection) {
            Sight::Register(key) => {
                let committed = register(&*snapshot, &key)?;
                let mut shown = committed.clone();
                let end = [&key[..], &[0]].concat();
                let operations = operations(&key, &end);
                operations
                    .iter()
                    .for_each(|it| shown.merge(&it.ops, it.stamp));
                let item = Item { committed, shown };
                Ok(Showing::Item(snapshot, Box::new(item)))
            }
            Sight::Registers(start, end) => {
                let operations = operations(&start, &end);
                let operations = operations.iter().map(|operation| &**operation);
                let tentative = Tentative::of(&*snapshot, operations)?;
                Ok(Showing::Tentative(snapshot, Box::new(tentative)))
            }
            // What is counted and listed is committed (2.7).
            Sight::Rows(_) => Ok(Showing::Snapshot(snapshot)),
        }
    }
}

fn register(view: &dyn View, key: &Bytes) -> Result<Register, ViewError> {
    let stored = view.get(key)?;
    let register = stored.map(Register::decode).transpose()?;
    Ok(register.unwrap_or_default())
}
