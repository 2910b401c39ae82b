//! The seam to user code: map, combine and reduce over batches of byte slices.
//!
//! ```text
//!  batch ──▶ Map ──▶ key, value ──▶ table: combine, sort ──▶ runs ──▶ merge ──▶ Reduce ──▶ part
//! ```

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::failure::Outcome;
use crate::job::JobId;
use crate::rows::Task;

/// Bytes of a key, at most.
pub const KEY_BYTES_MAX: usize = 1 << 20;
/// Bytes of a value, at most.
pub const VALUE_BYTES_MAX: usize = 64 << 20;

/// A program by its name, with its arguments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// The name in a library.
    pub name: String,
    /// What it is told.
    #[serde(default)]
    pub arguments: Vec<String>,
}

impl Program {
    /// A program without arguments.
    pub fn new(name: &str) -> Self {
        Program {
            name: name.to_owned(),
            arguments: Vec::new(),
        }
    }
}

/// Whole records of one input object.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// The object's name: its key below the input's folder; of several inputs the whole URL.
    pub source: &'a str,
    /// The number of the input that it was found by, from 0.
    pub input: usize,
    /// Where in the object the first record begins; of compressed objects, after decompression.
    pub offset: u64,
    /// The records, each with its end.
    pub bytes: &'a [u8],
    /// Whether a record ends with a line feed; otherwise all bytes are one record.
    pub is_lines: bool,
}

impl<'a> Batch<'a> {
    /// The records, each with its place in the object, without line feeds.
    pub fn records(&self) -> Records<'a> {
        Records {
            rest: self.bytes,
            offset: self.offset,
            is_lines: self.is_lines,
        }
    }
}

/// The records of a batch.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    rest: &'a [u8],
    offset: u64,
    is_lines: bool,
}

impl<'a> Iterator for Records<'a> {
    type Item = (u64, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let (record, next) = match memchr::memchr(b'\n', self.rest) {
            Some(end) if self.is_lines => (&self.rest[..end], end + 1),
            _ => (self.rest, self.rest.len()),
        };
        let offset = self.offset;
        self.offset += next as u64;
        self.rest = &self.rest[next..];
        Some((offset, record))
    }
}

/// Takes what a program makes.
pub trait Emit {
    /// A pair for the reducers. A pair over the bounds fails the attempt.
    fn emit(&mut self, key: &[u8], value: &[u8]);

    /// As [`Emit::emit`], of a key that is a part of a text. The bytes behind it may be read with
    /// it, which takes less time.
    fn emit_part(&mut self, text: &[u8], key: Range<usize>, value: &[u8]) {
        self.emit(&text[key], value);
    }

    /// A number to be added to the key's sum: of programs that combine by [`Combining::Sum`] only.
    fn add(&mut self, key: &[u8], number: u64);

    /// As [`Emit::add`], of a key that is a part of a text, as by [`Emit::emit_part`].
    fn add_part(&mut self, text: &[u8], key: Range<usize>, number: u64) {
        self.add(&text[key], number);
    }

    /// Raises a counter. Counters of winners are exact.
    fn count(&mut self, counter: &str, number: u64);
}

/// Turns input into pairs. One value lives as long as an attempt.
pub trait Map: Send {
    /// Maps whole records.
    ///
    /// # Errors
    /// `Task`: the input is refused.
    fn map(&mut self, batch: &Batch<'_>, out: &mut dyn Emit) -> Outcome<()>;

    /// An object of the split, or its part, is over.
    ///
    /// # Errors
    /// As [`Map::map`].
    fn end_of_source(&mut self, _source: &str, _out: &mut dyn Emit) -> Outcome<()> {
        Ok(())
    }

    /// The split is over.
    ///
    /// # Errors
    /// As [`Map::map`].
    fn finish(&mut self, _out: &mut dyn Emit) -> Outcome<()> {
        Ok(())
    }
}

/// Folds pairs before they leave a map attempt: any number of times, also never. One value lives as
/// long as an attempt. What it gives stays in the partition of what it took.
pub trait Combine: Send {
    /// The next pair: they come in the order of key and value.
    ///
    /// # Errors
    /// `Task`: the pair is refused.
    fn pair(&mut self, key: &[u8], value: &[u8], out: &mut dyn Emit) -> Outcome<()>;

    /// These pairs are over; others may follow, in an order of their own.
    ///
    /// # Errors
    /// As [`Combine::pair`].
    fn end(&mut self, out: &mut dyn Emit) -> Outcome<()>;
}

/// Turns the pairs of one partition into the bytes of a part. Keys come in order, and so do the
/// values of a key: by their bytes.
pub trait Reduce: Send {
    /// A key begins.
    ///
    /// # Errors
    /// `Task`: the key is refused.
    fn begin(&mut self, key: &[u8], out: &mut Part) -> Outcome<()>;

    /// A value of the key.
    ///
    /// # Errors
    /// `Task`: the value is refused.
    fn value(&mut self, key: &[u8], value: &[u8], out: &mut Part) -> Outcome<()>;

    /// The key is over.
    ///
    /// # Errors
    /// As [`Reduce::value`].
    fn end(&mut self, key: &[u8], out: &mut Part) -> Outcome<()>;

    /// The partition is over.
    ///
    /// # Errors
    /// As [`Reduce::value`].
    fn finish(&mut self, _out: &mut Part) -> Outcome<()> {
        Ok(())
    }
}

/// The output of a reducer.
#[derive(Debug, Default)]
pub struct Part {
    /// Bytes of the part that are not yet written.
    pub bytes: Vec<u8>,
    /// Records that were written so far.
    pub records: u64,
    /// Counters that were raised.
    pub counters: Vec<(String, u64)>,
    /// The same of further outputs, by their numbers from 1.
    others: BTreeMap<u8, (Vec<u8>, u64)>,
}

impl Part {
    /// Bytes of an output that are not yet written: 0 is the part itself, others are parts in
    /// folders of their own.
    pub fn output(&mut self, number: u8) -> &mut Vec<u8> {
        match number {
            0 => &mut self.bytes,
            number => &mut self.others.entry(number).or_default().0,
        }
    }

    /// Counts a record of an output.
    pub fn end_record(&mut self, number: u8) {
        match number {
            0 => self.records += 1,
            number => self.others.entry(number).or_default().1 += 1,
        }
    }

    /// Bytes of all outputs that are not yet written.
    pub(crate) fn len(&self) -> usize {
        let others = self.others.values().map(|(bytes, _)| bytes.len());
        self.bytes.len() + others.sum::<usize>()
    }

    /// Takes the bytes of all outputs.
    pub(crate) fn take(&mut self) -> Vec<(u8, Vec<u8>)> {
        let mut taken = vec![(0, std::mem::take(&mut self.bytes))];
        let others = self.others.iter_mut();
        taken.extend(others.map(|(number, (bytes, _))| (*number, std::mem::take(bytes))));
        taken
    }

    /// The records of each output.
    pub(crate) fn all_records(&self) -> BTreeMap<u8, u64> {
        let others = self
            .others
            .iter()
            .map(|(number, (_, records))| (*number, *records));
        others.chain([(0, self.records)]).collect()
    }

    /// A line of a key, a TAB and a value.
    pub fn pair(&mut self, key: &[u8], value: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.bytes.push(b'\t');
        self.bytes.extend_from_slice(value);
        self.end_line();
    }

    /// Ends a line.
    pub fn end_line(&mut self) {
        self.bytes.push(b'\n');
        self.records += 1;
    }

    /// Raises a counter.
    pub fn count(&mut self, counter: &str, number: u64) {
        self.counters.push((counter.to_owned(), number));
    }
}

/// How values of a key are folded before they leave a map attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combining {
    /// Not at all.
    None,
    /// Equal pairs are one, in a hash table.
    Unique,
    /// Numbers are added, in a hash table.
    Sum,
    /// By the code's [`Code::combiner`].
    Program,
}

/// The attempt that code runs for.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// Its job.
    pub job: &'a JobId,
    /// Its task: the number of a reduce task is that of its partition.
    pub task: Task,
    /// Its own id.
    pub attempt: &'a str,
    /// The number of the job's reduce tasks.
    pub reduces: u32,
    /// Memory of the attempt in bytes, of which its code should take at most a sixteenth.
    pub memory_bytes: usize,
}

/// A program that was opened.
pub trait Code: Debug + Send + Sync + 'static {
    /// The mapper of an attempt.
    ///
    /// # Errors
    /// `Task`: it does not start.
    fn mapper(&self, of: &Context<'_>) -> Outcome<Box<dyn Map>>;

    /// How its values are folded.
    fn combining(&self) -> Combining;

    /// The combiner of an attempt, if values are folded by [`Combining::Program`].
    ///
    /// # Errors
    /// `Task`: it does not start.
    fn combiner(&self, _of: &Context<'_>) -> Outcome<Option<Box<dyn Combine>>> {
        Ok(None)
    }

    /// The reducer of an attempt.
    ///
    /// # Errors
    /// `Task`: it does not start.
    fn reducer(&self, of: &Context<'_>) -> Outcome<Box<dyn Reduce>>;

    /// The partition of a key. `hash` is its XXH3-64, `ranges` the keys with which the partitions
    /// after the first begin, of programs that want them.
    fn partition(&self, _key: &[u8], hash: u64, partitions: u32, _ranges: &[Vec<u8>]) -> u32 {
        (((hash >> 32) * u64::from(partitions)) >> 32) as u32
    }

    /// Whether the plan samples lines of the input for [`Code::partition`]'s ranges.
    fn wants_ranges(&self) -> bool {
        false
    }
}

/// Opens programs by their names.
pub trait Library: Debug + Send + Sync + 'static {
    /// Opens a program.
    ///
    /// # Errors
    /// `Job`: there is no such program, or its arguments are wrong.
    fn open(&self, program: &Program) -> Outcome<Arc<dyn Code>>;
}
