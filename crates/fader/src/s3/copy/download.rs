//! An object to a file: piece by piece into a file of its own beside it, which gets the name when
//! it is whole.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use fader_client::S3Request;
use fader_services::ErrorCode;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use tokio::io::AsyncWriteExt as _;

use super::{PART_BYTES, Shared};
use crate::failure;
use crate::s3::digest;
use crate::s3::number;
use crate::s3::place::ObjectPlace;

/// Pieces of one object that are asked for at once.
const AHEAD: usize = 4;

/// Copies an object; whether anything was to be done.
pub(super) async fn run(
    shared: &Shared,
    from: &ObjectPlace,
    path: &Path,
    bytes: u64,
    etag: &str,
) -> Result<bool> {
    let part_bytes = part_bytes(shared, from, etag).await?;
    let is_same_size = std::fs::metadata(path).is_ok_and(|meta| meta.len() == bytes);
    if is_same_size && is_same(path, etag, part_bytes).await? {
        return Ok(false);
    }
    if let Some(folder) = path.parent().filter(|it| !it.as_os_str().is_empty()) {
        let context = || format!("cannot make {}", folder.display());
        std::fs::create_dir_all(folder).with_context(context)?;
    }
    let partial = partial(path, etag)?;
    fetch(shared, from, &partial, bytes, etag).await?;
    if !is_same(&partial, etag, part_bytes).await? {
        std::fs::remove_file(&partial)?;
        return failure::fail(
            ErrorCode::AnswerMalformed,
            "what came differs from the object: it has another ETag; try again",
        );
    }
    let context = || format!("cannot rename {}", partial.display());
    std::fs::rename(&partial, path).with_context(context)?;
    Ok(true)
}

/// The file of what has come: of another version it has another name.
fn partial(path: &Path, etag: &str) -> Result<PathBuf> {
    let name = path.file_name().context("the path names no file")?;
    let version: String = etag
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .take(16)
        .collect();
    let mut partial = std::ffi::OsString::from(".");
    partial.push(name);
    partial.push(format!(".{version}.part"));
    Ok(path.with_file_name(partial))
}

/// The size of the parts of an object that was put in parts.
async fn part_bytes(shared: &Shared, from: &ObjectPlace, etag: &str) -> Result<Option<u64>> {
    if !etag.contains('-') {
        return Ok(None);
    }
    let request = S3Request {
        query: &[("partNumber", "1")],
        ..S3Request::new("HEAD".parse()?, &from.bucket, &from.key)
    };
    let head = shared.service.call(request).await?;
    Ok(Some(number(head.header("content-length"), "length")?).filter(|bytes| 0 < *bytes))
}

/// Whether a file has the bytes of an object, as far as its ETag says.
async fn is_same(path: &Path, etag: &str, part_bytes: Option<u64>) -> Result<bool> {
    if !digest::is_of_bytes(etag) {
        return Ok(true);
    }
    let path = path.to_owned();
    let own = tokio::task::spawn_blocking(move || digest::of_file(&path, part_bytes)).await??;
    Ok(own == etag)
}

async fn fetch(
    shared: &Shared,
    from: &ObjectPlace,
    partial: &Path,
    bytes: u64,
    etag: &str,
) -> Result<()> {
    let context = || format!("cannot write {}", partial.display());
    let mut options = tokio::fs::OpenOptions::new();
    let open = options.create(true).append(true).open(partial).await;
    let mut file = open.with_context(context)?;
    let there = file
        .metadata()
        .await
        .with_context(context)?
        .len()
        .min(bytes);
    shared.moved(there).await;
    let starts = (0..).map(|piece| there + piece * PART_BYTES);
    let pieces = starts
        .take_while(|start| *start < bytes)
        .map(|start| async move {
            let _turn = shared.requests.acquire().await?;
            let end = bytes.min(start + PART_BYTES);
            let (range, if_match) = (format!("bytes={start}-{}", end - 1), format!("\"{etag}\""));
            let request = S3Request {
                headers: &[("if-match", &if_match), ("range", &range)],
                ..S3Request::new("GET".parse()?, &from.bucket, &from.key)
            };
            let reply = shared.service.call(request).await?;
            match reply.body.len() as u64 == end - start {
                true => Ok::<_, anyhow::Error>(reply.body),
                false => failure::fail(
                    ErrorCode::AnswerMalformed,
                    format_args!("the endpoint sent {} bytes for {range}", reply.body.len()),
                ),
            }
        });
    let mut pieces = stream::iter(pieces).buffered(AHEAD);
    while let Some(piece) = pieces.try_next().await? {
        file.write_all(&piece).await.with_context(context)?;
        file.flush().await.with_context(context)?;
        shared.moved(piece.len() as u64).await;
    }
    file.sync_all().await.with_context(context)
}
