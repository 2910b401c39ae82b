//! Domains come and go across chains. Any node does any step, any number of times, at any time.

use fader_chain::{ALL_GUARDS, ApplyContext, EntryId};
use proptest::prelude::*;

use super::*;
use crate::catalog::domains::domain;
use crate::catalog::{domain_count, domain_names, purge};
use crate::simpledb::{Limits, Request, decide_names};
use crate::steps::{self, Command};
use crate::{Decision, MapView};

const NAME: &str = "domain";
const CHAINS: u32 = 2;

fn account() -> AccountId {
    AccountId("000000000001".to_owned())
}

/// The system chain, and those of data.
struct Cluster {
    views: Vec<MapView>,
    index: u64,
}

impl Cluster {
    fn new() -> Self {
        let views = vec![MapView::default(); 1 + CHAINS as usize];
        Cluster { views, index: 0 }
    }

    fn apply(&mut self, chain: ChainId, changes: &[Change]) {
        self.index += 1;
        let under = ApplyContext::strong(EntryId::new(1, self.index));
        self.views[chain.0 as usize].apply(changes, &under).unwrap();
    }

    fn run(&mut self, chain: ChainId, command: &Command) {
        let view = &self.views[chain.0 as usize];
        let changes = match command {
            Command::Take(origin, step) => {
                let taken = steps::take(view, &ALL_GUARDS, *origin, step);
                taken.unwrap().changes
            }
            Command::Settle(step, outcome) => steps::settle(view, step, outcome).unwrap(),
        };
        self.apply(chain, &changes);
    }

    /// What a client asks of the system chain. Says whether it was taken.
    fn ask(&mut self, request: &Request) -> bool {
        let limits = Limits::default();
        let decision = decide_names(&self.views[0], &account(), &limits, CHAINS, request);
        let Decision { outcome, changes } = decision.unwrap();
        self.apply(ChainId::SYSTEM, &changes);
        outcome.is_ok()
    }

    fn placed(&self) -> Option<DomainPlacement> {
        placed(&self.views[0], Name::domain(&account(), NAME)).unwrap()
    }

    fn is_listed(&self) -> bool {
        !domain_names(&self.views[0], &account(), None, 9)
            .unwrap()
            .is_empty()
    }

    /// The chains that have a domain of that name, with its collection.
    fn there(&self) -> Vec<(ChainId, CollectionId)> {
        let chains = (1..=CHAINS).map(ChainId);
        let there = chains.filter_map(|chain| {
            let entry = domain(&self.views[chain.0 as usize], &account(), NAME).unwrap()?;
            Some((chain, entry.collection))
        });
        there.collect()
    }

    /// The steps that finish what is known of a domain.
    fn steps(placed: &DomainPlacement) -> [(ChainId, Command); 2] {
        let account = account();
        let name = Name::domain(&account, NAME).to_owned();
        // One that is there has no step left: its foundation, late.
        let unfinished = DomainPlacement {
            state: match placed.state {
                State::Live => State::Creating,
                state => state,
            },
            ..placed.clone()
        };
        let step = steps::of_collection(name, &unfinished).unwrap();
        let settle = Command::Settle(step.clone(), Bytes::new());
        let take = Command::Take(ChainId::SYSTEM, step);
        [(placed.chain, take), (ChainId::SYSTEM, settle)]
    }

    fn check(&self) {
        let there = self.there();
        let placed = self.placed();
        assert!(there.len() <= 1, "{there:?}");
        let is_placed = |placed: &DomainPlacement| (placed.chain, placed.entry.collection);
        if let Some(at) = there.first() {
            assert_eq!(
                placed.as_ref().map(is_placed),
                Some(*at),
                "nothing is left behind"
            );
        }
        if let Some(placed) = &placed
            && placed.state == State::Live
        {
            assert_eq!(there, [is_placed(placed)], "SAGA-1");
        }
        let is_creating = |placed: &DomainPlacement| placed.state == State::Creating;
        assert_eq!(
            self.is_listed(),
            placed.as_ref().is_some_and(|it| !is_creating(it)),
            "SAGA-1"
        );
        let open = placed.iter().filter(|it| it.state != State::Live).count();
        assert_eq!(unfinished(&self.views[0]).unwrap().len(), open, "SAGA-4");
        let count = domain_count(&self.views[0], &account()).unwrap();
        assert_eq!(count, u64::from(placed.is_some()), "DOMAIN-1");
    }
}

fn create() -> Request {
    Request::CreateDomain {
        domain: NAME.to_owned(),
        mode: Some(Mode::Mixed),
        preference: None,
    }
}

fn delete() -> Request {
    Request::DeleteDomain {
        domain: NAME.to_owned(),
    }
}

/// It shows SAGA-1.
#[test]
fn a_domain_comes_and_goes() {
    let mut cluster = Cluster::new();
    for round in 0..4 {
        assert!(cluster.ask(&create()));
        let created = cluster.placed().unwrap();
        assert_eq!(created.chain, ChainId(1 + round % CHAINS), "by turns");
        for (chain, command) in Cluster::steps(&created) {
            assert!(!cluster.is_listed());
            cluster.run(chain, &command);
        }
        let [(chain, _), _] = Cluster::steps(&created);
        let own = &cluster.views[chain.0 as usize];
        let entry = domain(own, &account(), NAME).unwrap();
        assert_eq!(entry, Some(created.entry.clone()));
        let standing = fader_chain::ModeState::of(own, created.entry.collection.0).unwrap();
        assert_eq!(standing.mode, Mode::Mixed);
        assert!(cluster.ask(&delete()));
        assert!(!cluster.ask(&create()), "it is still on its way out");
        for (chain, command) in Cluster::steps(&cluster.placed().unwrap()) {
            assert!(cluster.is_listed());
            cluster.run(chain, &command);
        }
        cluster.check();
        assert_eq!(cluster.placed(), None);
        let swept = purge(&cluster.views[chain.0 as usize], 100).unwrap();
        assert!(!swept.is_empty(), "its keys are left to be swept");
        cluster.apply(chain, &swept);
    }
}

/// What happens next: a client asks, someone who looked takes a step, or one that was taken is
/// taken again.
#[derive(Clone, Debug)]
enum Event {
    Create,
    Delete,
    /// Someone looks what is unfinished.
    Look,
    /// One of those who looked does its next step.
    Step(prop::sample::Index),
    /// A step of any time is done once more.
    Late(prop::sample::Index),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        1 => Just(Event::Create),
        1 => Just(Event::Delete),
        3 => Just(Event::Look),
        6 => any::<prop::sample::Index>().prop_map(Event::Step),
        2 => any::<prop::sample::Index>().prop_map(Event::Late),
    ]
}

proptest! {
    /// It shows SAGA-2, SAGA-3 and SAGA-4.
    #[test]
    fn a_step_finished_by_any_node_at_any_time_ends_as_if_one_had(
        events in prop::collection::vec(event(), 1..80),
    ) {
        let mut cluster = Cluster::new();
        let mut finishers: Vec<Vec<(ChainId, Command)>> = Vec::new();
        let mut own_steps = Vec::new();
        for event in events {
            match event {
                Event::Create => drop(cluster.ask(&create())),
                Event::Delete => drop(cluster.ask(&delete())),
                Event::Look => {
                    let open = cluster.placed().filter(|it| it.state != State::Live);
                    finishers.extend(open.map(|it| Cluster::steps(&it).to_vec()));
                }
                Event::Step(at) if !finishers.is_empty() => {
                    let count = finishers.len();
                    let finisher = &mut finishers[at.index(count)];
                    if !finisher.is_empty() {
                        let (chain, command) = finisher.remove(0);
                        cluster.run(chain, &command);
                        own_steps.push((chain, command));
                    }
                }
                // Only what is done once it was done before: a settlement follows its step.
                Event::Late(at) if !own_steps.is_empty() => {
                    let (chain, command) = own_steps[at.index(own_steps.len())].clone();
                    cluster.run(chain, &command);
                }
                Event::Step(_) | Event::Late(_) => {}
            }
            cluster.check();
        }
        // A purge comes to an end at every node.
        while let Some(open) = unfinished(&cluster.views[0]).unwrap().pop() {
            for (chain, command) in Cluster::steps(&open.placed) {
                cluster.run(chain, &command);
            }
            cluster.check();
        }
        prop_assert_eq!(cluster.placed().is_some(), !cluster.there().is_empty());
    }
}
