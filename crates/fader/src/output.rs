//! Standard output of the commands that print data, and failures in words.

use std::fmt::{self, Write as _};
use std::io::{self, Write};

use anyhow::Result;
use comfy_table::{ContentArrangement, Row, Table};

/// Prints text to standard output as it is.
pub(crate) fn print(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// Prints a line of a command that has more to do than to print: a file to write, or a verdict for
/// its exit code. It goes on when the reader of its output went away.
pub(crate) fn tell(text: &str) {
    let end = if text.ends_with('\n') { "" } else { "\n" };
    let _ = print(&format!("{text}{end}"));
}

/// Writes a line to standard error: progress, or what a user should know. A command goes on when
/// the reader of it went away, as with `2>&1 | head`.
macro_rules! note {
    () => {
        $crate::output::to_standard_error(format_args!("\n"))
    };
    ($($text:tt)*) => {
        $crate::output::to_standard_error(format_args!("{}\n", format_args!($($text)*)))
    };
}

/// As `note!`, within a line.
macro_rules! note_part {
    ($($text:tt)*) => {
        $crate::output::to_standard_error(format_args!($($text)*))
    };
}

/// What `note!` does: `eprintln!` would panic without a reader.
pub(crate) fn to_standard_error(text: fmt::Arguments<'_>) {
    let _ = io::stderr().lock().write_fmt(text);
}

/// Whether the reader of our output went away, as `| head` does: the end, and no failure.
pub(crate) fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let io = cause.downcast_ref::<io::Error>();
        let csv = cause.downcast_ref::<csv::Error>().map(csv::Error::kind);
        let kind = match (io, csv) {
            (Some(error), _) | (_, Some(csv::ErrorKind::Io(error))) => error.kind(),
            _ => return false,
        };
        kind == io::ErrorKind::BrokenPipe
    })
}

/// Text for a terminal: what would move the cursor or change colours is escaped.
pub(crate) fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            c if c.is_control() => drop(write!(out, "{}", c.escape_default())),
            c => out.push(c),
        }
    }
    out
}

/// An empty table with a header, which fits the terminal.
pub(crate) fn table<T: Into<Row>>(header: T) -> Table {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::UTF8_HORIZONTAL_ONLY);
    table.set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(header);
    table
}

/// An error with its causes, each told once: many say their cause's words themselves.
pub(crate) fn in_words(error: &anyhow::Error) -> String {
    let mut words = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if words.is_empty() {
            words = cause;
        } else if !words.ends_with(&cause) {
            words.push_str(": ");
            words.push_str(&cause);
        }
    }
    words
}

#[cfg(test)]
mod tests;
