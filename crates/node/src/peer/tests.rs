//! Nodes on loopback talk to each other, and to no other process.

mod attacks;
mod blocks;
mod fuzz;
mod replicas;

use std::net::{Ipv4Addr, TcpListener};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use bytes::Bytes;
use fader_chain::{EntryId, Incarnation, Message};
use fader_services::catalog::{AccountId, Command, NameBuf};
use fader_services::{Call, Failure, Kind, Poll, Reason, counter};

use super::*;
use crate::storage::blocks::BlockId;

/// Longer than anything here takes on a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_secs(60);
const CLUSTER: u128 = 7;
const SESSION: Duration = Duration::from_millis(500);
const CHAIN: ChainId = ChainId(300);

fn identity(node: u32) -> Identity {
    Identity {
        node: NodeId(node),
        incarnation: Incarnation(u128::from(node) * 100),
        disk: DiskId(u128::from(node) * 10),
    }
}

/// Forwards what comes; answers questions with the name that they ask for. Requests it keeps to
/// itself.
struct Heard {
    envelopes: Mutex<Sender<(ChainId, Envelope)>>,
    kept: Mutex<Vec<Reply>>,
    /// Requests that their askers gave up.
    withdrawn: AtomicU64,
    /// Whether it answers those still.
    keeps_withdrawn: AtomicBool,
    blocks: Mutex<BTreeMap<BlockId, Bytes>>,
}

impl Inbox for Heard {
    fn deliver(&self, chain: ChainId, envelope: Envelope) {
        drop(self.envelopes.lock().send((chain, envelope)));
    }

    fn serve(&self, chain: ChainId, asked: ForwardedRequest, _: Duration, reply: Reply) {
        assert_eq!(chain, CHAIN);
        match asked {
            ForwardedRequest::Mode(name) => reply.send(&named(&name.name)),
            _ => self.kept.lock().push(reply),
        }
    }

    fn withdraw(&self, node: NodeId, number: Option<u64>) {
        let is_its =
            |reply: &Reply| reply.of().0 == node && number.is_none_or(|it| it == reply.of().1);
        if !self.keeps_withdrawn.load(Ordering::Relaxed) {
            self.kept.lock().retain(|reply| !is_its(reply));
        }
        self.withdrawn
            .fetch_add(u64::from(number.is_some()), Ordering::Relaxed);
    }

    fn blocks(&self, chain: ChainId, asked: BlockAsked) -> BlockTold {
        assert_eq!(chain, CHAIN);
        let mut blocks = self.blocks.lock();
        match asked {
            BlockAsked::Hold(block, bytes) => {
                blocks.insert(block.id, bytes.parts().concat().into());
                BlockTold::Held
            }
            BlockAsked::List(_) => BlockTold::Rows(Vec::new()),
            BlockAsked::Gone(ids) => BlockTold::These(ids),
            BlockAsked::Fetch(id, range) => match (blocks.get(&id), range) {
                (None, _) => BlockTold::Gone,
                (Some(bytes), None) => BlockTold::Bytes(bytes.clone()),
                (Some(bytes), Some(range)) => {
                    let range = range.start as usize..range.end as usize;
                    BlockTold::Bytes(bytes.slice(range))
                }
            },
        }
    }
}

fn named(name: &str) -> ForwardedReply {
    ForwardedReply::NotHere(Failure::of_words(name.to_owned()))
}

/// A question that names this collection.
fn read(name: &str) -> ForwardedRequest {
    ForwardedRequest::Mode(NameBuf {
        kind: Kind::Queue,
        account: AccountId("1".to_owned()),
        name: name.to_owned(),
    })
}

/// A request that is never answered.
fn write() -> ForwardedRequest {
    ForwardedRequest::Request(Call::of_node(Command::Confirm))
}

struct Node {
    peers: Arc<Peers>,
    heard: Receiver<(ChainId, Envelope)>,
    inbox: Arc<Heard>,
}

fn node(number: u32, key: &ClusterKey) -> Node {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let (envelopes, heard) = channel();
    let inbox = Arc::new(Heard {
        envelopes: Mutex::new(envelopes),
        kept: Mutex::default(),
        withdrawn: AtomicU64::new(0),
        keeps_withdrawn: AtomicBool::new(false),
        blocks: Mutex::default(),
    });
    let (me, key) = (identity(number), key.clone());
    let peers = Peers::start(listener, me, CLUSTER, SESSION, key, inbox.clone());
    let peers = peers.unwrap();
    Node {
        peers,
        heard,
        inbox,
    }
}

impl Node {
    fn number(&self) -> NodeId {
        self.peers.common.identity.node
    }

    fn peer(&self) -> Peer {
        Peer {
            address: self.peers.address().unwrap(),
            disk: self.peers.common.identity.disk,
        }
    }

    /// Waits until there is a connection to `other`.
    fn reaches(&self, other: &Node) {
        self.peers.need([other.number()]);
        eventually(|| self.peers.counters()[&other.number()].is_connected);
    }

    #[track_caller]
    fn hears(&self, envelope: &Envelope) {
        let heard = self.heard.recv_timeout(PATIENCE);
        assert_eq!(heard, Ok((CHAIN, envelope.clone())));
    }
}

#[track_caller]
fn eventually(holds: impl Fn() -> bool) {
    let end = std::time::Instant::now() + PATIENCE;
    while !holds() {
        assert!(std::time::Instant::now() < end, "it never came to that");
        std::thread::yield_now();
    }
}

fn know(nodes: &[&Node]) {
    let all: BTreeMap<_, _> = nodes.iter().map(|it| (it.number(), it.peer())).collect();
    nodes
        .iter()
        .for_each(|it| it.peers.know(all.clone()).unwrap());
}

/// Two nodes that have connections to each other.
fn two() -> (ClusterKey, Node, Node) {
    let key = ClusterKey::random().unwrap();
    let (one, two) = (node(1, &key), node(2, &key));
    know(&[&one, &two]);
    one.reaches(&two);
    two.reaches(&one);
    (key, one, two)
}

fn confirm(from: u32, index: u64) -> Envelope {
    Envelope {
        epoch: 1,
        from: NodeId(from),
        incarnation: identity(from).incarnation,
        message: Message::Confirm {
            id: EntryId::new(1, index),
        },
    }
}

/// A message of so many bytes, about.
fn offer(from: u32, size: usize) -> Envelope {
    let operation = fader_chain::Operation {
        name: fader_chain::RequestId {
            client: 1_u128.into(),
            seq: 2,
            part: 3,
        },
        stamp: fader_chain::Stamp::ZERO,
        accept: EntryId::ZERO,
        digest: None,
        key: vec![7; size].into(),
        ops: Vec::new(),
    };
    let operations = vec![Arc::new(operation)];
    Envelope {
        message: Message::Offer { operations },
        ..confirm(from, 0)
    }
}

/// It shows CK-0.
#[test]
fn clocks_are_shown_from_version_5_on_and_connections_of_before_go_on() {
    let (_, one, two) = two();
    one.peers.speak(Version::FOURTH);
    one.peers.send(NodeId(2), CHAIN, confirm(1, 1));
    two.hears(&confirm(1, 1));
    let heard = |node: &Node| node.peers.clocks().heard();
    assert_eq!(heard(&two), []);
    one.peers.speak(Version::FIFTH);
    let incarnation = identity(1).incarnation;
    eventually(|| heard(&two) == [(NodeId(1), incarnation, 0)]);
    assert_eq!(heard(&one), [], "the other is of before still");
    assert_eq!(one.peers.counters()[&NodeId(2)].connections, 1);
}

#[test]
fn a_node_is_called_when_there_is_something_to_say_to_it() {
    let key = ClusterKey::random().unwrap();
    let nodes = [1, 2, 3, 4].map(|number| node(number, &key));
    let [one, two, three, four] = &nodes;
    know(&[one, two, three, four]);
    one.peers.send(NodeId(2), CHAIN, confirm(1, 1));
    two.hears(&confirm(1, 1));
    // A request goes over the next connection: this one asks again.
    eventually(|| forward(&one.peers, &read("a")) == Ok(named("a")));
    one.peers.need([NodeId(3)]);
    one.reaches(three);
    let connections = |it: &Node| {
        let counters = it.peers.counters();
        counters.values().map(|it| it.connections).sum::<u64>()
    };
    assert_eq!(one.peers.counters()[&NodeId(4)].connections, 0);
    assert_eq!([two, three, four].map(connections), [1, 0, 0]);
}

#[test]
fn messages_arrive_in_order() {
    let (_, one, two) = two();
    for index in 0..1000 {
        one.peers.send(NodeId(2), CHAIN, confirm(1, index));
        two.peers.send(NodeId(1), CHAIN, confirm(2, index));
    }
    for index in 0..1000 {
        two.hears(&confirm(1, index));
        one.hears(&confirm(2, index));
    }
    let counters = || one.peers.counters()[&NodeId(2)];
    assert_eq!((counters().received, counters().lost), (1000, 0));
    // A record's bytes are counted when all in it was delivered.
    eventually(|| counters().bytes_sent > 0 && counters().bytes_received > 0);
}

#[test]
fn a_long_message_arrives_and_blocks_no_other_for_good() {
    let (_, one, two) = two();
    let long = offer(1, 20 << 20);
    one.peers.send(NodeId(2), CHAIN, long.clone());
    let mut came = Vec::new();
    for index in 0..100 {
        one.peers.send(NodeId(2), CHAIN, confirm(1, index));
    }
    for _ in 0..101 {
        came.push(two.heard.recv_timeout(PATIENCE).unwrap().1);
    }
    let (longs, short): (Vec<_>, Vec<_>) = came.into_iter().partition(|it| *it == long);
    assert_eq!(longs.len(), 1);
    assert_eq!(
        short,
        (0..100).map(|index| confirm(1, index)).collect::<Vec<_>>()
    );
}

#[test]
fn an_oversize_message_is_dropped_alone() {
    let (_, one, two) = two();
    one.peers
        .send(NodeId(2), CHAIN, offer(1, record::MESSAGE_MAX));
    one.peers.send(NodeId(2), CHAIN, confirm(1, 1));
    two.hears(&confirm(1, 1));
    assert_eq!(one.peers.counters()[&NodeId(2)].lost, 1);
}

/// It shows OUTBOX-1.
#[test]
fn o1_messages_without_a_waiter_are_bounded_and_dropped() {
    let key = ClusterKey::random().unwrap();
    let one = node(1, &key);
    // It takes connections, and says nothing.
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let peer = Peer {
        address: silent.local_addr().unwrap(),
        disk: DiskId(20),
    };
    one.peers.know([(NodeId(2), peer)].into()).unwrap();
    for index in 0..20_000 {
        one.peers.send(NodeId(2), CHAIN, confirm(1, index));
    }
    assert!(one.peers.counters()[&NodeId(2)].lost >= 10_000);
}

#[test]
fn a_connection_that_is_cut_comes_back() {
    let (_, one, two) = two();
    for round in 0..5 {
        let before = one.peers.counters()[&NodeId(2)].connections;
        eventually(|| {
            // Again and again: the caller is done with the handshake before the host is.
            two.peers.common.sessions.end(NodeId(1));
            one.peers.counters()[&NodeId(2)].connections > before
        });
        eventually(|| {
            one.peers.send(NodeId(2), CHAIN, confirm(1, round));
            two.heard
                .try_recv()
                .is_ok_and(|heard| heard.1 == confirm(1, round))
        });
    }
}

/// The number of a node's disk looks like the name of another node.
#[test]
fn a_node_has_its_name_in_the_log() {
    let (_, one, two) = two();
    let of = |node| one.peers.common.name(refusal::Who::Node(node));
    one.peers.names().insert(two.number(), "berlin".to_owned());
    assert_eq!(of(two.number()), "berlin");
    assert_eq!(of(NodeId(7)), "disk 7");
}

#[test]
fn a_former_member_is_cut_and_refused() {
    let (_, one, two) = two();
    two.peers.know(BTreeMap::new()).unwrap();
    let reason = "it is not a member of the cluster";
    let log = &one.peers.common.log_once;
    eventually(|| {
        log.of(refusal::Who::Node(NodeId(2)))
            .contains(&reason.to_owned())
    });
    assert!(!one.peers.counters()[&NodeId(2)].is_connected);
    assert_eq!(forward(&one.peers, &write()), Err(ForwardError::Untouched));
    know(&[&one, &two]);
    one.reaches(&two);
    one.peers.send(NodeId(2), CHAIN, confirm(1, 1));
    two.hears(&confirm(1, 1));
}

#[test]
fn a_node_is_followed_to_another_address() {
    let (key, one, two) = two();
    let disk = two.peer().disk;
    drop(two);
    let two = node(2, &key);
    assert_eq!(two.peer().disk, disk);
    know(&[&one, &two]);
    one.reaches(&two);
    one.peers.send(NodeId(2), CHAIN, confirm(1, 1));
    two.hears(&confirm(1, 1));
}

/// What node 2 tells of what node 1 asks.
fn forward(one: &Peers, asked: &ForwardedRequest) -> Result<ForwardedReply, ForwardError> {
    forward_within(one, asked, PATIENCE)
}

fn forward_within(
    one: &Peers,
    asked: &ForwardedRequest,
    patience: Duration,
) -> Result<ForwardedReply, ForwardError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    runtime.block_on(one.forward(NodeId(2), CHAIN, asked, patience))
}

#[test]
fn members_are_reached_where_they_are() {
    let (_, one, two) = two();
    let homes = BTreeMap::from([(NodeId(10), NodeId(1)), (NodeId(20), NodeId(2))]);
    one.peers.house(homes.clone());
    // Who speaks is not known yet: it says it again.
    one.peers.send(NodeId(20), CHAIN, confirm(10, 1));
    one.peers.send(NodeId(2), CHAIN, confirm(1, 2));
    two.hears(&confirm(1, 2));
    two.peers.house(homes);
    one.peers.send(NodeId(20), CHAIN, confirm(10, 3));
    two.hears(&confirm(10, 3));
    // A member of this node does not speak from the other one.
    one.peers.send(NodeId(20), CHAIN, confirm(20, 4));
    eventually(|| two.peers.counters()[&NodeId(1)].received == 4);
    one.reaches(&two);
    one.peers.send(NodeId(20), CHAIN, confirm(10, 5));
    let end = std::time::Instant::now() + PATIENCE;
    while two.heard.try_recv() != Ok((CHAIN, confirm(10, 5))) {
        assert!(std::time::Instant::now() < end, "it never came");
        one.peers.send(NodeId(20), CHAIN, confirm(10, 5));
        std::thread::yield_now();
    }
}

#[test]
fn a_request_is_answered() {
    let (_, one, _two) = two();
    std::thread::scope(|scope| {
        for number in 0..20 {
            let one = &one.peers;
            scope.spawn(move || {
                let domain = format!("domain{number}");
                assert_eq!(forward(one, &read(&domain)), Ok(named(&domain)));
            });
        }
    });
}

/// It shows OUTBOX-2.
#[test]
fn o2_a_caller_hears_of_a_lost_connection() {
    let (_, one, two) = two();
    let asker = &one.peers;
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| forward(asker, &write()));
        eventually(|| two.peers.counters()[&NodeId(1)].received == 1);
        two.peers.common.sessions.end(NodeId(1));
        assert_eq!(asking.join().unwrap(), Err(ForwardError::Unknown));
    });
    eventually(|| forward(&one.peers, &read("d")) == Ok(named("d")));
    let before = two.peers.counters()[&NodeId(1)].received;
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| forward(asker, &write()));
        eventually(|| two.peers.counters()[&NodeId(1)].received > before);
        two.peers.close();
        assert_eq!(asking.join().unwrap(), Err(ForwardError::Unknown));
    });
}

#[test]
fn a_waiting_request_is_withdrawn_when_its_caller_is_gone() {
    let (_, one, two) = two();
    one.peers.speak(Version::NEWEST);
    let asked = ForwardedRequest::Request(Call::of_node(counter::Request::Wait {
        name: "a".to_owned(),
        least: 1,
        until_ms: 0,
    }));
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| forward_within(&one.peers, &asked, Duration::from_millis(50)));
        assert_eq!(asking.join().unwrap(), Err(ForwardError::Unknown));
    });
    eventually(|| two.inbox.withdrawn.load(Ordering::Relaxed) == 1);
    assert!(two.inbox.kept.lock().is_empty());
    // An answered request is not withdrawn: its withdrawal would come before the next message.
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| forward(&one.peers, &asked));
        eventually(|| two.inbox.kept.lock().len() == 1);
        let reply = two.inbox.kept.lock().pop().unwrap();
        reply.send(&named("served"));
        assert_eq!(asking.join().unwrap(), Ok(named("served")));
    });
    assert_eq!(forward(&one.peers, &read("d")), Ok(named("d")));
    assert_eq!(two.inbox.withdrawn.load(Ordering::Relaxed), 1);
}

#[test]
fn a_client_that_goes_is_told_of_at_once_and_the_answer_is_still_taken() {
    let (_, one, two) = two();
    one.peers.speak(Version::NEWEST);
    let poll = Arc::new(Poll::default());
    let mut call = Call::of_node(counter::Request::Wait {
        name: "a".to_owned(),
        least: 1,
        until_ms: 0,
    });
    call.poll = Some(Arc::clone(&poll));
    let asked = ForwardedRequest::Request(call);
    two.inbox.keeps_withdrawn.store(true, Ordering::Relaxed);
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| forward(&one.peers, &asked));
        eventually(|| two.inbox.kept.lock().len() == 1);
        assert_eq!(two.inbox.withdrawn.load(Ordering::Relaxed), 0);
        poll.give_up();
        eventually(|| two.inbox.withdrawn.load(Ordering::Relaxed) == 1);
        let reply = two.inbox.kept.lock().pop().unwrap();
        reply.send(&named("served"));
        assert_eq!(asking.join().unwrap(), Ok(named("served")));
    });
}

/// It shows BP-3, of a request that another node answers.
#[test]
fn a_caller_waits_no_longer_than_its_bound() {
    let (_, one, _two) = two();
    let told = forward_within(&one.peers, &write(), Duration::from_millis(1));
    assert_eq!(told, Err(ForwardError::Unknown));
}

/// It shows WIRE-1: what a newer node says with a code of its own may have been done, and is not
/// told as an answer.
#[test]
fn an_answer_with_an_unknown_code_is_none() {
    let (_, one, two) = two();
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| forward(&one.peers, &write()));
        eventually(|| two.inbox.kept.lock().len() == 1);
        let reply = two.inbox.kept.lock().pop().unwrap();
        reply.send(&ForwardedReply::UnknownCode("of-tomorrow".to_owned()));
        assert_eq!(asking.join().unwrap(), Err(ForwardError::Unknown));
    });
    // The connection is as good as before.
    assert_eq!(forward(&one.peers, &read("d")), Ok(named("d")));
}

/// While one of them still speaks version 6, and afterwards.
#[test]
fn failures_are_understood_in_a_cluster_of_two_versions() {
    let (_, one, two) = two();
    for (here, there) in [(6, 6), (6, 7), (7, 6), (7, 7)] {
        one.peers.speak(Version(here));
        two.peers.speak(Version(there));
        std::thread::scope(|scope| {
            let asking = scope.spawn(|| forward(&one.peers, &write()));
            eventually(|| two.inbox.kept.lock().len() == 1);
            let reply = two.inbox.kept.lock().pop().unwrap();
            let moved = ForwardedReply::NotHere(Reason::Moved.into());
            reply.send(&moved);
            assert_eq!(asking.join().unwrap(), Ok(moved));
        });
    }
}
