//! Pages and B-link trees of the database, as bytes and pure functions.
//!
//! A *page* is one object of the store: a leaf with records, or an inner page with children. A page
//! is immutable; a new version of it is a new [`Page`]. Pages of one level form a chain from left
//! to right. Each knows its right sibling and the key at which the sibling's range begins (its
//! *high key*). A split creates the right page first and then replaces the left one, so each step
//! leaves a tree that can be searched.
//!
//! ```text
//!   records ──▶ apply(page) ──▶ change: pages to create, then one page to replace
//!                         ├──▶ forwards: records of other pages
//!                         └──▶ separators ──▶ post(parent) ──▶ change
//! ```
//!
//! Bytes: `docs/reference/format/page.md`. Reasons: `docs/internals/decisions/0010-pages.md`.
//!
//! Invariants (a test and a mutant each; [`check`] and [`check_step`] verify them on pages):
//! - **P1** registers: a slot's registers only move to greater stamps. Records commute and repeat
//!   without effect.
//! - **P2** two registers: an update never revives a deleted key.
//! - **P3** horizon: a removed slot's stamp is at or below the page's horizon. A record at or below
//!   the horizon is refused where its register is absent. Both halves of a split keep the horizon.
//! - **P4** ranges: a page holds keys of `[low, high)` only; the chain of a level has no gap and no
//!   overlap.
//! - **P5** forwarding: a record of another key range is forwarded right, and a record at an inner
//!   page down.
//! - **P6** lineage: the pages that a split creates start at the LSN of the left page's new
//!   version.
//! - **P7** root: the root keeps its id; exactly the root has neither a low nor a high key.
//!
//! Deliberately absent: I/O, clocks, randomness (time and random bytes are arguments), and
//! encryption (the bytes to seal and to authenticate are named here). Also merging of pages (empty
//! pages stay until an offline vacuum).

mod apply;
mod build;
mod checking;
mod divide;
mod envelope;
mod error;
mod guard;
mod key;
mod marks;
mod page;
mod record;
mod search;
mod show;
mod slot;
mod stamp;
mod write;

#[cfg(test)]
mod tests;

pub use apply::{Applied, Change, Forward, Posted, Target, apply, post};
pub use build::Builder;
pub use checking::{Problem, Report, StepError, check, check_step};
pub use divide::Sizes;
pub use envelope::{Envelope, NONCE_BYTES, Stored};
pub use error::{PageError, RecordError, SizesError, TreeError};
pub use guard::Guard;
#[cfg(feature = "mutants")]
pub use guard::without;
pub use key::KeyRef;
pub use marks::Marks;
pub use page::{FORMAT, KeyTable, PAGE_BYTES_MAX, Page, PageId, Route, Slots};
pub use record::{
    INLINE_BYTES_MAX, KEY_BYTES_MAX, Op, Payload, Pointer, RECORDS_BYTES_MAX, Record,
    decode_records, encode_records,
};
pub use search::{Found, Range, Separator, range, search};
pub use slot::{Life, PayloadRef, Slot, SlotRef};
pub use stamp::{ClockError, HybridClock, HybridTime, Stamp};
pub use write::Edition;
