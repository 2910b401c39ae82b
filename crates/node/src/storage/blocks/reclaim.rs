//! Space of removed blocks is given back: what lives in a segment is copied, and the segment's file
//! is removed.

use super::block::{Bad, DiskError, ReadError};
use super::files;
use super::format::block_size;
use super::index::{Place, State};
use super::segment::Segment;
use super::store::Blocks;
use crate::storage::disk::SyncSite;

/// What one step of reclaiming did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reclaimed {
    /// Files that were removed. Zero when there was nothing to do.
    pub segments: u64,
    /// Blocks that were copied.
    pub copied: u64,
    /// Bytes that they take.
    pub copied_bytes: u64,
    /// Damage that was met: those blocks stay where they are.
    pub bad: Vec<Bad>,
}

/// Where a block was, and where its copy is.
type Copied = Vec<(Place, Place)>;

impl Blocks {
    /// Rewrites segments of which less than half is alive into one, and those that were given up or
    /// have a damaged list. When it returns, the files it removed do not come back. It may be
    /// called again until it removes none.
    ///
    /// # Errors
    /// What the operating system says. Nothing that is held is lost, and it may be called again.
    pub fn reclaim(&self) -> Result<Reclaimed, DiskError> {
        let _alone = self.rewriting.lock();
        let picked = self.index.lock().pick(self.settings.segment_bytes);
        let mut done = Reclaimed::default();
        if picked.is_empty() {
            return Ok(done);
        }
        let mut target = None;
        let copied = self.copy(&picked, &mut target, &mut done);
        let copied = match (copied, target) {
            (Ok(copied), Some(target)) => self.seal(target).map(|()| copied),
            (Err(error), Some(target)) => {
                self.drop_copies(target.id().sequence);
                Err(error)
            }
            (copied, None) => copied,
        }?;
        let mut index = self.index.lock();
        for (from, to) in &copied {
            index.relocate(from, *to);
        }
        drop(index);
        self.remove_files(&picked, &mut done)?;
        Ok(done)
    }

    fn copy(
        &self,
        picked: &[u64],
        target: &mut Option<Segment>,
        done: &mut Reclaimed,
    ) -> Result<Copied, DiskError> {
        let mut copied = Copied::new();
        for sequence in picked {
            let places = self.index.lock().blocks_of(*sequence);
            for place in places {
                let loaded = self.load(&place);
                let (sums, bytes) = match loaded {
                    Ok(loaded) => loaded,
                    Err(error) => {
                        let was_moved = self.on_unreadable(&place, &Err::<(), _>(error.clone()));
                        if let (false, ReadError::Damaged(damage)) = (was_moved, error) {
                            let block = Some(place.block);
                            done.bad.push(Bad { block, damage });
                        }
                        continue;
                    }
                };
                if target.is_none() {
                    *target = Some(self.begin_segment(None)?);
                }
                let target = target.as_mut().expect("a segment was just begun");
                let offset = target.append(&place.block, sums, &[bytes])?;
                let segment = target.id().sequence;
                copied.push((
                    place,
                    Place {
                        segment,
                        offset,
                        ..place
                    },
                ));
                done.copied += 1;
                done.copied_bytes += u64::from(block_size(place.block.size));
            }
        }
        Ok(copied)
    }

    /// BSTORE-3: the copies are durable, then their list.
    fn seal(&self, target: Segment) -> Result<(), DiskError> {
        let (sequence, end) = (target.id().sequence, target.end());
        match target.seal(SyncSite::BlockCopies) {
            Ok(()) => {
                self.index.lock().set_state(sequence, State::Sealed(end));
                Ok(())
            }
            Err(error) => {
                self.drop_copies(sequence);
                Err(error)
            }
        }
    }

    /// Copies that came to nothing.
    fn drop_copies(&self, sequence: u64) {
        self.index.lock().remove_segment(sequence);
        // If it cannot be removed now, a start finds copies in it of blocks that it has anyway.
        let _ = self.disk.remove(&files::path(&self.folder, sequence));
    }

    fn remove_files(&self, picked: &[u64], done: &mut Reclaimed) -> Result<(), DiskError> {
        for sequence in picked {
            // A block that was damaged or could not be opened is still there.
            if !self.index.lock().blocks_of(*sequence).is_empty() {
                continue;
            }
            let path = files::path(&self.folder, *sequence);
            match self.disk.remove(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(DiskError::new("removing", &path, &error));
                }
                _ => self.index.lock().remove_segment(*sequence),
            }
            self.opened.close(*sequence);
            done.segments += 1;
        }
        if 0 < done.segments {
            let synced = self
                .disk
                .sync_folder(&self.folder, SyncSite::BlockSegmentRemoved);
            synced.map_err(|error| DiskError::new("syncing", &self.folder, &error))?;
        }
        Ok(())
    }
}
