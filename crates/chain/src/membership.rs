//! Who has a session, and which change of a cluster's facts may follow which: the rules of a
//! coordinator that keeps versioned znodes (docs/internals/decisions/0007-zookeeper.md).
//!
//! [`Keeper`] keeps the session of a process. [`Watch`] reads the sessions of all and ends those
//! that are over. The functions of this module judge changes of the other znodes. A shell carries
//! their requests to a server and tells what came of each.
//!
//! Invariants:
//! - ZNODE-2 a session's znode is removed by its own process, or at a version that was seen for S
//!   (COORD-3).
//! - ZNODE-3 a configuration is replaced on condition of the version at which it was read
//!   (COORD-1).
//! - ZNODE-4 a number is given away before it is used: none is given twice (COORD-5).
//! - ZNODE-5 sessions are read after the configuration: those of its members who live are among
//!   them.
//! - ZNODE-6 a configuration that is known is never replaced by an older one.
//! - ZNODE-7 a write of a session that is acknowledged is the ping of the incarnations in it, and
//!   of no others.
//! - ZNODE-8 with its session all incarnations of a process are over; a session that was ended is
//!   never written again.
//! - ZNODE-9 the version rises when no process of the cluster is missing and all speak more.
//!   Sessions of processes that do not speak it are none.
//! - (ZNODE-10) each write and each removal of a session's znode names the version that it follows:
//!   one that arrives late undoes nothing that was acknowledged.
//!
//! Deliberately absent: what is in a znode's bytes, connections, and the servers' own sessions.

mod keeper;
mod key_cache;
mod stillness;
mod watch;
mod watch_cache;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::config::{ChainId, Configuration, NodeId};
use crate::progress::Progress;
use crate::replica::{Identity, Report};
use crate::stamp::EntryId;
use crate::version::Version;

pub use keeper::{Answer, Change, Keeper, Ping, Request};
pub use key_cache::{ASKED_PER_S, CachedKey, KeyCache};
pub use stillness::{Stillness, stillness};
pub use watch::{Ask, Reading, SILENT, Seen, Told, Trouble, Watch};
pub use watch_cache::{WatchCache, WatchedRead};

/// What a process says of itself and of its members' lives; its znode's version counts its pings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRecord {
    /// The node's.
    pub identity: Identity,
    /// The node's name.
    pub name: String,
    /// Where other nodes reach it.
    pub address: String,
    /// The lives of its members, in the order in which they began.
    pub incarnations: Vec<IncarnationRecord>,
}

/// An incarnation of one of its members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncarnationRecord {
    /// The member's chain.
    pub chain: ChainId,
    /// The incarnation.
    pub identity: Identity,
    /// What it reported of the newest epoch that it reported of.
    pub reports: Vec<Report>,
}

impl IncarnationRecord {
    /// How far it reported that its disk came.
    pub fn progress(&self) -> Progress {
        let mut progress = Progress::default();
        self.reports.iter().for_each(|report| progress.note(report));
        progress
    }
}

/// A process that has a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessSession {
    /// What it said last.
    pub record: SessionRecord,
    /// The greatest version that it speaks.
    pub speaks: Version,
    /// Whether it was not heard of for longer than it should be.
    pub is_silent: bool,
    /// Whether it was heard of since this process watches: it began, or was pinged.
    pub is_heard: bool,
}

impl ProcessSession {
    /// Whether it is known to be there: it was heard of, and not long ago.
    pub fn is_present(&self) -> bool {
        self.is_heard && !self.is_silent
    }
}

/// The newest configuration that is known of each chain (ZNODE-6).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Newest(BTreeMap<ChainId, Arc<Configuration>>);

impl Newest {
    /// Takes a configuration, if it is newer.
    pub fn take(&mut self, chain: ChainId, configuration: Arc<Configuration>) {
        if self.epoch(chain) < configuration.epoch {
            self.0.insert(chain, configuration);
        }
    }

    /// A chain's, if one is known.
    pub fn get(&self, chain: ChainId) -> Option<&Arc<Configuration>> {
        self.0.get(&chain)
    }

    /// The epoch of a chain's; 0 if none is known.
    pub fn epoch(&self, chain: ChainId) -> u64 {
        self.get(chain).map_or(0, |it| it.epoch)
    }
}

/// How a znode is to be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// It is made, if there is none.
    Create,
    /// What it says is replaced, if it is of this version.
    Replace(i32),
}

/// How the configuration of epoch `next` is published by a controller that acts on epoch
/// `expected`, 0 for none. The newest must be of this epoch, in a znode of this version (ZNODE-3).
pub fn publish(newest: Option<(u64, i32)>, expected: u64, next: u64) -> Option<Put> {
    let (epoch, put) = match newest {
        Some((epoch, version)) => (epoch, Put::Replace(version)),
        None => (0, Put::Create),
    };
    (epoch == expected && expected < next).then_some(put)
}

/// The number that a new disk gets where `next` is the next one, and the one that is next then. It
/// is the disk's when that was written in the place of `next` (ZNODE-4).
pub fn number(next: u32) -> (NodeId, u32) {
    (NodeId(next), next.saturating_add(1))
}

/// What is to be noted of a disk that is known to have come to `known`, and whose member `said`
/// this. Nothing if that is no news. Nodes of before version 3 do not read an entry there.
pub fn further(known: Progress, said: Progress, version: Version) -> Option<Progress> {
    let said = match version.is_third() {
        true => said,
        false => Progress {
            last: EntryId::ZERO,
            ..said
        },
    };
    (known < said).then_some(said)
}

/// What the version of a cluster becomes that has nodes of these names; nothing if it stays
/// (ZNODE-9).
pub fn risen<'a>(
    version: Version,
    names: impl IntoIterator<Item = &'a str>,
    sessions: &[ProcessSession],
) -> Option<Version> {
    let spoken = names.into_iter().map(|name| {
        let its = sessions.iter().filter(|it| it.record.name == name);
        its.map(|it| it.speaks).min()
    });
    let risen = version.risen(spoken);
    (version < risen).then_some(risen)
}

/// The name of a session's znode. Processes of version 2 do not look into it, but do not pass over
/// anything in what is written there. So it is the name that says what is spoken (ZNODE-9).
pub fn session_name(process: Identity, speaks: Version) -> String {
    let (node, incarnation) = (process.node.0, process.incarnation.0);
    match speaks {
        Version::OLDEST => format!("{node}-{incarnation:032x}"),
        _ => format!("{node}-{incarnation:032x}-{speaks}"),
    }
}

/// The greatest version that the process with this session speaks.
pub fn spoken(name: &str) -> Version {
    let number = name.split('-').nth(2).and_then(|it| it.parse().ok());
    number.map_or(Version::OLDEST, Version)
}

#[cfg(test)]
mod tests;
