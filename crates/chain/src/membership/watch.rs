//! Looks at a cluster's znodes again and again, and ends sessions that are over.
//!
//! Invariants:
//! - (ZNODE-2) the time for which a version was seen counts from after it was read. It counts anew
//!   after each time in which nothing was read; the removal names that version.
//! - (ZNODE-5) sessions are read after the configurations.
//! - (ZNODE-6) what was read of a chain is not older than what is known.
//! - (ZNODE-9) a process reads nothing of a cluster whose version it does not speak, and sessions
//!   of those that do not are none.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::{ProcessSession, SessionRecord, spoken};
use crate::config::{ChainId, Configuration, DiskId};
use crate::progress::Progress;
use crate::version::Version;

/// A process is silent that was not heard of in this part of a session, in which it pings twice.
pub const SILENT: u32 = 4;

/// What a look asks for, one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// The cluster's version.
    Cluster,
    /// The chains.
    Layout,
    /// The configuration of a chain, and before that the epoch that is known.
    Configuration(ChainId),
    /// The names of sessions.
    Sessions,
    /// A session.
    Session(String),
    /// That how far a disk came is noted: a session that says so is over.
    Note {
        /// The disk.
        disk: DiskId,
        /// How far it came.
        progress: Progress,
    },
    /// That a session is removed, if it is of this version.
    End {
        /// Its name.
        name: String,
        /// The version.
        version: i32,
    },
}

/// What is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// The cluster's version.
    Cluster(Version),
    /// The chains.
    Layout(Vec<ChainId>),
    /// The newest configuration of a chain, if it has one, and the epoch that was known before.
    Configuration(Option<Arc<Configuration>>, u64),
    /// The names of sessions.
    Sessions(Vec<String>),
    /// A session, if it is there.
    Session(Option<Seen>),
    /// It is noted, or cannot be.
    Noted,
    /// The session is gone.
    Ended,
    /// The session is of another version: it was pinged.
    Outlived,
}

/// A session's znode as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its version.
    pub version: i32,
    /// When it was made, in the order of all changes.
    pub created: i64,
    /// What it says, or why nothing can be read.
    pub record: Result<SessionRecord, String>,
}

/// Why a look shows nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The cluster is of a version that this process does not speak.
    Unspoken(Version),
    /// A configuration is older than the one that is known.
    Older {
        /// The chain.
        chain: ChainId,
        /// The epoch that was read.
        epoch: u64,
        /// The epoch that is known.
        known: u64,
    },
    /// A session cannot be read.
    Damaged(String),
    /// What was told is not what was asked for.
    Unasked,
}

/// What a look showed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// The configurations that were not known.
    pub configurations: Vec<(ChainId, Arc<Configuration>)>,
    /// The processes whose sessions are not over and that speak the cluster's version, in the order
    /// in which they began.
    pub sessions: Vec<ProcessSession>,
}

/// What a session's znode showed last.
#[derive(Clone, Copy, Debug)]
struct Shown {
    version: i32,
    /// Since when it is of this version, as far as was seen.
    since: Duration,
    /// Whether it came, or changed, while this process watched.
    is_heard: bool,
}

/// Watches.
#[derive(Clone, Debug)]
pub struct Watch {
    /// S.
    session: Duration,
    speaks: Version,
    /// What each session's znode showed last.
    seen: BTreeMap<String, Shown>,
    /// Whether no look has ended since when nothing was known.
    is_blind: bool,
    read_at: Duration,
    asks: VecDeque<Ask>,
    version: Version,
    configurations: Vec<(ChainId, Arc<Configuration>)>,
    sessions: Vec<(i64, ProcessSession)>,
    /// The session that is being ended, unless it was pinged.
    ending: Option<(i64, Result<ProcessSession, String>)>,
    damaged: Option<String>,
}

impl Watch {
    /// That of a process that speaks this version, where sessions last so long.
    pub fn new(session: Duration, speaks: Version) -> Self {
        Watch {
            session,
            speaks,
            seen: BTreeMap::new(),
            is_blind: true,
            read_at: Duration::ZERO,
            asks: VecDeque::new(),
            version: Version::OLDEST,
            configurations: Vec::new(),
            sessions: Vec::new(),
            ending: None,
            damaged: None,
        }
    }

    /// Begins a look, at a time of a clock that never falls; an earlier one that did not end is
    /// given up.
    pub fn begin(&mut self, now: Duration) {
        if self.session / 2 <= now.saturating_sub(self.read_at) {
            // Others could not ping either, for all we know.
            self.seen.clear();
            self.is_blind = true;
        }
        self.asks = VecDeque::from([Ask::Cluster, Ask::Layout]);
        self.configurations.clear();
        self.sessions.clear();
        (self.ending, self.damaged) = (None, None);
    }

    /// What is to be asked now; nothing when the look has ended.
    pub fn ask(&self) -> Option<&Ask> {
        self.asks.front()
    }

    /// What came of that, at this time.
    ///
    /// # Errors
    /// [`Trouble`]: the look shows nothing.
    pub fn on_told(&mut self, now: Duration, told: Told) -> Result<(), Trouble> {
        let ask = self.asks.pop_front().ok_or(Trouble::Unasked)?;
        match (ask, told) {
            (Ask::Cluster, Told::Cluster(version)) if self.speaks < version => {
                return Err(Trouble::Unspoken(version));
            }
            (Ask::Cluster, Told::Cluster(version)) => self.version = version,
            (Ask::Layout, Told::Layout(chains)) => {
                let chains = chains.into_iter().map(Ask::Configuration);
                self.asks.extend(chains);
                // ZNODE-5
                self.asks.push_back(Ask::Sessions);
            }
            (Ask::Configuration(chain), Told::Configuration(newest, known)) => {
                let epoch = newest.as_ref().map_or(0, |it| it.epoch);
                if epoch < known {
                    return Err(Trouble::Older {
                        chain,
                        epoch,
                        known,
                    });
                }
                let news = newest.filter(|_| known < epoch).map(|it| (chain, it));
                self.configurations.extend(news);
            }
            (Ask::Sessions, Told::Sessions(mut names)) => {
                names.sort();
                self.seen
                    .retain(|name, _| names.binary_search(name).is_ok());
                self.asks.extend(names.into_iter().map(Ask::Session));
            }
            (Ask::Session(_), Told::Session(None)) => {}
            (Ask::Session(name), Told::Session(Some(seen))) => self.on_session(now, name, seen),
            (Ask::Note { .. }, Told::Noted) => {}
            (Ask::End { .. }, Told::Ended) => self.ending = None,
            (Ask::End { .. }, Told::Outlived) => {
                if let Some((created, session)) = self.ending.take() {
                    self.count_as_live(created, session);
                }
            }
            _ => return Err(Trouble::Unasked),
        }
        Ok(())
    }

    /// What the look showed, when nothing is to be asked any more.
    ///
    /// # Errors
    /// [`Trouble`]: the look shows nothing.
    pub fn end(&mut self, now: Duration) -> Result<Reading, Trouble> {
        if !self.asks.is_empty() {
            return Err(Trouble::Unasked);
        }
        self.read_at = now;
        self.is_blind = false;
        if let Some(why) = self.damaged.take() {
            return Err(Trouble::Damaged(why));
        }
        self.sessions.sort_by_key(|(created, _)| *created);
        let sessions = self.sessions.drain(..).map(|(_, session)| session);
        Ok(Reading {
            configurations: std::mem::take(&mut self.configurations),
            sessions: sessions.filter(|it| self.version <= it.speaks).collect(),
        })
    }

    fn on_session(&mut self, now: Duration, name: String, seen: Seen) {
        let first = Shown {
            version: seen.version,
            since: now,
            is_heard: !self.is_blind,
        };
        let shown = self.seen.entry(name.clone()).or_insert(first);
        if shown.version != seen.version {
            *shown = Shown {
                is_heard: true,
                ..first
            };
        }
        let (silence, is_heard) = (now.saturating_sub(shown.since), shown.is_heard);
        let session = seen.record.map(|record| ProcessSession {
            record,
            speaks: spoken(&name),
            is_silent: self.session / SILENT <= silence,
            is_heard,
        });
        if silence < self.session {
            self.count_as_live(seen.created, session);
            return;
        }
        let version = seen.version;
        self.asks.push_front(Ask::End { name, version });
        // COORD-5: afterwards the progress is unknown.
        for incarnation in session.iter().flat_map(|it| &it.record.incarnations) {
            let (disk, progress) = (incarnation.identity.disk, incarnation.progress());
            self.asks.push_front(Ask::Note { disk, progress });
        }
        self.ending = Some((seen.created, session));
    }

    fn count_as_live(&mut self, created: i64, session: Result<ProcessSession, String>) {
        match session {
            Ok(session) => self.sessions.push((created, session)),
            Err(why) => self.damaged = Some(why),
        }
    }
}

#[cfg(test)]
mod tests;
