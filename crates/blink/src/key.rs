//! A key inside a page, without copying it.

use std::cmp::Ordering;

/// A key inside a page: two parts, so that no key is copied.
#[derive(Clone, Copy, Debug)]
pub struct KeyRef<'a> {
    pub(crate) prefix: &'a [u8],
    pub(crate) suffix: &'a [u8],
}

impl<'a> KeyRef<'a> {
    pub(crate) fn whole(key: &'a [u8]) -> Self {
        KeyRef {
            prefix: &[],
            suffix: key,
        }
    }

    /// Bytes of the key.
    #[expect(clippy::len_without_is_empty, reason = "an empty key is a key")]
    pub fn len(&self) -> usize {
        self.prefix.len() + self.suffix.len()
    }

    /// The key in memory of its own.
    pub fn to_vec(&self) -> Vec<u8> {
        [self.prefix, self.suffix].concat()
    }

    /// Appends the key without its first `count` bytes.
    pub(crate) fn append_from(&self, count: usize, out: &mut Vec<u8>) {
        let in_prefix = count.min(self.prefix.len());
        out.extend_from_slice(&self.prefix[in_prefix..]);
        out.extend_from_slice(&self.suffix[count - in_prefix..]);
    }
}

impl PartialEq<[u8]> for KeyRef<'_> {
    fn eq(&self, other: &[u8]) -> bool {
        self.partial_cmp(other) == Some(Ordering::Equal)
    }
}

impl PartialEq<&[u8]> for KeyRef<'_> {
    fn eq(&self, other: &&[u8]) -> bool {
        *self == **other
    }
}

impl PartialOrd<[u8]> for KeyRef<'_> {
    fn partial_cmp(&self, other: &[u8]) -> Option<Ordering> {
        let (start, rest) = other.split_at(self.prefix.len().min(other.len()));
        Some(self.prefix.cmp(start).then_with(|| self.suffix.cmp(rest)))
    }
}

impl PartialOrd<&[u8]> for KeyRef<'_> {
    fn partial_cmp(&self, other: &&[u8]) -> Option<Ordering> {
        self.partial_cmp(*other)
    }
}
