//! Buckets come and go: their names are on the first chain, they on the others. Between them are
//! steps, which any node finishes.

use std::collections::{BTreeMap, BTreeSet};

use fader_chain::ChainId;
use fader_services::catalog::{self, DomainPlacement, Name, State};
use fader_services::request::{self, Outcome, Request};
use fader_services::s3::command::{CreateBucket, DeleteObject, Deletion, List, Named};
use fader_services::s3::reply::Entry as Listed;
use fader_services::s3::{self, Command, Reply};
use fader_services::steps::{self, Action, Ask, Finish, Heard, Step};
use fader_services::{CollectionId, Kind, MapView, Mode};

use super::calls::Purpose;
use super::chain::{Deed, Entry, MEMBERS};
use super::collect::Then;
use super::watch::Broken;
use super::{CHAINS, Event, NAMES, READABLE, Rule, SYSTEM, World};

/// How long a finisher waits for an answer.
const PATIENCE: u64 = 300_000;
/// Requests with which a bucket is emptied at most, before it is asked to go.
const REQUESTS: u32 = 25;

/// A bucket, as a node knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Bucket {
    pub(super) name: &'static str,
    pub(super) chain: usize,
    pub(super) collection: CollectionId,
}

/// What a node does when a step is finished.
#[derive(Clone, Copy, Debug)]
pub(super) enum Waiting {
    /// It only looked for what is unsettled: no client waits.
    NoClient,
    /// A client's bucket is to be made on its chain.
    Make(usize, Bucket),
    /// A client is told that its bucket is gone.
    Gone(usize, Bucket),
}

/// A node at work on a step.
#[derive(Debug)]
pub(super) struct Finisher {
    finish: Finish,
    /// The number of what it asked last.
    asked: u64,
    then: Waiting,
}

/// What is known of buckets by entries that were committed and by answers.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// Those that a chain of data has.
    there: BTreeSet<Bucket>,
    /// Those that a client was told are there.
    made: BTreeSet<Bucket>,
    /// Those that an entry of their chain ended.
    pub(super) ended: BTreeSet<Bucket>,
}

impl Ledger {
    /// The buckets that a chain has.
    pub(super) fn on(&self, on: usize) -> Vec<Bucket> {
        let there = self.there.iter().filter(|it| it.chain == on);
        there.copied().collect()
    }
}

fn bucket_of(name: &'static str, placed: &DomainPlacement) -> Bucket {
    Bucket {
        name,
        chain: placed.chain.0 as usize,
        collection: placed.entry.collection,
    }
}

impl World {
    fn name_of(&self, name: &'static str) -> Name<'_> {
        Name::new(Kind::Bucket, &self.account, name)
    }

    fn placed(&self, name: &'static str) -> Option<DomainPlacement> {
        let placed = catalog::placed(&self.chains[SYSTEM].committed, self.name_of(name));
        placed.expect(READABLE)
    }

    /// Where a bucket is, by the catalog of a member that may be behind.
    pub(super) fn look_up(&mut self, name: &'static str) -> Option<Bucket> {
        let member = self.random.below(MEMBERS);
        let system = &self.chains[SYSTEM];
        if !system.is_reached(member, self.now) {
            return None;
        }
        let view = &system.members[member].state;
        let placed = catalog::located(view, self.name_of(name)).expect(READABLE)?;
        (placed.state != State::Creating).then(|| bucket_of(name, &placed))
    }

    /// A bucket for a client that does something with one: seldom one that is being emptied.
    pub(super) fn some_bucket(&mut self) -> Option<Bucket> {
        let name = *self.random.pick(&NAMES);
        let bucket = self.look_up(name)?;
        let mut emptied = self.clients.iter().filter_map(|it| it.emptied);
        let is_emptied = emptied.any(|(other, _)| other == bucket);
        (!is_emptied || self.random.chance(100)).then_some(bucket)
    }

    /// A client that makes and deletes buckets goes on.
    pub(super) fn manage(&mut self, at: usize) {
        if let Some((bucket, requests)) = self.clients[at].emptied.take() {
            return self.empty(at, bucket, requests);
        }
        let name = *self.random.pick(&NAMES);
        match self.look_up(name) {
            None => self.enter(at, name),
            Some(bucket) if self.random.chance(400) => {
                let is_emptied = self.random.chance(800);
                self.empty(at, bucket, if is_emptied { REQUESTS } else { 0 });
            }
            // It is made once more, which changes nothing where it is there.
            Some(_) if self.random.chance(200) => self.enter(at, name),
            Some(_) => self.pause(at, 5_000, 60_000),
        }
    }

    /// Deletes the objects of a bucket, then the bucket. A versioned one never gets empty.
    fn empty(&mut self, at: usize, bucket: Bucket, requests: u32) {
        self.on = bucket.chain;
        let list = Command::ListObjects(List {
            bucket: bucket.name.to_owned(),
            ..List::default()
        });
        let page = self.show(&self.chains[self.on].committed, bucket, list);
        let keys = match page {
            Some(Reply::Page(page)) => page.entries,
            _ => Vec::new(),
        };
        let versioned = &self.models[self.on].versioned;
        if let Some(Listed::Version { key, .. }) = keys.first()
            && 0 < requests
            && !versioned.contains(&bucket.collection)
        {
            self.clients[at].emptied = Some((bucket, requests - 1));
            let delete = Command::DeleteObject(DeleteObject {
                bucket: bucket.name.to_owned(),
                object: Deletion {
                    key: key.clone(),
                    ..Deletion::default()
                },
            });
            return self.call_s3(at, bucket, delete, Purpose::Delete);
        }
        let delete = Command::DeleteBucket(Named {
            bucket: bucket.name.to_owned(),
        });
        self.call_s3(at, bucket, delete, Purpose::Unmake(bucket));
    }

    /// A name is entered on the first chain.
    fn enter(&mut self, at: usize, name: &'static str) {
        self.on = SYSTEM;
        let request = self.creation(name);
        self.call(at, None, request, Purpose::Enter(name));
    }

    fn creation(&mut self, name: &'static str) -> Request {
        let create = Command::CreateBucket(CreateBucket {
            bucket: name.to_owned(),
            region: "us-east-1".to_owned(),
            mode: self.is_mixed.then(|| Mode::Mixed.byte()),
            ..CreateBucket::default()
        });
        let seed = self.random.name();
        s3::Request::of(&self.account, seed, create).into()
    }

    /// A client was told about the first chain's part.
    pub(super) fn entered(&mut self, at: usize, name: &'static str) {
        let Some(placed) = self.placed(name) else {
            return self.pause(at, 1_000, 20_000);
        };
        let bucket = bucket_of(name, &placed);
        let then = Waiting::Make(at, bucket);
        match steps::of_collection(self.name_of(name).to_owned(), &placed) {
            Some(step) => self.finish(SYSTEM, step, then),
            None => self.waited(then),
        }
    }

    /// A client was told about the part of the bucket's own chain.
    pub(super) fn made(&mut self, at: usize, bucket: Bucket, outcome: &Outcome) {
        match outcome {
            Ok(_) => {
                self.count("made");
                self.ledger.made.insert(bucket);
                if let Err((guarantee, text)) = self.check_places() {
                    self.fail(guarantee, &text);
                }
            }
            Err(_) => {
                self.count("not made");
                // It has ended, or its chain has not heard of it: it is founded if it may be.
                if let Some(placed) = self.placed(bucket.name)
                    && bucket_of(bucket.name, &placed) == bucket
                {
                    let creating = DomainPlacement {
                        state: State::Creating,
                        ..placed
                    };
                    let name = self.name_of(bucket.name).to_owned();
                    let step = steps::of_collection(name, &creating);
                    let step = step.expect("one that is being created has a step");
                    return self.finish(SYSTEM, step, Waiting::NoClient);
                }
            }
        }
        self.pause(at, 1_000, 40_000);
    }

    /// A client was told that its bucket has ended, or why not.
    pub(super) fn unmade(&mut self, at: usize, bucket: Bucket, outcome: Outcome) {
        match outcome {
            Ok(request::Reply::S3(Reply::Ended(step))) => {
                let then = Waiting::Gone(at, bucket);
                if self.has(Rule::AnswerFreed) {
                    return self.finish(bucket.chain, *step, then);
                }
                self.finish(bucket.chain, *step, Waiting::NoClient);
                self.waited(then);
            }
            _ => {
                self.count("not unmade");
                self.pause(at, 1_000, 40_000);
            }
        }
    }

    /// A step that a client's node waits for is finished.
    fn waited(&mut self, then: Waiting) {
        match then {
            Waiting::NoClient => {}
            Waiting::Make(at, bucket) => {
                self.on = bucket.chain;
                let request = self.creation(bucket.name);
                self.call(at, Some(bucket), request, Purpose::Make(bucket));
            }
            Waiting::Gone(at, bucket) => {
                self.count("unmade");
                let placed = self.placed(bucket.name);
                if placed.is_some_and(|it| bucket_of(bucket.name, &it) == bucket) {
                    let text = format!("{bucket:?} is told to be gone and has its name");
                    return self.fail("deleted", &text);
                }
                self.pause(at, 1_000, 40_000);
            }
        }
    }

    /// A node begins to finish a step.
    pub(super) fn finish(&mut self, origin: usize, step: Step, then: Waiting) {
        let chain = ChainId(u32::try_from(origin).expect("there are few chains"));
        let number = self.finishers.len();
        self.finishers.push(Some(Finisher {
            finish: Finish::new(chain, step, self.guards.clone()),
            asked: 0,
            then,
        }));
        self.ask_next(number);
    }

    fn ask_next(&mut self, number: usize) {
        // Its node ends here, in any state.
        let ends = !self.is_calm() && self.random.chance(150);
        let Some(finisher) = &mut self.finishers[number] else {
            return;
        };
        let then = finisher.then;
        if ends {
            self.finishers[number] = None;
            self.count("ended finishers");
            if let Waiting::Make(at, _) | Waiting::Gone(at, _) = then {
                self.pause(at, 1_000, 40_000);
            }
            return;
        }
        finisher.asked += 1;
        let asked = finisher.asked;
        match finisher.finish.ask() {
            Ask::Of(chain, command) => {
                self.on = chain.0 as usize;
                let is_take = matches!(command, steps::Command::Take(..));
                let then = Then::Finish(number, asked, is_take);
                self.send_ask(Request::Step(command), then);
                self.plan(self.now + PATIENCE, Event::Patience(number, asked));
            }
            Ask::Nothing(_) => {
                self.finishers[number] = None;
                self.count("finished");
                self.waited(then);
            }
        }
    }

    /// A finisher hears what came of what it asked; or nothing.
    pub(super) fn hear_step(&mut self, number: usize, asked: u64, heard: Heard) {
        match &mut self.finishers[number] {
            Some(finisher) if finisher.asked == asked => finisher.finish.hear(heard),
            // It asked something else meanwhile, or it has ended.
            _ => return,
        }
        self.ask_next(number);
    }

    /// The head finishes what is not settled.
    pub(super) fn look_for_steps(&mut self) {
        let origin = self.on;
        let unsettled = steps::unsettled(&self.chains[origin].head_member().state, 64);
        for step in unsettled.expect(READABLE) {
            if self.may_ask(format!("step {}", step.number)) {
                self.finish(origin, step, Waiting::NoClient);
                self.on = origin;
            }
        }
    }

    fn there(&self, on: usize, name: &'static str) -> Option<Bucket> {
        let entry = catalog::collection(&self.chains[on].committed, self.name_of(name));
        Some(Bucket {
            name,
            chain: on,
            collection: entry.expect(READABLE)?.collection,
        })
    }

    /// Buckets come and go by the entry that is committed on a chain of data.
    pub(super) fn watch_buckets(&mut self, entry: &Entry) -> Result<(), Broken> {
        let on = self.on;
        if on != SYSTEM {
            let now: BTreeSet<Bucket> = NAMES.iter().filter_map(|it| self.there(on, it)).collect();
            let before = self.ledger.there.iter().filter(|it| it.chain == on);
            let gone: Vec<Bucket> = before.filter(|it| !now.contains(it)).copied().collect();
            for bucket in gone {
                self.watch_end(bucket, entry)?;
                self.ledger.there.remove(&bucket);
            }
            self.ledger.there.extend(now);
        }
        self.check_places()
    }

    /// A bucket goes by a request to delete it, when it is empty.
    fn watch_end(&mut self, bucket: Bucket, entry: &Entry) -> Result<(), Broken> {
        let is_asked = match &entry.deed {
            Deed::Call(call, Ok(_)) => self.calls[*call].purpose == Purpose::Unmake(bucket),
            _ => false,
        };
        if !is_asked {
            let text = format!("{bucket:?} goes by {:?}", entry.deed);
            return Err(("deleted", text));
        }
        if self.models[self.on].end(bucket.collection) {
            return Err(("empty", format!("{bucket:?} goes with objects")));
        }
        self.count("ended");
        self.ledger.ended.insert(bucket);
        Ok(())
    }

    /// A bucket is at one place, which its name stands for; one that was deleted is at none.
    fn check_places(&self) -> Result<(), Broken> {
        let ledger = &self.ledger;
        if let Some(bucket) = ledger.there.intersection(&ledger.ended).next() {
            return Err(("deleted", format!("{bucket:?} is there again")));
        }
        let lost = |it: &&Bucket| !ledger.ended.contains(it) && !ledger.there.contains(it);
        if let Some(bucket) = ledger.made.iter().find(lost) {
            return Err(("place", format!("{bucket:?} is nowhere")));
        }
        for name in NAMES {
            let placed = self.placed(name);
            let at = placed.as_ref().map(|it| bucket_of(name, it));
            let mut there = ledger.there.iter().filter(|it| it.name == name);
            match (there.next(), there.next()) {
                (Some(one), Some(other)) => {
                    return Err(("place", format!("{one:?} and {other:?} have one name")));
                }
                (Some(one), None) if at != Some(*one) => {
                    return Err(("place", format!("{one:?} has no name: {placed:?}")));
                }
                (None, _) if placed.is_some_and(|it| it.state == State::Live) => {
                    let bucket = at.expect("it is placed");
                    if !self.is_freed(bucket) {
                        return Err(("place", format!("{bucket:?} is nowhere")));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Whether a name is going to be free.
    fn is_freed(&self, bucket: Bucket) -> bool {
        let unsettled = steps::unsettled(&self.chains[bucket.chain].committed, usize::MAX);
        let mut unsettled = unsettled.expect(READABLE).into_iter();
        unsettled.any(|step| matches!(step.action, Action::Free(_, id) if id == bucket.collection))
    }

    /// The end: names stand for buckets, no step is left, and nothing of those that went.
    pub(super) fn judge_buckets(&self) -> Result<(), Broken> {
        self.check_places()?;
        for (on, chain) in self.chains.iter().enumerate() {
            let left = steps::unsettled(&chain.committed, 1).expect(READABLE);
            if let Some(step) = left.first() {
                return Err(("place", format!("c{on} has not settled {step:?}")));
            }
        }
        for bucket in &self.ledger.ended {
            let rows = self.chains[bucket.chain].committed.iter();
            let prefix = bucket.collection.0.to_be_bytes();
            let left = rows.filter(|(key, _)| key.starts_with(&prefix)).count();
            if left != 0 {
                return Err(("gone", format!("{left} rows of {bucket:?} are left")));
            }
        }
        Ok(())
    }

    /// Makes the first bucket, at all members.
    pub(super) fn make_first(&mut self) {
        let name = NAMES[0];
        self.on = SYSTEM;
        let request = self.creation(name);
        self.do_everywhere(None, &request);
        let placed = self.placed(name).expect("it was entered");
        let bucket = bucket_of(name, &placed);
        let step = steps::of_collection(self.name_of(name).to_owned(), &placed);
        let step = step.expect("it is being created");
        self.on = bucket.chain;
        let take = steps::Command::Take(ChainId::SYSTEM, step.clone());
        self.do_everywhere(None, &Request::Step(take));
        self.on = SYSTEM;
        let settle = steps::Command::Settle(step, bytes::Bytes::new());
        self.do_everywhere(None, &Request::Step(settle));
        self.on = bucket.chain;
        let request = self.creation(name);
        self.models[self.on].begin(bucket.collection);
        self.do_everywhere(Some(bucket), &request);
        if self.is_versioned {
            self.set_versions(bucket);
        }
    }

    /// What is decided is committed and applied at once.
    pub(super) fn do_everywhere(&mut self, of: Option<Bucket>, request: &Request) {
        let refused = self.decide(request, of, |_| Deed::Upkeep);
        assert!(refused.is_none(), "it puts no blocks");
        let entry = self.chains[self.on].head_member().log.last();
        let entry = entry.expect("it was decided").clone();
        let on = self.on;
        for (member, here) in self.chains[on].members.iter_mut().enumerate() {
            if member != 0 {
                here.log.push(entry.clone());
            }
            here.synced = here.log.len();
            here.acknowledged = here.synced;
        }
        self.commit_all();
        for here in &mut self.chains[on].members {
            here.apply_to(here.log.len());
        }
    }
}

/// The chains of data.
pub(super) const DATA: u32 = CHAINS as u32 - 1;

/// The collection that a view says a name stands for, and its mode.
pub(super) fn meant(view: &MapView, name: Name<'_>) -> Option<(CollectionId, Mode)> {
    let entry = catalog::collection(view, name).expect(READABLE);
    entry.map(|entry| (entry.collection, entry.mode))
}

/// A map of what is known of collections.
pub(super) type ByCollection<T> = BTreeMap<(CollectionId, String), T>;
