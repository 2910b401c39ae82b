//! What a read is answered from: committed state, with the unsettled operations over it where it is
//! an eventual one.
//!
//! A member's thread gathers it; the caller's thread answers, so that a long scan holds no other
//! request up.
//!
//! Invariants:
//! - operations and snapshot are of one moment: an operation leaves when its settlement is
//!   applied.

use std::sync::Arc;

use bytes::Bytes;
use fader_chain::{Operation, Register, View};
use fader_services::level::{self, ReplyMetadata};
use fader_services::request::{Refusal as Refused, Reply as Answered};
use fader_services::service::Sight;
use fader_services::{Call, CollectionId, Tentative, ViewError};

use super::context::collection_of;
use crate::storage::engine::Snapshot;

/// What a read may be answered from.
pub(crate) enum ReadSource {
    /// The committed state.
    Snapshot(Snapshot),
    /// The same with what is not settled over it.
    Tentative(Snapshot, Box<Tentative>),
    /// One item.
    Item(Snapshot, Box<Item>),
    /// The answer, with what is told of it: the state was no engine's.
    Answered(Box<Result<(Answered, ReplyMetadata), Refused>>),
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
    /// collection is there.
    pub(crate) fn committed(view: &dyn View, call: &Call) -> Result<Option<Item>, ViewError> {
        if !is_asked(call) {
            return Ok(None);
        }
        let Some(entry) = collection_of(view, call)? else {
            return Ok(None);
        };
        let Sight::Register(key) = call.request.sight(entry.collection) else {
            return Ok(None);
        };
        let committed = register(view, &key)?;
        let shown = committed.clone();
        Ok(Some(Item { committed, shown }))
    }

    /// The metadata of an answer about it. A request without a level gets no stamp and no version:
    /// which path serves it depends on the writes of others that are not settled.
    pub(crate) fn metadata(&self, call: &Call) -> ReplyMetadata {
        let (stamp, version) = (self.shown.newest(), self.committed.version);
        ReplyMetadata {
            stamp: Some(stamp).filter(|stamp| is_asked(call) && *stamp != Default::default()),
            version: Some(version)
                .filter(|version| is_asked(call) && *version != Default::default()),
            tentative: call.request.is_tentative(&self.committed, &self.shown),
            ..ReplyMetadata::default()
        }
    }
}

impl ReadSource {
    /// Nothing can be shown: the answer says why.
    pub(crate) fn failed(refused: Refused) -> ReadSource {
        ReadSource::Answered(Box::new(Err(refused)))
    }

    /// What an eventual read of one member is answered from: `operations` gives those that are not
    /// settled of the registers from one key to another.
    pub(crate) fn eventual(
        snapshot: Snapshot,
        collection: CollectionId,
        call: &Call,
        operations: impl FnOnce(&[u8], &[u8]) -> Vec<Arc<Operation>>,
    ) -> Result<ReadSource, ViewError> {
        match call.request.sight(collection) {
            Sight::Register(key) => {
                let committed = register(&*snapshot, &key)?;
                let mut shown = committed.clone();
                let end = [&key[..], &[0]].concat();
                let operations = operations(&key, &end);
                operations
                    .iter()
                    .for_each(|it| shown.merge(&it.ops, it.stamp));
                let item = Item { committed, shown };
                Ok(ReadSource::Item(snapshot, Box::new(item)))
            }
            Sight::Registers(start, end) => {
                let operations = operations(&start, &end);
                let operations = operations.iter().map(|operation| &**operation);
                let tentative = Tentative::of(&*snapshot, operations)?;
                Ok(ReadSource::Tentative(snapshot, Box::new(tentative)))
            }
            // What is counted and listed is committed (2.7).
            Sight::Rows(_) => Ok(ReadSource::Snapshot(snapshot)),
        }
    }
}

/// Whether a request asked for stamp and version: it names a level.
fn is_asked(call: &Call) -> bool {
    call.consistency.level != level::Level::Default
}

fn register(view: &dyn View, key: &Bytes) -> Result<Register, ViewError> {
    let stored = view.get(key)?;
    let register = stored.map(Register::decode).transpose()?;
    Ok(register.unwrap_or_default())
}
