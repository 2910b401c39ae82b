//! The messages of the shuffle `queue`: how a run is cut into them, and how a reducer gathers them.
//! Pure.
//!
//! ```text
//!  message := task SP attempt SP sequence SP content
//!  content := "b" SP base64 of blocks | "o" SP object SP bytes        an object of the attempt
//! ```
//!
//! Sequences count the messages of an attempt for one partition, from 0, through all its segments.
//!
//! Invariants:
//! - QUEUE-1 messages of attempts that are not in the list are ignored.
//! - QUEUE-2 of each sequence of a winner one message counts.
//! - QUEUE-3 all is gathered when each sequence that the winners' manifests name is there.

use std::collections::HashMap;
use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use fader_cloud::MESSAGE_BYTES_MAX;
use serde::{Deserialize, Serialize};

use crate::failure::{Failure, Outcome};
use crate::guard::{Guard, Guards};
use crate::mutant::Wrong;
use crate::shuffle::{BLOCK_HEAD, BlockHead};

/// Bytes of a message besides its content, at most.
const TAG_BYTES: usize = 80;
/// Bytes of the blocks of a message, at most: four letters for each three bytes.
pub(crate) const CONTENT_BYTES: usize = (MESSAGE_BYTES_MAX - TAG_BYTES) / 4 * 3;

/// What an attempt sent to a partition of one segment. In JSON it is an array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "(u64, u64, u64)")]
pub(crate) struct Sent {
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
    pub(crate) records: u64,
}

impl From<Sent> for (u64, u64, u64) {
    fn from(sent: Sent) -> Self {
        (sent.messages, sent.bytes, sent.records)
    }
}

/// Cuts the blocks of a run into the contents of messages. One that is larger than a message is a
/// single block, and goes into an object.
pub(crate) fn cut(run: &[u8]) -> Outcome<Vec<Range<usize>>> {
    let mut contents = Vec::new();
    let (mut begin, mut at) = (0, 0);
    while at < run.len() {
        let end = at + BLOCK_HEAD + BlockHead::parse(&run[at..])?.stored;
        if CONTENT_BYTES < end - begin && begin < at {
            contents.push(begin..at);
            begin = at;
        }
        at = end;
    }
    if begin < run.len() {
        contents.push(begin..run.len());
    }
    Ok(contents)
}

/// What names a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag<'a> {
    pub(crate) task: &'a str,
    pub(crate) attempt: &'a str,
    pub(crate) sequence: u64,
}

impl Tag<'_> {
    fn text(&self) -> String {
        format!("{} {} {}", self.task, self.attempt, self.sequence)
    }

    /// A message with its blocks.
    pub(crate) fn of_blocks(&self, blocks: &[u8]) -> String {
        let mut text = self.text();
        text.push_str(" b ");
        STANDARD.encode_string(blocks, &mut text);
        text
    }

    /// A message whose blocks are in an object of the attempt.
    pub(crate) fn of_object(&self, name: &str, bytes: usize) -> String {
        format!("{} o {name} {bytes}", self.text())
    }
}

/// The content of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    Blocks(Bytes),
    /// An object's name below its attempt, and its size.
    Object(String, u64),
    /// An object of the reduce attempt: name, place, size.
    Kept(String, u64, u64),
}

impl Content {
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Content::Blocks(blocks) => blocks.len() as u64,
            Content::Object(_, bytes) | Content::Kept(_, _, bytes) => *bytes,
        }
    }

    fn parse(text: &str) -> Option<Content> {
        match text.split_once(' ')? {
            ("b", text) => STANDARD
                .decode(text)
                .ok()
                .map(|it| Content::Blocks(it.into())),
            ("o", text) => {
                let (name, bytes) = text.split_once(' ')?;
                let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
                let name = Some(name).filter(|name| name.chars().all(is_plain))?;
                Some(Content::Object(name.to_owned(), bytes.parse().ok()?))
            }
            _ => None,
        }
    }
}

fn parse(body: &str) -> Option<(Tag<'_>, &str)> {
    let (task, rest) = body.split_once(' ')?;
    let (attempt, rest) = rest.split_once(' ')?;
    let (sequence, content) = rest.split_once(' ')?;
    let tag = Tag {
        task,
        attempt,
        sequence: sequence.parse().ok()?,
    };
    Some((tag, content))
}

/// A winner whose messages are gathered.
#[derive(Clone, Debug, Default)]
pub(crate) struct Expected {
    pub(crate) task: String,
    pub(crate) attempt: String,
    /// What it sent of each segment.
    pub(crate) sent: Vec<Sent>,
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// It is the first of its sequence.
    New,
    /// It is there already.
    Repeat,
    /// It is of an attempt that did not win.
    Losers,
}

/// Gathers the messages of one partition.
#[derive(Debug)]
pub(crate) struct Gather {
    guards: Guards,
    expected: Vec<Expected>,
    winners: HashMap<(String, String), usize>,
    /// Of each winner, the contents by their sequences.
    contents: Vec<Vec<Option<Content>>>,
    missing: u64,
    wrong: Wrong,
}

impl Gather {
    pub(crate) fn new(expected: Vec<Expected>, guards: Guards) -> Self {
        let count = |one: &Expected| one.sent.iter().map(|sent| sent.messages).sum::<u64>();
        let name = |(number, one): (usize, &Expected)| {
            let attempt = match guards.has(Guard::LosersDropped) {
                true => one.attempt.clone(),
                false => String::new(),
            };
            ((one.task.clone(), attempt), number)
        };
        Gather {
            winners: expected.iter().enumerate().map(name).collect(),
            contents: expected
                .iter()
                .map(|one| vec![None; count(one) as usize])
                .collect(),
            missing: expected.iter().map(count).sum(),
            wrong: Wrong::default(),
            expected,
            guards,
        }
    }

    /// Messages that are not there yet.
    pub(crate) fn missing(&self) -> u64 {
        self.missing
    }

    /// Takes a message.
    ///
    /// # Errors
    /// `Task`: a winner's message is damaged.
    pub(crate) fn take(&mut self, body: &str) -> Outcome<Taken> {
        let damaged = || Failure::task("a message of the shuffle is damaged");
        let (tag, content) = parse(body).ok_or_else(damaged)?;
        if !self.guards.has(Guard::AttemptsBits)
            && !self.wrong.seen.insert((tag.task.to_owned(), tag.sequence))
        {
            return Ok(Taken::Repeat);
        }
        let attempt = match self.guards.has(Guard::LosersDropped) {
            true => tag.attempt,
            false => "",
        };
        let name = (tag.task.to_owned(), attempt.to_owned());
        let Some(winner) = self.winners.get(&name).copied() else {
            return Ok(Taken::Losers);
        };
        let content = Content::parse(content).ok_or_else(damaged)?;
        let slot = usize::try_from(tag.sequence).ok();
        let slot = slot.and_then(|at| self.contents[winner].get_mut(at));
        match slot {
            Some(slot @ None) => *slot = Some(content),
            Some(Some(_)) if !self.guards.has(Guard::OneOfEach) => {
                self.wrong.repeats.push(content);
            }
            Some(Some(_)) => return Ok(Taken::Repeat),
            None if !self.guards.has(Guard::LosersDropped) => return Ok(Taken::Losers),
            None => return Err(damaged()),
        }
        self.missing = self.missing.saturating_sub(1);
        Ok(Taken::New)
    }

    /// Moves all blocks that are in memory to an object, so that neighbours stay neighbours: its
    /// bytes.
    pub(crate) fn keep(&mut self, name: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        for content in self.contents.iter_mut().flatten().flatten() {
            if let Content::Blocks(blocks) = content {
                let at = bytes.len() as u64;
                bytes.extend_from_slice(blocks);
                *content = Content::Kept(name.to_owned(), at, blocks.len() as u64);
            }
        }
        bytes
    }

    /// The runs: of each winner and segment the contents in order, with bytes and records.
    pub(crate) fn runs(self) -> Vec<(Expected, Sent, Vec<Content>)> {
        let mut runs = Vec::new();
        for (one, contents) in self.expected.into_iter().zip(self.contents) {
            let mut contents = contents.into_iter();
            for sent in &one.sent {
                let of = contents.by_ref().take(sent.messages as usize).flatten();
                let of: Vec<Content> = of.collect();
                if 0 < sent.records {
                    runs.push((one.clone(), *sent, of));
                }
            }
        }
        runs.extend(self.wrong.runs());
        runs
    }
}

#[cfg(test)]
mod tests;
