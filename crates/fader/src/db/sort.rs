//! Records in the order of their keys, more than memory holds: sorted runs in files, merged.
//!
//! ```text
//! run := ( key size:u32 value size:u32 key value )*      little-endian, in a file without a name
//! ```
//!
//! Of records with the same key the last one that was added counts.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};

/// Bytes of records in memory, about.
const BYTES_MAX: usize = 256 << 20;
/// What a record takes beside its bytes.
const RECORD_BYTES: usize = 64;

/// A record: its key and its value.
pub(super) type Record = (Vec<u8>, Vec<u8>);

/// Collects records.
pub(super) struct Sorter {
    records: Vec<Record>,
    bytes: usize,
    bytes_max: usize,
    runs: Vec<File>,
}

impl Sorter {
    pub(super) fn new() -> Self {
        Sorter {
            records: Vec::new(),
            bytes: 0,
            bytes_max: BYTES_MAX,
            runs: Vec::new(),
        }
    }

    /// Adds a record.
    pub(super) fn push(&mut self, record: Record) -> io::Result<()> {
        self.bytes += record.0.len() + record.1.len() + RECORD_BYTES;
        self.records.push(record);
        if self.bytes_max <= self.bytes {
            self.sort();
            let run = self.write_run()?;
            self.runs.push(run);
            self.records.clear();
            self.bytes = 0;
        }
        Ok(())
    }

    /// Ends adding.
    pub(super) fn finish(&mut self) {
        self.sort();
    }

    /// The sort is stable: the last of equal keys was added last.
    fn sort(&mut self) {
        self.records.sort_by(|one, other| one.0.cmp(&other.0));
    }

    fn write_run(&self) -> io::Result<File> {
        let mut out = BufWriter::new(nameless()?);
        for (key, value) in &self.records {
            for size in [key.len(), value.len()] {
                let size = u32::try_from(size).map_err(io::Error::other)?;
                out.write_all(&size.to_le_bytes())?;
            }
            out.write_all(key)?;
            out.write_all(value)?;
        }
        out.into_inner().map_err(io::IntoInnerError::into_error)
    }

    /// All records in the order of their keys, each key once. It can be asked for again.
    pub(super) fn records(&mut self) -> io::Result<Merged<'_>> {
        let mut runs = Vec::new();
        for run in &mut self.runs {
            run.rewind()?;
            runs.push(Run::File(BufReader::with_capacity(1 << 20, run)));
        }
        runs.push(Run::Memory(self.records.iter()));
        let mut merged = Merged {
            heads: BinaryHeap::new(),
            runs,
        };
        for run in 0..merged.runs.len() {
            merged.advance(run)?;
        }
        Ok(merged)
    }
}

enum Run<'a> {
    File(BufReader<&'a mut File>),
    Memory(std::slice::Iter<'a, Record>),
}

impl Run<'_> {
    fn next(&mut self) -> io::Result<Option<Record>> {
        let reader = match self {
            Run::Memory(records) => return Ok(records.next().cloned()),
            Run::File(reader) => reader,
        };
        let mut sizes = [0; 8];
        match reader.read_exact(&mut sizes) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            read => read?,
        }
        let size = |at: usize| {
            u32::from_le_bytes([sizes[at], sizes[at + 1], sizes[at + 2], sizes[at + 3]])
        };
        let mut key = vec![0; size(0) as usize];
        let mut value = vec![0; size(4) as usize];
        reader.read_exact(&mut key)?;
        reader.read_exact(&mut value)?;
        Ok(Some((key, value)))
    }
}

/// A key, the run that has it, and its record.
type Head = (Vec<u8>, usize, Vec<u8>);

/// Records of several runs in one order.
pub(super) struct Merged<'a> {
    /// The next record of each run; of equal keys the newest run's comes last.
    heads: BinaryHeap<Reverse<Head>>,
    runs: Vec<Run<'a>>,
}

impl Merged<'_> {
    fn advance(&mut self, run: usize) -> io::Result<()> {
        if let Some((key, value)) = self.runs[run].next()? {
            self.heads.push(Reverse((key, run, value)));
        }
        Ok(())
    }

    fn pop(&mut self) -> io::Result<Option<Record>> {
        let Some(Reverse((key, run, value))) = self.heads.pop() else {
            return Ok(None);
        };
        self.advance(run)?;
        Ok(Some((key, value)))
    }

    /// The next record.
    pub(super) fn next(&mut self) -> io::Result<Option<Record>> {
        let Some(mut found) = self.pop()? else {
            return Ok(None);
        };
        while self
            .heads
            .peek()
            .is_some_and(|Reverse((key, _, _))| *key == found.0)
        {
            match self.pop()? {
                Some(newer) => found = newer,
                None => break,
            }
        }
        Ok(Some(found))
    }
}

/// A file that ends with the process.
fn nameless() -> io::Result<File> {
    let name = format!("fader-sort-{}", std::process::id());
    for number in 0_u32.. {
        let path = std::env::temp_dir().join(format!("{name}-{number}"));
        let mut options = File::options();
        match options.read(true).write(true).create_new(true).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
            Ok(file) => {
                std::fs::remove_file(&path)?;
                return Ok(file);
            }
        }
    }
    unreachable!("a free name below 2^32")
}

#[cfg(test)]
mod tests;
