//! The built-in programs.
//!
//! | name | input | a line of the output |
//! |---|---|---|
//! | `word-count` | text | word, TAB, how often |
//! | `inverted-index` | text | word, and each object with it, TABs between |
//! | `reverse-links` | HTML | target, and each object that links to it |
//! | `grep PATTERN` | lines | object, TAB, place in bytes, TAB, line |
//! | `sort` | lines | the line: parts are in order, too |
//! | `join` | two inputs of `key TAB rest` | key, rest of the first, rest of the second |
//! | `count-distinct` | `key TAB value` | key, TAB, how many values differ |
//! | `top N` | `key TAB number` | the N lines with the largest numbers, largest first |

mod counting;
mod indexing;
mod lines;

use std::ops::Range;
use std::sync::Arc;

use crate::failure::{Failure, Outcome};
use crate::user::{Code, Library, Program};

/// The library of built-in programs.
#[derive(Clone, Copy, Debug, Default)]
pub struct BuiltIn;

impl BuiltIn {
    /// The names of all programs.
    pub const NAMES: [&str; 8] = [
        "word-count",
        "inverted-index",
        "reverse-links",
        "grep",
        "sort",
        "join",
        "count-distinct",
        "top",
    ];
}

impl Library for BuiltIn {
    fn open(&self, program: &Program) -> Outcome<Arc<dyn Code>> {
        let arguments: Vec<&str> = program.arguments.iter().map(String::as_str).collect();
        let code: Arc<dyn Code> = match (program.name.as_str(), &arguments[..]) {
            ("word-count", []) => Arc::new(counting::WordCount),
            ("count-distinct", []) => Arc::new(counting::CountDistinct),
            ("inverted-index", []) => Arc::new(indexing::InvertedIndex),
            ("reverse-links", []) => Arc::new(indexing::ReverseLinks),
            ("sort", []) => Arc::new(lines::Sort),
            ("join", []) => Arc::new(lines::Join),
            ("grep", [pattern]) => {
                let regex = regex::bytes::Regex::new(pattern);
                let regex = regex.map_err(|error| Failure::Job(error.to_string()))?;
                Arc::new(lines::Grep { regex })
            }
            ("top", [count]) => {
                let wrong = || Failure::Job(format!("top: {count:?} is no number from 1"));
                let count = count
                    .parse()
                    .ok()
                    .filter(|count| 0 < *count)
                    .ok_or_else(wrong)?;
                Arc::new(counting::Top { count })
            }
            ("grep", _) => return Err(Failure::Job("grep takes one pattern".to_owned())),
            ("top", _) => return Err(Failure::Job("top takes one number".to_owned())),
            (name, _) if BuiltIn::NAMES.contains(&name) => {
                return Err(Failure::Job(format!("{name} takes no arguments")));
            }
            (name, _) => {
                let known = BuiltIn::NAMES.join(", ");
                return Err(Failure::Job(format!(
                    "no program {name:?}; there are {known}"
                )));
            }
        };
        Ok(code)
    }
}

/// The words of bytes: what stands between space, TAB, LF, VT, FF and CR.
pub(crate) fn words(bytes: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = bytes.get(at..)?;
        let begin = at + rest.iter().position(|byte| !is_space(*byte))?;
        at = begin + word_end(&bytes[begin..]);
        Some(begin..at)
    })
}

/// Where the first word ends. Sixteen bytes are looked at together: most words end there.
#[inline]
fn word_end(bytes: &[u8]) -> usize {
    let mut rest = bytes;
    while let Some(some) = rest.first_chunk::<16>() {
        let spaces = spaces(u128::from_le_bytes(*some));
        if spaces != 0 {
            return bytes.len() - rest.len() + spaces.trailing_zeros() as usize / 8;
        }
        rest = &rest[16..];
    }
    let left = rest.iter().position(|byte| is_space(*byte));
    left.map_or(bytes.len(), |left| bytes.len() - rest.len() + left)
}

/// The highest bit of each byte that is a space. No sum of seven bits reaches the next byte.
#[inline]
fn spaces(some: u128) -> u128 {
    const EACH: u128 = u128::from_le_bytes([1; 16]);
    let low = some & (0x7f * EACH);
    let is_not_blank = (low ^ (0x20 * EACH)) + 0x7f * EACH;
    let from_tab = low + (0x80 - 0x09) * EACH;
    let past_return = low + (0x80 - 0x0e) * EACH;
    (!is_not_blank | from_tab & !past_return) & !some & (0x80 * EACH)
}

#[inline]
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// The key of a line `key TAB rest`, and the rest; a line without a TAB is all rest.
fn split_line(line: &[u8]) -> (&[u8], &[u8]) {
    match memchr::memchr(b'\t', line) {
        Some(at) => (&line[..at], &line[at + 1..]),
        None => (b"", line),
    }
}

/// A number in decimal digits.
fn decimal(number: u64, text: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let (mut at, mut rest) = (digits.len(), number);
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    text.extend_from_slice(&digits[at..]);
}

#[cfg(test)]
mod tests;
