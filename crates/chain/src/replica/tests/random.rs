//! Members that crash, lose disks, join and lead at random, until the faults stop.
//!
//! Checked at the end: the chain is whole again (I20), and all that was acknowledged is there (I6).
//! All members have the same (I19), and no digest ever said otherwise (I21).

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;

use super::super::Phase;
use super::cluster::Cluster;
use super::toy::Command;
use crate::controller::{self, ObservedState, RoleChange};
use crate::*;

const NODES: u32 = 3;
/// Large, so that a fill takes several parts.
const VALUE_SIZE: usize = 300_000;
const LARGE_KEYS: u64 = 10;

/// What may happen; the numbers are taken modulo what there is.
#[derive(Clone, Copy, Debug)]
enum Event {
    Put { key: u64 },
    Delete { key: u64 },
    Large { key: u64 },
    Eventually { node: u32, kind: u8 },
    Lease { node: u32 },
    Flush,
    Deliver { link: usize },
    Drop { link: usize },
    Sync { node: u32 },
    Hold { node: u32 },
    Take { node: u32 },
    Tick,
    Crash { node: u32 },
    Lose { node: u32 },
    Ruin { node: u32 },
    Restore { node: u32 },
    Start { node: u32 },
    Decide { role_change: u8, hearers: u8 },
    Run,
}

fn event() -> impl Strategy<Value = Event> {
    let node = 1..=NODES;
    prop_oneof![
        6 => (0..4_u64).prop_map(|key| Event::Put { key }),
        2 => (0..4_u64).prop_map(|key| Event::Delete { key }),
        2 => (0..LARGE_KEYS).prop_map(|key| Event::Large { key }),
        6 => (node.clone(), any::<u8>()).prop_map(|(node, kind)| Event::Eventually { node, kind }),
        4 => node.clone().prop_map(|node| Event::Lease { node }),
        12 => Just(Event::Flush),
        24 => any::<usize>().prop_map(|link| Event::Deliver { link }),
        3 => any::<usize>().prop_map(|link| Event::Drop { link }),
        12 => node.clone().prop_map(|node| Event::Sync { node }),
        1 => node.clone().prop_map(|node| Event::Hold { node }),
        2 => node.clone().prop_map(|node| Event::Take { node }),
        4 => Just(Event::Tick),
        1 => node.clone().prop_map(|node| Event::Crash { node }),
        1 => node.clone().prop_map(|node| Event::Lose { node }),
        1 => node.clone().prop_map(|node| Event::Ruin { node }),
        2 => node.clone().prop_map(|node| Event::Restore { node }),
        3 => node.prop_map(|node| Event::Start { node }),
        4 => (any::<u8>(), any::<u8>()).prop_map(|(role_change, hearers)| Event::Decide {
            role_change,
            hearers,
        }),
        2 => Just(Event::Run),
    ]
}

/// A chain with its controller.
struct World {
    cluster: Cluster,
    current: Arc<Configuration>,
    wiring: Wiring,
    tokens: u64,
    /// Those that put a key of their own, which stays.
    lasting: BTreeSet<u64>,
    /// Whether disks are lost on which the chain counts, and operators give them up (AL-4).
    may_ruin: bool,
}

impl World {
    fn new(wiring: Wiring, window_entries: usize) -> Self {
        let mut cluster = Cluster::default();
        cluster.settings.window_entries = window_entries;
        cluster.settings.digest_ms = 100;
        (1..=NODES).for_each(|node| cluster.start(node));
        let identities: Vec<_> = (1..=NODES).map(|node| cluster.identity(node)).collect();
        let current = Arc::new(controller::first(
            &identities,
            wiring,
            crate::version::Version::NEWEST,
        ));
        World {
            cluster,
            current,
            wiring,
            tokens: 0,
            lasting: BTreeSet::new(),
            may_ruin: false,
        }
    }

    fn is_up(&self, node: u32) -> bool {
        self.cluster.members[&node].is_up
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Put { key } => self.submit(key, b"v"),
            Event::Large { key } => self.submit(100 + key, &vec![key as u8; VALUE_SIZE]),
            Event::Delete { key } => {
                let key = Bytes::from(format!("k{key}"));
                self.request(Command::Delete { key });
            }
            Event::Eventually { node, kind } => self.write(node, kind),
            Event::Lease { node } => {
                let until = self.cluster.now.monotonic + 1_000;
                self.cluster.step(node, Input::Lease { until });
            }
            Event::Flush => self.cluster.flush(),
            Event::Deliver { link } => {
                if let Some((from, to)) = self.link(link) {
                    self.cluster.deliver(from, to);
                }
            }
            Event::Drop { link } => {
                let link = self.link(link);
                link.map(|link| {
                    self.cluster
                        .links
                        .get_mut(&link)
                        .map(|link| link.pop_front())
                });
            }
            Event::Sync { node } if self.is_up(node) => drop(self.cluster.sync(node)),
            Event::Hold { node } if self.is_up(node) => {
                self.cluster.take(node);
                self.cluster.hold(node);
            }
            Event::Take { node } if self.is_up(node) => self.cluster.take(node),
            Event::Tick => self.tick(),
            Event::Crash { node } if self.is_up(node) => self.cluster.crash(node),
            Event::Lose { node } if self.may_lose(node) => self.cluster.lose(node),
            Event::Ruin { node } if self.may_ruin => self.cluster.lose(node),
            Event::Restore { node } if self.may_ruin => self.restore(node),
            Event::Start { node } if !self.is_up(node) => self.cluster.start(node),
            Event::Decide {
                role_change,
                hearers,
            } => self.decide(role_change, hearers),
            Event::Run => self.cluster.run(),
            _ => {}
        }
    }

    fn submit(&mut self, key: u64, value: &[u8]) {
        let (key, value) = (
            Bytes::from(format!("k{key}")),
            Bytes::copy_from_slice(value),
        );
        self.request(Command::Put { key, value });
        self.lasting.insert(self.tokens + 1);
        self.request(Command::Add {
            key: Bytes::from(format!("t{}", self.tokens + 1)),
            value: Bytes::from_static(b"v"),
        });
    }

    /// An eventual write of one of a few values, with and without a name.
    fn write(&mut self, node: u32, kind: u8) {
        let key = Bytes::from(format!("k{}", kind % 4));
        let value = Bytes::from(format!("{}", kind / 4 % 4));
        let command = match kind / 16 % 4 {
            0 => Command::Remove { key, value },
            1 => Command::Put { key, value },
            _ => Command::Add { key, value },
        };
        self.tokens += 1;
        let token = CorrelationId(self.tokens);
        let name = RequestId {
            client: 9_u128.into(),
            seq: self.tokens,
            part: 0,
        };
        let member = self.cluster.members.get_mut(&node).unwrap();
        member.host.requests.get_mut().insert(token, command);
        let input = Input::Write {
            token,
            request: (kind < 128).then_some(name),
            digest: Some(Digest(u128::from(self.tokens))),
            w: 1 + usize::from(kind) / 64 % 2,
            sloppy: false,
            session: Session::default(),
        };
        self.cluster.step(node, input);
    }

    fn request(&mut self, command: Command) {
        let head = self.current.head().0;
        self.tokens += 1;
        let token = CorrelationId(self.tokens);
        let member = self.cluster.members.get_mut(&head).unwrap();
        member.host.requests.get_mut().insert(token, command);
        let input = Input::Submit {
            token,
            request: None,
            barrier: Vec::new(),
        };
        self.cluster.step(head, input);
    }

    fn link(&self, link: usize) -> Option<(u32, u32)> {
        let links = self.cluster.links.iter();
        let links: Vec<_> = links.filter(|(_, messages)| !messages.is_empty()).collect();
        let at = link.checked_rem(links.len())?;
        Some(*links[at].0)
    }

    fn tick(&mut self) {
        self.cluster.now.monotonic += 100;
        (1..=NODES).for_each(|node| self.cluster.step(node, Input::Tick));
    }

    /// Another member that served last has its disk.
    fn may_lose(&self, node: u32) -> bool {
        self.current
            .last_serving
            .iter()
            .any(|(other, disk)| other.0 != node && self.cluster.identity(other.0).disk == *disk)
    }

    fn decide(&mut self, role_change: u8, hearers: u8) {
        let node = NodeId(u32::from(role_change) / 16 % NODES + 1);
        let role_change = match role_change % 16 {
            0 => Some(RoleChange::Head(node)),
            1 => Some(RoleChange::Back(node)),
            2 => Some(RoleChange::Demote(node)),
            _ => None,
        };
        let up = (1..=NODES).filter(|node| self.is_up(*node));
        let sessions: Vec<_> = up.map(|node| self.cluster.identity(node)).collect();
        let observed = ObservedState {
            restart: controller::returned(&self.current, &sessions)
                .first()
                .copied(),
            sessions,
            unheard: Vec::new(),
            reports: self.cluster.reports.clone(),
            size: NODES as usize,
            unwanted: Vec::new(),
            wiring: self.wiring,
            role_change,
            raise_safe_point: hearers & 16 != 0,
            version: crate::version::Version::NEWEST,
        };
        if let Some(next) = controller::next(&self.current, &observed) {
            self.current = Arc::new(next);
        }
        let hears = |node: &u32| hearers >> node & 1 == 1;
        let nodes: Vec<u32> = (1..=NODES).filter(hears).collect();
        let current = self.current.clone();
        self.cluster.configure(&current, &nodes);
        // I24: an incarnation that hears that it has lost its membership ends, and another begins.
        for node in nodes {
            let incarnation = self.cluster.identity(node);
            if self.is_up(node) && current.has_left(incarnation.node, incarnation.incarnation) {
                self.cluster.crash(node);
                self.cluster.start(node);
            }
        }
    }

    /// AL-4. Who was being filled has no state to go on with.
    fn restore(&mut self, node: u32) {
        let member = &self.cluster.members[&node];
        if member.replica.joining.is_open() || member.host.store.filling {
            return;
        }
        let up = (1..=NODES).filter(|node| self.is_up(*node));
        let sessions: Vec<_> = up.map(|node| self.cluster.identity(node)).collect();
        let none = controller::Reports::default();
        let next = controller::restore(&self.current, NodeId(node), &sessions, &none);
        self.current = next.map_or(self.current.clone(), Arc::new);
    }

    /// Whether no member is left that has everything.
    fn is_ruined(&self) -> bool {
        let last = self.current.last_serving.iter();
        let mut disks = last.map(|(node, disk)| self.cluster.identity(node.0).disk == *disk);
        !disks.any(|is_there| is_there)
    }

    fn is_whole(&self) -> bool {
        let is_synced = |node: u32| {
            let replica = &self.cluster.members[&node].replica;
            replica.is_ready() && replica.epoch() == self.current.epoch
        };
        let is_settled = |node: u32| {
            let counts = self.cluster.members[&node].replica.eventual_counts();
            counts.held + counts.quarantined == 0
        };
        self.current.serving().count() == NODES as usize
            && (1..=NODES).all(|node| is_synced(node) && is_settled(node))
    }

    fn recover(&mut self) {
        for _ in 0..40 {
            for node in 1..=NODES {
                // I24: who was left out of a configuration comes back in another incarnation.
                let has_left = self.cluster.members[&node].replica.phase == Phase::Halted;
                if has_left {
                    self.cluster.crash(node);
                }
                if !self.is_up(node) {
                    self.cluster.start(node);
                }
                self.cluster.take(node);
            }
            for node in (1..=NODES).filter(|_| self.is_ruined()).collect::<Vec<_>>() {
                self.restore(node);
            }
            self.decide(255, 0b1110);
            self.tick();
            self.tick();
            self.cluster.run();
            if self.is_whole() {
                self.tick();
                self.tick();
                self.cluster.run();
                return;
            }
        }
        panic!("the chain is not whole: {:?}", self.current);
    }

    fn check(&self) {
        let store = |node: u32| &self.cluster.members[&node].host.store;
        for node in 2..=NODES {
            let differences = self.cluster.differences(1, node);
            assert!(differences.is_empty(), "n1 and n{node}: {differences:?}");
            assert_eq!(store(1).applied, store(node).applied);
        }
        for event in &self.cluster.events {
            assert!(!event.contains("Differs"), "I21: {event}");
            let answer = event.split_once(" answers ").map(|(_, answer)| answer);
            let done = answer.and_then(|answer| answer.split_once(": done"));
            let token = done.and_then(|(token, _)| token.parse().ok());
            let is_kept = self.current.lossy.count == 0;
            if is_kept && token.is_some_and(|token| self.lasting.contains(&token)) {
                let key = Bytes::from(format!("t{}", token.unwrap_or_default()));
                assert!(store(1).rows.contains_key(&key), "{token:?} is lost");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_chain_becomes_whole_and_has_all_that_was_acknowledged(
        events in prop::collection::vec(event(), 0..400),
        is_star in any::<bool>(),
        window_entries in prop_oneof![Just(0), Just(3), Just(1_000)],
    ) {
        let wiring = if is_star { Wiring::Star } else { Wiring::Chain };
        let mut world = World::new(wiring, window_entries);
        world.decide(255, 0b1110);
        events.into_iter().for_each(|event| world.happen(event));
        world.recover();
        world.check();
    }

    #[test]
    fn a_chain_becomes_whole_after_its_last_servers_disks_are_lost(
        events in prop::collection::vec(event(), 0..400),
        is_star in any::<bool>(),
        window_entries in prop_oneof![Just(0), Just(3), Just(1_000)],
    ) {
        let wiring = if is_star { Wiring::Star } else { Wiring::Chain };
        let mut world = World::new(wiring, window_entries);
        world.may_ruin = true;
        world.decide(255, 0b1110);
        events.into_iter().for_each(|event| world.happen(event));
        world.recover();
        world.check();
    }
}
