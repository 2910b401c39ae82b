//! How long a record may be pending: every schedule of one insert on its way through queues, of a
//! delete, an update, and of checkpointers. Checkpointers remove dead slots (model H of the checked
//! protocols, with an update added).
//!
//! A copy of the insert travels. The places are client 0, ATOMIC queue 1, adopter 2, queue of the
//! page 3, forwarder 4, queue of the next page 5. A queue keeps a copy for `RETENTION` ticks.

use std::collections::BTreeMap;

use super::checker::{Model, Versions, assert_caught, is_full, search};
use super::{edition, inline, stamp};
use crate::{HybridTime, Op, Page, Record, Sizes, Stamp, apply};

const RETENTION: i8 = 1;
/// Tick 0 of the model, so that no stamp is negative.
const EPOCH: i8 = 20;
const KEY: &str = "k";

#[derive(Clone, Copy, Debug)]
struct Scope {
    /// Ticks for which dead slots are kept.
    window: i8,
    /// The insert is stamped when it is sent.
    is_stamped_at_send: bool,
    /// A sweeper empties every queue before its messages expire.
    has_sweeper: bool,
    /// Dead slots of other keys are removed from the page, too.
    has_other_keys: bool,
    /// A client that has seen the key alive updates it, after the delete.
    has_update: bool,
    /// Only resurrection counts: the window is too small to keep what was acknowledged.
    is_resurrection_only: bool,
    /// Above this age a client sends no record on.
    age_max: Option<i8>,
    /// It looks at the age when it sends, not when it takes the record.
    is_age_checked_at_send: bool,
    /// Clocks of A (insert), B (delete), and the checkpointers.
    offsets: [i8; 3],
    end: i8,
}

const DESIGN: Scope = Scope {
    window: 3 * RETENTION,
    is_stamped_at_send: true,
    has_sweeper: true,
    has_other_keys: true,
    has_update: true,
    is_resurrection_only: false,
    age_max: None,
    is_age_checked_at_send: true,
    offsets: [0; 3],
    end: 7,
};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    now: i8,
    inserted: Option<i8>,
    is_acked: bool,
    copies: Vec<(u8, i8)>,
    page: u16,
    is_applied: bool,
    deleted: Option<i8>,
    is_updated: bool,
    is_refused: bool,
}

struct Pending {
    scope: Scope,
    versions: Versions,
    empty: u16,
    applied: BTreeMap<(u16, Option<Record>, HybridTime), (u16, bool)>,
}

fn record(time: i8, op: Op) -> Record {
    Record {
        key: KEY.into(),
        stamp: at(time),
        op,
    }
}

fn insert(time: i8) -> Record {
    record(time, Op::Insert(inline("old")))
}

fn at(time: i8) -> Stamp {
    stamp(u64::try_from(time + EPOCH).expect("a small scope"))
}

impl Pending {
    fn new(scope: Scope) -> Self {
        let mut versions = Versions::default();
        let empty = edition(&mut 0, |edition| Page::empty(Stamp::ZERO, edition));
        let empty = versions.number(&empty);
        Pending {
            scope,
            versions,
            empty,
            applied: BTreeMap::new(),
        }
    }

    /// The page after a checkpoint, and whether the record was refused.
    fn checkpoint(&mut self, page: u16, record: Option<&Record>, prune_before: i8) -> (u16, bool) {
        let prune_before = HybridTime(u64::try_from(prune_before + EPOCH).unwrap_or(0));
        let input = (page, record.cloned(), prune_before);
        if let Some(known) = self.applied.get(&input) {
            return *known;
        }
        let now = self.versions.page(page).clone();
        let applied = edition(&mut 0, |edition| {
            apply(
                &now,
                record.map_or(&[], std::slice::from_ref),
                prune_before,
                &Sizes::default(),
                edition,
            )
        });
        let next = applied
            .change
            .map_or(page, |change| self.versions.number(&change.page));
        let result = (next, !applied.refused.is_empty());
        self.applied.insert(input, result);
        result
    }

    /// Whether a client leaves the record out, here where it sends or takes it.
    fn is_too_old(&self, state: &State, is_sending: bool) -> bool {
        let age = state.inserted.map_or(0, |stamp| state.now - stamp);
        let is_checked = is_sending == self.scope.is_age_checked_at_send;
        is_checked && self.scope.age_max.is_some_and(|max| max < age)
    }

    fn travel(&mut self, state: &State, index: usize, out: &mut Vec<(Label, State)>) {
        let (place, _) = state.copies[index];
        let stamp = state.inserted.expect("copies have a stamp");
        let mut next = state.clone();
        match place {
            0 if !state.is_acked => {
                if self.scope.is_stamped_at_send {
                    next.inserted = Some(state.now + self.scope.offsets[0]);
                }
                next.is_acked = true;
                add(&mut next, (1, state.now));
                out.push((("sent to ATOMIC", state.now), next));
            }
            0 => {
                next.copies.remove(index);
                out.push((("client dies", state.now), next.clone()));
                if !self.is_too_old(state, true) {
                    add(&mut next, (3, state.now));
                    out.push((("client sends", state.now), next));
                }
            }
            1 => {
                if self.is_too_old(state, false) {
                    return;
                }
                add(&mut next, (2, 0));
                out.push((("adopted", state.now), next));
            }
            2 | 4 => {
                if self.is_too_old(state, true) {
                    next.copies.remove(index);
                    return out.push((("left out", state.now), next));
                }
                next.copies
                    .retain(|copy| copy.0 != place && copy.0 != place - 1);
                add(&mut next, (place + 1, state.now));
                out.push((("sent on", state.now), next));
            }
            _ => {
                if place == 3 {
                    let mut next = state.clone();
                    add(&mut next, (4, 0));
                    out.push((("forwarded", state.now), next));
                }
                next.copies.remove(index);
                let (page, is_refused) = self.checkpoint(state.page, Some(&insert(stamp)), -EPOCH);
                next.page = page;
                next.is_refused |= is_refused && !state.is_applied;
                next.is_applied |= !is_refused;
                out.push((("applied", state.now), next));
            }
        }
    }

    /// B deletes, whether it has seen the key or not, and C updates what it saw before the delete.
    fn others(&mut self, state: &State, out: &mut Vec<(Label, State)>) {
        let Some(inserted) = state.inserted else {
            return;
        };
        let time = state.now + self.scope.offsets[1];
        if state.deleted.is_none() && (time > inserted || state.is_applied) && state.is_acked {
            let mut next = state.clone();
            let time = time.max(inserted + 1);
            next.deleted = Some(time);
            let delete = record(time, Op::Delete);
            next.page = self.checkpoint(state.page, Some(&delete), -EPOCH).0;
            out.push((("deleted", state.now), next));
        }
        if let Some(deleted) = state.deleted
            && self.scope.has_update
            && !state.is_updated
        {
            let mut next = state.clone();
            next.is_updated = true;
            let update = record(time.max(deleted + 1), Op::Update(inline("new")));
            next.page = self.checkpoint(state.page, Some(&update), -EPOCH).0;
            out.push((("updated", state.now), next));
        }
    }

    fn prune(&mut self, state: &State, out: &mut Vec<(Label, State)>) {
        let before = state.now + self.scope.offsets[2] - self.scope.window;
        let (page, _) = self.checkpoint(state.page, None, before);
        if page != state.page {
            out.push((
                ("removed", state.now),
                State {
                    page,
                    ..state.clone()
                },
            ));
        }
        if self.scope.has_other_keys && before > 1 - EPOCH {
            let mut other = record(before - 1, Op::Delete);
            other.key = "other".into();
            // The slot of another key is removed: first it is there.
            let (with, _) = self.checkpoint(state.page, Some(&other), -EPOCH);
            let (page, _) = self.checkpoint(with, None, before);
            if page != state.page {
                out.push((
                    ("others removed", state.now),
                    State {
                        page,
                        ..state.clone()
                    },
                ));
            }
        }
    }
}

fn add(state: &mut State, copy: (u8, i8)) {
    if state.copies.iter().all(|other| other.0 != copy.0) {
        state.copies.push(copy);
        state.copies.sort_unstable();
    }
}

fn is_queue(place: u8) -> bool {
    place % 2 == 1
}

type Label = (&'static str, i8);

impl Model for Pending {
    type State = State;
    type Label = Label;

    fn init(&self) -> State {
        State {
            now: 0,
            inserted: None,
            is_acked: false,
            copies: Vec::new(),
            page: self.empty,
            is_applied: false,
            deleted: None,
            is_updated: false,
            is_refused: false,
        }
    }

    fn next(&mut self, state: &State, out: &mut Vec<(Label, State)>) {
        let is_due = |copy: &(u8, i8)| is_queue(copy.0) && state.now - copy.1 >= RETENTION;
        let is_held = self.scope.has_sweeper && state.copies.iter().any(is_due);
        if state.now < self.scope.end && !is_held {
            let mut next = state.clone();
            next.now += 1;
            let now = next.now;
            next.copies
                .retain(|copy| !is_queue(copy.0) || now - copy.1 <= RETENTION);
            out.push((("tick", now), next));
        }
        if state.inserted.is_none() {
            let mut next = state.clone();
            next.inserted = Some(state.now + self.scope.offsets[0]);
            add(&mut next, (0, 0));
            return out.push((("stamped", state.now), next));
        }
        for index in 0..state.copies.len() {
            self.travel(state, index, out);
        }
        self.others(state, out);
        self.prune(state, out);
    }

    fn violation(&self, state: &State) -> Option<&'static str> {
        let is_visible = self.versions.page(state.page).get(KEY.as_bytes()).is_some();
        if state.deleted.is_some() && is_visible {
            return Some("the deleted key is visible again");
        }
        if self.scope.is_resurrection_only || state.is_applied || state.deleted.is_some() {
            return None;
        }
        if state.is_acked && state.copies.is_empty() && !state.is_refused {
            return Some("an acknowledged record expired from every queue");
        }
        state
            .is_refused
            .then_some("an acknowledged record was refused and never applied")
    }

    fn end(&self, _: &State) -> Option<&'static str> {
        None
    }
}

/// All combinations of clocks that are 0 or `skew` ahead.
fn skewed(scope: Scope, skew: i8) -> impl Iterator<Item = Scope> {
    (0..8).map(move |bits| {
        let offset = |bit: i8| if bits >> bit & 1 == 1 { skew } else { 0 };
        Scope {
            offsets: [offset(0), offset(1), offset(2)],
            ..scope
        }
    })
}

#[test]
fn nothing_comes_back_for_any_window_any_skew_and_any_delay() {
    let mut states = 0;
    for window in [0, 1] {
        let scope = Scope {
            window,
            is_stamped_at_send: false,
            is_resurrection_only: true,
            end: if is_full() { 6 } else { 4 },
            ..DESIGN
        };
        for scope in skewed(scope, 1) {
            states += search(&mut Pending::new(scope)).states();
        }
    }
    println!("{states} states");
    assert!(states > 10_000, "{states} states");
}

#[test]
fn a_window_of_three_retentions_and_the_skew_keeps_what_was_acknowledged() {
    let mut states = search(&mut Pending::new(DESIGN)).states();
    let end = if is_full() { 9 } else { 6 };
    for scope in skewed(
        Scope {
            end,
            window: 3 * RETENTION + 1,
            ..DESIGN
        },
        1,
    ) {
        states += search(&mut Pending::new(scope)).states();
    }
    println!("{states} states");
    assert!(states > 10_000, "{states} states");
}

#[test]
fn every_removed_decision_is_caught() {
    let short = Scope {
        window: 3 * RETENTION - 1,
        ..DESIGN
    };
    assert_caught(
        "a window of less than three retentions",
        Pending::new(short),
    );
    let early = Scope {
        is_stamped_at_send: false,
        ..DESIGN
    };
    assert_caught("a stamp from before the send", Pending::new(early));
    assert_caught(
        "no sweeper",
        Pending::new(Scope {
            has_sweeper: false,
            ..DESIGN
        }),
    );
    let skewed: Vec<_> = skewed(DESIGN, 1).collect();
    let is_caught = skewed.into_iter().any(|scope| {
        matches!(
            search(&mut Pending::new(scope)),
            super::checker::Outcome::Violated(..)
        )
    });
    assert!(is_caught, "a window without the skew is not caught");
    println!("caught: a window without the skew");
}

#[cfg(feature = "mutants")]
#[test]
fn every_removed_rule_is_caught() {
    use crate::Guard;
    let guards = [
        Guard::Horizon,
        Guard::HorizonPerRegister,
        Guard::HorizonRises,
        Guard::DeadSlots,
        Guard::SlotStamps,
        Guard::TwoRegisters,
    ];
    for guard in guards {
        let scope = Scope {
            window: 1,
            is_stamped_at_send: false,
            is_resurrection_only: true,
            ..DESIGN
        };
        crate::without(guard, || {
            assert_caught(&format!("{guard:?}"), Pending::new(scope))
        });
    }
}

/// Without horizons a bound on a record's age keeps deleted keys away when a client checks it as
/// it sends. Checked earlier it does not: the send may come late.
#[cfg(feature = "mutants")]
#[test]
fn an_age_that_is_looked_at_before_the_send_is_caught() {
    let ages = Scope {
        window: 3 * RETENTION + 2,
        age_max: Some(2),
        has_other_keys: false,
        has_update: false,
        is_resurrection_only: true,
        end: 9,
        ..DESIGN
    };
    crate::without(crate::Guard::Horizon, || {
        search(&mut Pending::new(ages)).states();
        let early = Scope {
            is_age_checked_at_send: false,
            ..ages
        };
        assert_caught("an age looked at before the send", Pending::new(early));
    });
}
