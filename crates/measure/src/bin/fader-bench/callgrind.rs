//! A server under callgrind, which counts its instructions: a figure that no neighbour disturbs.
//!
//! What is counted lies between two dumps of one running process, so that starting and ending it
//! are left out. Instructions of the kernel are not counted.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::server::Server;

/// A server whose instructions are counted.
pub(crate) struct Counted {
    pub(crate) server: Server,
    /// What callgrind's files are called, but for the number of the dump.
    output: PathBuf,
    dumps: u32,
}

impl Counted {
    /// Whether callgrind is there.
    pub(crate) fn is_installed() -> bool {
        let mut valgrind = Command::new("valgrind");
        valgrind.arg("--version").stdout(Stdio::null());
        valgrind.status().is_ok_and(|status| status.success())
    }

    /// Fader, with its data and callgrind's files in a folder.
    pub(crate) fn fader(binary: &Path, folder: &Path) -> Result<Self> {
        let output = folder.join("callgrind");
        let mut valgrind = Command::new("valgrind");
        valgrind
            .args(["--quiet", "--tool=callgrind"])
            .arg(format!("--callgrind-out-file={}", output.display()))
            .arg(binary);
        Ok(Counted {
            server: Server::fader_by(valgrind, &folder.join("data"))?,
            output,
            dumps: 0,
        })
    }

    /// The instructions since the last call, or since the start.
    pub(crate) fn instructions(&mut self) -> Result<u64> {
        let control = Command::new("callgrind_control")
            .arg("--dump")
            .arg(self.server.id().to_string())
            .output()
            .context("cannot start callgrind_control")?;
        ensure!(
            control.status.success(),
            "callgrind_control failed: {}",
            String::from_utf8_lossy(&control.stderr)
        );
        self.dumps += 1;
        let path = format!("{}.{}", self.output.display(), self.dumps);
        let dump = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        let totals = dump
            .lines()
            .find_map(|line| line.strip_prefix("totals: ")?.trim().parse().ok());
        totals.with_context(|| format!("{path} has no totals"))
    }
}
