//! Percent encoding as requests carry it and as signatures want it.
//!
//! Decoding takes `+` for a space, as forms and AWS's query strings do. Encoding is RFC 3986's:
//! everything but `A-Z a-z 0-9 - . _ ~` becomes `%XX`, upper case.

use std::borrow::Cow;

/// Why encoded text cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Malformed {
    /// `%` without two hexadecimal digits after it.
    Percent,
    /// The decoded bytes are not UTF-8.
    Utf8,
}

/// Decodes form text. Borrows when there is nothing to decode.
pub(crate) fn decode(raw: &[u8]) -> Result<Cow<'_, str>, Malformed> {
    decode_with(raw, b' ')
}

/// Decodes a path, in which `+` stands for itself.
pub(crate) fn decode_path(raw: &[u8]) -> Result<Cow<'_, str>, Malformed> {
    decode_with(raw, b'+')
}

fn decode_with(raw: &[u8], plus: u8) -> Result<Cow<'_, str>, Malformed> {
    if all(raw, |byte| !matches!(byte, b'%' | b'+')) {
        return std::str::from_utf8(raw)
            .map(Cow::Borrowed)
            .map_err(|_| Malformed::Utf8);
    }
    let mut text = Vec::with_capacity(raw.len());
    let mut rest = raw.iter();
    while let Some(&byte) = rest.next() {
        text.push(match byte {
            b'+' => plus,
            b'%' => {
                let high = rest.next().and_then(digit).ok_or(Malformed::Percent)?;
                let low = rest.next().and_then(digit).ok_or(Malformed::Percent)?;
                high << 4 | low
            }
            plain => plain,
        });
    }
    String::from_utf8(text)
        .map(Cow::Owned)
        .map_err(|_| Malformed::Utf8)
}

fn digit(byte: &u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

/// Appends `text`, encoded.
pub(crate) fn encode(text: &str, out: &mut Vec<u8>) {
    if all(text.as_bytes(), is_unreserved) {
        out.extend_from_slice(text.as_bytes());
    } else {
        out.extend(encoded(text));
    }
}

/// The bytes of `text`, encoded; for comparing two texts by what signatures sort.
pub(crate) fn encoded(text: &str) -> impl Iterator<Item = u8> + '_ {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    text.bytes().flat_map(|byte| {
        let (bytes, count) = if is_unreserved(byte) {
            ([byte, 0, 0], 1)
        } else {
            (
                [
                    b'%',
                    HEX[usize::from(byte >> 4)],
                    HEX[usize::from(byte & 15)],
                ],
                3,
            )
        };
        bytes.into_iter().take(count)
    })
}

/// Whether every byte is so: whether the least answer is yes. A minimum has no early end, so that
/// many bytes are compared at once.
fn all(bytes: &[u8], is_so: impl Fn(u8) -> bool) -> bool {
    bytes.iter().map(|&byte| is_so(byte)).min() != Some(false)
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

#[cfg(test)]
mod tests;
