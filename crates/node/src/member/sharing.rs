//! What other members, and the node that takes an upload, ask of a member's blocks.
//!
//! Invariants:
//! - a block is *gone* when its bytes are not here and the applied state, looked at after
//!   that, has no row of it. Of the member that sent the row's record that means: the row was
//!   removed, at or below the safe point.

use fader_services::{ErrorCode, blocks};

use super::state::Shared;
use crate::peer::{BlockAsked, BlockTold};
use crate::storage::blocks::{BlockId, Origin, PutError, ReadError};

/// Blocks of one list.
const PAGE: usize = 1024;

impl Shared {
    /// Answers what is asked of its blocks. It waits for the disk.
    pub(crate) fn answer_blocks(&self, asked: &BlockAsked) -> BlockTold {
        match asked {
            BlockAsked::Hold(block, bytes) => {
                if let Some(cause) = self.refusal() {
                    return failed(cause.code(), &cause);
                }
                let held = match bytes.block() == *block {
                    true => self.blocks.hold(bytes.clone(), Origin::Client),
                    false => Err(PutError::Differs(block.id)),
                };
                match held {
                    Ok(()) => BlockTold::Held,
                    Err(PutError::Full) => BlockTold::Full,
                    Err(error) => failed(error.code(), &error),
                }
            }
            BlockAsked::Gone(ids) => {
                let store = self.blocks.store();
                let is_here = |id| store.as_ref().is_some_and(|it| it.size(id).is_some());
                let absent: Vec<BlockId> = ids.iter().copied().filter(|it| !is_here(*it)).collect();
                let view = self.engine.snapshot();
                let is_gone = |id: &BlockId| matches!(blocks::row(&*view, id.0), Ok(None));
                BlockTold::These(absent.into_iter().filter(is_gone).collect())
            }
            BlockAsked::List(after) => {
                let after = after.map(|id| id.0);
                match blocks::rows_from(&*self.engine.snapshot(), after, PAGE) {
                    Ok(rows) => {
                        let rows = rows.into_iter().map(|(id, row)| (BlockId(id), row.size));
                        BlockTold::Rows(rows.collect())
                    }
                    Err(error) => failed(ErrorCode::StoreUnreadable, &error),
                }
            }
            BlockAsked::Fetch(id, range) => {
                let store = self.blocks.store();
                let size = store.as_ref().and_then(|store| store.size(*id));
                let range = range.clone().or(size.map(|size| 0..size));
                let (Some(store), Some(range)) = (store, range) else {
                    return self.without(*id);
                };
                match store.read(*id, range) {
                    Ok(bytes) => BlockTold::Bytes(bytes),
                    Err(ReadError::Absent(id)) => self.without(id),
                    Err(error) => {
                        tracing::error!(%error, "a block was not read");
                        BlockTold::Missing
                    }
                }
            }
        }
    }

    /// The bytes are not here.
    fn without(&self, id: BlockId) -> BlockTold {
        match blocks::row(&*self.engine.snapshot(), id.0) {
            Ok(None) => BlockTold::Gone,
            Ok(Some(_)) | Err(_) => BlockTold::Missing,
        }
    }
}

fn failed(code: ErrorCode, what: &dyn std::fmt::Display) -> BlockTold {
    BlockTold::Failed {
        code,
        detail: what.to_string(),
    }
}
