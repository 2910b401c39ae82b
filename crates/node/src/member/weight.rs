//! How many bytes an entry's changes are, for a turn's bound.

use fader_chain::{Change, ElementOp};

/// Bytes of a change.
pub(super) fn size_of(change: &Change) -> usize {
    match change {
        Change::Put { key, value } => key.len() + value.len(),
        Change::Remove { key } | Change::Collect { key, .. } | Change::SetMode { key, .. } => {
            key.len()
        }
        Change::Merge { key, ops, .. } => key.len() + ops.iter().map(size_of_op).sum::<usize>(),
    }
}

fn size_of_op(op: &ElementOp) -> usize {
    match op {
        ElementOp::ClearAll => 1,
        ElementOp::Clear { group } => group.len(),
        ElementOp::Add { group, value } | ElementOp::Remove { group, value } => {
            group.len() + value.len()
        }
    }
}
