//! The plan's attempt: lists the input, leaves out what no job completed, and cuts it into splits.

use std::collections::BTreeSet;
use std::sync::Arc;

use object_store::ObjectStore;

use crate::commit::{Attempt, Manifest};
use crate::failure::{Failure, Outcome};
use crate::input::{Compression, Cutter, Format, Inflater, Pattern};
use crate::job::read_success;
use crate::map::{footer, read_input};
use crate::plan::{self, InputObject, Piece, Plan};

/// Objects of the input, at most.
const OBJECTS_MAX: usize = 10_000_000;
/// Places at which the input is sampled for ranges, and bytes at each.
const SAMPLES: usize = 64;
const SAMPLE_BYTES: u64 = 64 << 10;
/// Lines of a sample that are kept, at most.
const SAMPLE_LINES: usize = 20_000;

/// Runs a plan's attempt. Its manifest, and the number of its splits.
pub(crate) async fn plan(attempt: &Attempt<'_>) -> Outcome<(Manifest, u32)> {
    let definition = attempt.job.definition();
    let mut plan = Plan::default();
    let mut objects = Vec::new();
    for (number, url) in definition.inputs.iter().enumerate() {
        let pattern = Pattern::parse(url).map_err(|error| Failure::Job(error.context))?;
        let store = attempt.job.inputs.open(&pattern.base).await?;
        let found = find(attempt, number, &pattern, &store).await?;
        if found.is_empty() {
            return Err(Failure::Job(format!("no input matches {url}")));
        }
        objects.extend(found);
        plan.bases.push(pattern.base);
    }
    plan.splits = plan::pack(&objects, definition.split_bytes);
    if attempt.job.code.wants_ranges() {
        let sample = sample(attempt, &plan).await?;
        plan.ranges = plan::ranges(sample, definition.reduces);
    }
    let text = serde_json::to_vec(&plan).expect("a plan has keys of text");
    let mut manifest = Manifest::default();
    manifest
        .objects
        .push(attempt.keep("plan", text.into()).await?);
    let counters = [
        ("input objects", objects.len() as u64),
        ("input bytes", plan.bytes()),
    ];
    let counters = counters.map(|(name, number)| (name.to_owned(), number));
    manifest.counters.extend(counters);
    Ok((manifest, plan.splits.len() as u32))
}

/// The objects that a pattern names, in the order of their keys.
async fn find(
    attempt: &Attempt<'_>,
    input: usize,
    pattern: &Pattern,
    store: &Arc<dyn ObjectStore>,
) -> Outcome<Vec<InputObject>> {
    let store = attempt.store.of(store);
    let listed = store.list(None).await?;
    let mut complete: Vec<(String, BTreeSet<String>)> = Vec::new();
    for meta in &listed {
        if meta.location.filename() == Some("_SUCCESS") {
            let key = meta.location.as_ref();
            let folder = key[..key.len() - "_SUCCESS".len()].to_owned();
            let found = store.get(&meta.location).await?;
            // Another's: Hadoop's is empty.
            let success = found.and_then(|(bytes, _)| read_success(&bytes).ok());
            let files = success.map(|it| it.files.into_iter().map(|file| file.name).collect());
            complete.extend(files.map(|files| (folder, files)));
        }
    }
    let format = &attempt.job.definition().format;
    let mut objects = plan::matching(input, pattern, format, listed);
    // Of the output of a job only the files that its `_SUCCESS` names are input.
    objects.retain(|object| {
        complete.iter().all(|(folder, files)| {
            let name = object.key.strip_prefix(folder.as_str());
            name.is_none_or(|name| files.contains(name))
        })
    });
    match objects.len() <= OBJECTS_MAX {
        true => Ok(objects),
        false => {
            let text = format!("more than {OBJECTS_MAX} objects of input");
            Err(Failure::Job(text))
        }
    }
}

/// Lines from places all over the input.
async fn sample(attempt: &Attempt<'_>, plan: &Plan) -> Outcome<Vec<Vec<u8>>> {
    let pieces: Vec<&Piece> = plan.splits.iter().flatten().collect();
    let all = plan.bytes();
    let mut lines = Vec::new();
    let mut before = 0;
    let mut next = 0;
    for piece in pieces {
        // Places are at equal distances.
        while next < SAMPLES && all * next as u64 / (SAMPLES as u64) < before + piece.bytes {
            let from = (all * next as u64 / SAMPLES as u64).saturating_sub(before);
            lines.extend(sample_at(attempt, plan, piece, from).await?);
            next += 1;
        }
        before += piece.bytes;
    }
    Ok(lines)
}

async fn sample_at(
    attempt: &Attempt<'_>,
    plan: &Plan,
    piece: &Piece,
    from: u64,
) -> Outcome<Vec<Vec<u8>>> {
    let store = attempt.job.inputs.open(&plan.bases[piece.input]).await?;
    let format = &attempt.job.definition().format;
    if let Format::Parquet(_) = format {
        return sample_rows(attempt, &store, piece, piece.offset + from).await;
    }
    let compression = Compression::of(&piece.key);
    // Compressed objects are sampled at their beginning.
    let from = match compression {
        Compression::None => piece.offset + from,
        _ => 0,
    };
    let end = (from + SAMPLE_BYTES).min(piece.size);
    let bytes = read_input(&attempt.store, &store, piece, from..end).await;
    let bytes = bytes.map_err(|error| Failure::task(error.context))?;
    let mut cutter = Cutter::new(&Format::Lines, from, u64::MAX, SAMPLE_BYTES as usize);
    let (mut lines, mut left) = (Vec::new(), SAMPLE_BYTES as usize);
    let mut inflater = Inflater::new(compression, attempt.job.memory)?;
    let mut take = |_: u64, bytes: &[u8]| {
        for line in bytes.split(|byte| *byte == b'\n') {
            // What is compressed may stand for a thousand times as much.
            let after = left.checked_sub(line.len() + 1);
            left = after.ok_or_else(|| Failure::task("a sample has enough lines"))?;
            if !line.is_empty() {
                lines.push(line.to_vec());
            }
        }
        Ok(())
    };
    // The end is cut off: what was read before it is a sample, too.
    drop(inflater.feed(&bytes, |bytes| cutter.feed(bytes, &mut take)));
    let step = lines.len().div_ceil(SAMPLE_LINES / SAMPLES).max(1);
    Ok(lines.into_iter().step_by(step).collect())
}

/// The first rows of the first row group of a piece that begins there or later.
async fn sample_rows(
    attempt: &Attempt<'_>,
    store: &Arc<dyn ObjectStore>,
    piece: &Piece,
    from: u64,
) -> Outcome<Vec<Vec<u8>>> {
    let footer = footer(attempt, store, piece).await?;
    let groups = footer.groups_in(from..piece.offset + piece.bytes)?;
    let Some(group) = groups.first() else {
        return Ok(Vec::new());
    };
    let range = footer.range(*group)?;
    if range.is_empty() {
        return Ok(Vec::new());
    }
    let bytes = read_input(&attempt.store, store, piece, range).await;
    let bytes = bytes.map_err(|error| Failure::task(error.context))?;
    let mut lines = Vec::new();
    for row in footer.rows(*group, bytes)?.take(SAMPLE_LINES / SAMPLES) {
        let mut line = Vec::new();
        row?.line(&mut line)?;
        line.pop();
        lines.push(line);
    }
    Ok(lines)
}
