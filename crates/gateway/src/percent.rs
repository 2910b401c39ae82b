//! Percent encoding as requests carry it and as signatures want it.
//!
//! Decoding takes `+` for a space, as forms and AWS's query strings do. Encoding is RFC 3986's:
//! everything but `A-Z a-z 0-9 - . _ ~` becomes `%XX`, upper case.

use std::borrow::Cow;

use memchr::memchr2;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// Why encoded text cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Malformed {
    /// `%` without two hexadecimal digits after it.
    Percent,
    /// The decoded bytes are not UTF-8.
    Utf8,
}

/// Decodes form text. Borrows when there is nothing to decode.
///
/// # Errors
/// [`Malformed`].
pub(crate) fn decode(raw: &str) -> Result<Cow<'_, str>, Malformed> {
    decode_with(raw, b' ')
}

/// Decodes a path, in which `+` stands for itself.
///
/// # Errors
/// [`Malformed`].
pub(crate) fn decode_path(raw: &str) -> Result<Cow<'_, str>, Malformed> {
    decode_with(raw, b'+')
}

fn decode_with(raw: &str, plus: u8) -> Result<Cow<'_, str>, Malformed> {
    let mut rest = raw.as_bytes();
    let Some(mut at) = memchr2(b'%', b'+', rest) else {
        return Ok(Cow::Borrowed(raw));
    };
    let mut text = Vec::with_capacity(raw.len());
    loop {
        text.extend_from_slice(&rest[..at]);
        match rest[at..] {
            [b'+', ..] => {
                text.push(plus);
                rest = &rest[at + 1..];
            }
            [_, high, low, ..] => {
                let digits = digit(high).zip(digit(low));
                let (high, low) = digits.ok_or(Malformed::Percent)?;
                text.push(high << 4 | low);
                rest = &rest[at + 3..];
            }
            _ => return Err(Malformed::Percent),
        }
        match memchr2(b'%', b'+', rest) {
            Some(next) => at = next,
            None => break,
        }
    }
    text.extend_from_slice(rest);
    String::from_utf8(text)
        .map(Cow::Owned)
        .map_err(|_| Malformed::Utf8)
}

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

/// Octets that are escaped: all but letters, digits and `-._~`.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Appends `text`, encoded.
pub(crate) fn encode(text: &str, out: &mut Vec<u8>) {
    for part in utf8_percent_encode(text, RESERVED) {
        out.extend_from_slice(part.as_bytes());
    }
}

/// The bytes of `text`, encoded; for comparing two texts by what signatures sort.
pub(crate) fn encoded(text: &str) -> impl Iterator<Item = u8> + '_ {
    utf8_percent_encode(text, RESERVED).flat_map(str::bytes)
}

#[cfg(test)]
mod tests;
