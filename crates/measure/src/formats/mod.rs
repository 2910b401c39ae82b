//! Logs in files. Our JSON lines and CSV, Jepsen's EDN, operations as Porcupine has them go in and
//! out. Jepsen's text logs go in, HdrHistogram's interval logs out.
//!
//! Each format is read and written line by line, so that a log may be larger than memory. Logs of
//! several processes are merged by [`read_all`].
//!
//! | format | header | levels, sessions, names | times | prices |
//! |---|---|---|---|---|
//! | JSON lines, CSV | yes | yes | nanoseconds | yes |
//! | EDN | no | no | nanoseconds | no |
//! | Porcupine | no | no | nanoseconds | no |
//! | Jepsen's text | no | no | line numbers | no |

mod edn;
mod events;
mod hlog;
mod line;
mod porcupine;
mod table;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use fader_history::object::{Log, Operation, Text};
use fader_history::{Clock, Header};
use thiserror::Error;

pub use hlog::write_hlog;

/// A format of logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Our own, with nothing left out: a header, then a JSON object for each operation.
    JsonLines,
    /// The same as a table, the header in a comment.
    Csv,
    /// Jepsen's histories: an invocation and a completion for each operation.
    Edn,
    /// Porcupine's `Operation` as JSON, one a line.
    Porcupine,
    /// Jepsen's text logs of registers; only read.
    JepsenText,
}

/// Why a log cannot be read.
#[derive(Debug, Error)]
pub enum FormatError {
    /// A line is not what the format has there.
    #[error("{path}:{line}: {reason}")]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong, and what is expected.
        reason: String,
    },
    /// The file's name tells no format.
    #[error(
        "{0}: the name tells no format: expected .jsonl, .csv, .edn, .porcupine or .log (Jepsen), \
         or --format"
    )]
    Unknown(PathBuf),
    /// The file cannot be read.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

/// A log as it stands in files.
#[derive(Debug, Default)]
pub struct Found {
    /// The operations, those of the first file first.
    pub log: Log,
    /// Where each operation stands: the file's number, and the line of its end, from 1.
    pub lines: Vec<(usize, usize)>,
    /// What was left out, and why.
    pub warnings: Vec<String>,
}

impl Format {
    /// Every format with its name in options and file names.
    pub const ALL: [(&'static str, Format); 5] = [
        ("jsonl", Format::JsonLines),
        ("csv", Format::Csv),
        ("edn", Format::Edn),
        ("porcupine", Format::Porcupine),
        ("log", Format::JepsenText),
    ];

    /// The format that a file's name tells.
    pub fn of_path(path: &Path) -> Option<Format> {
        let extension = path.extension()?.to_str()?;
        let known = Format::ALL.iter().find(|(name, _)| *name == extension);
        known.map(|(_, format)| *format)
    }
}

/// What one step of reading a line gives.
enum Step {
    /// Nothing yet.
    None,
    Header(Box<Header>),
    Operation(Box<Operation>),
}

/// Reads one format: lines in, operations out.
trait Decoder {
    /// Takes the next line.
    fn line(&mut self, number: usize, line: &str) -> Result<Step, String>;

    /// What has no completion when the file ends.
    fn rest(&mut self) -> Vec<(usize, Operation)> {
        Vec::new()
    }
}

/// Writes one format.
pub trait Encoder {
    /// Writes the next operation.
    ///
    /// # Errors
    /// The output's.
    fn operation(&mut self, operation: &Operation) -> std::io::Result<()>;

    /// Writes what is left.
    ///
    /// # Errors
    /// The output's.
    fn finish(&mut self) -> std::io::Result<()>;
}

/// Reads a log line by line; `each` takes an operation with its line.
///
/// A line that is cut off at the end of the file is left out, and told.
///
/// # Errors
/// A line that is not what the format has there, or the file's.
pub fn read(
    path: &Path,
    format: Format,
    each: &mut dyn FnMut(usize, Operation),
) -> Result<(Header, Vec<String>), FormatError> {
    let io = |source| FormatError::Io {
        path: path.to_owned(),
        source,
    };
    let input = BufReader::with_capacity(1 << 16, File::open(path).map_err(io)?);
    read_from(path, input, format, each)
}

/// Reads a log from a reader; `path` names it in errors.
///
/// # Errors
/// As [`read`].
pub fn read_from(
    path: &Path,
    mut input: impl BufRead,
    format: Format,
    each: &mut dyn FnMut(usize, Operation),
) -> Result<(Header, Vec<String>), FormatError> {
    let mut decoder: Box<dyn Decoder> = match format {
        Format::JsonLines => Box::new(line::Decoder::default()),
        Format::Csv => Box::new(table::Decoder::default()),
        Format::Edn => Box::new(events::Decoder::edn()),
        Format::Porcupine => Box::new(porcupine::Decoder::default()),
        Format::JepsenText => Box::new(events::Decoder::text()),
    };
    let (mut header, mut warnings) = (Header::default(), Vec::new());
    let (mut number, mut text) = (0, Vec::new());
    loop {
        text.clear();
        let count = input.read_until(b'\n', &mut text);
        let count = count.map_err(|source| FormatError::Io {
            path: path.to_owned(),
            source,
        })?;
        if count == 0 {
            break;
        }
        number += 1;
        let is_cut = text.last() != Some(&b'\n');
        let step = match std::str::from_utf8(&text) {
            Ok(line) => decoder.line(number, line.trim_end_matches(['\n', '\r'])),
            Err(_) => Err("the line is not UTF-8".to_owned()),
        };
        match step {
            Ok(Step::None) => {}
            Ok(Step::Header(found)) => header = *found,
            Ok(Step::Operation(operation)) => each(number, *operation),
            Err(_) if is_cut && 1 < number => {
                let path = path.display();
                warnings.push(format!(
                    "{path}:{number}: the last line is cut off: left out"
                ));
            }
            Err(reason) => {
                return Err(FormatError::Line {
                    path: path.to_owned(),
                    line: number,
                    reason,
                });
            }
        }
    }
    for (line, operation) in decoder.rest() {
        each(line, operation);
    }
    Ok((header, warnings))
}

/// The header of a log, without the rest; that of a format without headers is the default one.
///
/// # Errors
/// A first line that is no header, or the file's.
pub fn header(path: &Path, format: Format) -> Result<Header, FormatError> {
    let io = |source| FormatError::Io {
        path: path.to_owned(),
        source,
    };
    if !matches!(format, Format::JsonLines | Format::Csv) {
        return Ok(Header::default());
    }
    let mut first = Vec::new();
    let mut input = BufReader::new(File::open(path).map_err(io)?);
    input.read_until(b'\n', &mut first).map_err(io)?;
    let (header, _) = read_from(path, first.as_slice(), format, &mut |_, _| {})?;
    Ok(header)
}

/// Reads the logs of several processes as one. Processes and sessions of different files are
/// different ones, and times count from the first start by the wall clock.
///
/// # Errors
/// A line that is not what the format has there, a file's, or a name that tells no format.
pub fn read_all(paths: &[PathBuf], format: Option<Format>) -> Result<Found, FormatError> {
    let mut found = Found::default();
    let mut starts: Vec<(usize, u64)> = Vec::new();
    let (mut processes, mut sessions) = (0, 0);
    for (file, path) in paths.iter().enumerate() {
        let format = format.or_else(|| Format::of_path(path));
        let format = format.ok_or_else(|| FormatError::Unknown(path.clone()))?;
        let first = found.log.operations.len();
        let (mut next_process, mut next_session) = (processes, sessions);
        let (operations, lines) = (&mut found.log.operations, &mut found.lines);
        let (header, warnings) = read(path, format, &mut |line, mut operation| {
            operation.process = operation.process.saturating_add(processes);
            next_process = next_process.max(operation.process.saturating_add(1));
            if let Some(session) = &mut operation.session {
                *session = session.saturating_add(sessions);
                next_session = next_session.max(session.saturating_add(1));
            }
            operations.push(operation);
            lines.push((file, line));
        })?;
        (processes, sessions) = (next_process, next_session);
        found.warnings.extend(warnings);
        starts.push((first, start_of(&header)));
        if file == 0 {
            found.log.header = header;
        } else {
            add_header(&mut found.log.header, header);
        }
    }
    align(&mut found.log.operations, &starts);
    Ok(found)
}

/// Several logs of one machine as one, whose times count from the first start by the wall clock.
/// Processes keep their numbers.
pub fn join(logs: Vec<Log>) -> Log {
    let (mut joined, mut starts) = (Log::default(), Vec::new());
    for log in logs {
        starts.push((joined.operations.len(), start_of(&log.header)));
        joined.operations.extend(log.operations);
        if starts.len() == 1 {
            joined.header = log.header;
        } else {
            add_header(&mut joined.header, log.header);
        }
    }
    align(&mut joined.operations, &starts);
    joined
}

fn start_of(header: &Header) -> u64 {
    match header.clock {
        Clock::Monotonic { start_unix_nanos } => start_unix_nanos,
        Clock::Virtual => 0,
    }
}

/// Adds the levels of another log, and its start if that was earlier.
fn add_header(known: &mut Header, other: Header) {
    let start = start_of(&other);
    known.levels.extend(other.levels);
    known.levels.sort();
    known.levels.dedup();
    if let Clock::Monotonic { start_unix_nanos } = &mut known.clock {
        *start_unix_nanos = start.min(*start_unix_nanos);
    }
}

/// Moves the operations of each file by its start.
fn align(operations: &mut [Operation], starts: &[(usize, u64)]) {
    let earliest = starts.iter().map(|(_, start)| *start).min().unwrap_or(0);
    for (at, (first, start)) in starts.iter().enumerate() {
        let end = starts
            .get(at + 1)
            .map_or(operations.len(), |(first, _)| *first);
        let late = start - earliest;
        for operation in operations[*first..end].iter_mut().filter(|_| 0 < late) {
            operation.intended.nanos += late;
            operation.called.nanos += late;
            if let Some((returned, _)) = &mut operation.end {
                returned.nanos += late;
            }
        }
    }
}

/// Begins a log in a format; none of Jepsen's text logs, which are only read.
///
/// # Errors
/// The output's.
pub fn write<'a>(
    format: Format,
    header: &Header,
    out: impl Write + 'a,
) -> std::io::Result<Option<Box<dyn Encoder + 'a>>> {
    Ok(Some(match format {
        Format::JsonLines => Box::new(line::Encoder::new(header, out)?),
        Format::Csv => Box::new(table::Encoder::new(header, out)?),
        Format::Edn => Box::new(events::Encoder::new(out)),
        Format::Porcupine => Box::new(porcupine::Encoder::new(out)),
        Format::JepsenText => return Ok(None),
    }))
}

/// Texts that recur, each kept once.
#[derive(Debug, Default)]
struct Texts(std::collections::HashSet<Text>);

impl Texts {
    fn get(&mut self, text: &str) -> Text {
        if let Some(known) = self.0.get(text) {
            return known.clone();
        }
        let text = Text::from(text);
        self.0.insert(text.clone());
        text
    }
}
