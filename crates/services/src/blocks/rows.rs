//! Where the rows of blocks lie.
//!
//! ```text
//! system := 'b' id:u128be                    a block that this chain has
//!         | 'q' end:u64be id:u128be          its lease, as long as that is not ended
//! ```

use bytes::Bytes;
use fader_chain::{ChainId, Change, DecodeError, Reader};

use crate::blocks::{GarbageAt, Owner};
use crate::forward::wire::Wire;
use crate::s3::layout::garbage_of as garbage_row;
use crate::sqs::{wire_choice, wire_fields};
use crate::{Direction, KeyBuilder, SYSTEM, Table, View, ViewError};

const VERSION: u8 = 1;

/// Until when a block is kept that nothing names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lease {
    /// In milliseconds since 1970.
    Until(u64),
    /// A version or a part names it.
    Ended,
    /// It is over since then, and its attempt is closed (SE-5).
    Closed(u64),
}
wire_choice!(Lease, "the lease of a block", { 0 => Until(it), 1 => Ended, 2 => Closed(it) });

/// The row of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its bytes.
    pub size: u32,
    /// CRC-32C of all its bytes.
    pub sum: u32,
    /// Whose it is.
    pub owner: Owner,
    /// The chain of the owner's bucket.
    pub chain: ChainId,
    /// The number of the put that made the row.
    pub number: u64,
    /// Its lease.
    pub lease: Lease,
}

impl Row {
    /// Whether its attempt is closed, and may end when all is settled that members held of it.
    pub fn is_closed(&self) -> bool {
        matches!(self.lease, Lease::Closed(_))
    }
}
wire_fields!(Row {
    lease,
    size,
    sum,
    owner,
    chain,
    number,
});

pub(super) fn block_key(id: u128) -> Bytes {
    KeyBuilder::with_rest(SYSTEM, Table::Blocks, size_of::<u128>())
        .raw(&id.to_be_bytes())
        .build()
}

pub(super) fn lease_key(end_ms: u64, id: u128) -> Bytes {
    KeyBuilder::new(SYSTEM, Table::BlockLeases)
        .raw(&end_ms.to_be_bytes())
        .raw(&id.to_be_bytes())
        .build()
}

pub(super) fn encode(row: &Row) -> Bytes {
    let mut out = vec![VERSION];
    row.put(&mut out);
    Bytes::from(out)
}

fn decode(value: Bytes) -> Result<Row, DecodeError> {
    let mut reader = Reader::new(value);
    if reader.byte()? != VERSION {
        return Err(DecodeError::new("the version of a block's row"));
    }
    let row = Row::read(&mut reader)?;
    reader.end()?;
    Ok(row)
}

/// The table of a key of the system collection.
fn table_of(key: &[u8]) -> Option<u8> {
    let (collection, rest) = key.split_first_chunk::<8>()?;
    (*collection == SYSTEM.0.to_be_bytes())
        .then(|| rest.first().copied())
        .flatten()
}

fn id_in(key: &[u8]) -> Result<u128, DecodeError> {
    let id = key.last_chunk::<16>();
    let id = id.ok_or_else(|| DecodeError::new("the id in a block's row"))?;
    Ok(u128::from_be_bytes(*id))
}

/// The block whose row has this key; nothing of any other key.
pub fn block_of(key: &[u8]) -> Option<u128> {
    match table_of(key) {
        Some(table) if table == Table::Blocks as u8 => id_in(key).ok(),
        _ => None,
    }
}

/// The block whose row a change makes; nothing of a change that makes none, such as one that ends
/// or closes a lease.
pub fn new_row(change: &Change) -> Option<u128> {
    match change {
        Change::Put { key, value } => {
            let id = block_of(key)?;
            let row = decode(value.clone()).ok()?;
            matches!(row.lease, Lease::Until(_)).then_some(id)
        }
        _ => None,
    }
}

/// The garbage whose row has this key; nothing of any other key.
pub fn garbage_of(key: &[u8]) -> Option<GarbageAt> {
    match table_of(key) {
        Some(table) if table == Table::BucketGarbage as u8 => {
            let (collection, id) = garbage_row(key).ok()?;
            Some(GarbageAt { collection, id })
        }
        _ => None,
    }
}

/// The row of a block, if this chain has one.
///
/// # Errors
/// [`ViewError`] when the store cannot be read.
pub fn row(view: &dyn View, id: u128) -> Result<Option<Row>, ViewError> {
    let value = view.get(&block_key(id))?;
    Ok(value.map(decode).transpose()?)
}

/// Whether the bytes of a block are kept for a row: the engine's state has it, or an entry that is
/// not applied changes it. The removal of a row may be cut from the log.
///
/// # Errors
/// [`ViewError`] when the store cannot be read.
pub fn may_have_row(
    state: &dyn View,
    changes: impl Fn(&[u8]) -> bool,
    id: u128,
) -> Result<bool, ViewError> {
    let key = block_key(id);
    Ok(changes(&key) || state.get(&key)?.is_some())
}

/// At most `count` rows of blocks behind `after`, in the order of their ids.
///
/// # Errors
/// [`ViewError`] when the store cannot be read.
pub fn rows_from(
    view: &dyn View,
    after: Option<u128>,
    count: usize,
) -> Result<Vec<(u128, Row)>, ViewError> {
    let keys = KeyBuilder::new(SYSTEM, Table::Blocks);
    let end = keys.clone().build_end();
    let start = match after {
        None => keys.build(),
        Some(after) => [&*block_key(after), &[0x00]].concat().into(),
    };
    let pairs = view.scan(&start, &end, Direction::Forward).take(count);
    let rows = pairs.map(|pair| {
        let (key, value) = pair?;
        Ok((id_in(&key)?, decode(value)?))
    });
    rows.collect()
}

/// The place of a lease among all of its chain: its end, in milliseconds since 1970, and its block.
pub type LeaseAt = (u64, u128);

/// At most `count` leases behind `after` that are over at `now_ms`, in the order of their ends.
///
/// # Errors
/// [`ViewError`] when the store cannot be read.
pub fn due(
    view: &dyn View,
    after: Option<LeaseAt>,
    now_ms: u64,
    count: usize,
) -> Result<Vec<LeaseAt>, ViewError> {
    let keys = KeyBuilder::new(SYSTEM, Table::BlockLeases);
    let end = keys.clone().raw(&now_ms.saturating_add(1).to_be_bytes());
    let start = match after {
        None => keys.build(),
        Some((end_ms, id)) => [&*lease_key(end_ms, id), &[0x00]].concat().into(),
    };
    let end = end.build();
    if end <= start {
        return Ok(Vec::new());
    }
    let pairs = view.scan(&start, &end, Direction::Forward).take(count);
    let leases = pairs.map(|pair| {
        let (key, _) = pair?;
        let end_ms = key.get(9..).and_then(|rest| rest.first_chunk::<8>());
        let end_ms = end_ms.ok_or_else(|| DecodeError::new("the lease of a block"))?;
        Ok((u64::from_be_bytes(*end_ms), id_in(&key)?))
    });
    leases.collect()
}

/// Those of these blocks that have a row with a lease.
///
/// # Errors
/// [`ViewError`] when the store cannot be read.
pub fn leased(view: &dyn View, ids: &[u128]) -> Result<Vec<(u128, Row)>, ViewError> {
    let mut rows = Vec::with_capacity(ids.len());
    for id in ids {
        let row = row(view, *id)?.filter(|row| row.lease != Lease::Ended);
        rows.extend(row.map(|row| (*id, row)));
    }
    Ok(rows)
}
