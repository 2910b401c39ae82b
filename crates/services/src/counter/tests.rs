//! Counters on one chain and between two.

use fader_chain::{ALL_GUARDS, ApplyContext, ChainId, EntryId};

use super::*;
use crate::MapView;
use crate::request::{self, ServiceName};
use crate::service::{Place, Service};
use crate::steps::Taken;

const SYSTEM_CHAIN: ChainId = ChainId(0);
const NOW_MS: u64 = 1_000;

/// A cluster of one chain, or one chain of several.
struct Chain {
    id: ChainId,
    view: MapView,
    index: u64,
    account: AccountId,
    limits: Limits,
    towards: Option<Place>,
}

impl Chain {
    fn new(id: u32) -> Self {
        Chain {
            id: ChainId(id),
            view: MapView::default(),
            index: 0,
            account: AccountId("000000000001".to_owned()),
            limits: Limits::default(),
            towards: None,
        }
    }

    fn place(&self, name: &str) -> Option<Place> {
        let name = Name::new(Kind::Counter, &self.account, name);
        let entry = catalog::collection(&self.view, name).unwrap()?;
        Some(Place {
            chain: self.id,
            collection: entry.collection,
        })
    }

    fn context<'a>(&'a self, request: &Request) -> Context<'a, Limits> {
        let (_, name) = Counter::target(request).name().unwrap();
        Context {
            collection: self.place(name).map(|place| place.collection),
            now_ms: NOW_MS,
            chain: self.id,
            towards: self.towards,
            ..Context::new(&self.account, &self.limits)
        }
    }

    fn apply(&mut self, changes: &[Change]) {
        self.index += 1;
        let under = ApplyContext::strong(EntryId::new(1, self.index));
        self.view.apply(changes, &under).unwrap();
    }

    fn run(&mut self, request: &Request) -> Result<Reply, Refusal> {
        let decision = Counter::decide(&self.view, &self.context(request), request);
        let decision = decision.expect("it is decided at once");
        self.apply(&decision.changes);
        decision.outcome
    }

    fn read(&mut self, name: &str) -> Result<Reply, Refusal> {
        self.run(&Request::Read(name.to_owned()))
    }
}

fn add(name: &str, by: u64, limit: u64) -> Request {
    Request::Add {
        name: name.to_owned(),
        by,
        limit,
    }
}

fn moving(by: u64, limit: u64) -> Request {
    Request::Move {
        name: "a".to_owned(),
        to: "b".to_owned(),
        by,
        limit,
    }
}

#[test]
fn a_counter_comes_counts_up_to_its_limit_and_goes() {
    let mut chain = Chain::new(0);
    assert_eq!(chain.read("a"), Err(Refusal::NoCounter));
    for _ in 0..2 {
        assert_eq!(chain.run(&Request::Create("a".to_owned())), Ok(Reply::Done));
    }
    assert_eq!(chain.run(&add("a", 3, 4)), Ok(Reply::Value(3)));
    assert_eq!(chain.run(&add("a", 2, 4)), Err(Refusal::Value(3)));
    assert_eq!(
        chain.run(&add("a", u64::MAX, u64::MAX)),
        Err(Refusal::Value(3))
    );
    assert_eq!(chain.read("a"), Ok(Reply::Value(3)));
    for _ in 0..2 {
        assert_eq!(chain.run(&Request::Delete("a".to_owned())), Ok(Reply::Done));
    }
    assert_eq!(chain.read("a"), Err(Refusal::NoCounter));
}

#[test]
fn a_waiter_for_a_value_waits_until_it_is_there_or_the_deadline() {
    let mut chain = Chain::new(0);
    chain.run(&Request::Create("a".to_owned())).unwrap();
    let wait = |until_ms| Request::Wait {
        name: "a".to_owned(),
        least: 2,
        until_ms,
    };
    let later = wait(NOW_MS + 1);
    let decided = Counter::decide(&chain.view, &chain.context(&later), &later);
    let until_ms = decided.unwrap_err().until_ms;
    assert_eq!(until_ms, NOW_MS + 1);
    assert_eq!(chain.run(&wait(NOW_MS)), Ok(Reply::Value(0)), "it is over");
    chain.run(&add("a", 2, 9)).unwrap();
    assert_eq!(chain.run(&later), Ok(Reply::Value(2)));
}

#[test]
fn a_move_on_one_chain_is_one_entry() {
    let mut chain = Chain::new(0);
    for name in ["a", "b"] {
        chain.run(&Request::Create(name.to_owned())).unwrap();
    }
    chain.run(&add("a", 5, 9)).unwrap();
    assert_eq!(chain.run(&moving(1, 9)), Err(Refusal::NotMoved), "unknown");
    chain.towards = chain.place("b");
    assert_eq!(chain.run(&moving(6, 9)), Err(Refusal::Value(5)));
    assert_eq!(chain.run(&moving(2, 9)), Ok(Reply::Value(3)));
    assert_eq!(chain.run(&moving(2, 3)), Err(Refusal::NotMoved));
    assert_eq!(chain.read("b"), Ok(Reply::Value(2)));
    assert_eq!(steps::unsettled(&chain.view, 9).unwrap(), []);
}

#[test]
fn a_move_between_chains_is_a_step_and_comes_back_if_it_is_refused() {
    let (mut here, mut there) = (Chain::new(1), Chain::new(2));
    here.run(&Request::Create("a".to_owned())).unwrap();
    there.run(&Request::Create("b".to_owned())).unwrap();
    here.run(&add("a", 5, 9)).unwrap();
    here.towards = there.place("b");
    for (by, is_moved) in [(2, true), (3, false)] {
        let reply = here.run(&moving(by, 3)).unwrap();
        let step = Counter::begun(&reply).unwrap().clone();
        assert_eq!(
            steps::unsettled(&here.view, 9).unwrap().first(),
            Some(&step),
            "STEP-5"
        );
        let taken = steps::take(&there.view, &ALL_GUARDS, here.id, &step).unwrap();
        there.apply(&taken.changes);
        let again = steps::take(&there.view, &ALL_GUARDS, here.id, &step).unwrap();
        assert_eq!((&again.outcome, again.changes), (&taken.outcome, vec![]));
        let Taken::Done(outcome) = &taken.outcome else {
            panic!("it was taken");
        };
        for _ in 0..2 {
            let settled = steps::settle(&here.view, &step, outcome).unwrap();
            here.apply(&settled);
        }
        let told = Counter::finished(reply, &taken.outcome);
        let expected = match is_moved {
            true => Ok(Reply::Done),
            false => Err(Refusal::NotMoved),
        };
        assert_eq!(told, expected);
        assert_eq!(steps::unsettled(&here.view, 9).unwrap(), []);
    }
    assert_eq!(here.read("a"), Ok(Reply::Value(3)));
    assert_eq!(there.read("b"), Ok(Reply::Value(2)));
}

#[test]
fn names_come_and_go_on_the_system_chain() {
    let (mut system, chains) = (Chain::new(SYSTEM_CHAIN.0), 2);
    let create = Request::Create("a".to_owned());
    let delete = Request::Delete("a".to_owned());
    let mut ask = |request: &Request| {
        let context = system.context(request);
        let decision = Counter::decide_names(&system.view, &context, chains, request).unwrap();
        system.apply(&decision.changes);
        (decision.outcome, steps::unsettled(&system.view, 9).unwrap())
    };
    let (created, begun) = ask(&create);
    assert_eq!(created, Ok(Reply::Done));
    let [found] = begun.as_slice() else {
        panic!("one step: {begun:?}");
    };
    assert!(matches!(&found.action, Action::Found(name, _) if name.kind == Kind::Counter));
    let (_, again) = ask(&create);
    assert_eq!(again.as_slice(), std::slice::from_ref(found));
    let (_, razed) = ask(&delete);
    assert!(matches!(razed[0].action, Action::Raze(..)));
    let (refused, _) = ask(&create);
    let deleting = Failure::from(Reason::DomainDeleting);
    assert_eq!(refused, Err(Refusal::from(deleting)));
}

#[test]
fn outcomes_are_kept_for_repeated_requests() {
    let outcomes = [Ok(Reply::Value(7)), Err(Refusal::Value(3))];
    for outcome in outcomes {
        let bytes = Counter::keep(outcome.as_ref()).unwrap();
        assert_eq!(Counter::kept(bytes.clone()), Ok(outcome.clone()));
        let any: request::Outcome = match outcome {
            Ok(reply) => Ok(reply.into()),
            Err(refusal) => Err(refusal.into()),
        };
        assert_eq!(ServiceName::Counter.kept(bytes), Ok(any));
    }
    let failed = Refusal::from(Failure::from(Reason::NoMember));
    assert_eq!(Counter::keep(Err(&failed)), None);
}
