//! `--cache`: pages in a folder of this machine, for the next command and for pages that memory has
//! no place for.
//!
//! One process uses a folder at a time: it holds a lock on a file in it. Another goes on without.
//! Files that this module did not write are never touched.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use bytes::Bytes;
use clap::Args;
use fader_database::{DiskTier, PageFiles};

use crate::output::visible;

/// How the names of pages end.
const SUFFIX: &str = ".fader-page";
/// The file that a process locks.
const LOCK: &str = "lock";

/// Whether pages are kept on this machine.
#[derive(Args)]
pub(super) struct Cache {
    /// Keeps pages in this folder, as the store has them. The next command asks the store only
    /// whether they are the newest.
    #[arg(long, value_name = "FOLDER")]
    cache: Option<PathBuf>,
    /// Bytes of the folder's pages, at most, such as 512MiB.
    #[arg(
        long,
        value_name = "BYTES",
        default_value = "1GiB",
        requires = "cache",
        value_parser = crate::mapreduce::bytes
    )]
    cache_bytes: u64,
}

impl Cache {
    /// The folder, if one is named and no other process uses it.
    pub(super) fn open(&self) -> Result<Option<DiskTier>> {
        let Some(folder) = &self.cache else {
            return Ok(None);
        };
        let context = || format!("--cache {}", folder.display());
        let files = Folder::open(folder).with_context(context)?;
        let Some(files) = files else {
            let folder = visible(&folder.display().to_string());
            note!("--cache {folder}: another process uses it; this one goes on without");
            return Ok(None);
        };
        Ok(Some(DiskTier {
            files: Arc::new(files),
            bytes_max: self.cache_bytes,
        }))
    }
}

/// A folder of pages that this process has locked.
#[derive(Debug)]
struct Folder {
    path: PathBuf,
    _lock: File,
}

impl Folder {
    /// None while another process has it.
    fn open(path: &Path) -> std::io::Result<Option<Folder>> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700).create(path)?;
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        let lock = options.open(path.join(LOCK))?;
        match lock.try_lock() {
            Ok(()) => Ok(Some(Folder {
                path: path.to_owned(),
                _lock: lock,
            })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.path.join(format!("{name}{SUFFIX}"))
    }
}

impl PageFiles for Folder {
    fn list(&self) -> Vec<(String, u64)> {
        let entries = fs::read_dir(&self.path).into_iter().flatten();
        let files = entries.filter_map(|entry| {
            let entry = entry.ok()?;
            let name = entry.file_name().into_string().ok()?;
            let name = name.strip_suffix(SUFFIX)?.to_owned();
            let metadata = entry.metadata().ok()?;
            metadata.is_file().then_some((name, metadata.len()))
        });
        files.collect()
    }

    fn read(&self, name: &str) -> Option<Bytes> {
        fs::read(self.file(name)).ok().map(Bytes::from)
    }

    /// A write that is cut off leaves a file whose checksum is wrong.
    fn write(&self, name: &str, content: &[u8]) -> bool {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let file = options.open(self.file(name));
        file.and_then(|mut file| file.write_all(content)).is_ok()
    }

    fn remove(&self, name: &str) {
        // One that cannot be deleted is counted when the folder is opened again.
        drop(fs::remove_file(self.file(name)));
    }
}
