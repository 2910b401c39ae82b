//! Memory of the server while a large object is put in parts, one after the other, and got by
//! ranges. Also while many uploads are under way at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Result;
use bytes::Bytes;
use fader_client::{S3, S3Request};
use fader_measure::Interval;
use hyper::Method;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use super::{BUCKET, LARGE_BYTES, all, content, finding, put};
use crate::report::{Finding, Target};
use crate::server::Server;

const PART_BYTES: u64 = 16 << 20;
const UPLOADS: u64 = 64;
const KEY: &str = "large-object";
/// How often the server's memory is read.
const LOOK: Duration = Duration::from_millis(20);
const MIB: f64 = (1 << 20) as f64;
/// What `--block-memory-mb` is unless told.
const BLOCK_MEMORY_MIB: f64 = 256.0;

/// What was measured; memory in bytes beyond that at rest.
pub(super) struct Large {
    bytes: u64,
    put: u64,
    get: u64,
    uploads: u64,
}

impl Large {
    pub(super) fn findings(&self) -> Vec<Finding> {
        let mib = |name: &str, bytes: u64, most: f64| {
            let interval = Interval::single(bytes as f64 / MIB);
            Finding {
                unit: " MiB",
                ..finding(name.to_owned(), interval, Target::AtMost(most))
            }
        };
        vec![
            mib("a large object put in parts: more resident", self.put, 64.0),
            mib("the same got by ranges: more resident", self.get, 64.0),
            mib(
                "64 uploads at once: more resident",
                self.uploads,
                BLOCK_MEMORY_MIB,
            ),
        ]
    }

    pub(super) fn note(&self) -> String {
        format!(
            "The large object has {} MiB. Memory is one figure, the peak of looks every 20 ms.",
            self.bytes >> 20
        )
    }
}

pub(super) fn measure(
    runtime: &Runtime,
    server: &Server,
    client: &Arc<S3>,
    bytes: u64,
) -> Result<Large> {
    let put = peak(server, || runtime.block_on(put_in_parts(client, bytes)))?;
    let get = peak(server, || runtime.block_on(get_by_ranges(client, bytes)))?;
    let uploads = peak(server, || runtime.block_on(many(client)))?;
    Ok(Large {
        bytes,
        put,
        get,
        uploads,
    })
}

/// By how much the server's memory grows at most while something is done.
pub(super) fn peak(server: &Server, act: impl FnOnce() -> Result<()>) -> Result<u64> {
    let rest = server.resident()?;
    let (is_over, most) = (AtomicBool::new(false), AtomicU64::new(rest));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                if let Ok(now) = server.resident() {
                    most.fetch_max(now, Ordering::Relaxed);
                }
                std::thread::sleep(LOOK);
            }
        });
        let done = act();
        is_over.store(true, Ordering::Relaxed);
        done
    })?;
    Ok(most.load(Ordering::Relaxed) - rest)
}

async fn put_in_parts(client: &Arc<S3>, bytes: u64) -> Result<()> {
    let request = S3Request {
        query: &[("uploads", "")],
        ..S3Request::new(Method::POST, BUCKET, KEY)
    };
    let begun = client.call(request).await?.xml()?;
    let upload = begun.child_text("UploadId").to_owned();
    let body = content(PART_BYTES as usize, 0);
    let mut parts = Vec::new();
    for part in 0..bytes.div_ceil(PART_BYTES) {
        let number = (part + 1).to_string();
        let size = PART_BYTES.min(bytes - part * PART_BYTES) as usize;
        let request = S3Request {
            query: &[("partNumber", &number), ("uploadId", &upload)],
            body: body.slice(..size),
            ..S3Request::new(Method::PUT, BUCKET, KEY)
        };
        let reply = client.call(request).await?;
        let tag = reply.header("etag");
        parts.push(format!(
            "<Part><PartNumber>{number}</PartNumber><ETag>{tag}</ETag></Part>"
        ));
    }
    let list = parts.concat();
    let body = format!("<CompleteMultipartUpload>{list}</CompleteMultipartUpload>");
    let request = S3Request {
        query: &[("uploadId", &upload)],
        body: Bytes::from(body),
        ..S3Request::new(Method::POST, BUCKET, KEY)
    };
    client.call(request).await?;
    Ok(())
}

async fn get_by_ranges(client: &Arc<S3>, bytes: u64) -> Result<()> {
    let mut at = 0;
    while at < bytes {
        let end = (at + PART_BYTES).min(bytes);
        let range = format!("bytes={at}-{}", end - 1);
        let request = S3Request {
            headers: &[("range", &range)],
            ..S3Request::new(Method::GET, BUCKET, KEY)
        };
        let reply = client.call(request).await?;
        let got = reply.body.len() as u64;
        anyhow::ensure!(got == end - at, "a range has {got} bytes");
        at = end;
    }
    Ok(())
}

async fn many(client: &Arc<S3>) -> Result<()> {
    let body = content(LARGE_BYTES, 1);
    let mut clients = JoinSet::new();
    for number in 0..UPLOADS {
        let (client, body) = (Arc::clone(client), body.clone());
        clients.spawn(async move { put(&client, &format!("many/{number}"), body).await });
    }
    all(clients).await
}
