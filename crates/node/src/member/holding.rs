//! What the chain's thread does for blocks: a record waits for the bytes of its rows, and bytes go
//! whose rows are gone.
//!
//! Invariants:
//! - B1 a record that puts the row of a block is logged only when the block's bytes are durable
//!   here.

use fader_chain::{EntryId, Record};
use fader_services::blocks;

use super::thread::ChainThread;
use crate::storage::blocks::{BlockId, Standpoint};

impl ChainThread {
    /// Whether these records may be written (B1). The thread decided them when it held the bytes,
    /// and drops none between that and their end, so a failure is a broken invariant.
    pub(super) fn check_blocks(&self, records: &[Record]) -> Result<(), String> {
        let entries = records.iter().filter_map(|record| match record {
            Record::Entry(entry) => Some(entry),
            _ => None,
        });
        let changes = entries.flat_map(|entry| &entry.changes);
        let rows = changes.filter_map(blocks::new_row);
        match self.shared.blocks.are_held(rows) {
            true => Ok(()),
            false => Err("a record names a block whose bytes are not here".to_owned()),
        }
    }

    /// Frees and drops the bytes of blocks that have no row any more, between two turns (MB-1).
    pub(super) fn let_blocks_go(&mut self) {
        let standpoint = self.standpoint();
        let view = &**self.desk.snapshot();
        let has_row = |id: &BlockId| blocks::row(view, id.0).map_or(true, |row| row.is_some());
        self.shared.blocks.free(&standpoint, has_row);
        if self.rowless.is_empty() || self.shared.refusal().is_some() {
            return;
        }
        let rowless = self.rowless.iter().copied().filter(|id| !has_row(id));
        let rowless: Vec<BlockId> = rowless.collect();
        self.rowless.clear();
        if let Some(store) = self.shared.blocks.store() {
            store.remove(&rowless);
        }
    }

    /// A member that is alone is all that have to have applied an entry.
    fn standpoint(&self) -> Standpoint {
        let adopted = self.replica.configuration();
        let floor = match self.company {
            None => self.desk.applied(),
            Some(_) => adopted.map_or(EntryId::ZERO, |adopted| adopted.floor),
        };
        self.desk.standpoint(floor)
    }
}
