//! The steps that can be taken from a state, and what comes of each: members and collectors.

use std::rc::Rc;

use fader_chain::{Change, Stamp, is_forgotten};
use fader_services::blocks::{self, Found, Lease, Owner};
use fader_services::request::Request;
use fader_services::s3::Reply;

use super::writes::{Settling, register};
use super::{EventualRule, Held, Model, Place, State, Step};
use crate::model::search::Stepped;
use crate::model::services::{Entry, FIRST, of_bucket};
use crate::model::table::hash;

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
        let (member, last) = (state.member, state.log.len() - 1);
        let (is_away, serves) = (member.place == Place::Away, member.place == Place::Serving);
        may(!is_away && member.logged < last, Step::Log);
        may(state.committed < self.logged_by_all(state), Step::Commit);
        may(
            !is_away && member.applied < member.logged.min(state.committed),
            Step::Apply,
        );
        may(!is_away && 0 < state.leaves, Step::Leave);
        may(is_away, Step::Join);
        may(member.place == Place::Joining, Step::CloseGap);
        may(state.safe_point < applied_by_all(state), Step::SafePoint);
        may(serves && state.held == Held::Overlay, Step::Settle);
        self.writes(state, &mut steps);
        self.collections(state, &mut steps);
        steps
    }

    fn take(&self, state: &State, step: Step) -> State {
        let mut next = state.clone();
        match step {
            Step::Log => next.member.logged += 1,
            Step::Commit => next.committed = self.logged_by_all(state),
            Step::Apply => next.member.applied += 1,
            Step::Leave => {
                next.leaves -= 1;
                next.member.place = Place::Away;
                if state.held == Held::Overlay {
                    next.held = Held::Quarantine;
                }
                // A barrier that is under way begins anew.
                next.barrier = state.barrier.filter(|at| *at <= state.committed);
            }
            Step::Join => {
                next.member.place = Place::Joining;
                next.member.logged = state.committed;
            }
            Step::CloseGap => self.close_gap(&mut next),
            Step::SafePoint => next.safe_point = applied_by_all(state),
            Step::Lease(id) => {
                let row = state.newest().rows.get(&id).copied();
                let asked = row.map(|row| (id, row)).into_iter().collect();
                self.end_leases(&mut next, step, asked, blocks::close_attempt);
            }
            Step::Note => {
                let rows = state.log[state.committed].rows.iter();
                let closed = rows.filter(|(_, row)| row.is_closed());
                let mut closed = Found::new(closed.map(|(id, _)| *id).collect());
                closed.is_passed(state.known());
                next.closed = Some(closed);
            }
            Step::Barrier => {
                if state.member.place == Place::Serving && state.held == Held::Overlay {
                    self.settle(&mut next);
                }
                next.barrier = Some(next.log.len() - 1);
            }
            Step::End => {
                next.barrier = None;
                let closed = next
                    .closed
                    .take()
                    .map(Found::into_found)
                    .unwrap_or_default();
                let rows = closed.into_iter();
                let rows = rows.filter_map(|id| Some((id, *state.newest().rows.get(&id)?)));
                self.end_leases(&mut next, step, rows.collect(), blocks::end_attempt);
            }
            Step::Collect(garbage) => self.append(&mut next, (step, 0), None, |newest| {
                self.services.collect(&newest.view, garbage)
            }),
            step => self.write(&mut next, step),
        }
        next
    }
}

impl Model {
    /// What the head's collectors may do.
    fn collections(&self, state: &State, steps: &mut Vec<Step>) {
        let committed = &state.log[state.committed];
        let newest = &state.newest().rows;
        let is_leased = |row: &blocks::Row| matches!(row.lease, Lease::Until(_));
        for id in committed.rows.keys() {
            // Else it was asked about.
            if newest.get(id).is_some_and(is_leased) {
                steps.push(Step::Lease(*id));
            }
        }
        match &state.closed {
            None if committed.rows.values().any(blocks::Row::is_closed) => {
                steps.push(Step::Note);
            }
            None => {}
            Some(closed) => {
                let is_passed = closed.clone().is_passed(state.known())
                    || !self.has(EventualRule::EndSafePoint);
                let begins = is_passed || !self.has(EventualRule::BarrierSafePoint);
                if begins && state.barrier.is_none() && self.has(EventualRule::Barrier) {
                    steps.push(Step::Barrier);
                }
                let is_settled = state.barrier.is_some_and(|at| at <= state.committed);
                if is_passed && (is_settled || !self.has(EventualRule::Barrier)) {
                    steps.push(Step::End);
                }
            }
        }
        steps.extend(committed.garbage.iter().copied().map(Step::Collect));
    }

    /// How much of the log all members have that count.
    fn logged_by_all(&self, state: &State) -> usize {
        match state.member.place {
            Place::Away => state.log.len() - 1,
            Place::Joining | Place::Serving => state.committed.max(state.member.logged),
        }
    }

    /// The member is back: what it held is judged (GC-5).
    fn close_gap(&self, next: &mut State) {
        next.member.place = Place::Serving;
        next.member.applied = next.member.logged.min(next.committed);
        let (Held::Quarantine, Some(taken)) = (next.held, &mut next.taken) else {
            return;
        };
        let safe_point = next.log[next.safe_point].id;
        let state = &next.log[next.member.applied].view;
        let register = register(state, &taken.operation.key);
        let guards = &self.services.guards;
        taken.is_excused |= taken.operation.accept < safe_point;
        next.held = match is_forgotten(&taken.operation, &register, safe_point, guards) {
            true => Held::Over,
            false => Held::Overlay,
        };
    }

    /// The bucket is asked about blocks, and what it says is done.
    fn end_leases(
        &self,
        next: &mut State,
        step: Step,
        asked: Vec<(u128, blocks::Row)>,
        how: fn(Owner, u128) -> Request,
    ) {
        let ids: Vec<u128> = asked.iter().map(|(id, _)| *id).collect();
        self.append(next, (step, hash(&ids)), None, |newest| {
            let mut changes = Vec::new();
            let mut fates = Vec::new();
            for (id, row) in asked {
                let ask = of_bucket(how(row.owner, id));
                let (decided, told) = self.services.decide(&newest.view, 0, ask);
                changes.extend(decided);
                if let Some(Reply::Fenced(fate)) = told {
                    fates.push((id, row, fate));
                }
            }
            for verdict in blocks::verdicts(&fates) {
                changes.extend(self.services.decide_rows(&newest.view, &verdict));
            }
            changes
        });
    }

    /// The head settles the eventual put.
    pub(super) fn settle(&self, next: &mut State) {
        next.held = Held::Over;
        let Some(taken) = next.taken.clone() else {
            return;
        };
        match self.settled(next, &taken) {
            Settling::Placed(of) => {
                let stamp = Some(taken.operation.stamp);
                self.append(next, (Step::Settle, of.key), stamp, |_| of.changes);
            }
            Settling::Superseded => {}
            Settling::Nothing => {
                let standing = self.services.collection(&next.newest().view);
                let is_gone = standing != Some(FIRST);
                if !taken.is_excused && !is_gone {
                    next.broken = Some("a put that was acknowledged comes to nothing");
                }
            }
        }
    }

    /// What was decided enters the log.
    pub(super) fn append(
        &self,
        next: &mut State,
        step: (Step, u64),
        stamp: Option<Stamp>,
        decide: impl FnOnce(&Entry) -> Vec<Change>,
    ) {
        let before = next.newest().clone();
        let place = (before.key, step.0, step.1);
        let known = self.entries.borrow().get(&place).cloned();
        let entry = known.unwrap_or_else(|| {
            let changes = decide(&before);
            let entry = match changes.is_empty() && step.0 != Step::Other {
                // It is no entry.
                true => before.clone(),
                false => Rc::new(self.services.after(&before, &changes, stamp)),
            };
            self.entries.borrow_mut().insert(place, entry.clone());
            entry
        });
        if entry.id != before.id {
            next.log.push(entry);
        }
    }
}

/// How much of the log all members have applied. One whose gap is open holds it (GC-2).
fn applied_by_all(state: &State) -> usize {
    match state.member.place {
        Place::Away => state.committed,
        Place::Joining => 0,
        Place::Serving => state.member.applied,
    }
}
