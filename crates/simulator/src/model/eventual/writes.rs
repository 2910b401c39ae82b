//! What clients write, and how the head settles what a member took.

use std::rc::Rc;

use fader_chain::{
    Accepted, Change, Client, ElementOp, EntryId, ModeState, Operation, Register, RequestId,
    Settled, Stamp,
};
use fader_services::blocks;
use fader_services::s3::command::Named;
use fader_services::s3::{self, S3};
use fader_services::service::{Context, Service as _};
use fader_services::{MapView, Mode, View as _};

use super::{EventualRule, Held, Model, PUT, Place, STRONG, State, Step, Taken};
use crate::model::services::{
    BUCKET, FIRST, KEY, NOW, READABLE, apply, content, create_bucket, owner, put_object, put_rows,
};
use crate::model::table::hash;

/// Rows that one step of upkeep looks at.
const BATCH: usize = 9;
/// Later than any work of upkeep is due.
const LATER: u64 = NOW * 1000;

/// What comes of a put that a member took.
pub(super) enum Settling {
    Placed(Placed),
    /// A later write is there.
    Superseded,
    Nothing,
}

/// What places it.
pub(super) struct Placed {
    pub(super) changes: Vec<Change>,
    /// A hash of what that depends on beside the log.
    pub(super) key: u64,
}

pub(super) fn register(view: &MapView, key: &[u8]) -> Register {
    let row = view.get(key).expect(READABLE);
    row.map_or_else(Register::default, |row| {
        Register::decode(row).expect(READABLE)
    })
}

fn put_of(block: (u128, u128)) -> s3::Command {
    let attempt = owner(block.1, None).attempt;
    s3::Command::PutObject(Box::new(put_object(KEY, attempt, content(&[block.0]))))
}

impl Model {
    /// What clients may do.
    pub(super) fn writes(&self, state: &State, steps: &mut Vec<Step>) {
        let serves = state.member.place == Place::Serving;
        if serves && state.held == Held::NotTaken && self.accepted(state).is_some() {
            steps.push(Step::Take(false));
            if self.scope.has_token {
                steps.push(Step::Take(true));
            }
        }
        let once = [
            (0 < state.strong_puts, Step::StrongPut),
            (0 < state.others, Step::Other),
            (0 < state.remakes, Step::DeleteBucket),
            (self.scope.remakes && state.remakes == 0, Step::MakeBucket),
            (self.scope.remakes, Step::Upkeep),
        ];
        let once = once.into_iter().filter(|(may, _)| *may);
        steps.extend(once.map(|(_, step)| step));
    }

    pub(super) fn write(&self, next: &mut State, step: Step) {
        match step {
            Step::Take(has_token) => self.take_put(next, has_token),
            Step::Settle => self.settle(next),
            Step::StrongPut => {
                next.strong_puts -= 1;
                self.ask(next, step, 3, put_of(STRONG));
            }
            Step::Other => {
                next.others -= 1;
                self.append(next, (step, 0), None, |_| Vec::new());
            }
            Step::DeleteBucket => {
                let bucket = BUCKET.to_owned();
                let delete = s3::Command::DeleteBucket(Named { bucket });
                let (_, told) = self.services.decide(&next.newest().view, 4, delete.clone());
                if told.is_some() {
                    next.remakes -= 1;
                    self.ask(next, step, 4, delete);
                }
            }
            Step::MakeBucket => self.ask(next, step, 5, create_bucket(Some(Mode::Mixed))),
            _ => self.append(next, (step, 0), None, |newest| {
                self.services.upkeep(&newest.view, LATER, BATCH)
            }),
        }
    }

    fn ask(&self, next: &mut State, step: Step, seed: u128, command: s3::Command) {
        self.append(next, (step, 0), None, |newest| {
            self.services.decide(&newest.view, seed, command).0
        });
    }

    /// What the member makes of the put; nothing where it does not take it.
    fn accepted(&self, state: &State) -> Option<Accepted> {
        let [logged, applied] = [state.member.logged, state.member.applied];
        let applied = &state.log[applied].view;
        let collection = self.services.collection(applied)?;
        let shown = match self.has(EventualRule::Logged) {
            true => &state.log[logged].view,
            false => applied,
        };
        let attempt = owner(PUT.1, None).attempt;
        let is_open = blocks::check_attempt(shown, collection, &attempt).is_ok();
        if !is_open && self.has(EventualRule::Closed) {
            return None;
        }
        let context = Context {
            mode: Mode::Mixed,
            ..self
                .services
                .context(&self.services.limits, Some(collection))
        };
        let request = self.services.request(6, put_of(PUT));
        let accepted = S3::accept(applied, &context, &request).ok()?;
        accepted.writes.into_iter().next()
    }

    fn take_put(&self, next: &mut State, has_token: bool) {
        let Some(write) = self.accepted(next) else {
            return;
        };
        let logged = &next.log[next.member.logged];
        let standing = ModeState::of(&logged.view, FIRST.0).expect(READABLE);
        let token = match has_token {
            true => next.newest().id,
            false => EntryId::ZERO,
        };
        let bases = [
            register(&logged.view, &write.key).version,
            standing.opened,
            next.log[next.safe_point].id,
            token,
        ];
        let stamp = Stamp {
            base: bases.into_iter().max().unwrap_or_default(),
            clock: 1,
            node: 1,
            counter: 0,
        };
        let operation = Operation {
            name: RequestId {
                client: Client::default(),
                seq: 1,
                part: 0,
            },
            stamp,
            accept: logged.id,
            digest: None,
            key: write.key,
            ops: write.ops,
        };
        next.held = Held::Overlay;
        next.taken = Some(Taken {
            operation: Rc::new(operation),
            seen: next.member.applied,
            is_excused: false,
        });
    }

    /// What the head makes of the put, on its newest state.
    pub(super) fn settled(&self, state: &State, taken: &Taken) -> Settling {
        let Operation {
            stamp,
            accept,
            key,
            ops,
            ..
        } = &*taken.operation;
        let newest = &state.newest().view;
        let survivors = register(newest, key).survivors(ops, *stamp);
        let standing = ModeState::of(newest, FIRST.0).expect(READABLE);
        if !standing.settles(*accept) {
            return Settling::Nothing;
        }
        if survivors.is_empty() {
            return Settling::Superseded;
        }
        let placed = |changes| {
            let key = hash(&(stamp, taken.seen));
            Settling::Placed(Placed { changes, key })
        };
        if !self.has(EventualRule::SettleNewest)
            && let Settled::Apply(changes) =
                self.settle_on(&state.log[taken.seen].view, taken, survivors.clone())
        {
            return placed(changes);
        }
        match self.settle_on(newest, taken, survivors) {
            Settled::Apply(changes) => placed(changes),
            Settled::Refused(_) => Settling::Nothing,
        }
    }

    fn settle_on(&self, view: &MapView, taken: &Taken, survivors: Vec<ElementOp>) -> Settled {
        let Operation { stamp, key, .. } = &*taken.operation;
        let mut view = view.clone();
        if !self.has(EventualRule::SettleRows) {
            let rows = put_rows(owner(PUT.1, None), 9, &[PUT.0]);
            let rows = self.services.decide_rows(&view, &rows);
            apply(&mut view, &rows);
        }
        let settled = S3::settle(&view, &self.services.limits, key, survivors, *stamp);
        settled.expect(READABLE)
    }
}
