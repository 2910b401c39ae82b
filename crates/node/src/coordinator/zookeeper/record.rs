//! What is in the znodes of a cluster.
//!
//! ```text
//! znode    := "FDR" kind:u8 format:u8=1 body crc:u32       CRC-32C of all before it, big-endian
//! cluster  := id:u128 session_ms wiring:u8 check:16 bytes count name*         kind C
//! disk     := node epoch name                                                 kind D
//! number   := next                                                            kind N
//! session  := node disk:u128 incarnation:u128 name address count report*      kind S
//! report   := 0 epoch | 1 epoch id | 2 epoch id | 3 epoch id gap:u8
//! chain    := configuration (crate::configuration)                            kind H
//! ```
//!
//! Numbers without a size are varints; texts and the configuration have their length before them.
//!
//! Invariants:
//! - Z1 what is read is bounded, checked, and of a format that we know, or an error that names it.

use std::time::Duration;

use bytes::Bytes;
use crc_fast::{CrcAlgorithm, checksum};
use fader_chain::{
    Configuration, DecodeError, DiskId, EntryId, Identity, Incarnation, NodeId, Reader, Report,
    Wiring, put_bytes, put_varint,
};

use crate::configuration;

const MAGIC: &[u8; 3] = b"FDR";
const FORMAT: u8 = 1;
const CRC_SIZE: usize = 4;
/// Bytes of a znode: more is not ours.
const ZNODE_MAX: usize = 64 << 10;
/// Bytes of a node's name.
pub(super) const NAME_MAX: usize = 64;
/// Bytes of a node's address.
const ADDRESS_MAX: usize = 256;
/// Members that a cluster can be made of.
const MEMBERS_MAX: usize = 64;
/// Milliseconds that a session can be said to last.
const SESSION_MS_MAX: u64 = 600_000;

/// What a cluster was made with; it never changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterRecord {
    /// Chosen at random.
    pub id: u128,
    /// S: how long a member that is not heard of counts as alive (FN-2). The same for all.
    pub session: Duration,
    /// How entries travel.
    pub wiring: Wiring,
    /// By which a member knows that its cluster key is the cluster's; tells nothing about the key.
    pub key_check: [u8; 16],
    /// The names of the members.
    pub members: Vec<String>,
}

/// What is known of a disk for ever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DiskRecord {
    pub(super) node: NodeId,
    /// The greatest epoch it adopted.
    pub(super) epoch: u64,
    /// The name of the node whose disk it is.
    pub(super) name: String,
}

/// What a life says of itself; its version counts its pings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SessionRecord {
    pub(super) identity: Identity,
    pub(super) name: String,
    /// Where other members reach it.
    pub(super) address: String,
    /// What it reported of the newest epoch that it reported of.
    pub(super) reports: Vec<Report>,
}

/// What can be in a znode.
pub(super) trait Content: Sized {
    const KIND: u8;
    /// What it is, for messages.
    const WHAT: &'static str;

    fn write(&self, out: &mut Vec<u8>);

    fn read(reader: &mut Reader) -> Result<Self, DecodeError>;

    /// The znode's bytes.
    fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&[Self::KIND, FORMAT]);
        self.write(&mut out);
        let crc = checksum(CrcAlgorithm::Crc32Iscsi, &out) as u32;
        out.extend_from_slice(&crc.to_be_bytes());
        out
    }

    /// Reads what `encode` wrote, to the last byte.
    ///
    /// # Errors
    /// In words, what is wrong with it.
    fn decode(bytes: &[u8]) -> Result<Self, String> {
        let wrong = |why: &str| format!("is no {}: {why}", Self::WHAT);
        if ZNODE_MAX < bytes.len() {
            return Err(wrong("it is too large"));
        }
        let (body, crc) = bytes
            .split_last_chunk::<CRC_SIZE>()
            .ok_or_else(|| wrong("it is too short"))?;
        let head = body.strip_prefix(MAGIC).and_then(<[u8]>::split_first_chunk);
        let Some((&[kind, format], content)) = head else {
            return Err(wrong("it was not written by Fader"));
        };
        if checksum(CrcAlgorithm::Crc32Iscsi, body) as u32 != u32::from_be_bytes(*crc) {
            return Err(wrong("its checksum differs"));
        }
        if kind != Self::KIND {
            return Err(wrong("it is something else"));
        }
        if format != FORMAT {
            return Err(wrong("its format is of another version of Fader"));
        }
        let mut reader = Reader::new(Bytes::copy_from_slice(content));
        let read = Self::read(&mut reader).and_then(|content| {
            reader.end()?;
            Ok(content)
        });
        read.map_err(|error| wrong(&error.to_string()))
    }
}

impl Content for ClusterRecord {
    const KIND: u8 = b'C';
    const WHAT: &'static str = "record of a cluster";

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.id.to_be_bytes());
        put_varint(out, self.session.as_millis() as u64);
        out.push(match self.wiring {
            Wiring::Star => 0,
            Wiring::Chain => 1,
        });
        out.extend_from_slice(&self.key_check);
        put_varint(out, self.members.len() as u64);
        for name in &self.members {
            put_bytes(out, name.as_bytes());
        }
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        let id = configuration::decode_u128(reader)?;
        let session_ms = reader.varint()?;
        if session_ms == 0 || SESSION_MS_MAX < session_ms {
            return Err(DecodeError::new("how long a session lasts"));
        }
        let wiring = match reader.byte()? {
            0 => Wiring::Star,
            1 => Wiring::Chain,
            _ => return Err(DecodeError::new("the wiring")),
        };
        let key_check = configuration::decode_u128(reader)?.to_be_bytes();
        let count = reader.count()?;
        if MEMBERS_MAX < count {
            return Err(DecodeError::new("the number of members"));
        }
        let members = (0..count).map(|_| text(reader, NAME_MAX));
        Ok(ClusterRecord {
            id,
            session: Duration::from_millis(session_ms),
            wiring,
            key_check,
            members: members.collect::<Result<_, _>>()?,
        })
    }
}

impl Content for DiskRecord {
    const KIND: u8 = b'D';
    const WHAT: &'static str = "record of a disk";

    fn write(&self, out: &mut Vec<u8>) {
        put_varint(out, u64::from(self.node.0));
        put_varint(out, self.epoch);
        put_bytes(out, self.name.as_bytes());
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(DiskRecord {
            node: NodeId(reader.varint_u32()?),
            epoch: reader.varint()?,
            name: text(reader, NAME_MAX)?,
        })
    }
}

/// The number that the next disk gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NextNode(pub(super) u32);

impl Content for NextNode {
    const KIND: u8 = b'N';
    const WHAT: &'static str = "number of a node";

    fn write(&self, out: &mut Vec<u8>) {
        put_varint(out, u64::from(self.0));
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        reader.varint_u32().map(NextNode)
    }
}

impl Content for SessionRecord {
    const KIND: u8 = b'S';
    const WHAT: &'static str = "session";

    fn write(&self, out: &mut Vec<u8>) {
        put_varint(out, u64::from(self.identity.node.0));
        out.extend_from_slice(&self.identity.disk.0.to_be_bytes());
        out.extend_from_slice(&self.identity.incarnation.0.to_be_bytes());
        put_bytes(out, self.name.as_bytes());
        put_bytes(out, self.address.as_bytes());
        put_varint(out, self.reports.len() as u64);
        for report in &self.reports {
            write_report(report, out);
        }
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        let node = NodeId(reader.varint_u32()?);
        let disk = DiskId(configuration::decode_u128(reader)?);
        let incarnation = Incarnation(configuration::decode_u128(reader)?);
        let name = text(reader, NAME_MAX)?;
        let address = text(reader, ADDRESS_MAX)?;
        let count = reader.count()?;
        let reports = (0..count).map(|_| read_report(reader));
        Ok(SessionRecord {
            reports: reports.collect::<Result<_, _>>()?,
            identity: Identity {
                node,
                incarnation,
                disk,
            },
            name,
            address,
        })
    }
}

impl Content for Configuration {
    const KIND: u8 = b'H';
    const WHAT: &'static str = "configuration of a chain";

    fn write(&self, out: &mut Vec<u8>) {
        let mut bytes = Vec::new();
        configuration::encode(self, &mut bytes);
        put_bytes(out, &bytes);
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        configuration::decode(reader.bytes()?)
    }
}

fn write_report(report: &Report, out: &mut Vec<u8>) {
    let (kind, epoch, id) = match *report {
        Report::Adopted { epoch } => (0, epoch, None),
        Report::SyncDone { epoch, last } => (1, epoch, Some(last)),
        Report::Differs { epoch, id, .. } => (2, epoch, Some(id)),
        Report::Floor { epoch, applied, .. } => (3, epoch, Some(applied)),
        Report::Slow { epoch, .. } => (4, epoch, None),
        Report::Heard { epoch, .. } => (5, epoch, None),
    };
    out.push(kind);
    put_varint(out, epoch);
    if let Some(id) = id {
        put_varint(out, id.epoch);
        put_varint(out, id.index);
    }
    match report {
        Report::Floor { gap, .. } => out.push(u8::from(*gap)),
        Report::Differs { node, .. } | Report::Slow { node, .. } | Report::Heard { node, .. } => {
            put_varint(out, u64::from(node.0))
        }
        Report::Adopted { .. } | Report::SyncDone { .. } => {}
    }
}

fn read_report(reader: &mut Reader) -> Result<Report, DecodeError> {
    let kind = reader.byte()?;
    let epoch = reader.varint()?;
    let id = |reader: &mut Reader| Ok(EntryId::new(reader.varint()?, reader.varint()?));
    Ok(match kind {
        0 => Report::Adopted { epoch },
        1 => Report::SyncDone {
            epoch,
            last: id(reader)?,
        },
        2 => Report::Differs {
            epoch,
            id: id(reader)?,
            node: NodeId(reader.varint_u32()?),
        },
        3 => Report::Floor {
            epoch,
            applied: id(reader)?,
            gap: match reader.byte()? {
                0 => false,
                1 => true,
                _ => return Err(DecodeError::new("whether a gap is open")),
            },
        },
        4 => Report::Slow {
            epoch,
            node: NodeId(reader.varint_u32()?),
        },
        5 => Report::Heard {
            epoch,
            node: NodeId(reader.varint_u32()?),
        },
        _ => return Err(DecodeError::new("the kind of a report")),
    })
}

fn text(reader: &mut Reader, max: usize) -> Result<String, DecodeError> {
    let bytes = reader.bytes()?;
    let text = std::str::from_utf8(&bytes).map_err(|_| DecodeError::new("a text"))?;
    match text.len() <= max {
        true => Ok(text.to_owned()),
        false => Err(DecodeError::new("the length of a text")),
    }
}

#[cfg(test)]
mod tests;
