//! A map attempt: reads its split, feeds the mapper, and keeps segments of what it made.
//!
//! The bytes of the next round are read while those of the last are mapped.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use fader_cloud::ErrorKind;
use fader_columns::{FOOTER_BYTES, Footer, footer_bytes};
use futures_util::future::join;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectStore};

use crate::commit::{Attempt, Manifest};
use crate::compute::computed;
use crate::failure::{Failure, Outcome};
use crate::guard::Guard;
use crate::input::{Compression, Cutter, Fields, Format, Inflater, RECORD_BYTES_MAX};
use crate::plan::{Piece, Plan};
use crate::queue;
use crate::shuffle::{Segment, Shuffle};
use crate::store::Store;
use crate::table::Table;
use crate::user::{Batch, Emit, Map};

/// Bytes that are read at once, at most.
const CHUNK_BYTES: u64 = 4 << 20;
/// Chunks in memory at once are twelve: an eighth of it.
const CHUNKS: u64 = 96;
/// Bytes that are mapped between two looks at the table.
const STEP_BYTES: usize = 256 << 10;
/// Bytes that are read past the end of a piece, for its last line.
const TAIL_BYTES: u64 = 64 << 10;
/// Reads under way at once.
const READS: usize = 8;

/// Bytes of a piece, in order.
struct Chunk {
    of: Request,
    bytes: Bytes,
}

/// The pieces of a split, with where they are.
struct Split {
    pieces: Vec<Piece>,
    stores: BTreeMap<usize, Arc<dyn ObjectStore>>,
    names: Vec<String>,
    format: Format,
    /// Of Parquet: the footer of each piece's object.
    footers: Vec<Footer>,
}

/// Runs a map attempt.
pub(crate) async fn map(attempt: &Attempt<'_>, plan: &Plan) -> Outcome<Manifest> {
    let number = attempt.task.number as usize;
    let pieces = plan.splits.get(number).cloned();
    let pieces = pieces.ok_or_else(|| Failure::task("the plan has no such task"))?;
    let job = attempt.job;
    let mut stores = BTreeMap::new();
    for piece in &pieces {
        if let Entry::Vacant(store) = stores.entry(piece.input) {
            let base = plan.bases.get(piece.input);
            let base = base.ok_or_else(|| Failure::task("the plan has no such input"))?;
            store.insert(job.inputs.open(base).await?);
        }
    }
    let name = |piece: &Piece| match &plan.bases[..] {
        [_] => piece.key.clone(),
        bases => format!("{}/{}", bases[piece.input].trim_end_matches('/'), piece.key),
    };
    let definition = job.definition();
    let mut split = Split {
        names: pieces.iter().map(name).collect(),
        pieces,
        stores,
        format: definition.format.clone(),
        footers: Vec::new(),
    };
    if let Format::Parquet(_) = split.format {
        split.footers = footers(attempt, &split).await?;
    }
    let split = Arc::new(split);
    let table = Table::new(
        job.code.clone(),
        job.code.combiner(&attempt.context())?,
        definition.reduces,
        plan.ranges.clone(),
        definition.codec,
        job.take_room(),
    );
    let feeder = Feeder {
        mapper: job.code.mapper(&attempt.context())?,
        table,
        fields: Fields::new(&definition.format, definition.skip_bad),
        memory: job.memory,
        split: split.clone(),
        current: None,
        segments: Vec::new(),
    };
    feed(attempt, &split, feeder).await
}

/// Bytes of a record of an attempt that has so much memory, at most.
pub(crate) fn record_max(memory: usize) -> usize {
    RECORD_BYTES_MAX.min(memory / 7)
}

/// Feeds all chunks, and keeps the segments.
async fn feed(attempt: &Attempt<'_>, split: &Split, mut feeder: Feeder) -> Outcome<Manifest> {
    let memory = attempt.job.memory as u64;
    let chunk_bytes = (memory / CHUNKS).clamp(64 << 10, CHUNK_BYTES);
    let (requests, at_once) = match split.footers.is_empty() {
        true => (requests(split, chunk_bytes), READS),
        false => (groups(split, memory / 4)?, 1),
    };
    let reads = requests
        .into_iter()
        .map(|request| read(attempt, split, request));
    let mut chunks = Box::pin(stream::iter(reads).buffered(at_once));
    let mut manifest = Manifest::default();
    let mut ready = VecDeque::new();
    let mut is_end = false;
    while !is_end || !ready.is_empty() {
        let round = std::mem::take(&mut ready);
        let computed = compute(attempt, feeder, |feeder| feeder.feed_all(round));
        let fetched = async {
            let mut bytes = 0;
            while bytes < 2 * chunk_bytes {
                match chunks.next().await {
                    Some(chunk) => {
                        let chunk: Chunk = chunk?;
                        bytes += chunk.bytes.len() as u64 + 1024;
                        ready.push_back(chunk);
                    }
                    None => return Ok(true),
                }
            }
            Ok::<bool, Failure>(false)
        };
        let (computed, fetched) = join(computed, fetched).await;
        let (mut left, mut more);
        (feeder, (left, more)) = computed?;
        is_end = fetched?;
        keep(attempt, &mut feeder, &mut manifest).await?;
        while more.is_some() || !left.is_empty() {
            if let Some((piece, from)) = more {
                // The last line of a piece is longer than what was read ahead.
                left.push_front(read(attempt, split, Request::rest(split, piece, from)).await?);
            }
            let computed = compute(attempt, feeder, |feeder| feeder.feed_all(left));
            (feeder, (left, more)) = computed.await?;
            keep(attempt, &mut feeder, &mut manifest).await?;
        }
    }
    (feeder, ()) = compute(attempt, feeder, Feeder::finish).await?;
    keep(attempt, &mut feeder, &mut manifest).await?;
    manifest.counters = feeder.table.counters();
    attempt.job.keep_room(feeder.table.into_room());
    Ok(manifest)
}

/// Has a feeder compute, away from what waits for the cloud.
async fn compute<T: Send + 'static>(
    attempt: &Attempt<'_>,
    mut feeder: Feeder,
    work: impl FnOnce(&mut Feeder) -> Outcome<T> + Send + 'static,
) -> Outcome<(Feeder, T)> {
    let computed = computed(&*attempt.job.compute, move || {
        let done = work(&mut feeder);
        (feeder, done)
    });
    let (feeder, done) = computed.await?;
    Ok((feeder, done?))
}

/// Keeps the segments that are complete.
async fn keep(attempt: &Attempt<'_>, feeder: &mut Feeder, manifest: &mut Manifest) -> Outcome<()> {
    for segment in std::mem::take(&mut feeder.segments) {
        if attempt.job.definition().shuffle == Shuffle::Queue {
            queue::send(attempt, &segment, manifest).await?;
            continue;
        }
        let name = manifest.objects.len().to_string();
        let mut object = attempt.keep(&name, segment.bytes).await?;
        object.records = segment.runs.iter().map(|run| run.records).sum();
        let runs = (0..).zip(segment.runs);
        object.runs = runs.filter(|(_, run)| 0 < run.records).collect();
        manifest.objects.push(object);
    }
    Ok(())
}

/// What is read.
struct Request {
    piece: usize,
    from: u64,
    bytes: u64,
    /// Whether no more of the piece is read ahead.
    is_last: bool,
    /// Of Parquet: the row group.
    group: Option<usize>,
}

impl Request {
    /// Where the next byte of the object is.
    fn next(&self) -> u64 {
        self.from + self.bytes
    }

    /// What follows what was read of a piece.
    fn rest(split: &Split, piece: usize, from: u64) -> Self {
        Request {
            piece,
            from,
            bytes: (split.pieces[piece].size - from).min(1 << 20),
            is_last: true,
            group: None,
        }
    }
}

fn requests(split: &Split, chunk_bytes: u64) -> Vec<Request> {
    let mut requests = Vec::new();
    for (number, piece) in split.pieces.iter().enumerate() {
        let mut from = Cutter::first_byte(piece.offset);
        let tail = u64::from(split.format.reads_on()) * TAIL_BYTES;
        let end = (piece.offset + piece.bytes + tail).min(piece.size);
        while from < end {
            let bytes = chunk_bytes.min(end - from);
            requests.push(Request {
                piece: number,
                from,
                bytes,
                is_last: from + bytes == end,
                group: None,
            });
            from += bytes;
        }
    }
    requests
}

/// The row groups of a split, one request for each.
fn groups(split: &Split, bytes_max: u64) -> Outcome<Vec<Request>> {
    let mut requests = Vec::new();
    for (number, (piece, footer)) in split.pieces.iter().zip(&split.footers).enumerate() {
        let named = |failure| named(&split.names[number], failure);
        let before = requests.len();
        let of_piece = piece.offset..piece.offset + piece.bytes;
        for group in footer.groups_in(of_piece).map_err(|it| named(it.into()))? {
            let range = footer.range(group).map_err(|it| named(it.into()))?;
            let bytes = range.end - range.start;
            if bytes_max < bytes {
                let text = format!(
                    "row group {group} has {bytes} bytes in its columns, and there is memory for \
                     {bytes_max}: give the worker more by --memory, or name fewer --fields"
                );
                return Err(named(Failure::task(text)));
            }
            requests.push(Request {
                piece: number,
                from: range.start,
                bytes,
                is_last: false,
                group: Some(group),
            });
        }
        if let Some(last) = requests[before..].last_mut() {
            last.is_last = true;
        }
    }
    Ok(requests)
}

/// The footers of all pieces.
async fn footers(attempt: &Attempt<'_>, split: &Split) -> Outcome<Vec<Footer>> {
    let reads = split.pieces.iter().zip(&split.names);
    let reads = reads.map(|(piece, name)| async move {
        let footer = footer(attempt, &split.stores[&piece.input], piece).await;
        footer.map_err(|failure| named(name, failure))
    });
    let reads: Vec<_> = reads.collect();
    stream::iter(reads).buffered(READS).try_collect().await
}

/// The footer of a piece's object.
pub(crate) async fn footer(
    attempt: &Attempt<'_>,
    objects: &Arc<dyn ObjectStore>,
    piece: &Piece,
) -> Outcome<Footer> {
    let size = piece.size;
    let end = async |bytes: u64| {
        let range = size - bytes.min(size)..size;
        let found = read_input(&attempt.store, objects, piece, range).await;
        found.map_err(|error| unreadable(error, &piece.key))
    };
    let mut found = end(FOOTER_BYTES).await?;
    let needed = footer_bytes(&found, size)?;
    if (found.len() as u64) < needed {
        found = end(needed).await?;
    }
    let fields = match &attempt.job.definition().format {
        Format::Parquet(fields) => &fields[..],
        _ => &[],
    };
    Ok(Footer::parse(&found, size, fields)?)
}

/// A failure of an object of the input.
fn named(name: &str, failure: Failure) -> Failure {
    match failure {
        Failure::Task(text) => Failure::task(format!("input {name}: {text}")),
        failure => failure,
    }
}

/// What it means that an object of the input cannot be read.
fn unreadable(error: fader_cloud::Error, name: &str) -> Failure {
    match error.kind {
        ErrorKind::Precondition | ErrorKind::NotFound => Failure::Job(format!(
            "input {name} was changed or removed since it was planned"
        )),
        _ => Failure::from(error),
    }
}

/// Reads bytes of the version that was planned.
async fn read(attempt: &Attempt<'_>, split: &Split, request: Request) -> Outcome<Chunk> {
    let piece = &split.pieces[request.piece];
    let objects = &split.stores[&piece.input];
    let range = request.from..request.next();
    let bytes = match read_input(&attempt.store, objects, piece, range).await {
        Ok(bytes) => bytes,
        Err(error) if !attempt.job.has(Guard::FailedReadFails) => {
            drop(error);
            Bytes::new()
        }
        Err(error) => {
            let name = &split.names[request.piece];
            return Err(named(name, unreadable(error, name)));
        }
    };
    Ok(Chunk { of: request, bytes })
}

/// Reads a range of an input object.
pub(crate) async fn read_input(
    store: &Store,
    objects: &Arc<dyn ObjectStore>,
    piece: &Piece,
    range: std::ops::Range<u64>,
) -> fader_cloud::Result<Bytes> {
    let key = Path::parse(&piece.key).unwrap_or_else(|_| Path::from(piece.key.as_str()));
    let expected = range.end - range.start;
    let options = GetOptions {
        if_match: piece.e_tag.clone(),
        range: Some(GetRange::Bounded(range)),
        ..GetOptions::default()
    };
    let (bytes, _) = store.of(objects).read(&key, options).await?;
    match bytes.len() as u64 == expected {
        true => Ok(bytes),
        false => {
            let text = format!("{key} is shorter than it was");
            Err(fader_cloud::Error::new(ErrorKind::Precondition, text))
        }
    }
}

/// The object that chunks are of.
struct Current {
    piece: usize,
    cutter: Cutter,
    inflater: Inflater,
}

/// Feeds a mapper. Pure.
struct Feeder {
    mapper: Box<dyn Map>,
    table: Table,
    fields: Fields,
    /// Of the attempt, in bytes.
    memory: usize,
    split: Arc<Split>,
    current: Option<Current>,
    segments: Vec<Segment>,
}

/// Chunks that were not fed, and where a piece goes on that needs more.
type Fed = (VecDeque<Chunk>, Option<(usize, u64)>);

impl Feeder {
    /// Feeds chunks until one needs more, or a segment is complete.
    fn feed_all(&mut self, mut chunks: VecDeque<Chunk>) -> Outcome<Fed> {
        while self.segments.is_empty()
            && let Some(chunk) = chunks.pop_front()
        {
            let piece = chunk.of.piece;
            let needs = match chunk.of.group {
                Some(group) => self.feed_rows(&chunk, group).map(|()| false),
                None => self.feed(&chunk),
            };
            if needs.map_err(|failure| named(&self.split.names[piece], failure))? {
                return Ok((chunks, Some((piece, chunk.of.next()))));
            }
        }
        Ok((chunks, None))
    }

    /// Feeds a chunk; whether its piece needs more than was read ahead.
    fn feed(&mut self, chunk: &Chunk) -> Outcome<bool> {
        let piece = &self.split.pieces[chunk.of.piece];
        let current = self.current.as_ref();
        if current.is_none_or(|current| current.piece != chunk.of.piece) {
            let compression = Compression::of(&piece.key);
            let end = match compression {
                Compression::None => piece.offset + piece.bytes,
                _ => u64::MAX,
            };
            let record_max = record_max(self.memory);
            self.fields.begin();
            self.current = Some(Current {
                piece: chunk.of.piece,
                cutter: Cutter::new(&self.split.format, piece.offset, end, record_max),
                inflater: Inflater::new(compression, self.memory)?,
            });
        }
        let is_object_end = chunk.of.next() == piece.size;
        let mut current = self.current.take().expect("it was just begun");
        let (cutter, inflater) = (&mut current.cutter, &mut current.inflater);
        inflater.feed(&chunk.bytes, |bytes| {
            cutter.feed(bytes, |at, bytes| self.take(chunk.of.piece, at, bytes))
        })?;
        if chunk.of.is_last && is_object_end && !cutter.is_done() {
            inflater.finish(|bytes| {
                cutter.feed(bytes, |at, bytes| self.take(chunk.of.piece, at, bytes))
            })?;
            cutter.finish(|at, bytes| self.take(chunk.of.piece, at, bytes))?;
        }
        let is_done = cutter.is_done();
        self.current = Some(current);
        if !chunk.of.is_last {
            return Ok(false);
        }
        if !is_done && !is_object_end {
            return Ok(true);
        }
        self.end(chunk.of.piece)?;
        Ok(false)
    }

    /// A piece is over.
    fn end(&mut self, piece: usize) -> Outcome<()> {
        let name = &self.split.names[piece];
        self.mapper.end_of_source(name, &mut self.table)?;
        self.keep_full()
    }

    /// Feeds a row group.
    fn feed_rows(&mut self, chunk: &Chunk, group: usize) -> Outcome<()> {
        let rows = self.split.footers[chunk.of.piece].rows(group, chunk.bytes.clone())?;
        let mut at = chunk.of.next() - chunk.bytes.len() as u64;
        let mut lines = Vec::new();
        for row in rows {
            let before = lines.len();
            row?.line(&mut lines)?;
            if record_max(self.memory) < lines.len() - before {
                let most = record_max(self.memory);
                let text = format!("row group {group}: a row of more than {most} bytes");
                return Err(Failure::task(text));
            }
            if STEP_BYTES <= lines.len() {
                self.map(chunk.of.piece, at, &lines)?;
                at += lines.len() as u64;
                lines.clear();
            }
        }
        self.map(chunk.of.piece, at, &lines)?;
        match chunk.of.is_last {
            true => self.end(chunk.of.piece),
            false => Ok(()),
        }
    }

    /// Whole records.
    fn take(&mut self, piece: usize, at: u64, bytes: &[u8]) -> Outcome<()> {
        if !self.fields.is_plain() {
            let lines = self.fields.lines(at, bytes)?;
            return self.map(piece, at, &lines);
        }
        self.map(piece, at, bytes)
    }

    fn map(&mut self, piece: usize, mut at: u64, mut bytes: &[u8]) -> Outcome<()> {
        let split = self.split.clone();
        let is_lines = split.format != Format::Whole;
        while !bytes.is_empty() {
            let end = match is_lines && STEP_BYTES < bytes.len() {
                true => {
                    let end = memchr::memchr(b'\n', &bytes[STEP_BYTES..]);
                    end.map_or(bytes.len(), |end| STEP_BYTES + end + 1)
                }
                false => bytes.len(),
            };
            let batch = Batch {
                source: &split.names[piece],
                input: split.pieces[piece].input,
                offset: at,
                bytes: &bytes[..end],
                is_lines,
            };
            let records = match is_lines {
                true => {
                    let ends = memchr::memchr_iter(b'\n', batch.bytes).count() as u64;
                    ends + u64::from(!batch.bytes.ends_with(b"\n"))
                }
                false => 1,
            };
            self.table.count("map input records", records);
            self.mapper.map(&batch, &mut self.table)?;
            self.keep_full()?;
            at += end as u64;
            bytes = &bytes[end..];
        }
        Ok(())
    }

    fn keep_full(&mut self) -> Outcome<()> {
        self.segments.extend(self.table.take()?);
        Ok(())
    }

    fn finish(&mut self) -> Outcome<()> {
        self.mapper.finish(&mut self.table)?;
        if 0 < self.fields.skipped {
            self.table.count("bad records", self.fields.skipped);
        }
        self.segments.extend(self.table.finish()?);
        Ok(())
    }
}
