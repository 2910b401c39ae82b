//! What is wrong with members that take no part in their chain, for people who look. The process of
//! each says so in a znode of its own, since such a member has no incarnation and no session.
//!
//! ```text
//! /fader/faults/NODE-CHAIN       kind F, format 1: name chain what:u8 count
//! ```
//!
//! `what` is 0 of a member that failed `count` times in a row, and 1 of one that is ahead by
//! `count` entries. Nothing is decided by it. Older versions do not know these znodes.

use std::fmt;

use fader_chain::{ChainId, DecodeError, Reader, put_bytes, put_varint};
use fader_zookeeper::{EnsembleClient, EnsembleError};

use super::record::{Content, NAME_MAX};
use super::{ZooKeeperCoordinator, read};
use crate::coordinator::{CoordinatorError, Fault};

/// A fault, and whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultOf {
    /// The name of the node.
    pub node: String,
    /// The chain whose member it has.
    pub chain: ChainId,
    /// What it is.
    pub fault: Fault,
}

impl fmt::Display for FaultOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FaultOf { node, chain, fault } = self;
        match fault {
            Fault::Failed(1) => write!(f, "{chain}: {node} failed, and begins again"),
            Fault::Failed(times) => {
                write!(f, "{chain}: {node} failed {times} times, and begins again")
            }
            Fault::Ahead(entries) => write!(
                f,
                "{chain}: {node} is ahead by {entries} committed entries, and has stopped"
            ),
        }
    }
}

impl Content for FaultOf {
    const KIND: u8 = b'F';
    const WHAT: &'static str = "fault of a member";

    fn write(&self, out: &mut Vec<u8>) {
        put_bytes(out, self.node.as_bytes());
        put_varint(out, u64::from(self.chain.0));
        let (what, count) = match self.fault {
            Fault::Failed(times) => (0, u64::from(times)),
            Fault::Ahead(entries) => (1, entries),
        };
        out.push(what);
        put_varint(out, count);
    }

    fn read(reader: &mut Reader, _: u8) -> Result<Self, DecodeError> {
        let bytes = reader.bytes()?;
        let node = std::str::from_utf8(&bytes).ok();
        let node = node.filter(|name| name.len() <= NAME_MAX);
        let node = node.ok_or_else(|| DecodeError::new("a name"))?.to_owned();
        let chain = ChainId(reader.varint_u32()?);
        let fault = match reader.byte()? {
            0 => Fault::Failed(reader.varint_u32()?),
            1 => Fault::Ahead(reader.varint()?),
            _ => return Err(DecodeError::new("the kind of a fault")),
        };
        Ok(FaultOf { node, chain, fault })
    }
}

impl ZooKeeperCoordinator {
    /// Says what is wrong with the member here of a chain, or that nothing is.
    pub(crate) fn say(&self, chain: ChainId, fault: Option<Fault>) {
        let node = self.name.clone();
        let of = |fault| FaultOf { node, chain, fault };
        let (path, content) = (self.fault(chain), fault.map(of));
        if let Err(error) = self.put_fault(&path, content.as_ref()) {
            tracing::debug!(%error, "what is wrong with a member is perhaps not told");
        }
    }

    fn fault(&self, chain: ChainId) -> String {
        format!("{}/faults/{}-{}", self.shared.root, self.name, chain.0)
    }

    fn put_fault(&self, path: &str, content: Option<&FaultOf>) -> Result<(), EnsembleError> {
        let mut asker = self.asker.lock();
        let known = asker.get(path, false)?;
        match (known, content) {
            (None, None) => {}
            (Some(known), None) => drop(asker.delete(path, known.version)?),
            (Some(known), Some(content)) => {
                asker.set(path, &content.encode(), known.version)?;
            }
            (None, Some(content)) => {
                asker.create(&format!("{}/faults", self.shared.root), &[])?;
                asker.create(path, &content.encode())?;
            }
        }
        Ok(())
    }
}

/// All that is said.
pub(super) fn faults(
    root: &str,
    asker: &mut EnsembleClient,
) -> Result<Vec<FaultOf>, CoordinatorError> {
    let folder = format!("{root}/faults");
    let mut faults = Vec::new();
    if asker.get(&folder, false)?.is_none() {
        return Ok(faults);
    }
    for name in asker.children(&folder, false)? {
        let path = format!("{folder}/{name}");
        if let Some(znode) = asker.get(&path, false)? {
            faults.push(read(&path, &znode)?);
        }
    }
    Ok(faults)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_read_as_it_was_written() {
        for fault in [Fault::Failed(3), Fault::Ahead(1 << 40)] {
            let of = FaultOf {
                node: "n1".to_owned(),
                chain: ChainId(7),
                fault,
            };
            assert_eq!(FaultOf::decode(&of.encode()), Ok(of));
        }
    }
}
