//! A chain of three members, as buckets see it. A head decides on its newest state, members log
//! what it decided once they have the bytes, and a controller leaves members out.
//!
//! An entry is committed when every member of the configuration has synced it. The disk has records
//! and bytes apart: a crash loses of each what was not synced, and sets the state back.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use fader_chain::{ApplyContext, Change, EntryId, Stamp};
use fader_services::MapView;
use fader_services::blocks::{self, Seen};
use fader_services::request::Outcome;

use super::bytes::Held;
use crate::world::Random;
use crate::world::clock::Clock;

pub(super) const MEMBERS: usize = 3;
/// How far a member's clock on the wall may be ahead or behind at first, in milliseconds.
const AHEAD_MS: u64 = 200;

/// How often the floor rises, in microseconds.
const FLOOR: u64 = 300_000;

/// What an entry is of.
#[derive(Debug)]
pub(super) enum Deed {
    /// A call of a client, and what comes of it.
    Call(usize, Outcome),
    /// Something that a collector asked.
    Node(usize, Outcome),
    /// An eventual put is settled, and how.
    Settle(usize, fader_chain::Outcome),
    /// Work that was due.
    Upkeep,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) id: EntryId,
    pub(super) changes: Vec<Change>,
    pub(super) deed: Deed,
    /// Of a settlement that of the put.
    stamp: Stamp,
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
    /// Until when it applies nothing, though it logs.
    pub(super) slow_until: u64,
    pub(super) life: u64,
    /// Whether its disk was lost, and it is not back yet.
    pub(super) is_empty: bool,
    /// What it has applied, and up to where.
    pub(super) state: MapView,
    pub(super) applied: usize,
    /// The floor, as it was told.
    pub(super) floor: usize,
    pub(super) blocks: BTreeMap<u128, Held>,
    /// Rows that were removed, with the entry that did it.
    pub(super) removed: Vec<(usize, u128)>,
    /// Garbage of entries that it has applied, until the head takes it.
    pub(super) garbage: Seen,
    /// Bytes that it waits for, and those that no member has any more.
    pub(super) wanted: BTreeSet<u128>,
    pub(super) gone: BTreeSet<u128>,
    /// Eventual puts that it holds: they survive a power cut.
    pub(super) overlay: BTreeSet<usize>,
}

#[derive(Debug)]
pub(super) struct Chain {
    pub(super) members: Vec<Member>,
    pub(super) epoch: u64,
    /// The members that count, the head first.
    pub(super) seats: Vec<usize>,
    pub(super) committed: MapView,
    pub(super) commits: usize,
    pub(super) newest: MapView,
    /// The entry up to which all members of the configuration have applied the log, and when that
    /// is looked at next.
    pub(super) floor: usize,
    floor_due: u64,
    /// Since when a member that counts is out of reach.
    missed_since: Option<u64>,
}

/// The rows of blocks that an entry puts.
pub(super) fn rows_of(entry: &Entry) -> impl Iterator<Item = u128> + '_ {
    entry.changes.iter().filter_map(blocks::new_row)
}

pub(super) fn apply(view: &mut MapView, entry: &Entry) {
    let under = ApplyContext {
        stamp: entry.stamp,
        ..ApplyContext::strong(entry.id)
    };
    view.apply(&entry.changes, &under)
        .expect("registers of this run can be read");
}

impl Member {
    fn new(random: &mut Random) -> Self {
        Member {
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
            slow_until: 0,
            life: 0,
            is_empty: false,
            state: MapView::default(),
            applied: 0,
            floor: 0,
            blocks: BTreeMap::new(),
            removed: Vec::new(),
            garbage: Seen::default(),
            wanted: BTreeSet::new(),
            gone: BTreeSet::new(),
            overlay: BTreeSet::new(),
        }
    }

    /// Applies what is committed of its log.
    pub(super) fn apply_to(&mut self, commits: usize) {
        while self.applied < commits.min(self.log.len()) {
            let entry = self.log[self.applied].clone();
            apply(&mut self.state, &entry);
            self.applied += 1;
            if let Deed::Settle(operation, _) = entry.deed {
                self.overlay.remove(&operation);
            }
            for change in &entry.changes {
                if let Change::Remove { key } = change {
                    let at = self.applied;
                    self.removed
                        .extend(blocks::block_of(key).map(|id| (at, id)));
                } else if let Some(garbage) = blocks::garbage_of(change.key()) {
                    self.garbage.note(entry.id, garbage);
                }
            }
        }
    }

    /// Whether a block has a row in its log, committed or not.
    pub(super) fn has_row(&self, id: u128) -> bool {
        let is_there = blocks::row(&self.state, id).expect("a view in memory can be read");
        let mut is_there = is_there.is_some();
        for entry in &self.log[self.applied..] {
            for change in &entry.changes {
                if blocks::block_of(change.key()) == Some(id) {
                    is_there = !matches!(change, Change::Remove { .. });
                }
            }
        }
        is_there
    }

    /// Its process ends: what is not synced is lost, and its state is set back.
    fn crash(&mut self, checkpoint: usize) {
        self.is_up = false;
        self.life += 1;
        self.log.truncate(self.synced);
        self.blocks.retain(|_, held| held.is_durable);
        self.wanted.clear();
        self.gone.clear();
        self.removed.clear();
        self.garbage = Seen::default();
        self.state = MapView::default();
        self.applied = 0;
        self.apply_to(checkpoint.min(self.synced));
    }
}

impl Chain {
    pub(super) fn new(random: &mut Random) -> Self {
        Chain {
            members: (0..MEMBERS).map(|_| Member::new(random)).collect(),
            epoch: 1,
            seats: (0..MEMBERS).collect(),
            committed: MapView::default(),
            commits: 0,
            newest: MapView::default(),
            floor: 0,
            floor_due: 0,
            missed_since: None,
        }
    }

    pub(super) fn head(&self) -> usize {
        self.seats[0]
    }

    pub(super) fn head_member(&self) -> &Member {
        &self.members[self.head()]
    }

    pub(super) fn is_reached(&self, member: usize, now: u64) -> bool {
        let member = &self.members[member];
        member.is_up && member.cut_until <= now
    }

    /// What the head's clock on the wall shows.
    pub(super) fn wall_ms(&self, now: u64) -> u64 {
        self.head_member().clock.read(now).wall
    }

    /// The floor rises now and then; a state that a crash has set back does not lower it.
    pub(super) fn raise_floor(&mut self, now: u64) -> usize {
        if now < self.floor_due {
            return self.floor;
        }
        self.floor_due = now + FLOOR;
        let applied = self.seats.iter().map(|at| self.members[*at].applied);
        self.floor = self.floor.max(applied.min().unwrap_or(0));
        self.floor
    }

    /// Whether a member serves: it counts, and its state is at the floor.
    pub(super) fn serves(&self, member: usize) -> bool {
        let here = &self.members[member];
        here.is_up && self.seats.contains(&member) && self.floor <= here.applied
    }

    /// The id of an entry, by how many there are up to it.
    pub(super) fn id_at(&self, length: usize) -> EntryId {
        let entry = length.checked_sub(1).map(|at| &self.head_member().log[at]);
        entry.map_or(EntryId::ZERO, |entry| entry.id)
    }

    /// Takes what was decided into the head's log.
    pub(super) fn append(&mut self, changes: Vec<Change>, deed: Deed) {
        self.append_stamped(changes, deed, None);
    }

    /// The same of an entry with this stamp; of a strong one it is that of its id.
    pub(super) fn append_stamped(
        &mut self,
        changes: Vec<Change>,
        deed: Deed,
        stamp: Option<Stamp>,
    ) {
        let head = self.head();
        let index = self.members[head].log.len() as u64 + 1;
        let id = EntryId::new(self.epoch, index);
        let entry = Entry {
            id,
            changes,
            deed,
            stamp: stamp.unwrap_or_else(|| Stamp::strong(id)),
        };
        apply(&mut self.newest, &entry);
        self.members[head].log.push(Rc::new(entry));
    }

    /// A member takes the entries that follow what it has, as far as `may` says; those for which
    /// it does not are to come again.
    pub(super) fn hear(
        &mut self,
        member: usize,
        from: usize,
        log: &[Rc<Entry>],
        mut may: impl FnMut(&mut Member, &Entry) -> bool,
    ) -> usize {
        let member = &mut self.members[member];
        if member.log.len() < from {
            return member.log.len();
        }
        for (at, entry) in log.iter().enumerate() {
            let at = from + at;
            match member.log.get(at) {
                Some(known) if known.id == entry.id => {}
                _ => {
                    if !may(member, entry) {
                        break;
                    }
                    member.log.truncate(at);
                    member.synced = member.synced.min(at);
                    member.log.push(entry.clone());
                }
            }
        }
        member.log.len()
    }

    /// The next entry that all have, if there is one: it is committed.
    pub(super) fn commit(&mut self) -> Option<Rc<Entry>> {
        let counted = self.seats.iter();
        let least = counted.map(|at| self.members[*at].acknowledged).min()?;
        if least <= self.commits {
            return None;
        }
        let entry = self.head_member().log[self.commits].clone();
        apply(&mut self.committed, &entry);
        self.commits += 1;
        Some(entry)
    }

    pub(super) fn crash(&mut self, member: usize, is_wiped: bool, random: &mut Random) {
        let here = &mut self.members[member];
        let checkpoint = random.below(here.applied + 1);
        if is_wiped {
            here.synced = 0;
            here.is_empty = true;
            here.blocks.clear();
        }
        here.crash(checkpoint);
    }

    /// Leaves out members that are out of reach for so long. Says whether the configuration is
    /// another.
    pub(super) fn leave_out(&mut self, now: u64, patience: u64) -> bool {
        let (reached, missed): (Vec<_>, Vec<_>) = (0..MEMBERS)
            .filter(|at| self.seats.contains(at))
            .partition(|at| self.is_reached(*at, now));
        if missed.is_empty() || reached.is_empty() {
            self.missed_since = None;
            return false;
        }
        let since = *self.missed_since.get_or_insert(now);
        if now < since + patience {
            return false;
        }
        self.missed_since = None;
        self.seats.retain(|at| reached.contains(at));
        self.begin_epoch();
        true
    }

    /// A member that is not in the configuration, and could be.
    pub(super) fn joiner(&self, now: u64) -> Option<usize> {
        let is_served = self.is_reached(self.head(), now);
        let back = (0..MEMBERS).find(|at| !self.seats.contains(at) && self.is_reached(*at, now));
        back.filter(|_| is_served)
    }

    /// It joins, as a copy of the head's log and of what is committed.
    pub(super) fn join(&mut self, member: usize) {
        let log = self.head_member().log.clone();
        let (state, commits) = (self.committed.clone(), self.commits);
        let here = &mut self.members[member];
        here.synced = log.len();
        here.log = log;
        here.state = state;
        here.applied = commits;
        here.removed.clear();
        here.garbage = Seen::default();
        here.is_empty = false;
        self.seats.push(member);
        self.begin_epoch();
    }

    /// The head's log is the chain's from now on.
    pub(super) fn begin_epoch(&mut self) {
        self.epoch += 1;
        // What waits for bytes is forgotten.
        for member in &mut self.members {
            member.wanted.clear();
            member.gone.clear();
        }
        self.newest = self.committed.clone();
        let head = self.head();
        let (log, commits) = (self.members[head].log.clone(), self.commits);
        for entry in &log[commits..] {
            apply(&mut self.newest, entry);
        }
        for at in self.seats.clone() {
            let member = &mut self.members[at];
            let same = member.log.iter().zip(&log);
            let same = same.take_while(|(one, other)| one.id == other.id).count();
            member.log.truncate(same);
            member.synced = member.synced.min(same);
            member.acknowledged = member.synced;
        }
    }
}
