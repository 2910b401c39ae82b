//! How much memory uploads may have. Pure.

/// Memory that is lent and given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Budget {
    limit: u64,
    used: u64,
}

impl Budget {
    /// A budget of `limit` bytes.
    pub(super) fn new(limit: u64) -> Self {
        Budget { limit, used: 0 }
    }

    /// Takes this many bytes, or none.
    pub(super) fn take(&mut self, bytes: u64) -> bool {
        let is_there = bytes <= self.limit - self.used;
        if is_there {
            self.used += bytes;
        }
        is_there
    }

    /// Gives back what was taken.
    pub(super) fn give(&mut self, bytes: u64) {
        assert!(bytes <= self.used, "only what was taken is given back");
        self.used -= bytes;
    }

    /// Bytes that are lent.
    pub(super) fn used(&self) -> u64 {
        self.used
    }
}
