//! The last look at an eventual operation: the head settles it once and for all (PR-3).

use bytes::Bytes;
use fader_chain::{Change, ElementOp, Stamp, TombstonePolicy};

use crate::level::Cause;
use crate::simpledb::Limits;
use crate::simpledb::result::encode_cause;
use crate::simpledb::write::{Write, WriteError};
use crate::{Inconsistency, View, ViewError, split_item_key};

/// What becomes of an eventual operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled {
    /// Its surviving elements enter, with what derives from them.
    Apply(Vec<Change>),
    /// None of them does (D4).
    Refused(Cause),
}

/// For the chain, which keeps the cause and does not read it.
impl From<Settled> for fader_chain::Settled {
    fn from(settled: Settled) -> Self {
        match settled {
            Settled::Apply(changes) => fader_chain::Settled::Apply(changes),
            Settled::Refused(cause) => fader_chain::Settled::Refused(encode_cause(cause)),
        }
    }
}

/// Settles an operation on `newest`, the state of the head's log. `ops` are the elements that the
/// log does not dominate, at least one; `stamp` is the operation's own. That its collection settles
/// eventual operations is the chain's to see to (MD-5).
///
/// # Errors
/// [`ViewError`] when the store cannot be read, or `key` is no item's.
pub fn settle(
    newest: &dyn View,
    limits: &Limits,
    key: &Bytes,
    ops: Vec<ElementOp>,
    stamp: Stamp,
) -> Result<Settled, ViewError> {
    let (collection, _) =
        split_item_key(key).ok_or_else(|| ViewError::from(Inconsistency::NoItem))?;
    let Some(mut write) = Write::under(newest, limits, collection, TombstonePolicy::Kept, stamp)?
    else {
        return Ok(Settled::Refused(Cause::Gone));
    };
    let found = write.find_at(key.clone())?;
    write.merge(found, ops)?;
    match write.finish() {
        Ok(changes) => Ok(Settled::Apply(changes)),
        Err(WriteError::Limit(code)) => Ok(Settled::Refused(Cause::Limit(code))),
        Err(WriteError::View(error)) => Err(error),
    }
}
