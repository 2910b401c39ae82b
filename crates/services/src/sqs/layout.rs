//! Where the rows of a queue lie.
//!
//! ```text
//! queue  := 'm'                              settings; empty until the queue is made
//!         | 'K'                              counters
//!         | 'B' era number                   the content of a message
//!         | 'Y' era number                   its state
//!         | 'R' era spot                     ready; of a FIFO queue its groups (value: the group)
//!         | 'W' era spot                     scheduled, by deadline: delayed and in flight
//!         | 'G' era group                    of a FIFO queue: a group
//!         | 'F' era text(group) spot         its messages that are not in flight
//!         | 'D' kind:u8 text(scope) id       recent sends and receive attempts
//!         | 'E' end:u64be number kind:u8     their ends -> the row's key
//!         | 'S' name                         sources of a dead-letter queue -> chain, collection
//!         | 'M' started:u64be                move tasks
//!         | 'I' id                           eventual sends (registers)
//! system := 'Q' 0 text(account) name         when a queue was deleted
//!         | 'Q' 1 time:u64be text(account) name
//!         | 'Z' due:u64be collection         work that a queue has to do then
//! era    := u32be      number := u64be      spot := at:u64be number
//! ```
//!
//! Invariants:
//! - QL-1 a message has a row in 'B' from its send to its deletion, and that row never changes.
//! - QL-2 a message with a state is in exactly one place of 'R', 'W' and 'F', as its state says. A
//!   message on its way to another chain is an exception.
//! - QL-3 a purge begins an era; rows of an earlier one are no messages and go in bounded steps.

use bytes::Bytes;
use fader_chain::{DecodeError, Reader};

use crate::catalog::AccountId;
use crate::forward::wire::Wire;
use crate::key::KeyRange;
use crate::sqs::wire::wire_fields;
use crate::{CollectionId, KeyBuilder, SYSTEM, Table, split_text};

/// A place in an order of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Spot {
    /// Milliseconds since 1970.
    pub(crate) at: u64,
    /// The message's number.
    pub(crate) number: u64,
}
wire_fields!(Spot { at, number });

impl Spot {
    pub(crate) const MIN: Spot = Spot { at: 0, number: 0 };

    fn bytes(self) -> [u8; 16] {
        (u128::from(self.at) << 64 | u128::from(self.number)).to_be_bytes()
    }

    fn of(key: &[u8]) -> Result<Spot, DecodeError> {
        let bytes = key.last_chunk::<16>();
        let bytes = bytes.ok_or_else(|| DecodeError::new("a place in an index of a queue"))?;
        let both = u128::from_be_bytes(*bytes);
        Ok(Spot {
            at: (both >> 64) as u64,
            number: both as u64,
        })
    }
}

/// The keys of one queue's messages, in its present era.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keys {
    pub(crate) collection: CollectionId,
    pub(crate) era: u32,
}

impl Keys {
    fn table(self, table: Table) -> KeyBuilder {
        KeyBuilder::new(self.collection, table).raw(&self.era.to_be_bytes())
    }

    /// The key of these bytes in a table, allocated once.
    fn row(self, table: Table, bytes: &[u8]) -> Bytes {
        let era = self.era.to_be_bytes();
        let key = KeyBuilder::with_rest(self.collection, table, era.len() + bytes.len());
        key.raw(&era).raw(bytes).build()
    }

    pub(crate) fn body(self, number: u64) -> Bytes {
        self.row(Table::Bodies, &number.to_be_bytes())
    }

    pub(crate) fn state(self, number: u64) -> Bytes {
        self.row(Table::States, &number.to_be_bytes())
    }

    pub(crate) fn states_from(self, number: u64) -> KeyRange {
        KeyRange {
            start: self.state(number),
            end: self.table(Table::States).build_end(),
        }
    }

    pub(crate) fn group(self, group: &str) -> Bytes {
        self.row(Table::Groups, group.as_bytes())
    }

    pub(crate) fn index(self, index: Index, spot: Spot) -> Bytes {
        self.row(index.table(), &spot.bytes())
    }

    pub(crate) fn index_from(self, index: Index, spot: Spot) -> KeyRange {
        KeyRange {
            start: self.index(index, spot),
            end: self.table(index.table()).build_end(),
        }
    }

    pub(crate) fn waiting(self, group: &str, spot: Spot) -> Bytes {
        let keys = self.table(Table::Waiting).text(group.as_bytes());
        keys.raw(&spot.bytes()).build()
    }

    pub(crate) fn waiting_from(self, group: &str, spot: Spot) -> KeyRange {
        let end = self
            .table(Table::Waiting)
            .text(group.as_bytes())
            .build_end();
        let start = self.waiting(group, spot);
        KeyRange { start, end }
    }

    /// Everything of one table that is of an earlier era.
    pub(crate) fn earlier(self, table: Table) -> KeyRange {
        KeyRange {
            start: KeyBuilder::new(self.collection, table).build(),
            end: self.table(table).build(),
        }
    }
}

/// The tables whose rows are of an era.
pub(crate) const OF_ERA: [Table; 6] = [
    Table::Bodies,
    Table::States,
    Table::Ready,
    Table::Scheduled,
    Table::Groups,
    Table::Waiting,
];

/// The two orders of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Index {
    Ready,
    Scheduled,
}

impl Index {
    fn table(self) -> Table {
        match self {
            Index::Ready => Table::Ready,
            Index::Scheduled => Table::Scheduled,
        }
    }
}

/// Whether a table is of queues alone.
pub(crate) fn has_table(table: u8) -> bool {
    let others = [
        Table::QueueCounters,
        Table::Recent,
        Table::RecentEnds,
        Table::Sources,
        Table::MoveTasks,
        Table::Arrivals,
    ];
    OF_ERA.iter().chain(&others).any(|it| *it as u8 == table)
}

/// The spot of a row of an index, or of a group's messages.
pub(crate) fn spot_of(key: &[u8]) -> Result<Spot, DecodeError> {
    Spot::of(key)
}

/// The number of a row of states.
pub(crate) fn number_of(key: &[u8]) -> Result<u64, DecodeError> {
    let number = key.last_chunk::<8>();
    let number = number.ok_or_else(|| DecodeError::new("the number of a message"))?;
    Ok(u64::from_be_bytes(*number))
}

/// What is remembered for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Recent {
    Send = 0,
    Attempt = 1,
}

pub(crate) fn counters_key(collection: CollectionId) -> Bytes {
    KeyBuilder::new(collection, Table::QueueCounters).build()
}

pub(crate) fn recent_key(collection: CollectionId, recent: Recent, scope: &str, id: &str) -> Bytes {
    KeyBuilder::new(collection, Table::Recent)
        .raw(&[recent as u8])
        .text(scope.as_bytes())
        .raw(id.as_bytes())
        .build()
}

pub(crate) fn recent_end_key(
    collection: CollectionId,
    recent: Recent,
    end_ms: u64,
    number: u64,
) -> Bytes {
    KeyBuilder::new(collection, Table::RecentEnds)
        .raw(&end_ms.to_be_bytes())
        .raw(&number.to_be_bytes())
        .raw(&[recent as u8])
        .build()
}

/// The ends from `from_ms` to `now_ms`.
pub(crate) fn recent_ends(collection: CollectionId, from_ms: u64, now_ms: u64) -> KeyRange {
    let ends = KeyBuilder::new(collection, Table::RecentEnds);
    let end = ends.clone().raw(&now_ms.saturating_add(1).to_be_bytes());
    KeyRange {
        start: ends.raw(&from_ms.to_be_bytes()).build(),
        end: end.build(),
    }
}

/// When the row of an end ends.
pub(crate) fn recent_end(key: &[u8]) -> Result<u64, DecodeError> {
    let end = key.get(9..).and_then(|rest| rest.first_chunk::<8>());
    let end = end.ok_or_else(|| DecodeError::new("an end of what is remembered"))?;
    Ok(u64::from_be_bytes(*end))
}

pub(crate) fn source_key(collection: CollectionId, name: &str) -> Bytes {
    KeyBuilder::new(collection, Table::Sources)
        .raw(name.as_bytes())
        .build()
}

pub(crate) fn sources_after(collection: CollectionId, after: Option<&str>) -> KeyRange {
    let sources = KeyBuilder::new(collection, Table::Sources);
    let start = match after {
        Some(name) => sources.clone().raw(name.as_bytes()).raw(&[0]),
        None => sources.clone(),
    };
    KeyRange {
        start: start.build(),
        end: sources.build_end(),
    }
}

/// The name in the key of a source.
pub(crate) fn source_name(key: &[u8]) -> Result<String, DecodeError> {
    let name = key.get(9..).map(<[u8]>::to_vec).map(String::from_utf8);
    match name {
        Some(Ok(name)) => Ok(name),
        _ => Err(DecodeError::new("the name of a source")),
    }
}

pub(crate) fn task_key(collection: CollectionId, started_ms: u64) -> Bytes {
    KeyBuilder::new(collection, Table::MoveTasks)
        .raw(&started_ms.to_be_bytes())
        .build()
}

pub(crate) fn tasks(collection: CollectionId) -> KeyRange {
    let tasks = KeyBuilder::new(collection, Table::MoveTasks);
    tasks.build_range()
}

pub(crate) fn arrival_key(collection: CollectionId, id: u128) -> Bytes {
    KeyBuilder::new(collection, Table::Arrivals)
        .raw(&id.to_be_bytes())
        .build()
}

/// The collection and the id in a key that [`arrival_key`] made.
pub(crate) fn split_arrival(key: &[u8]) -> Option<(CollectionId, u128)> {
    let (collection, rest) = key.split_first_chunk::<8>()?;
    let id = rest.strip_prefix(&[Table::Arrivals as u8])?;
    let id = u128::from_be_bytes(id.try_into().ok()?);
    Some((CollectionId(u64::from_be_bytes(*collection)), id))
}

pub(crate) fn deleted_key(account: &AccountId, name: &str) -> Bytes {
    KeyBuilder::new(SYSTEM, Table::DeletedQueues)
        .raw(&[0])
        .text(account.0.as_bytes())
        .raw(name.as_bytes())
        .build()
}

pub(crate) fn deleted_time_key(at_ms: u64, account: &AccountId, name: &str) -> Bytes {
    KeyBuilder::new(SYSTEM, Table::DeletedQueues)
        .raw(&[1])
        .raw(&at_ms.to_be_bytes())
        .text(account.0.as_bytes())
        .raw(name.as_bytes())
        .build()
}

/// Deletions before `before_ms`.
pub(crate) fn deleted_before(before_ms: u64) -> KeyRange {
    let times = KeyBuilder::new(SYSTEM, Table::DeletedQueues).raw(&[1]);
    let end = times.clone().raw(&before_ms.to_be_bytes());
    KeyRange {
        start: times.build(),
        end: end.build(),
    }
}

/// The account and the name in a key that [`deleted_time_key`] made.
pub(crate) fn split_deleted(key: &[u8]) -> Result<(String, String), DecodeError> {
    let damaged = || DecodeError::new("the name of a deleted queue");
    let rest = key.get(8 + 2 + 8..).ok_or_else(damaged)?;
    let (account, name) = split_text(rest).ok_or_else(damaged)?;
    match (String::from_utf8(account), String::from_utf8(name.to_vec())) {
        (Ok(account), Ok(name)) => Ok((account, name)),
        _ => Err(damaged()),
    }
}

pub(crate) fn chore_key(due_ms: u64, collection: CollectionId) -> Bytes {
    KeyBuilder::new(SYSTEM, Table::Chores)
        .raw(&due_ms.to_be_bytes())
        .raw(&collection.0.to_be_bytes())
        .build()
}

/// Work that is due at `now_ms`.
pub(crate) fn chores(now_ms: u64) -> KeyRange {
    let chores = KeyBuilder::new(SYSTEM, Table::Chores);
    let end = chores.clone().raw(&now_ms.saturating_add(1).to_be_bytes());
    KeyRange {
        start: chores.build(),
        end: end.build(),
    }
}

/// The collection of a row of work.
pub(crate) fn chore_of(key: &[u8]) -> Result<CollectionId, DecodeError> {
    number_of(key).map(CollectionId)
}

/// Reads the whole of a value that begins with this version.
pub(crate) fn decode<T: Wire>(value: Bytes, version: u8) -> Result<T, DecodeError> {
    let mut reader = Reader::new(value);
    if reader.byte()? != version {
        return Err(DecodeError::new("the version of a row of a queue"));
    }
    let it = T::read(&mut reader)?;
    reader.end()?;
    Ok(it)
}

/// What [`decode`] reads, of about so many bytes.
pub(crate) fn encode(it: &dyn Wire, version: u8, size: usize) -> Bytes {
    let mut out = Vec::with_capacity(size);
    out.push(version);
    it.put(&mut out);
    Bytes::from(out)
}
