//! Writing a page: cells in the order of their keys become bytes.

use crate::envelope::{Envelope, NONCE_BYTES};
use crate::key::KeyRef;
use crate::page::{
    ALIVE, CHILD_BYTES, DIRECTORY_BYTES, HAS_RIGHT, HEADER_BYTES, LIFE, OBJECT, Page, PageId,
    VALUE, head_of,
};
use crate::record::Pointer;
use crate::slot::{PayloadRef, SlotRef};
use crate::stamp::Stamp;

/// What a new version of a page needs from outside: a core has neither a clock nor randomness.
pub struct Edition<'a> {
    /// Id of the key that will seal the pages; 0 for pages in clear.
    pub key: u64,
    /// Wall clock, milliseconds since 1970.
    pub written_ms: u64,
    /// A source of random bytes: nonces and the ids of new pages. It must be unpredictable across
    /// processes.
    pub random: &'a mut dyn FnMut() -> [u8; NONCE_BYTES],
}

impl std::fmt::Debug for Edition<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (key, written_ms) = (&self.key, &self.written_ms);
        let mut form = f.debug_struct("Edition");
        form.field("key", key)
            .field("written_ms", written_ms)
            .finish_non_exhaustive()
    }
}

impl Edition<'_> {
    pub(crate) fn envelope(&mut self, lsn: u64) -> Envelope {
        Envelope {
            lsn,
            key: self.key,
            nonce: (self.random)(),
            written_ms: self.written_ms,
        }
    }

    /// The id of a new page, random per attempt.
    pub(crate) fn page_id(&mut self) -> PageId {
        let bytes = (self.random)();
        PageId(u128::from_be_bytes(*bytes.first_chunk().expect("24 bytes")))
    }
}

/// What stands at a key.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Content<'a> {
    Slot(SlotRef<'a>),
    Child(PageId),
}

/// A key and what stands at it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell<'a> {
    pub(crate) key: KeyRef<'a>,
    pub(crate) content: Content<'a>,
}

impl Cell<'_> {
    /// Bytes that the cell takes in a page whose keys have a common prefix of `prefix` bytes.
    pub(crate) fn bytes(&self, prefix: usize) -> usize {
        let content = match &self.content {
            Content::Child(_) => CHILD_BYTES,
            Content::Slot(slot) => 3 + stamps(slot) * Stamp::BYTES + payload_bytes(slot),
        };
        DIRECTORY_BYTES + content + self.key.len() - prefix
    }

    fn write(&self, prefix: usize, out: &mut Vec<u8>) {
        let slot = match &self.content {
            Content::Child(child) => {
                out.extend_from_slice(&child.0.to_be_bytes());
                return self.key.append_from(prefix, out);
            }
            Content::Slot(slot) => slot,
        };
        let suffix = u16::try_from(self.key.len() - prefix).expect("a checked key");
        out.extend_from_slice(&suffix.to_be_bytes());
        out.push(flags(slot));
        self.key.append_from(prefix, out);
        for stamp in slot
            .life
            .map(|life| life.stamp)
            .into_iter()
            .chain(slot.value)
        {
            out.extend_from_slice(&stamp.to_bytes());
        }
        match slot.payload {
            Some(PayloadRef::Inline(bytes)) => out.extend_from_slice(bytes),
            Some(PayloadRef::Object(pointer)) => out.extend_from_slice(&pointer.to_bytes()),
            None => {}
        }
    }
}

/// The parts of a page that are not its cells.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame<'a> {
    pub(crate) level: u8,
    pub(crate) low: &'a [u8],
    /// High key and right sibling.
    pub(crate) right: Option<(&'a [u8], PageId)>,
    pub(crate) horizon: Stamp,
}

impl Frame<'_> {
    /// Bytes of a page beside its cells, envelope included.
    pub(crate) fn bytes(&self, prefix: usize) -> usize {
        let high = self.right.map_or(0, |(high, _)| high.len());
        crate::envelope::ENVELOPE_BYTES + HEADER_BYTES + self.low.len() + high + prefix + 4
    }

    /// The page of `cells`, which are in the order of their keys.
    pub(crate) fn page(&self, cells: &[Cell<'_>], envelope: Envelope) -> Page {
        let prefix = common_prefix(cells);
        let size: usize = cells.iter().map(|cell| cell.bytes(prefix)).sum();
        let size = size + self.bytes(prefix) - crate::envelope::ENVELOPE_BYTES;
        let mut out = Vec::with_capacity(size);
        self.write_header(prefix, cells, &mut out);
        for cell in cells {
            out.extend_from_slice(&head(cell.key, prefix).to_be_bytes());
        }
        let offsets = out.len();
        out.resize(offsets + (cells.len() + 1) * 4, 0);
        let number = |size: usize| u32::try_from(size).expect("a bounded page").to_be_bytes();
        for (index, cell) in cells.iter().enumerate() {
            let at = number(out.len());
            out[offsets + index * 4..][..4].copy_from_slice(&at);
            cell.write(prefix, &mut out);
        }
        let at = number(out.len());
        out[offsets + cells.len() * 4..][..4].copy_from_slice(&at);
        assert_eq!(
            out.len(),
            size,
            "the size of a page is known before it is written"
        );
        Page::parse(envelope, out.into()).expect("a page that was just written")
    }

    fn write_header(&self, prefix: usize, cells: &[Cell<'_>], out: &mut Vec<u8>) {
        let (high, right) = self.right.unwrap_or((&[], PageId(0)));
        out.push(self.level);
        out.push(if self.right.is_some() { HAS_RIGHT } else { 0 });
        for size in [self.low.len(), high.len(), prefix] {
            let size = u16::try_from(size).expect("a checked key");
            out.extend_from_slice(&size.to_be_bytes());
        }
        let count = u32::try_from(cells.len()).expect("a bounded page");
        out.extend_from_slice(&count.to_be_bytes());
        out.extend_from_slice(&self.horizon.to_bytes());
        out.extend_from_slice(&right.0.to_be_bytes());
        out.extend_from_slice(self.low);
        out.extend_from_slice(high);
        if let Some(first) = cells.first() {
            out.extend_from_slice(&first.key.to_vec()[..prefix]);
        }
    }
}

impl Page {
    /// The next version of the page, with the same contents: a client that read an older version
    /// cannot replace the page any more. It is sealed with the edition's key.
    #[must_use]
    pub fn renewed(&self, edition: &mut Edition<'_>) -> Page {
        let envelope = edition.envelope(self.lsn() + 1);
        Page::parse(envelope, self.body().clone()).expect("the body of a page")
    }
}

/// Bytes that all keys begin with. Keys ascend, so the first and the last decide.
pub(crate) fn common_prefix(cells: &[Cell<'_>]) -> usize {
    match cells {
        [] => 0,
        // One key alone: all of it is prefix.
        [first, .., last] => common(&first.key.to_vec(), &last.key.to_vec()),
        [one] => one.key.len(),
    }
}

/// Bytes that both keys begin with.
pub(crate) fn common(one: &[u8], other: &[u8]) -> usize {
    one.iter().zip(other).take_while(|(a, b)| a == b).count()
}

fn head(key: KeyRef<'_>, prefix: usize) -> u32 {
    if let Some(from) = prefix.checked_sub(key.prefix.len()) {
        return head_of(&key.suffix[from..]);
    }
    let mut bytes = Vec::with_capacity(key.len() - prefix);
    key.append_from(prefix, &mut bytes);
    head_of(&bytes)
}

fn stamps(slot: &SlotRef<'_>) -> usize {
    usize::from(slot.life.is_some()) + usize::from(slot.value.is_some())
}

fn payload_bytes(slot: &SlotRef<'_>) -> usize {
    match slot.payload {
        Some(PayloadRef::Inline(bytes)) => bytes.len(),
        Some(PayloadRef::Object(_)) => Pointer::BYTES,
        None => 0,
    }
}

fn flags(slot: &SlotRef<'_>) -> u8 {
    let mut flags = 0;
    let mut set = |flag, is_set| flags |= if is_set { flag } else { 0 };
    set(LIFE, slot.life.is_some());
    set(ALIVE, slot.is_alive());
    set(VALUE, slot.value.is_some());
    set(OBJECT, matches!(slot.payload, Some(PayloadRef::Object(_))));
    flags
}
