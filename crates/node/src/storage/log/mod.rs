//! The write-ahead log: the truth of a member. The engine is what it says, applied.
//!
//! A log is a sequence of segments, each a file. A group commit is one write and one sync. A start
//! goes on with the last segment if nothing stands behind its last record; otherwise it begins
//! another one. A full segment is followed by another.
//!
//! Invariants:
//! - (WAL-1) see [`record`].
//! - WAL-2 a segment is used once its header, its preamble and its name are durable.
//! - WAL-3 after an error a file is never written or synced again. A sync that failed once may
//!   succeed the next time without the data being there. Another segment goes on.
//! - WAL-4 what a failed write left behind is void as soon as a later segment says where the one
//!   before ends.
//! - WAL-5 what a segment and its preamble say, with the entries of those before, is all there is
//!   to know: so old segments can go.
//! - WAL-6 [`Log::kept`] is what recovery would find now, but for entries that were released.
//!
//! Deliberately absent: reading entries while running; the chain thread knows them.

mod acknowledged;
mod payload;
mod reader;
mod record;

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fader_chain::{EntryId, Record, RecoveredState};

use acknowledged::{Acknowledged, Bound};
pub(crate) use reader::{Replayed, whole_until};
use record::{Before, Codec, HEADER_SIZE, Header};

use crate::status::OpenError;
use crate::storage::disk::{Disk, File, SyncSite, is_full};

/// When a write counts as durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Acknowledged after fdatasync: survives a power cut.
    #[default]
    Disk,
    /// Acknowledged when the operating system has it: survives a crash of the process.
    Os,
}

/// Written when the log goes on after a full disk, to see that there is room.
const PROBE_BYTES: u64 = 1 << 20;

/// Zeros are written ahead of the records up to the next multiple of this. To sync what is written
/// where blocks are already, the file system has nothing of its own to write
/// (docs/reference/format/log.md, "Measured"). More would make the sync that carries them longer.
const ZEROS_BYTES: u64 = 64 << 10;

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
        is_full(self.source.kind())
    }
}

/// What the log did since it was opened.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LogStats {
    pub(crate) entries: u64,
    pub(crate) bytes: u64,
    pub(crate) syncs: u64,
    pub(crate) sync_us: u64,
    /// Bytes that the start found to be zeros where a record should be.
    pub(crate) possibly_lost: u64,
}

#[derive(Debug)]
struct Segment {
    sequence: u64,
    before: Before,
    /// The last entry before the segment.
    prev: EntryId,
    /// Bytes of the file when it was made.
    file_size: u64,
    /// Bytes in use, but for those that a failed write left.
    size: u64,
}

/// The segment being written.
struct Current {
    file: Box<dyn File>,
    path: PathBuf,
    codec: Codec,
    /// Where the next record goes.
    end: u32,
    /// Up to where the file has blocks.
    zeroed: u64,
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
    /// Whether the replay found nothing but zeros behind the last segment's last record. The file
    /// must have the size and format of a new segment.
    is_clean: bool,
    /// Whether there is a file behind the last segment that never came to be used.
    is_unfinished: bool,
    /// The last entry written.
    last: EntryId,
    kept: RecoveredState,
    acknowledged: Acknowledged,
    stats: LogStats,
    /// How long the last write took, with its sync.
    last_write: Duration,
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
            is_clean: false,
            is_unfinished: false,
            last: EntryId::ZERO,
            kept: RecoveredState::default(),
            acknowledged: Acknowledged::beside(folder),
            stats: LogStats::default(),
            last_write: Duration::ZERO,
            buffer: Vec::new(),
        };
        let unfinished = log.read_headers()?;
        Ok((log, unfinished))
    }

    /// Whether nothing was ever logged.
    pub(crate) fn is_new(&self) -> bool {
        self.segments.is_empty()
    }

    /// Where it is.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The segment that is missing before the first one, if the entry after `applied` is in it.
    pub(crate) fn missing_before(&self, applied: EntryId) -> Option<PathBuf> {
        let first = self.segments.front()?;
        (applied.index < first.prev.index).then(|| self.path(first.sequence - 1))
    }

    /// The entry before the first that it has.
    pub(crate) fn oldest(&self) -> EntryId {
        self.segments
            .front()
            .map_or(EntryId::ZERO, |first| first.prev)
    }

    /// Whether it has everything from the first entry of its chain on.
    pub(crate) fn reaches_back(&self) -> bool {
        let mut expected = 1..;
        let mut segments = self.segments.iter();
        !self.is_new()
            && segments.all(|it| expected.next() == Some(it.sequence))
            && self
                .segments
                .front()
                .is_some_and(|first| first.prev == EntryId::ZERO)
    }

    /// The random number that all its segments carry.
    pub(crate) fn identity(&self) -> u64 {
        self.chain
    }

    /// Whether it takes entries.
    pub(crate) fn is_open(&self) -> bool {
        self.current.is_some()
    }

    /// What was done since the start.
    pub(crate) fn stats(&self) -> LogStats {
        self.stats
    }

    /// How long the last write took, with its sync.
    pub(crate) fn last_write(&self) -> Duration {
        self.last_write
    }

    /// Bytes in use.
    pub(crate) fn disk_bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.size).sum()
    }

    /// What a start would find now (WAL-6).
    pub(crate) fn kept(&self) -> &RecoveredState {
        &self.kept
    }

    /// What a start would find now, to be brought up to date by a recovery.
    pub(crate) fn kept_mut(&mut self) -> &mut RecoveredState {
        &mut self.kept
    }

    /// Goes on behind the last record that the replay found, or in a new segment where that is not
    /// certain to be the end.
    pub(crate) fn resume(&mut self) -> Result<(), LogError> {
        let is_clean = std::mem::take(&mut self.is_clean);
        let Some(segment) = self.segments.back().filter(|_| is_clean) else {
            return self.begin(false);
        };
        let (sequence, end) = (segment.sequence, segment.size as u32);
        let path = self.path(sequence);
        let file = self.disk.open(&path);
        let mut file = file.map_err(|source| failed("opening", &path, source))?;
        if self.durability == Durability::Disk {
            file.write_through();
        }
        self.current = Some(Current {
            file,
            path,
            codec: Codec::new(self.chain, sequence),
            end,
            zeroed: 0,
            // The replay has synced what it read.
            synced: end,
            is_marked: false,
        });
        Ok(())
    }

    /// Begins a segment; what stands behind the last write that succeeded is void when this
    /// returns. `probes` asks for proof that the disk has room.
    pub(crate) fn begin(&mut self, probes: bool) -> Result<(), LogError> {
        self.current = None;
        let before = self.segments.back();
        let sequence = before.map_or(1, |segment| segment.sequence + 1);
        let end = before.map_or(0, |segment| segment.size as u32);
        let codec = Codec::new(self.chain, sequence);
        let preamble = self.preamble(codec);
        let header = Header {
            chain: self.chain,
            sequence,
            before: Before::Offset {
                end,
                preamble: preamble.len() as u32,
            },
            prev: self.last,
            file_size: self.segment_bytes,
        };
        let path = self.path(sequence);
        let file = self.create_file(&path, &header, &preamble, probes);
        let mut file = file.map_err(|source| failed("creating", &path, source))?;
        file.sync(SyncSite::SegmentHeader)
            .map_err(|source| failed("syncing", &path, source))?;
        let named = self.disk.sync_folder(&self.folder, SyncSite::SegmentFolder);
        named.map_err(|source| failed("syncing the folder of", &path, source))?;
        if self.durability == Durability::Disk {
            file.write_through();
        }
        let end = (HEADER_SIZE + preamble.len()) as u32;
        self.segments.push_back(Segment {
            sequence,
            before: header.before,
            prev: self.last,
            file_size: self.segment_bytes,
            size: u64::from(end),
        });
        self.current = Some(Current {
            file,
            path,
            codec,
            end,
            zeroed: 0,
            synced: end,
            is_marked: true,
        });
        Ok(())
    }

    /// WAL-5: what is needed of earlier segments, but for their entries.
    fn preamble(&self, codec: Codec) -> Vec<u8> {
        let kept = &self.kept;
        let epoch = kept.configuration.iter().cloned().map(Record::Epoch);
        let clock = (0 < kept.clock_bound).then_some(Record::ClockBound(kept.clock_bound));
        let operations = kept.operations.values().cloned().map(Record::Operation);
        let mut out = Vec::new();
        for record in epoch.chain(clock).chain(operations) {
            codec.put(&mut out, HEADER_SIZE as u32, 0, &record);
        }
        out
    }

    /// Writes records in one go; as durable as the setting says when this returns.
    pub(crate) fn append(&mut self, records: &[Record]) -> Result<(), LogError> {
        let start = Instant::now();
        self.rotate()?;
        let mut current = self.take_current()?;
        self.buffer.clear();
        for record in records {
            let (base, synced) = (current.end, current.synced);
            current.codec.put(&mut self.buffer, base, synced, record);
        }
        self.write(&mut current)?;
        current.is_marked = false;
        let is_promise =
            |record: &Record| matches!(record, Record::Epoch(_) | Record::ClockBound(_));
        if self.durability == Durability::Disk || records.iter().any(is_promise) {
            self.sync_file(&mut current)?;
        }
        self.last_write = start.elapsed();
        self.on_written(&current);
        self.current = Some(current);
        for record in records {
            self.last = follow(self.last, record);
            self.stats.entries += u64::from(matches!(record, Record::Entry(_)));
            self.kept.take(record.clone());
        }
        Ok(())
    }

    /// Makes everything durable, with any setting.
    pub(crate) fn sync(&mut self) -> Result<(), LogError> {
        let mut current = self.take_current()?;
        if current.synced < current.end {
            self.sync_file(&mut current)?;
        }
        self.current = Some(current);
        Ok(())
    }

    /// Says in the log that all of it is durable. So damage to its end cannot pass for a write that
    /// a crash cut short.
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
        self.on_written(&current);
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
        match &self.current {
            Some(current) if self.segment_bytes <= u64::from(current.end) => {
                self.sync()?;
                self.begin(false)
            }
            _ => Ok(()),
        }
    }

    fn create_file(
        &self,
        path: &Path,
        header: &Header,
        preamble: &[u8],
        probes: bool,
    ) -> io::Result<Box<dyn File>> {
        let mut file = match self.disk.create(path) {
            // A segment that never came to be used.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                self.disk.remove(path)?;
                self.disk.create(path)?
            }
            other => other?,
        };
        // A sync of bytes within the file's size need not make the file system store another.
        file.set_size(self.segment_bytes)?;
        if probes {
            let zeros = vec![0; PROBE_BYTES.min(self.segment_bytes) as usize];
            file.write_all_at(0, &zeros)?;
        }
        file.write_all_at(0, &[&header.encode(), preamble].concat())?;
        Ok(file)
    }

    /// The current segment, out of its place: an error on the way leaves the place empty (WAL-3).
    fn take_current(&mut self) -> Result<Current, LogError> {
        self.current.take().ok_or_else(|| LogError {
            context: "writing the log".to_owned(),
            source: io::Error::other("an earlier write failed"),
        })
    }

    fn write(&mut self, current: &mut Current) -> Result<(), LogError> {
        let bytes = self.buffer.len() as u64;
        let end = u64::from(current.end) + bytes;
        if current.zeroed < end {
            current.zeroed = end.next_multiple_of(ZEROS_BYTES).min(self.segment_bytes);
            let zeros = current.zeroed.saturating_sub(end);
            self.buffer.resize((bytes + zeros) as usize, 0);
        }
        let written = current
            .file
            .write_all_at(u64::from(current.end), &self.buffer);
        if let Err(source) = written {
            self.save_earlier(current)?;
            return Err(failed("writing", &current.path, source));
        }
        current.end = u32::try_from(end)
            .map_err(|_| failed("writing", &current.path, io::ErrorKind::FileTooLarge.into()))?;
        self.stats.bytes += bytes;
        Ok(())
    }

    fn on_written(&mut self, current: &Current) {
        if let Some(segment) = self.segments.back_mut() {
            segment.size = u64::from(current.end);
        }
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
        let bound = Bound {
            chain: self.chain,
            sequence: current.codec.sequence(),
            end: u64::from(current.synced),
        };
        let noted = self.acknowledged.note(&*self.disk, bound);
        noted.map_err(|source| failed("writing", self.acknowledged.path(), source))
    }

    fn path(&self, sequence: u64) -> PathBuf {
        self.folder.join(format!("{sequence:016x}.log"))
    }
}

/// The last entry of a log that ended with `last` and goes on with `record`.
fn follow(last: EntryId, record: &Record) -> EntryId {
    match record {
        Record::Entry(entry) => entry.id,
        Record::Cut { after } => last.min(*after),
        Record::Filled { at } => last.max(*at),
        _ => last,
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
