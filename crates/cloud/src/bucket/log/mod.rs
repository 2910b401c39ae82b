//! A log in the bucket (docs/explanation/bucket.md, rules BLOG-1 to BLOG-9): numbered slots,
//! created if absent and never freed; one manifest per name.
//!
//! ```text
//! write, read ──▶ LogClient ── decides on its view ──▶ PUT slot k+1, or GET of it
//!                  └─ Keeper: manifest, snapshots, stubs, sweep
//! ```
//!
//! What slots mean is a [`Machine`]'s. Domains are one; the database's sequenced family is another.

mod ask;
mod bytes;
mod client;
mod keeper;
mod turns;
mod view;

pub(super) use self::client::LogClient;
pub(super) use self::keeper::Keeper;

use ::bytes::Bytes;
use fader_chain::{DecodeError, Reader};

use crate::error::Result;

/// The slots between two snapshots.
pub(super) const SNAPSHOT_EVERY: u64 = 256;
/// A slot of more bytes becomes a stub when a snapshot covers it.
pub(super) const STUB_ABOVE: u64 = 64 * 1024;
/// Writes of one slot, at most.
pub(super) const WRITES_MAX: usize = 1000;

/// What the slots of a log mean.
pub(super) trait Machine: std::fmt::Debug + Send + 'static {
    /// What is asked to be written.
    type Write: std::fmt::Debug + Send + Sync + 'static;

    /// The state before the first slot.
    fn new(name: &str) -> Self;

    /// Decides writes in order, each on what those before it changed: a refusal, what is to be
    /// logged, or neither where nothing changes.
    fn decide(&self, slot: u64, writes: &[&Self::Write]) -> Vec<Result<Option<Bytes>>>;

    /// Applies the writes of a slot.
    ///
    /// # Errors
    /// [`DecodeError`] when a write cannot be read.
    fn apply(&mut self, slot: u64, writes: &[Bytes]) -> std::result::Result<(), DecodeError>;

    /// The state as bytes.
    fn snapshot(&self) -> Vec<u8>;

    /// Reads what `snapshot` wrote.
    ///
    /// # Errors
    /// [`DecodeError`] when the bytes are none.
    fn restore(name: &str, reader: &mut Reader) -> std::result::Result<Self, DecodeError>
    where
        Self: Sized;
}
