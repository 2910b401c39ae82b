//! The steps that can be taken from a state, and what comes of each.

use std::rc::Rc;

use fader_chain::{Change, EntryId};
use fader_services::blocks::{self, Content, Known, Lease};
use fader_services::s3;

use super::{BLOCKS, Copying, Model, Read, ReadRule, State, Step, WAIT};
use crate::model::search::Stepped;
use crate::model::services::{Entry, KEY, READABLE, of_bucket, owner, put_object};

/// Until when the object is overwritten.
const OVERWRITTEN: u64 = 2;

impl State {
    fn newest(&self) -> &Rc<Entry> {
        &self.log[self.log.len() - 1]
    }

    fn other(&self) -> usize {
        1 - self.head
    }

    /// What a member shows.
    fn shown(&self, member: usize) -> &Rc<Entry> {
        &self.log[self.members[member].applied]
    }

    /// A member applies the entries up to there.
    fn apply(&mut self, member: usize, to: usize) {
        while self.members[member].applied < to {
            let applied = self.members[member].applied + 1;
            let (before, entry) = (&self.log[applied - 1], &self.log[applied]);
            let new = entry.garbage.iter();
            let new = new.filter(|garbage| !before.garbage.contains(garbage));
            for garbage in new {
                self.members[member].seen.note(entry.id, *garbage);
            }
            self.members[member].applied = applied;
        }
    }
}

impl Stepped for Model {
    type State = State;
    type Step = Step;

    fn steps(&self, state: &State) -> Vec<Step> {
        let mut steps = Vec::new();
        let mut may = |may: bool, step| {
            if may {
                steps.push(step);
            }
        };
        let is_there = !state.newest().named.is_empty();
        let reads_wall = !self.has(ReadRule::Monotonic);
        may(state.now < self.scope.moments, Step::Moment);
        may(reads_wall && state.ahead < self.scope.ahead, Step::SetClock);
        may(is_there && state.now <= OVERWRITTEN, Step::Overwrite);
        let is_leased = |row: &blocks::Row| row.lease != Lease::Ended;
        may(state.newest().rows.values().any(is_leased), Step::Lease);
        may(0 < state.heads, Step::HeadChange);
        may(
            state.members[state.other()].applied + 1 < state.log.len(),
            Step::Apply,
        );
        let applied = state.members.iter().map(|member| member.applied);
        may(applied.min() > Some(state.safe_point), Step::SafePoint);
        may(true, Step::Look);
        for garbage in state.waits.over(self.clock(state), WAIT, 1) {
            may(true, Step::Remove(garbage));
        }
        for member in 0..state.members.len() {
            may(
                !self.reclaimed(state, member).is_empty(),
                Step::Reclaim(member),
            );
        }
        let has_rows = !state.shown(state.head).rows.is_empty();
        may(state.copy == Copying::NotBegun && has_rows, Step::Fix);
        may(matches!(state.copy, Copying::Fixed(_)), Step::Copied);
        match state.read {
            Read::NotBegun => {
                may(
                    !state.shown(state.head).named.is_empty(),
                    Step::Index(false),
                );
                let is_old = !state.shown(state.other()).named.is_empty();
                may(self.scope.is_eventual && is_old, Step::Index(true));
            }
            Read::UnderWay(since, ..) => may(state.now - since < WAIT, Step::Block),
            Read::Over => {}
        }
        steps
    }

    fn take(&self, state: &State, step: Step) -> State {
        let mut next = state.clone();
        match step {
            Step::Moment => next.now += 1,
            Step::SetClock => next.ahead += WAIT,
            Step::Overwrite => self.append(&mut next, step, |newest| {
                let empty = Content::Inline(bytes::Bytes::from_static(b"new"));
                let put = put_object(KEY, owner(0xa1, None).attempt, empty);
                let put = s3::Command::PutObject(Box::new(put));
                self.services.decide(&newest.view, 3, put).0
            }),
            Step::Lease => self.end_leases(&mut next),
            Step::HeadChange => {
                next.heads -= 1;
                next.head = state.other();
                next.apply(state.other(), state.log.len() - 1);
                if self.has(ReadRule::BeginAnew) {
                    next.waits = blocks::Waits::default();
                }
                if let Copying::Fixed(_) = next.copy {
                    next.copy = Copying::Over;
                }
            }
            Step::Fix => next.copy = Copying::Fixed(state.members[state.head].applied),
            Step::Copied => next.copy = Copying::Over,
            Step::Index(is_eventual) => next.read = Read::UnderWay(state.now, 0, is_eventual),
            Step::Block => self.read_block(&mut next),
            Step::Apply => {
                let applied = state.members[state.other()].applied;
                next.apply(state.other(), applied + 1);
            }
            Step::SafePoint => {
                let applied = state.members.iter().map(|member| member.applied);
                next.safe_point = applied.min().unwrap_or(0);
            }
            Step::Look => self.look(&mut next),
            Step::Remove(garbage) => {
                self.append(&mut next, step, |newest| {
                    self.services.collect(&newest.view, garbage)
                });
                next.waits.forget(&[garbage]);
            }
            Step::Reclaim(member) => {
                for id in self.reclaimed(state, member) {
                    next.members[member].held.remove(&id);
                }
            }
        }
        next
    }
}

impl Model {
    /// What was decided enters the log, and the head applies it.
    fn append(&self, next: &mut State, step: Step, decide: impl FnOnce(&Entry) -> Vec<Change>) {
        let before = next.newest().clone();
        let known = self.entries.borrow().get(&(before.key, step)).cloned();
        let entry = known.unwrap_or_else(|| {
            let changes = decide(&before);
            let entry = match changes.is_empty() {
                // It is no entry.
                true => before.clone(),
                false => Rc::new(self.services.after(&before, &changes, None)),
            };
            let mut entries = self.entries.borrow_mut();
            entries.insert((before.key, step), entry.clone());
            entry
        });
        if entry.id != before.id {
            next.log.push(entry);
            let head = next.head;
            next.apply(head, next.log.len() - 1);
        }
    }

    /// The leases of the blocks are over: what the bucket says of them is done.
    fn end_leases(&self, next: &mut State) {
        self.append(next, Step::Lease, |newest| {
            let mut fates = Vec::new();
            for (id, row) in &newest.rows {
                let fence = of_bucket(blocks::fence(row.owner, *id));
                let (_, told) = self.services.decide(&newest.view, 0, fence);
                if let Some(s3::Reply::Fenced(fate)) = told {
                    fates.push((*id, *row, fate));
                }
            }
            let verdicts = blocks::verdicts(&fates).into_iter();
            let changes = verdicts.map(|it| self.services.decide_rows(&newest.view, &it));
            changes.flatten().collect()
        });
    }

    /// The head looks for garbage.
    fn look(&self, next: &mut State) {
        let clock = self.clock(next);
        let safe_point = match self.has(ReadRule::FromSafePoint) {
            true => next.log[next.safe_point].id,
            false => EntryId::new(u64::MAX, 0),
        };
        let known = Known {
            newest: next.newest().id,
            safe_point,
        };
        let head = next.head;
        let seen = next.members[head].seen.take(safe_point);
        let shown = next.shown(head).clone();
        let looked = next.waits.look(clock, known, seen, &shown.view);
        looked.expect(READABLE);
    }

    /// The blocks whose bytes a member may reclaim.
    fn reclaimed(&self, state: &State, member: usize) -> Vec<u128> {
        let here = &state.members[member];
        let standpoint = self.standpoint(state, member);
        let removed = |id: &u128| {
            let mut entries = state.log[..=here.applied].iter();
            let removal = entries.find(|entry| !entry.rows.contains_key(id));
            removal.is_some_and(|entry| standpoint.may_reclaim(entry.id))
        };
        here.held.iter().copied().filter(removed).collect()
    }

    /// The read goes on with the next block, at any member that has it.
    fn read_block(&self, next: &mut State) {
        let Read::UnderWay(since, count, is_eventual) = next.read else {
            return;
        };
        let is_held = |id| next.members.iter().any(|member| member.held.contains(id));
        if is_held(&BLOCKS[count]) {
            next.read = match count + 1 < BLOCKS.len() {
                true => Read::UnderWay(since, count + 1, is_eventual),
                false => Read::Over,
            };
        } else if 0 < count {
            next.broken = Some("a read that took less than the wait does not end whole");
        } else {
            let at = match is_eventual && !self.has(ReadRule::LookStrong) {
                true => next.other(),
                false => next.head,
            };
            next.read = Read::Over;
            if !next.shown(at).named.is_empty() {
                next.broken = Some("a member shows a version whose block is gone");
            }
        }
    }
}
