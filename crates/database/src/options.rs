//! How a client uses a database.

use std::time::Duration;

use fader_cloud::Cloud;

use crate::disk::DiskTier;
use crate::guard::Guards;
use crate::sealing::Identity;

/// How a client uses a database.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes of pages in the buffer pool, at most. Values of each transaction have at most as many
    /// in memory.
    pub pool_bytes: usize,
    /// Files of this machine for pages that the pool has no place for. They save bytes of GETs, and
    /// GETs of pages that this process saw a while ago. Pages are there as in the store: sealed, if
    /// their collection is encrypted. Values of transactions go there when memory has no place for
    /// them.
    pub disk: Option<DiskTier>,
    /// For how long a page in the pool is read without asking the store. A reader below
    /// Monotonic may be so much behind the pages.
    pub ttl: Duration,
    /// How long after a commit its collections are checkpointed by this client.
    pub checkpoint_after: Duration,
    /// How long after an Atomic commit its records go to the pending-update queues: transactions
    /// within this time share the requests.
    pub finish_after: Duration,
    /// For how long the catalogue is believed: a new index is known to all clients after it.
    pub catalogue_ttl: Duration,
    /// How far the client's clock may be off the store's.
    pub clock_bound: Duration,
    /// Whether the requests of a commit are sent one after the other, a record in each message, as
    /// the paper's implementation did. For measurements.
    pub is_one_by_one: bool,
    /// Whether a token of each tree tells clients to leave its checkpoint to another. It saves lost
    /// races and costs requests.
    pub has_lock_hint: bool,
    /// Whether a read may begin a checkpoint of what it read. The probability is the part that
    /// `checkpoint_after` is of the time since the leaf was written.
    pub has_reader_checkpoints: bool,
    /// Who the client is, for encrypted collections.
    pub identity: Option<Identity>,
    /// The rules that are in place.
    pub guards: Guards,
}

impl Default for Options {
    /// The paper's checkpoint interval of 15 s; 64 MiB of pages, read anew after 10 s.
    fn default() -> Self {
        Options {
            pool_bytes: 64 << 20,
            disk: None,
            ttl: Duration::from_secs(10),
            checkpoint_after: Duration::from_secs(15),
            finish_after: Duration::from_secs(1),
            catalogue_ttl: Duration::from_secs(5),
            clock_bound: Duration::from_secs(30),
            is_one_by_one: false,
            has_lock_hint: false,
            has_reader_checkpoints: false,
            identity: None,
            guards: Guards::default(),
        }
    }
}

impl Options {
    /// A cloud whose commits go together, unless requests are sent one after the other.
    pub(crate) fn grouped(&self, cloud: Cloud) -> Cloud {
        match self.is_one_by_one {
            true => cloud,
            false => cloud.grouped(),
        }
    }
}
