//! What decisions and answers see: an ordered read-only map.

use bytes::Bytes;

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
///
/// Two implementations: a snapshot of the engine (node), and the pending entries over it.
pub trait View {
    /// The value of `key`.
    ///
    /// # Errors
    /// [`ViewError`] when the store cannot say.
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, ViewError>;

    /// The pairs whose key is in `start..end` (`end` excluded), in `direction`.
    fn scan(&self, start: &[u8], end: &[u8], direction: Direction) -> Scan<'_>;
}

/// The store failed to read; the request fails as a whole and the cause is the node's to report.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ViewError(pub String);

impl From<fader_chain::DecodeError> for ViewError {
    fn from(error: fader_chain::DecodeError) -> Self {
        ViewError(error.to_string())
    }
}

/// Says when an answer has taken long enough and should end its page (SimpleDB: 5 seconds).
pub trait Pace {
    /// Whether the page should end now. Asked once per candidate read, so it must be cheap.
    fn is_over(&self) -> bool;
}

/// A pace that never ends a page: for tests and for decisions.
#[derive(Debug)]
pub struct Unhurried;

impl Pace for Unhurried {
    fn is_over(&self) -> bool {
        false
    }
}
