//! A segment being written.

use std::path::{Path, PathBuf};

use super::block::{Block, DiskError};
use super::files;
use super::format::{
    Before, HEADER_BYTES, Head, Header, Listed, SegmentId, block_size, encode_list, head_size,
    list_size,
};
use crate::storage::disk::{Disk, File, SyncSite};

/// Parts below that size are gathered before they are written.
const WRITE_BYTES: usize = 64 << 10;

/// A segment that blocks are appended to. After an error of any of its functions it is dropped
/// (BSTORE-2).
pub(super) struct Segment {
    file: Box<dyn File>,
    path: PathBuf,
    id: SegmentId,
    /// Where the next block goes.
    end: u32,
    /// How much is durable.
    synced: u32,
    listed: Vec<Listed>,
}

impl Segment {
    /// Begins a segment: its header and its name are durable.
    pub(super) fn begin(
        disk: &dyn Disk,
        folder: &Path,
        id: SegmentId,
        before: Option<Before>,
    ) -> Result<Segment, DiskError> {
        let path = files::path(folder, id.sequence);
        let begin = || -> std::io::Result<Box<dyn File>> {
            let mut file = disk.create(&path)?;
            file.write_all_at(0, &Header { id, before }.encode())?;
            file.sync(SyncSite::BlockHeader)?;
            disk.sync_folder(folder, SyncSite::BlockSegment)?;
            Ok(file)
        };
        let file = begin().map_err(|source| {
            // If it stays, a start removes it.
            let _ = disk.remove(&path);
            DiskError::new("beginning", &path, &source)
        })?;
        Ok(Segment {
            file,
            path,
            id,
            end: HEADER_BYTES,
            synced: HEADER_BYTES,
            listed: Vec::new(),
        })
    }

    /// Goes on with a segment that was found to end at `end`; what stands behind is cut off. What
    /// is left is durable.
    pub(super) fn found(
        mut file: Box<dyn File>,
        path: &Path,
        id: SegmentId,
        end: u32,
        listed: Vec<Listed>,
    ) -> Result<Segment, DiskError> {
        let failed = |source| DiskError::new("recovering", path, &source);
        file.set_size(u64::from(end)).map_err(failed)?;
        file.sync(SyncSite::BlocksRecovered).map_err(failed)?;
        Ok(Segment {
            file,
            path: path.to_owned(),
            id,
            end,
            synced: end,
            listed,
        })
    }

    /// Its identity.
    pub(super) fn id(&self) -> SegmentId {
        self.id
    }

    /// Where it ends so far.
    pub(super) fn end(&self) -> u32 {
        self.end
    }

    /// How much of it is durable.
    pub(super) fn synced(&self) -> u32 {
        self.synced
    }

    /// Whether it would still be within `limit` with such a block and its list. An empty one takes
    /// any block.
    pub(super) fn has_room(&self, size: u32, limit: u32) -> bool {
        let end = u64::from(self.end) + u64::from(block_size(size));
        self.listed.is_empty() || end + list_size(self.listed.len() + 1) <= u64::from(limit)
    }

    /// Writes a block, whose bytes come in parts. Says where it lies.
    pub(super) fn append(
        &mut self,
        block: &Block,
        sums: Vec<u32>,
        parts: &[impl AsRef<[u8]>],
    ) -> Result<u32, DiskError> {
        let size: usize = parts.iter().map(|part| part.as_ref().len()).sum();
        assert_eq!(size, block.size as usize, "the block was gathered whole");
        let offset = self.end;
        let head = Head {
            id: block.id,
            size: block.size,
            synced: self.synced,
            sums,
        };
        let mut gathered = Vec::with_capacity(WRITE_BYTES);
        gathered.resize(head_size(block.size) as usize, 0);
        head.encode(self.id, offset, &mut gathered);
        let written = self.write_parts(u64::from(offset), gathered, parts);
        written.map_err(|source| DiskError::new("writing", &self.path, &source))?;
        self.end += block_size(block.size);
        let block = *block;
        self.listed.push(Listed { block, offset });
        Ok(offset)
    }

    /// Writes parts behind what was gathered: small ones together, large ones without a copy.
    fn write_parts(
        &mut self,
        mut at: u64,
        mut gathered: Vec<u8>,
        parts: &[impl AsRef<[u8]>],
    ) -> std::io::Result<()> {
        for part in parts.iter().map(AsRef::as_ref) {
            if !gathered.is_empty() && WRITE_BYTES < gathered.len() + part.len() {
                self.file.write_all_at(at, &gathered)?;
                at += gathered.len() as u64;
                gathered.clear();
            }
            if part.len() < WRITE_BYTES {
                gathered.extend_from_slice(part);
            } else {
                self.file.write_all_at(at, part)?;
                at += part.len() as u64;
            }
        }
        match gathered.is_empty() {
            true => Ok(()),
            false => self.file.write_all_at(at, &gathered),
        }
    }

    /// Makes durable what was written. It leaves the operating system's cache, which is for what is
    /// read.
    pub(super) fn sync(&mut self, site: SyncSite) -> Result<(), DiskError> {
        let synced = self.file.sync(site);
        synced.map_err(|source| DiskError::new("syncing", &self.path, &source))?;
        let (from, to) = (u64::from(self.synced), u64::from(self.end));
        self.file.forget(from, to - from);
        self.synced = self.end;
        Ok(())
    }

    /// Ends it with its list: a list that is whole says that the blocks are, so they are durable
    /// before it is written. `site` is theirs.
    pub(super) fn seal(mut self, site: SyncSite) -> Result<(), DiskError> {
        if self.synced < self.end {
            self.sync(site)?;
        }
        let list = encode_list(self.id, self.end, &self.listed);
        let written = self.file.write_all_at(u64::from(self.end), &list);
        written.map_err(|source| DiskError::new("writing", &self.path, &source))?;
        self.sync(SyncSite::BlockList)
    }
}
