//! Collections, and the layout of keys.
//!
//! ```text
//! key    := collection:u64be table:u8 rest
//! system := 'n'                       next collection id (varint)
//!         | 'k' key-id                access key
//!         | 'd' text(account) name    domain entry
//!         | 'c' account               domains of the account (varint)
//!         | 'e' kind:u8 text(owner) name    entry of a collection of another kind; no owner where
//!                                           a name is the cluster's
//!         | 'o' kind:u8 account       collections of that kind of the account (varint)
//!         | 'l' kind:u8 text(account) name  the account's names that are the cluster's; the value
//!                                           has what lists show of one on another chain
//!         | 'g' collection:u64be      a deleted collection whose keys are still to be swept
//!         | 'h' collection:u64be      a collection on its way to the mode `strong`
//!         | 'u' collection:u64be      a collection on another chain that comes or goes
//!         | 'r' collection:u64be      a collection of this chain that went (catalog/placed.rs)
//!         | 's' …  | 't' …            steps across chains (steps.rs)
//!         | 'Q' …  | 'Z' …            of queues (sqs/layout.rs)
//!         | 'j' …  | 'O' …            of buckets (s3/layout.rs)
//!         | 'b' …  | 'q' …            of blocks (blocks/rows.rs)
//!         | 'X' …  | 'p' …            of exports (exports/mod.rs)
//! domain := 'm'                       counters; present as long as the domain is
//!         | 'i' item                  the item's register
//!         | 'a' name                  pairs with this attribute name (varint)
//!         | 'x' text(name) text(value) item     index entry, empty value
//! queue  := 'm' | 'K' | 'B' … | …     sqs/layout.rs
//! bucket := 'm' | 'J' | 'V' … | …     s3/layout.rs
//! text   := each byte, 0x00 as 0x00 0xff; then 0x00 0x01
//! ```
//!
//! Invariants:
//! - KEY-1 `text` keeps byte order and no text is a prefix of another.
//! - KEY-2 'x' holds exactly the pairs of the registers in 'i'; 'a' and 'm' count them.

use bytes::Bytes;

/// A collection: a domain, later a queue or a bucket's index. The first eight bytes, big-endian, of
/// each of its keys. Never reused; never [`fader_chain::COLLECTION`], which is the chain's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CollectionId(pub u64);

/// The collection that lists accounts, access keys and collections.
pub const SYSTEM: CollectionId = CollectionId(0);

/// The tables of a collection: the byte after the collection id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Table {
    /// System: the next collection id.
    NextCollection = b'n',
    /// System: access keys.
    AccessKeys = b'k',
    /// System: domain entries by account and name.
    Domains = b'd',
    /// System: how many domains an account has.
    DomainCount = b'c',
    /// System: entries of collections other than domains, by kind, owner and name.
    Names = b'e',
    /// System: how many collections of a kind other than domains an account has.
    NameCount = b'o',
    /// System: the names of an account that are the cluster's, by kind.
    Owned = b'l',
    /// System: steps that began here, until they are settled.
    Steps = b's',
    /// System: steps of other chains that were taken here.
    Taken = b't',
    /// System: deleted collections still to be swept.
    Garbage = b'g',
    /// System: collections on their way to the mode `strong`.
    Closing = b'h',
    /// System: collections on other chains that are being created or deleted.
    Unfinished = b'u',
    /// System: collections that were deleted for ever, of those that another chain lists.
    Razed = b'r',
    /// Collection: what says that it is there; of a domain its counters.
    Metadata = b'm',
    /// Domain: item registers.
    Items = b'i',
    /// Domain: pairs per attribute name.
    AttributeCount = b'a',
    /// Domain: the index of all pairs.
    Index = b'x',
    /// System: queues that were deleted a short time ago.
    DeletedQueues = b'Q',
    /// System: the work that queues have to do later, by its time.
    Chores = b'Z',
    /// Queue: its counters.
    QueueCounters = b'K',
    /// Queue: the contents of messages, by number.
    Bodies = b'B',
    /// Queue: the states of messages, by number.
    States = b'Y',
    /// Queue: messages, or the groups of a FIFO queue, that can be received.
    Ready = b'R',
    /// Queue: messages that can be received later, by deadline.
    Scheduled = b'W',
    /// Queue: the groups of a FIFO queue.
    Groups = b'G',
    /// Queue: the messages of each group that are not in flight.
    Waiting = b'F',
    /// Queue: recent sends and receives, by their deduplication ids.
    Recent = b'D',
    /// Queue: the ends of those rows.
    RecentEnds = b'E',
    /// Queue: the queues that name it as their dead-letter queue.
    Sources = b'S',
    /// Queue: its move tasks.
    MoveTasks = b'M',
    /// Queue: eventual sends.
    Arrivals = b'I',
    /// System: the work that buckets have to do later, by its time.
    BucketChores = b'j',
    /// Bucket: the version of each key that is current, and no delete marker.
    Current = b'J',
    /// Bucket: all other versions, by key, the newest first.
    Versions = b'V',
    /// Bucket: where the null version of a key is, if it is not the current one.
    NullVersions = b'N',
    /// Bucket: the bytes of small objects and parts, and the blocks of others, by attempt.
    Contents = b'T',
    /// Bucket: multipart uploads that are open, by key.
    Uploads = b'U',
    /// Bucket: multipart uploads that were completed, and whose version is there.
    CompletedUploads = b'L',
    /// Bucket: the parts of uploads.
    Parts = b'P',
    /// System: attempts and uploads of buckets whose blocks are to be removed.
    BucketGarbage = b'O',
    /// Bucket: attempts that are fenced.
    Fences = b'f',
    /// Bucket: the note behind which fences have ended.
    FenceNote = b'H',
    /// Bucket: how far its upkeep is.
    BucketUpkeep = b'C',
    /// System: the blocks of a chain. A record that puts a row of it waits for the block's bytes.
    Blocks = b'b',
    /// Bucket: eventual puts, by key.
    PutRegisters = b'A',
    /// System: the leases of blocks, by their ends.
    BlockLeases = b'q',
    /// System: exports of domains, by account and time.
    Exports = b'X',
    /// System: exports that have not ended, by the chains of their domains.
    UnfinishedExports = b'p',
}

impl Table {
    /// Whether rows of the table with this byte are as many and as large as users make them, and
    /// seldom read twice. These are items, objects and their blocks.
    pub const fn is_of_users(table: u8) -> bool {
        const ITEMS: u8 = Table::Items as u8;
        const CURRENT: u8 = Table::Current as u8;
        const VERSIONS: u8 = Table::Versions as u8;
        const CONTENTS: u8 = Table::Contents as u8;
        const COMPLETED: u8 = Table::CompletedUploads as u8;
        const PARTS: u8 = Table::Parts as u8;
        const BLOCKS: u8 = Table::Blocks as u8;
        const LEASES: u8 = Table::BlockLeases as u8;
        matches!(
            table,
            ITEMS | CURRENT | VERSIONS | CONTENTS | COMPLETED | PARTS | BLOCKS | LEASES
        )
    }
}

const PREFIX_SIZE: usize = 9;

/// Builds keys piece by piece.
#[derive(Clone, Debug)]
pub struct KeyBuilder {
    bytes: Vec<u8>,
}

impl KeyBuilder {
    /// Starts a key of `table` in `collection`.
    pub fn new(collection: CollectionId, table: Table) -> Self {
        KeyBuilder::with_rest(collection, table, 64)
    }

    /// Starts a key of `table` in `collection` whose rest takes so many bytes, so that a key made
    /// for one point read is allocated once.
    pub(crate) fn with_rest(collection: CollectionId, table: Table, rest_size: usize) -> Self {
        let mut bytes = Vec::with_capacity(PREFIX_SIZE + rest_size);
        bytes.extend_from_slice(&collection.0.to_be_bytes());
        bytes.push(table as u8);
        KeyBuilder { bytes }
    }

    /// Appends bytes as they are: only the last piece of a key may be raw.
    #[must_use]
    pub fn raw(mut self, piece: &[u8]) -> Self {
        self.bytes.extend_from_slice(piece);
        self
    }

    /// Appends an escaped and terminated text.
    #[must_use]
    pub fn text(mut self, piece: &[u8]) -> Self {
        self = self.text_prefix(piece);
        self.bytes.extend_from_slice(&[0x00, 0x01]);
        self
    }

    /// Appends an escaped text without its end: the prefix of every text that begins so.
    #[must_use]
    pub fn text_prefix(mut self, piece: &[u8]) -> Self {
        // Most texts have none, and `contains` looks at many bytes at once.
        if !piece.contains(&0x00) {
            return self.raw(piece);
        }
        for (at, part) in piece.split(|&byte| byte == 0x00).enumerate() {
            if 0 < at {
                self.bytes.extend_from_slice(&[0x00, 0xff]);
            }
            self.bytes.extend_from_slice(part);
        }
        self
    }

    /// The key.
    pub fn build(self) -> Bytes {
        Bytes::from(self.bytes)
    }

    /// The keys that begin so.
    pub(crate) fn build_range(self) -> KeyRange {
        KeyRange {
            start: self.clone().build(),
            end: self.build_end(),
        }
    }

    /// The smallest key greater than every key that begins so: the end of a prefix scan.
    pub fn build_end(mut self) -> Bytes {
        while let Some(last) = self.bytes.pop() {
            if last < 0xff {
                self.bytes.push(last + 1);
                break;
            }
        }
        Bytes::from(self.bytes)
    }
}

/// The keys from `start` to below `end`.
#[derive(Debug)]
pub(crate) struct KeyRange {
    pub(crate) start: Bytes,
    pub(crate) end: Bytes,
}

/// The key of an item's register.
pub fn item_key(collection: CollectionId, item: &[u8]) -> Bytes {
    KeyBuilder::with_rest(collection, Table::Items, item.len())
        .raw(item)
        .build()
}

/// The collection and the item of a key that [`item_key`] made; `None` for any other key.
pub fn split_item_key(key: &[u8]) -> Option<(CollectionId, &[u8])> {
    let (collection, rest) = key.split_first_chunk::<8>()?;
    let item = rest.strip_prefix(&[Table::Items as u8])?;
    Some((CollectionId(u64::from_be_bytes(*collection)), item))
}

/// The index entry of a pair.
pub fn index_key(collection: CollectionId, name: &[u8], value: &[u8], item: &[u8]) -> Bytes {
    const ENDS_SIZE: usize = 4;
    let rest_size = name.len() + value.len() + item.len() + ENDS_SIZE;
    KeyBuilder::with_rest(collection, Table::Index, rest_size)
        .text(name)
        .text(value)
        .raw(item)
        .build()
}

/// Takes an escaped text off the front of `rest`: the text, and what follows it.
pub fn split_text(rest: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut text = Vec::with_capacity(rest.len());
    let mut at = 0;
    loop {
        match (rest.get(at)?, rest.get(at + 1)) {
            (0x00, Some(0xff)) => {
                text.push(0x00);
                at += 2;
            }
            (0x00, Some(0x01)) => return Some((text, &rest[at + 2..])),
            (0x00, _) => return None,
            (&byte, _) => {
                text.push(byte);
                at += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests;
