//! Parquet: the footer of an object, and the rows of one of its row groups. Pure.
//!
//! ```text
//!  last bytes ──▶ Footer ──▶ range of a row group ──▶ its bytes ──▶ Rows ──▶ records
//! ```
//!
//! Invariants:
//! - PARQUET-1 a row group belongs to the piece in which its first byte is. So pieces are planned
//!   without a look at footers, and each row is read once.
//! - PARQUET-2 no size of a footer is believed before it was compared with the object's.
//! - PARQUET-3 what is damaged fails with the number of its row group, and is never a shorter
//!   input. The decoder may panic on it: that is a failure, too.
//!
//! Left out: encrypted files, Brotli and LZ4.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bytes::{Buf as _, Bytes, buf};
use parquet::basic::{ConvertedType, Repetition};
use parquet::errors::{ParquetError, Result as Decoded};
use parquet::file::metadata::{
    FooterTail, ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData,
};
use parquet::file::properties::ReaderProperties;
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::serialized_reader::SerializedRowGroupReader;
use parquet::record::reader::{ReaderIter, TreeBuilder};
use parquet::record::{Field, Row};
use parquet::schema::types::{SchemaDescPtr, SchemaDescriptor, Type, TypePtr};
use serde_json::{Map, Value};

/// Why an object, or a row group of it, cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Damaged(String);

impl Damaged {
    fn new(text: impl Into<String>) -> Self {
        Damaged(text.into())
    }
}

/// What reading gives.
pub type Result<T> = std::result::Result<T, Damaged>;

/// Bytes at the end of an object that hold its footer, as a rule.
pub const FOOTER_BYTES: u64 = 64 << 10;
/// Bytes of a footer, at most.
const FOOTER_BYTES_MAX: u64 = 64 << 20;
/// Bytes of a file's beginning and of its end.
const MAGIC_BYTES: u64 = 4;
const END_BYTES: u64 = 8;
/// Bytes of a row group that is read at once, at most.
const GROUP_BYTES_MAX: u64 = 2 << 30;

/// Runs the decoder, whose panics are failures of the input.
fn decoded<T>(what: &str, decode: impl FnOnce() -> Decoded<T>) -> Result<T> {
    match catch_unwind(AssertUnwindSafe(decode)) {
        Ok(Ok(decoded)) => Ok(decoded),
        Ok(Err(error)) => Err(Damaged::new(format!("{what}: {error}"))),
        Err(_) => Err(Damaged::new(format!("{what}: it cannot be decoded"))),
    }
}

/// How many bytes at the end of an object its footer takes, from its last bytes.
///
/// # Errors
/// It is no Parquet.
pub fn footer_bytes(end: &[u8], object_bytes: u64) -> Result<u64> {
    let refused = |why: &str| Damaged::new(format!("it is no Parquet: {why}"));
    let at = end.len().checked_sub(END_BYTES as usize);
    let at = at.ok_or_else(|| refused("it is too short"))?;
    let tail = decoded("it is no Parquet", || FooterTail::try_from(&end[at..]))?;
    if tail.is_encrypted_footer() {
        return Err(refused("its footer is encrypted"));
    }
    let bytes = tail.metadata_length() as u64 + END_BYTES;
    match bytes + MAGIC_BYTES <= object_bytes && bytes <= FOOTER_BYTES_MAX {
        true => Ok(bytes),
        false => Err(refused(&format!("a footer of {bytes} bytes"))),
    }
}

/// The footer of an object: where its row groups are, and the columns that are read.
#[derive(Debug)]
pub struct Footer {
    metadata: ParquetMetaData,
    schema: SchemaDescPtr,
    /// Of each field of a line its place among the columns that are read.
    places: Arc<Vec<usize>>,
    object_bytes: u64,
}

impl Footer {
    /// Reads the last bytes of an object, at least [`footer_bytes`] of them, for these of its
    /// columns; for all of them if none is named.
    ///
    /// # Errors
    /// It is damaged, or has no such column.
    pub fn parse(end: &[u8], object_bytes: u64, fields: &[String]) -> Result<Footer> {
        let bytes = footer_bytes(end, object_bytes)?;
        let footer = end.len().checked_sub(bytes as usize);
        let footer = footer.ok_or_else(|| Damaged::new("the footer is cut off"))?;
        let text = &end[footer..end.len() - END_BYTES as usize];
        let what = "the footer";
        let metadata = decoded(what, || ParquetMetaDataReader::decode_metadata(text))?;
        let root = metadata.file_metadata().schema_descr().root_schema();
        let own = root.get_fields();
        let is_read =
            |field: &&TypePtr| fields.is_empty() || fields.iter().any(|name| *name == field.name());
        let columns: Vec<TypePtr> = own.iter().filter(is_read).cloned().collect();
        columns.iter().try_for_each(|column| readable(column))?;
        let place = |name: &String| {
            let place = columns.iter().position(|column| column.name() == *name);
            place.ok_or_else(|| Damaged::new(format!("it has no column {name:?}")))
        };
        let places = match fields.is_empty() {
            true => (0..columns.len()).collect(),
            false => fields.iter().map(place).collect::<Result<Vec<usize>>>()?,
        };
        let builder = Type::group_type_builder(root.name()).with_fields(columns);
        let schema = decoded("the schema", || builder.build())?;
        let schema = decoded("the schema", || Ok(SchemaDescriptor::new(Arc::new(schema))))?;
        Ok(Footer {
            metadata,
            schema: Arc::new(schema),
            places: Arc::new(places),
            object_bytes,
        })
    }

    /// The number of row groups.
    pub fn groups(&self) -> usize {
        self.metadata.num_row_groups()
    }

    /// The rows of a row group, as the footer says: none of one that is not there.
    pub fn group_rows(&self, group: usize) -> u64 {
        let found = self.metadata.row_groups().get(group);
        found.map_or(0, |group| group.num_rows().max(0) as u64)
    }

    /// The row groups whose first byte is among these.
    ///
    /// # Errors
    /// The footer is damaged.
    pub fn groups_in(&self, piece: Range<u64>) -> Result<Vec<usize>> {
        let mut groups = Vec::new();
        for group in 0..self.groups() {
            let chunks = self.chunks(group, |_| true)?;
            let first = chunks.iter().map(|chunk| chunk.start).min();
            if first.is_some_and(|first| piece.contains(&first)) {
                groups.push(group);
            }
        }
        Ok(groups)
    }

    /// Where the columns that are read are.
    ///
    /// # Errors
    /// The footer is damaged.
    pub fn range(&self, group: usize) -> Result<Range<u64>> {
        let fields = self.schema.root_schema().get_fields();
        let is_read = |name: &str| fields.iter().any(|field| field.name() == name);
        let chunks = self.chunks(group, is_read)?;
        let first = chunks.iter().map(|chunk| chunk.start).min();
        let end = chunks.iter().map(|chunk| chunk.end).max();
        let range = first.zip(end).map_or(0..0, |(first, end)| first..end);
        if GROUP_BYTES_MAX < range.end - range.start {
            let bytes = range.end - range.start;
            return Err(damaged(group, &format!("it has {bytes} bytes")));
        }
        Ok(range)
    }

    fn group(&self, group: usize) -> Result<&RowGroupMetaData> {
        let found = self.metadata.row_groups().get(group);
        found.ok_or_else(|| damaged(group, "there is none"))
    }

    /// Where chunks of a row group are, of the columns in these fields.
    fn chunks(&self, group: usize, is_of: impl Fn(&str) -> bool) -> Result<Vec<Range<u64>>> {
        let mut chunks = Vec::new();
        for column in self.group(group)?.columns() {
            let name = column.column_path().parts().first();
            if !name.is_some_and(|name| is_of(name)) {
                continue;
            }
            let (start, bytes) = decoded(&of(group), || Ok(column.byte_range()))?;
            let end = start.checked_add(bytes);
            match end.filter(|end| MAGIC_BYTES <= start && *end <= self.object_bytes) {
                Some(end) => chunks.push(start..end),
                None => return Err(damaged(group, "a column is outside the object")),
            }
        }
        Ok(chunks)
    }

    /// The rows of a row group, from the bytes of [`Footer::range`].
    ///
    /// # Errors
    /// It is damaged.
    pub fn rows(&self, group: usize, bytes: Bytes) -> Result<Rows> {
        let range = self.range(group)?;
        if range.end - range.start != bytes.len() as u64 {
            return Err(damaged(group, "it is cut off"));
        }
        let metadata = self.group(group)?;
        let count = u64::try_from(metadata.num_rows());
        let count = count.map_err(|_| damaged(group, "a negative number of rows"))?;
        let flat = metadata.columns().iter();
        let mut flat = flat.filter(|column| column.column_descr().max_rep_level() == 0);
        if flat.any(|column| u64::try_from(column.num_values()) != Ok(count)) {
            return Err(damaged(group, "its columns differ in length"));
        }
        let window = Window {
            first: range.start,
            bytes,
            object_bytes: self.object_bytes,
        };
        let rows = decoded(&of(group), || {
            let index = self.metadata.page_index_for_row_group(group);
            let settings = Arc::new(ReaderProperties::builder().build());
            let reader =
                SerializedRowGroupReader::new(Arc::new(window), metadata, index, settings)?;
            TreeBuilder::new().as_iter(self.schema.clone(), &reader)
        })?;
        Ok(Rows {
            rows,
            group,
            places: self.places.clone(),
            is_over: false,
        })
    }
}

fn of(group: usize) -> String {
    format!("row group {group}")
}

fn damaged(group: usize, why: &str) -> Damaged {
    Damaged::new(format!("row group {group}: {why}"))
}

/// Refuses columns whose rows the decoder cannot put together: repeated ones that are no list.
fn readable(field: &Type) -> Result<()> {
    let info = field.get_basic_info();
    if info.has_repetition() && info.repetition() == Repetition::REPEATED {
        let text = format!("column {:?} is repeated without being a list", field.name());
        return Err(Damaged::new(text));
    }
    let is_list = matches!(
        info.converted_type(),
        ConvertedType::LIST | ConvertedType::MAP | ConvertedType::MAP_KEY_VALUE
    );
    match field.is_primitive() || is_list {
        true => Ok(()),
        false => field
            .get_fields()
            .iter()
            .try_for_each(|field| readable(field)),
    }
}

/// The bytes of a row group, at their place in an object.
struct Window {
    first: u64,
    bytes: Bytes,
    object_bytes: u64,
}

impl Window {
    fn from(&self, start: u64) -> Decoded<Bytes> {
        let at = start
            .checked_sub(self.first)
            .and_then(|at| usize::try_from(at).ok());
        let at = at.filter(|at| *at <= self.bytes.len());
        at.map(|at| self.bytes.slice(at..))
            .ok_or_else(|| ParquetError::EOF(format!("byte {start} is of another row group")))
    }
}

impl Length for Window {
    fn len(&self) -> u64 {
        self.object_bytes
    }
}

impl ChunkReader for Window {
    type T = buf::Reader<Bytes>;

    fn get_read(&self, start: u64) -> Decoded<Self::T> {
        Ok(self.from(start)?.reader())
    }

    fn get_bytes(&self, start: u64, length: usize) -> Decoded<Bytes> {
        let bytes = self.from(start)?;
        match length <= bytes.len() {
            true => Ok(bytes.slice(..length)),
            false => Err(ParquetError::EOF(format!("{length} bytes at {start}"))),
        }
    }
}

/// The rows of a row group. After a failure there are none.
pub struct Rows {
    rows: ReaderIter,
    group: usize,
    places: Arc<Vec<usize>>,
    is_over: bool,
}

impl Iterator for Rows {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Result<Record>> {
        if self.is_over {
            return None;
        }
        let rows = &mut self.rows;
        let row = decoded(&of(self.group), || rows.next().transpose());
        self.is_over = !matches!(row, Ok(Some(_)));
        let record = |row: Row| Record {
            fields: row.into_columns(),
            places: self.places.clone(),
        };
        row.map(|row| row.map(record)).transpose()
    }
}

/// A row.
pub struct Record {
    fields: Vec<(String, Field)>,
    places: Arc<Vec<usize>>,
}

impl Record {
    /// Adds its line: the fields that were asked for, with TABs between. Absent ones are empty,
    /// nested ones JSON; TABs and line feeds in a field become spaces.
    ///
    /// # Errors
    /// A time that no calendar has.
    pub fn line(&self, out: &mut Vec<u8>) -> Result<()> {
        for (number, place) in self.places.iter().enumerate() {
            if 0 < number {
                out.push(b'\t');
            }
            match &self.fields[*place].1 {
                Field::Str(text) => plain(out, text.as_bytes()),
                Field::Bytes(bytes) => plain(out, bytes.data()),
                field => match value(field)? {
                    Value::Null => {}
                    Value::String(text) => plain(out, text.as_bytes()),
                    value => plain(out, value.to_string().as_bytes()),
                },
            }
        }
        out.push(b'\n');
        Ok(())
    }

    /// The fields that it has, as a JSON object. Bytes become base64; times, dates and decimals
    /// text.
    ///
    /// # Errors
    /// A time that no calendar has.
    pub fn object(&self) -> Result<Map<String, Value>> {
        let mut object = Map::new();
        for (name, field) in &self.fields {
            if !matches!(field, Field::Null) {
                object.insert(name.clone(), value(field)?);
            }
        }
        Ok(object)
    }
}

/// Adds a field: TABs and line feeds in it become spaces.
fn plain(out: &mut Vec<u8>, field: &[u8]) {
    let byte = |byte: &u8| match byte {
        b'\t' | b'\n' => b' ',
        byte => *byte,
    };
    out.extend(field.iter().map(byte));
}

fn value(field: &Field) -> Result<Value> {
    match field {
        // As it is written, not as the double that is nearest.
        Field::Float(number) => Ok(number.to_string().parse::<f64>().map_or(Value::Null, |n| {
            serde_json::Number::from_f64(n).map_or(Value::Null, Value::Number)
        })),
        field => decoded("a value", || Ok(field.to_json_value())),
    }
}

#[cfg(test)]
mod tests;
