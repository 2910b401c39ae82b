//! A file to an object: whole, or in parts.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use fader_client::S3Request;
use fader_services::ErrorCode;
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _};

use super::{PART_BYTES, Shared};
use crate::failure;
use crate::s3::digest;
use crate::s3::place::ObjectPlace;
use crate::s3::{need, number};

/// Parts of one upload.
const PARTS_MAX: u64 = 10_000;

/// Copies a file; whether anything was to be done.
pub(super) async fn run(
    shared: &Shared,
    path: &Path,
    to: &ObjectPlace,
    bytes: u64,
) -> Result<bool> {
    let part_bytes = PART_BYTES.max(bytes.div_ceil(PARTS_MAX));
    let is_whole = bytes <= part_bytes;
    if is_there(shared, path, to, bytes, (!is_whole).then_some(part_bytes)).await? {
        return Ok(false);
    }
    if is_whole {
        let _turn = shared.requests.acquire().await?;
        let body = read(path, 0, bytes).await?;
        let sum = digest::md5_hex(&body);
        let request = S3Request {
            body,
            ..S3Request::new("PUT".parse()?, &to.bucket, &to.key)
        };
        let reply = shared.service.call(request).await?;
        compare(reply.header("etag"), &sum)?;
        shared.moved(bytes).await;
        return Ok(true);
    }
    in_parts(shared, path, to, bytes, part_bytes).await?;
    Ok(true)
}

/// Whether the object is there, with the bytes of the file.
async fn is_there(
    shared: &Shared,
    path: &Path,
    to: &ObjectPlace,
    bytes: u64,
    part_bytes: Option<u64>,
) -> Result<bool> {
    let request = S3Request::new("HEAD".parse()?, &to.bucket, &to.key);
    let Some(head) = shared.service.find(request).await? else {
        return Ok(false);
    };
    let etag = head.header("etag").trim_matches('"').to_owned();
    if number(head.header("content-length"), "length")? != bytes || !digest::is_of_bytes(&etag) {
        return Ok(false);
    }
    let (path, is_in_parts) = (path.to_owned(), etag.contains('-'));
    let part_bytes = part_bytes.filter(|_| is_in_parts);
    let own = tokio::task::spawn_blocking(move || digest::of_file(&path, part_bytes)).await??;
    Ok(own == etag)
}

/// Refuses what arrived otherwise.
fn compare(etag: &str, expected: &str) -> Result<()> {
    let etag = etag.trim_matches('"');
    match etag == expected || !digest::is_of_bytes(etag) {
        true => Ok(()),
        false => failure::fail(
            ErrorCode::AnswerMalformed,
            format_args!("the endpoint has other bytes: ETag {etag} in place of {expected}"),
        ),
    }
}

async fn read(path: &Path, at: u64, bytes: u64) -> Result<Bytes> {
    let context = || format!("cannot read {}", path.display());
    let mut file = tokio::fs::File::open(path).await.with_context(context)?;
    file.seek(std::io::SeekFrom::Start(at))
        .await
        .with_context(context)?;
    let mut body = vec![0; usize::try_from(bytes)?];
    file.read_exact(&mut body).await.with_context(context)?;
    Ok(body.into())
}

async fn in_parts(
    shared: &Shared,
    path: &Path,
    to: &ObjectPlace,
    bytes: u64,
    part_bytes: u64,
) -> Result<()> {
    let (upload, there) = begun(shared, to).await?;
    let count = bytes.div_ceil(part_bytes);
    let parts = (1..=count).map(|number| {
        let at = (number - 1) * part_bytes;
        let bytes = part_bytes.min(bytes - at);
        let part = FilePart { number, at, bytes };
        send_part(shared, path, to, &upload, part, there.get(&number))
    });
    let parts = futures_util::future::try_join_all(parts).await?;
    let list: String = (1..)
        .zip(&parts)
        .map(|(number, etag): (u64, _)| {
            format!("<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>")
        })
        .collect();
    let request = S3Request {
        query: &[("uploadId", &upload)],
        body: format!("<CompleteMultipartUpload>{list}</CompleteMultipartUpload>").into(),
        ..S3Request::new("POST".parse()?, &to.bucket, &to.key)
    };
    let root = shared.service.call(request).await?.xml()?;
    if root.name == "Error" {
        return failure::fail(
            ErrorCode::RequestRefused,
            format_args!(
                "{}: {}",
                root.child_text("Code"),
                root.child_text("Message")
            ),
        );
    }
    compare(
        root.child_text("ETag"),
        &digest::joined(parts.iter().map(|it| &**it)),
    )
}

/// The upload that an interrupted copy left, with the ETags of its parts; a new one if none did.
async fn begun(shared: &Shared, to: &ObjectPlace) -> Result<(String, BTreeMap<u64, String>)> {
    let request = S3Request {
        query: &[("uploads", ""), ("prefix", &to.key)],
        ..S3Request::new("GET".parse()?, &to.bucket, "")
    };
    let root = shared.service.call(request).await?.xml()?;
    let found = root
        .children("Upload")
        .filter(|it| it.child_text("Key") == to.key);
    if let Some(upload) = found.last() {
        let id = need(upload.child_text("UploadId"), "UploadId")?.to_owned();
        let parts = parts_of(shared, to, &id).await?;
        return Ok((id, parts));
    }
    let request = S3Request {
        query: &[("uploads", "")],
        ..S3Request::new("POST".parse()?, &to.bucket, &to.key)
    };
    let root = shared.service.call(request).await?.xml()?;
    let id = need(root.child_text("UploadId"), "UploadId")?.to_owned();
    Ok((id, BTreeMap::new()))
}

async fn parts_of(shared: &Shared, to: &ObjectPlace, id: &str) -> Result<BTreeMap<u64, String>> {
    let mut parts = BTreeMap::new();
    let mut after = "0".to_owned();
    loop {
        let request = S3Request {
            query: &[("uploadId", id), ("part-number-marker", &after)],
            ..S3Request::new("GET".parse()?, &to.bucket, &to.key)
        };
        let root = shared.service.call(request).await?.xml()?;
        for part in root.children("Part") {
            let number = number(part.child_text("PartNumber"), "PartNumber")?;
            let etag = part.child_text("ETag").trim_matches('"').to_owned();
            parts.insert(number, etag);
        }
        let next = root.child_text("NextPartNumberMarker");
        if root.child_text("IsTruncated") != "true" || next == after {
            return Ok(parts);
        }
        next.clone_into(&mut after);
    }
}

/// A part of a file: its number in the upload, and its bytes from offset `at`.
#[derive(Clone, Copy)]
struct FilePart {
    number: u64,
    at: u64,
    bytes: u64,
}

/// Sends a part, unless it is there; its ETag.
async fn send_part(
    shared: &Shared,
    path: &Path,
    to: &ObjectPlace,
    upload: &str,
    part: FilePart,
    there: Option<&String>,
) -> Result<String> {
    let FilePart { number, at, bytes } = part;
    let _turn = shared.requests.acquire().await?;
    let body = read(path, at, bytes).await?;
    let sum = digest::md5_hex(&body);
    if there != Some(&sum) {
        let number = number.to_string();
        let request = S3Request {
            query: &[("partNumber", &number), ("uploadId", upload)],
            body,
            ..S3Request::new("PUT".parse()?, &to.bucket, &to.key)
        };
        let reply = shared.service.call(request).await?;
        compare(reply.header("etag"), &sum)?;
    }
    shared.moved(bytes).await;
    Ok(sum)
}
