//! Where a page ended: what `select` puts into a page token.
//!
//! ```text
//! position := sorts:u8 (0|1)  count:varint source:varint*  placed:u8 (0|1) place?
//! place    := lane:varint value:bytes item:bytes
//! ```

use fader_chain::{DecodeError, Reader, put_bytes, put_varint};

use super::index_scan::ScanPosition;
use super::plan::Choice;
use bytes::Bytes;

/// The plan to go on with, and the last place that is done with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Position {
    /// The plan.
    pub(crate) choice: Choice,
    /// The place; none when none was reached.
    pub(crate) place: Option<ScanPosition>,
}

impl Position {
    /// The bytes for a token.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![u8::from(self.choice.sorts)];
        put_varint(&mut out, self.choice.sources.len() as u64);
        self.choice
            .sources
            .iter()
            .for_each(|&source| put_varint(&mut out, source as u64));
        out.push(u8::from(self.place.is_some()));
        if let Some(place) = &self.place {
            put_varint(&mut out, place.lane as u64);
            put_bytes(&mut out, &place.value);
            put_bytes(&mut out, &place.item);
        }
        out
    }

    /// Reads what `encode` wrote.
    ///
    /// # Errors
    /// [`DecodeError`] when the bytes are no position.
    pub(crate) fn decode(bytes: Bytes) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let sorts = flag(&mut reader)?;
        let count = reader.count()?;
        let sources = (0..count)
            .map(|_| index(&mut reader))
            .collect::<Result<_, _>>()?;
        let place = if flag(&mut reader)? {
            let lane = index(&mut reader)?;
            let (value, item) = (reader.bytes()?.into(), reader.bytes()?.into());
            Some(ScanPosition { lane, value, item })
        } else {
            None
        };
        reader.end()?;
        Ok(Position {
            choice: Choice { sorts, sources },
            place,
        })
    }
}

fn flag(reader: &mut Reader) -> Result<bool, DecodeError> {
    match reader.byte()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(DecodeError::new("a flag of a position")),
    }
}

fn index(reader: &mut Reader) -> Result<usize, DecodeError> {
    let index = reader.varint_u32()?;
    usize::try_from(index).map_err(|_| DecodeError::new("an index of a position"))
}

#[cfg(test)]
mod tests;
