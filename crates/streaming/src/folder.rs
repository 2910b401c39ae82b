//! A folder for one process, with the files of its job.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use fader_mapreduce::{Failure, Outcome};

use crate::program::Streaming;

/// Folders that this process made.
static MADE: AtomicU64 = AtomicU64::new(0);

/// A folder that goes when it is dropped.
#[derive(Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// Makes a folder that only its owner may enter, with the program's files in it.
    ///
    /// # Errors
    /// `Task`: this machine refuses it. `Job`: a file is damaged.
    pub(crate) fn new(program: &Streaming) -> Outcome<Self> {
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("fader-streaming-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let failed = |error| Failure::task(format!("{}: {error}", path.display()));
        // Its name could be another's: it must be new.
        DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .map_err(failed)?;
        let folder = Folder(path.clone());
        for (name, file) in &program.files {
            let bytes = file.bytes(name)?;
            let mut options = OpenOptions::new();
            options.write(true).create_new(true).mode(0o700);
            let file = options.open(path.join(name));
            file.and_then(|mut file| file.write_all(&bytes))
                .map_err(failed)?;
        }
        Ok(folder)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What a program made unremovable stays.
        let _ = fs::remove_dir_all(&self.0);
    }
}
