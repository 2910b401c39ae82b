//! What was acknowledged, beside the log: that anything was, and up to where at least.
//!
//! ```text
//! acknowledged := "FADERACK"  chain:u64  sequence:u64  end:u64  crc:u32       36 bytes
//! ```
//!
//! Numbers are little-endian; the checksum is CRC-32C of the bytes before. `end` is a length of the
//! segment `sequence` that was durable when it was written.
//!
//! The file is made and synced before the first acknowledgement of a folder, so a log that is gone
//! is no first start. Later it is written behind each sync of the log and not synced itself. That
//! costs no time of the disk, and each part of it that survives was true once. A process that is
//! killed leaves the newest; a power cut leaves one that may be some seconds old.

use std::io;
use std::path::{Path, PathBuf};

use crc_fast::{CrcAlgorithm, Digest};

use crate::storage::disk::{self, Disk, File, SyncSite};

const FILE: &str = "acknowledged";
const MAGIC: &[u8; 8] = b"FADERACK";
const SIZE: usize = 36;

/// What the file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bound {
    /// The log's identity.
    pub(super) chain: u64,
    /// A segment.
    pub(super) sequence: u64,
    /// Up to where it was durable.
    pub(super) end: u64,
}

impl Bound {
    fn encode(self) -> [u8; SIZE] {
        let mut bytes = [0; SIZE];
        bytes[..8].copy_from_slice(MAGIC);
        let numbers = [self.chain, self.sequence, self.end];
        for (place, number) in bytes[8..32].chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        let crc = checksum(&bytes[..32]);
        bytes[32..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Bound> {
        let bytes = <&[u8; SIZE]>::try_from(bytes).ok()?;
        let (body, crc) = bytes.split_last_chunk::<4>()?;
        if !body.starts_with(MAGIC) || checksum(body) != u32::from_le_bytes(*crc) {
            return None;
        }
        let mut numbers = body[8..].as_chunks::<8>().0.iter().copied();
        let mut next = || numbers.next().map(u64::from_le_bytes);
        Some(Bound {
            chain: next()?,
            sequence: next()?,
            end: next()?,
        })
    }
}

fn checksum(bytes: &[u8]) -> u32 {
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    digest.update(bytes);
    digest.finalize() as u32
}

/// The file of a data folder.
pub(super) struct Acknowledged {
    path: PathBuf,
    file: Option<Box<dyn File>>,
}

impl Acknowledged {
    /// That beside the folder of a log.
    pub(super) fn beside(log: &Path) -> Self {
        Acknowledged {
            path: log.with_file_name(FILE),
            file: None,
        }
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// What it says; `None` where there is none. The inner `None` is of one that cannot be read: a
    /// crash may have cut its write short.
    pub(super) fn read(&self, disk: &dyn Disk) -> io::Result<Option<Option<Bound>>> {
        match disk::read_file(disk, &self.path) {
            Ok(bytes) => Ok(Some(Bound::decode(&bytes))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Notes a bound. The first time in a folder it is durable when this returns.
    pub(super) fn note(&mut self, disk: &dyn Disk, bound: Bound) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(open(disk, &self.path, bound)?),
        };
        file.write_all_at(0, &bound.encode())
    }
}

fn open(disk: &dyn Disk, path: &Path, bound: Bound) -> io::Result<Box<dyn File>> {
    match disk.open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        other => return other,
    }
    let mut file = disk.create(path)?;
    file.write_all_at(0, &bound.encode())?;
    file.sync(SyncSite::Acknowledged)?;
    if let Some(folder) = path.parent() {
        disk.sync_folder(folder, SyncSite::Acknowledged)?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_and_others_say_nothing() {
        let bound = Bound {
            chain: 7,
            sequence: 2,
            end: 4_096,
        };
        let bytes = bound.encode();
        assert_eq!(Bound::decode(&bytes), Some(bound));
        for at in 0..SIZE {
            let mut flipped = bytes;
            flipped[at] ^= 4;
            assert_eq!(Bound::decode(&flipped), None, "{at}");
        }
        assert_eq!(Bound::decode(&bytes[1..]), None);
    }
}
