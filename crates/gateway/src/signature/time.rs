//! The times that signatures carry, as seconds since 1970.

use jiff::civil::{Date, DateTime, Time};
use jiff::fmt::rfc2822::DateTimeParser;
use jiff::tz::Offset;

/// The longest time that is read at all.
const TEXT_BYTES_MAX: usize = 64;

/// An ISO 8601 time, with `Z`, an offset or neither (then it is UTC), with or without fractions.
pub(super) fn iso(text: &str) -> Option<i64> {
    if text.len() > TEXT_BYTES_MAX {
        return None;
    }
    let timestamp = match text.parse::<jiff::Timestamp>() {
        Ok(timestamp) => timestamp,
        Err(_) => Offset::UTC
            .to_timestamp(text.parse::<DateTime>().ok()?)
            .ok()?,
    };
    Some(timestamp.as_second())
}

/// The one form that version 4 takes: `20261120T212043Z`.
pub(super) fn basic(text: &str) -> Option<i64> {
    let bytes: &[u8; 16] = text.as_bytes().try_into().ok()?;
    if bytes[8] != b'T' || bytes[15] != b'Z' {
        return None;
    }
    let number = |range: std::ops::Range<usize>| -> Option<i16> {
        bytes[range].iter().try_fold(0, |sum: i16, byte| {
            byte.is_ascii_digit()
                .then(|| sum * 10 + i16::from(byte - b'0'))
        })
    };
    let small = |range| number(range).and_then(|number| i8::try_from(number).ok());
    let date = Date::new(number(0..4)?, small(4..6)?, small(6..8)?).ok()?;
    let time = Time::new(small(9..11)?, small(11..13)?, small(13..15)?, 0).ok()?;
    Some(
        Offset::UTC
            .to_timestamp(date.to_datetime(time))
            .ok()?
            .as_second(),
    )
}

/// A date of HTTP or of mail, or one of the forms above.
pub(crate) fn http(text: &str) -> Option<i64> {
    if text.len() > TEXT_BYTES_MAX {
        return None;
    }
    // A wrong day of the week is passed over.
    static PARSER: DateTimeParser = DateTimeParser::new().relaxed_weekday(true);
    let parsed = PARSER.parse_timestamp(text).ok();
    let seconds = parsed.map(jiff::Timestamp::as_second);
    seconds.or_else(|| basic(text)).or_else(|| iso(text))
}

/// The form that version 4 takes, of a date of HTTP.
pub(super) fn basic_of_http(text: &str) -> Option<String> {
    let at = jiff::Timestamp::from_second(http(text)?).ok()?;
    Some(at.strftime("%Y%m%dT%H%M%SZ").to_string())
}

#[cfg(test)]
mod tests;
