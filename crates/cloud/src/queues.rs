//! Queues: what SQS and its likes promise of a standard queue.
//!
//! A message that was sent is received at least once, in any order. A receiver has it alone for the
//! visibility time, mostly; removed with its newest receipt it is gone, mostly. A short receive may
//! find nothing though there is something; a long one waits for it.

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;

use crate::error::{Error, ErrorKind, Result};

/// Messages in one call, at most.
pub const MESSAGES_MAX: usize = 10;
/// Bytes of all messages of one call together, at most: the least that services take.
pub const MESSAGE_BYTES_MAX: usize = 256 * 1024;
/// The longest time for which a message is hidden.
pub const VISIBILITY_MAX: Duration = Duration::from_secs(12 * 60 * 60);
/// The longest wait of a receive.
pub const WAIT_MAX: Duration = Duration::from_secs(20);
/// A look at a queue ends after messages of so many bytes.
pub const PEEKED_BYTES_MAX: usize = 64 << 20;

/// What a queue is created with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueSettings {
    /// How long a received message is hidden unless the receive says otherwise: whole seconds, up
    /// to [`VISIBILITY_MAX`].
    pub visibility: Duration,
    /// How long a message is kept that is not removed: 60 s to 14 days.
    pub retention: Duration,
}

impl Default for QueueSettings {
    fn default() -> Self {
        QueueSettings {
            visibility: Duration::from_secs(30),
            retention: Duration::from_secs(4 * 24 * 60 * 60),
        }
    }
}

/// What names one receive of a message.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Receipt(pub String);

/// How to receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receive {
    /// How many messages at most: 1 to [`MESSAGES_MAX`].
    pub max: usize,
    /// How long they are hidden; the queue's setting if `None`.
    pub visibility: Option<Duration>,
    /// How long to wait for the first: whole seconds, up to [`WAIT_MAX`].
    pub wait: Duration,
}

/// A message as received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// The message's id, the same at each receive.
    pub id: String,
    /// Its text.
    pub body: String,
    /// With what to remove it, or hide it longer.
    pub receipt: Receipt,
    /// How often it was received, this time included; approximate.
    pub receives: u64,
}

/// Messages that a look at a queue found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peeked {
    /// In no order. Their receipts remove them, and hide nothing.
    pub messages: Vec<Received>,
    /// Whether these are all.
    pub is_all: bool,
}

/// How many messages there are; approximate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounts {
    /// Messages that can be received.
    pub visible: u64,
    /// Messages that were received and not removed.
    pub in_flight: u64,
}

impl QueueCounts {
    /// Messages that were not removed, hidden ones included.
    pub fn total(&self) -> u64 {
        self.visible + self.in_flight
    }
}

/// Queues by name. Names are of up to 80 letters, digits, `-` and `_`.
#[async_trait]
pub trait Queues: Debug + Send + Sync + 'static {
    /// Creates a queue; one that exists with the same settings stays as it is.
    ///
    /// # Errors
    /// `Precondition` when it exists with other settings.
    async fn create(&self, queue: &str, settings: &QueueSettings) -> Result<()>;

    /// Deletes a queue with all that is in it. What is done to it within the next minute may fail
    /// or succeed.
    ///
    /// # Errors
    /// `NotFound`.
    async fn delete(&self, queue: &str) -> Result<()>;

    /// The names of the queues that begin with `prefix`, in order; of more than a thousand some.
    async fn list(&self, prefix: &str) -> Result<Vec<String>>;

    /// Sends 1 to [`MESSAGES_MAX`] messages of 1 to [`MESSAGE_BYTES_MAX`] bytes together; what
    /// became of each, with its id, in their order. Text is of the characters that XML allows.
    ///
    /// # Errors
    /// `NotFound`; `Invalid`: none was sent.
    async fn send(&self, queue: &str, bodies: &[String]) -> Result<Vec<Result<String>>>;

    /// Whether sends of a process that wait share the next request already.
    fn groups_sends(&self) -> bool {
        false
    }

    /// Whether a message is lost when its retention is over.
    fn forgets(&self) -> bool {
        true
    }

    /// Receives what is there.
    ///
    /// # Errors
    /// `NotFound`.
    async fn receive(&self, queue: &str, how: &Receive) -> Result<Vec<Received>>;

    /// Looks at the messages that are there, hidden ones too; nothing changes for receivers. It
    /// ends with all of them, or after `max` messages or [`PEEKED_BYTES_MAX`]. `None` where the
    /// service does not show them, as SQS.
    ///
    /// # Errors
    /// `NotFound`.
    async fn peek(&self, queue: &str, max: usize) -> Result<Option<Peeked>> {
        let _ = (queue, max);
        Ok(None)
    }

    /// Removes messages by their receipts, at most [`MESSAGES_MAX`]; what became of each, in order.
    /// A message that is gone already is removed with success.
    ///
    /// # Errors
    /// `NotFound`.
    async fn remove(&self, queue: &str, receipts: &[Receipt]) -> Result<Vec<Result<()>>>;

    /// Hides a received message for this long from now on; zero shows it at once.
    ///
    /// # Errors
    /// `NotFound`; `Invalid` when the receipt is none, or its time is over.
    async fn hide(&self, queue: &str, receipt: &Receipt, time: Duration) -> Result<()>;

    /// How many messages there are.
    ///
    /// # Errors
    /// `NotFound`.
    async fn counts(&self, queue: &str) -> Result<QueueCounts>;
}

/// Whether a queue may have this name.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if name.is_empty() || 80 < name.len() || !name.bytes().all(is_plain) {
        let context = format!("queue name {name:?}: 1 to 80 letters, digits, '-' and '_'");
        return Err(Error::new(ErrorKind::Invalid, context));
    }
    Ok(())
}

/// Whether a message can be hidden for this time.
pub(crate) fn check_visibility(visibility: Duration) -> Result<()> {
    if VISIBILITY_MAX < visibility || visibility.subsec_nanos() != 0 {
        let context = format!("a message is hidden for whole seconds up to {VISIBILITY_MAX:?}");
        return Err(Error::new(ErrorKind::Invalid, context));
    }
    Ok(())
}

/// Whether a call may be about so many messages.
pub(crate) fn check_count(count: usize) -> Result<()> {
    if !(1..=MESSAGES_MAX).contains(&count) {
        let context = format!("one call is about 1 to {MESSAGES_MAX} messages");
        return Err(Error::new(ErrorKind::Invalid, context));
    }
    Ok(())
}

/// Whether messages of these texts can be sent together.
pub(crate) fn check_texts(bodies: &[String]) -> Result<()> {
    let bytes: usize = bodies.iter().map(String::len).sum();
    if MESSAGE_BYTES_MAX < bytes || bodies.iter().any(|body| !is_text(body)) {
        let context = format!(
            "messages must have 1 to {MESSAGE_BYTES_MAX} bytes together, of characters that XML \
             allows"
        );
        return Err(Error::new(ErrorKind::Invalid, context));
    }
    Ok(())
}

/// Whether XML can carry it, and there is something to carry.
fn is_text(body: &str) -> bool {
    let is_allowed = |c: char| {
        matches!(c, '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}')
            || '\u{ffff}' < c
    };
    !body.is_empty() && body.chars().all(is_allowed)
}
