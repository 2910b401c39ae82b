//! Every order of few steps: puts whose messages come at any time, again or never; deletions; a
//! bucket that goes and comes again. Leases are over at any moment; both collectors run.
//!
//! In every state each version is whole. From every state the collectors alone reach one in which
//! each block of no version is gone. The decisions are the code's own; all rows are on one chain,
//! whose head does not change.

use std::collections::{HashMap, VecDeque};

use bytes::Bytes;
use fader_chain::{ALL_GUARDS, ApplyContext, ChainId, Change, EntryId, Guards};

use crate::blocks::{
    self, Attempt, Block, Command, Content, Fenced, GarbageAt, Limits, NewRow, Owner, Put,
};
use crate::catalog::{self, AccountId, Name};
use crate::policy::Principal;
use crate::request::Request;
use crate::s3::command::{
    CompleteUpload, CreateBucket, CreateUpload, DeleteObject, Deletion, Extent, GetObject,
    ListedPart, MoveNote, Named, OneUpload, PutObject, PutPart,
};
use crate::s3::conditions::{ReadConditions, WriteConditions};
use crate::s3::reply::Piece;
use crate::s3::rows::Metadata;
use crate::s3::{self, Action, Caller, Reply};
use crate::service::Context;
use crate::{CollectionId, Kind, MapView};

const B: &str = "photos";
const KEY: &str = "key";
const NOW: u64 = 1_000_000;
const BEGUN: EntryId = EntryId::new(1, 5);
const STATES_MAX: usize = 400_000;

/// What happens in a scope.
#[derive(Clone, Copy, Debug)]
struct Scope {
    attempts: usize,
    /// Whether the attempts are parts of one upload, numbered so.
    parts: Option<&'static [u32]>,
    /// Puts of a block's row that are sent at most.
    sent: u8,
    deletes: u8,
    /// Whether the bucket is deleted and made again.
    remakes: bool,
    notes: u8,
}

const PUTS: Scope = Scope {
    attempts: 2,
    parts: None,
    sent: 2,
    deletes: 1,
    remakes: false,
    notes: 0,
};
const NOTED: Scope = Scope {
    attempts: 1,
    notes: 1,
    ..PUTS
};
const BUCKET: Scope = Scope {
    attempts: 1,
    remakes: true,
    ..PUTS
};
const PARTS: Scope = Scope {
    attempts: 2,
    parts: Some(&[1, 1]),
    sent: 1,
    deletes: 0,
    ..PUTS
};
const UNLISTED: Scope = Scope {
    parts: Some(&[1, 2]),
    ..PARTS
};

/// A put or a part under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Upload {
    has_bytes: bool,
    /// Its row was removed once, so its bytes may be reclaimed when it has none.
    was_removed: bool,
    sent: u8,
    /// Whether its node heard that the row is there.
    has_heard: bool,
    is_committed: bool,
}

#[derive(Clone, Debug)]
struct State {
    rows: MapView,
    collection: CollectionId,
    uploads: Vec<Upload>,
    /// Questions and answers about blocks that are under way, with the row's number.
    asked: Vec<(usize, u64)>,
    told: Vec<(usize, u64, Fenced)>,
    /// Garbage whose blocks' rows are removed, and what is asked then.
    dropping: Vec<(GarbageAt, Bytes)>,
    puts: u64,
    deletes: u8,
    remakes: u8,
    notes: u8,
    completions: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    PutRow(usize),
    Commit(usize),
    Complete,
    Abort,
    Delete,
    DeleteBucket,
    MakeBucket,
    // Those of the collectors.
    Reclaim(usize),
    Ask(usize),
    Fence(usize),
    Verdict(usize),
    Garbage(usize),
    Drop(usize),
    Note,
    Upkeep,
}

impl Step {
    fn is_collectors(self) -> bool {
        !matches!(
            self,
            Step::PutRow(_)
                | Step::Commit(_)
                | Step::Complete
                | Step::Abort
                | Step::Delete
                | Step::DeleteBucket
                | Step::MakeBucket
                | Step::Note
        )
    }
}

struct Explorer {
    scope: Scope,
    guards: Guards,
    limits: s3::Limits,
    account: AccountId,
}

fn block_of(at: usize) -> u128 {
    0xb0 + at as u128
}

fn upload_of() -> OneUpload {
    OneUpload {
        bucket: B.to_owned(),
        key: KEY.to_owned(),
        upload: 7,
    }
}

impl Explorer {
    fn new(scope: Scope, guards: &Guards) -> Self {
        Explorer {
            scope,
            guards: guards.clone(),
            limits: s3::Limits {
                part_bytes_min: 0,
                ..s3::Limits::default()
            },
            account: AccountId("000000000001".to_owned()),
        }
    }

    fn start(&self) -> State {
        let upload = Upload {
            has_bytes: true,
            was_removed: false,
            sent: 0,
            has_heard: false,
            is_committed: false,
        };
        let mut state = State {
            rows: MapView::default(),
            collection: CollectionId(0),
            uploads: vec![upload; self.scope.attempts],
            asked: Vec::new(),
            told: Vec::new(),
            dropping: Vec::new(),
            puts: 0,
            deletes: self.scope.deletes,
            remakes: u8::from(self.scope.remakes),
            notes: self.scope.notes,
            completions: 2,
        };
        self.make(&mut state, 1);
        state.collection = self.collection(&state).unwrap();
        if self.scope.parts.is_some() {
            let create = s3::Command::CreateUpload(CreateUpload {
                bucket: B.to_owned(),
                key: KEY.to_owned(),
                metadata: Metadata::default(),
                algorithm: None,
                acl: None,
            });
            let _: Option<Reply> = self.ask(&mut state, upload_of().upload, create);
        }
        state
    }

    fn make(&self, state: &mut State, seed: u128) {
        let create = s3::Command::CreateBucket(CreateBucket {
            bucket: B.to_owned(),
            region: "eu-west-1".to_owned(),
            ownership: None,
            acl: None,
            mode: None,
        });
        let _: Option<Reply> = self.ask(state, seed, create);
    }

    fn collection(&self, state: &State) -> Option<CollectionId> {
        let name = Name::new(Kind::Bucket, &self.account, B);
        let entry = catalog::collection(&state.rows, name).unwrap();
        entry.map(|entry| entry.collection)
    }

    /// Decides a request and applies what changes; nothing of a refusal.
    fn ask(&self, state: &mut State, seed: u128, command: s3::Command) -> Option<Reply> {
        let collection = command.bucket().and_then(|_| self.collection(state));
        let context = Context {
            collection,
            now_ms: NOW,
            guards: &self.guards,
            ..Context::new(&self.account, &self.limits)
        };
        let principal = Principal::Account(self.account.0.clone());
        let request = s3::Request {
            caller: Caller::of(principal),
            seed,
            command,
        };
        let decision = s3::decide(&state.rows, &context, &request);
        apply(&mut state.rows, &decision.changes);
        decision.outcome.ok()
    }

    fn of_blocks(&self, state: &mut State, command: &Command) {
        let limits = Limits::default();
        let changes = blocks::decide(&state.rows, &limits, NOW, command).unwrap();
        apply(&mut state.rows, &changes);
        for change in &changes {
            let removed = match change {
                Change::Remove { key } => blocks::block_of(key),
                _ => None,
            };
            for (at, upload) in state.uploads.iter_mut().enumerate() {
                upload.was_removed |= removed == Some(block_of(at));
            }
        }
    }

    fn owner(&self, at: usize) -> Owner {
        Owner {
            // The first collection of a chain.
            collection: CollectionId(1),
            attempt: Attempt {
                id: 0xa0 + at as u128,
                bucket: s3::rows::BucketId(1),
                begun: BEGUN,
            },
            upload: self.scope.parts.map(|_| upload_of().upload),
        }
    }

    fn steps(&self, state: &State) -> Vec<Step> {
        let mut steps = Vec::new();
        for (at, upload) in state.uploads.iter().enumerate() {
            let row = blocks::row(&state.rows, block_of(at)).unwrap();
            if upload.has_bytes && upload.sent < self.scope.sent {
                steps.push(Step::PutRow(at));
            }
            if upload.has_heard && !upload.is_committed {
                steps.push(Step::Commit(at));
            }
            if upload.has_bytes && upload.was_removed && row.is_none() {
                steps.push(Step::Reclaim(at));
            }
            let leased = row.filter(|row| row.lease != blocks::Lease::Ended);
            let is_asked = state.asked.iter().any(|(of, _)| *of == at)
                || state.told.iter().any(|(of, ..)| *of == at);
            if leased.is_some() && !is_asked {
                steps.push(Step::Ask(at));
            }
        }
        steps.extend((0..state.asked.len()).map(Step::Fence));
        steps.extend((0..state.told.len()).map(Step::Verdict));
        let garbage = blocks::garbage(&state.rows, None, 9).unwrap();
        let is_new = |at: &GarbageAt| !state.dropping.iter().any(|(of, _)| of == at);
        let new = garbage.iter().enumerate().filter(|(_, at)| is_new(at));
        steps.extend(new.map(|(at, _)| Step::Garbage(at)));
        steps.extend((0..state.dropping.len()).map(Step::Drop));
        let once = [
            (0 < state.deletes, Step::Delete),
            (0 < state.remakes, Step::DeleteBucket),
            (state.remakes == 0 && self.scope.remakes, Step::MakeBucket),
            (0 < state.notes, Step::Note),
            (
                self.scope.parts.is_some() && 0 < state.completions,
                Step::Complete,
            ),
            (
                self.scope.parts.is_some() && 0 < state.completions,
                Step::Abort,
            ),
            (self.scope.remakes, Step::Upkeep),
        ];
        steps.extend(
            once.into_iter()
                .filter(|(may, _)| *may)
                .map(|(_, step)| step),
        );
        steps
    }

    fn take(&self, state: &State, step: Step) -> State {
        let mut next = state.clone();
        match step {
            Step::PutRow(at) => {
                next.puts += 1;
                next.uploads[at].sent += 1;
                next.uploads[at].has_heard = true;
                let put = Command::Put(Put {
                    owner: self.owner(at),
                    chain: ChainId::SYSTEM,
                    number: next.puts,
                    blocks: vec![NewRow {
                        id: block_of(at),
                        size: 1,
                        sum: 0,
                    }],
                });
                self.of_blocks(&mut next, &put);
            }
            Step::Commit(at) => {
                next.uploads[at].is_committed = true;
                let commit = self.commit(at);
                let _: Option<Reply> = self.ask(&mut next, 3, commit);
            }
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
                let _: Option<Reply> = self.ask(&mut next, 4, complete);
            }
            Step::Abort => {
                next.completions -= 1;
                let abort = s3::Command::AbortUpload(upload_of());
                let _: Option<Reply> = self.ask(&mut next, 5, abort);
            }
            Step::Delete => {
                next.deletes -= 1;
                let object = Deletion {
                    key: KEY.to_owned(),
                    ..Deletion::default()
                };
                let bucket = B.to_owned();
                let delete = s3::Command::DeleteObject(DeleteObject { bucket, object });
                let _: Option<Reply> = self.ask(&mut next, 6, delete);
            }
            Step::DeleteBucket => {
                let bucket = B.to_owned();
                let delete = s3::Command::DeleteBucket(Named { bucket });
                if self.ask(&mut next, 7, delete).is_some() {
                    next.remakes -= 1;
                }
            }
            Step::MakeBucket => self.make(&mut next, 2),
            step => self.collect(&mut next, step),
        }
        next
    }

    fn commit(&self, at: usize) -> s3::Command {
        let content = Content::Blocks(vec![Block {
            id: block_of(at),
            chain: ChainId::SYSTEM,
            size: 1,
        }]);
        let attempt = self.owner(at).attempt;
        match self.scope.parts {
            None => s3::Command::PutObject(Box::new(PutObject {
                bucket: B.to_owned(),
                key: KEY.to_owned(),
                attempt,
                content,
                etag: "e".to_owned(),
                checksum: None,
                metadata: Metadata::default(),
                acl: None,
                conditions: WriteConditions::default(),
            })),
            Some(numbers) => s3::Command::PutPart(PutPart {
                of: upload_of(),
                number: numbers[at],
                attempt,
                content,
                etag: "e".to_owned(),
                checksum: None,
            }),
        }
    }

    fn collect(&self, next: &mut State, step: Step) {
        match step {
            Step::Reclaim(at) => next.uploads[at].has_bytes = false,
            Step::Ask(at) => {
                let row = blocks::row(&next.rows, block_of(at)).unwrap().unwrap();
                next.asked.push((at, row.number));
            }
            Step::Fence(which) => {
                let (at, number) = next.asked.remove(which);
                let Request::S3(fence) = blocks::fence(self.owner(at), block_of(at)) else {
                    panic!("it is asked of the bucket's chain");
                };
                if let Some(Reply::Fenced(fate)) = self.ask(next, 0, fence.command) {
                    next.told.push((at, number, fate));
                }
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
                    self.of_blocks(next, &command);
                }
            }
            Step::Garbage(which) => {
                let at = blocks::garbage(&next.rows, None, 9).unwrap()[which];
                if let Some(removal) = blocks::removal(&next.rows, at).unwrap() {
                    for ids in removal.blocks.into_values() {
                        self.of_blocks(next, &Command::Remove(ids));
                    }
                    next.dropping.push((at, bytes_of(&removal.then)));
                }
            }
            Step::Drop(which) => {
                let (_, then) = next.dropping.remove(which);
                let _: Option<Reply> = self.ask(next, 0, command_of(then));
            }
            Step::Note => {
                next.notes -= 1;
                let (collection, note) = (next.collection, BEGUN);
                let note = s3::Command::MoveNote(MoveNote { collection, note });
                let _: Option<Reply> = self.ask(next, 0, note);
            }
            Step::Upkeep => {
                // Later than any of its work is due.
                let changes =
                    s3::upkeep(&next.rows, &self.limits, &self.guards, NOW * 1000, 9).unwrap();
                apply(&mut next.rows, &changes);
            }
            other => panic!("{other:?}"),
        }
    }

    /// The blocks that the object of the key names.
    fn named(&self, state: &State) -> Vec<u128> {
        let mut state = state.clone();
        let get = s3::Command::GetObject(GetObject {
            bucket: B.to_owned(),
            key: KEY.to_owned(),
            version: None,
            conditions: ReadConditions::default(),
            extent: Extent::From(0),
            action: Action::GetObject,
        });
        let Some(Reply::Object(found)) = self.ask(&mut state, 0, get) else {
            return Vec::new();
        };
        let blocks = found.extent.pieces.iter().filter_map(|piece| match piece {
            Piece::Block(block) => Some(block.id),
            Piece::Inline(_) => None,
        });
        blocks.collect()
    }

    /// What is wrong with a state.
    fn check(&self, state: &State) -> Result<(), String> {
        for id in self.named(state) {
            let at = (id - block_of(0)) as usize;
            let has_row = blocks::row(&state.rows, id).unwrap().is_some();
            if !has_row || !state.uploads[at].has_bytes {
                return Err(format!("block {id:x} of a version is gone"));
            }
        }
        for at in blocks::garbage(&state.rows, None, 9).unwrap() {
            let has_waited = state.dropping.iter().any(|(of, _)| *of == at);
            let removal = blocks::removal(&state.rows, at).unwrap();
            let waiting = removal.filter(|_| !has_waited).into_iter();
            for id in waiting.flat_map(|it| it.blocks.into_values().flatten()) {
                if blocks::row(&state.rows, id).unwrap().is_none() {
                    return Err(format!("block {id:x} is gone before its wait is over"));
                }
            }
        }
        Ok(())
    }

    /// Whether there is nothing that is to go.
    fn is_clean(&self, state: &State) -> bool {
        let named = self.named(state);
        let rows = blocks::rows_from(&state.rows, None, 9).unwrap();
        let is_part = |id: &u128| {
            let at = (*id - block_of(0)) as usize;
            self.scope.parts.is_some() && self.is_open(state) && state.uploads[at].is_committed
        };
        rows.iter().all(|(id, _)| named.contains(id) || is_part(id))
            && blocks::garbage(&state.rows, None, 9).unwrap().is_empty()
    }

    /// Whether the upload is open: its parts are named.
    fn is_open(&self, state: &State) -> bool {
        let parts = s3::Command::ListParts(s3::command::ListParts {
            of: upload_of(),
            after: 0,
            count: None,
        });
        self.ask(&mut state.clone(), 0, parts).is_some()
    }

    /// Looks at every state. How many there are, or what is wrong, with the steps to it.
    fn explore(&self) -> Result<usize, String> {
        let mut known = HashMap::new();
        let mut all = vec![(self.start(), usize::MAX, None)];
        let mut into: Vec<Vec<usize>> = vec![Vec::new()];
        let mut queue = VecDeque::from([0]);
        known.insert(key_of(&all[0].0), 0);
        while let Some(at) = queue.pop_front() {
            let state = all[at].0.clone();
            let wrong = |words: String| format!("{words}: {:?}", trace(&all, at));
            self.check(&state).map_err(wrong)?;
            for step in self.steps(&state) {
                let next = self.take(&state, step);
                let fresh = all.len();
                let found = *known.entry(key_of(&next)).or_insert(fresh);
                if found == fresh {
                    all.push((next, at, Some(step)));
                    into.push(Vec::new());
                    queue.push_back(found);
                    assert!(fresh < STATES_MAX, "the scope is too large");
                }
                if step.is_collectors() {
                    into[found].push(at);
                }
            }
        }
        let clean = (0..all.len()).filter(|at| self.is_clean(&all[*at].0));
        let mut queue: VecDeque<usize> = clean.collect();
        let mut ends = vec![false; all.len()];
        queue.iter().for_each(|at| ends[*at] = true);
        while let Some(at) = queue.pop_front() {
            for before in &into[at] {
                if !std::mem::replace(&mut ends[*before], true) {
                    queue.push_back(*before);
                }
            }
        }
        match ends.iter().position(|ends| !ends) {
            None => Ok(all.len()),
            Some(at) => Err(format!("a block never goes: {:?}", trace(&all, at))),
        }
    }
}

fn apply(rows: &mut MapView, changes: &[Change]) {
    rows.apply(changes, &ApplyContext::strong(EntryId::new(1, 9)))
        .unwrap();
}

fn bytes_of(request: &Request) -> Bytes {
    use crate::forward::wire::Wire as _;
    let Request::S3(request) = request else {
        panic!("it is asked of the bucket's chain");
    };
    let mut out = Vec::new();
    request.put(&mut out);
    out.into()
}

fn command_of(bytes: Bytes) -> s3::Command {
    use crate::forward::wire::Wire as _;
    s3::Request::read(&mut fader_chain::Reader::new(bytes))
        .unwrap()
        .command
}

/// What two states differ in.
fn key_of(state: &State) -> Vec<u8> {
    let mut key = Vec::new();
    for (name, value) in state.rows.iter() {
        for part in [name, value] {
            key.extend_from_slice(&(part.len() as u32).to_be_bytes());
            key.extend_from_slice(part);
        }
    }
    let State {
        rows: _,
        collection: _,
        uploads,
        asked,
        told,
        dropping,
        puts,
        deletes,
        remakes,
        notes,
        completions,
    } = state;
    let (mut asked, mut told) = (asked.clone(), told.clone());
    asked.sort_unstable();
    told.sort_unstable_by_key(|(at, number, fate)| (*at, *number, *fate as u8));
    let rest = (uploads, asked, told, dropping, puts);
    let counts = (deletes, remakes, notes, completions);
    key.extend_from_slice(format!("{rest:?} {counts:?}").as_bytes());
    key
}

fn trace(all: &[(State, usize, Option<Step>)], mut at: usize) -> Vec<Step> {
    let mut steps = Vec::new();
    while let (_, before, Some(step)) = &all[at] {
        steps.push(*step);
        at = *before;
    }
    steps.reverse();
    steps
}

fn states(scope: Scope) -> usize {
    Explorer::new(scope, &ALL_GUARDS)
        .explore()
        .unwrap_or_else(|words| panic!("{scope:?}: {words}"))
}

#[test]
fn in_every_order_of_two_puts_and_a_deletion_versions_are_whole_and_blocks_go() {
    println!("{} states", states(PUTS));
}

#[test]
fn in_every_order_a_note_ends_fences_and_no_block_is_lost() {
    println!("{} states", states(NOTED));
}

#[test]
fn in_every_order_a_bucket_goes_and_comes_again() {
    println!("{} states", states(BUCKET));
}

#[test]
fn in_every_order_parts_are_put_twice_completed_and_aborted() {
    println!("{} states", states(PARTS));
    println!("{} states", states(UNLISTED));
}

#[cfg(feature = "mutants")]
#[test]
fn each_rule_that_is_left_out_gives_a_trace() {
    use fader_chain::Guard;
    let needed = [
        (Guard::S3Garbage, PUTS),
        (Guard::S3Fence, PUTS),
        (Guard::S3FenceGarbage, PUTS),
        (Guard::S3Note, NOTED),
        (Guard::S3BucketId, BUCKET),
        (Guard::S3GarbageStays, BUCKET),
        (Guard::S3PartReplaced, PARTS),
        (Guard::S3Unlisted, UNLISTED),
    ];
    for (guard, scope) in needed {
        let explored = Explorer::new(scope, &Guards::without([guard])).explore();
        let words = explored.expect_err("nothing tells it");
        println!("{guard:?}: {words}");
    }
}
