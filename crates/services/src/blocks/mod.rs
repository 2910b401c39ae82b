//! Blocks of objects: their rows on the chain that has their bytes, and how those end.
//!
//! ```text
//! bytes are held ─▶ Put ─▶ row with a lease ─▶ a version or a part names the block
//!                                  │ the lease is over
//!                                  ▼
//!                       fence(attempt), on the bucket's chain
//!                         ├─ kept ─────▶ EndLeases
//!                         ├─ fenced ───▶ Remove
//!                         ├─ closed ───▶ floor, barrier ─▶ EndAttempt ─▶ kept, or the row goes
//!                         └─ no answer ─▶ asked again
//! garbage of a bucket ─ the wait ─▶ Remove, on each chain ─▶ the garbage's own row goes
//! ```
//!
//! A row is in the system collection of its chain. A record that puts one waits for the block's
//! bytes (BGATE-1, `gate` and `intake`).
//!
//! Invariants:
//! - SR-1 a row is made by a put alone. The end of a lease changes a row that is there, of the put
//!   that was asked about; it never makes one.
//! - SR-2 a row with a lease has a row of that lease, at its end, and no other has one.
//! - SR-3 a put that finds a row changes nothing: no lease is renewed.
//!
//! Deliberately absent: bytes, and who has them; clocks of the wait; who asks, and when (node).

mod collect;
mod gate;
mod intake;
mod rows;
mod seam;
mod wait;

pub use crate::s3::command::Owner;
pub use crate::s3::reply::Fenced;
pub use crate::s3::rows::{Attempt, Block, BucketId, Content, GarbageId};
pub use collect::{
    GarbageAt, Removal, attempt, check_attempt, close_attempt, end_attempt, fate, fence, garbage,
    notes, removal, verdicts,
};
pub use gate::{Gate, Standpoint};
pub use intake::{Intake, rows_of, rows_of_entries, rows_of_part};
pub use rows::{
    Lease, LeaseAt, Row, block_of, due, garbage_of, leased, may_have_row, new_row, row, rows_from,
};
pub use seam::{Blocks, Done, Refusal};
pub use wait::{Found, Known, Seen, Waits};

use bytes::Bytes;
use fader_chain::{ChainId, Change};

use crate::sqs::{wire_choice, wire_fields};
use crate::{View, ViewError};
use rows::{block_key, encode, lease_key};

/// Rows of one command.
pub const ROWS_MAX: usize = 1024;

/// The limits of blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The lease of a block, from its row on, in milliseconds.
    pub lease_ms: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            lease_ms: 24 * 3_600_000,
        }
    }
}

/// A block whose row is put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewRow {
    /// The block's id.
    pub id: u128,
    /// Its bytes.
    pub size: u32,
    /// CRC-32C of all its bytes.
    pub sum: u32,
}
wire_fields!(NewRow { id, size, sum });

/// Puts rows of blocks of one attempt, whose bytes are held where they are decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Put {
    /// Whose blocks they are.
    pub owner: Owner,
    /// The chain of the owner's bucket.
    pub chain: ChainId,
    /// Random, of each put another: it names the rows that this one makes.
    pub number: u64,
    /// The blocks.
    pub blocks: Vec<NewRow>,
}
wire_fields!(Put {
    owner,
    chain,
    number,
    blocks
});

/// What is asked of a chain about its blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Puts rows.
    Put(Put),
    /// Takes rows away.
    Remove(Vec<u128>),
    /// Ends leases: of these blocks, where the row is of this put.
    EndLeases(Vec<(u128, u64)>),
}
wire_choice!(Command, "a command about blocks", {
    0 => Put(it), 1 => Remove(it), 2 => EndLeases(it),
});

impl Command {
    /// How many rows it is about.
    pub(crate) fn count(&self) -> usize {
        match self {
            Command::Put(it) => it.blocks.len(),
            Command::Remove(ids) => ids.len(),
            Command::EndLeases(ids) => ids.len(),
        }
    }
}

/// What a command changes on the newest state of a chain.
///
/// # Errors
/// [`ViewError`] when the store cannot be read.
pub(crate) fn decide(
    view: &dyn View,
    limits: &Limits,
    now_ms: u64,
    command: &Command,
) -> Result<Vec<Change>, ViewError> {
    let mut changes = Vec::new();
    match command {
        Command::Put(put) => {
            for block in &put.blocks {
                if row(view, block.id)?.is_some() {
                    continue;
                }
                let lease = Lease::Until(now_ms.saturating_add(limits.lease_ms));
                changes.extend(put_row(put, *block, lease));
            }
        }
        Command::Remove(ids) => {
            for id in ids {
                changes.extend(removed(view, *id)?);
            }
        }
        Command::EndLeases(ids) => {
            for (id, number) in ids {
                let Some(row) = row(view, *id)?.filter(|row| row.number == *number) else {
                    continue;
                };
                let Some(ended) = end_lease(*id, &row) else {
                    continue;
                };
                changes.push(with_lease(*id, row, Lease::Ended));
                changes.push(ended);
            }
        }
    }
    Ok(changes)
}

/// What takes a row away, if it is there.
///
/// # Errors
/// [`ViewError`] when the store cannot be read.
pub(crate) fn removed(view: &dyn View, id: u128) -> Result<Vec<Change>, ViewError> {
    let Some(row) = row(view, id)? else {
        return Ok(Vec::new());
    };
    let key = block_key(id);
    let removed = std::iter::once(Change::Remove { key });
    Ok(removed.chain(end_lease(id, &row)).collect())
}

/// What ends the lease of a row now, if there is one, for an attempt that is closed. Its row is
/// found by those who look for leases that are over.
///
/// # Errors
/// [`ViewError`] when the store cannot be read.
pub(crate) fn closed(view: &dyn View, now_ms: u64, id: u128) -> Result<Vec<Change>, ViewError> {
    let row = row(view, id)?;
    let Some((row, end_ms)) = row.and_then(|row| match row.lease {
        Lease::Until(end_ms) => Some((row, end_ms)),
        Lease::Ended | Lease::Closed(_) => None,
    }) else {
        return Ok(Vec::new());
    };
    if end_ms <= now_ms {
        return Ok(vec![with_lease(id, row, Lease::Closed(end_ms))]);
    }
    let begun = Change::Put {
        key: lease_key(now_ms, id),
        value: Bytes::new(),
    };
    let closed = with_lease(id, row, Lease::Closed(now_ms));
    let changes = end_lease(id, &row).into_iter();
    Ok(changes.chain([closed, begun]).collect())
}

fn with_lease(id: u128, row: Row, lease: Lease) -> Change {
    Change::Put {
        key: block_key(id),
        value: encode(&Row { lease, ..row }),
    }
}

fn put_row(put: &Put, block: NewRow, lease: Lease) -> Vec<Change> {
    let row = Row {
        size: block.size,
        sum: block.sum,
        owner: put.owner,
        chain: put.chain,
        number: put.number,
        lease,
    };
    let mut changes = vec![Change::Put {
        key: block_key(block.id),
        value: encode(&row),
    }];
    if let Lease::Until(end_ms) = lease {
        changes.push(Change::Put {
            key: lease_key(end_ms, block.id),
            value: Bytes::new(),
        });
    }
    changes
}

/// The row of a row's lease goes, if there is one (SR-2).
fn end_lease(id: u128, row: &Row) -> Option<Change> {
    match row.lease {
        Lease::Until(end_ms) | Lease::Closed(end_ms) => Some(Change::Remove {
            key: lease_key(end_ms, id),
        }),
        Lease::Ended => None,
    }
}

#[cfg(test)]
mod tests;
