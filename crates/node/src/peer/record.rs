//! Frames, and the messages in them.
//!
//! ```text
//! frame   := size:u16le sealed            sealed: lane:u8 piece, or nothing: a sign of incarnation
//! lane    := 0 prompt | 1 bulk            the pieces of a lane, one after the other, are messages
//! message := size:u32le body
//! ```
//!
//! A long message of the bulk lane takes many frames, between which those of the prompt one go.
//!
//! Invariants:
//! - SFRAME-1 memory is taken for what has come and opened, never for what a size promises.

use std::io::{self, Read};

use bytes::Bytes;

use super::noise::{Cipher, TAG_SIZE};
use super::refusal::PeerError;

/// What a message may be long: a member's whole overlay, or the largest entry.
pub(super) const MESSAGE_MAX: usize = 32 << 20;
/// What a frame may carry of a lane.
pub(super) const PIECE_MAX: usize = u16::MAX as usize - TAG_SIZE - 1;

const SIZE: usize = size_of::<u32>();

/// Which messages go first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    /// Those that someone waits for.
    Prompt,
    /// Long ones.
    Bulk,
}

/// Appends a message to a lane; says whether it is one that may be sent.
pub(super) fn put_message(lane: &mut Vec<u8>, put: impl FnOnce(&mut Vec<u8>)) -> bool {
    let start = lane.len();
    lane.extend_from_slice(&[0; SIZE]);
    put(lane);
    let size = lane.len() - start - SIZE;
    if MESSAGE_MAX < size {
        lane.truncate(start);
        return false;
    }
    let size = u32::try_from(size).expect("the limit has 32 bits");
    lane[start..start + SIZE].copy_from_slice(&size.to_le_bytes());
    true
}

/// Seals frames.
pub(super) struct Sealer {
    cipher: Cipher,
}

impl Sealer {
    pub(super) fn new(cipher: Cipher) -> Self {
        Sealer { cipher }
    }

    /// Appends a frame that says nothing.
    pub(super) fn sign_of_life(&mut self, out: &mut Vec<u8>) {
        self.frame(out, |_| {});
    }

    /// Appends the frames of `bytes`, which are messages or a piece of one.
    pub(super) fn frames(&mut self, lane: Lane, bytes: &[u8], out: &mut Vec<u8>) {
        for piece in bytes.chunks(PIECE_MAX) {
            self.frame(out, |out| {
                out.push(lane as u8);
                out.extend_from_slice(piece);
            });
        }
    }

    fn frame(&mut self, out: &mut Vec<u8>, put: impl FnOnce(&mut Vec<u8>)) {
        let start = out.len();
        out.extend_from_slice(&[0; 2]);
        put(out);
        self.cipher.seal(&[], out, start + 2);
        let size = u16::try_from(out.len() - start - 2).expect("a piece has at most its limit");
        out[start..start + 2].copy_from_slice(&size.to_le_bytes());
    }
}

/// Opens frames, and puts the messages in them together.
pub(super) struct Opener {
    cipher: Cipher,
    lanes: [Assembly; 2],
    /// What a message may be long.
    max: usize,
}

impl Opener {
    pub(super) fn new(cipher: Cipher) -> Self {
        Opener::within(cipher, MESSAGE_MAX)
    }

    /// One of shorter messages.
    pub(super) fn within(cipher: Cipher, max: usize) -> Self {
        Opener {
            cipher,
            lanes: Default::default(),
            max,
        }
    }

    /// Reads one frame and hands out the messages that are complete with it. Says how many bytes
    /// it had.
    pub(super) fn read(
        &mut self,
        stream: &mut impl Read,
        take: &mut impl FnMut(Bytes) -> Result<(), PeerError>,
    ) -> Result<usize, PeerError> {
        let mut size = [0; 2];
        if read_some(stream, &mut size[..1])? == 0 {
            return Err(PeerError::Ended);
        }
        stream.read_exact(&mut size[1..])?;
        let mut sealed = vec![0; usize::from(u16::from_le_bytes(size))];
        stream.read_exact(&mut sealed)?;
        let opened = self.cipher.open(&[], &mut sealed);
        let opened = opened.map_err(|_| PeerError::Frame)?.len();
        let size = size.len() + sealed.len();
        sealed.truncate(opened);
        let mut piece = Bytes::from(sealed);
        let lane = match piece.first() {
            None => return Ok(size),
            Some(0) => Lane::Prompt,
            Some(1) => Lane::Bulk,
            Some(_) => return Err(PeerError::Frame),
        };
        let piece = piece.split_off(1);
        self.lanes[lane as usize].feed(piece, self.max, take)?;
        Ok(size)
    }
}

/// Some bytes; a process that was stopped and goes on has missed none.
fn read_some(stream: &mut impl Read, into: &mut [u8]) -> io::Result<usize> {
    loop {
        match stream.read(into) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => return read,
        }
    }
}

/// A lane's message that has not come as a whole yet: its size, and what there is of it.
#[derive(Default)]
struct Assembly {
    partial: Vec<u8>,
}

impl Assembly {
    fn feed(
        &mut self,
        mut piece: Bytes,
        max: usize,
        take: &mut impl FnMut(Bytes) -> Result<(), PeerError>,
    ) -> Result<(), PeerError> {
        let size = |bytes: &[u8]| size(bytes, max);
        while !piece.is_empty() {
            if self.partial.is_empty()
                && let Some(size) = size(&piece)?
                && SIZE + size <= piece.len()
            {
                let message = piece.split_to(SIZE + size);
                take(message.slice(SIZE..))?;
                continue;
            }
            let missing = match size(&self.partial)? {
                None => SIZE - self.partial.len(),
                Some(size) => SIZE + size - self.partial.len(),
            };
            let part = piece.split_to(missing.min(piece.len()));
            self.partial.extend_from_slice(&part);
            if let Some(size) = size(&self.partial)?
                && SIZE + size == self.partial.len()
            {
                let message = Bytes::from(std::mem::take(&mut self.partial));
                take(message.slice(SIZE..))?;
            }
        }
        Ok(())
    }
}

/// The size of the message that begins here, as far as it can be told.
fn size(bytes: &[u8], max: usize) -> Result<Option<usize>, PeerError> {
    let Some(size) = bytes.first_chunk() else {
        return Ok(None);
    };
    let size = u32::from_le_bytes(*size) as usize;
    if max < size {
        return Err(PeerError::TooLong);
    }
    Ok(Some(size))
}

#[cfg(test)]
mod tests;
