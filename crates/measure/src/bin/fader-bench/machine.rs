//! What it was measured on.

use std::path::Path;
use std::{fs, io};

use anyhow::{Context, Result};
use serde::Serialize;
use tempfile::TempDir;

/// Clock ticks a second of `/proc`: a constant of Linux.
const TICKS_PER_S: f64 = 100.0;

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

/// The processor time of a process so far, in seconds, of all its threads.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ProcessTimes {
    pub(crate) user: f64,
    pub(crate) system: f64,
    /// Of its children that have ended.
    pub(crate) children_user: f64,
    pub(crate) children_system: f64,
}

impl ProcessTimes {
    /// Those of a process that runs.
    pub(crate) fn of(process: u32) -> Result<Self> {
        ProcessTimes::parse(&fs::read_to_string(format!("/proc/{process}/stat"))?)
    }

    /// Those of this process.
    pub(crate) fn own() -> Result<Self> {
        ProcessTimes::of(std::process::id())
    }

    /// `/proc/PID/stat` (proc(5)): field 2 is the program's name in brackets, which may hold
    /// anything; fields 14 to 17 are the times.
    fn parse(stat: &str) -> Result<Self> {
        let (_, fields) = stat.rsplit_once(')').context("/proc/PID/stat has a name")?;
        let times = seconds(fields.split_ascii_whitespace().skip(11).take(4))?;
        let [user, system, children_user, children_system] = times[..] else {
            anyhow::bail!("/proc/PID/stat has four times");
        };
        Ok(ProcessTimes {
            user,
            system,
            children_user,
            children_system,
        })
    }
}

/// The processor time of the whole machine so far, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct MachineTimes {
    all: f64,
    /// In user mode.
    user: f64,
    /// What other machines on the same hardware had instead.
    stolen: f64,
}

impl MachineTimes {
    /// Those of this machine.
    pub(crate) fn now() -> Result<Self> {
        MachineTimes::parse(&fs::read_to_string("/proc/stat")?)
    }

    /// The first line of `/proc/stat` (proc(5)): user, nice, system, idle, iowait, irq, softirq,
    /// steal.
    fn parse(stat: &str) -> Result<Self> {
        let line = stat.lines().next().unwrap_or_default();
        let times = seconds(line.split_ascii_whitespace().skip(1).take(8))?;
        let [user, nice, .., stolen] = times[..] else {
            anyhow::bail!("/proc/stat has eight times");
        };
        Ok(MachineTimes {
            all: times.iter().sum(),
            user: user + nice,
            stolen,
        })
    }

    /// What was not the benchmark's since then. Its processes had `own` seconds in user mode.
    pub(crate) fn others(&self, now: &MachineTimes, own: f64) -> String {
        let all = now.all - self.all;
        let percent = |time: f64| 100.0 * time.max(0.0) / all;
        format!(
            "of all cores' time, steal {:.1} %, other processes in user mode {:.1} %",
            percent(now.stolen - self.stolen),
            percent(now.user - self.user - own)
        )
    }
}

fn seconds<'a>(ticks: impl Iterator<Item = &'a str>) -> Result<Vec<f64>> {
    let seconds = ticks.map(|ticks| Ok(ticks.parse::<f64>()? / TICKS_PER_S));
    seconds.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_a_process_come_after_its_name() {
        let stat = "7 (a (b) 9) S 1 2 3 4 5 6 7 8 9 10 150 50 300 25 20 0";
        let expected = ProcessTimes {
            user: 1.5,
            system: 0.5,
            children_user: 3.0,
            children_system: 0.25,
        };
        assert_eq!(ProcessTimes::parse(stat).unwrap(), expected);
        assert!(ProcessTimes::parse("7 (a) S 1 2").is_err());
    }

    #[test]
    fn time_of_others_leaves_the_benchmark_out() {
        let parse = |stat| MachineTimes::parse(stat).unwrap();
        let before = parse("cpu  100 100 0 1000 0 0 0 50 0 0\ncpu0 1 2");
        let after = parse("cpu  400 200 0 1500 0 0 0 150 0 0");
        assert_eq!(
            before.others(&after, 2.5),
            "of all cores' time, steal 10.0 %, other processes in user mode 15.0 %"
        );
        assert!(MachineTimes::parse("cpu 1 2").is_err());
    }
}
