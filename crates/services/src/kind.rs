//! The kinds of collections: what a name stands for, and for whom.

use fader_chain::Version;

/// What a collection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Kind {
    /// A SimpleDB domain.
    Domain = 0,
    /// A queue.
    Queue = 1,
    /// The index of a bucket.
    Bucket = 2,
    /// A counter: the service that tests add.
    Counter = 3,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 4] = [Kind::Domain, Kind::Queue, Kind::Bucket, Kind::Counter];

    /// The byte that stands for it in keys and messages.
    pub fn byte(self) -> u8 {
        self as u8
    }

    /// The kind with this byte.
    pub fn from_byte(byte: u8) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.byte() == byte)
    }

    /// The version of a cluster that it came with.
    pub fn since(self) -> Version {
        match self {
            Kind::Domain => Version::OLDEST,
            Kind::Queue | Kind::Bucket | Kind::Counter => Version::FOURTH,
        }
    }

    /// The version of a cluster from which on new collections of it are put on chains of data,
    /// where there are any. Others are on the system chain.
    pub fn placed_since(self) -> Version {
        match self {
            Kind::Bucket => Version::EIGHTH,
            Kind::Domain | Kind::Queue | Kind::Counter => self.since(),
        }
    }

    /// Whether a name stands for one collection of the whole cluster; else each account has its
    /// own names.
    pub fn is_of_cluster(self) -> bool {
        matches!(self, Kind::Bucket)
    }
}
