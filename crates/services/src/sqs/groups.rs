//! The groups of a FIFO queue.
//!
//! A group is ready when none of its messages is in flight and its first one can be received. Then
//! it stands among the ready groups, at that message. So a receive meets no group that is blocked.
//!
//! Invariants:
//! - QU-2 a group with a message in flight is not ready.
//! - QG-1 the head of a group is the first of its rows in 'F'.

use bytes::Bytes;
use fader_chain::Guard;

use crate::ViewError;
use crate::sqs::layout::{Index, Spot, spot_of};
use crate::sqs::message::{Group, Row};
use crate::sqs::queue::Queue;

impl Queue<'_> {
    pub(crate) fn group(&self, group: &str) -> Result<Group, ViewError> {
        let row = self.row(&self.keys().group(group))?;
        Ok(row.unwrap_or_default())
    }

    /// The order of messages in a group is that of their numbers.
    fn in_group(spot: Spot) -> Spot {
        Spot { at: 0, ..spot }
    }

    /// Adds a message that waits in its group. Nothing in a standard queue.
    pub(crate) fn wait_in_group(&mut self, name: &str, spot: Spot) -> Result<(), ViewError> {
        if !self.settings.is_fifo() {
            return Ok(());
        }
        let key = self.keys().waiting(name, Queue::in_group(spot));
        self.put(key, Bytes::copy_from_slice(&spot.at.to_be_bytes()));
        let mut group = self.group(name)?;
        if group.head.is_none_or(|head| spot.number < head.number) {
            group.head = Some(spot);
        }
        self.place_group(name, group)
    }

    /// Takes a message away that waits in its group.
    pub(crate) fn leave_group(&mut self, name: &str, spot: Spot) -> Result<(), ViewError> {
        if !self.settings.is_fifo() {
            return Ok(());
        }
        let key = self.keys().waiting(name, Queue::in_group(spot));
        self.remove(key);
        let mut group = self.group(name)?;
        if group.head.is_some_and(|head| head.number == spot.number) {
            group.head = self.waiting_after(name, spot.number, 1)?.first().copied();
        }
        self.place_group(name, group)
    }

    /// Up to `count` messages that wait in a group, from this number on.
    pub(crate) fn waiting_after(
        &self,
        name: &str,
        number: u64,
        count: usize,
    ) -> Result<Vec<Spot>, ViewError> {
        let range = self.keys().waiting_from(name, Spot { at: 0, number });
        let mut spots = Vec::new();
        for (key, at) in self.scan(&range, count)? {
            let at = at.first_chunk::<8>().copied().unwrap_or_default();
            spots.push(Spot {
                at: u64::from_be_bytes(at),
                number: spot_of(&key)?.number,
            });
        }
        Ok(spots)
    }

    /// One more message of the group is in flight, or one less.
    pub(crate) fn hold_group(&mut self, name: &str, more: i64) -> Result<(), ViewError> {
        if !self.settings.is_fifo() {
            return Ok(());
        }
        let mut group = self.group(name)?;
        group.held = group.held.saturating_add_signed(more);
        self.place_group(name, group)
    }

    /// Puts a group where it belongs among those that are ready.
    pub(crate) fn place_group(&mut self, name: &str, mut group: Group) -> Result<(), ViewError> {
        let is_blocked = 0 < group.held && self.has(Guard::QueueGroup);
        let can_be = |head: &Spot| head.at <= self.now_ms || !self.has(Guard::QueueDelay);
        let ready = group.head.filter(|head| !is_blocked && can_be(head));
        if ready != group.ready {
            if let Some(spot) = group.ready {
                self.withdraw(Index::Ready, spot)?;
            }
            if let Some(spot) = ready {
                let value = Bytes::copy_from_slice(name.as_bytes());
                self.insert(Index::Ready, spot, value);
            }
            group.ready = ready;
        }
        let key = self.keys().group(name);
        match group == Group::default() {
            true => self.remove(key),
            false => self.put(key, group.encode()),
        }
        Ok(())
    }
}
