//! Random writes, strong and eventual, of two items, distributed, settled and collected in any
//! order. All members end in one state, that of the writes carried out one after the other in the
//! order of their stamps. At every step index and counters agree with the registers.

use std::collections::BTreeMap;

use fader_chain::{RequestId, Stamp};
use proptest::prelude::*;

use super::super::*;
use super::orders::{Pairs, one_after_the_other, pairs};
use super::world::{Operation, World};
use super::{check_shown, parse};
use crate::item_key;

const ITEMS: [&str; 2] = ["one", "two"];

#[derive(Clone, Debug)]
enum Step {
    Strong(usize, &'static str),
    Eventual(usize, usize, &'static str),
    /// Hands one of the operations under way to a member.
    Offer(usize, usize),
    /// Settles one of the operations under way.
    Settle(usize),
    Hold(usize),
    Run(usize),
    Collect,
}

fn write() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "put a=1",
        "put a=2 b=1",
        "put a@=3",
        "put b@=1 b=2 a=1",
        "delete a=1",
        "delete b",
        "delete a b=2",
        "delete",
    ])
}

fn step() -> impl Strategy<Value = Step> {
    let (item, member) = (0..ITEMS.len(), 0..3_usize);
    prop_oneof![
        4 => (item.clone(), write()).prop_map(|(item, write)| Step::Strong(item, write)),
        6 => (member.clone(), item, write())
            .prop_map(|(member, item, write)| Step::Eventual(member, item, write)),
        4 => (any::<usize>(), member.clone()).prop_map(|(at, member)| Step::Offer(at, member)),
        4 => any::<usize>().prop_map(Step::Settle),
        2 => member.clone().prop_map(Step::Hold),
        2 => member.prop_map(Step::Run),
        1 => Just(Step::Collect),
    ]
}

/// A world with what was done in it.
struct Run {
    world: World,
    /// In the order in which they were made; an operation's name is its place.
    writes: Vec<(Stamp, Request)>,
    under_way: BTreeMap<usize, Operation>,
}

impl Run {
    fn new() -> Self {
        let mut world = World::new();
        let mut words = vec!["books".to_owned(), "mixed".to_owned()];
        world.strong(None, &parse("create", &mut words));
        Run {
            world,
            writes: Vec::new(),
            under_way: BTreeMap::new(),
        }
    }

    fn name(at: usize) -> RequestId {
        RequestId {
            client: 3_u128.into(),
            seq: at as u64,
            part: 0,
        }
    }

    fn chosen(&self, choice: usize) -> Option<(usize, Operation)> {
        let count = self.under_way.len();
        let chosen = self.under_way.iter().nth(choice.checked_rem(count)?);
        chosen.map(|(at, operation)| (*at, operation.clone()))
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Strong(item, write) => {
                let request = request(*item, write);
                let entry = self.world.strong(None, &request).entry.unwrap();
                self.writes.push((Stamp::strong(entry), request));
            }
            Step::Eventual(member, item, write) => {
                let (request, at) = (request(*item, write), self.writes.len());
                // A member that has not applied the creation refuses.
                if let Ok(stamped) = self.world.eventual(*member, Run::name(at), &request) {
                    let operation = self.world.members[*member].overlay[&stamped[0].0].clone();
                    self.under_way.insert(at, operation);
                    self.writes.push((stamped[0].1, request));
                }
            }
            Step::Offer(choice, member) => {
                if let Some((at, operation)) = self.chosen(*choice) {
                    self.world.offer(*member, Run::name(at), operation);
                }
            }
            Step::Settle(choice) => {
                if let Some((at, operation)) = self.chosen(*choice) {
                    self.world.promote(Run::name(at), &operation);
                    self.under_way.remove(&at);
                }
            }
            Step::Hold(member) => self.world.members[*member].is_held = true,
            Step::Run(member) => {
                self.world.members[*member].is_held = false;
                self.world.catch_up(*member);
            }
            Step::Collect => {
                // GC-2: every member has applied what the floor is raised to.
                (0..3).for_each(|member| self.world.catch_up(member));
                self.under_way = self.held_by_members();
                self.world.collect();
            }
        }
    }

    /// The operations as the overlays hold them: what was covered is pruned. A copy that is under
    /// way between members is of an older epoch than the floor, and refused (I1).
    fn held_by_members(&self) -> BTreeMap<usize, Operation> {
        let held = |at: &usize| {
            let mut members = self.world.members.iter();
            members.find_map(|member| member.overlay.get(&Run::name(*at)).cloned())
        };
        let under_way = self.under_way.keys();
        under_way
            .map(|at| (*at, held(at).expect("it is held somewhere")))
            .collect()
    }

    fn check(&self) {
        check_derived(&self.world.newest);
        for (at, member) in self.world.members.iter().enumerate() {
            check_derived(&member.view);
            check_shown(member, &self.world.shown(at));
        }
    }

    fn finish(&mut self) {
        while !self.under_way.is_empty() {
            self.step(&Step::Settle(0));
        }
        (0..3).for_each(|member| self.world.catch_up(member));
        for member in &self.world.members {
            assert_eq!(member.view, self.world.newest, "members differ at rest");
            assert!(member.overlay.is_empty() && member.tentative.mutations().is_empty());
        }
        self.writes.sort_by_key(|(stamp, _)| *stamp);
        for (at, item) in ITEMS.iter().enumerate() {
            let mut expected = Pairs::new();
            let writes = self
                .writes
                .iter()
                .filter(|(_, request)| is_about(request, at));
            writes.for_each(|(_, request)| one_after_the_other(&mut expected, request));
            let collection = self
                .world
                .context(&self.world.newest, &request(at, "delete"));
            let key = item_key(collection.collection.unwrap(), item.as_bytes());
            assert_eq!(pairs(&self.world, &key), expected);
        }
    }
}

fn request(item: usize, write: &str) -> Request {
    let mut words = write.split(' ');
    let verb = words.next().unwrap();
    let mut rest = vec!["books".to_owned(), ITEMS[item].to_owned()];
    rest.extend(words.map(str::to_owned));
    parse(verb, &mut rest)
}

fn is_about(request: &Request, item: usize) -> bool {
    let named = match request {
        Request::PutAttributes { put, .. } => &put.item,
        Request::DeleteAttributes { delete, .. } => &delete.item,
        _ => unreachable!("puts and deletes only"),
    };
    named.as_deref() == Some(ITEMS[item])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn random_histories_converge(steps in prop::collection::vec(step(), 1..50)) {
        let mut run = Run::new();
        for step in &steps {
            run.step(step);
            run.check();
        }
        run.finish();
    }
}
