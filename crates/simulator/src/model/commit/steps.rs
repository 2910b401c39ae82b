//! The steps that can be taken from a state, and what comes of each.

use fader_chain::{ChainId, Change};
use fader_services::blocks::{self, Command, GarbageAt};
use fader_services::s3::command::{
    CompleteUpload, DeleteObject, Deletion, ListedPart, MoveNote, Named, PutPart,
};
use fader_services::s3::conditions::WriteConditions;
use fader_services::s3::{self, Reply};

use super::scopes::Attempted;
use super::{
    BUCKET, Effect, FIRST, KEYS, Model, PENDING_MAX, Pending, READABLE, State, Step, apply,
    block_of, create_bucket, upload_of,
};
use crate::model::search::Stepped;
use crate::model::services::{BEGUN, NOW, content, of_bucket, put_object, put_rows};

/// Rows that one step of upkeep looks at.
const BATCH: usize = 9;
/// Later than any work of upkeep is due.
const LATER: u64 = NOW * 1000;

impl Stepped for Model {
    type State = State;
    type Step = Step;

    fn steps(&self, state: &State) -> Vec<Step> {
        let mut steps = Vec::new();
        if !state.pending.is_empty() {
            steps.push(Step::Settle);
        }
        if 0 < state.heads {
            steps.extend((0..state.pending.len()).map(Step::Cut));
        }
        let committed = state.committed();
        for (at, upload) in state.uploads.iter().enumerate() {
            let row = blocks::row(committed, block_of(at)).expect(READABLE);
            let newest = blocks::row(&state.rows, block_of(at)).expect(READABLE);
            let has_none = row.is_none() && newest.is_none();
            if upload.has_bytes && upload.was_removed && has_none {
                steps.push(Step::Reclaim(at));
            }
            let is_leased = row.is_some_and(|row| row.lease != blocks::Lease::Ended);
            let is_asked = state.asked.iter().any(|(of, _)| *of == at)
                || state.told.iter().any(|(of, ..)| *of == at)
                || state.pending.iter().any(|it| it.is_of_fence(at));
            if is_leased && !is_asked {
                steps.push(Step::Ask(at));
            }
        }
        if state.pending.len() < PENDING_MAX {
            self.entries(state, &mut steps);
        }
        steps
    }

    fn take(&self, state: &State, step: Step) -> State {
        let mut next = state.clone();
        match step {
            Step::Settle => self.settle(&mut next),
            Step::Cut(from) => {
                next.heads -= 1;
                next.rows = next.pending[from].before.clone();
                let cut: Vec<Pending> = next.pending.drain(from..).collect();
                cut.iter().for_each(|entry| ask_again(&mut next, entry));
            }
            Step::Reclaim(at) => next.uploads[at].has_bytes = false,
            Step::Ask(at) => {
                let row = blocks::row(next.committed(), block_of(at)).expect(READABLE);
                next.asked.extend(row.map(|row| (at, row.number)));
            }
            Step::PutRow(at) => {
                next.puts += 1;
                next.uploads[at].sent += 1;
                let put = self.put_row(at, next.puts);
                let changes = self.services.decide_rows(&next.rows, &put);
                self.append(&mut next, &changes, step, Effect::Heard(at));
            }
            Step::Commit(at) => {
                next.uploads[at].is_committed = true;
                self.ask(&mut next, step, 3, self.commit(at));
            }
            step @ (Step::Fence(_)
            | Step::Verdict(_)
            | Step::Garbage(_)
            | Step::Drop(_)
            | Step::Upkeep) => self.collect(&mut next, step),
            step => self.request(&mut next, step),
        }
        next
    }
}

impl Model {
    /// What is decided on the log, and becomes an entry.
    fn entries(&self, state: &State, steps: &mut Vec<Step>) {
        for (at, upload) in state.uploads.iter().enumerate() {
            if upload.has_bytes && upload.sent < self.scope.sent {
                steps.push(Step::PutRow(at));
            }
            if upload.has_heard && !upload.is_committed {
                steps.push(Step::Commit(at));
            }
        }
        steps.extend((0..state.asked.len()).map(Step::Fence));
        steps.extend((0..state.told.len()).map(Step::Verdict));
        let garbage = blocks::garbage(state.committed(), None, BATCH).expect(READABLE);
        let is_new = |at: &GarbageAt| {
            let is_removed = state.dropping.iter().any(|(of, _)| of == at);
            !is_removed && !state.pending.iter().any(|it| it.is_of_garbage(*at))
        };
        let new = garbage.iter().enumerate().filter(|(_, at)| is_new(at));
        steps.extend(new.map(|(at, _)| Step::Garbage(at)));
        steps.extend((0..state.dropping.len()).map(Step::Drop));
        let once = [
            (0 < state.deletes, Step::Delete),
            (0 < state.version_deletes, Step::DeleteVersion),
            (0 < state.remakes, Step::DeleteBucket),
            (state.remakes == 0 && self.scope.remakes, Step::MakeBucket),
            (0 < state.notes, Step::Note),
            (0 < state.completions, Step::Complete),
            (0 < state.completions, Step::Abort),
            (self.scope.remakes, Step::Upkeep),
        ];
        steps.extend(
            once.into_iter()
                .filter(|(may, _)| *may)
                .map(|(_, step)| step),
        );
    }

    /// Requests of clients that come once, and the note.
    fn request(&self, next: &mut State, step: Step) {
        let bucket = BUCKET.to_owned();
        let key = KEYS[0].to_owned();
        let deletion = |version| {
            let object = Deletion {
                key: key.clone(),
                version,
                ..Deletion::default()
            };
            let bucket = BUCKET.to_owned();
            s3::Command::DeleteObject(DeleteObject { bucket, object })
        };
        match step {
            Step::Complete => {
                next.completions -= 1;
                let complete = s3::Command::CompleteUpload(CompleteUpload {
                    of: upload_of(),
                    parts: vec![ListedPart {
                        number: 1,
                        etag: "e".to_owned(),
                        checksum: None,
                    }],
                    checksum: None,
                    size: None,
                    conditions: WriteConditions::default(),
                });
                self.ask(next, step, 4, complete);
            }
            Step::Abort => {
                next.completions -= 1;
                self.ask(next, step, 5, s3::Command::AbortUpload(upload_of()));
            }
            Step::Delete => {
                next.deletes -= 1;
                self.ask(next, step, 6, deletion(None));
            }
            Step::DeleteVersion => {
                let versions = self.versions(&next.rows);
                let old = versions.into_iter().find(|it| !it.is_latest);
                if let Some(old) = old {
                    next.version_deletes -= 1;
                    self.ask(next, step, 8, deletion(Some(old.id)));
                }
            }
            Step::DeleteBucket => {
                let delete = s3::Command::DeleteBucket(Named { bucket });
                let (changes, reply) = self.services.decide(&next.rows, 7, delete);
                if reply.is_some() {
                    next.remakes -= 1;
                    self.append(next, &changes, step, Effect::Nothing);
                }
            }
            Step::MakeBucket => self.ask(next, step, 2, create_bucket(None)),
            _ => {
                next.notes -= 1;
                let (collection, note) = (FIRST, BEGUN);
                let note = s3::Command::MoveNote(MoveNote { collection, note });
                self.ask(next, step, 0, note);
            }
        }
    }

    fn collect(&self, next: &mut State, step: Step) {
        match step {
            Step::Fence(which) => {
                let (at, number) = next.asked.remove(which);
                let fence = of_bucket(blocks::fence(self.owner(at), block_of(at)));
                let (changes, reply) = self.services.decide(&next.rows, 0, fence);
                let effect = match reply {
                    Some(Reply::Fenced(fate)) => Effect::Told(at, number, fate),
                    _ => Effect::Nothing,
                };
                let step = Step::Fence(at);
                self.append(next, &changes, step, effect);
            }
            Step::Verdict(which) => {
                let (at, number, fate) = next.told.remove(which);
                let row = blocks::Row {
                    size: 1,
                    sum: 0,
                    owner: self.owner(at),
                    chain: ChainId::SYSTEM,
                    number,
                    lease: blocks::Lease::Until(0),
                };
                for command in blocks::verdicts(&[(block_of(at), row, fate)]) {
                    let changes = self.services.decide_rows(&next.rows, &command);
                    self.append(next, &changes, step, Effect::Nothing);
                }
            }
            Step::Garbage(which) => {
                let at = blocks::garbage(next.committed(), None, BATCH).expect(READABLE)[which];
                let removal = blocks::removal(next.committed(), at).expect(READABLE);
                if let Some(removal) = removal {
                    let ids = removal.blocks.into_values().flatten().collect();
                    let changes = self.services.decide_rows(&next.rows, &Command::Remove(ids));
                    let effect = Effect::Dropping(at, Box::new(removal.then));
                    self.append(next, &changes, step, effect);
                }
            }
            Step::Drop(which) => {
                let (at, then) = next.dropping.remove(which);
                let (changes, _) = self
                    .services
                    .decide(&next.rows, 0, of_bucket((*then).clone()));
                self.append(next, &changes, step, Effect::Dropped(at, then));
            }
            _ => {
                let changes = self.services.upkeep(&next.rows, LATER, BATCH);
                if !changes.is_empty() {
                    self.append(next, &changes, step, Effect::Nothing);
                }
            }
        }
    }

    /// Asks the bucket's chain for what has no further effect.
    fn ask(&self, next: &mut State, step: Step, seed: u128, command: s3::Command) {
        let (changes, _) = self.services.decide(&next.rows, seed, command);
        self.append(next, &changes, step, Effect::Nothing);
    }

    /// What was decided enters the log. Where no head changes it is committed at once, and so is
    /// what changes nothing and saw nothing that is not committed.
    fn append(&self, next: &mut State, changes: &[Change], step: Step, effect: Effect) {
        let is_answered = changes.is_empty() && next.pending.is_empty();
        let before = next.rows.clone();
        apply(&mut next.rows, changes);
        next.pending.push(Pending {
            before,
            step,
            effect,
        });
        if self.scope.heads == 0 || is_answered {
            self.settle(next);
        }
    }

    /// The oldest entry is committed, and its answer is given.
    fn settle(&self, next: &mut State) {
        let entry = next.pending.remove(0);
        for at in 0..next.uploads.len() {
            let has_row = |rows| blocks::row(rows, block_of(at)).expect(READABLE).is_some();
            let is_removed = has_row(&entry.before) && !has_row(next.committed());
            next.uploads[at].was_removed |= is_removed;
        }
        match entry.effect {
            Effect::Nothing | Effect::Dropped(..) => {}
            Effect::Heard(at) => next.uploads[at].has_heard = true,
            Effect::Told(at, number, fate) => next.told.push((at, number, fate)),
            Effect::Dropping(at, then) => next.dropping.push((at, then)),
        }
    }

    fn put_row(&self, at: usize, number: u64) -> Command {
        put_rows(self.owner(at), number, &[block_of(at)])
    }

    fn commit(&self, at: usize) -> s3::Command {
        let content = content(&[block_of(at)]);
        let attempt = self.owner(at).attempt;
        match self.scope.attempts[at] {
            Attempted::Put(key) => {
                let put = put_object(KEYS[key], attempt, content);
                s3::Command::PutObject(Box::new(put))
            }
            Attempted::Part(number) => s3::Command::PutPart(PutPart {
                of: upload_of(),
                number,
                attempt,
                content,
                etag: "e".to_owned(),
                checksum: None,
            }),
        }
    }
}

impl Pending {
    /// Whether it is the answer to a question about this block.
    fn is_of_fence(&self, at: usize) -> bool {
        self.step == Step::Fence(at)
    }

    /// Whether it removes the rows of this garbage, or its own row.
    pub(super) fn is_of_garbage(&self, at: GarbageAt) -> bool {
        matches!(&self.effect, Effect::Dropping(of, _) | Effect::Dropped(of, _) if *of == at)
    }
}

/// What was cut with an entry is asked again by those who asked it.
fn ask_again(next: &mut State, entry: &Pending) {
    match &entry.effect {
        Effect::Told(at, number, _) => next.asked.push((*at, *number)),
        Effect::Dropped(at, then) => next.dropping.push((*at, then.clone())),
        _ => {}
    }
    match entry.step {
        Step::PutRow(at) => {
            next.uploads[at].sent -= 1;
            next.puts -= 1;
        }
        Step::Commit(at) => next.uploads[at].is_committed = false,
        Step::Complete | Step::Abort => next.completions += 1,
        Step::Delete => next.deletes += 1,
        Step::DeleteVersion => next.version_deletes += 1,
        Step::DeleteBucket => next.remakes += 1,
        Step::Note => next.notes += 1,
        _ => {}
    }
}
