//! Turns records of JSON and CSV into lines of the fields that were asked for.

use std::borrow::Cow;

use crate::failure::{Failure, Outcome};
use crate::input::Format;

/// The fields of one object's records.
#[derive(Debug)]
pub(crate) struct Fields {
    format: Format,
    /// Of CSV: the places of the columns, once the header was read.
    columns: Option<Vec<usize>>,
    /// Bad records that may still be left out.
    pub(crate) skips: u64,
    /// Bad records that were left out.
    pub(crate) skipped: u64,
}

impl Fields {
    pub(crate) fn new(format: &Format, skips: u64) -> Self {
        Fields {
            format: format.clone(),
            columns: None,
            skips,
            skipped: 0,
        }
    }

    /// Begins an object.
    pub(crate) fn begin(&mut self) {
        self.columns = None;
    }

    /// Whether records go to the program as they are.
    pub(crate) fn is_plain(&self) -> bool {
        matches!(
            self.format,
            Format::Lines | Format::Whole | Format::Parquet(_)
        )
    }

    /// The lines of whole records.
    ///
    /// # Errors
    /// `Task`: a record is bad, and no more may be left out.
    pub(crate) fn lines(&mut self, at: u64, bytes: &[u8]) -> Outcome<Vec<u8>> {
        match self.format.clone() {
            Format::Json(fields) => self.json(&fields, at, bytes),
            Format::Csv(fields) => self.csv(&fields, at, bytes),
            Format::Lines | Format::Whole | Format::Parquet(_) => Ok(bytes.to_vec()),
        }
    }

    fn bad(&mut self, at: u64, why: &str) -> Outcome<()> {
        if self.skips == 0 {
            return Err(Failure::task(format!("the record at byte {at}: {why}")));
        }
        self.skips -= 1;
        self.skipped += 1;
        Ok(())
    }

    fn json(&mut self, fields: &[String], at: u64, bytes: &[u8]) -> Outcome<Vec<u8>> {
        let mut out = Vec::with_capacity(bytes.len());
        let mut place = at;
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            let start = place;
            place += line.len() as u64;
            let text = line.trim_ascii();
            if text.is_empty() {
                continue;
            }
            type Object = serde_json::Map<String, serde_json::Value>;
            let object: Object = match serde_json::from_slice(text) {
                Ok(object) => object,
                Err(error) => {
                    self.bad(start, &format!("it is no JSON object: {error}"))?;
                    continue;
                }
            };
            if fields.is_empty() {
                out.extend_from_slice(text);
            }
            let field = |name: &String| match object.get(name) {
                None | Some(serde_json::Value::Null) => Cow::Borrowed(&b""[..]),
                Some(serde_json::Value::String(text)) => Cow::Borrowed(text.as_bytes()),
                Some(value) => Cow::Owned(value.to_string().into_bytes()),
            };
            line_of(&mut out, fields.iter().map(field));
        }
        Ok(out)
    }

    fn csv(&mut self, fields: &[String], at: u64, bytes: &[u8]) -> Outcome<Vec<u8>> {
        let mut out = Vec::with_capacity(bytes.len());
        let mut reader = csv::ReaderBuilder::new();
        let mut reader = reader.has_headers(false).flexible(true).from_reader(bytes);
        let mut record = csv::ByteRecord::new();
        loop {
            let start = at + reader.position().byte();
            match reader.read_byte_record(&mut record) {
                Ok(true) => {}
                Ok(false) => return Ok(out),
                Err(error) => {
                    self.bad(start, &error.to_string())?;
                    continue;
                }
            }
            let Some(columns) = &self.columns else {
                self.columns = Some(columns(fields, &record)?);
                continue;
            };
            if columns.iter().any(|column| record.len() <= *column) {
                self.bad(start, "it has fewer columns than the header")?;
                continue;
            }
            line_of(&mut out, columns.iter().map(|column| &record[*column]));
        }
    }
}

/// The places of the columns; of all of them if none is named.
fn columns(fields: &[String], header: &csv::ByteRecord) -> Outcome<Vec<usize>> {
    if fields.is_empty() {
        return Ok((0..header.len()).collect());
    }
    let place = |name: &String| {
        let place = header.iter().position(|own| own == name.as_bytes());
        place.ok_or_else(|| Failure::task(format!("its header has no column {name:?}")))
    };
    fields.iter().map(place).collect()
}

/// Adds a line of fields with TABs between them. TABs and line feeds in them become spaces.
fn line_of(out: &mut Vec<u8>, fields: impl Iterator<Item = impl AsRef<[u8]>>) {
    for (number, field) in fields.enumerate() {
        if 0 < number {
            out.push(b'\t');
        }
        let is_space = |byte: u8| matches!(byte, b'\t' | b'\n');
        let bytes = field.as_ref().iter();
        out.extend(bytes.map(|byte| if is_space(*byte) { b' ' } else { *byte }));
    }
    out.push(b'\n');
}
