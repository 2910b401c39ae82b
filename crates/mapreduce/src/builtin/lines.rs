//! Programs on lines: `grep`, `sort`, `join`.

use super::{decimal, split_line};
use crate::failure::{Failure, Outcome};
use crate::user::{Batch, Code, Combining, Context, Emit, Map, Part, Reduce};

/// Bytes of the first input's lines of one key that `join` holds at once, at most.
const JOIN_BYTES: usize = 256 << 20;
/// Bytes that a line takes besides its own.
const LINE_BYTES: usize = 32;

/// The lines that a pattern matches.
#[derive(Debug)]
pub(super) struct Grep {
    pub(super) regex: regex::bytes::Regex,
}

impl Code for Grep {
    fn mapper(&self, _: &Context<'_>) -> Outcome<Box<dyn Map>> {
        Ok(Box::new(Matching(self.regex.clone())))
    }

    fn combining(&self) -> Combining {
        Combining::None
    }

    fn reducer(&self, _: &Context<'_>) -> Outcome<Box<dyn Reduce>> {
        Ok(Box::new(Found))
    }
}

struct Matching(regex::bytes::Regex);

impl Map for Matching {
    fn map(&mut self, batch: &Batch<'_>, out: &mut dyn Emit) -> Outcome<()> {
        let mut key = Vec::new();
        for (at, line) in batch.records() {
            if self.0.is_match(line) {
                key.clear();
                key.extend_from_slice(batch.source.as_bytes());
                key.push(0);
                key.extend_from_slice(&at.to_be_bytes());
                out.emit(&key, line);
            }
        }
        Ok(())
    }
}

struct Found;

impl Reduce for Found {
    fn begin(&mut self, _key: &[u8], _out: &mut Part) -> Outcome<()> {
        Ok(())
    }

    fn value(&mut self, key: &[u8], value: &[u8], out: &mut Part) -> Outcome<()> {
        let wrong = || Failure::task("a key of grep is too short");
        let (source, at) = key.split_last_chunk::<8>().ok_or_else(wrong)?;
        out.bytes
            .extend_from_slice(source.strip_suffix(b"\0").ok_or_else(wrong)?);
        out.bytes.push(b'\t');
        decimal(u64::from_be_bytes(*at), &mut out.bytes);
        out.bytes.push(b'\t');
        out.bytes.extend_from_slice(value);
        out.end_line();
        Ok(())
    }

    fn end(&mut self, _key: &[u8], _out: &mut Part) -> Outcome<()> {
        Ok(())
    }
}

/// Lines in the order of their bytes, through all parts.
#[derive(Debug)]
pub(super) struct Sort;

impl Code for Sort {
    fn mapper(&self, _: &Context<'_>) -> Outcome<Box<dyn Map>> {
        Ok(Box::new(LineMapper))
    }

    fn combining(&self) -> Combining {
        Combining::None
    }

    fn reducer(&self, _: &Context<'_>) -> Outcome<Box<dyn Reduce>> {
        Ok(Box::new(LineReducer))
    }

    fn partition(&self, key: &[u8], _hash: u64, _partitions: u32, ranges: &[Vec<u8>]) -> u32 {
        ranges.partition_point(|first| first.as_slice() <= key) as u32
    }

    fn wants_ranges(&self) -> bool {
        true
    }
}

struct LineMapper;

impl Map for LineMapper {
    fn map(&mut self, batch: &Batch<'_>, out: &mut dyn Emit) -> Outcome<()> {
        batch.records().for_each(|(_, line)| out.emit(line, b""));
        Ok(())
    }
}

struct LineReducer;

impl Reduce for LineReducer {
    fn begin(&mut self, _key: &[u8], _out: &mut Part) -> Outcome<()> {
        Ok(())
    }

    fn value(&mut self, key: &[u8], _value: &[u8], out: &mut Part) -> Outcome<()> {
        out.bytes.extend_from_slice(key);
        out.end_line();
        Ok(())
    }

    fn end(&mut self, _key: &[u8], _out: &mut Part) -> Outcome<()> {
        Ok(())
    }
}

/// The pairs of lines of two inputs that have a key in common.
#[derive(Debug)]
pub(super) struct Join;

impl Code for Join {
    fn mapper(&self, _: &Context<'_>) -> Outcome<Box<dyn Map>> {
        Ok(Box::new(SideMapper))
    }

    fn combining(&self) -> Combining {
        Combining::None
    }

    fn reducer(&self, of: &Context<'_>) -> Outcome<Box<dyn Reduce>> {
        Ok(Box::new(Joined {
            bytes_max: JOIN_BYTES.min(of.memory_bytes / 4),
            ..Joined::default()
        }))
    }
}

struct SideMapper;

impl Map for SideMapper {
    fn map(&mut self, batch: &Batch<'_>, out: &mut dyn Emit) -> Outcome<()> {
        let side = match batch.input {
            0 => b'0',
            1 => b'1',
            _ => return Err(Failure::Job("join takes two inputs".to_owned())),
        };
        let mut value = Vec::new();
        for (_, line) in batch.records() {
            let (key, rest) = split_line(line);
            value.clear();
            value.push(side);
            value.extend_from_slice(rest);
            out.emit(key, &value);
        }
        Ok(())
    }
}

/// The first input's lines of the key come first, since values are in order.
#[derive(Default)]
struct Joined {
    first: Vec<Vec<u8>>,
    bytes: usize,
    bytes_max: usize,
}

impl Reduce for Joined {
    fn begin(&mut self, _key: &[u8], _out: &mut Part) -> Outcome<()> {
        self.first.clear();
        self.bytes = 0;
        Ok(())
    }

    fn value(&mut self, key: &[u8], value: &[u8], out: &mut Part) -> Outcome<()> {
        match value.split_first() {
            Some((b'0', rest)) => {
                self.bytes += rest.len() + LINE_BYTES;
                if self.bytes_max < self.bytes {
                    let most = self.bytes_max;
                    return Err(Failure::task(format!(
                        "a key has more than {most} bytes of lines in the first input: swap the \
                         inputs, or give the worker more by --memory"
                    )));
                }
                self.first.push(rest.to_vec());
            }
            Some((b'1', rest)) => {
                for first in &self.first {
                    out.bytes.extend_from_slice(key);
                    out.bytes.push(b'\t');
                    out.bytes.extend_from_slice(first);
                    out.bytes.push(b'\t');
                    out.bytes.extend_from_slice(rest);
                    out.end_line();
                }
            }
            _ => return Err(Failure::task("a value of join has no side")),
        }
        Ok(())
    }

    fn end(&mut self, _key: &[u8], _out: &mut Part) -> Outcome<()> {
        Ok(())
    }
}
