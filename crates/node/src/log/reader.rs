//! Reading a log at the start: what is whole, what was cut short, what is damaged.
//!
//! A bad record is the end of a write that a crash cut short if nothing shows that it was durable
//! once; what shows it is a later segment (L2, L4) or a later record (L1). Then it is damage, and
//! the member must not go on as if those entries had never been.

use std::io;
use std::path::Path;

use bytes::Bytes;
use fader_chain::{Entry, EntryId};

use super::record::{Codec, HEADER_SIZE, Header, Payload};
use super::{Log, Segment};
use crate::disk::{self, File, SyncSite};
use crate::status::OpenError;

const ZEROS: [u8; 4096] = [0; 4096];

/// What a replay found.
#[derive(Debug, Default)]
pub(crate) struct Replayed {
    /// The last entry of the log.
    pub(crate) last: EntryId,
    /// The greatest epoch adopted.
    pub(crate) epoch: u64,
    /// Segments read.
    pub(crate) segments: u64,
    /// Bytes read.
    pub(crate) bytes: u64,
    /// What was cut off the end, and where.
    pub(crate) torn: Option<String>,
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
        let header = match Header::decode(&bytes) {
            Ok(header) if header.sequence != sequence => {
                return Err(damaged(&path, 0, "the header is that of another segment"));
            }
            Ok(header) if !is_first && header.chain != self.chain => {
                return Err(damaged(&path, 0, "the segment belongs to another log"));
            }
            Ok(header) => header,
            // L2: nothing was written behind a header that was not durable.
            Err(reason) if is_last && is_zero_behind_header(&*file, size, &path)? => {
                return Ok(Some(format!(
                    "{}, offset 0: {reason}; never used",
                    path.display()
                )));
            }
            Err(reason) => return Err(damaged(&path, 0, &reason)),
        };
        self.chain = header.chain;
        let Header {
            epoch,
            prev,
            file_size,
            ..
        } = header;
        self.segments.push_back(Segment {
            sequence,
            epoch,
            prev,
            file_size,
            size: HEADER_SIZE as u64,
        });
        Ok(None)
    }

    /// Hands out every entry after `applied`, and perhaps some before it, in order.
    pub(crate) fn replay(
        &mut self,
        applied: EntryId,
        mut take: impl FnMut(Entry) -> Result<(), OpenError>,
    ) -> Result<Replayed, OpenError> {
        let mut replayed = Replayed::default();
        if self.segments.is_empty() {
            return Ok(replayed);
        }
        self.sync_last()?;
        let first = self.first_needed(applied)?;
        replayed.last = self.segments[first].prev;
        for at in first..self.segments.len() {
            self.replay_segment(at, &mut replayed, &mut take)?;
        }
        self.last = replayed.last;
        Ok(replayed)
    }

    /// Makes durable what is about to be believed: a process that was killed between its write and
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
            OpenError::Io { context, source }
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

    fn replay_segment(
        &mut self,
        at: usize,
        replayed: &mut Replayed,
        take: &mut impl FnMut(Entry) -> Result<(), OpenError>,
    ) -> Result<(), OpenError> {
        let Segment {
            sequence,
            epoch,
            prev,
            file_size,
            ..
        } = self.segments[at];
        let end_at = self.segments.get(at + 1).map(|next| next.prev);
        let path = self.path(sequence);
        if prev != replayed.last || epoch < replayed.epoch {
            return Err(damaged(
                &path,
                0,
                "the segment does not follow the one before",
            ));
        }
        let bytes = disk::read_file(&*self.disk, &path).map_err(|source| reading(&path, source))?;
        let bytes = Bytes::from(bytes);
        if end_at.is_none() {
            check_size(&bytes, file_size, &path)?;
        }
        let codec = Codec::new(self.chain, sequence);
        let mut offset = HEADER_SIZE;
        while end_at != Some(replayed.last) {
            let Some(record) = codec.read(&bytes, offset) else {
                replayed.torn = judge(&codec, &bytes, offset, end_at, &path)?;
                break;
            };
            if let Payload::Entry(payload) = record.payload {
                let entry =
                    Entry::decode(payload).map_err(|e| damaged(&path, offset, &e.to_string()))?;
                if entry.prev != replayed.last || entry.id.epoch != epoch {
                    return Err(damaged(
                        &path,
                        offset,
                        "the entry does not follow the one before",
                    ));
                }
                replayed.last = entry.id;
                take(entry)?;
            }
            offset = record.end;
        }
        self.segments[at].size = offset as u64;
        replayed.epoch = epoch;
        replayed.segments += 1;
        replayed.bytes += offset as u64;
        Ok(())
    }
}

/// Whether the last segment has all its bytes: L2, its size was durable before anything was written
/// behind its header. Of earlier segments, the next one tells.
fn check_size(bytes: &Bytes, file_size: u64, path: &Path) -> Result<(), OpenError> {
    if file_size <= bytes.len() as u64 || used_size(bytes) <= HEADER_SIZE {
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
    end_at: Option<EntryId>,
    path: &Path,
) -> Result<Option<String>, OpenError> {
    if let Some(end) = end_at {
        let reason = format!("a record is damaged, and entries up to {end} must follow");
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
    Ok(Some(format!(
        "{}, offset {offset}: {size} bytes of an unfinished write",
        path.display()
    )))
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

fn is_zero_behind_header(file: &dyn File, size: u64, path: &Path) -> Result<bool, OpenError> {
    let mut chunk = ZEROS;
    let mut offset = HEADER_SIZE as u64;
    while offset < size {
        let chunk = &mut chunk[..(size - offset).min(ZEROS.len() as u64) as usize];
        file.read_exact_at(offset, chunk)
            .map_err(|source| reading(path, source))?;
        if *chunk != ZEROS[..chunk.len()] {
            return Ok(false);
        }
        offset += chunk.len() as u64;
    }
    Ok(true)
}

fn sequence_of(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".log")?;
    (digits.len() == 16).then(|| u64::from_str_radix(digits, 16).ok())?
}

fn reading(path: &Path, source: io::Error) -> OpenError {
    OpenError::Io {
        context: format!("reading {}", path.display()),
        source,
    }
}

fn damaged(path: &Path, offset: usize, reason: &str) -> OpenError {
    OpenError::Damaged(format!(
        "the log is damaged: {}, offset {offset}: {reason}. Restore the data folder from a copy; \
         if you have none, keep this one as it is and ask for help",
        path.display()
    ))
}
