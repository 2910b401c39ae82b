//! `fader measure check` judges logs of operations, `convert` writes them in other formats.
//!
//! Exit codes: 0 good, 1 a violation, 2 not measured. Not measured is a log that cannot be read, a
//! check that cannot take it, or one that came to no verdict.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufWriter, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use fader_history::check::{
    Fault, Sessions, Staleness, kept, registers, search, sessions, staleness,
};
use fader_history::object::{Log, Operation, Text, Verb};
use fader_history::{Rules, Unfit, Violation, timeline};
use fader_measure::formats::{self, Format, Found};
use fader_services::ErrorCode;
use indicatif::{ProgressBar, ProgressStyle};

use crate::failure::{self, Failure};
use crate::output;

/// Which logs, and which promises.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    fader measure check run.jsonl --of registers,sessions,staleness --svg out\n  \
    fader measure check one.jsonl two.jsonl --of registers --levels strong,barrier\n  \
    fader measure check etcd.log --of search\n\n\
    Exit codes: 0 good, 1 violation, 2 not measured.")]
pub(crate) struct Options {
    /// Logs; those of several processes are merged.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// What to check.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "registers,sessions,staleness"
    )]
    of: Vec<Check>,
    /// The levels that promise linearizability; all unless told. Writes at other levels may act
    /// late, their reads promise nothing.
    #[arg(long, value_delimiter = ',')]
    levels: Vec<String>,
    /// The logs' format, if their names do not tell it.
    #[arg(long, value_parser = format_of)]
    format: Option<Format>,
    /// States that `search` may try for each key.
    #[arg(long, default_value_t = 1_000_000)]
    effort: usize,
    /// Judges the operations of each key by themselves; a line for each key, with the verdict good,
    /// bad or unknown.
    #[arg(long, conflicts_with = "svg")]
    each_key: bool,
    /// Draws each violation into a folder (SVG).
    #[arg(long, value_name = "FOLDER")]
    svg: Option<PathBuf>,
}

/// From which log to which.
#[derive(Args)]
#[command(after_help = "Example:  fader measure convert run.jsonl run.edn")]
pub(crate) struct Convert {
    /// The log.
    from: PathBuf,
    /// The log to write; its name tells the format.
    to: PathBuf,
    /// The first log's format, if its name does not tell it.
    #[arg(long, value_parser = format_of)]
    format: Option<Format>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Check {
    /// Linearizability of registers whose writes have distinct values; any length. Sets, counters
    /// and queues are left out.
    Registers,
    /// Linearizability of registers with compare-and-set, sets, counters and queues, by search.
    Search,
    /// Read your writes, monotonic reads, monotonic writes, writes follow reads.
    Sessions,
    /// How old what reads showed was.
    Staleness,
    /// Acknowledged writes are in a final read.
    Kept,
}

fn format_of(name: &str) -> Result<Format, String> {
    let known = Format::ALL.iter().find(|(known, _)| *known == name);
    known.map(|(_, format)| *format).ok_or_else(|| {
        let names: Vec<&str> = Format::ALL.iter().map(|(name, _)| *name).collect();
        format!("expected one of {}", names.join(", "))
    })
}

/// Judges logs.
pub(super) fn run(options: &Options) -> ExitCode {
    match judge(options) {
        Ok(code) => ExitCode::from(code),
        Err(error) => super::unusable(&error),
    }
}

/// A sign of life on a terminal.
fn spinner(what: &'static str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new_spinner().with_message(what);
    let style = ProgressStyle::with_template("{spinner} {msg} {elapsed}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    bar.enable_steady_tick(std::time::Duration::from_millis(200));
    bar
}

fn judge(options: &Options) -> Result<u8> {
    let bar = spinner("reading");
    let found = formats::read_all(&options.files, options.format)?;
    bar.finish_and_clear();
    for warning in &found.warnings {
        note!("warning: {warning}");
    }
    if found.log.operations.is_empty() {
        let first = options.files[0].display();
        return failure::fail(
            ErrorCode::AnswerMalformed,
            format_args!("there is no operation in {first}"),
        );
    }
    let mut code = 0;
    if options.each_key {
        let keys = by_key(found);
        for check in &options.of {
            for (key, found) in &keys {
                let (of_key, _) = one(*check, found, options)?;
                let verdict = ["good", "bad", "unknown"][usize::from(of_key)];
                output::tell(&format!("{key} {verdict}"));
                code = worse(code, of_key);
            }
        }
        return Ok(code);
    }
    for check in &options.of {
        let bar = spinner("checking");
        let judged = one(*check, &found, options);
        bar.finish_and_clear();
        let (of_check, text) = judged?;
        output::tell(&text);
        code = worse(code, of_check);
    }
    Ok(code)
}

/// A violation is worth more than a missing verdict.
fn worse(code: u8, other: u8) -> u8 {
    match (code, other) {
        (1, _) | (_, 1) => 1,
        (known, new) => known.max(new),
    }
}

/// The operations of each key as a log of its own.
fn by_key(found: Found) -> BTreeMap<Text, Found> {
    let mut keys: BTreeMap<Text, Found> = BTreeMap::new();
    for (operation, line) in found.log.operations.into_iter().zip(found.lines) {
        let of_key = keys.entry(operation.action.key.clone()).or_default();
        of_key.log.operations.push(operation);
        of_key.lines.push(line);
    }
    for of_key in keys.values_mut() {
        of_key.log.header = found.log.header.clone();
    }
    keys
}

/// The exit code of one check, and what it says.
fn one(check: Check, found: &Found, options: &Options) -> Result<(u8, String)> {
    let registers_alone = match check {
        Check::Registers => without_others(found),
        _ => None,
    };
    let found = registers_alone.as_ref().unwrap_or(found);
    let (log, rules) = (&found.log, &Rules::default());
    let levels = |level: &Text| {
        options.levels.is_empty() || options.levels.iter().any(|known| **known == **level)
    };
    let unfit = |unfit: Unfit| {
        let (file, line) = found.lines[unfit.operation];
        let file = options.files[file].display();
        let text = format!("{file}:{line}: {}", unfit.reason);
        anyhow::Error::from(Failure::new(ErrorCode::AnswerMalformed, text))
    };
    let broken = |fault: Fault| match fault {
        Fault::Violated(violation) => Ok((1, drawn(&violation, found, options)?)),
        Fault::Unfit(fault) => Err(unfit(fault)),
    };
    match check {
        Check::Registers => match registers(log, &levels, rules) {
            Ok(judged) => Ok((
                0,
                format!(
                    "registers: linearizable: {} keys, {} reads, {} writes",
                    judged.keys, judged.reads, judged.writes
                ),
            )),
            Err(fault) => broken(fault),
        },
        Check::Search => match search(log, &levels, options.effort, rules) {
            Ok(searched) if 0 < searched.given_up => Ok((
                2,
                format!(
                    "search: no verdict on {} of {} operations: --effort gives more states",
                    searched.given_up,
                    searched.given_up + searched.ordered
                ),
            )),
            Ok(searched) => Ok((
                0,
                format!(
                    "search: linearizable: {} keys, {} operations",
                    searched.keys, searched.ordered
                ),
            )),
            Err(fault) => broken(fault),
        },
        Check::Sessions => {
            let sessions = sessions(log, rules).map_err(unfit)?;
            let is_violated = sessions.violation().is_some();
            Ok((
                u8::from(is_violated),
                guaranteed(&sessions, found, options)?,
            ))
        }
        Check::Staleness => Ok((0, stale(&staleness(log, rules).map_err(unfit)?))),
        Check::Kept => match kept(log, rules) {
            Ok(kept) if kept.objects == 0 => Ok((2, "kept: no object has a final read".to_owned())),
            Ok(kept) => Ok((
                0,
                format!(
                    "kept: {} objects, {} acknowledged changes, {} of unknown outcome; {} objects \
                     without a final read",
                    kept.objects, kept.acknowledged, kept.doubtful, kept.unread
                ),
            )),
            Err(fault) => broken(fault),
        },
    }
}

/// The guarantees of sessions, each with its first violation.
fn guaranteed(sessions: &Sessions, found: &Found, options: &Options) -> Result<String> {
    let mut text = format!("sessions: {} sessions", sessions.sessions);
    for (name, guarantee) in sessions.all() {
        let (violated, checked) = (guarantee.violated, guarantee.checked);
        text += &format!("\n  {name}: {violated} violations in {checked} operations");
        if let Some(first) = &guarantee.first {
            text += &format!("\n{}", drawn(first, found, options)?);
        }
    }
    Ok(text)
}

/// The log without sets, counters and queues, which `registers` cannot judge; none if there are
/// none.
fn without_others(found: &Found) -> Option<Found> {
    let operations = &found.log.operations;
    let is_other = |one: &&Operation| {
        !matches!(
            one.action.verb,
            Verb::Read | Verb::Write(_) | Verb::Swap { .. }
        )
    };
    let others = operations
        .iter()
        .filter(is_other)
        .map(|one| &one.action.key);
    let others: BTreeSet<&Text> = others.collect();
    if others.is_empty() {
        return None;
    }
    let all = operations.iter().zip(&found.lines);
    let registers = all.filter(|(one, _)| !others.contains(&one.action.key));
    let (operations, lines) = registers.map(|(one, line)| (one.clone(), *line)).unzip();
    Some(Found {
        log: Log {
            header: found.log.header.clone(),
            operations,
        },
        lines,
        warnings: Vec::new(),
    })
}

/// A violation with its timeline, and where its operations stand.
fn drawn(violation: &Violation, found: &Found, options: &Options) -> Result<String> {
    let log: &Log = &found.log;
    let operations: Vec<_> = violation
        .operations
        .iter()
        .map(|at| &log.operations[*at])
        .collect();
    let lines = violation.operations.iter().map(|at| {
        let (file, line) = found.lines[*at];
        format!("{}:{line}", options.files[file].display())
    });
    let lines = lines.collect::<Vec<_>>().join(", ");
    let (guarantee, explanation) = (violation.guarantee, &violation.explanation);
    let drawing = timeline(&operations);
    if let Some(folder) = &options.svg {
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        let path = folder.join(format!("{}.svg", guarantee.replace(' ', "-")));
        let title = format!("{guarantee}: {explanation}");
        let svg = fader_measure::timeline(&title, &operations);
        std::fs::write(&path, svg).with_context(|| path.display().to_string())?;
    }
    Ok(format!(
        "violation: {guarantee}: {explanation}\n{drawing}(at {lines})"
    ))
}

fn stale(staleness: &Staleness) -> String {
    let readings = &staleness.readings;
    let latest = readings
        .iter()
        .filter(|reading| reading.is_latest())
        .count();
    let newer = readings
        .iter()
        .map(|reading| reading.newer)
        .max()
        .unwrap_or(0);
    let age = readings
        .iter()
        .map(|reading| reading.age)
        .max()
        .unwrap_or(0);
    let millis = |nanos: u64| format!("{}.{:03} ms", nanos / 1_000_000, nanos / 1_000 % 1_000);
    let mut text = format!(
        "staleness: {} reads, {latest} of the latest version; at most {newer} versions and {} old",
        readings.len(),
        millis(age)
    );
    for visibility in staleness.visibility(&[0.5, 0.9, 0.99, 0.999]) {
        let time = visibility
            .nanos
            .map_or_else(|| "not reached".to_owned(), millis);
        text += &format!(
            "\n  visible to {} % of reads: {time}",
            visibility.share * 100.0
        );
    }
    text
}

/// Writes a log in another format.
pub(super) fn convert(options: &Convert) -> ExitCode {
    match converted(options) {
        Ok(count) => {
            output::tell(&format!("{count} operations in {}", options.to.display()));
            ExitCode::SUCCESS
        }
        Err(error) => super::unusable(&error),
    }
}

fn converted(options: &Convert) -> Result<usize> {
    let path = &options.from;
    let from = options.format.or_else(|| Format::of_path(path));
    let from = from.ok_or_else(|| formats::FormatError::Unknown(path.clone()))?;
    let to = Format::of_path(&options.to);
    let to = to.ok_or_else(|| formats::FormatError::Unknown(options.to.clone()))?;
    let header = formats::header(path, from)?;
    let out = File::create(&options.to).with_context(|| options.to.display().to_string())?;
    let out = formats::write(to, &header, BufWriter::new(out))?;
    let mut out = out.context("Jepsen's text logs are only read: write .edn")?;
    let (mut count, mut result) = (0, Ok(()));
    let bar = spinner("converting");
    let (_, warnings) = formats::read(path, from, &mut |_, operation| {
        if result.is_ok() {
            result = out.operation(&operation);
            count += 1;
        }
    })?;
    result.and_then(|()| out.finish())?;
    bar.finish_and_clear();
    for warning in warnings {
        note!("warning: {warning}");
    }
    Ok(count)
}
