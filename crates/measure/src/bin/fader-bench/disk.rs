//! What the disk alone costs: a write and an fdatasync, again and again.
//!
//! The file is full of zeros and each write goes on where the last one ended, as a log's do. A file
//! that grew with each write, or had blocks to be found for it, would make every sync store that
//! too. A disk that looks slow flatters what is compared with it.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// The file's size; from its end the writes begin anew.
const FILE_BYTES: u64 = 16 << 20;

/// A file on the file system that is measured.
pub(crate) struct Probe {
    file: File,
    record: Vec<u8>,
    offset: u64,
}

impl Probe {
    /// A new file in `folder`, written `bytes` at a time.
    pub(crate) fn new(folder: &Path, bytes: usize) -> Result<Self> {
        let path = folder.join("fdatasync-probe");
        let file = OpenOptions::new().create_new(true).write(true).open(&path);
        let file = file.with_context(|| format!("cannot create {}", path.display()))?;
        file.write_all_at(&vec![0; FILE_BYTES as usize], 0)?;
        file.sync_all()?;
        Ok(Probe {
            file,
            record: vec![0x5a; bytes],
            offset: 0,
        })
    }

    /// Writes and syncs for that long; how long each took, in seconds.
    pub(crate) fn run(&mut self, elapsed_max: Duration) -> Result<Vec<f64>> {
        let begin = Instant::now();
        let mut times = Vec::new();
        while begin.elapsed() < elapsed_max {
            let start = Instant::now();
            self.file.write_all_at(&self.record, self.offset)?;
            self.file.sync_data()?;
            times.push(start.elapsed().as_secs_f64());
            let end = self.offset + self.record.len() as u64;
            self.offset = if end < FILE_BYTES - self.record.len() as u64 {
                end
            } else {
                0
            };
        }
        Ok(times)
    }
}
