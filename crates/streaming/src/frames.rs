//! Frames between a worker and a program: docs/reference/format/frames.md. Pure.
//!
//! ```text
//!  frame := kind:u8 bytes:u32 body
//! ```
//!
//! Numbers are big-endian.
//!
//! Invariants:
//! - STREAM-1 no length is trusted: a frame of the program has at most [`FRAME_BYTES_MAX`] bytes,
//!   and a record ends within its frame.
//! - STREAM-2 a program's first frame says its format, its last one says that it is done.

use fader_mapreduce::{Failure, KEY_BYTES_MAX, Outcome, VALUE_BYTES_MAX};
use serde::{Deserialize, Serialize};

/// The format of both directions.
pub(crate) const FORMAT: u32 = 1;
/// Bytes of a frame's head.
const HEAD: usize = 5;
/// Bytes of a frame's body, at most: a pair with its lengths.
pub(crate) const FRAME_BYTES_MAX: usize = KEY_BYTES_MAX + VALUE_BYTES_MAX + 64;

/// What the worker says first.
#[derive(Debug, Serialize)]
pub(crate) struct Hello<'a> {
    pub(crate) format: u32,
    /// `map` or `reduce`.
    pub(crate) role: &'static str,
    pub(crate) job: &'a str,
    pub(crate) task: &'a str,
    pub(crate) attempt: &'a str,
    pub(crate) reduces: u32,
    /// Bytes of a frame's body, at most.
    pub(crate) frame_bytes_max: usize,
}

/// What a program answers.
#[derive(Debug, Deserialize)]
struct Greeting {
    format: u32,
}

/// What stands in a frame to a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The first frame: JSON.
    Hello,
    /// To a mapper: an object of the input begins. JSON.
    Source,
    /// To a mapper: whole lines.
    Lines,
    /// To a mapper: one record, the whole object.
    Whole,
    /// To a reducer: a key begins.
    Key,
    /// To a reducer: values of the key, each after its length.
    Values,
    /// There is no more.
    End,
}

impl Kind {
    fn byte(self) -> u8 {
        match self {
            Kind::Hello => b'H',
            Kind::Source => b'S',
            Kind::Lines => b'L',
            Kind::Whole => b'W',
            Kind::Key => b'K',
            Kind::Values => b'V',
            Kind::End => b'E',
        }
    }
}

/// Adds a frame.
pub(crate) fn put(kind: Kind, body: &[u8], out: &mut Vec<u8>) {
    out.push(kind.byte());
    out.extend_from_slice(&(body.len() as u32).to_be_bytes());
    out.extend_from_slice(body);
}

/// Adds bytes after their length.
pub(crate) fn put_sized(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
    out.extend_from_slice(bytes);
}

/// Cuts bytes that come in pieces into frames.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    begun: Vec<u8>,
}

impl Frames {
    /// Gives each whole frame: its kind's byte, then its body.
    ///
    /// # Errors
    /// `Task`: a frame is too large. Those of `take`.
    pub(crate) fn feed(
        &mut self,
        bytes: &[u8],
        take: &mut dyn FnMut(&[u8]) -> Outcome<()>,
    ) -> Outcome<()> {
        self.begun.extend_from_slice(bytes);
        let mut at = 0;
        while let Some(head) = self.begun.get(at..at + HEAD) {
            let size = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
            if FRAME_BYTES_MAX < size {
                let text = format!("a frame of {size} bytes: at most {FRAME_BYTES_MAX}");
                return Err(Failure::task(text));
            }
            let end = at + HEAD + size;
            if self.begun.len() < end {
                break;
            }
            // The kind goes beside its body.
            self.begun[at + HEAD - 1] = self.begun[at];
            take(&self.begun[at + HEAD - 1..end])?;
            at = end;
        }
        self.begun.drain(..at);
        Ok(())
    }

    /// The program's output is over.
    ///
    /// # Errors
    /// `Task`: a frame is cut off.
    pub(crate) fn finish(&mut self) -> Outcome<()> {
        match self.begun.is_empty() {
            true => Ok(()),
            false => Err(Failure::task("its last frame is cut off")),
        }
    }
}

/// What a program says: its frames in their order.
#[derive(Debug, Default)]
pub(crate) struct Reply {
    is_greeted: bool,
    is_done: bool,
}

/// Takes what a program says.
pub(crate) trait Hear {
    /// A pair for an output.
    fn pair(&mut self, output: u8, key: &[u8], value: &[u8]) -> Outcome<()>;
    /// A counter is raised.
    fn count(&mut self, name: &str, number: u64);
}

impl Reply {
    /// Whether it said that it is done.
    pub(crate) fn is_done(&self) -> bool {
        self.is_done
    }

    /// The next frame, as [`Frames::feed`] gives it.
    ///
    /// # Errors
    /// `Task`: the frame is none that may come now. Those of `hear`.
    pub(crate) fn take(&mut self, frame: &[u8], hear: &mut dyn Hear) -> Outcome<()> {
        let Some((kind, body)) = frame.split_first() else {
            return Err(Failure::task("a frame without a kind"));
        };
        if !self.is_greeted {
            return self.greet(*kind, body);
        }
        if self.is_done {
            return Err(Failure::task("it wrote after it said that it is done"));
        }
        match *kind {
            b'P' => pairs(body, hear),
            b'C' => {
                let counters: std::collections::BTreeMap<String, u64> = json(body)?;
                counters
                    .iter()
                    .for_each(|(name, number)| hear.count(name, *number));
                Ok(())
            }
            b'E' => {
                self.is_done = true;
                Ok(())
            }
            kind => Err(Failure::task(format!(
                "a frame of kind {:?}: there are P, C and E",
                char::from(kind)
            ))),
        }
    }

    fn greet(&mut self, kind: u8, body: &[u8]) -> Outcome<()> {
        if kind != b'H' {
            let text = "its output begins with no greeting: a program that is asked for frames \
                        writes nothing else to its standard output";
            return Err(Failure::task(text));
        }
        let Greeting { format } = json(body)?;
        if format != FORMAT {
            let text = format!("it speaks format {format} of frames, this worker {FORMAT}");
            return Err(Failure::Job(text));
        }
        self.is_greeted = true;
        Ok(())
    }
}

fn json<T: for<'de> Deserialize<'de>>(body: &[u8]) -> Outcome<T> {
    serde_json::from_slice(body).map_err(|error| Failure::task(format!("a frame of JSON: {error}")))
}

fn pairs(body: &[u8], hear: &mut dyn Hear) -> Outcome<()> {
    let cut_off = || Failure::task("a frame of pairs ends within a pair");
    let (output, mut rest) = body.split_first().ok_or_else(cut_off)?;
    while !rest.is_empty() {
        let (key, after) = sized(rest).ok_or_else(cut_off)?;
        let (value, after) = sized(after).ok_or_else(cut_off)?;
        hear.pair(*output, key, value)?;
        rest = after;
    }
    Ok(())
}

fn sized(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (size, rest) = bytes.split_first_chunk::<4>()?;
    rest.split_at_checked(u32::from_be_bytes(*size) as usize)
}

#[cfg(test)]
mod tests;
