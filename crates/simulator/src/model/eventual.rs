//! An eventual put of a block against the end of its attempt. It is decided by the services, on the
//! registers and stamps of the chain (docs/internals/protocol/blocks.md).
//!
//! One member is the head. The other one takes the put, by what it has logged and applied. It may
//! leave, with what it holds on its disk, and come back. Entries are committed when all members
//! that count have logged them. The lease of a block may be over at any moment; then its attempt is
//! closed, and ends behind the safe point and a barrier.
//!
//! In every state each version has the rows of its blocks, and a put that a member acknowledged is
//! placed, or a later write is. From every state the steps of members and collectors alone lead to
//! one in which each block of no version is gone.

mod scopes;
mod steps;
mod writes;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use fader_chain::{Guards, Operation};
use fader_services::MapView;
use fader_services::blocks::{Found, GarbageAt, Known};

use super::explore::{self, Limits};
use super::search::{self, Searched};
use super::services::{Entry, Services, apply, create_bucket, owner, put_rows};
use super::table::hash;
pub(super) use scopes::scopes;
pub use scopes::{EventualRule, EventualScope};

/// The block of the eventual put, and that of a strong one; each with its attempt.
const PUT: (u128, u128) = (0xb0, 0xa0);
const STRONG: (u128, u128) = (0xb1, 0xa1);

/// Searches `scope` without one of its rules.
pub(super) fn explore(
    scope: &EventualScope,
    without: Option<EventualRule>,
    guards: &Guards,
    limits: Limits,
) -> explore::Found {
    let model = Model {
        scope: scope.clone(),
        without,
        services: Services::new(guards),
        entries: RefCell::default(),
    };
    search::search(&model, limits)
}

struct Model {
    scope: EventualScope,
    without: Option<EventualRule>,
    services: Services,
    /// Entries by the one before, the step that made them, and what else that depends on.
    entries: RefCell<BTreeMap<(u64, Step, u64), Rc<Entry>>>,
}

#[derive(Clone, Debug)]
struct State {
    log: Vec<Rc<Entry>>,
    /// How much of the log is committed; the head has applied it.
    committed: usize,
    member: Member,
    safe_point: usize,
    held: Held,
    taken: Option<Taken>,
    /// Blocks of closed attempts, until the safe point has passed what closed them.
    closed: Option<Found<u128>>,
    /// Where the log ended when a barrier had settled all that was held.
    barrier: Option<usize>,
    leaves: u8,
    strong_puts: u8,
    others: u8,
    remakes: u8,
    broken: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Member {
    place: Place,
    /// How much of the log.
    logged: usize,
    applied: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Place {
    Away,
    Joining,
    Serving,
}

/// Where the eventual put is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Held {
    NotTaken,
    /// A member that serves holds it.
    Overlay,
    /// It is on the disk of a member that is away.
    Quarantine,
    /// It is settled, or forgotten.
    Over,
}

/// The eventual put, as its member stamped it.
#[derive(Clone, Debug)]
struct Taken {
    operation: Rc<Operation>,
    /// What its member had applied.
    seen: usize,
    /// Whether it may come to nothing: its member was away for too long (GC-5).
    is_excused: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Step {
    /// The member takes the put; of a client that has seen what the head logged last, or not.
    Take(bool),
    StrongPut,
    /// Something else is written.
    Other,
    Leave,
    Join,
    DeleteBucket,
    MakeBucket,
    // Those of members and collectors.
    Log,
    Commit,
    Apply,
    CloseGap,
    SafePoint,
    Settle,
    Lease(u128),
    Note,
    Barrier,
    End,
    Collect(GarbageAt),
    Upkeep,
}

impl State {
    fn newest(&self) -> &Rc<Entry> {
        &self.log[self.log.len() - 1]
    }

    fn known(&self) -> Known {
        Known {
            newest: self.log[self.committed].id,
            safe_point: self.log[self.safe_point].id,
        }
    }
}

impl Model {
    fn has(&self, rule: EventualRule) -> bool {
        self.without != Some(rule)
    }

    /// A bucket of the mode `mixed`, and the rows of both blocks.
    fn bucket(&self) -> MapView {
        let mut all = MapView::default();
        let mode = Some(fader_services::Mode::Mixed);
        let (made, _) = self.services.decide(&all, 1, create_bucket(mode));
        apply(&mut all, &made);
        for (block, attempt) in [PUT, STRONG] {
            if block == PUT.0 || 0 < self.scope.strong_puts {
                let rows = put_rows(owner(attempt, None), 1, &[block]);
                let rows = self.services.decide_rows(&all, &rows);
                apply(&mut all, &rows);
            }
        }
        all
    }
}

impl Searched for Model {
    fn first(&self) -> State {
        let scope = &self.scope;
        State {
            log: vec![self.services.begin(self.bucket())],
            committed: 0,
            member: Member {
                place: Place::Serving,
                logged: 0,
                applied: 0,
            },
            safe_point: 0,
            held: Held::NotTaken,
            taken: None,
            closed: None,
            barrier: None,
            leaves: scope.leaves,
            strong_puts: scope.strong_puts,
            others: scope.others,
            remakes: u8::from(scope.remakes),
            broken: None,
        }
    }

    fn check(&self, state: &State) -> Result<(), String> {
        if let Some(broken) = state.broken {
            return Err(broken.to_owned());
        }
        let committed = &state.log[state.committed];
        match committed
            .named
            .iter()
            .all(|id| committed.rows.contains_key(id))
        {
            true => Ok(()),
            false => Err("a version names a block without a row".to_owned()),
        }
    }

    fn is_due(&self, step: Step) -> bool {
        !matches!(
            step,
            Step::Take(_)
                | Step::StrongPut
                | Step::Other
                | Step::Leave
                | Step::Join
                | Step::DeleteBucket
                | Step::MakeBucket
        )
    }

    /// What is held by no member that is there, may stay.
    fn is_end(&self, state: &State) -> bool {
        let is_held = match state.held {
            Held::Overlay => true,
            Held::Quarantine => state.member.place != Place::Away,
            Held::NotTaken | Held::Over => false,
        };
        let newest = state.newest();
        !is_held
            && state.committed + 1 == state.log.len()
            && newest.garbage.is_empty()
            && newest.rows.keys().all(|id| newest.named.contains(id))
    }

    fn key(&self, state: &State) -> u64 {
        let State {
            log,
            committed,
            member,
            safe_point,
            held,
            taken,
            closed,
            barrier,
            leaves,
            strong_puts,
            others,
            remakes,
            broken,
        } = state;
        let log: Vec<u64> = log.iter().map(|entry| entry.key).collect();
        let taken = taken.as_ref().map(|taken| {
            let Operation { stamp, accept, .. } = &*taken.operation;
            (*stamp, *accept, taken.seen, taken.is_excused)
        });
        let of_chain = (log, committed, member, safe_point, closed, barrier);
        let left = (leaves, strong_puts, others, remakes);
        hash(&(of_chain, held, taken, left, broken))
    }
}
