//! The lines of CSV and JSON that `fader db import` reads.

use std::cell::Cell;
use std::io::{self, BufRead, BufReader, Read};
use std::rc::Rc;

use anyhow::{Context, Result, anyhow};
use serde_json::{Map, Value};

use super::import::{Line, Lines};
use crate::failure;

/// A quote that nothing closes takes all lines behind it into its field.
const OPEN_QUOTE: &str = "a quote is not closed";

/// The objects of a file of JSON lines. Empty lines are none.
pub(super) fn of_json(input: Box<dyn Read>) -> Lines {
    let numbered = (1..).zip(BufReader::new(input).lines());
    let parsed = numbered.filter_map(|(number, line)| match line {
        Ok(line) if line.trim().is_empty() => None,
        Ok(line) => Some(Line::new(number, object(&line))),
        Err(error) => Some(Line::new(number, Err(error.into()))),
    });
    Box::new(parsed)
}

fn object(line: &str) -> Result<Map<String, Value>> {
    serde_json::from_str(line).map_err(|error| {
        // The error counts lines within its text, which is one line.
        let text = error.to_string();
        let what = text.split(" at line ").next().unwrap_or(&text);
        anyhow!("it is no JSON object: column {}: {what}", error.column())
    })
}

/// The rows of a file of CSV with a header.
pub(super) fn of_csv(input: Box<dyn Read>) -> Result<Lines> {
    let is_open = Rc::new(Cell::new(false));
    let mut reader = csv::Reader::from_reader(Quotes {
        input,
        place: Place::Start,
        is_open: Rc::clone(&is_open),
    });
    let header = header(&mut reader, &is_open).context("the header")?;
    let rows = reader.into_records().map(move |row| {
        let start = match &row {
            Ok(row) => row.position(),
            Err(error) => error.position(),
        };
        let number = start.map_or(0, csv::Position::line);
        let fields = match row {
            Ok(_) if is_open.get() => Err(anyhow!(OPEN_QUOTE)),
            Ok(row) => {
                let names = header.iter().cloned();
                let values = row.iter().map(|value| Value::String(value.to_owned()));
                Ok(names.zip(values).collect())
            }
            Err(error) => Err(in_words(error)),
        };
        Line::new(number, fields)
    });
    Ok(Box::new(rows))
}

fn header(reader: &mut csv::Reader<Quotes>, is_open: &Cell<bool>) -> Result<Vec<String>> {
    let header: Vec<String> = {
        let header = reader.headers().map_err(in_words)?;
        header.iter().map(str::to_owned).collect()
    };
    if is_open.get() {
        return failure::invalid(OPEN_QUOTE);
    }
    for (at, name) in header.iter().enumerate() {
        if header[..at].contains(name) {
            return failure::invalid(format_args!("column {name:?} is there twice"));
        }
    }
    Ok(header)
}

/// What is wrong with a row, without its place.
fn in_words(error: csv::Error) -> anyhow::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error.into(),
        csv::ErrorKind::Utf8 { err, .. } => anyhow!("field {} is no UTF-8", err.field() + 1),
        csv::ErrorKind::UnequalLengths {
            expected_len, len, ..
        } => anyhow!("{len} fields, the header has {expected_len}"),
        other => anyhow!("{other:?}"),
    }
}

/// Whether a file cannot be read on: no line of it is bad.
pub(super) fn is_unreadable(error: &anyhow::Error) -> bool {
    let cause = error.downcast_ref::<io::Error>();
    cause.is_some_and(|cause| cause.kind() != io::ErrorKind::InvalidData)
}

/// Passes the bytes of CSV on, and tells whether a quote is open where they end.
struct Quotes {
    input: Box<dyn Read>,
    place: Place,
    is_open: Rc<Cell<bool>>,
}

/// A place in CSV.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Where a field begins.
    Start,
    /// In a field without quotes.
    Plain,
    /// Between quotes.
    Quoted,
    /// Behind a quote that closes a field, or begins a pair that stands for one quote.
    Quote,
}

impl Place {
    fn after(self, byte: u8) -> Self {
        match (self, byte) {
            (Place::Start | Place::Quote, b'"') | (Place::Quoted, 0..b'"' | b'#'..) => {
                Place::Quoted
            }
            (Place::Quoted, b'"') => Place::Quote,
            (_, b',' | b'\r' | b'\n') => Place::Start,
            // The mark that may begin a file of UTF-8.
            (Place::Start, 0xEF | 0xBB | 0xBF) => Place::Start,
            _ => Place::Plain,
        }
    }
}

impl Read for Quotes {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.input.read(into)?;
        let bytes = &into[..count];
        // Without quotes the last bytes tell all.
        let from = match (bytes.contains(&b'"'), self.place) {
            (true, _) => 0,
            (false, Place::Quoted) => count,
            (false, _) => count.saturating_sub(4),
        };
        for byte in &bytes[from..] {
            self.place = self.place.after(*byte);
        }
        self.is_open.set(count == 0 && self.place == Place::Quoted);
        Ok(count)
    }
}
