//! Publication: parts are created from the winners of the reduce tasks, then `_SUCCESS`.
//!
//! The register said publishing before. Any worker does it, any number of them at once: what is
//! there already is done.
//!
//! Invariants:
//! - MR-8 a part is created, never overwritten; `_SUCCESS` after all parts were acknowledged.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use fader_cloud::ErrorKind;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use object_store::path::Path;

use crate::commit::{DataObject, Manifest, key, manifest};
use crate::failure::{Failure, Outcome};
use crate::guard::Guard;
use crate::job::{Lap, PublishedFile, Success, success_key};
use crate::reduce::{Winner, all_attempts};
use crate::rows::{Phase, Row, Task};
use crate::shuffle::{crc32c, crc32c_of_both};
use crate::store::Upload;
use crate::view::Job;
use crate::work::staging;

/// Parts that are created at once, at most: of large ones so many as fit in memory.
pub(crate) const PARTS: usize = 4;
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
pub(crate) async fn publish(job: &Job) -> Outcome<()> {
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
    let numbers = 0..count;
    let files = numbers.zip(&winners).map(|(number, (id, _))| {
        let task = Phase::Reduce.task(number);
        async move {
            let manifest = manifest(job, task, id).await?;
            let parts = parts(number, &manifest);
            if job.has(Guard::SuccessLast) {
                create_parts(job, task, id, &parts).await?;
            }
            Ok::<_, Failure>((parts, manifest))
        }
    });
    let files: Vec<_> = files.collect();
    let files: Vec<(Vec<Part>, Manifest)> = stream::iter(files)
        .buffered(job.parts_max())
        .try_collect()
        .await?;
    let success = success(job, &winners, &files).await?;
    let text = serde_json::to_vec_pretty(&success).expect("its keys are text");
    job.store().create(&success_key(), &text.into()).await?;
    if !job.has(Guard::SuccessLast) {
        for (number, ((parts, _), (id, _))) in (0..count).zip(files.iter().zip(&winners)) {
            let task = Phase::Reduce.task(number);
            create_parts(job, task, id, parts).await?;
        }
    }
    Ok(())
}

/// The winner of each task with its milliseconds, if all have one.
pub(crate) fn winners(rows: &BTreeMap<u32, Row>, count: u32) -> Option<Vec<(String, u64)>> {
    let winner = |number: u32| rows.get(&number)?.lap();
    (0..count).map(winner).collect()
}

/// A part, and the objects that it is made of.
struct Part {
    file: PublishedFile,
    objects: Vec<DataObject>,
}

/// The parts of a reduce task: the first is there without records, too.
fn parts(number: u32, manifest: &Manifest) -> Vec<Part> {
    let outputs = manifest.objects.iter().map(|object| object.output);
    let outputs: BTreeSet<u8> = outputs.chain([0]).collect();
    let part = |output: u8| {
        let of = manifest
            .objects
            .iter()
            .filter(|object| object.output == output);
        let mut part = Part {
            file: PublishedFile {
                name: part_name(output, number),
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

async fn create_parts(job: &Job, task: Task, id: &str, parts: &[Part]) -> Outcome<()> {
    for part in parts {
        create_part(job, task, id, part).await?;
    }
    Ok(())
}

async fn create_part(job: &Job, task: Task, id: &str, part: &Part) -> Outcome<()> {
    let Part { file, objects } = part;
    let at = Path::from(file.name.as_str());
    if job.has(Guard::CreateOnlyParts) && job.store().has(&at).await? {
        return check_part(job, &at, objects).await;
    }
    let key = |name: &str| key(job.id(), task, id, name);
    let is_large = job.part_bytes_max() < file.bytes;
    if is_large && job.has(Guard::CreateOnlyParts) {
        let staged = staged(job, task, id, &file.name);
        let objects = objects.iter().map(|object| (key(&object.name), object));
        if stage(job, &staged, objects).await? {
            match job.store().copy(&staged, &at).await {
                Ok(()) => return Ok(()),
                Err(error) if error.kind == ErrorKind::Precondition => {
                    return check_part(job, &at, &part.objects).await;
                }
                // The store copies on no condition.
                Err(error) if error.kind == ErrorKind::Invalid => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    let mut body = Vec::with_capacity(file.bytes as usize);
    for object in objects {
        body.extend_from_slice(&own(job, &key(&object.name), object).await?);
    }
    let body = Bytes::from(body);
    if !job.has(Guard::CreateOnlyParts) {
        return Ok(job.store().put(&at, &body).await?);
    }
    match job.store().create(&at, &body).await? {
        Some(_) => Ok(()),
        None => check_part(job, &at, objects).await,
    }
}

/// Where a part is put together. Only parts have names that begin with `part`.
fn staged(job: &Job, task: Task, id: &str, part: &str) -> Path {
    let name = part.replace('/', "-");
    Path::from(format!("{}/{task}/{id}/of-{name}", staging(job.id())))
}

/// The bytes of an object of a winner.
async fn own(job: &Job, key: &Path, object: &DataObject) -> Outcome<Bytes> {
    let found = job.store().get(key).await?;
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
async fn stage(
    job: &Job,
    at: &Path,
    objects: impl Iterator<Item = (Path, &DataObject)>,
) -> Outcome<bool> {
    let Some(mut upload) = job.store().upload(at).await? else {
        return Ok(false);
    };
    match put_all(job, &mut upload, objects).await {
        Ok(()) => upload.complete().await?,
        Err(failure) => {
            upload.abort().await;
            return Err(failure);
        }
    }
    Ok(true)
}

/// Sends the bytes of objects as parts of an upload.
async fn put_all(
    job: &Job,
    upload: &mut Upload,
    objects: impl Iterator<Item = (Path, &DataObject)>,
) -> Outcome<()> {
    // As they came: put together they would be there twice.
    let mut pending = Vec::new();
    let mut room = UPLOAD_BYTES;
    for (key, object) in objects {
        let mut bytes = own(job, &key, object).await?;
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

/// A part that was there before is the winner's, or the output is not this job's.
async fn check_part(job: &Job, at: &Path, objects: &[DataObject]) -> Outcome<()> {
    let other = || {
        Failure::Job(format!(
            "{at} is there with other bytes: choose another output"
        ))
    };
    let size: u64 = objects.iter().map(|object| object.bytes).sum();
    if job.store().size(at).await? != Some(size) {
        return Err(other());
    }
    let mut from = 0;
    for object in objects {
        let bytes = job.store().range(at, from, object.bytes).await?;
        if bytes.len() as u64 != object.bytes || crc32c(&bytes) != object.crc32c {
            return Err(other());
        }
        from += object.bytes;
    }
    Ok(())
}

/// All files of an output: those of the first output in order, then those of the others.
fn published(files: &[(Vec<Part>, Manifest)]) -> Vec<PublishedFile> {
    let parts = files.iter().flat_map(|(parts, _)| parts);
    let mut files: Vec<PublishedFile> = parts.map(|part| part.file.clone()).collect();
    files.sort_by_key(|file| file.name.contains('/'));
    files
}

async fn success(
    job: &Job,
    winners: &[(String, u64)],
    files: &[(Vec<Part>, Manifest)],
) -> Outcome<Success> {
    let (_, list) = job.list().await?;
    let (plan_id, plan) = job.plan_winner().await?;
    let mut success = Success {
        job: job.id().clone(),
        files: published(files),
        counters: BTreeMap::new(),
        requests: BTreeMap::new(),
        timeline: Vec::new(),
    };
    let lap = |task: Task, attempt: &str, ms| Lap {
        task: task.to_string(),
        attempt: attempt.to_owned(),
        ms,
    };
    success.timeline.push(lap(Task::PLAN, &plan_id, plan.ms));
    let mut manifests = vec![plan];
    for (number, Winner { attempt, manifest }) in (0..).zip(&list.maps) {
        let task = Phase::Map.task(number);
        success.timeline.push(lap(task, attempt, manifest.ms));
        manifests.push(manifest.clone());
    }
    for (number, ((id, ms), (_, manifest))) in (0..).zip(winners.iter().zip(files)) {
        let task = Phase::Reduce.task(number);
        success.timeline.push(lap(task, id, *ms));
        manifests.push(manifest.clone());
    }
    if !job.has(Guard::WinnersCounters) {
        let all = all_attempts(job, &list).await?.into_iter();
        let winners: BTreeSet<_> = list.maps.iter().map(|winner| &winner.attempt).collect();
        manifests.extend(
            all.filter(|(_, id, _)| !winners.contains(id))
                .map(|it| it.2),
        );
    }
    for manifest in &manifests {
        for (name, number) in &manifest.counters {
            *success.counters.entry(name.clone()).or_default() += number;
        }
    }
    let own = job.take_requests();
    let winners = manifests.iter().map(|manifest| &manifest.requests);
    for (name, number) in winners.chain([&own]).flatten() {
        *success.requests.entry(name.clone()).or_default() += number;
    }
    Ok(success)
}
