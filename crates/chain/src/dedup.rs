//! What became of named requests: exactly-once (docs/internals/protocol/chain.md, section 9).
//!
//! A name's result is part of the state, put by the same entry that decided it:
//!
//! ```text
//! result := epoch:varint index:varint kind:u8 (0 strong, 1 settlement) result
//! client := greatest:varint        the greatest number seen of the client; or [`WINDOW`] beyond
//!                                  it, where its results are dropped
//! ```
//!
//! Invariants:
//! - DEDUP-1 a result is there exactly if the entry that carried its name is in the state.
//! - DEDUP-2 the results of a client's last [`WINDOW`] numbers are there. Below are only
//!   settlements above the safe point (D17). Idle clients are an exception (XO-4,
//!   `replica::client_expiry`).
//! - DEDUP-4 [`DedupCursor`] says of no result that is there that it is not. It spares looking; an
//!   entry has the same effect without it.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

use bytes::Bytes;

use crate::change::{Change, Mutation};
use crate::codec::{Reader, put_varint};
use crate::entry::{Client, Entry, RequestId};
use crate::keys;
use crate::operation::Settlement;
use crate::stamp::EntryId;
use crate::view::{Direction, View, ViewError};

/// How many of a client's numbers are remembered.
pub(crate) const WINDOW: u64 = 1_024;
/// How far beyond its client's greatest number a request may be. A client that sent the greatest
/// number there is would be refused everything else (XO-8).
const SKIPPED_MAX: u64 = 1 << 20;
/// The greatest number with which a client may begin.
const FIRST_MAX: u64 = 1 << 63;
/// Results looked at when one is added: the window moves by one, so old ones never pile up.
const SWEPT_PER_ENTRY: usize = 4;
/// Clients of which it is remembered where their results begin.
const SWEPT_CLIENTS_MAX: usize = 4_096;

/// What is known of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DedupState {
    /// An entry that is not applied yet carries it.
    Logged(EntryId),
    /// A strong request, decided by this entry, with this outcome.
    Decided {
        /// The entry.
        id: EntryId,
        /// The outcome kept.
        result: Bytes,
    },
    /// An eventual operation, settled by this entry.
    Settled {
        /// The entry.
        id: EntryId,
        /// How, and of which request.
        settlement: Settlement,
    },
    /// Its number is below the client's window.
    TooOld,
    /// Its number is too far above all that the client asked.
    TooFar,
}

/// Where the results of clients begin in the state that entries come to, computed one after the
/// other. Swept results are not looked through again, since a store passes over removed rows one by
/// one. For any other state it begins anew.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DedupCursor {
    /// Numbers below which the client has no result.
    begins: BTreeMap<Client, u64>,
}

impl Hash for DedupCursor {
    /// It follows from the state.
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl DedupCursor {
    fn begin(&self, client: Client) -> u64 {
        self.begins.get(&client).copied().unwrap_or_default()
    }

    fn on_begin(&mut self, client: Client, begin: u64) {
        if SWEPT_CLIENTS_MAX <= self.begins.len() && !self.begins.contains_key(&client) {
            self.begins.clear();
        }
        self.begins.insert(client, begin);
    }

    /// The name has a result now: one that is settled late may be below what was swept.
    fn on_result(&mut self, name: RequestId) {
        if let Some(begin) = self.begins.get_mut(&name.client) {
            *begin = name.seq.min(*begin);
        }
    }
}

/// What the state says of `name`.
pub(crate) fn known(name: &RequestId, state: &dyn View) -> Result<Option<DedupState>, ViewError> {
    match result(name, state)? {
        Some((id, true, result)) => {
            let settlement = Settlement::decode(result)?;
            return Ok(Some(DedupState::Settled { id, settlement }));
        }
        Some((id, false, result)) => return Ok(Some(DedupState::Decided { id, result })),
        None => {}
    }
    let greatest = greatest(name.client, state)?;
    let most = match greatest {
        0 => FIRST_MAX,
        greatest => greatest.saturating_add(SKIPPED_MAX),
    };
    Ok(if name.seq.saturating_add(WINDOW) <= greatest {
        Some(DedupState::TooOld)
    } else {
        (most < name.seq).then_some(DedupState::TooFar)
    })
}

/// Whether the state has a result for `name`, in the window or not.
pub(crate) fn is_settled(name: &RequestId, state: &dyn View) -> Result<bool, ViewError> {
    Ok(state.get(&keys::result_key(*name))?.is_some())
}

/// The names of a client's results in order, each with the entry that decided it, and whether that
/// settled an eventual operation.
pub(crate) fn of_client(
    state: &dyn View,
    client: Client,
) -> impl Iterator<Item = Result<(RequestId, EntryId, bool), ViewError>> {
    let (start, end) = keys::results_of(client);
    let results = state.scan(&start, &end, Direction::Forward);
    results.map(|pair| {
        let (key, value) = pair?;
        let name = keys::parse_result_key(&key).expect("it is among the results");
        let (id, is_settlement, _) = decode(value)?;
        Ok((name, id, is_settlement))
    })
}

/// What has the client's window begin behind `last`, if it does not yet.
pub(crate) fn close(last: RequestId, state: &dyn View) -> Result<Option<Change>, ViewError> {
    let greatest = greatest(last.client, state)?;
    let beyond = last.seq.saturating_add(WINDOW);
    Ok((greatest < beyond).then(|| Change::Put {
        key: keys::client_key(last.client),
        value: client(beyond),
    }))
}

/// Adds what is kept of `name`, which `entry` carries, to what the entry does.
pub(crate) fn record(
    entry: &Entry,
    name: RequestId,
    state: &dyn View,
    swept: &mut DedupCursor,
    out: &mut Vec<Mutation>,
) -> Result<(), ViewError> {
    swept.on_result(name);
    let mut value = Vec::with_capacity(entry.result.len() + 16);
    put_varint(&mut value, entry.id.epoch);
    put_varint(&mut value, entry.id.index);
    value.push(u8::from(entry.is_settlement()));
    value.extend_from_slice(&entry.result);
    out.push(Mutation {
        key: keys::result_key(name),
        value: Some(value.into()),
    });
    let greatest = greatest(name.client, state)?;
    if greatest < name.seq {
        out.push(Mutation {
            key: keys::client_key(name.client),
            value: Some(client(name.seq)),
        });
        sweep(entry, name, state, swept, out)?;
    }
    Ok(())
}

/// Drops results that fell out of the window.
fn sweep(
    entry: &Entry,
    name: RequestId,
    state: &dyn View,
    swept: &mut DedupCursor,
    out: &mut Vec<Mutation>,
) -> Result<(), ViewError> {
    let Some(below) = (name.seq + 1).checked_sub(WINDOW) else {
        return Ok(());
    };
    let key = |seq| {
        keys::result_key(RequestId {
            client: name.client,
            seq,
            part: 0,
        })
    };
    let first = key(swept.begin(name.client));
    let old = state.scan(&first, &key(below), Direction::Forward);
    let (mut left, mut room) = (None, SWEPT_PER_ENTRY);
    for pair in old.take(SWEPT_PER_ENTRY) {
        let (key, value) = pair?;
        let (id, is_settlement, _) = decode(value)?;
        let seq = keys::parse_result_key(&key)
            .expect("it is among the results")
            .seq;
        room -= 1;
        if !is_settlement || id <= entry.safe_point {
            out.push(Mutation { key, value: None });
            // Other parts of the last one may be left.
            if room == 0 {
                left.get_or_insert(seq);
            }
        } else {
            left.get_or_insert(seq);
        }
    }
    swept.on_begin(name.client, left.unwrap_or(below));
    Ok(())
}

fn result(name: &RequestId, state: &dyn View) -> Result<Option<(EntryId, bool, Bytes)>, ViewError> {
    let value = state.get(&keys::result_key(*name))?;
    value.map(decode).transpose()
}

fn decode(value: Bytes) -> Result<(EntryId, bool, Bytes), ViewError> {
    let mut reader = Reader::new(value);
    let id = EntryId::new(reader.varint()?, reader.varint()?);
    let is_settlement = reader.byte()? != 0;
    Ok((id, is_settlement, reader.rest()))
}

fn client(greatest: u64) -> Bytes {
    let mut value = Vec::with_capacity(8);
    put_varint(&mut value, greatest);
    value.into()
}

fn greatest(client: Client, state: &dyn View) -> Result<u64, ViewError> {
    match state.get(&keys::client_key(client))? {
        Some(value) => Ok(Reader::new(value).varint()?),
        None => Ok(0),
    }
}

#[cfg(test)]
mod tests;
