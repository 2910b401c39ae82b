//! Buckets on chains of data: their names are on the system chain, and their own chain decides
//! whether they may go.

use fader_chain::{ALL_GUARDS, ChainId};
use proptest::prelude::*;

use super::fixture::*;
use crate::catalog::{self, AccountId, DomainPlacement, Name, State};
use crate::s3::command::*;
use crate::s3::reply::Garbage;
use crate::s3::rows::GarbageId;
use crate::s3::settings::{Canned, GivenAcl};
use crate::s3::{Code, Error, Reply, S3};
use crate::service::{Context, Meaning, Service as _};
use crate::steps::{self, Step};
use crate::{CollectionId, Kind};

const CHAINS: u32 = 2;

/// The system chain, and those of data.
struct Chains(Vec<World>);

impl Chains {
    fn new() -> Self {
        let world = |chain| World {
            chain: ChainId(chain),
            ..World::empty()
        };
        Chains((0..=CHAINS).map(world).collect())
    }

    fn system(&mut self) -> &mut World {
        &mut self.0[0]
    }

    fn of(&mut self, chain: ChainId) -> &mut World {
        &mut self.0[chain.0 as usize]
    }

    /// What a creation does first, on the system chain.
    fn enter(&mut self, bucket: &str) -> Result<Reply, Error> {
        self.enter_as(CreateBucket {
            bucket: bucket.to_owned(),
            region: "us-east-1".to_owned(),
            ..CreateBucket::default()
        })
    }

    fn enter_as(&mut self, command: CreateBucket) -> Result<Reply, Error> {
        let system = self.system();
        let seed = 7 + u128::from(system.index);
        let request = Request::of(&system.account, seed, Command::CreateBucket(command));
        let context = Context {
            now_ms: system.now_ms,
            ..Context::new(&system.account, &system.limits)
        };
        let decision = S3::decide_names(&system.rows, &context, CHAINS, &request).unwrap();
        system.apply(&decision.changes);
        decision.outcome
    }

    fn placed(&self, bucket: &str) -> Option<DomainPlacement> {
        let account = AccountId(ACCOUNT.to_owned());
        let name = Name::new(Kind::Bucket, &account, bucket);
        catalog::placed(&self.0[0].rows, name).unwrap()
    }

    fn take(&mut self, origin: ChainId, step: &Step) {
        let world = self.of(step.to);
        let taken = steps::take(&world.rows, &ALL_GUARDS, origin, step).unwrap();
        world.apply(&taken.changes);
    }

    fn settle(&mut self, origin: ChainId, step: &Step) {
        let world = self.of(origin);
        let changes = steps::settle(&world.rows, step, &bytes::Bytes::new()).unwrap();
        world.apply(&changes);
    }

    fn unsettled(&self) -> Vec<(ChainId, Step)> {
        let all = self.0.iter().flat_map(|world| {
            let steps = steps::unsettled(&world.rows, 9).unwrap();
            steps.into_iter().map(|step| (world.chain, step))
        });
        all.collect()
    }

    /// Finishes all that was begun.
    fn finish(&mut self) {
        for (origin, step) in self.unsettled() {
            self.take(origin, &step);
            self.settle(origin, &step);
        }
    }

    /// A bucket that is made: its chain.
    fn create(&mut self, bucket: &str) -> ChainId {
        self.enter(bucket).unwrap();
        self.finish();
        let chain = self.placed(bucket).unwrap().chain;
        self.of(chain).create(bucket).unwrap();
        chain
    }

    /// The buckets that a list shows, with what is shown.
    fn listed(&mut self) -> Vec<(String, Option<(String, u64)>)> {
        let list = Command::ListBuckets(ListBuckets::default());
        let Ok(Reply::Buckets(page)) = self.system().run(list) else {
            panic!("buckets");
        };
        let shown = page.buckets.into_iter().map(|(name, settings)| {
            let set = settings.map(|it| (it.region, it.created_ms));
            (name, set)
        });
        shown.collect()
    }
}

fn delete_of(bucket: &str) -> Command {
    Command::DeleteBucket(named(bucket))
}

#[test]
fn a_bucket_is_made_on_its_chain_and_listed_by_the_system_chain() {
    let mut chains = Chains::new();
    chains.enter(B).unwrap();
    assert!(chains.listed().is_empty(), "its chain does not have it yet");
    assert_eq!(chains.placed(B).unwrap().chain, ChainId(1));
    chains.finish();
    let own = chains.of(ChainId(1));
    assert_eq!(own.code(head_of(B)), Code::NoSuchBucket, "it is not made");
    own.create(B).unwrap();
    own.put("k", "bytes");
    assert_eq!(own.body("k", None), Ok("bytes".to_owned()));
    let shown = Some(("us-east-1".to_owned(), START));
    assert_eq!(chains.listed(), [(B.to_owned(), shown)]);
    assert_eq!(chains.create("other"), ChainId(2), "by turns");
    // What its own chain would refuse has no name.
    let acl = Some(GivenAcl::Canned(Canned::PublicRead));
    let public = CreateBucket {
        bucket: "public".to_owned(),
        acl,
        ..CreateBucket::default()
    };
    let refused = chains.enter_as(public).unwrap_err().code;
    assert_eq!(refused, Code::InvalidBucketAclWithObjectOwnership);
    chains.system().limits.buckets_per_account = 2;
    let refused = chains.enter("third").unwrap_err().code;
    assert_eq!(refused, Code::TooManyBuckets);
    assert_eq!(chains.enter(B), Ok(Reply::Done), "its own chain answers");
    chains.system().as_account("000000000002");
    let refused = chains.enter(B).unwrap_err().code;
    assert_eq!(refused, Code::BucketAlreadyExists);
}

/// A bucket of the time before chains of data had any stays where it is.
#[test]
fn a_bucket_of_the_system_chain_stays_there() {
    let mut chains = Chains::new();
    let system = chains.system();
    system.create(B).unwrap();
    let request = Request::of(
        &system.account,
        1,
        Command::CreateBucket(CreateBucket {
            bucket: B.to_owned(),
            ..CreateBucket::default()
        }),
    );
    let context = Context::new(&system.account, &system.limits);
    let decided = S3::decide_names(&system.rows, &context, CHAINS, &request);
    assert!(decided.is_none());
    assert_eq!(system.run(delete_of(B)), Ok(Reply::Done));
    assert_eq!(chains.create(B), ChainId(1 + 1 % CHAINS));
}

/// It shows SB-6 and SB-7.
#[test]
fn a_bucket_ends_on_its_own_chain_and_then_its_name_is_free() {
    let mut chains = Chains::new();
    let chain = chains.create(B);
    let collection = chains.placed(B).unwrap().entry.collection;
    let entered = chains.unsettled();
    let own = chains.of(chain);
    own.put_with("k", blocks(&[1, 2]), |_| {}).unwrap();
    assert_eq!(own.code(delete_of(B)), Code::BucketNotEmpty);
    own.delete("k", None).unwrap();
    let Ok(Reply::Ended(step)) = own.run(delete_of(B)) else {
        panic!("it ends");
    };
    assert_eq!(own.code(head_of(B)), Code::NoSuchBucket);
    assert!(entered.is_empty());
    assert_eq!(chains.unsettled(), [(chain, *step.clone())], "STEP-5");
    // Until its name is free no other one gets it, and it is not founded again.
    assert_eq!(chains.enter(B), Ok(Reply::Done));
    let founded = late_foundation(&chains.placed(B).unwrap());
    chains.take(ChainId::SYSTEM, &founded);
    assert_eq!(chains.of(chain).collection(B), None, "SAGA-2");
    chains.finish();
    assert_eq!(chains.placed(B), None);
    assert!(chains.listed().is_empty());
    let other = chains.create(B);
    assert_ne!(other, chain);
    // Late and repeated steps of the old one change nothing of the new one.
    chains.take(chain, &step);
    chains.take(ChainId::SYSTEM, &founded);
    chains.settle(ChainId::SYSTEM, &founded);
    assert_eq!(chains.placed(B).unwrap().chain, other);
    // The index of the old one stays until its garbage is gone.
    let own = chains.of(chain);
    let garbage = own.garbage(collection);
    assert_eq!(garbage.len(), 1);
    end(own, collection, &garbage[0]);
    own.now_ms += own.limits.garbage_look_ms;
    own.upkeep(100);
    assert_eq!(own.garbage(collection), []);
    let swept = catalog::purge(&own.rows, 1000).unwrap();
    assert!(!swept.is_empty(), "its rows are left to be swept");
}

/// A process ended between the two parts of a creation. It shows SB-7.
#[test]
fn a_bucket_that_was_not_made_is_nowhere_and_can_be_deleted() {
    let mut chains = Chains::new();
    chains.enter(B).unwrap();
    chains.finish();
    let chain = chains.placed(B).unwrap().chain;
    let own = chains.of(chain);
    let refused = own.run(head_of(B)).unwrap_err();
    assert_eq!(refused.code, Code::NoSuchBucket);
    assert_eq!(
        S3::meaning(&refused),
        Meaning::Final,
        "no other chain has it"
    );
    own.as_account("000000000002");
    assert_eq!(own.code(delete_of(B)), Code::AccessDenied);
    own.as_account(ACCOUNT);
    let Ok(Reply::Ended(_)) = own.run(delete_of(B)) else {
        panic!("it ends");
    };
    let refused = own.run(head_of(B)).unwrap_err();
    assert_eq!(S3::meaning(&refused), Meaning::NoCollection);
    chains.finish();
    assert_eq!(chains.placed(B), None);
    chains.create(B);
}

/// The step that founded it, long after that.
fn late_foundation(placed: &DomainPlacement) -> Step {
    let account = AccountId(ACCOUNT.to_owned());
    let name = Name::new(Kind::Bucket, &account, B).to_owned();
    let creating = DomainPlacement {
        state: State::Creating,
        ..placed.clone()
    };
    steps::of_collection(name, &creating).unwrap()
}

fn end(own: &mut World, collection: CollectionId, garbage: &Garbage) {
    let GarbageId::Attempt(_) = garbage.id else {
        panic!("one attempt");
    };
    let bucket = crate::s3::bucket::settings(&own.rows, collection);
    let bucket = bucket.unwrap().unwrap().id;
    let drop = Command::DropGarbage(DropGarbage {
        collection,
        bucket,
        garbage: garbage.id,
        parts: Vec::new(),
    });
    own.run(drop).unwrap();
}

/// What happens next: a client asks, someone who looked takes a step, or one that was taken is
/// taken again.
#[derive(Clone, Debug)]
enum Event {
    Enter,
    Make,
    Put,
    Empty,
    Delete,
    /// Someone looks what is unfinished.
    Look,
    /// One of those who looked does its next act.
    Act(prop::sample::Index),
    /// An act of any time is done once more.
    Late(prop::sample::Index),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        2 => Just(Event::Enter),
        2 => Just(Event::Make),
        1 => Just(Event::Put),
        1 => Just(Event::Empty),
        2 => Just(Event::Delete),
        3 => Just(Event::Look),
        6 => any::<prop::sample::Index>().prop_map(Event::Act),
        2 => any::<prop::sample::Index>().prop_map(Event::Late),
    ]
}

impl Chains {
    /// The chains that have a bucket of that name.
    fn there(&self) -> Vec<(ChainId, CollectionId)> {
        let own = self.0.iter().skip(1);
        let there = own.filter_map(|world| Some((world.chain, world.collection(B)?)));
        there.collect()
    }

    fn check(&mut self) {
        let there = self.there();
        let placed = self.placed(B);
        assert!(there.len() <= 1, "{there:?}");
        let at = placed.as_ref().map(|it| (it.chain, it.entry.collection));
        if let Some(found) = there.first() {
            assert_eq!(Some(*found), at, "nothing is left behind");
        }
        let is_freed = |(_, step): &(ChainId, Step)| {
            matches!(&step.action, steps::Action::Free(_, id)
                if at.is_some_and(|(_, of)| *id == of))
        };
        let is_ending = self.unsettled().iter().any(is_freed);
        let state = placed.as_ref().map(|it| it.state);
        if state == Some(State::Live) {
            assert_eq!(there.is_empty(), is_ending, "it is there or its name goes");
        }
        assert_eq!(self.listed().len(), usize::from(state == Some(State::Live)));
        let account = AccountId(ACCOUNT.to_owned());
        let count = catalog::count(&self.0[0].rows, Kind::Bucket, &account);
        assert_eq!(count.unwrap(), u64::from(placed.is_some()), "DOMAIN-1");
    }
}

/// An act of one who finishes a step: it takes it, then it settles it.
type Act = (ChainId, Step, bool);

proptest! {
    /// It shows SAGA-1, SAGA-2 and SB-7.
    #[test]
    fn steps_of_buckets_end_the_same_by_any_node_at_any_time(
        events in prop::collection::vec(event(), 1..80),
    ) {
        let mut chains = Chains::new();
        let mut finishers: Vec<Vec<Act>> = Vec::new();
        let mut acts: Vec<Act> = Vec::new();
        for event in events {
            let own = chains.there().first().map(|(chain, _)| *chain);
            match (event, own) {
                (Event::Enter, _) => drop(chains.enter(B)),
                (Event::Make, Some(own)) => drop(chains.of(own).create(B)),
                (Event::Delete, Some(own)) => drop(chains.of(own).run(delete_of(B))),
                (Event::Put, Some(own)) if chains.of(own).run(head_of(B)).is_ok() => {
                    chains.of(own).put("k", "bytes");
                }
                (Event::Empty, Some(own)) => drop(chains.of(own).delete("k", None)),
                (Event::Look, _) => {
                    let steps = chains.unsettled().into_iter();
                    finishers.extend(steps.map(|(origin, step)| {
                        vec![(origin, step.clone(), true), (origin, step, false)]
                    }));
                }
                (Event::Act(at), _) if !finishers.is_empty() => {
                    let count = finishers.len();
                    let finisher = &mut finishers[at.index(count)];
                    if !finisher.is_empty() {
                        acts.push(finisher.remove(0));
                        act(&mut chains, acts.last().unwrap());
                    }
                }
                (Event::Late(at), _) if !acts.is_empty() => {
                    act(&mut chains, &acts[at.index(acts.len())]);
                }
                _ => {}
            }
            chains.check();
        }
        // What is left comes to an end at every node.
        while !chains.unsettled().is_empty() {
            chains.finish();
            chains.check();
        }
        let is_live = chains.placed(B).is_some_and(|it| it.state == State::Live);
        prop_assert_eq!(is_live, !chains.there().is_empty());
    }
}

fn act(chains: &mut Chains, (origin, step, is_take): &Act) {
    match is_take {
        true => chains.take(*origin, step),
        false => chains.settle(*origin, step),
    }
}
