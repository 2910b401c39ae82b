//! Reading a log at the start: what is whole, what was cut short, what is damaged.
//!
//! A bad record is the end of a write that a crash cut short if nothing shows that it was durable
//! once. A later segment (WAL-2, WAL-4) or a later record (WAL-1) shows it. Then it is damage, and
//! the member must not go on as if those entries had never been.

use std::io;
use std::path::Path;

use bytes::Bytes;
use fader_chain::{EntryId, Record, RecoveredState};

use super::payload::{self, KIND_MARK};
use super::record::{Before, Codec, HEADER_SIZE, Header};
use super::{Bound, Log, Segment, follow};
use crate::status::OpenError;
use crate::storage::disk::{self, File, SyncSite};

const ZEROS: [u8; 4096] = [0; 4096];

/// What a replay found.
#[derive(Debug, Default)]
pub(crate) struct Replayed {
    /// The last entry of the log.
    pub(crate) last: EntryId,
    /// The greatest epoch that segments of format 1 name.
    pub(crate) epoch: u64,
    /// Segments read.
    pub(crate) segments: u64,
    /// Bytes read.
    pub(crate) bytes: u64,
    /// What was cut off the end, and where.
    pub(crate) torn: Option<Torn>,
}

/// What stood behind the last whole record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Torn {
    /// The file, the offset, and what was found.
    pub(crate) words: String,
    /// Bytes that a record says it has, and that are zeros: what a write that was cut short leaves
    /// only if the power went. They may have been acknowledged.
    pub(crate) lost: u64,
}

impl Log {
    /// Reads the headers of all segments. Says so if the last one was never finished.
    pub(super) fn read_headers(&mut self) -> Result<Option<String>, OpenError> {
        let names = self
            .disk
            .list(&self.folder)
            .map_err(|source| reading(&self.folder, source))?;
        let mut sequences: Vec<u64> = names.iter().filter_map(|name| sequence_of(name)).collect();
        sequences.sort_unstable();
        for (at, &sequence) in sequences.iter().enumerate() {
            let is_last = at + 1 == sequences.len();
            if let Some(unfinished) = self.read_header(sequence, at == 0, is_last)? {
                self.is_unfinished = true;
                return Ok(Some(unfinished));
            }
        }
        Ok(None)
    }

    fn read_header(
        &mut self,
        sequence: u64,
        is_first: bool,
        is_last: bool,
    ) -> Result<Option<String>, OpenError> {
        let path = self.path(sequence);
        let file = self
            .disk
            .open(&path)
            .map_err(|source| reading(&path, source))?;
        let size = file.size().map_err(|source| reading(&path, source))?;
        let mut bytes = vec![0; size.min(HEADER_SIZE as u64) as usize];
        file.read_exact_at(0, &mut bytes)
            .map_err(|source| reading(&path, source))?;
        let unused = |reason: &str| format!("{}, offset 0: {reason}; never used", path.display());
        let codec = Codec::new(self.chain, sequence);
        let header = match Header::decode(&bytes) {
            Ok(header) if header.sequence != sequence => {
                return Err(damaged(&path, 0, "the header is that of another segment"));
            }
            Ok(header) if !is_first && header.chain != self.chain => {
                return Err(damaged(&path, 0, "the segment belongs to another log"));
            }
            Ok(header) => header,
            // WAL-2: nothing that testifies was written behind a header that was not durable.
            Err(reason) if is_last && is_unused(&*file, is_first, codec, &path)? => {
                return Ok(Some(unused(&reason)));
            }
            Err(reason) => return Err(damaged(&path, 0, &reason)),
        };
        self.chain = header.chain;
        let codec = Codec::new(header.chain, sequence);
        if is_last
            && 0 < header.before.preamble_size()
            && !has_preamble(&*file, &header, codec, &path)?
        {
            if is_unused(&*file, false, codec, &path)? {
                return Ok(Some(unused("the preamble is cut off")));
            }
            return Err(damaged(&path, HEADER_SIZE, "the preamble is damaged"));
        }
        self.segments.push_back(Segment {
            sequence,
            before: header.before,
            prev: header.prev,
            file_size: header.file_size,
            size: HEADER_SIZE as u64,
        });
        Ok(None)
    }

    /// Hands out every record from before the entry after `applied` on, in order, with what the log
    /// keeps. `take` is to bring that up to date.
    pub(crate) fn replay(
        &mut self,
        applied: EntryId,
        mut take: impl FnMut(Record, &mut RecoveredState) -> Result<(), OpenError>,
    ) -> Result<Replayed, OpenError> {
        let mut replayed = Replayed::default();
        let bound = self.bound()?;
        if self.segments.is_empty() {
            return Ok(replayed);
        }
        self.sync_last()?;
        let first = self.first_needed(applied)?;
        replayed.last = self.segments[first].prev;
        self.kept.before = replayed.last;
        for at in first..self.segments.len() {
            self.check_sequence(first, at)?;
            self.replay_segment(at, &mut replayed, &mut take)?;
        }
        self.last = replayed.last;
        self.check_bound(bound, &mut replayed)?;
        self.stats.possibly_lost = replayed.torn.as_ref().map_or(0, |torn| torn.lost);
        Ok(replayed)
    }

    /// What is known to have been acknowledged; of a folder that acknowledged anything, there must
    /// be a log.
    fn bound(&self) -> Result<Option<Bound>, OpenError> {
        let path = self.acknowledged.path();
        let read = self.acknowledged.read(&*self.disk);
        let bound = match read.map_err(|source| reading(path, source))? {
            None => return Ok(None),
            Some(bound) => bound,
        };
        if self.is_new() {
            return Err(OpenError::damaged(format!(
                "the log is missing: {} has no segment, but {} says that writes were acknowledged \
                 in this folder. Restore the data folder from a copy; to begin anew, use another \
                 folder with --data",
                self.folder.display(),
                path.display()
            )));
        }
        if bound.is_none() {
            tracing::warn!(
                file = %path.display(),
                "it cannot be read, so it does not say up to where writes were acknowledged; the \
                 log is read as it is"
            );
        }
        Ok(bound)
    }

    /// The log has all that is known to have been acknowledged.
    fn check_bound(&self, bound: Option<Bound>, replayed: &mut Replayed) -> Result<(), OpenError> {
        let last = self.segments.back().expect("the log has segments");
        let Some(bound) = bound else {
            return Ok(());
        };
        if bound.chain != self.chain {
            let path = self.path(last.sequence);
            let reason = format!(
                "the segment is not of the log that {} knows: the folder mixes two nodes",
                self.acknowledged.path().display()
            );
            return Err(damaged(&path, 0, &reason));
        }
        let end = (last.sequence, last.size);
        if end < (bound.sequence, bound.end) {
            let reason = match last.sequence < bound.sequence {
                true => format!("segments up to {:016x}.log must follow", bound.sequence),
                false => format!("everything up to offset {} was acknowledged", bound.end),
            };
            let path = self.path(last.sequence);
            return Err(damaged(
                &path,
                last.size as usize,
                &format!("the log ends, and {reason}"),
            ));
        }
        if let Some(torn) = &mut replayed.torn
            && end == (bound.sequence, bound.end)
        {
            // What is known is exact: a process was killed, and the power was there.
            torn.lost = 0;
        }
        Ok(())
    }

    /// Makes durable what is about to be believed. A process that was killed between its write and
    /// its sync leaves bytes, and names, that a read sees and a power cut loses.
    fn sync_last(&self) -> Result<(), OpenError> {
        let Some(segment) = self.segments.back() else {
            return Ok(());
        };
        let path = self.path(segment.sequence);
        let file = self.disk.open(&path);
        let synced = file.and_then(|mut file| {
            file.sync(SyncSite::Recovered)?;
            self.disk.sync_folder(&self.folder, SyncSite::Recovered)
        });
        synced.map_err(|source| {
            let context = format!("syncing {}", path.display());
            OpenError::io(context, source)
        })
    }

    /// The segment with the entry after `applied`: from there on none may be missing.
    fn first_needed(&self, applied: EntryId) -> Result<usize, OpenError> {
        let mut at = self.segments.len() - 1;
        while applied.index < self.segments[at].prev.index {
            let needed = self.segments[at].sequence - 1;
            if at == 0 || self.segments[at - 1].sequence != needed {
                let path = self.path(needed);
                let reason = format!(
                    "the segment is missing; it holds entries after {applied}, the last one applied"
                );
                return Err(damaged(&path, 0, &reason));
            }
            at -= 1;
        }
        Ok(at)
    }

    /// No segment is missing between two that are read.
    fn check_sequence(&self, first: usize, at: usize) -> Result<(), OpenError> {
        let expected = self.segments[first].sequence + (at - first) as u64;
        match self.segments[at].sequence == expected {
            true => Ok(()),
            false => Err(damaged(&self.path(expected), 0, "the segment is missing")),
        }
    }

    fn replay_segment(
        &mut self,
        at: usize,
        replayed: &mut Replayed,
        take: &mut impl FnMut(Record, &mut RecoveredState) -> Result<(), OpenError>,
    ) -> Result<(), OpenError> {
        let Segment {
            sequence,
            before,
            prev,
            file_size,
            ..
        } = self.segments[at];
        let end = End::of(self.segments.get(at + 1));
        let path = self.path(sequence);
        let falls = matches!(before, Before::Entry { epoch } if epoch < replayed.epoch);
        if prev != replayed.last || falls {
            return Err(damaged(
                &path,
                0,
                "the segment does not follow the one before",
            ));
        }
        let bytes = disk::read_file(&*self.disk, &path).map_err(|source| reading(&path, source))?;
        let bytes = Bytes::from(bytes);
        if end == End::Open {
            check_size(&bytes, file_size, before, &path)?;
        }
        let codec = Codec::new(self.chain, sequence);
        let mut offset = HEADER_SIZE;
        while !end.is_reached(offset, replayed.last) {
            let Some(frame) = codec
                .read(&bytes, offset)
                .filter(|frame| end.has(frame.end))
            else {
                replayed.torn = judge(&codec, &bytes, offset, end, &path)?;
                break;
            };
            if frame.kind != KIND_MARK {
                let record = payload::decode(frame.kind, frame.payload)
                    .map_err(|error| damaged(&path, offset, &error.to_string()))?;
                check_follows(before, replayed.last, &record)
                    .map_err(|reason| damaged(&path, offset, reason))?;
                replayed.last = follow(replayed.last, &record);
                take(record, &mut self.kept)?;
            }
            offset = frame.end;
        }
        self.segments[at].size = offset as u64;
        let is_whole = file_size == self.segment_bytes && bytes.len() as u64 == file_size;
        let is_last = end == End::Open && !self.is_unfinished;
        let is_newest_format = matches!(before, Before::Offset { .. });
        self.is_clean = is_last && is_whole && is_newest_format && replayed.torn.is_none();
        if let Before::Entry { epoch } = before {
            replayed.epoch = epoch;
        }
        replayed.segments += 1;
        replayed.bytes += offset as u64;
        Ok(())
    }
}

/// How much of a segment is whole, with any continuation.
pub(crate) struct Whole {
    /// The log's identity.
    pub(crate) chain: u64,
    /// The segment's number.
    pub(crate) sequence: u64,
    /// Where its last whole record ends.
    pub(crate) offset: u64,
    /// Whether nothing but zeros follows.
    pub(crate) is_to_the_end: bool,
}

/// Reads a segment as far as it is whole; nothing if it does not follow the one `before`, by chain
/// and number.
pub(crate) fn whole_until(bytes: &[u8], before: Option<(u64, u64)>) -> Option<Whole> {
    let header = Header::decode(bytes).ok()?;
    let (chain, sequence) = (header.chain, header.sequence);
    if before.is_some_and(|(of, last)| (chain, sequence) != (of, last + 1)) {
        return None;
    }
    let codec = Codec::new(chain, sequence);
    let bytes = Bytes::copy_from_slice(bytes);
    let mut offset = HEADER_SIZE;
    while let Some(frame) = codec.read(&bytes, offset) {
        offset = frame.end;
    }
    Some(Whole {
        chain,
        sequence,
        offset: offset as u64,
        is_to_the_end: used_size(&bytes) <= offset,
    })
}

/// Where a segment ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The last segment: where its records end.
    Open,
    /// With this entry.
    Entry(EntryId),
    /// At this offset.
    Offset(u32),
}

impl End {
    fn of(next: Option<&Segment>) -> End {
        match next.map(|next| (next.before, next.prev)) {
            None => End::Open,
            Some((Before::Entry { .. }, prev)) => End::Entry(prev),
            Some((Before::Offset { end, .. }, _)) => End::Offset(end),
        }
    }

    fn is_reached(self, offset: usize, last: EntryId) -> bool {
        match self {
            End::Open => false,
            End::Entry(id) => id == last,
            End::Offset(end) => end as usize == offset,
        }
    }

    /// Whether a record may end at `offset`.
    fn has(self, offset: usize) -> bool {
        !matches!(self, End::Offset(end) if (end as usize) < offset)
    }
}

/// An entry follows the one before; only a log that begins anew, behind a gap, begins anywhere.
/// Format 1 holds the entries of one epoch.
fn check_follows(before: Before, last: EntryId, record: &Record) -> Result<(), &'static str> {
    let Record::Entry(entry) = record else {
        return Ok(());
    };
    let is_follower = match before {
        Before::Entry { epoch } => entry.prev == last && entry.id.epoch == epoch,
        Before::Offset { .. } => entry.prev == last || last == EntryId::ZERO,
    };
    match is_follower {
        true => Ok(()),
        false => Err("the entry does not follow the one before"),
    }
}

/// Whether the last segment has all its bytes: WAL-2, its size was durable before anything was
/// written behind its preamble. Of earlier segments, the next one tells.
fn check_size(bytes: &Bytes, file_size: u64, before: Before, path: &Path) -> Result<(), OpenError> {
    let unused = HEADER_SIZE + before.preamble_size();
    if file_size <= bytes.len() as u64 || used_size(bytes) <= unused {
        return Ok(());
    }
    let reason = format!("the file is cut off; it had {file_size} bytes");
    Err(damaged(path, bytes.len(), &reason))
}

/// What a bad record means: an end, a write cut short (with words for it), or damage.
fn judge(
    codec: &Codec,
    bytes: &Bytes,
    offset: usize,
    end: End,
    path: &Path,
) -> Result<Option<Torn>, OpenError> {
    let must_follow = match end {
        End::Open => None,
        End::Entry(id) => Some(format!("entries up to {id} must follow")),
        End::Offset(end) => Some(format!("records up to offset {end} must follow")),
    };
    if let Some(must_follow) = must_follow {
        let reason = format!("a record is damaged, and {must_follow}");
        return Err(damaged(path, offset, &reason));
    }
    let used = used_size(bytes);
    if used <= offset {
        return Ok(None);
    }
    if let Some(witness) = codec.find_witness(bytes, offset, used) {
        let reason = format!("a record is damaged; the record at {witness} says it was durable");
        return Err(damaged(path, offset, &reason));
    }
    let size = used - offset;
    let claimed = codec.claimed_end(bytes, offset);
    let claimed = claimed.filter(|claimed| used < *claimed).unwrap_or(used);
    let words = format!(
        "{}, offset {offset}: {size} bytes of an unfinished write",
        path.display()
    );
    let lost = (claimed - used) as u64;
    let words = match lost {
        0 => words,
        _ => format!("{words}, and zeros up to offset {claimed}, where its record ends"),
    };
    Ok(Some(Torn { words, lost }))
}

/// How long the bytes are without the zeros at their end: most of a segment may be zeros.
fn used_size(bytes: &[u8]) -> usize {
    let mut used = bytes;
    while let Some((rest, last)) = used.split_last_chunk()
        && *last == ZEROS
    {
        used = rest;
    }
    used.iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |last| last + 1)
}

/// Whether no record of the segment says that its header and preamble were durable. Of a first
/// segment the identity is unknown without its header, but it has no preamble: then zeros tell.
fn is_unused(
    file: &dyn File,
    is_first: bool,
    codec: Codec,
    path: &Path,
) -> Result<bool, OpenError> {
    let size = file.size().map_err(|source| reading(path, source))?;
    let mut bytes = vec![0; usize::try_from(size).unwrap_or(usize::MAX)];
    file.read_exact_at(0, &mut bytes)
        .map_err(|source| reading(path, source))?;
    let used = used_size(&bytes);
    if is_first {
        return Ok(used <= HEADER_SIZE);
    }
    let witness = codec.find_witness(&Bytes::from(bytes), HEADER_SIZE - 1, used);
    Ok(witness.is_none())
}

/// Whether the records of the preamble are whole.
fn has_preamble(
    file: &dyn File,
    header: &Header,
    codec: Codec,
    path: &Path,
) -> Result<bool, OpenError> {
    let size = file.size().map_err(|source| reading(path, source))?;
    let end = HEADER_SIZE + header.before.preamble_size();
    let mut bytes = vec![0; (end as u64).min(size) as usize];
    file.read_exact_at(0, &mut bytes)
        .map_err(|source| reading(path, source))?;
    let bytes = Bytes::from(bytes);
    let mut offset = HEADER_SIZE;
    while offset < end {
        match codec.read(&bytes, offset) {
            Some(frame) => offset = frame.end,
            None => return Ok(false),
        }
    }
    Ok(offset == end)
}

fn sequence_of(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".log")?;
    (digits.len() == 16).then(|| u64::from_str_radix(digits, 16).ok())?
}

fn reading(path: &Path, source: io::Error) -> OpenError {
    OpenError::io(format!("reading {}", path.display()), source)
}

fn damaged(path: &Path, offset: usize, reason: &str) -> OpenError {
    OpenError::damaged(format!(
        "the log is damaged: {}, offset {offset}: {reason}. Restore the data folder from a copy; \
         if you have none, fader check says what is left, and fader repair goes on with it",
        path.display()
    ))
}
