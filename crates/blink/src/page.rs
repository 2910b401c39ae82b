//! A page: validated bytes that are searched without decoding them.
//!
//! ```text
//!  0  level u8 (0: leaf)   1  flags u8 (1: has a right sibling)
//!  2  low size u16         4  high size u16       6  prefix size u16
//!  8  count u32           12  horizon stamp, 20 bytes
//! 32  right sibling u128
//! 48  low | high | prefix | head u32 × count | offset u32 × (count + 1) | slots
//!
//! leaf slot:  suffix size u16 | flags u8 | suffix | life stamp? | value stamp? | payload
//!             flags: 1 life, 2 alive, 4 value, 8 the payload is a pointer
//! inner slot: child u128 | suffix
//! ```
//!
//! A key is the page's prefix (common to all its keys) and the slot's suffix. A *head* is the first
//! four bytes of a suffix, padded with zeros. The binary search runs over an array of numbers and
//! rarely looks at a slot. Slots are in the order of their keys, without gaps; `offset[i]..offset[i
//! + 1]` (in the body) is slot `i`.
//!
//! [`Page::parse`] verifies all of that once, so that the accessors have nothing to fail on.

mod table;

use std::cmp::Ordering;
use std::fmt;

use bytes::Bytes;

pub use self::table::KeyTable;

use crate::envelope::Envelope;
use crate::error::PageError;
use crate::key::KeyRef;
use crate::record::{INLINE_BYTES_MAX, KEY_BYTES_MAX, Pointer, Record};
use crate::slot::{Life, PayloadRef, Slot, SlotRef};
use crate::stamp::Stamp;

/// Format of pages that this build writes.
pub const FORMAT: u16 = 1;

/// The largest body of a page, bytes.
pub const PAGE_BYTES_MAX: usize = 1 << 20;

pub(crate) const HEADER_BYTES: usize = 48;
pub(crate) const CHILD_BYTES: usize = 16;
/// Of a slot, in the arrays: head and offset.
pub(crate) const DIRECTORY_BYTES: usize = 8;
pub(crate) const HAS_RIGHT: u8 = 1;
pub(crate) const LIFE: u8 = 1;
pub(crate) const ALIVE: u8 = 2;
pub(crate) const VALUE: u8 = 4;
pub(crate) const OBJECT: u8 = 8;

/// Random id of a page; the store's URI of the page is made of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageId(pub u128);

impl fmt::Display for PageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// One version of a page. Clones share its memory.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Page {
    envelope: Envelope,
    body: Bytes,
    level: u8,
    right: Option<PageId>,
    horizon: Stamp,
    count: usize,
    /// Ends of low, high and prefix in the body; heads follow, then offsets.
    low_end: usize,
    high_end: usize,
    prefix_end: usize,
}

/// Which page has a key, as seen from one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// This leaf.
    Here,
    /// This child, or a page to its right.
    Down(PageId),
    /// The right sibling, or a page to its right.
    Right(PageId),
    /// A page to the left, of which this page knows nothing: start at the root.
    Elsewhere,
}

impl Page {
    /// Verifies a body in clear.
    pub(crate) fn parse(envelope: Envelope, body: Bytes) -> Result<Page, PageError> {
        if body.len() > PAGE_BYTES_MAX {
            return Err(damaged("it is larger than any page"));
        }
        let Some(head) = body.first_chunk::<HEADER_BYTES>() else {
            return Err(damaged("the header ends early"));
        };
        let size_at = |at: usize| usize::from(u16::from_be_bytes([head[at], head[at + 1]]));
        let (level, flags, count) = (head[0], head[1], u32_at(head, 8) as usize);
        let right = u128::from_be_bytes(*head[32..].first_chunk().expect("a whole header"));
        let horizon = Stamp::from_bytes(head[12..].first_chunk().expect("a whole header"));
        let has_right = match (flags, right, size_at(4)) {
            (0, 0, 0) => false,
            (HAS_RIGHT, _, 1..) => true,
            _ => return Err(damaged("high key and right sibling do not agree")),
        };
        let low_end = HEADER_BYTES + size_at(2);
        let high_end = low_end + size_at(4);
        let prefix_end = high_end + size_at(6);
        if [size_at(2), size_at(4), size_at(6)]
            .iter()
            .any(|size| *size > KEY_BYTES_MAX)
        {
            return Err(damaged("a key of the header is too long"));
        }
        let directory = count.saturating_mul(DIRECTORY_BYTES).saturating_add(4);
        if prefix_end.saturating_add(directory) > body.len() {
            return Err(damaged("the directory ends early"));
        }
        let page = Page {
            envelope,
            level,
            right: has_right.then_some(PageId(right)),
            horizon,
            count,
            low_end,
            high_end,
            prefix_end,
            body,
        };
        page.verify()?;
        Ok(page)
    }

    /// Ranges, offsets, slots and the order of keys.
    fn verify(&self) -> Result<(), PageError> {
        if self.high().is_some_and(|high| high <= self.low()) {
            return Err(damaged("the key range is empty"));
        }
        if self.offset(0) != self.prefix_end + self.count * DIRECTORY_BYTES + 4 {
            return Err(damaged("the slots do not begin behind the directory"));
        }
        if self.offset(self.count) != self.body.len() {
            return Err(damaged("the slots do not end with the page"));
        }
        for index in 0..self.count {
            let (start, end) = (self.offset(index), self.offset(index + 1));
            let slot = self
                .body
                .get(start..end)
                .ok_or(damaged("an offset is wrong"))?;
            self.verify_slot(slot)?;
            let suffix = self.suffix(index);
            if self.prefix().len() + suffix.len() > KEY_BYTES_MAX {
                return Err(damaged("a key is too long"));
            }
            if self.head(index) != head_of(suffix) {
                return Err(damaged("a head is not that of its key"));
            }
            if index > 0 && self.suffix(index - 1) >= suffix {
                return Err(damaged("keys are out of order"));
            }
        }
        self.verify_range()
    }

    fn verify_range(&self) -> Result<(), PageError> {
        if self.count == 0 {
            return match self.level {
                0 if self.prefix().is_empty() => Ok(()),
                0 => Err(damaged("a prefix without keys")),
                _ => Err(damaged("an inner page without children")),
            };
        }
        if self.level > 0 && self.key(0) != self.low() {
            return Err(damaged(
                "the first child does not begin where the page does",
            ));
        }
        let is_above = self.key(0) >= self.low();
        let is_below = self
            .high()
            .is_none_or(|high| self.key(self.count - 1) < high);
        if is_above && is_below {
            Ok(())
        } else {
            Err(damaged("a key is outside the range"))
        }
    }

    fn verify_slot(&self, slot: &[u8]) -> Result<(), PageError> {
        if self.level > 0 {
            let is_whole = slot.len() >= CHILD_BYTES;
            return if is_whole {
                Ok(())
            } else {
                Err(damaged("a child ends early"))
            };
        }
        let Some(&[a, b, flags]) = slot.first_chunk::<3>() else {
            return Err(damaged("a slot ends early"));
        };
        let stamps = stamp_count(flags) * Stamp::BYTES;
        let start = 3 + usize::from(u16::from_be_bytes([a, b])) + stamps;
        let Some(payload) = slot.get(start..) else {
            return Err(damaged("a slot ends early"));
        };
        let has_payload = flags & (ALIVE | VALUE) != 0;
        let is_flagged = flags & !(LIFE | ALIVE | VALUE | OBJECT) == 0
            && flags & (LIFE | VALUE) != 0
            && (flags & ALIVE == 0 || flags & LIFE != 0)
            && (has_payload || (flags & OBJECT == 0 && payload.is_empty()));
        if !is_flagged {
            return Err(damaged("a slot's flags do not agree"));
        }
        if flags & (LIFE | VALUE) == LIFE | VALUE {
            let stamps = &slot[start - stamps..start];
            if stamps[Stamp::BYTES..] <= stamps[..Stamp::BYTES] {
                return Err(damaged("a value register is older than life"));
            }
        }
        match flags & OBJECT {
            0 if payload.len() > INLINE_BYTES_MAX => Err(damaged("a payload is too large")),
            OBJECT if payload.len() != Pointer::BYTES => Err(damaged("a pointer has a wrong size")),
            _ => Ok(()),
        }
    }

    /// What stands in front of the body.
    pub fn envelope(&self) -> &Envelope {
        &self.envelope
    }

    /// Number of this version.
    pub fn lsn(&self) -> u64 {
        self.envelope.lsn
    }

    /// The body in clear.
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// Distance from the leaves.
    pub fn level(&self) -> u8 {
        self.level
    }

    /// Whether the page has records.
    pub fn is_leaf(&self) -> bool {
        self.level == 0
    }

    /// Whether the page is the root: only the root's range has no end on either side.
    pub fn is_root(&self) -> bool {
        self.right.is_none() && self.low().is_empty()
    }

    /// The least key that can be in the page.
    pub fn low(&self) -> &[u8] {
        &self.body[HEADER_BYTES..self.low_end]
    }

    /// The least key that cannot be in the page because it is too great.
    pub fn high(&self) -> Option<&[u8]> {
        self.right.map(|_| &self.body[self.low_end..self.high_end])
    }

    /// The right sibling, whose range begins at the high key.
    pub fn right(&self) -> Option<PageId> {
        self.right
    }

    /// The greatest stamp of any slot that was ever removed from the page, or from its ancestors by
    /// splits.
    pub fn horizon(&self) -> Stamp {
        self.horizon
    }

    /// Number of slots, dead ones included.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Whether `key` is in the page's range.
    pub fn contains(&self, key: &[u8]) -> bool {
        key >= self.low() && self.high().is_none_or(|high| key < high)
    }

    /// Which page has `key`.
    pub fn route(&self, key: &[u8]) -> Route {
        match self.is_leaf() {
            true => self.beyond(key).unwrap_or(Route::Here),
            false => self.look(key).map_or_else(|route| route, |_| Route::Here),
        }
    }

    /// The slot of `key`, as [`Page::find`], if this is the leaf that has it. If not, the page that
    /// may have it. The page is searched once.
    ///
    /// # Errors
    /// Any route but [`Route::Here`].
    pub fn look(&self, key: &[u8]) -> Result<SlotRef<'_>, Route> {
        let position = self.position(key);
        match position {
            // Only a key that is not between two of the page may be out of its range.
            Err(index)
                if (index == 0 || index == self.count)
                    && let Some(route) = self.beyond(key) =>
            {
                Err(route)
            }
            Ok(index) if self.is_leaf() => Ok(self.slot(index)),
            Err(_) if self.is_leaf() => Ok(SlotRef::default()),
            Ok(index) => Err(Route::Down(self.child(index))),
            // The first child begins at the page's low key.
            Err(index) => Err(Route::Down(self.child(index.max(1) - 1))),
        }
    }

    /// Where a key is that is out of the page's range.
    fn beyond(&self, key: &[u8]) -> Option<Route> {
        if key < self.low() {
            return Some(Route::Elsewhere);
        }
        let (high, right) = self.high().zip(self.right)?;
        (high <= key).then_some(Route::Right(right))
    }

    /// The payload of `key` that readers see. A leaf's method.
    pub fn get(&self, key: &[u8]) -> Option<PayloadRef<'_>> {
        self.find(key).visible()
    }

    /// The slot of `key`: an empty one when the page has none. A leaf's method.
    pub fn find(&self, key: &[u8]) -> SlotRef<'_> {
        self.position(key)
            .map_or(SlotRef::default(), |index| self.slot(index))
    }

    /// Whether the page has `record` in it: a client's own pending record overlays the page until
    /// then.
    pub fn covers(&self, record: &Record) -> bool {
        self.find(&record.key).covers(record, self.horizon)
    }

    /// The slot of `key` with pending records on top, as a read with an overlay sees it. Records of
    /// other keys have no effect.
    pub fn overlay<'r>(&self, key: &[u8], pending: impl IntoIterator<Item = &'r Record>) -> Slot {
        let mut slot = self.find(key).to_slot(|bytes| self.share(bytes));
        for record in pending.into_iter().filter(|record| record.key == key) {
            slot.merge(record, self.horizon);
        }
        slot
    }

    /// The slots from the first key at or above `from`, in order. A leaf's method.
    pub fn slots(&self, from: &[u8]) -> Slots<'_> {
        let (Ok(next) | Err(next)) = self.position(from);
        Slots { page: self, next }
    }

    /// The children, in the order of their keys; none for a leaf.
    pub fn children(&self) -> impl Iterator<Item = PageId> {
        let count = if self.is_leaf() { 0 } else { self.count };
        (0..count).map(|index| self.child(index))
    }

    /// `bytes`, a part of this page, as memory that outlives the borrow.
    ///
    /// # Panics
    /// When `bytes` are no part of this page.
    pub fn share(&self, bytes: &[u8]) -> Bytes {
        self.body.slice_ref(bytes)
    }

    /// Index of `key`, or of the first key above it.
    pub(crate) fn position(&self, key: &[u8]) -> Result<usize, usize> {
        let prefix = self.prefix();
        let suffix = match key.split_at_checked(prefix.len()) {
            Some((start, suffix)) => match start.cmp(prefix) {
                Ordering::Less => return Err(0),
                Ordering::Greater => return Err(self.count),
                Ordering::Equal => suffix,
            },
            // A key shorter than the prefix is below all keys that begin with it.
            None if key <= prefix => return Err(0),
            None => return Err(self.count),
        };
        let head = head_of(suffix);
        let heads = self.heads();
        let start = partition_point(heads, |at| u32::from_be_bytes(*at) < head);
        // Suffixes that share the head are few: equal heads mean equal first bytes.
        let mut end = start;
        let mut step = 1;
        while heads
            .get(end)
            .is_some_and(|at| u32::from_be_bytes(*at) == head)
        {
            end += step;
            step *= 2;
        }
        let (mut low, mut high) = (start, end.min(self.count));
        while low < high {
            let middle = low.midpoint(high);
            match self.suffix(middle).cmp(suffix) {
                Ordering::Less => low = middle + 1,
                Ordering::Equal => return Ok(middle),
                Ordering::Greater => high = middle,
            }
        }
        Err(low)
    }

    /// The key of a slot.
    pub(crate) fn key(&self, index: usize) -> KeyRef<'_> {
        KeyRef {
            prefix: self.prefix(),
            suffix: self.suffix(index),
        }
    }

    /// A leaf's slot.
    pub(crate) fn slot(&self, index: usize) -> SlotRef<'_> {
        Self::slot_in(&self.body[self.offset(index)..self.offset(index + 1)])
    }

    /// A leaf's slot, of its bytes.
    fn slot_in(slot: &[u8]) -> SlotRef<'_> {
        let suffix = usize::from(u16::from_be_bytes([slot[0], slot[1]]));
        let (flags, mut rest) = (slot[2], &slot[3 + suffix..]);
        let mut stamp = |is_there: bool| {
            is_there.then(|| {
                let (bytes, after) = rest.split_first_chunk().expect("a verified slot");
                rest = after;
                Stamp::from_bytes(bytes)
            })
        };
        let life = stamp(flags & LIFE != 0).map(|stamp| Life {
            stamp,
            is_alive: flags & ALIVE != 0,
        });
        let value = stamp(flags & VALUE != 0);
        let payload = (flags & (ALIVE | VALUE) != 0).then(|| payload_of(flags, rest));
        SlotRef {
            life,
            value,
            payload,
        }
    }

    /// An inner page's child.
    pub(crate) fn child(&self, index: usize) -> PageId {
        let at = self.offset(index);
        let bytes = self.body[at..].first_chunk().expect("a verified slot");
        PageId(u128::from_be_bytes(*bytes))
    }

    fn prefix(&self) -> &[u8] {
        &self.body[self.high_end..self.prefix_end]
    }

    fn suffix(&self, index: usize) -> &[u8] {
        let (start, end) = (self.offset(index), self.offset(index + 1));
        let slot = &self.body[start..end];
        if self.level > 0 {
            return &slot[CHILD_BYTES..];
        }
        &slot[3..3 + usize::from(u16::from_be_bytes([slot[0], slot[1]]))]
    }

    fn heads(&self) -> &[[u8; 4]] {
        let end = self.prefix_end + self.count * 4;
        self.body[self.prefix_end..end].as_chunks().0
    }

    fn head(&self, index: usize) -> u32 {
        u32::from_be_bytes(self.heads()[index])
    }

    fn offset(&self, index: usize) -> usize {
        u32_at(&self.body, self.prefix_end + (self.count + index) * 4) as usize
    }
}

/// The slots of a leaf, in the order of their keys.
#[derive(Clone, Debug)]
pub struct Slots<'a> {
    page: &'a Page,
    next: usize,
}

impl<'a> Iterator for Slots<'a> {
    type Item = (KeyRef<'a>, SlotRef<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let index = self.next;
        (index < self.page.count).then(|| {
            self.next += 1;
            (self.page.key(index), self.page.slot(index))
        })
    }
}

/// The first four bytes of a suffix, as a number that compares like them.
pub(crate) fn head_of(suffix: &[u8]) -> u32 {
    u32::from_be_bytes(padded(suffix))
}

/// The first bytes of some, with zeros behind those that are there.
fn padded<const COUNT: usize>(bytes: &[u8]) -> [u8; COUNT] {
    bytes.first_chunk().copied().unwrap_or_else(|| {
        let mut padded = [0; COUNT];
        padded[..bytes.len()].copy_from_slice(bytes);
        padded
    })
}

/// As the slice's method, without a branch that depends on the key: half of those are mispredicted.
fn partition_point<T>(heads: &[T], is_below: impl Fn(&T) -> bool) -> usize {
    let mut start = 0;
    let mut size = heads.len();
    while size > 0 {
        let half = size.div_ceil(2);
        start += if is_below(&heads[start + half - 1]) {
            half
        } else {
            0
        };
        size -= half;
    }
    start
}

fn stamp_count(flags: u8) -> usize {
    usize::from(flags & LIFE != 0) + usize::from(flags & VALUE != 0)
}

fn payload_of(flags: u8, bytes: &[u8]) -> PayloadRef<'_> {
    if flags & OBJECT == 0 {
        return PayloadRef::Inline(bytes);
    }
    let bytes = bytes.first_chunk().expect("a verified slot");
    PayloadRef::Object(Pointer::from_bytes(bytes))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(*bytes[at..].first_chunk().expect("four bytes"))
}

fn damaged(what: &'static str) -> PageError {
    PageError::Damaged { what }
}

#[cfg(test)]
mod tests;
