//! G3: in any order of operations and settlements, all members end in one state. It is the join of
//! all operations that were not refused.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;

use super::cluster::Cluster;
use super::toy::{Command, show_name};
use crate::*;

const KEYS: [&[u8]; 2] = [b"k", b"l"];
const MEMBERS: u32 = 3;

#[derive(Clone, Debug)]
enum Act {
    /// An eventual write, or a strong one at the head.
    Write {
        node: u32,
        command: Command,
        name: Option<u64>,
        w: Option<usize>,
    },
    Deliver(u32, u32),
    Drop(u32, u32),
    Repeat(u32, u32),
    Sync(u32),
    Flush,
    Tick(u64),
    /// The members in another order, in the next epoch, heard of by some.
    Move(Vec<u32>, u32),
    Restart(u32),
}

fn bytes(word: &[u8]) -> Bytes {
    Bytes::copy_from_slice(word)
}

fn command() -> impl Strategy<Value = Command> {
    let key = prop::sample::select(KEYS.to_vec()).prop_map(bytes);
    let value = || prop::sample::select(vec![b"a", b"b", b"c"]).prop_map(|it| bytes(it));
    (key, value(), value(), 0..5).prop_map(|(key, value, other, which)| match which {
        0 => Command::Put { key, value },
        1 => Command::Delete { key },
        2 => Command::Add { key, value },
        3 => Command::Remove { key, value },
        _ => Command::PutAdd { key, value, other },
    })
}

fn act() -> impl Strategy<Value = Act> {
    let node = || 1..=MEMBERS;
    let name = prop::option::of(0_u64..4);
    let write = (node(), command(), name, prop::option::of(1..=2_usize));
    prop_oneof![
        4 => write.prop_map(|(node, command, name, w)| Act::Write { node, command, name, w }),
        8 => (node(), node()).prop_map(|(from, to)| Act::Deliver(from, to)),
        1 => (node(), node()).prop_map(|(from, to)| Act::Drop(from, to)),
        1 => (node(), node()).prop_map(|(from, to)| Act::Repeat(from, to)),
        3 => node().prop_map(Act::Sync),
        4 => Just(Act::Flush),
        2 => (1_u64..300).prop_map(Act::Tick),
    ]
}

fn act_with_epochs() -> impl Strategy<Value = Act> {
    let order = Just((1..=MEMBERS).collect::<Vec<u32>>()).prop_shuffle();
    prop_oneof![
        20 => act(),
        1 => (order, 0..8_u32).prop_map(|(order, hearers)| Act::Move(order, hearers)),
        1 => (1..=MEMBERS).prop_map(Act::Restart),
    ]
}

fn wiring() -> impl Strategy<Value = Wiring> {
    prop::sample::select(vec![Wiring::Star, Wiring::Chain])
}

/// A run and what it has to remember.
struct Run {
    cluster: Cluster,
    wiring: Wiring,
    epoch: u64,
    members: Vec<(u32, Role)>,
    tokens: u64,
    published: Option<Arc<Configuration>>,
}

impl Run {
    fn begin(wiring: Wiring) -> Self {
        let mut run = Run {
            cluster: Cluster::default(),
            wiring,
            epoch: 0,
            members: Vec::new(),
            tokens: 0,
            published: None,
        };
        (1..=MEMBERS).for_each(|node| run.cluster.start(node));
        run.publish(
            (1..=MEMBERS).map(|node| (node, Role::Serving)).collect(),
            u32::MAX,
        );
        run.cluster.run();
        run
    }

    /// The next epoch, heard of by those whose bit is set.
    fn publish(&mut self, members: Vec<(u32, Role)>, hearers: u32) {
        self.epoch += 1;
        self.members = members;
        let members: Vec<ChainMember> = self
            .members
            .iter()
            .map(|(node, role)| {
                let Identity {
                    node,
                    incarnation,
                    disk,
                } = self.cluster.identity(*node);
                ChainMember {
                    node,
                    incarnation,
                    disk,
                    role: *role,
                }
            })
            .collect();
        let configuration = Arc::new(Configuration {
            epoch: self.epoch,
            wiring: self.wiring,
            last_serving: Vec::new(),
            absent: Vec::new(),
            members,
            safe_point: EntryId::ZERO,
            lossy: UncleanRecovery::default(),
            version: Version::NEWEST,
        });
        let hears = |node: &u32| hearers & (1 << (node - 1)) != 0;
        let hearers: Vec<u32> = (1..=MEMBERS).filter(hears).collect();
        self.cluster.configure(&configuration, &hearers);
        self.published = Some(configuration);
    }

    fn act(&mut self, act: Act) {
        let cluster = &mut self.cluster;
        let until = cluster.now.monotonic + 1_000;
        (1..=MEMBERS).for_each(|node| cluster.step(node, Input::Lease { until }));
        match act {
            Act::Write {
                node,
                command,
                name,
                w,
            } => self.write(node, command, name, w),
            Act::Deliver(from, to) => drop(cluster.deliver(from, to)),
            Act::Drop(from, to) => {
                if let Some(link) = cluster.links.get_mut(&(from, to)) {
                    link.pop_front();
                }
            }
            Act::Repeat(from, to) => {
                if let Some(link) = cluster.links.get_mut(&(from, to)) {
                    link.extend(link.front().cloned());
                }
            }
            Act::Sync(node) => drop(cluster.sync(node)),
            Act::Flush => cluster.flush(),
            Act::Tick(millis) => self.tick(millis),
            Act::Move(order, hearers) => {
                let role = |node: &u32| {
                    let member = self.members.iter().find(|(other, _)| other == node);
                    member.map_or(Role::Serving, |(_, role)| *role)
                };
                let mut members: Vec<_> = order.iter().map(|node| (*node, role(node))).collect();
                members.sort_by_key(|(_, role)| *role == Role::Syncing);
                self.publish(members, hearers);
            }
            Act::Restart(node) => self.restart(node),
        }
    }

    /// Unless another member is joining, the member crashes and joins.
    fn restart(&mut self, node: u32) {
        if self.members.iter().any(|(_, role)| *role == Role::Syncing) {
            return;
        }
        self.cluster.crash(node);
        self.cluster.start(node);
        let mut members = self.members.clone();
        members.retain(|(other, _)| *other != node);
        members.push((node, Role::Syncing));
        self.publish(members, u32::MAX);
    }

    fn write(&mut self, node: u32, command: Command, name: Option<u64>, w: Option<usize>) {
        self.tokens += 1;
        let token = CorrelationId(self.tokens);
        let request = name.map(|seq| RequestId {
            client: 7_u128.into(),
            seq: 1 + seq,
            part: 0,
        });
        let member = self.cluster.members.get_mut(&node).unwrap();
        member.host.requests.get_mut().insert(token, command);
        let session = Session::default();
        let input = match w {
            Some(w) => Input::Write {
                token,
                request,
                digest: None,
                w,
                sloppy: false,
                session,
            },
            None => Input::Submit {
                token,
                request: None,
                barrier: Vec::new(),
            },
        };
        self.cluster.step(node, input);
    }

    fn tick(&mut self, millis: u64) {
        self.cluster.now.monotonic += millis;
        self.cluster.now.wall += millis;
        (1..=MEMBERS).for_each(|node| self.cluster.step(node, Input::Tick));
    }

    /// Faults stop; everyone hears the newest configuration, and who joined serves.
    fn come_to_rest(&mut self) {
        if let Some(configuration) = self.published.clone() {
            self.cluster.configure(&configuration, &[1, 2, 3]);
        }
        for round in 0..60 {
            let is_joining = self.members.iter().any(|(_, role)| *role == Role::Syncing);
            if round == 30 && is_joining {
                let members = self.members.iter();
                let members = members.map(|(node, _)| (*node, Role::Serving)).collect();
                self.publish(members, u32::MAX);
            }
            let until = self.cluster.now.monotonic + 1_000;
            (1..=MEMBERS).for_each(|node| self.cluster.step(node, Input::Lease { until }));
            self.tick(250);
            self.cluster.run();
        }
    }

    /// Nothing is left in an overlay, all that was acknowledged is settled, all hold the same.
    fn check_rest(&self) {
        for (node, member) in &self.cluster.members {
            let counts = member.replica.eventual_counts();
            assert_eq!((counts.held, counts.quarantined), (0, 0), "at n{node}");
            assert!(member.replica.is_at_rest(), "REST-1: at n{node}");
            let differences = self.cluster.differences(1, *node);
            assert!(differences.is_empty(), "n1 and n{node}: {differences:?}");
        }
        let rows = &self.cluster.members[&1].host.store.rows;
        for (_, reply) in &self.cluster.answers {
            let Reply::Held(receipt) = reply else {
                continue;
            };
            for written in &receipt.writes {
                let is_settled = rows.contains_key(&result_key(written.name));
                assert!(is_settled, "{} is lost", show_name(&written.name));
            }
        }
    }

    /// What is there is the join of all writes, each whole, in any order.
    fn check_join(&self) {
        let mut entries = BTreeMap::new();
        let mut operations: BTreeMap<(RequestId, Stamp), Arc<Operation>> = BTreeMap::new();
        for (_, record) in &self.cluster.written {
            match record {
                Record::Entry(entry) => drop(entries.insert(entry.id, entry.clone())),
                Record::Operation(operation) => {
                    // The first record of it is that of the member that stamped it.
                    let name = (operation.name, operation.stamp);
                    operations.entry(name).or_insert(operation.clone());
                }
                _ => {}
            }
        }
        let mut registers: BTreeMap<Bytes, Register> = BTreeMap::new();
        for id in &self.cluster.applied {
            let entry = &entries[id];
            if !entry.is_settlement() {
                for change in &entry.changes {
                    if let Change::Merge { key, ops, .. } = change {
                        registers
                            .entry(key.clone())
                            .or_default()
                            .merge(ops, entry.stamp);
                    }
                }
                continue;
            }
            if matches!(
                Outcome::decode(entry.result.clone()),
                Ok(Outcome::Refused(_))
            ) {
                continue;
            }
            let operation = &operations[&(entry.request.unwrap(), entry.stamp)];
            let register = registers.entry(operation.key.clone()).or_default();
            register.merge(&operation.ops, operation.stamp);
        }
        let store = &self.cluster.members[&1].host.store;
        for key in KEYS.map(bytes) {
            let stored = store
                .get(&key)
                .unwrap()
                .map(|it| Register::decode(it).unwrap());
            let joined = registers.remove(&key).unwrap_or_default();
            assert_eq!(live(&stored.unwrap_or_default()), live(&joined), "{key:?}");
        }
    }
}

fn live(register: &Register) -> BTreeSet<(Bytes, Bytes, Stamp)> {
    let groups = register.groups.iter();
    let live = groups.flat_map(|group| {
        let members = group.members.iter().filter(|member| member.live);
        members.map(|member| (group.name.clone(), member.value.clone(), member.written))
    });
    live.collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn any_order_ends_in_one_state(
        acts in prop::collection::vec(act(), 1..120),
        wiring in wiring(),
    ) {
        let mut run = Run::begin(wiring);
        acts.into_iter().for_each(|act| run.act(act));
        run.come_to_rest();
        run.check_rest();
        run.check_join();
    }

    #[test]
    fn moves_and_restarts_end_in_one_state(
        acts in prop::collection::vec(act_with_epochs(), 1..160),
        wiring in wiring(),
    ) {
        let mut run = Run::begin(wiring);
        acts.into_iter().for_each(|act| run.act(act));
        run.come_to_rest();
        run.check_rest();
        run.check_join();
    }
}
