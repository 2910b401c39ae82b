//! A store of immutable blocks on the [`Disk`](super::disk::Disk) seam, beside the log and apart
//! from it.
//!
//! ```text
//! begin ─▶ Upload ─ push… ─▶ hold: append ─▶ one sync for all that wait ─▶ held
//!                                    │
//!                      segment ──────┘ full ─▶ list, sync ─▶ sealed ─▶ half dead ─▶ rewritten
//! ```
//!
//! A segment is a file of blocks; a sealed one ends with a list of them
//! (docs/reference/format/blocks.md). Where a block lies is known in memory only.
//!
//! Invariants:
//! - BSTORE-1 a block is *held*, and found by its id, only once its bytes, the header of its
//!   segment and the segment's name are durable.
//! - BSTORE-2 after an error a file is never written or synced again. The segment is given up and
//!   another one is begun, whose header says where the durable part of the given-up one ends. What
//!   stands behind it is void.
//! - BSTORE-3 a list is written when its blocks are durable. A segment's file is removed only when
//!   no block that is found by its id lies in it. The copies of those that did must be durable with
//!   their list.
//! - BSTORE-4 every byte that is returned was compared with its checksum in this read.
//! - at most the newest segment and one that is being rewritten are without a durable
//!   list. Exceptions are those that were given up, or whose process was killed or disk was full at
//!   their end.
//! - BSTORE-6 of a block's copies the one in the newest segment counts, so a repair goes to a newer
//!   segment than the damage.
//! - BSTORE-7 bytes that another member holds may take a quarter of the reserve. So a member that
//!   was away finds room for them, though its log or its dead blocks take more disk than the
//!   others'.
//!
//! Deliberately absent: rows, leases, and which blocks are free. The caller says. A removal is
//! known in memory only: after a start the caller removes again what no row names.

mod block;
mod budget;
mod buffers;
mod files;
mod format;
mod index;
mod opened;
mod pace;
mod reclaim;
mod recovery;
mod scan;
mod scrub;
mod segment;
mod store;
mod sums;
mod upload;

pub use block::{
    BLOCK_BYTES_MAX, Bad, Block, BlockBytes, BlockId, Damage, DiskError, Origin, PutError,
    ReadError,
};
pub use reclaim::Reclaimed;
pub use recovery::BlockRecovery;
pub use scrub::{Scrub, Scrubbed};
pub use store::{BlockCounters, BlockSettings, Blocks, HeldBlock};
pub use sums::PIECE_BYTES;
pub use upload::Upload;

#[cfg(test)]
mod tests;
