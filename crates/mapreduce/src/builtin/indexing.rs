//! Programs that index objects: `inverted-index`, `reverse-links`.

use super::words;
use crate::failure::Outcome;
use crate::user::{Batch, Code, Combining, Context, Emit, Map, Part, Reduce};

/// The objects in which each word is.
#[derive(Debug)]
pub(super) struct InvertedIndex;

impl Code for InvertedIndex {
    fn mapper(&self, _: &Context<'_>) -> Outcome<Box<dyn Map>> {
        Ok(Box::new(WordsOfObject))
    }

    fn combining(&self) -> Combining {
        Combining::Unique
    }

    fn reducer(&self, _: &Context<'_>) -> Outcome<Box<dyn Reduce>> {
        Ok(Box::new(ListOfValues))
    }
}

/// The words of each object. The table takes one of equal pairs.
struct WordsOfObject;

impl Map for WordsOfObject {
    fn map(&mut self, batch: &Batch<'_>, out: &mut dyn Emit) -> Outcome<()> {
        let source = batch.source.as_bytes();
        words(batch.bytes).for_each(|word| out.emit_part(batch.bytes, word, source));
        Ok(())
    }
}

/// Writes a key with all its values in a line.
struct ListOfValues;

impl Reduce for ListOfValues {
    fn begin(&mut self, key: &[u8], out: &mut Part) -> Outcome<()> {
        out.bytes.extend_from_slice(key);
        Ok(())
    }

    fn value(&mut self, _key: &[u8], value: &[u8], out: &mut Part) -> Outcome<()> {
        out.bytes.push(b'\t');
        out.bytes.extend_from_slice(value);
        Ok(())
    }

    fn end(&mut self, _key: &[u8], out: &mut Part) -> Outcome<()> {
        out.end_line();
        Ok(())
    }
}

/// The objects that link to each target.
#[derive(Debug)]
pub(super) struct ReverseLinks;

impl Code for ReverseLinks {
    fn mapper(&self, _: &Context<'_>) -> Outcome<Box<dyn Map>> {
        Ok(Box::new(LinksOfObject))
    }

    fn combining(&self) -> Combining {
        Combining::Unique
    }

    fn reducer(&self, _: &Context<'_>) -> Outcome<Box<dyn Reduce>> {
        Ok(Box::new(ListOfValues))
    }
}

struct LinksOfObject;

impl Map for LinksOfObject {
    fn map(&mut self, batch: &Batch<'_>, out: &mut dyn Emit) -> Outcome<()> {
        for link in links_of(*batch) {
            if let Some(target) = target(batch.source, link) {
                out.emit(&target, batch.source.as_bytes());
            }
        }
        Ok(())
    }
}

/// The links of each record by itself: records may be in any batches.
pub(super) fn links_of(batch: Batch<'_>) -> impl Iterator<Item = &[u8]> {
    batch.records().flat_map(|(_, record)| links(record))
}

/// The values of `href` attributes.
pub(super) fn links(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        loop {
            let at = memchr::memchr2_iter(b'h', b'H', rest).find(|at| {
                rest[*at..]
                    .get(..4)
                    .is_some_and(|name| name.eq_ignore_ascii_case(b"href"))
            })?;
            rest = &rest[at + 4..];
            let after = rest.trim_ascii_start();
            let Some(value) = after.strip_prefix(b"=").map(<[u8]>::trim_ascii_start) else {
                continue;
            };
            let Some((quote, value)) = value.split_first() else {
                continue;
            };
            if !matches!(quote, b'"' | b'\'') {
                continue;
            }
            let end = memchr::memchr(*quote, value)?;
            rest = &value[end..];
            return Some(&value[..end]);
        }
    })
}

/// What a link in an object leads to: without its fragment, and from the root of the input unless
/// it has a scheme. `None` for a place in the object itself.
pub(super) fn target(source: &str, link: &[u8]) -> Option<Vec<u8>> {
    let link = link
        .split(|byte| *byte == b'#')
        .next()
        .unwrap_or_default()
        .trim_ascii();
    let is_plain = |byte: &u8| !matches!(byte, b'\t' | b'\n' | b'\r');
    if link.is_empty() || !link.iter().all(is_plain) {
        return None;
    }
    let colon = link
        .iter()
        .position(|byte| matches!(byte, b':' | b'/' | b'?'));
    if colon.is_some_and(|at| link[at] == b':') || link.starts_with(b"//") {
        return Some(link.to_vec());
    }
    let folder = source.rsplit_once('/').map_or("", |(folder, _)| folder);
    let base = if link.starts_with(b"/") { "" } else { folder };
    let mut parts: Vec<&[u8]> = base.as_bytes().split(|byte| *byte == b'/').collect();
    parts.retain(|part| !part.is_empty());
    for part in link.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    Some(parts.join(&b'/'))
}
