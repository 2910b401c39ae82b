//! What other members, and the node that takes an upload, ask of a member's blocks.
//!
//! Invariants:
//! - SH-1 a block is *gone* when its bytes are not here and the applied state, looked at after
//!   that, has no row of it. Of the member that sent the row's record that means: the row was
//!   removed, at or below the floor.

use fader_services::blocks;

use super::state::Shared;
use crate::peer::{BlockAsked, BlockTold};
use crate::storage::blocks::{BlockId, PutError, ReadError};

/// Blocks of one list.
const PAGE: usize = 1024;

impl Shared {
    /// Answers what is asked of its blocks. It waits for the disk.
    pub(crate) fn answer_blocks(&self, asked: &BlockAsked) -> BlockTold {
        match asked {
            BlockAsked::Hold(block, parts) => {
                if let Some(reason) = self.refusal() {
                    return BlockTold::Failed(reason);
                }
                match self.blocks.hold(*block, parts) {
                    Ok(()) => BlockTold::Held,
                    Err(PutError::Full) => BlockTold::Full,
                    Err(error) => BlockTold::Failed(error.to_string()),
                }
            }
            BlockAsked::List(after) => {
                let after = after.map(|id| id.0);
                match blocks::rows_from(&*self.engine.snapshot(), after, PAGE) {
                    Ok(rows) => {
                        let rows = rows.into_iter().map(|(id, row)| (BlockId(id), row.size));
                        BlockTold::Rows(rows.collect())
                    }
                    Err(error) => BlockTold::Failed(error.to_string()),
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
                    Ok(bytes) => BlockTold::Bytes(bytes.into()),
                    Err(ReadError::Absent(id)) => self.without(id),
                    Err(error) => {
                        tracing::error!(%error, "a block was not read");
                        BlockTold::Missing
                    }
                }
            }
        }
    }

    /// SH-1: the bytes are not here.
    fn without(&self, id: BlockId) -> BlockTold {
        match blocks::row(&*self.engine.snapshot(), id.0) {
            Ok(None) => BlockTold::Gone,
            Ok(Some(_)) | Err(_) => BlockTold::Missing,
        }
    }
}
