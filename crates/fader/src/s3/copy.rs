//! `fader s3 cp`: files to objects, objects to files, objects to objects.
//!
//! Invariants:
//! - COPY-1 an object is compared with its file by size and ETag. One that is the same is passed
//!   over, so that an interrupted copy goes on where it was.
//! - a file has its name only when it is whole and was compared with its object.
//! - COPY-3 no key names a file outside the folder that is copied to.
//!
//! Deliberately absent: metadata, versions, links to folders.

mod download;
mod upload;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context as _, Result};
use clap::Args;
use fader_client::S3Request;
use tokio::sync::{Mutex, Semaphore};
use tokio::task::JoinSet;

use super::place::{ObjectPlace, Place, relative};
use super::{Service, listing};
use crate::failure;
use crate::output;
use crate::sdb::progress::Progress;

/// Bytes of a part, and of one request for a range.
const PART_BYTES: u64 = 8 << 20;
/// The largest object that one request copies.
const COPY_BYTES_MAX: u64 = 5 << 30;

/// From where to where.
#[derive(Args)]
pub(super) struct Options {
    /// A file, a folder with -r, or s3://BUCKET/KEY.
    from: Place,
    /// The same.
    to: Place,
    /// Everything below a folder or a prefix.
    #[arg(short, long)]
    recursive: bool,
    /// Requests at once.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: u16,
}

/// One copy.
#[derive(Clone, Debug)]
enum Copy {
    Up(PathBuf, ObjectPlace, u64),
    Down(ObjectPlace, PathBuf, u64, String),
    Across(ObjectPlace, ObjectPlace, u64),
}

impl Copy {
    fn bytes(&self) -> u64 {
        match self {
            Copy::Up(_, _, bytes) | Copy::Down(_, _, bytes, _) | Copy::Across(_, _, bytes) => {
                *bytes
            }
        }
    }
}

/// What the copies of one command share.
struct Shared {
    service: Service,
    /// Requests that may be under way, each with a part in memory.
    requests: Semaphore,
    progress: Mutex<Progress>,
    bytes: AtomicU64,
    copied: AtomicU64,
    passed: AtomicU64,
}

impl Shared {
    async fn moved(&self, bytes: u64) {
        let at = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let copied = self.copied.load(Ordering::Relaxed);
        let passed = self.passed.load(Ordering::Relaxed);
        let done = format!("{copied} copied, {passed} there already");
        self.progress.lock().await.show(at, done);
    }
}

/// Copies.
pub(super) async fn run(service: &Service, options: &Options) -> Result<()> {
    let copies = match (&options.from, &options.to) {
        (Place::File(from), Place::Object(to)) => files(from, to, options.recursive)?,
        (Place::Object(from), to) => objects(service, from, to, options.recursive).await?,
        (Place::File(_), Place::File(_)) => {
            return failure::invalid("neither is s3://BUCKET/KEY: `cp` copies files");
        }
    };
    let total = copies.iter().map(Copy::bytes).sum();
    let shared = Arc::new(Shared {
        service: service.clone(),
        requests: Semaphore::new(usize::from(options.jobs)),
        progress: Mutex::new(Progress::new(Some(total))),
        bytes: AtomicU64::new(0),
        copied: AtomicU64::new(0),
        passed: AtomicU64::new(0),
    });
    let outcome = all(&shared, copies, usize::from(options.jobs)).await;
    shared.progress.lock().await.finish();
    outcome?;
    let copied = shared.copied.load(Ordering::Relaxed);
    let passed = shared.passed.load(Ordering::Relaxed);
    output::tell(&format!("copied {copied}, {passed} were there already"));
    Ok(())
}

/// Carries copies out, some at once. The first failure ends all.
async fn all(shared: &Arc<Shared>, copies: Vec<Copy>, jobs: usize) -> Result<()> {
    let mut tasks = JoinSet::new();
    let mut copies = copies.into_iter();
    loop {
        while tasks.len() < jobs
            && let Some(copy) = copies.next()
        {
            let shared = Arc::clone(shared);
            tasks.spawn(async move { one(&shared, copy).await });
        }
        match tasks.join_next().await {
            None => return Ok(()),
            Some(done) => done.context("a copy ended badly")??,
        }
    }
}

async fn one(shared: &Shared, copy: Copy) -> Result<()> {
    let (is_copied, what) = match &copy {
        Copy::Up(path, to, bytes) => {
            let done = upload::run(shared, path, to, *bytes).await;
            (done, format!("{} to {to}", path.display()))
        }
        Copy::Down(from, path, bytes, etag) => {
            let done = download::run(shared, from, path, *bytes, etag).await;
            (done, format!("{from} to {}", path.display()))
        }
        Copy::Across(from, to, bytes) => {
            let done = across(shared, from, to, *bytes).await;
            (done, format!("{from} to {to}"))
        }
    };
    let is_copied = is_copied.with_context(|| format!("cannot copy {what}"))?;
    match is_copied {
        true => shared.copied.fetch_add(1, Ordering::Relaxed),
        false => {
            shared.moved(copy.bytes()).await;
            shared.passed.fetch_add(1, Ordering::Relaxed)
        }
    };
    shared.moved(0).await;
    Ok(())
}

/// The copies of files to objects.
fn files(from: &Path, to: &ObjectPlace, is_recursive: bool) -> Result<Vec<Copy>> {
    let context = || format!("cannot read {}", from.display());
    let is_folder = std::fs::metadata(from).with_context(context)?.is_dir();
    if !is_folder {
        let size = std::fs::metadata(from).with_context(context)?.len();
        let place = match to.key.is_empty() || to.key.ends_with('/') {
            true => to.below(&name_of(from)?),
            false => to.clone(),
        };
        return Ok(vec![Copy::Up(from.to_owned(), place, size)]);
    }
    if !is_recursive {
        return failure::invalid(format_args!(
            "{} is a folder: -r copies all that is in it",
            from.display()
        ));
    }
    let mut copies = Vec::new();
    let mut folders = vec![from.to_owned()];
    while let Some(folder) = folders.pop() {
        let context = || format!("cannot read {}", folder.display());
        for entry in std::fs::read_dir(&folder).with_context(context)? {
            let entry = entry.with_context(context)?;
            let path = entry.path();
            if entry.file_type().with_context(context)?.is_dir() {
                folders.push(path);
                continue;
            }
            let Some(bytes) = bytes_of_file(&path)? else {
                note!("left out: {} is no file", path.display());
                continue;
            };
            let below = path.strip_prefix(from).unwrap_or(&path);
            let names: Option<Vec<&str>> = below.iter().map(|name| name.to_str()).collect();
            let names = names.with_context(|| format!("{} is not UTF-8", path.display()))?;
            copies.push(Copy::Up(path.clone(), to.below(&names.join("/")), bytes));
        }
    }
    Ok(copies)
}

/// The bytes of a file, also of one that a link names. A link to a folder is left out, for it might
/// lead back here, and so is one to nothing.
fn bytes_of_file(path: &Path) -> Result<Option<u64>> {
    match std::fs::metadata(path) {
        Ok(meta) => Ok(meta.is_file().then_some(meta.len())),
        Err(error) if error.kind() == ErrorKind::NotFound && path.is_symlink() => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

fn name_of(path: &Path) -> Result<String> {
    let name = path.file_name().and_then(|name| name.to_str());
    Ok(name
        .with_context(|| format!("{} has no name", path.display()))?
        .to_owned())
}

/// The copies of objects to files or to other objects.
async fn objects(
    service: &Service,
    from: &ObjectPlace,
    to: &Place,
    is_recursive: bool,
) -> Result<Vec<Copy>> {
    if !is_recursive {
        from.check_key("-r copies all of them")?;
        let request = S3Request::new("HEAD".parse()?, &from.bucket, &from.key);
        let head = service.find(request).await?;
        let head = head.with_context(|| format!("there is no {from}; -r copies what is below"))?;
        let size = super::number(head.header("content-length"), "length")?;
        let etag = head.header("etag").trim_matches('"').to_owned();
        let name = from.key.rsplit('/').next().unwrap_or_default();
        return Ok(vec![match to {
            Place::Object(to) if to.key.is_empty() || to.key.ends_with('/') => {
                Copy::Across(from.clone(), to.below(name), size)
            }
            Place::Object(to) => Copy::Across(from.clone(), to.clone(), size),
            Place::File(path) => {
                let is_folder =
                    path.is_dir() || path.as_os_str().as_encoded_bytes().ends_with(b"/");
                let path = match is_folder {
                    true => path.join(relative(name).context("the key names no file")?),
                    false => path.clone(),
                };
                Copy::Down(from.clone(), path, size, etag)
            }
        }]);
    }
    let prefix = from.folder();
    let mut copies = Vec::new();
    for object in listing::all(service, &from.bucket, &prefix).await? {
        let below = object.key.strip_prefix(&prefix).unwrap_or(&object.key);
        let place = ObjectPlace {
            bucket: from.bucket.clone(),
            key: object.key.clone(),
        };
        match to {
            Place::Object(to) => copies.push(Copy::Across(place, to.below(below), object.size)),
            Place::File(folder) => match relative(below) {
                Some(path) => {
                    let path = folder.join(path);
                    copies.push(Copy::Down(place, path, object.size, object.etag));
                }
                None => {
                    let key = output::visible(&object.key);
                    note!("left out: {key} names no file");
                }
            },
        }
    }
    Ok(copies)
}

/// Copies inside the service; whether anything was to be done.
async fn across(shared: &Shared, from: &ObjectPlace, to: &ObjectPlace, bytes: u64) -> Result<bool> {
    if COPY_BYTES_MAX < bytes {
        return failure::invalid("objects of more than 5 GiB are copied by a file in between");
    }
    let _turn = shared.requests.acquire().await?;
    let source = fader_client::S3::source(&from.bucket, &from.key);
    let request = S3Request {
        headers: &[("x-amz-copy-source", &source)],
        ..S3Request::new("PUT".parse()?, &to.bucket, &to.key)
    };
    let root = shared.service.call(request).await?.xml()?;
    super::need(root.child_text("ETag"), "ETag")?;
    shared.moved(bytes).await;
    Ok(true)
}
