//! What it was measured on.

use std::path::Path;
use std::{fs, io};

use serde::Serialize;
use tempfile::TempDir;

/// A machine.
#[derive(Serialize)]
pub(crate) struct Machine {
    cores: usize,
    processor: String,
    kernel: String,
    file_system: String,
    commit: String,
    command: String,
}

impl Machine {
    /// A folder in `scratch` for what is measured, which goes with the value, and this machine,
    /// which is printed above the results.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub(crate) fn begin(scratch: &Path) -> io::Result<(TempDir, Self)> {
        let folder = tempfile::Builder::new()
            .prefix("fader-bench-")
            .tempdir_in(scratch)?;
        let machine = Machine::describe(folder.path());
        machine.print();
        Ok((folder, machine))
    }

    /// This machine, with the file system that holds `folder`.
    pub(crate) fn describe(folder: &Path) -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let processor = read("/proc/cpuinfo");
        let processor = processor
            .lines()
            .find_map(|line| line.strip_prefix("model name"));
        let processor =
            processor.map_or("unknown", |name| name.trim_start_matches(['\t', ' ', ':']));
        Machine {
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            processor: processor.to_owned(),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            file_system: file_system(&read("/proc/self/mounts"), folder),
            commit: commit(),
            command: std::env::args().collect::<Vec<_>>().join(" "),
        }
    }

    /// Prints it above the results.
    pub(crate) fn print(&self) {
        let Machine {
            cores,
            processor,
            kernel,
            file_system,
            commit,
            command,
        } = self;
        println!("command      {command}");
        println!("commit       {commit}");
        println!("machine      {cores} cores, {processor}, Linux {kernel}");
        println!("file system  {file_system}");
        println!();
    }
}

/// Type, device and options of the mount that holds the folder: the longest that is above it.
fn file_system(mounts: &str, folder: &Path) -> String {
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let mount = |line: &str| {
        let mut words = line.split(' ').map(str::to_owned);
        Some((words.next()?, words.next()?, words.next()?, words.next()?))
    };
    let holding = mounts
        .lines()
        .filter_map(mount)
        .filter(|mount| folder.starts_with(&mount.1));
    match holding.max_by_key(|mount| mount.1.len()) {
        Some((device, point, kind, options)) => {
            format!("{kind} on {device} at {point} ({options})")
        }
        None => String::from("unknown"),
    }
}

fn commit() -> String {
    let git = std::process::Command::new("git")
        .args(["describe", "--always", "--dirty"])
        .output();
    let text = git
        .ok()
        .filter(|output| output.status.success())
        .map(|output| output.stdout);
    text.map_or(String::from("unknown"), |text| {
        String::from_utf8_lossy(&text).trim().to_owned()
    })
}
