//! A part of a key: `-k2.3,4nr`.

use std::ops::Range;

/// A range of fields and characters of a key, both counted from 1, and how it is compared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Field {
    /// The first field and its first character.
    begin: (usize, usize),
    /// The last field and its last character: 0 is the field's last. Without it, the key's end.
    end: Option<(usize, usize)>,
    /// As a number, not as bytes.
    numeric: bool,
    /// Greatest first.
    reverse: bool,
    /// Whether it is the whole key, with any separator of fields.
    is_whole: bool,
}

/// The fields of options such as `-k1,1 -k2,2nr`, or `-n`. Options that Hadoop ignores are ignored.
///
/// # Errors
/// The part that is no field.
pub(crate) fn fields(options: &str) -> Result<Vec<Field>, String> {
    let mut global = Field {
        begin: (1, 1),
        is_whole: true,
        ..Field::default()
    };
    let mut fields = Vec::new();
    let mut words = options.split_whitespace();
    while let Some(word) = words.next() {
        match word {
            "-n" => global.numeric = true,
            "-r" => global.reverse = true,
            "-nr" => (global.numeric, global.reverse) = (true, true),
            _ => {}
        }
        let Some(rest) = word.strip_prefix("-k") else {
            continue;
        };
        let text = match rest {
            "" => words.next().unwrap_or_default(),
            rest => rest,
        };
        fields.push(field(text).ok_or_else(|| text.to_owned())?);
    }
    for one in fields.iter_mut().filter(|one| !one.numeric && !one.reverse) {
        (one.numeric, one.reverse) = (global.numeric, global.reverse);
    }
    if fields.is_empty() && !options.trim().is_empty() {
        fields.push(global);
    }
    Ok(fields)
}

fn field(text: &str) -> Option<Field> {
    let (begin, end) = match text.split_once(',') {
        Some((begin, end)) => (begin, Some(end)),
        None => (text, None),
    };
    let mut one = Field::default();
    one.begin = position(begin, 1, &mut one.numeric, &mut one.reverse)?;
    if let Some(end) = end {
        let end = position(end, 0, &mut one.numeric, &mut one.reverse)?;
        one.end = Some(end).filter(|(field, _)| *field != 0);
    }
    Some(one).filter(|one| 0 < one.begin.0 && 0 < one.begin.1)
}

/// `field[.character][nr]`.
fn position(
    text: &str,
    character: usize,
    numeric: &mut bool,
    reverse: &mut bool,
) -> Option<(usize, usize)> {
    let digits = text.trim_end_matches(['n', 'r']);
    *numeric |= text[digits.len()..].contains('n');
    *reverse |= text[digits.len()..].contains('r');
    match digits.split_once('.') {
        Some((field, character)) => Some((field.parse().ok()?, character.parse().ok()?)),
        None => Some((digits.parse().ok()?, character)),
    }
}

impl Field {
    /// Where it is in a key; `None`: the key has no such field.
    pub(super) fn range(&self, key: &[u8], separator: &[u8]) -> Option<Range<usize>> {
        if self.is_whole {
            return Some(0..key.len()).filter(|range| !range.is_empty());
        }
        let begin = place(key, separator, self.begin.0)?.start + self.begin.1 - 1;
        if key.len() <= begin {
            return None;
        }
        let end = self.end.and_then(|(field, character)| {
            let place = place(key, separator, field)?;
            let end = match character {
                0 => place.end,
                character => place.start + character,
            };
            Some(end.min(key.len()))
        });
        let end = end.unwrap_or(key.len());
        Some(begin..end.max(begin))
    }

    /// Appends bytes that compare as this field of the key does. A key without it is the least.
    pub(super) fn put_order(&self, key: &[u8], separator: &[u8], out: &mut Vec<u8>) {
        let from = out.len();
        match self.range(key, separator) {
            None => out.push(0),
            Some(range) => {
                out.push(1);
                match self.numeric {
                    true => put_number(&key[range], out),
                    false => put_text(&key[range], out),
                }
            }
        }
        if self.reverse {
            out[from..].iter_mut().for_each(|byte| *byte = !*byte);
        }
    }
}

/// Where the field of this number is.
fn place(key: &[u8], separator: &[u8], number: usize) -> Option<Range<usize>> {
    let mut start = 0;
    for _ in 1..number {
        start += memchr::memmem::find(&key[start..], separator)? + separator.len();
    }
    let end = memchr::memmem::find(&key[start..], separator);
    Some(start..end.map_or(key.len(), |end| start + end))
}

/// Bytes with an end that is less than any byte: 0 0; a 0 within is 0 255.
fn put_text(text: &[u8], out: &mut Vec<u8>) {
    for byte in text {
        out.push(*byte);
        if *byte == 0 {
            out.push(u8::MAX);
        }
    }
    out.extend_from_slice(&[0, 0]);
}

/// A decimal number: sign, count of digits before the point, digits, end. What is no number is 0.
fn put_number(text: &[u8], out: &mut Vec<u8>) {
    let text = text.trim_ascii();
    let (is_negative, text) = match text.strip_prefix(b"-") {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let digits = |text: &[u8]| {
        let end = text.iter().position(|byte| !byte.is_ascii_digit());
        end.unwrap_or(text.len())
    };
    let (whole, rest) = text.split_at(digits(text));
    let part = rest.strip_prefix(b".").unwrap_or_default();
    let part = &part[..digits(part)];
    let zeros = whole.iter().take_while(|byte| **byte == b'0').count();
    let whole = &whole[zeros..];
    let zeros = part.iter().rev().take_while(|byte| **byte == b'0').count();
    let part = &part[..part.len() - zeros];
    let is_zero = whole.is_empty() && part.is_empty();
    out.push(if is_negative && !is_zero { 0 } else { 1 });
    let from = out.len();
    out.extend_from_slice(&(whole.len() as u32).to_be_bytes());
    out.extend_from_slice(whole);
    out.extend_from_slice(part);
    out.push(0);
    if is_negative && !is_zero {
        out[from..].iter_mut().for_each(|byte| *byte = !*byte);
    }
}
