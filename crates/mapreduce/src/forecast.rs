//! What a job will take, from its definition and a list of its input.

use fader_cloud::{Cloud, RequestKind, Result};
use futures_util::stream::TryStreamExt;
use object_store::path::Path;

use crate::input::{Inputs, Pattern};
use crate::job::{Definition, Register, parse, register_key};
use crate::plan;
use crate::store::{Store, failed};

/// What a job will take when nothing fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forecast {
    /// Objects of the input.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Map tasks.
    pub maps: u64,
    /// Wire requests, about: renewals and idle receives are left out.
    pub requests: Vec<(RequestKind, u64)>,
}

/// Bytes that a map task reads at once.
const CHUNK_BYTES: u64 = 4 << 20;

/// Lists the input and says what the job will take. Nothing is written.
///
/// # Errors
/// Of the cloud of the input; `Invalid`.
pub async fn forecast(definition: &Definition, inputs: &dyn Inputs) -> Result<Forecast> {
    let mut objects = Vec::new();
    let mut lists = 0;
    for (input, url) in definition.inputs.iter().enumerate() {
        let pattern = Pattern::parse(url)?;
        let store = inputs.open(&pattern.base).await?;
        let failed = |error| failed("LIST", &Path::default(), error);
        let listed: Vec<_> = store.list(None).try_collect().await.map_err(failed)?;
        lists += listed.len() as u64 / 1000 + 1;
        objects.extend(plan::matching(input, &pattern, &definition.format, listed));
    }
    let splits = plan::pack(&objects, definition.split_bytes);
    let pieces = splits.iter().flatten();
    let reads: u64 = pieces.map(|piece| piece.bytes.div_ceil(CHUNK_BYTES)).sum();
    let (maps, reduces) = (splits.len() as u64, u64::from(definition.reduces));
    let tasks = 1 + maps + reduces;
    let requests = vec![
        (RequestKind::ObjectList, lists),
        // Input, runs of each reducer, plan, list, manifests, and the output once more.
        (
            RequestKind::ObjectGet,
            reads + maps * reduces + 3 * tasks + reduces,
        ),
        // Data and manifest of each task, parts, register, list, success.
        (RequestKind::ObjectPut, 2 * tasks + reduces + 4),
        (RequestKind::QueueSend, tasks.div_ceil(10) + 2),
        (RequestKind::QueueReceive, tasks),
        (RequestKind::QueueRemove, tasks),
        // A row is read, and put at the start and by the winner. Four turns have a ticket.
        (RequestKind::DomainRead, tasks + 4),
        (RequestKind::DomainWrite, 2 * tasks + 4),
    ];
    Ok(Forecast {
        objects: objects.len() as u64,
        bytes: objects.iter().map(|object| object.bytes).sum(),
        maps,
        requests,
    })
}

/// The registers of all outputs in a cloud, each with the folder of its output.
///
/// # Errors
/// Of the cloud.
pub async fn registers(cloud: &Cloud) -> Result<Vec<(String, Register)>> {
    let store = Store(cloud.clone());
    let mut found = Vec::new();
    let key = register_key();
    for meta in store.list(None).await? {
        let Some(folder) = meta.location.as_ref().strip_suffix(key.as_ref()) else {
            continue;
        };
        if let Some((bytes, _)) = store.get(&meta.location).await?
            && let Ok(register) = parse(&meta.location, &bytes)
        {
            found.push((folder.trim_end_matches('/').to_owned(), register));
        }
    }
    Ok(found)
}
