//! The checker: ten million operations on registers, judged by zones in at most 10 s and 1 GB.

use std::fmt;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use fader_history::check::Registers;
use fader_history::{Access, Action, Moment, Operation, Outcome, Rules};

use crate::Options;

const KEYS: usize = 1_000;
const SECONDS_MAX: f64 = 10.0;
const BYTES_MAX: u64 = 1_000_000_000;

/// A read or a write of a numbered register.
#[derive(Clone, Debug, PartialEq)]
struct Point {
    key: u32,
    /// The version written; none of a read.
    written: Option<u32>,
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.written {
            Some(version) => write!(f, "write {} {version}", self.key),
            None => write!(f, "read {}", self.key),
        }
    }
}

impl Action for Point {
    type Endpoint = u32;
    type Name = u32;
    type Level = u32;
    /// The version shown: 0 is the initial one.
    type Reply = u32;
    type Refusal = u32;
    type Key = u32;
    type Version = u32;
    type Place = u32;

    fn accesses<'a>(&'a self, reply: Option<&'a u32>, each: &mut dyn FnMut(Access<'a, Self>)) {
        let (key, place) = (&self.key, None);
        match (&self.written, reply) {
            (Some(version), _) => each(Access::Write {
                key,
                version,
                place,
            }),
            (None, Some(shown)) => each(Access::Read {
                key,
                version: (*shown != 0).then_some(shown),
                place,
            }),
            (None, None) => {}
        }
    }
}

/// Judges `count` operations, seven of which are always under way. Each acts in the middle of its
/// time; but one read in the middle of the log is stale, if told so.
fn judge(count: usize, has_stale_read: bool) -> Result<bool> {
    let mut registers = Registers::new(Rules::default());
    let mut newest = [0_u32; KEYS];
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut is_stale = has_stale_read;
    for number in 0..count {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let key = usize::try_from(state >> 32)? % KEYS;
        let version = u32::try_from(number + 1)?;
        let is_write = state & 1 == 0;
        let mut shown = newest[key];
        if is_write {
            newest[key] = version;
        } else if is_stale && count / 2 < number && 0 < shown {
            (shown, is_stale) = (0, false);
        }
        let called = 100 * number as u64;
        let operation = Operation {
            process: u32::try_from(number % 7)?,
            session: None,
            endpoint: 0,
            name: None,
            attempt: 1,
            level: 0,
            intended: Moment::at(called),
            called: Moment::at(called),
            action: Point {
                key: u32::try_from(key)?,
                written: is_write.then_some(version),
            },
            end: Some((Moment::at(called + 700), Outcome::Done(shown))),
            price: None,
        };
        let added = registers.add(number, &operation, true);
        added.map_err(|unfit| anyhow::anyhow!("{unfit}"))?;
    }
    let judged = registers.finish();
    Ok(judged.map_err(|unfit| anyhow::anyhow!("{unfit}"))?.is_ok())
}

/// The most memory that this process has had, in bytes.
fn peak() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.context("the system tells no VmHWM")?.trim();
    let kib: u64 = kib.trim_end_matches(" kB").parse()?;
    Ok(kib * 1024)
}

/// Measures; true if both targets are met, or with `--quick`.
pub(super) fn run(options: &Options) -> Result<bool> {
    let count = if options.quick { 100_000 } else { 10_000_000 };
    let mut worst = 0.0_f64;
    for round in 0..options.runs() {
        let has_stale_read = round % 2 == 1;
        let start = Instant::now();
        let is_good = judge(count, has_stale_read)?;
        let seconds = start.elapsed().as_secs_f64();
        ensure!(is_good != has_stale_read, "the checker misjudges a log");
        let verdict = if is_good {
            "good"
        } else {
            "one stale read, found"
        };
        println!("registers: {count} operations, {verdict}: {seconds:.2} s");
        worst = worst.max(seconds);
    }
    let bytes = peak()?;
    println!(
        "the slowest run {worst:.2} s, at most {} MB of memory",
        bytes / 1_000_000
    );
    Ok(options.quick || worst <= SECONDS_MAX && bytes <= BYTES_MAX)
}
