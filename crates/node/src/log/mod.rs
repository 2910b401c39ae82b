//! The write-ahead log: the truth of a member. The engine is what it says, applied.
//!
//! A log is a sequence of segments, each a file. A group commit is one write and one sync. Every
//! epoch, and so every start, begins a segment; a full segment is followed by another of its epoch.
//!
//! Invariants:
//! - L1 see [`record`].
//! - L2 a segment is used once its header and its name are durable.
//! - L3 after an error a file is never written or synced again: a sync that failed once may succeed
//!   the next time without the data being there. Another segment goes on, in another epoch.
//! - L4 what a failed write left behind is void as soon as a later segment names the entry before.
//!
//! Deliberately absent: reading entries while running; the chain thread knows them.

mod reader;
mod record;

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use fader_chain::{Entry, EntryId};

pub(crate) use reader::Replayed;
use record::{Codec, HEADER_SIZE, Header};

use crate::disk::{Disk, File, SyncSite};
use crate::settings::Durability;
use crate::status::OpenError;

/// Written when the log goes on after a full disk, to see that there is room.
const PROBE_BYTES: u64 = 1 << 20;

/// A segment may not grow beyond what its 32-bit offsets reach.
const SEGMENT_BYTES_MAX: u64 = 1 << 30;

/// A log that cannot go on writing.
#[derive(Debug, thiserror::Error)]
#[error("{context}: {source}")]
pub(crate) struct LogError {
    context: String,
    source: io::Error,
}

impl LogError {
    /// Whether there is no room, which may end by itself.
    pub(crate) fn is_full(&self) -> bool {
        is_full(&self.source)
    }
}

/// Whether the error says that there is no room.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

/// What the log did since it was opened.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LogStats {
    pub(crate) entries: u64,
    pub(crate) bytes: u64,
    pub(crate) syncs: u64,
    pub(crate) sync_us: u64,
}

#[derive(Debug)]
struct Segment {
    sequence: u64,
    epoch: u64,
    /// The last entry before the segment.
    prev: EntryId,
    /// Bytes of the file when it was made.
    file_size: u64,
    /// Bytes in use.
    size: u64,
}

/// The segment being written.
struct Current {
    file: Box<dyn File>,
    path: PathBuf,
    codec: Codec,
    /// Where the next record goes.
    end: u32,
    /// How much is durable.
    synced: u32,
    /// Whether a record says so.
    is_marked: bool,
}

/// The log of one member.
pub(crate) struct Log {
    disk: Arc<dyn Disk>,
    folder: PathBuf,
    durability: Durability,
    segment_bytes: u64,
    chain: u64,
    /// On disk, oldest first, the current one included.
    segments: VecDeque<Segment>,
    current: Option<Current>,
    /// The last entry written.
    last: EntryId,
    stats: LogStats,
    buffer: Vec<u8>,
}

impl Log {
    /// Opens the log in `folder`, an existing one or none; `chain` is the identity of a new one.
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        folder: &Path,
        durability: Durability,
        segment_bytes: u64,
        chain: u64,
    ) -> Result<(Log, Option<String>), OpenError> {
        let mut log = Log {
            disk,
            folder: folder.to_owned(),
            durability,
            segment_bytes: segment_bytes.min(SEGMENT_BYTES_MAX),
            chain,
            segments: VecDeque::new(),
            current: None,
            last: EntryId::ZERO,
            stats: LogStats::default(),
            buffer: Vec::new(),
        };
        let unfinished = log.read_headers()?;
        Ok((log, unfinished))
    }

    /// Whether nothing was ever logged.
    pub(crate) fn is_new(&self) -> bool {
        self.segments.is_empty()
    }

    /// Whether it takes entries.
    pub(crate) fn is_open(&self) -> bool {
        self.current.is_some()
    }

    /// What was done since the start.
    pub(crate) fn stats(&self) -> LogStats {
        self.stats
    }

    /// Bytes in use.
    pub(crate) fn disk_bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.size).sum()
    }

    /// Adopts an epoch whose entries follow `prev`: it is durable when this returns. `probes` asks
    /// for proof that the disk has room.
    pub(crate) fn begin_epoch(
        &mut self,
        epoch: u64,
        prev: EntryId,
        probes: bool,
    ) -> Result<(), LogError> {
        self.current = None;
        self.last = prev;
        self.begin_segment(epoch, probes)
    }

    /// Writes entries in one go; as durable as the setting says when this returns.
    pub(crate) fn append(&mut self, entries: &[Entry]) -> Result<(), LogError> {
        self.rotate()?;
        let mut current = self.take_current()?;
        self.buffer.clear();
        for entry in entries {
            assert_eq!(entry.prev, self.last, "I3: {} does not follow", entry.id);
            let (base, synced) = (current.end, current.synced);
            current
                .codec
                .put_entry(&mut self.buffer, base, synced, |out| entry.encode(out));
            self.last = entry.id;
        }
        self.write(&mut current)?;
        current.is_marked = false;
        if self.durability == Durability::Disk {
            self.sync_file(&mut current)?;
        }
        self.stats.entries += entries.len() as u64;
        self.current = Some(current);
        Ok(())
    }

    /// Makes everything durable, whatever the setting.
    pub(crate) fn sync(&mut self) -> Result<(), LogError> {
        let mut current = self.take_current()?;
        if current.synced < current.end {
            self.sync_file(&mut current)?;
        }
        self.current = Some(current);
        Ok(())
    }

    /// Says in the log that all of it is durable, so that damage to its end cannot pass for a write
    /// that a crash cut short.
    pub(crate) fn mark(&mut self) -> Result<(), LogError> {
        if self
            .current
            .as_ref()
            .is_none_or(|current| current.is_marked)
        {
            return Ok(());
        }
        self.sync()?;
        let mut current = self.take_current()?;
        self.buffer.clear();
        current
            .codec
            .put_mark(&mut self.buffer, current.end, current.synced);
        self.write(&mut current)?;
        self.sync_file(&mut current)?;
        current.is_marked = true;
        self.current = Some(current);
        Ok(())
    }

    /// Removes whole segments that hold nothing after `applied`, but keeps `retain` bytes.
    pub(crate) fn remove_through(&mut self, applied: EntryId, retain: u64) -> Result<(), LogError> {
        while let [first, second, ..] = self.segments.make_contiguous()
            && second.prev.index <= applied.index
        {
            let (sequence, size) = (first.sequence, first.size);
            if self.disk_bytes() - size < retain {
                break;
            }
            let path = self.path(sequence);
            self.disk
                .remove(&path)
                .map_err(|source| failed("removing", &path, source))?;
            self.segments.pop_front();
        }
        Ok(())
    }

    fn rotate(&mut self) -> Result<(), LogError> {
        match (&self.current, self.segments.back()) {
            (Some(current), Some(segment)) if self.segment_bytes <= u64::from(current.end) => {
                let epoch = segment.epoch;
                self.sync()?;
                self.current = None;
                self.begin_segment(epoch, false)
            }
            _ => Ok(()),
        }
    }

    fn begin_segment(&mut self, epoch: u64, probes: bool) -> Result<(), LogError> {
        let sequence = self
            .segments
            .back()
            .map_or(1, |segment| segment.sequence + 1);
        let header = Header {
            chain: self.chain,
            sequence,
            epoch,
            prev: self.last,
            file_size: self.segment_bytes,
        };
        let path = self.path(sequence);
        let file = self.create_file(&path, &header, probes);
        let mut file = file.map_err(|source| failed("creating", &path, source))?;
        file.sync(SyncSite::SegmentHeader)
            .map_err(|source| failed("syncing", &path, source))?;
        let named = self.disk.sync_folder(&self.folder, SyncSite::SegmentFolder);
        named.map_err(|source| failed("syncing the folder of", &path, source))?;
        let size = HEADER_SIZE as u64;
        self.segments.push_back(Segment {
            sequence,
            epoch,
            prev: self.last,
            file_size: self.segment_bytes,
            size,
        });
        let codec = Codec::new(self.chain, sequence);
        let end = HEADER_SIZE as u32;
        self.current = Some(Current {
            file,
            path,
            codec,
            end,
            synced: end,
            is_marked: true,
        });
        Ok(())
    }

    fn create_file(&self, path: &Path, header: &Header, probes: bool) -> io::Result<Box<dyn File>> {
        let mut file = match self.disk.create(path) {
            // A segment that never came to be used.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                self.disk.remove(path)?;
                self.disk.create(path)?
            }
            other => other?,
        };
        // A sync of bytes within the file's size need not wait for the file system's journal:
        // 82 µs instead of 125 on ext4 (docs/format/log.md).
        file.set_size(self.segment_bytes)?;
        if probes {
            let zeros = vec![0; PROBE_BYTES.min(self.segment_bytes) as usize];
            file.write_all_at(0, &zeros)?;
        }
        file.write_all_at(0, &header.encode())?;
        Ok(file)
    }

    /// The current segment, out of its place: an error on the way leaves the place empty (L3).
    fn take_current(&mut self) -> Result<Current, LogError> {
        self.current.take().ok_or_else(|| LogError {
            context: "writing the log".to_owned(),
            source: io::Error::other("an earlier write failed"),
        })
    }

    fn write(&mut self, current: &mut Current) -> Result<(), LogError> {
        let written = current
            .file
            .write_all_at(u64::from(current.end), &self.buffer);
        if let Err(source) = written {
            self.save_earlier(current)?;
            return Err(failed("writing", &current.path, source));
        }
        let end = u64::from(current.end) + self.buffer.len() as u64;
        current.end = u32::try_from(end)
            .map_err(|_| failed("writing", &current.path, io::ErrorKind::FileTooLarge.into()))?;
        self.stats.bytes += self.buffer.len() as u64;
        if let Some(segment) = self.segments.back_mut() {
            segment.size = end;
        }
        Ok(())
    }

    /// A later segment will say that everything before the failed write is there: with
    /// `Durability::Os` some of it may not be durable yet.
    fn save_earlier(&mut self, current: &mut Current) -> Result<(), LogError> {
        if current.synced == current.end {
            return Ok(());
        }
        let synced = current.file.sync(SyncSite::Entries);
        synced.map_err(|source| failed("syncing", &current.path, io::Error::other(source)))
    }

    fn sync_file(&mut self, current: &mut Current) -> Result<(), LogError> {
        let start = Instant::now();
        let synced = current.file.sync(SyncSite::Entries);
        synced.map_err(|source| failed("syncing", &current.path, source))?;
        self.stats.syncs += 1;
        self.stats.sync_us += start.elapsed().as_micros() as u64;
        current.synced = current.end;
        Ok(())
    }

    fn path(&self, sequence: u64) -> PathBuf {
        self.folder.join(format!("{sequence:016x}.log"))
    }
}

fn failed(doing: &str, path: &Path, source: io::Error) -> LogError {
    LogError {
        context: format!("{doing} {}", path.display()),
        source,
    }
}

#[cfg(test)]
mod tests;
