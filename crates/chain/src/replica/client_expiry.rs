//! Clients of which nothing was heard for a day. The head drops the results of their requests, and
//! keeps the number up to which none is carried out any more (docs/internals/protocol/chain.md,
//! XO-4).
//!
//! No clock is written down and none is compared. A member notes its commit id every so often. When
//! as much time has passed again, a client without a result above the older note is idle. So a
//! client is dropped after once to twice that time, by a head that has lived as long.
//!
//! Invariants:
//! - DEDUP-3 of a client that is dropped every result is at or below an id that was committed
//!   `idle_ms` ago. Every settlement is at or below the safe point.
//!
//! One entry of this kind is under way at a time. They put and remove plain keys: members of every
//! version apply them.

use bytes::Bytes;

use super::{Replica, Step};
use crate::change::Change;
use crate::dedup;
use crate::entry::Client;
use crate::guard::Guard;
use crate::keys;
use crate::stamp::{EntryId, Stamp};
use crate::view::{Direction, View, ViewError};

/// Results looked at in one step, more or less: those of one client are looked at together.
const LOOKED_AT_MAX: usize = 1_024;
/// What one entry removes.
const REMOVED_MAX: usize = 256;

/// The state of the search for idle clients.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct ClientExpiry {
    /// What was committed here, and when: the newer note.
    noted: Option<(u64, EntryId)>,
    /// What was committed when the note before was made: long enough ago.
    before: EntryId,
    /// The client to look at next; none if there is nothing to do until the next note.
    next: Option<Client>,
    /// The last entry that removed something.
    entry: EntryId,
}

impl ClientExpiry {
    /// Whether there is nothing to look at until the next note.
    pub(super) fn is_over(&self) -> bool {
        self.next.is_none()
    }

    /// Whether the entry removed something.
    pub(super) fn has_removed(&self, entry: EntryId) -> bool {
        self.entry == entry
    }
}

/// What a look at some clients came to.
struct Found {
    changes: Vec<Change>,
    next: Option<Client>,
}

impl Replica {
    pub(super) fn tick_idle(&mut self, step: &mut Step<'_>) -> Result<(), ViewError> {
        let now = step.now.monotonic;
        match self.idle.noted {
            None => self.idle.noted = Some((now, self.commit)),
            Some((at, commit)) if at + self.settings.idle_ms <= now => {
                self.idle.noted = Some((now, self.commit));
                self.idle.before = commit;
                self.idle.next = Some(Client::default());
            }
            Some(_) => {}
        }
        let Some(next) = self.idle.next else {
            return Ok(());
        };
        if self.commit < self.idle.entry || self.refuses_submit().is_some() {
            return Ok(());
        }
        let safe_point = match self.guards.has(Guard::IdleFloor) {
            true => self.safe_point(),
            false => self.log.last(),
        };
        let newest = self.log.newest(step.host.committed());
        let found = idle(&newest, next, self.idle.before, safe_point)?;
        self.idle.next = found.next;
        if !found.changes.is_empty() {
            self.idle.entry =
                self.append(Stamp::strong, None, Bytes::new(), found.changes, step)?;
        }
        Ok(())
    }
}

/// What drops the results of idle clients, from `first` on. Their results are at or below `before`,
/// and their settlements at or below `safe point`.
fn idle(
    state: &dyn View,
    first: Client,
    before: EntryId,
    safe_point: EntryId,
) -> Result<Found, ViewError> {
    let mut changes = Vec::new();
    let mut looked_at = 0;
    let (start, end) = (keys::client_key(first), keys::clients_end());
    for row in state.scan(&start, &end, Direction::Forward) {
        let (row, _) = row?;
        let client = keys::parse_client_key(&row).expect("it is among the clients");
        if LOOKED_AT_MAX <= looked_at || REMOVED_MAX <= changes.len() {
            let next = Some(client);
            return Ok(Found { changes, next });
        }
        looked_at += 1;
        let mut kept = Vec::new();
        let mut is_idle = true;
        for result in dedup::of_client(state, client) {
            let (name, id, is_settlement) = result?;
            looked_at += 1;
            is_idle &= id <= before && (!is_settlement || id <= safe_point);
            if !is_idle {
                break;
            }
            kept.push(name);
        }
        let Some(last) = kept.last().filter(|_| is_idle) else {
            continue;
        };
        // First of all: what is not kept any more is never to be carried out again.
        changes.extend(dedup::close(*last, state)?);
        let room = REMOVED_MAX.saturating_sub(changes.len());
        let is_all = kept.len() <= room;
        let removed = kept.into_iter().take(room).map(keys::result_key);
        changes.extend(removed.map(|key| Change::Remove { key }));
        if !is_all {
            let next = Some(client);
            return Ok(Found { changes, next });
        }
    }
    let next = None;
    Ok(Found { changes, next })
}

#[cfg(test)]
mod tests;
