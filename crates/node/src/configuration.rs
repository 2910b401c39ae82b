//! The bytes of a configuration, as the log and the coordinator keep it.
//!
//! ```text
//! configuration := 5  epoch  wiring:u8  count seat*  count (node disk)*  floor:id  count away*
//!                  lossy  version
//! seat          := node  incarnation:u128be  disk:u128be  role:u8
//! away          := node  incarnation:u128be  disk:u128be  left  must_fill:u8
//! lossy         := count  epoch
//! ```
//!
//! Numbers without a size are varints. Older formats are read:
//! - 4 has no version, which is 2, and is what is written then: processes that speak no other
//!   version can read no other format.
//! - 3 has no `lossy`.
//! - 2 has no `must_fill`; at first it had no incarnation of who is away either, and whoever reads
//!   it tells the two apart by where the bytes end. Without an incarnation no life is named.
//! - 1 ends with the floor: nobody was away.

use bytes::Bytes;
use fader_chain::{
    Away, Configuration, DecodeError, DiskId, EntryId, Incarnation, Lossy, NodeId, Reader, Role,
    Seat, Version, Wiring, put_varint,
};

const FORMAT: u8 = 5;
const FORMAT_WITH_VERSION: u8 = 5;
const FORMAT_WITH_LOSSY: u8 = 4;
const FORMAT_WITH_FILL: u8 = 3;
const FORMAT_WITH_AWAY: u8 = 2;

/// How bytes are laid out: their format, and whether lives that are away are named.
#[derive(Clone, Copy)]
struct Layout {
    format: u8,
    has_life: bool,
}

/// Appends the encoding of a configuration.
pub(crate) fn encode(configuration: &Configuration, out: &mut Vec<u8>) {
    let has_version = Version::OLDEST < configuration.version;
    out.push(match has_version {
        true => FORMAT,
        false => FORMAT_WITH_LOSSY,
    });
    put_varint(out, configuration.epoch);
    out.push(match configuration.wiring {
        Wiring::Star => 0,
        Wiring::Chain => 1,
    });
    put_varint(out, configuration.seats.len() as u64);
    for seat in &configuration.seats {
        put_varint(out, u64::from(seat.node.0));
        out.extend_from_slice(&seat.incarnation.0.to_be_bytes());
        out.extend_from_slice(&seat.disk.0.to_be_bytes());
        out.push(match seat.role {
            Role::Serving => 0,
            Role::Syncing => 1,
            Role::Leaving => 2,
        });
    }
    put_varint(out, configuration.last_serving.len() as u64);
    for (node, disk) in &configuration.last_serving {
        put_varint(out, u64::from(node.0));
        out.extend_from_slice(&disk.0.to_be_bytes());
    }
    put_varint(out, configuration.floor.epoch);
    put_varint(out, configuration.floor.index);
    put_varint(out, configuration.away.len() as u64);
    for away in &configuration.away {
        put_varint(out, u64::from(away.node.0));
        out.extend_from_slice(&away.incarnation.0.to_be_bytes());
        out.extend_from_slice(&away.disk.0.to_be_bytes());
        put_varint(out, away.left);
        out.push(u8::from(away.must_fill));
    }
    put_varint(out, configuration.lossy.count);
    put_varint(out, configuration.lossy.epoch);
    if has_version {
        put_varint(out, u64::from(configuration.version.0));
    }
}

/// Reads what `encode` wrote, to the last byte.
///
/// # Errors
/// [`DecodeError`] when the bytes are no configuration of a format we know.
pub(crate) fn decode(bytes: Bytes) -> Result<Configuration, DecodeError> {
    let layout = match bytes.first() {
        Some(&format @ 1..=FORMAT) => Layout {
            format,
            has_life: true,
        },
        _ => return Err(DecodeError::new("a configuration's format")),
    };
    let nameless = Layout {
        has_life: false,
        ..layout
    };
    match decode_as(layout, bytes.clone()) {
        Err(_) if layout.format == FORMAT_WITH_AWAY => decode_as(nameless, bytes),
        decoded => decoded,
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
    let seats = (0..count)
        .map(|_| decode_seat(&mut reader))
        .collect::<Result<Vec<_>, _>>()?;
    let count = reader.count()?;
    let last_serving = (0..count)
        .map(|_| Ok((decode_node(&mut reader)?, DiskId(decode_u128(&mut reader)?))))
        .collect::<Result<Vec<_>, DecodeError>>()?;
    let floor = EntryId::new(reader.varint()?, reader.varint()?);
    let count = match FORMAT_WITH_AWAY <= layout.format {
        true => reader.count()?,
        false => 0,
    };
    let away = (0..count)
        .map(|_| decode_away(layout, &mut reader))
        .collect::<Result<Vec<_>, _>>()?;
    let lossy = match FORMAT_WITH_LOSSY <= layout.format {
        true => Lossy {
            count: reader.varint()?,
            epoch: reader.varint()?,
        },
        false => Lossy::default(),
    };
    let version = match FORMAT_WITH_VERSION <= layout.format {
        true => Version(reader.varint_u32()?),
        false => Version::OLDEST,
    };
    reader.end()?;
    if seats.is_empty() {
        return Err(DecodeError::new("a configuration's seats"));
    }
    Ok(Configuration {
        epoch,
        wiring,
        seats,
        last_serving,
        away,
        floor,
        lossy,
        version,
    })
}

fn decode_seat(reader: &mut Reader) -> Result<Seat, DecodeError> {
    Ok(Seat {
        node: decode_node(reader)?,
        incarnation: Incarnation(decode_u128(reader)?),
        disk: DiskId(decode_u128(reader)?),
        role: match reader.byte()? {
            0 => Role::Serving,
            1 => Role::Syncing,
            2 => Role::Leaving,
            _ => return Err(DecodeError::new("a seat's role")),
        },
    })
}

fn decode_away(layout: Layout, reader: &mut Reader) -> Result<Away, DecodeError> {
    Ok(Away {
        node: decode_node(reader)?,
        incarnation: Incarnation(match layout.has_life {
            true => decode_u128(reader)?,
            false => 0,
        }),
        disk: DiskId(decode_u128(reader)?),
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

/// A number of sixteen bytes, the greatest first.
pub(crate) fn decode_u128(reader: &mut Reader) -> Result<u128, DecodeError> {
    let mut number = 0;
    for _ in 0..16 {
        number = number << 8 | u128::from(reader.byte()?);
    }
    Ok(number)
}

#[cfg(test)]
mod tests;
