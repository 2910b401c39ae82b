//! Errors, by what the caller does next.

use crate::page::{FORMAT, PageId};
use crate::record::{INLINE_BYTES_MAX, KEY_BYTES_MAX};

/// Bytes that are not a readable page.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PageError {
    /// Another program's object: check the URL.
    #[error("the object is not a Fader page")]
    Foreign,
    /// A newer format: upgrade.
    #[error("the page has format {found}, this build reads format {FORMAT}")]
    Format {
        /// The format that the page names.
        found: u16,
    },
    /// A damaged object: restore it, or rebuild the page from its neighbours.
    #[error("the page is damaged: {what}")]
    Damaged {
        /// The part that failed.
        what: &'static str,
    },
    /// Sealed bytes: open them with this key first.
    #[error("the page is sealed with key {key}")]
    Sealed {
        /// Id of the key.
        key: u64,
    },
}

/// A record, or an encoding of records, that is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// Use a shorter key.
    #[error("the key has {size} bytes, at most {KEY_BYTES_MAX} are allowed")]
    KeyTooLong {
        /// Bytes of the key.
        size: usize,
    },
    /// Store the payload in an object of its own and record a pointer.
    #[error("the payload has {size} bytes, at most {INLINE_BYTES_MAX} are stored inline")]
    PayloadTooLarge {
        /// Bytes of the payload.
        size: usize,
    },
    /// The records do not fit one message: send several.
    #[error("the records take {size} bytes, a message holds {max}")]
    MessageTooLarge {
        /// Bytes of the encoding.
        size: usize,
        /// The bound.
        max: usize,
    },
    /// A newer format: upgrade.
    #[error("the records have format {found}, this build reads format 1")]
    Format {
        /// The format that the message names.
        found: u8,
    },
    /// Damaged bytes.
    #[error("the records are damaged: {what}")]
    Damaged {
        /// The part that failed.
        what: &'static str,
    },
}

/// Sizes of pages that cannot work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("pages of {bytes} bytes are not possible: between {min} and {max}")]
pub struct SizesError {
    pub(crate) bytes: usize,
    pub(crate) min: usize,
    pub(crate) max: usize,
}

/// A tree, or the input of one, that contradicts itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TreeError {
    /// The store has not shown the page yet, or lost it: read again. Never treat the key as absent.
    #[error("page {0} is not there")]
    Missing(PageId),
    /// The tree is damaged: run the tree check.
    #[error("page {page}: {what}")]
    Broken {
        /// The page that contradicts the one before it.
        page: PageId,
        /// The contradiction.
        what: &'static str,
    },
    /// A bulk load needs keys in strictly ascending order.
    #[error("key {index} of the bulk load is not above the key before it")]
    Order {
        /// Position of the key in the input, from 0.
        index: u64,
    },
    /// A slot of a bulk load is not valid.
    #[error(transparent)]
    Record(#[from] RecordError),
}
