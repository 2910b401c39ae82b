//! A reduce attempt: merges the runs of its partition in bounded memory, and keeps what the reducer
//! makes of them.
//!
//! Runs are read in pieces. More runs than may be open at once are merged into longer ones first.

use bytes::Bytes;
use fader_cloud::ErrorKind;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use object_store::path::Path;
use serde::{Deserialize, Serialize};

use crate::commit::{Attempt, DataObject, Manifest, key};
use crate::compute::computed;
use crate::failure::{Failure, Outcome};
use crate::guard::Guard;
use crate::merge::{Merger, Reduction, Step};
use crate::mutant;
use crate::queue;
use crate::rows::{Phase, Task};
use crate::shuffle::{Codec, SegmentWriter, Shuffle};

/// Reads under way at once.
const READS: usize = 16;
/// Memory of a run that is open, besides its pieces: the records of a block.
const BLOCK_MEMORY: usize = 80 << 10;
/// Bytes of a run that are read at once. Two such pieces are there while the next is fetched.
const PIECE_BYTES: (usize, usize) = (48 << 10, 4 << 20);
/// Memory of a run that is open, at least.
const RUN_BYTES: usize = BLOCK_MEMORY + 2 * PIECE_BYTES.0;
/// Bytes of an object of the output.
const OUT_BYTES: (usize, usize) = (1 << 20, 32 << 20);
/// Bytes that a record may add to an object of the output beyond its bound, mostly.
const OUT_SLACK: usize = 64 << 10;

/// The list: the winners of all map tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct List {
    pub(crate) maps: Vec<Winner>,
}

/// The winner of a map task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Winner {
    pub(crate) attempt: String,
    pub(crate) manifest: Manifest,
}

/// Where bytes of a run are.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// In an object, from this byte on.
    Object(Path, u64),
    /// Here.
    Memory(Bytes),
}

/// A run, as the ranges that it is in.
#[derive(Clone, Debug, Default)]
pub(crate) struct Source {
    /// Places, each with its bytes.
    pub(crate) ranges: Vec<(Place, u64)>,
    pub(crate) bytes: u64,
    pub(crate) records: u64,
}

/// Runs a reduce attempt.
pub(crate) async fn reduce(attempt: &Attempt<'_>, list: &List) -> Outcome<Manifest> {
    let job = attempt.job;
    job.drop_rooms();
    let mut sources = match job.definition().shuffle {
        Shuffle::Object => sources(attempt, list).await?,
        Shuffle::Queue => queue::gather(attempt, list).await?,
    };
    let open_max = (job.memory / 2 / RUN_BYTES).max(4);
    let mut out = Output::default();
    while open_max < sources.len() {
        let rest = sources.split_off(open_max);
        let merged = merge_pass(attempt, sources, &mut out).await?;
        sources = rest;
        sources.push(merged);
    }
    let reduction = Reduction::new(job.code.reducer(&attempt.context())?, job.code.combining());
    let sink = Sink::Reduction(Box::new(reduction));
    let sink = drive(attempt, &sources, sink, &mut out).await?;
    let Sink::Reduction(reduction) = sink else {
        return Err(Failure::task("a merge came back as another"));
    };
    let mut manifest = Manifest {
        objects: out.objects.split_off(out.merged),
        ..Manifest::default()
    };
    manifest
        .counters
        .insert("reduce input records".to_owned(), reduction.records);
    let records = reduction.part.all_records();
    let written = ("reduce output records".to_owned(), records.values().sum());
    for (name, number) in reduction.part.counters.into_iter().chain([written]) {
        *manifest.counters.entry(name).or_default() += number;
    }
    for (output, records) in records {
        let mut of = manifest.objects.iter_mut();
        if let Some(last) = of.rfind(|object| object.output == output) {
            last.records = records;
        }
    }
    Ok(manifest)
}

/// The runs of the attempt's partition.
async fn sources(attempt: &Attempt<'_>, list: &List) -> Outcome<Vec<Source>> {
    let mut sources = Vec::new();
    if !attempt.job.has(Guard::ListOnly) {
        for (task, id, manifest) in mutant::all_attempts(attempt.job, list).await? {
            sources.extend(sources_of(attempt, task, &id, &manifest));
        }
        return Ok(sources);
    }
    for (number, winner) in (0..).zip(&list.maps) {
        let task = Phase::Map.task(number);
        let found = sources_of(attempt, task, &winner.attempt, &winner.manifest);
        sources.extend(found);
    }
    Ok(sources)
}

/// The runs of the attempt's partition that a map attempt wrote.
fn sources_of<'a>(
    attempt: &'a Attempt<'_>,
    task: Task,
    map: &'a str,
    manifest: &'a Manifest,
) -> impl Iterator<Item = Source> + 'a {
    let partition = attempt.task.number;
    manifest.objects.iter().filter_map(move |object| {
        let found = object.runs.binary_search_by_key(&partition, |run| run.0);
        let run = object.runs.get(found.ok()?)?.1;
        let at = key(attempt.job.id(), task, map, &object.name);
        Some(Source {
            ranges: vec![(Place::Object(at, run.offset), run.bytes)],
            bytes: run.bytes,
            records: run.records,
        })
    })
}

/// Objects that the attempt keeps.
#[derive(Debug, Default)]
struct Output {
    objects: Vec<DataObject>,
    /// How many of them are merged runs.
    merged: usize,
}

/// Where records go.
enum Sink {
    Reduction(Box<Reduction>),
    Run(Box<SegmentWriter>),
}

impl Sink {
    /// Takes a record; whether there is room for more.
    fn take(&mut self, key: &[u8], value: &[u8], room: usize) -> Outcome<bool> {
        match self {
            Sink::Reduction(reduction) => {
                reduction.take(key, value)?;
                Ok(reduction.part.len() < room)
            }
            Sink::Run(writer) => {
                writer.push(key, value);
                Ok(writer.len() < room)
            }
        }
    }

    /// Makes room for an object: bytes that grew would be there twice while they are copied.
    fn reserve(&mut self, room: usize) {
        match self {
            Sink::Reduction(reduction) => reduction.part.bytes.reserve(room + OUT_SLACK),
            Sink::Run(writer) => writer.reserve(room),
        }
    }

    /// The bytes of each output.
    fn take_bytes(&mut self) -> Vec<(u8, Vec<u8>)> {
        match self {
            Sink::Reduction(reduction) => reduction.part.take(),
            Sink::Run(writer) => vec![(0, writer.take_bytes())],
        }
    }

    fn finish(&mut self) -> Outcome<()> {
        match self {
            Sink::Reduction(reduction) => reduction.finish(),
            Sink::Run(writer) => {
                writer.end();
                Ok(())
            }
        }
    }
}

/// Merges runs into a longer one.
async fn merge_pass(
    attempt: &Attempt<'_>,
    sources: Vec<Source>,
    out: &mut Output,
) -> Outcome<Source> {
    let mut writer = SegmentWriter::new(attempt.job.definition().codec);
    writer.begin();
    // Blocks only: the run has no head.
    writer.take_bytes();
    let first = out.objects.len();
    drive(attempt, &sources, Sink::Run(Box::new(writer)), out).await?;
    out.merged = out.objects.len();
    let mut merged = Source {
        records: sources.iter().map(|source| source.records).sum(),
        ..Source::default()
    };
    for object in &out.objects[first..] {
        let at = key(attempt.job.id(), attempt.task, &attempt.id, &object.name);
        merged.ranges.push((Place::Object(at, 0), object.bytes));
        merged.bytes += object.bytes;
    }
    Ok(merged)
}

/// Merges runs into a sink, and keeps what it gives.
async fn drive(
    attempt: &Attempt<'_>,
    sources: &[Source],
    mut sink: Sink,
    out: &mut Output,
) -> Outcome<Sink> {
    let job = attempt.job;
    let codec: Codec = job.definition().codec;
    let sizes = sources.iter().map(|source| (source.bytes, source.records));
    let mut merger = Merger::new(codec, sizes);
    let memory = job.memory / 2 / sources.len().max(1);
    let piece = memory.saturating_sub(BLOCK_MEMORY) / 2;
    let piece = piece.clamp(PIECE_BYTES.0, PIECE_BYTES.1) as u64;
    let all: u64 = sources.iter().map(|source| source.bytes).sum();
    let room = (job.memory / 8).clamp(OUT_BYTES.0, OUT_BYTES.1);
    // Small outputs need not all of it.
    let reserved = room.min(4 * all as usize);
    sink.reserve(reserved);
    let mut wanted: Vec<usize> = (0..sources.len()).collect();
    loop {
        let reads = wanted.iter().map(|run| {
            let source = &sources[*run];
            let from = source.bytes - merger.missing(*run);
            read(attempt, source, *run, from, piece)
        });
        let reads: Vec<_> = reads.collect();
        let read: Vec<(usize, Vec<Bytes>)> =
            stream::iter(reads).buffered(READS).try_collect().await?;
        let computed = computed(&*job.compute, move || {
            for (run, pieces) in read {
                pieces.into_iter().for_each(|bytes| merger.feed(run, bytes));
            }
            let step = merger.step(|key, value| sink.take(key, value, room));
            let step = step.and_then(|step| {
                if step == Step::Done {
                    sink.finish()?;
                }
                Ok(step)
            });
            (merger, sink, step)
        });
        let (back, mut taken, step) = computed.await?;
        merger = back;
        wanted = match step? {
            Step::Need(run) => merger.low(run, piece / 4),
            Step::Full => Vec::new(),
            Step::Done => {
                write(attempt, taken.take_bytes(), out).await?;
                return Ok(taken);
            }
        };
        if wanted.is_empty() {
            write(attempt, taken.take_bytes(), out).await?;
            taken.reserve(reserved);
        }
        sink = taken;
    }
}

async fn write(
    attempt: &Attempt<'_>,
    outputs: Vec<(u8, Vec<u8>)>,
    out: &mut Output,
) -> Outcome<()> {
    for (output, bytes) in outputs {
        if !bytes.is_empty() {
            let name = out.objects.len().to_string();
            let mut object = attempt.keep(&name, bytes.into()).await?;
            object.output = output;
            out.objects.push(object);
        }
    }
    Ok(())
}

/// The next bytes of a run.
async fn read(
    attempt: &Attempt<'_>,
    source: &Source,
    run: usize,
    from: u64,
    piece: u64,
) -> Outcome<(usize, Vec<Bytes>)> {
    let mut begin = 0;
    for (place, bytes) in &source.ranges {
        if from < begin + bytes {
            let skipped = from - begin;
            let count = piece.min(bytes - skipped);
            let (key, offset) = match place {
                Place::Object(key, offset) => (key, offset),
                Place::Memory(bytes) => {
                    let skipped = skipped as usize;
                    let bytes = bytes.slice(skipped..skipped + count as usize);
                    return Ok((run, vec![bytes]));
                }
            };
            let size = |pieces: &[Bytes]| pieces.iter().map(Bytes::len).sum::<usize>() as u64;
            return match attempt.store.pieces(key, offset + skipped, count).await {
                Ok(pieces) if size(&pieces) == count => Ok((run, pieces)),
                Ok(_) => Err(Failure::task(format!("{key} is too short"))),
                Err(error) if error.kind == ErrorKind::NotFound => {
                    Err(Failure::task(format!("{key} is missing")))
                }
                Err(error) => Err(error.into()),
            };
        }
        begin += bytes;
    }
    Ok((run, Vec::new()))
}
