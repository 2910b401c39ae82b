//! What the disk alone costs: an append and an fdatasync, again and again.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// A file on the file system that is measured.
pub(crate) struct Probe {
    file: File,
    record: Vec<u8>,
}

impl Probe {
    /// A new file in `folder` that grows by `bytes` with each sync.
    pub(crate) fn new(folder: &Path, bytes: usize) -> Result<Self> {
        let path = folder.join("fdatasync-probe");
        let file = OpenOptions::new().create_new(true).append(true).open(&path);
        let file = file.with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Probe {
            file,
            record: vec![0x5a; bytes],
        })
    }

    /// Appends and syncs for that long; how long each took, in seconds.
    pub(crate) fn run(&mut self, elapsed_max: Duration) -> Result<Vec<f64>> {
        let begin = Instant::now();
        let mut times = Vec::new();
        while begin.elapsed() < elapsed_max {
            let start = Instant::now();
            self.file.write_all(&self.record)?;
            self.file.sync_data()?;
            times.push(start.elapsed().as_secs_f64());
        }
        Ok(times)
    }
}
