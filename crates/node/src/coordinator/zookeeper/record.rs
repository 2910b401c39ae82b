//! What is in the znodes of a cluster.
//!
//! ```text
//! znode    := "FDR" kind:u8 format:u8 body crc:u32         CRC-32C of all before it, big-endian
//! cluster  := version id:u128 session_ms wiring:u8 check:16 bytes             kind C, format 3
//!             count name*  count zone*  chains copies head:zone tail:zone
//! disk     := node epoch name of last:id                                      kind D, format 3
//! number   := next                                                            kind N, format 1
//! session  := node disk:u128 incarnation:u128 name address count member*      kind S, format 2
//! member   := chain node disk:u128 incarnation:u128 count report*
//! report   := 0 epoch | 1 epoch id | 2 epoch id | 3 epoch id gap:u8
//! chain    := configuration (fader_chain::Configuration)                      kind H, format 1
//! ```
//!
//! Numbers without a size are varints; texts and the configuration have their length before them.
//! A cluster of version 2 has format 2, without the version; every later format begins with it. An
//! empty zone is none. `of` is 0 of a node's own disk, else a chain's number and one.
//!
//! Format 1 had one chain, of all members. A cluster ended with the names, a disk with the name; a
//! session had the reports of its one incarnation in place of incarnations. Format 2 of a disk has
//! no `last`, and is written while there is none.
//!
//! Invariants:
//! - ZNODE-1 what is read is bounded, checked, and of a format that we know, or an error that names
//!   it.

use std::time::Duration;

use bytes::Bytes;
use crc_fast::{CrcAlgorithm, checksum};
use fader_chain::membership::{IncarnationRecord, SessionRecord};
use fader_chain::placement::layout::Layout;
use fader_chain::placement::{PlacementNode, PlacementPolicy};
use fader_chain::{
    ChainId, Configuration, DecodeError, DiskId, EntryId, Identity, Incarnation, NodeId, Progress,
    Reader, Report, Version, Wiring, put_bytes, put_varint,
};

mod layout;

const MAGIC: &[u8; 3] = b"FDR";
const CRC_SIZE: usize = 4;
/// Bytes of a znode: more is not ours. A server takes 1 MiB, with the request around it
/// (`jute.maxbuffer`).
const ZNODE_MAX: usize = 1_000_000;
/// Bytes of a node's name.
pub(super) const NAME_MAX: usize = 64;
/// Bytes of a node's address.
const ADDRESS_MAX: usize = 256;
/// Members that a cluster can be made of, and one that replaces another.
const MEMBERS_MAX: usize = 128;
/// Chains that a cluster can have beside the system chain.
const CHAINS_MAX: u32 = 4096;
/// Milliseconds that a session can be said to last.
const SESSION_MS_MAX: u64 = 600_000;

/// What a cluster was made with, and its version, which rises; nothing else changes. What becomes
/// of its nodes and of the places of its chains is in its [`Layout`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterRecord {
    /// What its processes may write; each must speak it.
    pub version: Version,
    /// Chosen at random.
    pub id: u128,
    /// S: how long a member that is not heard of counts as alive (FN-2). The same for all.
    pub session: Duration,
    /// How entries travel.
    pub wiring: Wiring,
    /// By which a member knows that its cluster key is the cluster's; tells nothing about the key.
    pub key_check: [u8; 16],
    /// The names of the nodes.
    pub members: Vec<String>,
    /// The zone of each of them, in the same order.
    pub zones: Vec<String>,
    /// How many chains it has beside the system chain; with none that one holds all.
    pub chains: u32,
    /// How they are placed on the nodes.
    pub policy: PlacementPolicy,
}

impl ClusterRecord {
    /// Its nodes and the places of its chains, before an operator changes them.
    pub fn founded(&self) -> Layout {
        Layout::founded(self.sites(), self.chains, &self.policy)
    }

    /// The version of a cluster of whose record no more can be read here than that.
    pub(super) fn version_of(bytes: &[u8]) -> Option<Version> {
        let (head, body) = bytes.split_first_chunk::<5>()?;
        let is_ours = head.starts_with(MAGIC) && head[3] == Self::KIND && Self::FORMAT < head[4];
        let mut reader = Reader::new(Bytes::copy_from_slice(body));
        let version = reader.varint_u32().ok().filter(|_| is_ours)?;
        Some(Version(version))
    }

    fn sites(&self) -> Vec<PlacementNode> {
        let sites = self.members.iter().zip(&self.zones);
        let sites = sites.map(|(name, zone)| PlacementNode {
            name: name.clone(),
            zone: zone.clone(),
            is_leaving: false,
            is_resting: false,
            successor: None,
        });
        sites.collect()
    }
}

/// What is known of a disk for ever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DiskRecord {
    pub(super) node: NodeId,
    /// How far its incarnations reported that it came.
    pub(super) progress: Progress,
    /// The name of the node whose disk it is.
    pub(super) name: String,
    /// The chain whose member it has; of a node's own none.
    pub(super) chain: Option<ChainId>,
}

/// What can be in a znode.
pub(super) trait Content: Sized {
    const KIND: u8;
    /// The greatest format; older ones are read.
    const FORMAT: u8 = 1;
    /// What it is, for messages.
    const WHAT: &'static str;

    /// The format that this one is written in.
    fn format(&self) -> u8 {
        Self::FORMAT
    }

    fn write(&self, out: &mut Vec<u8>);

    fn read(reader: &mut Reader, format: u8) -> Result<Self, DecodeError>;

    /// The znode's bytes.
    fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&[Self::KIND, self.format()]);
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
        if !(1..=Self::FORMAT).contains(&format) {
            return Err(wrong("its format is of another version of Fader"));
        }
        let mut reader = Reader::new(Bytes::copy_from_slice(content));
        let read = Self::read(&mut reader, format).and_then(|content| {
            reader.end()?;
            Ok(content)
        });
        read.map_err(|error| wrong(&error.to_string()))
    }
}

impl Content for ClusterRecord {
    const KIND: u8 = b'C';
    const FORMAT: u8 = 3;
    const WHAT: &'static str = "record of a cluster";

    fn format(&self) -> u8 {
        match self.version.is_third() {
            true => 3,
            false => 2,
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        if self.version.is_third() {
            put_varint(out, u64::from(self.version.0));
        }
        out.extend_from_slice(&self.id.to_be_bytes());
        put_varint(out, self.session.as_millis() as u64);
        out.push(match self.wiring {
            Wiring::Star => 0,
            Wiring::Chain => 1,
        });
        out.extend_from_slice(&self.key_check);
        put_varint(out, self.members.len() as u64);
        for name in self.members.iter().chain(&self.zones) {
            put_bytes(out, name.as_bytes());
        }
        put_varint(out, u64::from(self.chains));
        put_varint(out, self.policy.replication_factor as u64);
        for zone in [&self.policy.head_zone, &self.policy.tail_zone] {
            put_bytes(out, zone.as_deref().unwrap_or_default().as_bytes());
        }
    }

    fn read(reader: &mut Reader, format: u8) -> Result<Self, DecodeError> {
        let version = match format {
            1 | 2 => Version::OLDEST,
            _ => Version(reader.varint_u32()?),
        };
        let id = reader.u128()?;
        let session_ms = reader.varint()?;
        if session_ms == 0 || SESSION_MS_MAX < session_ms {
            return Err(DecodeError::new("how long a session lasts"));
        }
        let wiring = match reader.byte()? {
            0 => Wiring::Star,
            1 => Wiring::Chain,
            _ => return Err(DecodeError::new("the wiring")),
        };
        let key_check = reader.u128()?.to_be_bytes();
        let count = reader.count()?;
        if MEMBERS_MAX < count {
            return Err(DecodeError::new("the number of members"));
        }
        let mut texts = || {
            let texts = (0..count).map(|_| text(reader, NAME_MAX));
            texts.collect::<Result<Vec<_>, _>>()
        };
        let members = texts()?;
        let zones = match format {
            1 => vec![String::new(); count],
            _ => texts()?,
        };
        let (chains, policy) = match format {
            1 => (0, of_all(count)),
            _ => (read_chains(reader)?, read_wish(reader)?),
        };
        Ok(ClusterRecord {
            version,
            id,
            session: Duration::from_millis(session_ms),
            wiring,
            key_check,
            members,
            zones,
            chains,
            policy,
        })
    }
}

/// On all nodes.
fn of_all(count: usize) -> PlacementPolicy {
    PlacementPolicy {
        replication_factor: count,
        head_zone: None,
        tail_zone: None,
    }
}

fn read_chains(reader: &mut Reader) -> Result<u32, DecodeError> {
    let chains = reader.varint_u32()?;
    match chains <= CHAINS_MAX {
        true => Ok(chains),
        false => Err(DecodeError::new("the number of chains")),
    }
}

fn read_wish(reader: &mut Reader) -> Result<PlacementPolicy, DecodeError> {
    let copies = usize::try_from(reader.varint_u32()?);
    let mut zone = || {
        let zone = text(reader, NAME_MAX)?;
        Ok::<_, DecodeError>(Some(zone).filter(|zone| !zone.is_empty()))
    };
    let (head_zone, tail_zone) = (zone()?, zone()?);
    match copies {
        Ok(copies) if (1..=MEMBERS_MAX).contains(&copies) => Ok(PlacementPolicy {
            replication_factor: copies,
            head_zone,
            tail_zone,
        }),
        _ => Err(DecodeError::new("the members of a chain")),
    }
}

fn put_identity(identity: &Identity, out: &mut Vec<u8>) {
    put_varint(out, u64::from(identity.node.0));
    out.extend_from_slice(&identity.disk.0.to_be_bytes());
    out.extend_from_slice(&identity.incarnation.0.to_be_bytes());
}

fn read_identity(reader: &mut Reader) -> Result<Identity, DecodeError> {
    let node = NodeId(reader.varint_u32()?);
    let disk = DiskId(reader.u128()?);
    let incarnation = Incarnation(reader.u128()?);
    Ok(Identity {
        node,
        incarnation,
        disk,
    })
}

fn put_reports(reports: &[Report], out: &mut Vec<u8>) {
    put_varint(out, reports.len() as u64);
    for report in reports {
        write_report(report, out);
    }
}

fn read_reports(reader: &mut Reader) -> Result<Vec<Report>, DecodeError> {
    let count = reader.count()?;
    (0..count).map(|_| read_report(reader)).collect()
}

fn read_incarnation(reader: &mut Reader) -> Result<IncarnationRecord, DecodeError> {
    Ok(IncarnationRecord {
        chain: ChainId(reader.varint_u32()?),
        identity: read_identity(reader)?,
        reports: read_reports(reader)?,
    })
}

impl Content for DiskRecord {
    const KIND: u8 = b'D';
    const FORMAT: u8 = 3;
    const WHAT: &'static str = "record of a disk";

    fn format(&self) -> u8 {
        match self.progress.last == EntryId::ZERO {
            true => 2,
            false => 3,
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        put_varint(out, u64::from(self.node.0));
        put_varint(out, self.progress.epoch);
        put_bytes(out, self.name.as_bytes());
        put_varint(
            out,
            self.chain.map_or(0, |ChainId(chain)| u64::from(chain) + 1),
        );
        if self.progress.last != EntryId::ZERO {
            self.progress.last.encode(out);
        }
    }

    fn read(reader: &mut Reader, format: u8) -> Result<Self, DecodeError> {
        let node = NodeId(reader.varint_u32()?);
        let epoch = reader.varint()?;
        let name = text(reader, NAME_MAX)?;
        let chain = match format {
            1 => Some(ChainId::SYSTEM),
            _ => reader.varint_u32()?.checked_sub(1).map(ChainId),
        };
        let last = match format {
            1 | 2 => EntryId::ZERO,
            _ => EntryId::decode(reader)?,
        };
        Ok(DiskRecord {
            node,
            progress: Progress { epoch, last },
            name,
            chain,
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

    fn read(reader: &mut Reader, _: u8) -> Result<Self, DecodeError> {
        reader.varint_u32().map(NextNode)
    }
}

impl Content for SessionRecord {
    const KIND: u8 = b'S';
    const FORMAT: u8 = 2;
    const WHAT: &'static str = "session";

    fn write(&self, out: &mut Vec<u8>) {
        put_identity(&self.identity, out);
        put_bytes(out, self.name.as_bytes());
        put_bytes(out, self.address.as_bytes());
        put_varint(out, self.incarnations.len() as u64);
        for incarnation in &self.incarnations {
            put_varint(out, u64::from(incarnation.chain.0));
            put_identity(&incarnation.identity, out);
            put_reports(&incarnation.reports, out);
        }
    }

    fn read(reader: &mut Reader, format: u8) -> Result<Self, DecodeError> {
        let identity = read_identity(reader)?;
        let name = text(reader, NAME_MAX)?;
        let address = text(reader, ADDRESS_MAX)?;
        let incarnations = match format {
            1 => vec![IncarnationRecord {
                chain: ChainId::SYSTEM,
                identity,
                reports: read_reports(reader)?,
            }],
            _ => {
                let count = reader.count()?;
                let incarnations = (0..count).map(|_| read_incarnation(reader));
                incarnations.collect::<Result<_, _>>()?
            }
        };
        Ok(SessionRecord {
            identity,
            name,
            address,
            incarnations,
        })
    }
}

impl Content for Configuration {
    const KIND: u8 = b'H';
    const WHAT: &'static str = "configuration of a chain";

    fn write(&self, out: &mut Vec<u8>) {
        let mut bytes = Vec::new();
        self.encode_to(&mut bytes);
        put_bytes(out, &bytes);
    }

    fn read(reader: &mut Reader, _: u8) -> Result<Self, DecodeError> {
        Configuration::decode_from(reader.bytes()?)
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
        Report::HandoffDone { epoch } => (6, epoch, None),
        Report::Ahead { epoch, .. } => (7, epoch, None),
    };
    out.push(kind);
    put_varint(out, epoch);
    if let Some(id) = id {
        put_varint(out, id.epoch);
        put_varint(out, id.index);
    }
    match report {
        Report::Floor { gap, .. } => out.push(u8::from(*gap)),
        Report::Ahead { entries, .. } => put_varint(out, *entries),
        Report::Differs { node, .. } | Report::Slow { node, .. } | Report::Heard { node, .. } => {
            put_varint(out, u64::from(node.0))
        }
        Report::Adopted { .. } | Report::SyncDone { .. } | Report::HandoffDone { .. } => {}
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
        6 => Report::HandoffDone { epoch },
        7 => Report::Ahead {
            epoch,
            entries: reader.varint()?,
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
mod limits;
#[cfg(test)]
mod tests;
