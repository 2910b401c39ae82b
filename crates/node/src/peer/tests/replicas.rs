//! Three members over real connections come to one state, while connections are cut; what an old
//! epoch says changes nothing.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender};

use bytes::Bytes;
use fader_chain::clocks::Frame;
use fader_chain::{
    ChainMember, Change, Configuration, Direction, Entry, EntryId, Level, Role, Stamp, Wiring,
};
use fader_services::catalog::{AccessKey, KeyStatus, Rights};
use tokio::sync::oneshot;

use super::*;
use crate::clock::monotonic_ms;
use crate::member::cluster_links::{ClusterLinks, Lease, MemberEvent, Notifier};
use crate::member::pending::PendingRequest;
use crate::member::thread::Job;
use crate::member::{Folder, Member};
use crate::random;
use crate::settings::Settings;
use crate::storage::disk::Disk;
use crate::support::MemoryEngine;
use crate::support::SimulatedDisk;

/// Hands what comes to the member, as soon as there is one.
#[derive(Default)]
struct Jobs(Mutex<Option<SyncSender<Job>>>);

impl Inbox for Jobs {
    fn deliver(&self, _: ChainId, envelope: Envelope) {
        if let Some(jobs) = &*self.0.lock() {
            drop(jobs.try_send(Job::Message(envelope)));
        }
    }

    fn serve(&self, _: ChainId, _: ForwardedRequest, _: Duration, _: Reply) {}

    fn withdraw(&self, _: NodeId, _: Option<u64>) {}

    fn blocks(&self, _: ChainId, _: BlockAsked) -> BlockTold {
        BlockTold::Missing
    }
}

struct Replica {
    me: Identity,
    peers: Arc<Peers>,
    member: Member,
    _notices: Mutex<Receiver<MemberEvent>>,
}

fn replica(number: u32, key: &ClusterKey) -> Replica {
    let simulated = SimulatedDisk::new();
    let engine = Arc::new(MemoryEngine::new(simulated.clone()));
    let disk: Arc<dyn Disk> = Arc::new(simulated);
    let settings = Settings {
        // A sync of the simulated disk copies the file.
        segment_bytes: 64 << 10,
        ..Settings::new(PathBuf::from("/data"))
    };
    let folder = Folder::open_with(settings, &disk, engine).unwrap();
    let me = Identity {
        node: NodeId(number),
        incarnation: random::incarnation().unwrap(),
        disk: folder.disk(),
    };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let inbox = Arc::new(Jobs::default());
    let peers = Peers::start(listener, me, CLUSTER, SESSION, key.clone(), inbox.clone()).unwrap();
    let (notifier, notices) = Notifier::new(Arc::default());
    let links = ClusterLinks {
        clocks: peers.clocks().clone(),
        outbox: peers.way(CHAIN),
        notices: notifier,
    };
    let (member, _) = folder.live(me, Some(links)).unwrap();
    *inbox.0.lock() = Some(member.jobs());
    Replica {
        me,
        peers,
        member,
        _notices: Mutex::new(notices),
    }
}

impl Replica {
    /// It has a lease of an hour, from a ping that was sent then.
    fn lease(&self, sent: u64) {
        let until = sent + 3_600_000;
        let incarnation = self.me.incarnation;
        self.member.shared().on_lease(Lease {
            incarnation,
            sent,
            until,
        });
    }

    /// Whether a strong read is answered.
    fn reads(&self) -> bool {
        let (reply, told) = oneshot::channel();
        let request = counter::Request::Read("a".to_owned());
        let work = PendingRequest::Read {
            call: Arc::new(Call::of_node(request)),
            session: None,
            reply,
        };
        let job = Job::Read(Box::new(work), Level::Strong);
        self.member.enqueue(job).unwrap();
        told.blocking_recv().unwrap().is_ok()
    }
}

struct Chain {
    replicas: Vec<Replica>,
}

impl Chain {
    /// Three members that know each other, and have leases for ever.
    fn new(wiring: Wiring) -> Self {
        let key = ClusterKey::random().unwrap();
        let replicas: Vec<_> = (1..4).map(|number| replica(number, &key)).collect();
        let nodes = replicas.iter().map(|it| {
            let (address, disk) = (it.peers.address().unwrap(), it.me.disk);
            (it.me.node, Peer { address, disk })
        });
        let nodes: BTreeMap<_, _> = nodes.collect();
        let chain = Chain { replicas };
        for replica in &chain.replicas {
            replica.peers.know(nodes.clone()).unwrap();
            replica.lease(monotonic_ms());
        }
        chain.configure(1, wiring);
        chain
    }

    fn configure(&self, epoch: u64, wiring: Wiring) {
        let members = self.replicas.iter().map(|it| ChainMember {
            node: it.me.node,
            incarnation: it.me.incarnation,
            disk: it.me.disk,
            role: Role::Serving,
        });
        let members: Vec<_> = members.collect();
        let configuration = Arc::new(Configuration {
            epoch,
            wiring,
            last_serving: members.iter().map(|it| (it.node, it.disk)).collect(),
            members,
            absent: Vec::new(),
            safe_point: EntryId::ZERO,
            lossy: fader_chain::UncleanRecovery::default(),
            version: fader_chain::Version::NEWEST,
        });
        for replica in &self.replicas {
            let job = Job::Configuration(configuration.clone());
            replica.member.jobs().send(job).unwrap();
        }
    }

    /// Cuts one of the six ways.
    fn cut(&self, number: usize) {
        let (host, caller) = (number % 3, (number + 1 + number / 3 % 2) % 3);
        let caller = self.replicas[caller].me.node;
        self.replicas[host].peers.common.sessions.end(caller);
    }

    /// Writes at the head, until it says that it is done.
    fn write(&self, command: &Command) {
        let end = std::time::Instant::now() + PATIENCE;
        loop {
            assert!(std::time::Instant::now() < end, "it is never written");
            let (reply, told) = oneshot::channel();
            let call = Call::of_node(command.clone());
            let work = PendingRequest::write(Arc::new(call), None, None, reply);
            self.replicas[0].member.enqueue(Job::Submit(work)).unwrap();
            match told.blocking_recv().unwrap() {
                Ok(told) => return drop(told.outcome.unwrap()),
                // As long as it has not adopted the configuration.
                Err(_) => std::thread::yield_now(),
            }
        }
    }

    /// All that a member has.
    fn state(&self, at: usize) -> Vec<(Bytes, Bytes)> {
        let snapshot = self.replicas[at].member.snapshot();
        let all = snapshot.scan(&[], &[0xff; 32], Direction::Forward);
        all.collect::<Result<_, _>>().unwrap()
    }

    /// Waits until all have the state of the head.
    fn agrees(&self) -> Vec<(Bytes, Bytes)> {
        let state = self.state(0);
        assert!(!state.is_empty());
        eventually(|| (1..3).all(|at| self.state(at) == state));
        state
    }

    fn close(&self) {
        self.replicas.iter().for_each(|it| it.member.close());
        self.replicas.iter().for_each(|it| it.peers.close());
    }
}

/// A key is created; its id has the name of the item.
fn put(item: &str) -> Command {
    Command::CreateKey(AccessKey {
        id: format!("AKIA_{item}_OF_A_TEST"),
        account: AccountId("000000000001".to_owned()),
        sealed_secret: Bytes::from(vec![b'v'; 500]),
        status: KeyStatus::Active,
        created_ms: 0,
        note: String::new(),
        preference: None,
        rights: Rights::All,
    })
}

fn has(state: &[(Bytes, Bytes)], item: &str) -> bool {
    let ends =
        |(key, _): &(Bytes, Bytes)| key.windows(item.len()).any(|part| part == item.as_bytes());
    state.iter().any(ends)
}

const WRITERS: usize = 4;
const WRITES: usize = 300;

fn agree_while_cut(wiring: Wiring) {
    let chain = Chain::new(wiring);
    let written = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (chain, written) = (&chain, &written);
            scope.spawn(move || {
                for number in 0..WRITES {
                    chain.write(&put(&format!("item_{writer}_{number:03}")));
                    let written = written.fetch_add(1, Ordering::Relaxed);
                    if written.is_multiple_of(16) {
                        chain.cut(written / 16);
                    }
                }
            });
        }
    });
    let state = chain.agrees();
    for writer in 0..WRITERS {
        for number in 0..WRITES {
            let item = format!("item_{writer}_{number:03}");
            assert!(has(&state, &item), "{item} was acknowledged");
        }
    }
    let connections = |it: &Replica| {
        let counters = it.peers.counters();
        counters.values().map(|it| it.connections).sum::<u64>()
    };
    let connections: u64 = chain.replicas.iter().map(connections).sum();
    assert!(connections > 6, "some were cut: {connections}");
    chain.close();
}

#[test]
fn members_of_a_star_agree_while_connections_are_cut() {
    agree_while_cut(Wiring::Star);
}

#[test]
fn members_of_a_chain_agree_while_connections_are_cut() {
    agree_while_cut(Wiring::Chain);
}

#[test]
fn messages_of_an_old_epoch_or_incarnation_change_nothing() {
    let chain = Chain::new(Wiring::Star);
    chain.write(&put("old"));
    chain.configure(2, Wiring::Star);
    chain.configure(3, Wiring::Star);
    chain.write(&put("new"));
    chain.agrees();
    let head = &chain.replicas[0];
    let follower = head.member.counters();
    let last = EntryId::new(follower.epoch, follower.commit_index);
    let id = EntryId::new(last.epoch, last.index + 1);
    let forged = Entry {
        id,
        prev: last,
        safe_point: EntryId::ZERO,
        stamp: Stamp::strong(id),
        request: None,
        result: Bytes::new(),
        changes: vec![Change::Put {
            key: Bytes::from_static(b"forged"),
            value: Bytes::from_static(b"forged"),
        }],
    };
    let message = Message::Append {
        after: last,
        entries: vec![Arc::new(forged)],
        commit: id,
    };
    let foreign = || [1, 2].map(|at: usize| chain.replicas[at].member.counters().counters.foreign);
    let before = foreign();
    let (epoch, incarnation) = (3, head.me.incarnation);
    for (epoch, incarnation) in [(epoch - 2, incarnation), (epoch, Incarnation(1))] {
        let envelope = Envelope {
            epoch,
            from: head.me.node,
            incarnation,
            message: message.clone(),
        };
        for to in [2, 3] {
            head.peers.send(NodeId(to), CHAIN, envelope.clone());
        }
    }
    // What comes after it is taken.
    chain.write(&put("newer"));
    let state = chain.agrees();
    assert!(has(&state, "newer") && !has(&state, "forged"));
    eventually(|| (0..2).all(|at| before[at] + 2 <= foreign()[at]));
    chain.close();
}

/// What another process says of its lease clock.
fn frame(clock_ms: u64) -> Frame {
    Frame {
        incarnation: Incarnation(1),
        stops: 0,
        clock_ms,
    }
}

/// FN-1: the coordinator knows a member by its incarnation.
#[test]
fn a_lease_of_another_incarnation_is_none() {
    let chain = Chain::new(Wiring::Star);
    chain.write(&put("item"));
    chain.agrees();
    for replica in &chain.replicas {
        let now = monotonic_ms();
        replica.peers.clocks().on_frame(now, NodeId(9), frame(0));
        replica
            .peers
            .clocks()
            .on_frame(now + 1, NodeId(9), frame(9_000));
        assert!(!replica.reads());
        let of_another = Lease {
            incarnation: Incarnation(1),
            sent: now + 2,
            until: now + 3_600_000,
        };
        replica.member.shared().on_lease(of_another);
        assert!(!replica.reads());
        replica.lease(now + 2);
        assert!(replica.reads());
    }
    chain.close();
}

/// CK-2: one frame, and no answer is given under a lease that was pinged for before it.
#[test]
fn a_member_whose_clock_stood_still_answers_no_strong_read_until_another_lease() {
    let chain = Chain::new(Wiring::Star);
    chain.write(&put("item"));
    chain.agrees();
    for replica in &chain.replicas {
        assert!(replica.reads());
        let (now, clocks) = (monotonic_ms(), replica.peers.clocks());
        clocks.on_frame(now, NodeId(9), frame(5_000));
        assert!(replica.reads());
        clocks.on_frame(now + 1, NodeId(9), frame(6_000));
        assert!(!replica.reads(), "it has a lease of an hour");
        replica.lease(now);
        assert!(!replica.reads(), "that was pinged for before");
        replica.lease(now + 2);
        assert!(replica.reads());
    }
    chain.close();
}
