//! A slot: the state of one key, as two registers.
//!
//! *Life* has the stamp of the newest insert or delete, *value* that of the newest update. The key
//! is visible when life is alive; its payload is that of the newer register. This equals
//! "operations in the order of their stamps; an update of an absent key does nothing". It holds for
//! every set of operations, in any order and repetition.
//!
//! The state is canonical. A value register that is older than life is dropped, since life hides it
//! for ever; of two payloads only the visible one is kept. So one set of records has one state.

use bytes::Bytes;

use crate::guard::{self, Guard};
use crate::page::Page;
use crate::record::{Op, Payload, Pointer, Record};
use crate::stamp::Stamp;

/// The newest insert or delete of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Life {
    /// Its stamp.
    pub stamp: Stamp,
    /// Whether it was an insert.
    pub is_alive: bool,
}

/// The state of one key. A slot without registers is an absent slot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Slot {
    /// The newest insert or delete.
    pub(crate) life: Option<Life>,
    /// Stamp of the newest update, when it is newer than `life`.
    pub(crate) value: Option<Stamp>,
    /// Of the value register when there is one, else of the insert.
    pub(crate) payload: Option<Payload>,
}

/// What became of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The slot changed.
    Applied,
    /// The slot reflects the record already, or a newer one.
    Superseded,
    /// The record is at or below the horizon of a register that is absent.
    Refused,
}

impl Slot {
    /// A live slot: what an insert leaves.
    pub fn inserted(stamp: Stamp, payload: Payload) -> Self {
        Slot {
            life: Some(Life {
                stamp,
                is_alive: true,
            }),
            value: None,
            payload: Some(payload),
        }
    }

    /// Merges a record of this key. `horizon` is that of the page.
    pub(crate) fn merge(&mut self, record: &Record, horizon: Stamp) -> Outcome {
        if is_refused(self.as_ref(), record, horizon) {
            return Outcome::Refused;
        }
        let before = self.clone();
        let stamp = record.stamp;
        match &record.op {
            Op::Insert(payload) => self.live(stamp, Some(payload)),
            Op::Delete => self.live(stamp, None),
            Op::Update(payload) if guard::has(Guard::TwoRegisters) => self.update(stamp, payload),
            Op::Update(payload) => self.live(stamp, Some(payload)),
        }
        if !guard::has(Guard::DeadSlots) && self.life.is_some_and(|life| !life.is_alive) {
            *self = Slot::default();
        }
        if *self == before {
            Outcome::Superseded
        } else {
            Outcome::Applied
        }
    }

    /// Insert (with a payload) or delete. Equal stamps can only be issued by a repeated
    /// incarnation. Of them a delete wins over an insert and the greater payload over the smaller:
    /// any order gives the same state.
    fn live(&mut self, stamp: Stamp, payload: Option<&Payload>) {
        let is_alive = payload.is_some();
        let rank = |life: &Life| (life.stamp, !life.is_alive);
        let new = Life { stamp, is_alive };
        let is_same = self.life == Some(new);
        let is_newer = self.life.is_none_or(|old| rank(&new) > rank(&old));
        if is_same && self.value.is_none() {
            self.payload = self.payload.take().max(payload.cloned());
        } else if is_newer || !guard::has(Guard::SlotStamps) {
            self.life = Some(new);
            if self.value.is_none_or(|value| value <= stamp) {
                self.value = None;
                self.payload = payload.cloned();
            }
        }
    }

    fn update(&mut self, stamp: Stamp, payload: &Payload) {
        if !guard::has(Guard::SlotStamps) {
            self.value = Some(stamp);
            self.payload = Some(payload.clone());
            return;
        }
        if self.life.is_some_and(|life| stamp <= life.stamp) {
            return;
        }
        if self.value.is_none_or(|old| stamp > old) {
            self.value = Some(stamp);
            self.payload = Some(payload.clone());
        } else if self.value == Some(stamp) {
            self.payload = self.payload.take().max(Some(payload.clone()));
        }
    }

    /// The payload that a reader sees: none when the key is not alive.
    pub fn visible(&self) -> Option<&Payload> {
        let is_alive = self.life.is_some_and(|life| life.is_alive);
        self.payload.as_ref().filter(|_| is_alive)
    }

    /// The slot, borrowed.
    pub fn as_ref(&self) -> SlotRef<'_> {
        SlotRef {
            life: self.life,
            value: self.value,
            payload: self.payload.as_ref().map(Payload::as_ref),
        }
    }
}

/// Whether a horizon forbids that `record` fills an absent register. The horizon is per register.
/// An update that came after its slot was removed creates a slot without life, which an insert from
/// before the removal must not revive.
fn is_refused(slot: SlotRef<'_>, record: &Record, horizon: Stamp) -> bool {
    if record.stamp > horizon || !guard::has(Guard::Horizon) {
        return false;
    }
    let is_absent = slot.newest().is_none();
    match record.op {
        Op::Update(_) => is_absent,
        _ if guard::has(Guard::HorizonPerRegister) => slot.life.is_none(),
        _ => is_absent,
    }
}

/// A slot inside a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotRef<'a> {
    /// The newest insert or delete.
    pub life: Option<Life>,
    /// Stamp of the newest update, when it is newer than `life`.
    pub value: Option<Stamp>,
    /// Of the value register when there is one, else of the insert.
    pub payload: Option<PayloadRef<'a>>,
}

impl<'a> SlotRef<'a> {
    /// The payload that a reader sees: none when the key is not alive.
    pub fn visible(self) -> Option<PayloadRef<'a>> {
        self.payload.filter(|_| self.is_alive())
    }

    /// Whether the key is there for readers.
    pub fn is_alive(self) -> bool {
        self.life.is_some_and(|life| life.is_alive)
    }

    /// The greatest stamp; none for an absent slot.
    pub fn newest(self) -> Option<Stamp> {
        self.life.map(|life| life.stamp).max(self.value)
    }

    /// Whether the state has `record` in it, so that applying it has no effect. Its register is at
    /// or above the record's stamp, or the horizon refuses it. A client drops its own pending
    /// record then, not before.
    pub fn covers(self, record: &Record, horizon: Stamp) -> bool {
        if !guard::has(Guard::Covers) {
            return true;
        }
        let life = self.life.map(|life| life.stamp);
        let register = match record.op {
            Op::Update(_) => life.max(self.value),
            Op::Insert(_) | Op::Delete => life,
        };
        register.is_some_and(|stamp| record.stamp <= stamp) || is_refused(self, record, horizon)
    }

    /// The slot with memory of its own; an inline payload shares the memory of `share`'s result.
    pub(crate) fn to_slot(self, share: impl FnOnce(&'a [u8]) -> Bytes) -> Slot {
        Slot {
            life: self.life,
            value: self.value,
            payload: self.payload.map(|payload| match payload {
                PayloadRef::Inline(bytes) => Payload::Inline(share(bytes)),
                PayloadRef::Object(pointer) => Payload::Object(pointer),
            }),
        }
    }
}

/// The payload of a record inside a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PayloadRef<'a> {
    /// The bytes.
    Inline(&'a [u8]),
    /// Where the bytes are.
    Object(Pointer),
}

impl PayloadRef<'_> {
    /// The payload, sharing the memory of the page that it is in.
    ///
    /// # Panics
    /// As [`Page::share`].
    pub fn to_payload(self, page: &Page) -> Payload {
        match self {
            PayloadRef::Inline(bytes) => Payload::Inline(page.share(bytes)),
            PayloadRef::Object(pointer) => Payload::Object(pointer),
        }
    }
}

#[cfg(test)]
mod tests;
