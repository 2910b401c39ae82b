//! What the chain and the services see of a member's data: an ordered read-only map.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::ops::Bound;

use bytes::Bytes;

use crate::codec::DecodeError;

/// The direction of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Smallest key first.
    Forward,
    /// Greatest key first.
    Backward,
}

/// A scan's keys and values, in order.
pub type Scan<'a> = Box<dyn Iterator<Item = Result<(Bytes, Bytes), ViewError>> + 'a>;

/// The data of one member as of one commit, or as of its newest log entry.
pub trait View {
    /// The value of `key`.
    ///
    /// # Errors
    /// [`ViewError`] when the store cannot say.
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, ViewError>;

    /// The pairs whose key is in `start..end` (`end` excluded), in `direction`.
    fn scan(&self, start: &[u8], end: &[u8], direction: Direction) -> Scan<'_>;

    /// It will be looked at for long, while newer states come: a store may read now what would be
    /// dear to read then.
    fn keep(&self) {}
}

/// Everything in memory.
impl View for BTreeMap<Bytes, Bytes> {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, ViewError> {
        Ok(self.get(key).cloned())
    }

    fn scan(&self, start: &[u8], end: &[u8], direction: Direction) -> Scan<'_> {
        if end <= start {
            return Box::new(std::iter::empty());
        }
        let range = (Bound::Included(start), Bound::Excluded(end));
        let pairs = self.range::<[u8], _>(range);
        let pairs = pairs.map(|(key, value)| Ok((key.clone(), value.clone())));
        match direction {
            Direction::Forward => Box::new(pairs),
            Direction::Backward => Box::new(pairs.rev()),
        }
    }
}

/// The store failed to read; the request fails as a whole and the cause is the node's to report.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ViewError {
    /// The engine could not read.
    #[error("the engine: {context}")]
    Engine {
        /// The engine's own words.
        context: String,
    },
    /// A value is not what its format says.
    #[error(transparent)]
    Malformed(#[from] DecodeError),
    /// Rows contradict each other.
    #[error(transparent)]
    Inconsistent(#[from] Inconsistency),
    /// The view has other rows than this.
    #[error("this row was not asked for")]
    NotInView,
    /// No copy of a block has its bytes.
    #[error("the bytes of block {0:032x} are damaged or missing")]
    BlockLost(u128),
    /// A secret cannot be sealed, or does not open.
    #[error("{context}")]
    Secret {
        /// Which secret, and why.
        context: String,
    },
    /// A service refused what a row holds, or a request of the node itself.
    #[error("{context}")]
    Refused {
        /// The service's own words.
        context: String,
    },
    /// The thread that read panicked.
    #[error("the reading thread panicked")]
    Panicked,
    /// Another process could not read.
    #[error("{words}")]
    Told {
        /// Its own words.
        words: String,
    },
}

/// Rows that contradict each other, or a change that contradicts the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Inconsistency {
    /// An operation names a key that is no register's.
    #[error("an operation on what is no register")]
    NoRegister,
    /// An operation names a key that is no item's.
    #[error("an operation on what is no item")]
    NoItem,
    /// The record of a step belongs to no service.
    #[error("a step of no service")]
    StepOfNoService,
    /// A service was asked for an eventual write, and takes none.
    #[error("it takes no eventual writes")]
    NoEventualWrites,
    /// The value in a key of the index has no end.
    #[error("an index key whose value does not end")]
    EndlessIndexKey,
    /// The index names an item that is not there.
    #[error("an index entry without its item")]
    IndexWithoutItem,
    /// A counter counts other rows than there are.
    #[error("a counter disagrees with the index")]
    Counter,
    /// An object names content that is not there.
    #[error("the content of an object is missing")]
    ContentMissing,
    /// An object names an upload that is not there.
    #[error("the upload of an object is missing")]
    UploadMissing,
}

/// What lies over a view: the new value of each key, `None` where it is removed.
pub type Mutations = BTreeMap<Bytes, Option<Bytes>>;

/// A view with mutations laid over it.
#[derive(Clone, Copy)]
pub struct Layered<'a> {
    below: &'a dyn View,
    above: &'a Mutations,
}

impl<'a> Layered<'a> {
    /// `above` over `below`.
    pub fn new(below: &'a dyn View, above: &'a Mutations) -> Self {
        Layered { below, above }
    }
}

impl View for Layered<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, ViewError> {
        match self.above.get(key) {
            Some(value) => Ok(value.clone()),
            None => self.below.get(key),
        }
    }

    fn scan(&self, start: &[u8], end: &[u8], direction: Direction) -> Scan<'_> {
        scan_layered(self.below, self.above, |value| value, start, end, direction)
    }
}

/// A view that belongs to another owner.
pub(crate) struct ViewRef<'a>(pub(crate) &'a dyn View);

impl View for ViewRef<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, ViewError> {
        self.0.get(key)
    }

    fn scan(&self, start: &[u8], end: &[u8], direction: Direction) -> Scan<'_> {
        self.0.scan(start, end, direction)
    }
}

/// A scan of `above` over `below`; `value_of` finds the value, or its absence, in an entry of
/// `above`.
pub(crate) fn scan_layered<'a, V>(
    below: &'a dyn View,
    above: &'a BTreeMap<Bytes, V>,
    value_of: fn(&V) -> &Option<Bytes>,
    start: &[u8],
    end: &[u8],
    direction: Direction,
) -> Scan<'a> {
    if end <= start {
        return Box::new(std::iter::empty());
    }
    let below = below.scan(start, end, direction);
    let range = (Bound::Included(start), Bound::Excluded(end));
    let above = above
        .range::<[u8], _>(range)
        .map(move |(key, value)| (key.clone(), value_of(value).clone()));
    match direction {
        Direction::Forward => merge_scans(below, above, direction),
        Direction::Backward => merge_scans(below, above.rev(), direction),
    }
}

/// A scan of `above`, which is in `direction`, over `below`.
pub(crate) fn merge_scans<'a>(
    below: Scan<'a>,
    above: impl Iterator<Item = (Bytes, Option<Bytes>)> + 'a,
    direction: Direction,
) -> Scan<'a> {
    Box::new(Merge {
        above: above.peekable(),
        below: below.peekable(),
        direction,
    })
}

/// Two ordered sequences as one; where both have a key, the pending one counts.
struct Merge<'a, A: Iterator<Item = (Bytes, Option<Bytes>)>> {
    above: Peekable<A>,
    below: Peekable<Scan<'a>>,
    direction: Direction,
}

impl<A: Iterator<Item = (Bytes, Option<Bytes>)>> Iterator for Merge<'_, A> {
    type Item = Result<(Bytes, Bytes), ViewError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let below = match self.below.peek() {
                Some(Err(_)) => return self.below.next(),
                Some(Ok((key, _))) => Some(key),
                None => None,
            };
            let above = self.above.peek().map(|(key, _)| key);
            let order = match (above, below) {
                (None, _) => return self.below.next(),
                (Some(_), None) => std::cmp::Ordering::Less,
                (Some(above), Some(below)) => match self.direction {
                    Direction::Forward => above.cmp(below),
                    Direction::Backward => below.cmp(above),
                },
            };
            if order.is_gt() {
                return self.below.next();
            }
            if order.is_eq() {
                self.below.next();
            }
            if let Some((key, Some(value))) = self.above.next() {
                return Some(Ok((key, value)));
            }
        }
    }
}
