//! An eventual operation: what a member stamped, and what waits in overlays until the head
//! settles it (docs/protocol/chain.md, section 10).

use bytes::Bytes;

use crate::change::ElementOp;
use crate::entry::RequestId;
use crate::stamp::{EntryId, Stamp};

/// One eventual write of one register.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Operation {
    /// Its name: it is settled once by it (D2).
    pub name: RequestId,
    /// Its place in the order of all writes of the register.
    pub stamp: Stamp,
    /// The last entry in the log of the member that accepted it; only the filter of returning
    /// members looks at it (GC-5).
    pub accept: EntryId,
    /// The register.
    pub key: Bytes,
    /// What it does, as far as no committed state covers it (PR-6).
    pub ops: Vec<ElementOp>,
}
