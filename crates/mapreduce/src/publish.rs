//! Publication: parts are created from the winners of the reduce tasks, then `_SUCCESS`.
//!
//! The register said publishing before. A ticket gives chunks of tasks to workers, which create
//! their parts. The last turn is one worker's: it creates parts that are missing, compares those of
//! others with the winners, and creates `_SUCCESS`.
//!
//! Invariants:
//! - MR-8 a part is created, never overwritten; `_SUCCESS` after all parts were acknowledged.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use bytes::Bytes;
use fader_cloud::ErrorKind;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use object_store::path::Path;

use crate::commit::{DataObject, Manifest, key, manifest};
use crate::failure::{Failure, Outcome};
use crate::guard::Guard;
use crate::job::{Lap, PublishedFile, Success, success_key};
use crate::mutant;
use crate::reconcile::Watch;
use crate::reduce::Winner;
use crate::rows::{Phase, Row, Task};
use crate::shuffle::{crc32c, crc32c_of_both};
use crate::store::Upload;
use crate::view::{Job, READS};
use crate::work::staging;

/// Parts that are created at once, at most: of large ones so many as fit in memory.
pub(crate) const PARTS: usize = 32;
/// Chunks of tasks whose parts are created by one worker each, about; and tasks of one, at least.
const CHUNKS: u32 = 64;
const CHUNK_TASKS: u32 = 8;
/// Pauses that double while another worker has the turn.
pub(crate) const TRIES_MAX: u32 = 6;
/// Bytes of a piece of a large part: S3 takes none below 5 MiB.
pub(crate) const UPLOAD_BYTES: usize = 8 << 20;

/// The name of a part; those of further outputs are in folders of their own.
fn part_name(output: u8, number: u32) -> String {
    match output {
        0 => format!("part-{number:05}"),
        output => format!("output-{output}/part-{number:05}"),
    }
}

/// Publishes the output of a job whose reduce tasks all have winners.
pub(crate) async fn publish(job: &Job, watch: &mut Watch) -> Outcome<()> {
    let count = job.definition().reduces;
    let rows = job.rows.all(Phase::Reduce).await?;
    let Some(winners) = rows.as_ref().and_then(|rows| winners(rows, count)) else {
        return match job.output.is_complete().await? {
            true => Ok(()),
            false => Err(Failure::Job(
                "the job was published, but its output was deleted: choose another output"
                    .to_owned(),
            )),
        };
    };
    let is_last = job.has(Guard::SuccessLast);
    let size = count.div_ceil(CHUNKS).max(CHUNK_TASKS);
    let chunks = count.div_ceil(size);
    let (mut files, mut made) = (Files::new(), BTreeSet::new());
    let mut tries = 1;
    loop {
        match job.takes("parts", chunks.into(), watch).await? {
            Some(chunk) if chunk < chunks.into() => {
                let first = chunk as u32 * size;
                let tasks = first..(first + size).min(count);
                read_files(job, &winners, tasks.clone(), &mut files).await?;
                if is_last {
                    let parts: Vec<&Part> =
                        files.range(tasks).flat_map(|(_, file)| &file.0).collect();
                    let created = at_once(job, &parts, |part| create_part(job, part)).await?;
                    let new = parts.iter().zip(created).filter(|(_, is_new)| *is_new);
                    made.extend(new.map(|(part, _)| part.file.name.clone()));
                }
                tries = 1;
            }
            Some(_) => break,
            None => {
                job.store().pause(tries).await;
                if job.output.is_complete().await? {
                    return Ok(());
                }
                tries = (tries + 1).min(TRIES_MAX);
            }
        }
    }
    read_files(job, &winners, 0..count, &mut files).await?;
    let parts = || files.values().flat_map(|(parts, _)| parts);
    if is_last {
        let others = parts().filter(|part| !made.contains(&part.file.name));
        let others: Vec<&Part> = others.collect();
        at_once(job, &others, |part| complete_part(job, part)).await?;
    }
    let success = success(job, &winners, &files).await?;
    let text = serde_json::to_vec_pretty(&success).expect("its keys are text");
    let output = &job.output.store;
    output.create(&success_key(), &text.into()).await?;
    if !is_last {
        let parts: Vec<&Part> = parts().collect();
        at_once(job, &parts, |part| create_part(job, part)).await?;
    }
    Ok(())
}

/// The parts of each reduce task, and the manifest of its winner.
type Files = BTreeMap<u32, (Vec<Part>, Manifest)>;

/// Reads the manifests of tasks that are not yet known.
async fn read_files(
    job: &Job,
    winners: &[(String, u64)],
    tasks: Range<u32>,
    files: &mut Files,
) -> Outcome<()> {
    let unknown = tasks.filter(|number| !files.contains_key(number));
    let reads = unknown.map(|number| async move {
        let (task, winner) = (Phase::Reduce.task(number), &winners[number as usize].0);
        let manifest = manifest(job, task, winner).await?;
        Ok::<_, Failure>((number, (parts(task, winner, &manifest), manifest)))
    });
    let reads: Vec<_> = reads.collect();
    let read: Vec<_> = stream::iter(reads).buffered(READS).try_collect().await?;
    files.extend(read);
    Ok(())
}

/// The winner of each task with its milliseconds, if all have one.
pub(crate) fn winners(rows: &BTreeMap<u32, Row>, count: u32) -> Option<Vec<(String, u64)>> {
    let winner = |number: u32| rows.get(&number)?.lap();
    (0..count).map(winner).collect()
}

/// A part, and the objects of a winner that it is made of.
struct Part {
    task: Task,
    winner: String,
    file: PublishedFile,
    objects: Vec<DataObject>,
}

/// The parts of a reduce task: the first is there without records, too.
fn parts(task: Task, winner: &str, manifest: &Manifest) -> Vec<Part> {
    let outputs = manifest.objects.iter().map(|object| object.output);
    let outputs: BTreeSet<u8> = outputs.chain([0]).collect();
    let part = |output: u8| {
        let of = manifest
            .objects
            .iter()
            .filter(|object| object.output == output);
        let mut part = Part {
            task,
            winner: winner.to_owned(),
            file: PublishedFile {
                name: part_name(output, task.number),
                bytes: 0,
                records: 0,
                crc32c: 0,
            },
            objects: of.cloned().collect(),
        };
        let file = &mut part.file;
        for object in &part.objects {
            file.crc32c = crc32c_of_both(file.crc32c, object.crc32c, object.bytes);
            file.bytes += object.bytes;
            file.records += object.records;
        }
        part
    };
    outputs.into_iter().map(part).collect()
}

/// Does something with each part, as many at once as fit in memory.
async fn at_once<'a, T, F: Future<Output = Outcome<T>>>(
    job: &Job,
    parts: &[&'a Part],
    each: impl Fn(&'a Part) -> F,
) -> Outcome<Vec<T>> {
    let largest = parts.iter().map(|part| part.file.bytes).max();
    let count = job.parts_max(largest.unwrap_or_default());
    let each: Vec<_> = parts.iter().map(|part| each(part)).collect();
    stream::iter(each).buffered(count).try_collect().await
}

/// A part that another worker may have created: it is the winner's then, or the output is not this
/// job's.
async fn complete_part(job: &Job, part: &Part) -> Outcome<()> {
    let is_there = job.has(Guard::CreateOnlyParts) && check_part(job, part).await?;
    if is_there || create_part(job, part).await? || check_part(job, part).await? {
        return Ok(());
    }
    Err(Failure::task(format!("{} is gone again", part.file.name)))
}

/// Creates a part, unless it is there. Whether it was not.
async fn create_part(job: &Job, part: &Part) -> Outcome<bool> {
    let output = &job.output.store;
    let Part { file, objects, .. } = part;
    let at = Path::from(file.name.as_str());
    let is_large = job.part_bytes_max() < file.bytes;
    if is_large && job.has(Guard::CreateOnlyParts) {
        let staged = staged(job, part);
        if stage(job, &staged, part).await? {
            match output.copy(&staged, &at).await {
                Ok(()) => return Ok(true),
                Err(error) if error.kind == ErrorKind::Precondition => return Ok(false),
                // The store copies on no condition.
                Err(error) if error.kind == ErrorKind::Invalid => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    let mut body = Vec::with_capacity(file.bytes as usize);
    for object in objects {
        body.extend_from_slice(&own(job, part, object).await?);
    }
    let body = Bytes::from(body);
    if !job.has(Guard::CreateOnlyParts) {
        output.put(&at, &body).await?;
        return Ok(true);
    }
    Ok(output.create(&at, &body).await?)
}

/// Where a part is put together. Only parts have names that begin with `part`.
fn staged(job: &Job, part: &Part) -> Path {
    let Part {
        task, winner, file, ..
    } = part;
    let (below, name) = (staging(job.id()), file.name.replace('/', "-"));
    Path::from(format!("{below}/{task}/{winner}/of-{name}"))
}

/// The bytes of an object of a part.
async fn own(job: &Job, part: &Part, object: &DataObject) -> Outcome<Bytes> {
    let key = key(job.id(), part.task, &part.winner, &object.name);
    let found = job.store().get(&key).await?;
    let (bytes, _) = found.ok_or_else(|| Failure::task(format!("{key} is missing")))?;
    match crc32c(&bytes) == object.crc32c {
        true => Ok(bytes),
        false => Err(Failure::task(format!(
            "{key} is damaged: its CRC-32C is wrong"
        ))),
    }
}

/// Puts a part together below the winner's name, a few objects in memory at once. Each publisher
/// writes the same bytes. Whether the store takes objects in parts.
async fn stage(job: &Job, at: &Path, part: &Part) -> Outcome<bool> {
    let Some(mut upload) = job.output.store.upload(at).await? else {
        return Ok(false);
    };
    match put_all(job, &mut upload, part).await {
        Ok(()) => upload.complete().await?,
        Err(failure) => {
            upload.abort().await;
            return Err(failure);
        }
    }
    Ok(true)
}

/// Sends the bytes of a part in pieces of an upload.
async fn put_all(job: &Job, upload: &mut Upload, part: &Part) -> Outcome<()> {
    // As they came: put together they would be there twice.
    let mut pending = Vec::new();
    let mut room = UPLOAD_BYTES;
    for object in &part.objects {
        let mut bytes = own(job, part, object).await?;
        while room <= bytes.len() {
            pending.push(bytes.split_to(room));
            upload.put(std::mem::take(&mut pending)).await?;
            room = UPLOAD_BYTES;
        }
        room -= bytes.len();
        if !bytes.is_empty() {
            pending.push(bytes);
        }
    }
    if !pending.is_empty() {
        upload.put(pending).await?;
    }
    Ok(())
}

/// Compares a part with its winner's objects; whether it is there.
///
/// # Errors
/// `Job`: it has other bytes.
async fn check_part(job: &Job, part: &Part) -> Outcome<bool> {
    let at = &Path::from(part.file.name.as_str());
    let other = || {
        Failure::Job(format!(
            "{at} is there with other bytes: choose another output"
        ))
    };
    let output = &job.output.store;
    match output.size(at).await? {
        None => return Ok(false),
        Some(size) if size != part.file.bytes => return Err(other()),
        Some(_) => {}
    }
    let mut from = 0;
    for object in &part.objects {
        let bytes = output.pieces(at, from, object.bytes).await?.concat();
        if bytes.len() as u64 != object.bytes || crc32c(&bytes) != object.crc32c {
            return Err(other());
        }
        from += object.bytes;
    }
    Ok(true)
}

/// All files of an output: those of the first output in order, then those of the others.
fn published(files: &Files) -> Vec<PublishedFile> {
    let parts = files.values().flat_map(|(parts, _)| parts);
    let mut files: Vec<PublishedFile> = parts.map(|part| part.file.clone()).collect();
    files.sort_by_key(|file| file.name.contains('/'));
    files
}

async fn success(job: &Job, winners: &[(String, u64)], files: &Files) -> Outcome<Success> {
    let list = job.list().await?;
    let (plan_id, plan) = job.plan_winner().await?;
    let maps = (0..).zip(&list.maps);
    let maps = maps.map(|(number, winner)| {
        let Winner { attempt, manifest } = winner;
        (Phase::Map.task(number), attempt, manifest)
    });
    let reduces = winners
        .iter()
        .zip(files)
        .map(|((attempt, _), (number, file))| (Phase::Reduce.task(*number), attempt, &file.1));
    let all = [(Task::PLAN, &plan_id, &plan)]
        .into_iter()
        .chain(maps)
        .chain(reduces);
    let lap = |(task, attempt, manifest): (Task, &String, &Manifest)| Lap {
        task: task.to_string(),
        attempt: attempt.clone(),
        ms: manifest.ms,
    };
    let mut success = Success {
        job: job.id().clone(),
        files: published(files),
        counters: BTreeMap::new(),
        requests: BTreeMap::new(),
        timeline: all.clone().map(lap).collect(),
    };
    let others = match job.has(Guard::WinnersCounters) {
        true => Vec::new(),
        false => mutant::losers(job, &list).await?,
    };
    let manifests: Vec<&Manifest> = all.map(|it| it.2).chain(&others).collect();
    for (name, number) in manifests.iter().flat_map(|manifest| &manifest.counters) {
        *success.counters.entry(name.clone()).or_default() += number;
    }
    let own = job.take_requests();
    let winners = manifests.iter().map(|manifest| &manifest.requests);
    for (name, number) in winners.chain([&own]).flatten() {
        *success.requests.entry(name.clone()).or_default() += number;
    }
    Ok(success)
}
