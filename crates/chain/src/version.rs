//! The cluster's version: which formats its members may write
//! (docs/internals/decisions/0008-cluster-version.md).
//!
//! It is one number for all processes of a cluster. A configuration carries it, so that a member
//! knows it with the epoch. A member in an epoch of version 3 reads what version 3 writes. It rises
//! only when every process speaks more, and never falls.
//!
//! All that is written to a disk, to the coordinator or to another node has bytes that every
//! process of the cluster's version can read. What is new waits for the version it came with.

/// A version of a cluster, or the greatest that a process speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u32);

impl Version {
    /// Where nothing says another one; a process that says nothing speaks this one.
    pub const OLDEST: Version = Version(2);
    /// The first with collections other than domains, and steps between them.
    pub const FOURTH: Version = Version(4);
    /// The first whose processes show each other their lease clocks.
    pub const FIFTH: Version = Version(5);
    /// The first with up to a hundred nodes, of which five have the system chain.
    pub const SIXTH: Version = Version(6);
    /// The first whose processes tell each other codes of failures, and no texts.
    pub const SEVENTH: Version = Version(7);
    /// The first whose buckets are on chains of data.
    pub const EIGHTH: Version = Version(8);
    /// The first whose members may hold eventual puts of objects that lie in blocks.
    pub const NINTH: Version = Version(9);
    /// The greatest that this code speaks. It speaks all from [`Version::OLDEST`] on.
    pub const NEWEST: Version = Version::NINTH;

    /// What the version of a cluster becomes whose processes speak up to these. `None` stands for
    /// one that is missing, and of which it is unknown with what it comes back.
    pub fn risen(self, spoken: impl IntoIterator<Item = Option<Version>>) -> Version {
        let lowest: Option<Vec<Version>> = spoken.into_iter().collect();
        let lowest = lowest.and_then(|spoken| spoken.into_iter().min());
        lowest.map_or(self, |lowest| self.max(lowest))
    }

    /// Whether what came with version 3 may be written.
    pub const fn is_third(self) -> bool {
        3 <= self.0
    }
}

impl Default for Version {
    fn default() -> Self {
        Version::OLDEST
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests;
