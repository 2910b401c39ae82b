//! Many small objects in a server of their own. Measured are its memory, and its disk beside the
//! objects' bytes: after the puts, and after all objects were overwritten.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use fader_client::{S3, S3Request};
use fader_measure::Interval;
use hyper::Method;
use tokio::runtime::Runtime;

use super::{BUCKET, SMALL_BYTES, content, finding, numbered, put, small};
use crate::report::{Finding, Target};
use crate::server::Server;

const OVERWRITES: u64 = 5;
const RESIDENT_MB_MAX: f64 = 400.0;
/// The disk is as large as it stays when it is as large for so many looks.
const STILL_LOOKS: u32 = 5;
const LOOK: Duration = Duration::from_secs(1);
const SETTLE_MAX: Duration = Duration::from_secs(180);

/// What was measured; the disk in parts of the objects' bytes.
pub(super) struct Scale {
    objects: u64,
    resident: u64,
    disk: f64,
    overwritten: f64,
}

impl Scale {
    pub(super) fn findings(&self) -> Vec<Finding> {
        let objects = self.objects;
        let figure = |name: String, value: f64, unit, most: f64| Finding {
            unit,
            ..finding(name, Interval::single(value), Target::AtMost(most))
        };
        vec![
            figure(
                format!("{objects} objects of 4 KiB: resident"),
                self.resident as f64 / 1e6,
                " MB",
                RESIDENT_MB_MAX,
            ),
            figure(
                "the same: disk / bytes of the objects".to_owned(),
                self.disk,
                "",
                1.2,
            ),
            figure(
                format!("the same after {OVERWRITES} overwrites and collection: disk / bytes"),
                self.overwritten,
                "",
                1.3,
            ),
        ]
    }
}

pub(super) fn measure(
    runtime: &Runtime,
    fader: &Path,
    scratch: &Path,
    objects: u64,
) -> Result<Scale> {
    let data = scratch.join("scale");
    let server = Server::fader(fader, &data)?;
    let address = format!("http://{}", server.target().address);
    let client = Arc::new(super::client(&address)?);
    runtime.block_on(client.call(S3Request::new(Method::PUT, BUCKET, "")))?;
    let put_all = |round: u64| {
        eprintln!("round {round} of {OVERWRITES} of {objects} objects of 4 KiB");
        runtime.block_on(put_all(&client, objects, round))
    };
    put_all(0)?;
    let resident = server.resident()?;
    let bytes = (objects * SMALL_BYTES as u64) as f64;
    let disk = settled(&data)? as f64 / bytes;
    for round in 1..=OVERWRITES {
        put_all(round)?;
    }
    let overwritten = settled(&data)? as f64 / bytes;
    let resident = resident.max(server.resident()?);
    ensure!(server.stop()?.success(), "the server did not end in peace");
    Ok(Scale {
        objects,
        resident,
        disk,
        overwritten,
    })
}

async fn put_all(client: &Arc<S3>, objects: u64, round: u64) -> Result<()> {
    let overwrite = move |client: Arc<S3>, at: u64| async move {
        let body = content(SMALL_BYTES, round * objects + at);
        put(&client, &small(at), body).await
    };
    numbered(client, objects, overwrite).await
}

/// Bytes on the disk of a folder, once they stay.
fn settled(folder: &Path) -> Result<u64> {
    let end = Instant::now() + SETTLE_MAX;
    let (mut last, mut looks) = (on_disk(folder)?, 0);
    while looks < STILL_LOOKS && Instant::now() < end {
        std::thread::sleep(LOOK);
        let now = on_disk(folder)?;
        looks = if now == last { looks + 1 } else { 0 };
        last = now;
    }
    Ok(last)
}

/// Bytes that the files of a folder take; those that go meanwhile take none.
fn on_disk(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        match entry.metadata() {
            Ok(it) if it.is_dir() => bytes += on_disk(&entry.path())?,
            Ok(it) => bytes += it.blocks() * 512,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(bytes)
}
