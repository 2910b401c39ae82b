//! Clears away deleted collections, a step at a time between other work.
//!
//! A step would meet the tombstones of all steps before it, so the purge remembers how far it came.
//! Nothing is ever put into a deleted collection again.

use bytes::Bytes;
use fader_chain::Change;
use fader_services::{Direction, SYSTEM, Scan, View, ViewError, catalog};

/// Keys removed in one step: a few milliseconds.
const KEYS_PER_STEP: usize = 500;

/// The sweep's place.
pub(crate) struct DomainPurge {
    is_due: bool,
    /// The last key removed.
    swept: Option<Bytes>,
}

impl DomainPurge {
    /// A sweep that has yet to look whether there is anything to do.
    pub(crate) fn new() -> Self {
        DomainPurge {
            is_due: true,
            swept: None,
        }
    }

    /// Whether there may be something to do.
    pub(crate) fn is_due(&self) -> bool {
        self.is_due
    }

    /// What it did last may not have happened: it looks again.
    pub(crate) fn restart(&mut self) {
        *self = DomainPurge::new();
    }

    /// A collection was deleted, or a deleted one is done with.
    pub(crate) fn on_garbage(&mut self) {
        self.is_due = true;
    }

    /// The next changes; none when all is swept.
    pub(crate) fn step(&mut self, view: &dyn View) -> Result<Vec<Change>, ViewError> {
        let rest = Rest {
            view,
            swept: self.swept.as_deref().unwrap_or_default(),
        };
        let changes = catalog::purge(&rest, KEYS_PER_STEP)?;
        self.is_due = !changes.is_empty();
        let last = changes
            .iter()
            .map(Change::key)
            .rfind(|key| !key.starts_with(&SYSTEM_PREFIX));
        if let Some(key) = last {
            self.swept = Some(key.clone());
        }
        Ok(changes)
    }
}

const SYSTEM_PREFIX: [u8; 8] = SYSTEM.0.to_be_bytes();

/// A view in which a scan across the last key removed begins behind it.
struct Rest<'a> {
    view: &'a dyn View,
    swept: &'a [u8],
}

impl View for Rest<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, ViewError> {
        self.view.get(key)
    }

    fn scan(&self, start: &[u8], end: &[u8], direction: Direction) -> Scan<'_> {
        let is_across = start <= self.swept && self.swept < end;
        let start = if is_across { self.swept } else { start };
        self.view.scan(start, end, direction)
    }
}

#[cfg(test)]
mod tests;
