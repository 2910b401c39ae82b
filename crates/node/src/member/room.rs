//! Room on the disk. While only the reserve is left, requests that add bytes of objects are
//! refused, as blocks are. The log takes deletions from the reserve, and the engine lets removed
//! rows go.
//!
//! Invariants:
//! - a request that adds bytes of objects is decided only where its turn found more than the
//!   reserve free. An eventual write is accepted by the same rule.

use std::cell::Cell;
use std::sync::Arc;

use fader_services::Reason;
use fader_services::request::Request;

use super::blocks::MemberBlocks;
use super::refusal::{Kind, Refusal};

/// What is known of the room on a member's disk.
pub(super) struct Room {
    blocks: Arc<MemberBlocks>,
    /// Whether more than the reserve was free in this turn.
    has_room: Cell<bool>,
    /// Bytes that were free when it was looked last, if that was only the reserve.
    short: Option<u64>,
}

impl Room {
    /// That on the disk which has these blocks.
    pub(super) fn new(blocks: Arc<MemberBlocks>) -> Self {
        Room {
            blocks,
            has_room: Cell::new(false),
            short: None,
        }
    }

    /// A turn begins: what was free before is not known any more.
    pub(super) fn on_turn(&mut self) {
        self.has_room.set(false);
    }

    /// Bytes that are free, if that is only the reserve.
    fn shortage(&self) -> Result<Option<u64>, Refusal> {
        if self.has_room.get() {
            return Ok(None);
        }
        let free = self.blocks.bytes_free();
        let free = free.map_err(|error| Refusal::of_store(Kind::Again, error.to_string()))?;
        self.has_room
            .set(self.blocks.options().reserve_bytes <= free);
        Ok(Some(free).filter(|_| !self.has_room.get()))
    }

    /// Whether a request may add what it adds.
    ///
    /// # Errors
    /// [`Refusal`]: the disk has only its reserve left, or it cannot be asked.
    pub(super) fn check(&self, request: &Request) -> Result<(), Refusal> {
        match request.adds_object_bytes() && self.shortage()?.is_some() {
            true => Err(Refusal::new(Kind::Again, Reason::BlocksFull)),
            false => Ok(()),
        }
    }

    /// Whether the disk had only its reserve left when it was looked last.
    pub(super) fn is_short(&self) -> bool {
        self.short.is_some()
    }

    /// Looks again: bytes that are free, if that is only the reserve.
    pub(super) fn look(&mut self) -> Option<u64> {
        let was_short = self.is_short();
        self.short = self.shortage().unwrap_or(self.short);
        match (was_short, self.short) {
            (false, Some(free)) => {
                tracing::warn!(
                    free,
                    "the disk has only its reserve left: objects are refused"
                );
            }
            (true, None) => tracing::info!("the disk has room again: objects are taken"),
            _ => {}
        }
        self.short
    }
}
