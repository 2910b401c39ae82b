//! A read of an object of two blocks while that is overwritten: its garbage waits, then rows and
//! bytes go (docs/internals/protocol/blocks.md).
//!
//! The services decide, the head remembers garbage and waits as at a node ([`Waits`]), and members
//! reclaim bytes by their standpoint. One member is the head; the other applies late what is
//! committed. A read takes the index at the head, and an eventual one at the other member. Then it
//! reads a block at a time, for less than the wait. A member that joins copies from a fixed
//! snapshot.
//!
//! Moments pass one by one, for all clocks alike. Those of members began at different times, and a
//! lease may be over at any moment. Only a head without the rule of the monotonic clock looks at
//! one on the wall: there that is put to another time.

mod scopes;
mod steps;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use fader_chain::{EntryId, Guards};
use fader_services::MapView;
use fader_services::blocks::{GarbageAt, Seen, Standpoint, Waits};
use fader_services::s3;

use super::explore::{Found, Limits};
use super::search::{self, Searched};
use super::services::{
    Entry, KEY, Services, apply, content, create_bucket, owner, put_object, put_rows,
};
use super::table::hash;
pub(super) use scopes::scopes;
pub use scopes::{ReadRule, ReadScope};

/// The blocks of the object.
const BLOCKS: [u128; 2] = [0xb0, 0xb1];
/// For how many moments garbage waits.
const WAIT: u64 = 3;
/// What the clocks of members show at first.
const BEGAN: [u64; 2] = [0, WAIT];

/// Searches `scope` without one of its rules.
pub(super) fn explore(
    scope: &ReadScope,
    without: Option<ReadRule>,
    guards: &Guards,
    limits: Limits,
) -> Found {
    let model = Model {
        scope: scope.clone(),
        without,
        services: Services::new(guards),
        entries: RefCell::default(),
    };
    search::search(&model, limits)
}

struct Model {
    scope: ReadScope,
    without: Option<ReadRule>,
    services: Services,
    /// Entries by the one before, and the step that made them.
    entries: RefCell<BTreeMap<(u64, Step), Rc<Entry>>>,
}

#[derive(Clone, Debug)]
struct State {
    now: u64,
    /// How far clocks on the wall were put ahead.
    ahead: u64,
    log: Vec<Rc<Entry>>,
    members: [Member; 2],
    head: usize,
    /// How much of the log all members have applied.
    safe_point: usize,
    waits: Waits,
    /// Of the member that joins: what the head has fixed for it.
    copy: Copying,
    read: Read,
    heads: u8,
    broken: Option<&'static str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Member {
    /// How much of the log.
    applied: usize,
    seen: Seen,
    /// The blocks whose bytes it has.
    held: BTreeSet<u128>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Copying {
    NotBegun,
    /// So much of the log.
    Fixed(usize),
    Over,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Read {
    NotBegun,
    /// Since when, how many blocks were read, and whether it is eventual.
    UnderWay(u64, usize, bool),
    Over,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Step {
    Moment,
    SetClock,
    Overwrite,
    Lease,
    HeadChange,
    Fix,
    Index(bool),
    Block,
    // Those of members and collectors.
    Apply,
    SafePoint,
    Look,
    Remove(GarbageAt),
    Reclaim(usize),
    Copied,
}

impl Model {
    fn has(&self, rule: ReadRule) -> bool {
        self.without != Some(rule)
    }

    /// What the clock of the head shows.
    fn clock(&self, state: &State) -> u64 {
        match self.has(ReadRule::Monotonic) {
            true => BEGAN[state.head] + state.now,
            false => state.ahead + state.now,
        }
    }

    /// What a member judges bytes by.
    fn standpoint(&self, state: &State, member: usize) -> Standpoint {
        let safe_point = match self.has(ReadRule::SafePoint) {
            true => state.log[state.safe_point].id,
            false => EntryId::new(u64::MAX, 0),
        };
        let fixed = match state.copy {
            Copying::Fixed(at) if member == state.head => Some(state.log[at].id),
            _ => None,
        };
        Standpoint {
            state: state.log[state.members[member].applied].id,
            safe_point,
            oldest_snapshot: fixed.filter(|_| self.has(ReadRule::Snapshot)),
        }
    }

    fn object(&self) -> MapView {
        let mut all = MapView::default();
        let of = owner(0xa0, None);
        let put = put_object(KEY, of.attempt, content(&BLOCKS));
        let put = s3::Command::PutObject(Box::new(put));
        let (made, _) = self.services.decide(&all, 1, create_bucket(None));
        apply(&mut all, &made);
        let rows = put_rows(of, 1, &BLOCKS);
        let rows = self.services.decide_rows(&all, &rows);
        apply(&mut all, &rows);
        let (placed, _) = self.services.decide(&all, 2, put);
        apply(&mut all, &placed);
        all
    }
}

impl Searched for Model {
    fn first(&self) -> State {
        let member = Member {
            applied: 0,
            seen: Seen::default(),
            held: BLOCKS.into(),
        };
        State {
            now: 0,
            ahead: 0,
            log: vec![self.services.begin(self.object())],
            members: [member.clone(), member],
            head: 0,
            safe_point: 0,
            waits: Waits::default(),
            copy: match self.scope.joins {
                true => Copying::NotBegun,
                false => Copying::Over,
            },
            read: Read::NotBegun,
            heads: self.scope.heads,
            broken: None,
        }
    }

    fn check(&self, state: &State) -> Result<(), String> {
        if let Some(broken) = state.broken {
            return Err(broken.to_owned());
        }
        let head = &state.members[state.head];
        if let Copying::Fixed(at) = state.copy
            && !state.log[at].rows.keys().all(|id| head.held.contains(id))
        {
            return Err("a block of a fixed snapshot is gone at its sender".to_owned());
        }
        let shown = &state.log[head.applied].named;
        match shown.iter().all(|id| head.held.contains(id)) {
            true => Ok(()),
            false => Err("a block of a version is gone".to_owned()),
        }
    }

    fn is_due(&self, step: Step) -> bool {
        matches!(
            step,
            Step::Moment
                | Step::Apply
                | Step::SafePoint
                | Step::Look
                | Step::Remove(_)
                | Step::Reclaim(_)
                | Step::Copied
        )
    }

    /// Nothing is to go, or the time of the scope is over.
    fn is_end(&self, state: &State) -> bool {
        let is_gone = |member: &Member| member.held.is_empty();
        let is_there = !state.log[state.log.len() - 1].named.is_empty();
        is_there || state.now == self.scope.moments || state.members.iter().all(is_gone)
    }

    fn key(&self, state: &State) -> u64 {
        let State {
            now,
            ahead,
            log,
            members,
            head,
            safe_point,
            waits,
            copy,
            read,
            heads,
            broken,
        } = state;
        let log: Vec<u64> = log.iter().map(|entry| entry.key).collect();
        let of_chain = (log, members, head, safe_point, waits);
        hash(&(now, ahead, of_chain, copy, read, heads, broken))
    }
}
