//! The checker: ten million operations on registers, judged by zones in at most 10 s and 1 GB. And
//! a hundred thousand on one register by clients in a closed loop, which Porcupine judges too.

use std::borrow::Borrow;
use std::fmt;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use fader_history::check::Registers;
use fader_history::{Access, Action, Moment, Operation, Outcome, Rules};
use fader_measure::ratio_of_medians;
use serde_json::json;

use crate::Options;
use crate::machine::Machine;
use crate::report::{Finding, Report, Target};

const KEYS: usize = 1_000;
const SECONDS_MAX: f64 = 10.0;
const BYTES_MAX: u64 = 1_000_000_000;
/// Operations that Porcupine judges too, on one register.
const COMPARED: usize = 100_000;
const FASTER_MIN: f64 = 200.0;
/// Their clients. For eight of them Porcupine comes to no verdict within a minute.
const CLIENTS: usize = 5;
/// The time that each of these operations takes, in nanoseconds.
const TAKES: std::ops::RangeInclusive<u64> = 100..=1_400;
/// How long the checker judges the log that Porcupine judges once.
const REPEATED: Duration = Duration::from_secs(2);

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

/// Marsaglia's xorshift: the same numbers in each run.
struct Numbers(u64);

impl Numbers {
    const FIRST: Self = Numbers(0x9e37_79b9_7f4a_7c15);

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// An operation, which writes its number or shows a version.
fn operation(
    process: usize,
    point: Point,
    [called, returned]: [u64; 2],
    shown: u32,
) -> Operation<Point> {
    Operation {
        process: process as u32,
        session: None,
        endpoint: 0,
        name: None,
        attempt: 1,
        level: 0,
        intended: Moment::at(called),
        called: Moment::at(called),
        action: point,
        end: Some((Moment::at(returned), Outcome::Done(shown))),
        price: None,
    }
}

/// Operations on so many registers, seven of which are always under way. Each acts in the middle
/// of its time; but one read in the middle of the log is stale, if told so.
fn operations(
    count: usize,
    keys: usize,
    has_stale_read: bool,
) -> impl Iterator<Item = Operation<Point>> {
    let mut newest = vec![0_u32; keys];
    let mut numbers = Numbers::FIRST;
    let mut is_stale = has_stale_read;
    (0..count).map(move |number| {
        let random = numbers.next();
        let key = (random >> 32) as usize % keys;
        let version = number as u32 + 1;
        let is_write = random & 1 == 0;
        let mut shown = newest[key];
        if is_write {
            newest[key] = version;
        } else if is_stale && count / 2 < number && 0 < shown {
            (shown, is_stale) = (0, false);
        }
        let point = Point {
            key: key as u32,
            written: is_write.then_some(version),
        };
        let called = 100 * number as u64;
        operation(number % 7, point, [called, called + 700], shown)
    })
}

/// Operations on one register by [`CLIENTS`] clients. Each begins its next when it has the answer
/// to the last, half of them write, and each acts at some moment of its time.
fn closed_loop(count: usize) -> Vec<Operation<Point>> {
    let mut numbers = Numbers::FIRST;
    let mut free = [0_u64; CLIENTS];
    let mut acts = Vec::with_capacity(count);
    let mut log = Vec::with_capacity(count);
    for number in 0..count {
        let client = (0..CLIENTS).min_by_key(|client| free[*client]).unwrap_or(0);
        let called = free[client];
        let time = TAKES.start() + numbers.next() % (TAKES.end() - TAKES.start() + 1);
        acts.push((called + numbers.next() % (time + 1), number));
        free[client] = called + time + 1;
        let is_write = numbers.next() & 1 == 0;
        let point = Point {
            key: 0,
            written: is_write.then_some(number as u32 + 1),
        };
        log.push(operation(client, point, [called, called + time], 0));
    }
    acts.sort_unstable();
    let mut newest = 0;
    for (_, number) in acts {
        let one = &mut log[number];
        newest = one.action.written.unwrap_or(newest);
        if let Some((_, outcome)) = &mut one.end {
            *outcome = Outcome::Done(newest);
        }
    }
    log
}

/// Judges operations.
fn judge(operations: impl Iterator<Item = impl Borrow<Operation<Point>>>) -> Result<bool> {
    let mut registers = Registers::new(Rules::default());
    for (number, operation) in operations.enumerate() {
        let added = registers.add(number, operation.borrow(), true);
        added.map_err(|unfit| anyhow::anyhow!("{unfit}"))?;
    }
    let judged = registers.finish();
    Ok(judged.map_err(|unfit| anyhow::anyhow!("{unfit}"))?.is_ok())
}

/// Writes operations as Porcupine takes them.
fn write(path: &Path, operations: &[Operation<Point>]) -> Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    for one in operations {
        let (returned, outcome) = one.end.as_ref().context("each has ended")?;
        let Outcome::Done(shown) = outcome else {
            continue;
        };
        let (input, output) = match one.action.written {
            Some(version) => (
                json!({"action": "write", "key": "k", "value": version}),
                json!({}),
            ),
            None => (
                json!({"action": "read", "key": "k"}),
                json!({"shown": (0 < *shown).then_some(shown)}),
            ),
        };
        let line = json!({
            "ClientId": one.process, "Input": input, "Call": one.called.nanos,
            "Output": output, "Return": returned.nanos,
        });
        writeln!(file, "{line}")?;
    }
    Ok(file.flush()?)
}

/// The seconds that Porcupine takes for a good log in a file, without reading it. Of a bad one it
/// may come to no verdict within minutes.
fn porcupine(program: &Path, path: &Path) -> Result<f64> {
    let output = Command::new(program).arg("operations").arg(path).output();
    let output = output.with_context(|| format!("{} does not run", program.display()))?;
    let (verdict, told) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    ensure!(
        verdict.trim().ends_with(" good"),
        "Porcupine finds no order: {verdict}{told}"
    );
    let seconds = told.trim().rsplit(' ').nth(1);
    let seconds = seconds.and_then(|seconds| seconds.parse().ok());
    seconds.with_context(|| format!("no seconds in {told:?}"))
}

/// The seconds that the checker takes for a good log, on average. It judges the log again and again
/// for [`REPEATED`]. One judgement takes some milliseconds: another process may double that, and
/// not double Porcupine's seconds.
fn mean(log: &[Operation<Point>]) -> Result<f64> {
    let start = Instant::now();
    let mut times = 0_u32;
    while start.elapsed() < REPEATED {
        ensure!(judge(log.iter())?, "the checker misjudges a log");
        times += 1;
    }
    Ok(start.elapsed().as_secs_f64() / f64::from(times))
}

/// How many times as fast as Porcupine, on a log that is good.
fn compare(options: &Options, program: &Path) -> Result<bool> {
    let (scratch, machine) = Machine::begin(&options.scratch)?;
    let count = if options.quick { 5_000 } else { COMPARED };
    let path = scratch.path().join("log.porcupine");
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let log = closed_loop(count);
    write(&path, &log)?;
    for _ in 0..options.runs() {
        let seconds = mean(&log)?;
        let by_porcupine = porcupine(program, &path)?;
        println!("{count} operations: {seconds:.4} s, Porcupine {by_porcupine:.2} s");
        ours.push(seconds);
        theirs.push(by_porcupine);
    }
    let report = Report {
        benchmark: "checker",
        machine,
        sides: Vec::new(),
        findings: vec![Finding {
            name: format!("{count} operations of {CLIENTS} clients: Porcupine's time / ours"),
            interval: ratio_of_medians(&theirs, &ours, options.seed),
            unit: "",
            target: Target::AtLeast(FASTER_MIN),
        }],
        notes: Vec::new(),
    };
    report.finish(options.json.as_deref(), options.quick)
}

/// The most memory that this process has had, in bytes.
fn peak() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.context("the system tells no VmHWM")?.trim();
    let kib: u64 = kib.trim_end_matches(" kB").parse()?;
    Ok(kib * 1024)
}

/// Measures; true if all targets are met, or with `--quick`.
pub(super) fn run(options: &Options) -> Result<bool> {
    let is_fast = match &options.porcupine {
        Some(program) => compare(options, program)?,
        None => true,
    };
    let count = if options.quick { 100_000 } else { 10_000_000 };
    let mut worst = 0.0_f64;
    for round in 0..options.runs() {
        let has_stale_read = round % 2 == 1;
        let start = Instant::now();
        let is_good = judge(operations(count, KEYS, has_stale_read))?;
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
    Ok(options.quick || is_fast && worst <= SECONDS_MAX && bytes <= BYTES_MAX)
}
