//! The keys that belong to the chain itself, beside the collections it holds.
//!
//! ```text
//! key    := 0xff × 8  table:u8  rest          behind every collection
//! result := 'q' client:u128be seq:u64be part:u32be    what a retry is answered
//!         | 's' owner:u64be client:u128be seq:u64be part:u32be
//! client := 'c' client:u128be                         what is known of a client
//!         | 'd' owner:u64be client:u128be
//! row    := 'r' epoch:u64be index:u64be register      marks to collect (GC-4)
//! mode   := 'o' collection:u64be                      of a collection that is not strong (MD-1)
//! ```
//!
//! The tables `s` and `d` are of clients that have an owner; they came with version 4.
//!
//! Numbers have a fixed size, so keys sort as what they name: the results of a client by seq and
//! part, rows by entry. All rows up to an entry are those from `row_key(EntryId::ZERO, b"")` to the
//! `row_key` of the next index.
//!
//! Deliberately absent: what is stored there; that is their writers' matter.

use bytes::Bytes;

use crate::entry::{Client, RequestId};
use crate::stamp::EntryId;

/// The collection id of the chain's own keys; no service may use it.
pub const COLLECTION: u64 = u64::MAX;

/// Above every key.
pub const END: [u8; 9] = [0xff; 9];

/// The table of rows. An engine must hold it together with the registers: one change writes both.
pub const ROWS: u8 = b'r';

const RESULTS: u8 = b'q';
const OWNED_RESULTS: u8 = b's';
const CLIENTS: u8 = b'c';
/// Follows [`CLIENTS`]: a scan of all clients is one.
const OWNED_CLIENTS: u8 = b'd';
const MODES: u8 = b'o';

/// Where the result of a request is.
pub fn result_key(request: RequestId) -> Bytes {
    let (seq, part) = (request.seq.to_be_bytes(), request.part.to_be_bytes());
    of_client(request.client, [RESULTS, OWNED_RESULTS], &[&seq, &part])
}

/// The request whose result is at `key`, if a result is.
pub fn parse_result_key(key: &[u8]) -> Option<RequestId> {
    let (client, rest) = parse_client(key, [RESULTS, OWNED_RESULTS])?;
    let (seq, part) = rest.split_first_chunk()?;
    Some(RequestId {
        client,
        seq: u64::from_be_bytes(*seq),
        part: u32::from_be_bytes(part.try_into().ok()?),
    })
}

/// Where the record of a client is.
pub fn client_key(client: Client) -> Bytes {
    of_client(client, [CLIENTS, OWNED_CLIENTS], &[])
}

/// The client whose record is at `key`, if one is.
pub fn parse_client_key(key: &[u8]) -> Option<Client> {
    let (client, rest) = parse_client(key, [CLIENTS, OWNED_CLIENTS])?;
    rest.is_empty().then_some(client)
}

/// Behind every client's record.
pub(crate) fn clients_end() -> Bytes {
    key(OWNED_CLIENTS + 1, &[])
}

/// Where the results of a client begin, and where they are over.
pub(crate) fn results_of(client: Client) -> (Bytes, Bytes) {
    let start = of_client(client, [RESULTS, OWNED_RESULTS], &[]);
    let mut end = start.to_vec();
    // The table's byte is not the greatest, so this ends.
    while end.last() == Some(&u8::MAX) {
        end.pop();
    }
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    (start, end.into())
}

/// A key in one of two tables: of clients without an owner, and of those with one.
fn of_client(client: Client, [nobody, owned]: [u8; 2], rest: &[&[u8]]) -> Bytes {
    let (owner, id) = (client.owner.to_be_bytes(), client.id.to_be_bytes());
    match client.owner {
        0 => key(nobody, &[&[&id[..]], rest].concat()),
        _ => key(owned, &[&[&owner[..], &id[..]], rest].concat()),
    }
}

/// The client at the beginning of a key of these tables, and the rest.
fn parse_client(key: &[u8], [nobody, owned]: [u8; 2]) -> Option<(Client, &[u8])> {
    let (owner, rest) = match rest_of(nobody, key) {
        Some(rest) => (0, rest),
        None => {
            let (owner, rest) = rest_of(owned, key)?.split_first_chunk()?;
            (u64::from_be_bytes(*owner), rest)
        }
    };
    let (id, rest) = rest.split_first_chunk()?;
    let id = u128::from_be_bytes(*id);
    Some((Client { owner, id }, rest))
}

/// Whether a result or a client's record is at `key`.
pub(crate) fn is_result(key: &[u8]) -> bool {
    parse_result_key(key).is_some() || parse_client_key(key).is_some()
}

/// Where the row is that entry `id` put for `register`.
pub fn row_key(id: EntryId, register: &[u8]) -> Bytes {
    let (epoch, index) = (id.epoch.to_be_bytes(), id.index.to_be_bytes());
    key(ROWS, &[&epoch, &index, register])
}

/// The entry and the register whose row is at `key`, if a row is.
pub fn parse_row_key(key: &[u8]) -> Option<(EntryId, &[u8])> {
    let (epoch, rest) = rest_of(ROWS, key)?.split_first_chunk()?;
    let (index, register) = rest.split_first_chunk()?;
    let id = EntryId::new(u64::from_be_bytes(*epoch), u64::from_be_bytes(*index));
    Some((id, register))
}

/// Where the mode of a collection is.
pub(crate) fn mode_key(collection: u64) -> Bytes {
    key(MODES, &[&collection.to_be_bytes()])
}

/// The collection of a register; a key that is too short to name one is in none.
pub(crate) fn collection_of(register: &[u8]) -> Option<u64> {
    let (collection, _) = register.split_first_chunk()?;
    Some(u64::from_be_bytes(*collection))
}

fn key(table: u8, parts: &[&[u8]]) -> Bytes {
    let prefix = COLLECTION.to_be_bytes();
    let size = prefix.len() + 1 + parts.iter().map(|part| part.len()).sum::<usize>();
    let mut bytes = Vec::with_capacity(size);
    bytes.extend_from_slice(&prefix);
    bytes.push(table);
    parts.iter().for_each(|part| bytes.extend_from_slice(part));
    bytes.into()
}

fn rest_of(table: u8, key: &[u8]) -> Option<&[u8]> {
    key.strip_prefix(&COLLECTION.to_be_bytes())?
        .strip_prefix(&[table])
}

#[cfg(test)]
mod tests;
