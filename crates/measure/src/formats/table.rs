//! CSV: the header as a comment, the names of the columns, then a row for each operation. Values
//! are JSON, so that a number differs from a text; an empty cell is nothing.

use std::io::{self, Write};

use fader_history::Header;
use fader_history::object::Operation;
use serde_json::Value as Json;

use super::line::{Line, header_of, header_text};
use super::{Step, Texts};

const COLUMNS: [&str; 18] = [
    "process", "session", "endpoint", "name", "attempt", "level", "intended", "called", "returned",
    "action", "key", "value", "from", "outcome", "shown", "place", "reason", "price",
];

#[derive(Default)]
pub(super) struct Decoder {
    texts: Texts,
}

impl super::Decoder for Decoder {
    fn line(&mut self, number: usize, line: &str) -> Result<Step, String> {
        if let Some(header) = line.strip_prefix("# ").filter(|_| number == 1) {
            return Ok(Step::Header(Box::new(header_of(header)?)));
        }
        if line == COLUMNS.join(",") || line.is_empty() {
            return Ok(Step::None);
        }
        if number <= 2 {
            return Err(format!("expected the columns {}", COLUMNS.join(",")));
        }
        // A row is a line: texts have their line ends escaped, as JSON has them.
        let mut reader = csv::ReaderBuilder::new()
            .has_headers(false)
            .from_reader(line.as_bytes());
        let mut row = csv::StringRecord::new();
        let is_row = reader
            .read_record(&mut row)
            .map_err(|error| error.to_string())?;
        if !is_row || row.len() != COLUMNS.len() {
            return Err(format!("{} cells, not {}", row.len(), COLUMNS.len()));
        }
        let line = line_of(&row)?;
        Ok(Step::Operation(Box::new(line.operation(&mut self.texts)?)))
    }
}

fn number<T: std::str::FromStr>(row: &csv::StringRecord, at: usize) -> Result<Option<T>, String> {
    let cell = &row[at];
    if cell.is_empty() {
        return Ok(None);
    }
    let number = cell.parse().map(Some);
    number.map_err(|_| format!("{} is {cell}: expected a whole number", COLUMNS[at]))
}

fn json(row: &csv::StringRecord, at: usize) -> Result<Option<Json>, String> {
    let cell = &row[at];
    if cell.is_empty() {
        return Ok(None);
    }
    let value = serde_json::from_str(cell).map(Some);
    value.map_err(|_| format!("{} is {cell}: expected JSON", COLUMNS[at]))
}

/// A text of a cell, in JSON's escapes without its quotes.
fn text(row: &csv::StringRecord, at: usize) -> Result<String, String> {
    let cell = &row[at];
    let text = serde_json::from_str(&format!("\"{cell}\""));
    text.map_err(|_| format!("{} is {cell}: expected JSON's escapes", COLUMNS[at]))
}

fn line_of(row: &csv::StringRecord) -> Result<Line<'static>, String> {
    let optional = |at: usize| -> Result<Option<std::borrow::Cow<'static, str>>, String> {
        let text = text(row, at)?;
        Ok((!text.is_empty()).then(|| text.into()))
    };
    Ok(Line {
        process: number(row, 0)?.ok_or("process is empty")?,
        session: number(row, 1)?,
        endpoint: text(row, 2)?.into(),
        name: optional(3)?,
        attempt: number(row, 4)?.unwrap_or(1),
        level: text(row, 5)?.into(),
        intended: number(row, 6)?,
        called: number(row, 7)?.ok_or("called is empty")?,
        returned: number(row, 8)?,
        action: text(row, 9)?.into(),
        key: text(row, 10)?.into(),
        value: json(row, 11)?,
        from: json(row, 12)?,
        outcome: text(row, 13)?.into(),
        shown: json(row, 14)?,
        place: optional(15)?,
        reason: optional(16)?,
        price: number(row, 17)?,
    })
}

pub(super) struct Encoder<W: Write> {
    out: csv::Writer<W>,
}

impl<W: Write> Encoder<W> {
    pub(super) fn new(header: &Header, mut out: W) -> io::Result<Self> {
        writeln!(out, "# {}", header_text(header)?)?;
        let mut out = csv::Writer::from_writer(out);
        out.write_record(COLUMNS)?;
        Ok(Encoder { out })
    }
}

impl<W: Write> super::Encoder for Encoder<W> {
    fn operation(&mut self, operation: &Operation) -> io::Result<()> {
        let line = Line::of(operation);
        let number = |number: Option<u64>| number.map_or_else(String::new, |one| one.to_string());
        let json = |json: &Option<Json>| json.as_ref().map_or_else(String::new, Json::to_string);
        let text = |text: &str| {
            let quoted = Json::from(text).to_string();
            quoted[1..quoted.len() - 1].to_owned()
        };
        let optional = |cell: Option<&str>| cell.map_or_else(String::new, text);
        let row = [
            line.process.to_string(),
            number(line.session.map(u64::from)),
            text(&line.endpoint),
            optional(line.name.as_deref()),
            line.attempt.to_string(),
            text(&line.level),
            number(line.intended),
            line.called.to_string(),
            number(line.returned),
            text(&line.action),
            text(&line.key),
            json(&line.value),
            json(&line.from),
            text(&line.outcome),
            json(&line.shown),
            optional(line.place.as_deref()),
            optional(line.reason.as_deref()),
            number(line.price),
        ];
        self.out.write_record(row)?;
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
