//! Items whose content follows from their number and a stamp, so that any reply can be judged.
//!
//! Item 7 of two attributes with stamp 5 is `item-0000000007`. Its `a1` is 5 in sixteen hexadecimal
//! digits, its `a2` a number mixed from 7, 5 and 2. Who reads `a1` knows what `a2` must be: a reply
//! mixed from two writes is found out. With `groups`, attribute `group` says which of them the item
//! belongs to.

use std::fmt::{self, Display};

use crate::workload::{Form, Verdict};

/// Octets of a number as text.
pub const DIGITS: usize = 16;

/// A set of items in a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Items {
    /// The domain.
    pub domain: String,
    /// How many there are; their keys are below it.
    pub count: u64,
    /// Attributes of each, `group` not counted.
    pub attributes: u64,
    /// Octets of each value: at least [`DIGITS`], which is what a number has.
    pub value_bytes: usize,
    /// Groups the items are dealt to, in turn; none if zero.
    pub groups: u64,
}

impl Items {
    /// Adds an item's attributes to a form, under `prefix` (`Item.1.` in a batch).
    pub(crate) fn put(&self, prefix: &str, key: u64, stamp: u64, replace: bool, form: &mut Form) {
        form.push(format_args!("{prefix}ItemName"), Name(key));
        for index in 1..=self.attributes {
            let prefix = format_args!("{prefix}Attribute.{index}.");
            form.push(format_args!("{prefix}Name"), format_args!("a{index}"));
            let (number, size) = (value(key, stamp, index), self.value_bytes);
            form.push(format_args!("{prefix}Value"), Padded { number, size });
            if replace {
                form.push(format_args!("{prefix}Replace"), "true");
            }
        }
        if let Some(group) = key.checked_rem(self.groups) {
            let prefix = format_args!("{prefix}Attribute.{}.", self.attributes + 1);
            form.push(format_args!("{prefix}Name"), "group");
            form.push(format_args!("{prefix}Value"), Hex(group));
        }
    }

    /// Judges a reply that should hold all of an item's attributes, without a group.
    pub(crate) fn verify(&self, key: u64, stamp: u64, body: &[u8]) -> Verdict {
        let mut texts = Texts { rest: body };
        let mut observed = None;
        for index in 1..=self.attributes {
            let is_name = texts
                .next(b"<Name>")
                .is_some_and(|name| is_attribute(name, index));
            let Some(number) = texts
                .next(b"<Value>")
                .filter(|text| text.len() == self.value_bytes)
                .and_then(parse_hex)
                .filter(|_| is_name)
            else {
                return Verdict::Wrong;
            };
            let seen = *observed.get_or_insert(number);
            if number != value(key, seen, index) {
                return Verdict::Wrong;
            }
        }
        let is_whole = texts.next(b"<Name>").is_none();
        match observed {
            Some(seen) if seen == stamp && is_whole => Verdict::Right(observed),
            _ => Verdict::Wrong,
        }
    }
}

/// An item's name.
pub(crate) struct Name(pub(crate) u64);

/// A value as text: sixteen digits sort as the numbers do.
pub(crate) struct Hex(pub(crate) u64);

/// A number in hexadecimal with as many zeros before it as make `size` digits, which a formatter
/// writes one by one.
struct Padded {
    number: u64,
    size: usize,
}

impl Display for Padded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const ZEROS: &str = "0000000000000000000000000000000000000000000000000000000000000000";
        let digits = (self.number.checked_ilog2().unwrap_or(0) / 4 + 1) as usize;
        let mut zeros = self.size.saturating_sub(digits);
        while 0 < zeros {
            let some = zeros.min(ZEROS.len());
            f.write_str(&ZEROS[..some])?;
            zeros -= some;
        }
        write!(f, "{:x}", self.number)
    }
}

/// The texts of a reply's elements, found by their opening tags, one after the other.
pub(crate) struct Texts<'a> {
    pub(crate) rest: &'a [u8],
}

impl<'a> Texts<'a> {
    /// The text after the next such tag.
    pub(crate) fn next(&mut self, tag: &[u8]) -> Option<&'a [u8]> {
        loop {
            let at = self.rest.iter().position(|&octet| octet == b'<')?;
            self.rest = &self.rest[at..];
            if let Some(rest) = self.rest.strip_prefix(tag) {
                let end = rest.iter().position(|&octet| octet == b'<')?;
                self.rest = &rest[end..];
                return Some(&rest[..end]);
            }
            self.rest = &self.rest[1..];
        }
    }
}

impl Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "item-{:010}", self.0)
    }
}

impl Display for Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The key in an item's name.
pub(crate) fn parse_name(name: &[u8]) -> Option<u64> {
    let digits = name.strip_prefix(b"item-")?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// The key of an item as logs name it, or of the first of a batch.
pub fn key_of(text: &str) -> Option<u64> {
    let name = text.strip_prefix("batch of ").unwrap_or(text);
    parse_name(name.as_bytes())
}

/// What a key and a stamp come to in attribute `index`; the stamp itself in the first.
fn value(key: u64, stamp: u64, index: u64) -> u64 {
    match index {
        1 => stamp,
        _ => mix(key ^ mix(stamp ^ mix(index))),
    }
}

/// Steele, Lea and Flood's SplitMix64: different numbers in, unrelated numbers out.
pub fn mix(number: u64) -> u64 {
    let mut number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

fn parse_hex(text: &[u8]) -> Option<u64> {
    u64::from_str_radix(std::str::from_utf8(text).ok()?, 16).ok()
}

fn is_attribute(name: &[u8], index: u64) -> bool {
    let digits = name
        .strip_prefix(b"a")
        .and_then(|digits| std::str::from_utf8(digits).ok());
    digits.and_then(|digits| digits.parse().ok()) == Some(index)
}

#[cfg(test)]
mod tests;
