//! Parquet in and out of a collection: rows become JSON objects, and JSON objects rows.
//!
//! A column of an export has the narrowest type that all its values have: boolean, 64-bit integer,
//! double, or text. Arrays and objects are written as JSON text; a field that is not there is null.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write};
use std::ops::Range;
use std::sync::Arc;

use anyhow::{Context, Result};
use bytes::Bytes;
use fader_columns::{FOOTER_BYTES, Footer, footer_bytes};
use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use serde_json::{Map, Value};

use super::import::{Line, Lines};

/// Rows and bytes of a row group that is written, about.
const GROUP_ROWS: usize = 100_000;
const GROUP_BYTES: usize = 64 << 20;
/// Above it not every integer is a double.
const EXACT_MAX: i64 = 1 << 53;

/// The rows of a file, with their numbers from 1.
pub(super) fn rows(mut file: File) -> Result<Lines> {
    let size = file.metadata().context("its size")?.len();
    let mut end = read(&mut file, size.saturating_sub(FOOTER_BYTES)..size)?;
    let needed = footer_bytes(&end, size)?;
    if (end.len() as u64) < needed {
        end = read(&mut file, size - needed..size)?;
    }
    let footer = Footer::parse(&end, size, &[])?;
    let mut number = 0;
    let groups = (0..footer.groups()).flat_map(move |group| {
        let before = number;
        number += footer.group_rows(group);
        of_group(&mut file, &footer, group, before)
    });
    Ok(Box::new(groups))
}

/// The rows of a row group, of which so many came before. One that is damaged takes those behind
/// it along.
fn of_group(file: &mut File, footer: &Footer, group: usize, before: u64) -> Lines {
    let count = footer.group_rows(group);
    let rows = footer.range(group).map_err(anyhow::Error::from);
    let rows = rows.and_then(|range| Ok(footer.rows(group, read(file, range)?)?));
    let rows = match rows {
        Ok(rows) => rows,
        Err(error) => {
            let all = Line {
                number: before + 1,
                count,
                fields: Err(error),
            };
            return Box::new(std::iter::once(all));
        }
    };
    let numbered = (1..).zip(rows).map(move |(number, row)| Line {
        number: before + number,
        count: if row.is_ok() { 1 } else { count + 1 - number },
        fields: row.and_then(|row| row.object()).map_err(Into::into),
    });
    Box::new(numbered)
}

fn read(file: &mut File, range: Range<u64>) -> Result<Bytes> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(range.start))?;
    file.take(range.end - range.start).read_to_end(&mut bytes)?;
    Ok(bytes.into())
}

/// What a column's values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Bool,
    /// Integers that are doubles, too.
    Integer,
    /// Integers of 64 bits.
    Long,
    Double,
    Text,
}

impl Kind {
    fn of(value: &Value) -> Option<Kind> {
        match value {
            Value::Null => None,
            Value::Bool(_) => Some(Kind::Bool),
            Value::Number(number) => Some(match number.as_i64() {
                Some(number) if (-EXACT_MAX..=EXACT_MAX).contains(&number) => Kind::Integer,
                Some(_) => Kind::Long,
                None if number.is_u64() => Kind::Text,
                None => Kind::Double,
            }),
            _ => Some(Kind::Text),
        }
    }

    fn with(self, other: Kind) -> Kind {
        match (self, other) {
            (one, other) if one == other => one,
            (Kind::Integer, Kind::Long) | (Kind::Long, Kind::Integer) => Kind::Long,
            (Kind::Integer, Kind::Double) | (Kind::Double, Kind::Integer) => Kind::Double,
            _ => Kind::Text,
        }
    }
}

/// The columns of an export, as its first pass finds them.
#[derive(Debug, Default)]
pub(super) struct Columns(BTreeMap<String, Option<Kind>>);

impl Columns {
    /// Looks at a record.
    pub(super) fn see(&mut self, fields: &Map<String, Value>) {
        for (name, value) in fields {
            let kind = self.0.entry(name.clone()).or_default();
            let own = Kind::of(value);
            *kind = match (*kind, own) {
                (Some(kind), Some(own)) => Some(kind.with(own)),
                (kind, own) => kind.or(own),
            };
        }
    }

    /// A writer of records that were seen.
    pub(super) fn writer<W: Write + Send>(self, out: W) -> Result<Writer<W>> {
        let mut columns: Vec<(String, Kind)> = self
            .0
            .into_iter()
            .map(|(name, kind)| (name, kind.unwrap_or(Kind::Text)))
            .collect();
        if columns.is_empty() {
            // Parquet has no schema without a column.
            columns.push(("key".to_owned(), Kind::Text));
        }
        let field = |(name, kind): &(String, Kind)| {
            let (physical, logical) = match kind {
                Kind::Bool => (Physical::BOOLEAN, None),
                Kind::Integer | Kind::Long => (Physical::INT64, None),
                Kind::Double => (Physical::DOUBLE, None),
                Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            };
            let field = Type::primitive_type_builder(name, physical);
            let field = field.with_repetition(Repetition::OPTIONAL);
            Ok(Arc::new(field.with_logical_type(logical).build()?))
        };
        let fields = columns.iter().map(field).collect::<Result<Vec<_>>>()?;
        let schema = Type::group_type_builder("records").with_fields(fields);
        let settings = WriterProperties::builder().set_compression(Compression::SNAPPY);
        let (schema, settings) = (Arc::new(schema.build()?), Arc::new(settings.build()));
        Ok(Writer {
            out: SerializedFileWriter::new(out, schema, settings)?,
            columns,
            rows: Vec::new(),
            bytes: 0,
        })
    }
}

/// Writes records as rows.
pub(super) struct Writer<W: Write + Send> {
    out: SerializedFileWriter<W>,
    columns: Vec<(String, Kind)>,
    rows: Vec<Map<String, Value>>,
    bytes: usize,
}

impl<W: Write + Send> Writer<W> {
    /// Adds a record.
    pub(super) fn push(&mut self, fields: &Map<String, Value>) -> Result<()> {
        self.rows.push(fields.clone());
        let bytes = |value: &Value| value.as_str().map_or(16, |text| text.len() + 16);
        self.bytes += fields.values().map(bytes).sum::<usize>();
        if GROUP_ROWS <= self.rows.len() || GROUP_BYTES <= self.bytes {
            self.write_group()?;
        }
        Ok(())
    }

    fn write_group(&mut self) -> Result<()> {
        let mut group = self.out.next_row_group()?;
        let mut columns = self.columns.iter();
        while let (Some((name, kind)), Some(mut column)) = (columns.next(), group.next_column()?) {
            let cells = self.rows.iter().map(|row| row.get(name));
            let cells = cells.map(|cell| cell.filter(|cell| !cell.is_null()));
            let levels: Vec<i16> = cells
                .clone()
                .map(|cell| i16::from(cell.is_some()))
                .collect();
            let (cells, levels) = (cells.flatten(), Some(&levels[..]));
            match column.untyped() {
                ColumnWriter::BoolColumnWriter(typed) => {
                    let values: Vec<bool> = cells.filter_map(Value::as_bool).collect();
                    typed.write_batch(&values, levels, None)?
                }
                ColumnWriter::Int64ColumnWriter(typed) => {
                    let values: Vec<i64> = cells.filter_map(Value::as_i64).collect();
                    typed.write_batch(&values, levels, None)?
                }
                ColumnWriter::DoubleColumnWriter(typed) => {
                    let values: Vec<f64> = cells.filter_map(Value::as_f64).collect();
                    typed.write_batch(&values, levels, None)?
                }
                ColumnWriter::ByteArrayColumnWriter(typed) => {
                    let text = |value: &Value| match value {
                        Value::String(text) => ByteArray::from(text.as_str()),
                        value => ByteArray::from(value.to_string().as_str()),
                    };
                    let values: Vec<ByteArray> = cells.map(text).collect();
                    typed.write_batch(&values, levels, None)?
                }
                _ => unreachable!("column {name:?} is of {kind:?}"),
            };
            column.close()?;
        }
        group.close()?;
        self.rows.clear();
        self.bytes = 0;
        Ok(())
    }

    /// Ends the file.
    pub(super) fn finish(mut self) -> Result<()> {
        if !self.rows.is_empty() {
            self.write_group()?;
        }
        self.out.close()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
