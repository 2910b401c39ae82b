//! A process's view of a log: how it is opened, and how it follows the slots (rules BLOG-3 to
//! BLOG-7, BLOG-9).

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;

use super::Machine;
use super::ask::Ask;
use super::bytes::{Content, Slot, decode_snapshot};
use super::client::LogClient;
use crate::bucket::guard::Guard;
use crate::bucket::names::Incarnation;
use crate::bucket::time::drift;
use crate::error::{Error, ErrorKind, Result};

/// How long a view is used without contact.
const CONTACT: Duration = Duration::from_secs(60 * 60);
/// Slots read at once.
const WINDOW_MAX: u64 = 16;
/// Views opened for one call.
const OPENS_MAX: u32 = 16;

/// The state behind a slot.
#[derive(Debug)]
pub(super) struct View<M> {
    pub(super) incarnation: Incarnation,
    pub(super) position: u64,
    pub(super) machine: M,
    /// When the last request was sent whose answer shows that the log lived.
    pub(super) contact: Duration,
    /// When the last request was sent that found the tail.
    pub(super) tail: Option<Duration>,
}

/// What a look behind the view found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Looked {
    /// The view is at the tail.
    Tail,
    /// The slot that was looked for is this process's, and applied.
    Own,
    /// The view is none any more: the log ended, or a snapshot covers what is missing.
    Reopen,
    /// The view has had no contact for too long, and is none any more.
    Lost,
}

impl<M: Machine> LogClient<M> {
    /// Opens a view, or sees that the one there is has contact (BLOG-7).
    pub(super) async fn open(&self, writes: bool) -> Result<()> {
        for opens in 1..=OPENS_MAX {
            let now = self.store().now();
            let is_open = self.inner().view.as_ref().map(|view| view.contact);
            if is_open.is_some_and(|contact| !self.is_lost(contact, now, writes)) {
                return Ok(());
            }
            let read = self.keeper.manifest(&self.name).await?;
            let living = read
                .map(|read| read.manifest)
                .filter(|known| !known.is_gone);
            let Some(manifest) = living else {
                self.inner().view = None;
                let context = format!("there is no domain {:?}", self.name);
                return Err(Error::new(ErrorKind::NotFound, context));
            };
            let incarnation = manifest.incarnation;
            if let Some(view) = &mut self.inner().view
                && view.incarnation == incarnation
            {
                view.contact = now;
                return Ok(());
            }
            let (position, machine) = match manifest.snapshot {
                None => (0, M::new(&self.name)),
                Some(snapshot) => {
                    let key = self.keeper.snapshot_key(&self.name, incarnation, snapshot);
                    let Some(found) = self.store().get_surely(&key).await? else {
                        // The manifest names a newer one by now.
                        self.store().look_pause(opens).await;
                        continue;
                    };
                    let position = snapshot.position;
                    let restore = |reader: &mut _| M::restore(&self.name, reader);
                    let machine = decode_snapshot(key.as_ref(), &found.bytes, position, restore)?;
                    (position, machine)
                }
            };
            self.inner().view = Some(View {
                incarnation,
                position,
                machine,
                contact: now,
                tail: None,
            });
            return Ok(());
        }
        let context = format!(
            "the manifest of {:?} names a snapshot that is gone",
            self.name
        );
        Err(Error::new(ErrorKind::Malformed, context))
    }

    /// Whether a view of this contact is too old to be used at `now` (BLOG-7).
    pub(super) fn is_lost(&self, contact: Duration, now: Duration, writes: bool) -> bool {
        let age = now.saturating_sub(contact);
        let guard = match writes {
            true => Guard::WriterContact,
            false => Guard::ReaderContact,
        };
        CONTACT <= age + drift(age) && self.has(guard)
    }

    pub(super) fn position(&self) -> u64 {
        self.inner().view.as_ref().map_or(0, |view| view.position)
    }

    /// Reads slots behind the view and applies them, up to the tail. `own` is looked for.
    pub(super) async fn look(
        self: &Arc<Self>,
        writes: bool,
        window: u64,
        own: Option<&Slot>,
    ) -> Result<Looked> {
        let mut window = window.min(WINDOW_MAX);
        loop {
            let Some((incarnation, contact)) = self.of_view() else {
                return Ok(Looked::Reopen);
            };
            let first = self.position() + 1;
            let sent = self.store().now();
            let keys: Vec<_> = (first..first + window)
                .map(|number| self.keeper.slot_key(&self.name, incarnation, number))
                .collect();
            let reads = keys.iter().zip(first..);
            let reads = reads.map(|(key, number)| self.keeper.slot(key, number));
            let slots = join_all(reads).await;
            if self.is_lost(contact, self.store().now(), writes) {
                // What was read may be of a log that ended and was swept.
                self.inner().view = None;
                return Ok(Looked::Lost);
            }
            for (slot, key) in slots.into_iter().zip(&keys) {
                let Some(slot) = slot? else {
                    self.found_tail(sent);
                    return Ok(Looked::Tail);
                };
                match slot.content {
                    Content::Seal => {
                        if self.has(Guard::SealHelp) {
                            self.finish().await?;
                            self.inner().view = None;
                            return Ok(Looked::Reopen);
                        }
                        self.inner().view = None;
                        let context = format!("there is no domain {:?}", self.name);
                        return Err(Error::new(ErrorKind::NotFound, context));
                    }
                    Content::Stub => {
                        let is_own = own.is_some_and(|own| own.put_id == slot.put_id);
                        self.inner().view = None;
                        return Ok(match is_own {
                            true => Looked::Own,
                            false => Looked::Reopen,
                        });
                    }
                    Content::Writes(_) => {}
                }
                let is_own =
                    own.is_some_and(|own| own.put_id == slot.put_id && own.number == slot.number);
                self.apply(key.as_ref(), &slot, sent)?;
                if is_own {
                    return Ok(Looked::Own);
                }
            }
            window = (window * 2).min(WINDOW_MAX);
        }
    }

    pub(super) fn of_view(&self) -> Option<(Incarnation, Duration)> {
        let inner = self.inner();
        let view = inner.view.as_ref();
        view.map(|view| (view.incarnation, view.contact))
    }

    /// From when on a view is young whose tail was found by a request sent at `sent` (BLOG-5).
    pub(super) fn young_since(&self, sent: Duration) -> Duration {
        match self.has(Guard::YoungFromSending) {
            true => sent,
            false => self.store().now(),
        }
    }

    pub(super) fn found_tail(&self, sent: Duration) {
        let young_since = self.young_since(sent);
        let mut inner = self.inner();
        if let Some(view) = &mut inner.view {
            view.contact = view.contact.max(sent);
            view.tail = Some(young_since);
        }
        if !self.has(Guard::OwnGet) {
            // A mutant lets reads join a request that began before them.
            let (reads, left): (VecDeque<_>, _) = std::mem::take(&mut inner.waiting)
                .into_iter()
                .partition(|ask| matches!(ask, Ask::Read(_)));
            inner.waiting = left;
            for ask in reads {
                if let (Ask::Read(read), Some(view)) = (ask, &inner.view) {
                    read(Ok(&view.machine));
                }
            }
        }
    }

    pub(super) fn apply(&self, key: &str, slot: &Slot, sent: Duration) -> Result<()> {
        let mut inner = self.inner();
        inner.turns.saw(slot.put_id.process);
        let Some(view) = &mut inner.view else {
            return Ok(());
        };
        let Content::Writes(writes) = &slot.content else {
            return Ok(());
        };
        if let Err(error) = view.machine.apply(slot.number, writes) {
            inner.view = None;
            let context = format!("object {key:?} is damaged: {error}");
            return Err(Error::new(ErrorKind::Malformed, context));
        }
        view.position = slot.number;
        view.contact = view.contact.max(sent);
        view.tail = None;
        Ok(())
    }
}
