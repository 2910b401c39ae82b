//! A chain of three members, as its requests see it. A head decides on its newest state and sends
//! what it decided, members keep it, and a controller leaves members out.
//!
//! An entry is committed when every member of the configuration has synced it. A member that
//! crashes loses what it had not synced. One that is left out loses what was not committed, and
//! comes back as a copy of the head. A head that is cut off goes on to decide until it is left out.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use bytes::Bytes;
use fader_chain::{ApplyContext, ChainId, Change, ElementOp, EntryId};
use fader_services::catalog::{self, AccountId, Name};
use fader_services::request::Outcome;
use fader_services::service::Place;
use fader_services::steps::Command;
use fader_services::waiters::{Bounds, Waiters};
use fader_services::{CollectionId, Kind, MapView};

use super::Asker;
use crate::world::Random;
use crate::world::clock::Clock;

pub(super) const MEMBERS: usize = 3;
/// How far a member's clock on the wall may be ahead or behind at first, in milliseconds.
const AHEAD_MS: u64 = 200;

/// What an entry is of.
#[derive(Debug)]
pub(super) enum Deed {
    /// A call of a client, and what comes of it.
    Call(usize, Outcome),
    /// Something that a finisher asked.
    Step(Asker, Command, Outcome),
    /// Work that was due.
    Upkeep,
    /// An eventual send enters.
    Promotion(Bytes),
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) number: u64,
    pub(super) now_ms: u64,
    pub(super) changes: Vec<Change>,
    pub(super) deed: Deed,
    /// What is kept under the name of its request.
    pub(super) kept: Option<(u64, Bytes)>,
}

/// An eventual send that a member took.
#[derive(Clone, Debug)]
pub(super) struct Operation {
    pub(super) call: usize,
    pub(super) ops: Vec<ElementOp>,
    pub(super) sent_ms: u64,
}

#[derive(Debug)]
pub(super) struct Member {
    pub(super) clock: Clock,
    pub(super) log: Vec<Rc<Entry>>,
    pub(super) synced: usize,
    /// How much of its log the head knows to be synced.
    pub(super) acknowledged: usize,
    pub(super) is_up: bool,
    pub(super) cut_until: u64,
    pub(super) life: u64,
    /// By register.
    pub(super) operations: BTreeMap<Bytes, Operation>,
}

#[derive(Debug)]
pub(super) struct Chain {
    pub(super) id: ChainId,
    pub(super) members: Vec<Member>,
    pub(super) epoch: u64,
    /// The members that count, the head first.
    pub(super) seats: Vec<usize>,
    pub(super) committed: MapView,
    pub(super) commits: usize,
    pub(super) newest: MapView,
    pub(super) waiters: Waiters,
    /// Calls that wait, by token.
    pub(super) parked: BTreeMap<u64, usize>,
    /// Since when a member that counts is out of reach.
    pub(super) missed_since: Option<u64>,
    /// Until when messages between members are lost.
    pub(super) lossy_until: u64,
    /// Eventual sends that are permanently in the log.
    pub(super) promoted: BTreeSet<Bytes>,
    numbers: u64,
}

impl Chain {
    pub(super) fn new(id: u32, random: &mut Random) -> Self {
        let members = (0..MEMBERS).map(|_| Member {
            clock: Clock {
                origin: 0,
                drift_ppm: random.between(0, 2_000).cast_signed() - 1_000,
                ahead_ms: random.between(0, 2 * AHEAD_MS).cast_signed() - AHEAD_MS.cast_signed(),
            },
            log: Vec::new(),
            synced: 0,
            acknowledged: 0,
            is_up: true,
            cut_until: 0,
            life: 0,
            operations: BTreeMap::new(),
        });
        Chain {
            id: ChainId(id),
            members: members.collect(),
            epoch: 1,
            seats: (0..MEMBERS).collect(),
            committed: MapView::default(),
            commits: 0,
            newest: MapView::default(),
            waiters: Waiters::new(Bounds::default()),
            parked: BTreeMap::new(),
            missed_since: None,
            lossy_until: 0,
            promoted: BTreeSet::new(),
            numbers: 0,
        }
    }

    pub(super) fn head(&self) -> usize {
        self.seats[0]
    }

    /// What the head's clock on the wall shows.
    pub(super) fn wall_ms(&self, now: u64) -> u64 {
        self.members[self.head()].clock.read(now).wall
    }

    /// Whether requests reach the head.
    pub(super) fn is_served(&self) -> bool {
        self.members[self.head()].is_up
    }

    pub(super) fn is_reached(&self, member: usize, now: u64) -> bool {
        let member = &self.members[member];
        member.is_up && member.cut_until <= now
    }

    /// Whether nothing is decided that is not committed.
    pub(super) fn is_quiet(&self) -> bool {
        self.members[self.head()].log.len() == self.commits
    }

    pub(super) fn place(&self, view: &MapView, account: &AccountId, queue: &str) -> Option<Place> {
        let entry = catalog::collection(view, Name::new(Kind::Queue, account, queue));
        let entry = entry.expect("a view in memory can be read")?;
        Some(Place {
            chain: self.id,
            collection: entry.collection,
        })
    }

    /// What is kept under a name, by what the head has in its log.
    pub(super) fn kept(&self, name: u64) -> Option<Bytes> {
        let log = self.members[self.head()].log.iter();
        let mut kept = log.filter_map(|entry| entry.kept.as_ref());
        let found = kept.find(|(it, _)| *it == name);
        found.map(|(_, bytes)| bytes.clone())
    }

    /// The operations that the log has already.
    pub(super) fn is_promoted(&self, key: &Bytes) -> bool {
        let log = self.members[self.head()].log[self.commits..].iter();
        let mut deeds = log.map(|entry| &entry.deed);
        self.promoted.contains(key)
            || deeds.any(|deed| matches!(deed, Deed::Promotion(it) if it == key))
    }

    /// Takes what was decided into the head's log.
    pub(super) fn append(
        &mut self,
        now_ms: u64,
        changes: Vec<Change>,
        deed: Deed,
        kept: Option<(u64, Bytes)>,
    ) {
        self.numbers += 1;
        apply(&mut self.newest, &changes, self.numbers);
        let head = self.head();
        self.members[head].log.push(Rc::new(Entry {
            number: self.numbers,
            now_ms,
            changes,
            deed,
            kept,
        }));
    }

    /// What the head sends to a member: its log from there on.
    pub(super) fn log(&self, from: usize) -> Vec<Rc<Entry>> {
        self.members[self.head()].log[from..].to_vec()
    }

    /// A member hears the log of its head from there on; says how much it has then.
    pub(super) fn hear(&mut self, member: usize, from: usize, log: &[Rc<Entry>]) -> usize {
        let member = &mut self.members[member];
        if member.log.len() < from {
            return member.log.len();
        }
        let same = member.log[from..].iter().zip(log);
        let same = same.take_while(|(one, other)| one.number == other.number);
        let same = same.count();
        // What it has beyond is a newer message of the same head, or of an epoch that is over.
        if same < log.len() {
            member.log.truncate(from + same);
            member.synced = member.synced.min(from + same);
            member.log.extend(log[same..].iter().cloned());
        }
        member.log.len()
    }

    /// An eventual send is permanently in the log.
    pub(super) fn forget(&mut self, key: &Bytes) {
        for member in &mut self.members {
            member.operations.remove(key);
        }
        self.promoted.insert(key.clone());
    }

    /// The next entry that all have, if there is one: it is committed.
    pub(super) fn commit(&mut self) -> Option<Rc<Entry>> {
        let counted = self.seats.iter();
        let least = counted.map(|at| self.members[*at].acknowledged).min()?;
        if least <= self.commits {
            return None;
        }
        let entry = self.members[self.head()].log[self.commits].clone();
        apply(&mut self.committed, &entry.changes, entry.number);
        self.commits += 1;
        Some(entry)
    }

    /// A member's process ends: it loses what is not synced, and all with its disk.
    pub(super) fn crash(&mut self, member: usize, is_wiped: bool) {
        let member = &mut self.members[member];
        member.is_up = false;
        member.life += 1;
        if is_wiped {
            member.synced = 0;
            member.operations.clear();
        }
        member.log.truncate(member.synced);
    }

    /// The controller looks: members out of reach are left out, those that are back come in. Says
    /// whether the configuration is another.
    pub(super) fn control(&mut self, now: u64, patience: u64) -> bool {
        let (reached, missed): (Vec<_>, Vec<_>) = (0..MEMBERS)
            .filter(|at| self.seats.contains(at))
            .partition(|at| self.is_reached(*at, now));
        if !missed.is_empty() && !reached.is_empty() {
            let since = *self.missed_since.get_or_insert(now);
            if now < since + patience {
                return false;
            }
            self.missed_since = None;
            self.seats.retain(|at| reached.contains(at));
            self.begin_epoch();
            return true;
        }
        self.missed_since = None;
        let back = (0..MEMBERS).find(|at| !self.seats.contains(at) && self.is_reached(*at, now));
        let Some(back) = back.filter(|_| self.is_reached(self.head(), now)) else {
            return false;
        };
        let log = self.log(0);
        self.hear(back, 0, &log);
        let member = &mut self.members[back];
        member.log.truncate(log.len());
        member.synced = member.log.len();
        self.seats.push(back);
        self.begin_epoch();
        true
    }

    /// A member's process is there again, with what it had synced.
    pub(super) fn begin_again(&mut self, member: usize) {
        if self.seats.contains(&member) {
            self.begin_epoch();
        }
    }

    /// The head's log is the chain's from now on.
    fn begin_epoch(&mut self) {
        self.epoch += 1;
        self.newest = self.committed.clone();
        let head = self.head();
        let (log, commits) = (self.members[head].log.clone(), self.commits);
        for entry in &log[commits..] {
            apply(&mut self.newest, &entry.changes, entry.number);
        }
        for at in self.seats.clone() {
            let member = &mut self.members[at];
            let same = member.log.iter().zip(&log);
            let same = same.take_while(|(one, other)| one.number == other.number);
            let same = same.count();
            member.log.truncate(same);
            member.synced = member.synced.min(same);
            member.acknowledged = member.synced;
        }
    }
}

/// The collections that an entry touches.
pub(super) fn touched(changes: &[Change]) -> BTreeSet<CollectionId> {
    let keys = changes.iter().map(|change| change.key());
    let first = keys.filter_map(|key| key.first_chunk().copied());
    first
        .map(|bytes| CollectionId(u64::from_be_bytes(bytes)))
        .collect()
}

pub(super) fn apply(view: &mut MapView, changes: &[Change], number: u64) {
    let under = ApplyContext::strong(EntryId::new(1, number));
    view.apply(changes, &under)
        .expect("registers of this run can be read");
}
