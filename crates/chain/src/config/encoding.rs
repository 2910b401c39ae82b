//! The bytes of a configuration, as the log and the coordinator keep it.
//!
//! ```text
//! configuration := 5  epoch  wiring:u8  count member*  count (node disk)*  safe_point:id
//!                  count absent*  lossy  version
//! member        := node  incarnation:u128be  disk:u128be  role:u8
//! absent        := node  incarnation:u128be  disk:u128be  left  must_fill:u8
//! lossy         := count  epoch
//! ```
//!
//! Numbers without a size are varints. Older formats are read:
//! - 4 has no version, which is 2, and is what is written then: processes that speak no other
//!   version can read no other format.
//! - 3 has no `lossy`.
//! - 2 has no `must_fill`. At first it had no incarnation of the absent members either; a reader
//!   tells the two apart by where the bytes end. Without an incarnation no incarnation is named.
//! - 1 ends with the safe point: no member was absent.

use super::{
    AbsentMember, ChainMember, Configuration, DiskId, Incarnation, NodeId, Role, UncleanRecovery,
    Wiring,
};
use crate::codec::{DecodeError, Reader, put_varint};
use crate::stamp::EntryId;
use crate::version::Version;
use bytes::Bytes;

const FORMAT: u8 = 5;
const FORMAT_WITH_VERSION: u8 = 5;
const FORMAT_WITH_LOSSY: u8 = 4;
const FORMAT_WITH_FILL: u8 = 3;
const FORMAT_WITH_AWAY: u8 = 2;

/// How bytes are laid out: their format, and whether lives that are absent are named.
#[derive(Clone, Copy)]
struct Layout {
    format: u8,
    has_incarnation: bool,
}

impl Configuration {
    /// Appends the encoding of a self.
    pub fn encode_to(&self, out: &mut Vec<u8>) {
        let has_version = Version::OLDEST < self.version;
        out.push(match has_version {
            true => FORMAT,
            false => FORMAT_WITH_LOSSY,
        });
        put_varint(out, self.epoch);
        out.push(match self.wiring {
            Wiring::Star => 0,
            Wiring::Chain => 1,
        });
        put_varint(out, self.members.len() as u64);
        for member in &self.members {
            put_varint(out, u64::from(member.node.0));
            out.extend_from_slice(&member.incarnation.0.to_be_bytes());
            out.extend_from_slice(&member.disk.0.to_be_bytes());
            out.push(match member.role {
                Role::Serving => 0,
                Role::Syncing => 1,
                Role::Leaving => 2,
            });
        }
        put_varint(out, self.last_serving.len() as u64);
        for (node, disk) in &self.last_serving {
            put_varint(out, u64::from(node.0));
            out.extend_from_slice(&disk.0.to_be_bytes());
        }
        put_varint(out, self.safe_point.epoch);
        put_varint(out, self.safe_point.index);
        put_varint(out, self.absent.len() as u64);
        for absent in &self.absent {
            put_varint(out, u64::from(absent.node.0));
            out.extend_from_slice(&absent.incarnation.0.to_be_bytes());
            out.extend_from_slice(&absent.disk.0.to_be_bytes());
            put_varint(out, absent.left);
            out.push(u8::from(absent.must_fill));
        }
        put_varint(out, self.lossy.count);
        put_varint(out, self.lossy.epoch);
        if has_version {
            put_varint(out, u64::from(self.version.0));
        }
    }

    /// Reads what `encode_to` wrote, to the last byte.
    ///
    /// # Errors
    /// [`DecodeError`] when the bytes are no configuration of a format we know.
    pub fn decode_from(bytes: Bytes) -> Result<Self, DecodeError> {
        let layout = match bytes.first() {
            Some(&format @ 1..=FORMAT) => Layout {
                format,
                has_incarnation: true,
            },
            _ => return Err(DecodeError::new("a configuration's format")),
        };
        let nameless = Layout {
            has_incarnation: false,
            ..layout
        };
        match decode_as(layout, bytes.clone()) {
            Err(_) if layout.format == FORMAT_WITH_AWAY => decode_as(nameless, bytes),
            decoded => decoded,
        }
    }
}

fn decode_as(layout: Layout, bytes: Bytes) -> Result<Configuration, DecodeError> {
    let mut reader = Reader::new(bytes);
    reader.byte()?;
    let epoch = reader.varint()?;
    let wiring = match reader.byte()? {
        0 => Wiring::Star,
        1 => Wiring::Chain,
        _ => return Err(DecodeError::new("a configuration's wiring")),
    };
    let count = reader.count()?;
    let members = (0..count)
        .map(|_| decode_member(&mut reader))
        .collect::<Result<Vec<_>, _>>()?;
    let count = reader.count()?;
    let last_serving = (0..count)
        .map(|_| Ok((decode_node(&mut reader)?, DiskId(reader.u128()?))))
        .collect::<Result<Vec<_>, DecodeError>>()?;
    let safe_point = EntryId::new(reader.varint()?, reader.varint()?);
    let count = match FORMAT_WITH_AWAY <= layout.format {
        true => reader.count()?,
        false => 0,
    };
    let absent = (0..count)
        .map(|_| decode_absent(layout, &mut reader))
        .collect::<Result<Vec<_>, _>>()?;
    let lossy = match FORMAT_WITH_LOSSY <= layout.format {
        true => UncleanRecovery {
            count: reader.varint()?,
            epoch: reader.varint()?,
        },
        false => UncleanRecovery::default(),
    };
    let version = match FORMAT_WITH_VERSION <= layout.format {
        true => Version(reader.varint_u32()?),
        false => Version::OLDEST,
    };
    reader.end()?;
    if members.is_empty() {
        return Err(DecodeError::new("a configuration's members"));
    }
    Ok(Configuration {
        epoch,
        wiring,
        members,
        last_serving,
        absent,
        safe_point,
        lossy,
        version,
    })
}

fn decode_member(reader: &mut Reader) -> Result<ChainMember, DecodeError> {
    Ok(ChainMember {
        node: decode_node(reader)?,
        incarnation: Incarnation(reader.u128()?),
        disk: DiskId(reader.u128()?),
        role: match reader.byte()? {
            0 => Role::Serving,
            1 => Role::Syncing,
            2 => Role::Leaving,
            _ => return Err(DecodeError::new("a member's role")),
        },
    })
}

fn decode_absent(layout: Layout, reader: &mut Reader) -> Result<AbsentMember, DecodeError> {
    Ok(AbsentMember {
        node: decode_node(reader)?,
        incarnation: Incarnation(match layout.has_incarnation {
            true => reader.u128()?,
            false => 0,
        }),
        disk: DiskId(reader.u128()?),
        left: reader.varint()?,
        must_fill: FORMAT_WITH_FILL <= layout.format && decode_flag(reader)?,
    })
}

fn decode_flag(reader: &mut Reader) -> Result<bool, DecodeError> {
    match reader.byte()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(DecodeError::new("a configuration's flag")),
    }
}

fn decode_node(reader: &mut Reader) -> Result<NodeId, DecodeError> {
    let number = u32::try_from(reader.varint()?);
    number
        .map(NodeId)
        .map_err(|_| DecodeError::new("a node's number"))
}

#[cfg(test)]
mod tests;
