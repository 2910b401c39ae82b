//! Nodes on loopback talk to each other, and to nobody else.

mod attacks;

use std::net::{Ipv4Addr, TcpListener};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use fader_chain::{EntryId, Incarnation, Message};

use super::*;

/// Longer than anything here takes on a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_secs(60);
const CLUSTER: u128 = 7;

fn identity(node: u32) -> Identity {
    Identity {
        node: NodeId(node),
        incarnation: Incarnation(u128::from(node) * 100),
        disk: DiskId(u128::from(node) * 10),
    }
}

/// Hands on what comes; answers requests with what they say, back to front. One that is empty it
/// keeps to itself.
struct Heard {
    envelopes: Mutex<Sender<Envelope>>,
    kept: Mutex<Vec<Reply>>,
}

impl Inbox for Heard {
    fn deliver(&self, envelope: Envelope) {
        drop(self.envelopes.lock().send(envelope));
    }

    fn serve(&self, request: Bytes, reply: Reply) {
        if request.is_empty() {
            return self.kept.lock().push(reply);
        }
        reply.send(request.iter().rev().copied().collect());
    }
}

struct Node {
    peers: Arc<Peers>,
    heard: Receiver<Envelope>,
}

fn node(number: u32, key: &ClusterKey) -> Node {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let (envelopes, heard) = channel();
    let inbox = Arc::new(Heard {
        envelopes: Mutex::new(envelopes),
        kept: Mutex::default(),
    });
    let peers = Peers::start(listener, identity(number), CLUSTER, key.clone(), inbox);
    let peers = peers.unwrap();
    Node { peers, heard }
}

impl Node {
    fn number(&self) -> NodeId {
        self.peers.common.me.identity.node
    }

    fn peer(&self) -> Peer {
        Peer {
            address: self.peers.address().unwrap(),
            disk: self.peers.common.me.identity.disk,
        }
    }

    /// Waits until there is a connection to `other`.
    fn reaches(&self, other: &Node) {
        eventually(|| self.peers.counters()[&other.number()].is_connected);
    }

    #[track_caller]
    fn hears(&self, envelope: &Envelope) {
        assert_eq!(self.heard.recv_timeout(PATIENCE).as_ref(), Ok(envelope));
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
            client: 1,
            seq: 2,
            part: 3,
        },
        stamp: fader_chain::Stamp::ZERO,
        accept: EntryId::ZERO,
        key: vec![7; size].into(),
        ops: Vec::new(),
    };
    let operations = vec![Arc::new(operation)];
    Envelope {
        message: Message::Offer { operations },
        ..confirm(from, 0)
    }
}

#[test]
fn what_one_says_the_other_hears_in_order() {
    let (_, one, two) = two();
    for index in 0..1000 {
        one.peers.send(NodeId(2), confirm(1, index));
        two.peers.send(NodeId(1), confirm(2, index));
    }
    for index in 0..1000 {
        two.hears(&confirm(1, index));
        one.hears(&confirm(2, index));
    }
    let counters = one.peers.counters()[&NodeId(2)];
    assert_eq!((counters.received, counters.lost), (1000, 0));
    assert!(counters.bytes_sent > 0 && counters.bytes_received > 0);
}

#[test]
fn a_long_message_arrives_and_holds_up_nobody_for_good() {
    let (_, one, two) = two();
    let long = offer(1, 20 << 20);
    one.peers.send(NodeId(2), long.clone());
    let mut came = Vec::new();
    for index in 0..100 {
        one.peers.send(NodeId(2), confirm(1, index));
    }
    for _ in 0..101 {
        came.push(two.heard.recv_timeout(PATIENCE).unwrap());
    }
    let (longs, short): (Vec<_>, Vec<_>) = came.into_iter().partition(|it| *it == long);
    assert_eq!(longs.len(), 1);
    assert_eq!(
        short,
        (0..100).map(|index| confirm(1, index)).collect::<Vec<_>>()
    );
}

#[test]
fn what_is_too_long_is_lost_alone() {
    let (_, one, two) = two();
    one.peers.send(NodeId(2), offer(1, record::MESSAGE_MAX));
    one.peers.send(NodeId(2), confirm(1, 1));
    two.hears(&confirm(1, 1));
    assert_eq!(one.peers.counters()[&NodeId(2)].lost, 1);
}

#[test]
fn o1_what_waits_for_nobody_is_bounded_and_lost() {
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
        one.peers.send(NodeId(2), confirm(1, index));
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
            one.peers.send(NodeId(2), confirm(1, round));
            two.heard
                .try_recv()
                .is_ok_and(|heard| heard == confirm(1, round))
        });
    }
}

#[test]
fn who_is_no_member_any_more_is_cut_and_refused() {
    let (_, one, two) = two();
    two.peers.know(BTreeMap::new()).unwrap();
    let reason = "it is not a member of the cluster";
    let log = &one.peers.common.complaints;
    eventually(|| {
        log.of(refusal::Who::Node(NodeId(2)))
            .contains(&reason.to_owned())
    });
    assert!(!one.peers.counters()[&NodeId(2)].is_connected);
    assert!(one.peers.ask(NodeId(2), Bytes::from_static(b"?")).is_none());
    know(&[&one, &two]);
    one.reaches(&two);
    one.peers.send(NodeId(2), confirm(1, 1));
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
    one.peers.send(NodeId(2), confirm(1, 1));
    two.hears(&confirm(1, 1));
}

#[test]
fn a_request_is_answered() {
    let (_, one, _two) = two();
    let answers: Vec<_> = (0..100)
        .map(|number| one.peers.ask(NodeId(2), format!("{number}.").into()))
        .collect();
    for (number, answer) in answers.into_iter().enumerate() {
        let answer = answer.unwrap().blocking_recv().unwrap();
        let expected: Bytes = format!("{number}.").bytes().rev().collect();
        assert_eq!(answer, expected);
    }
}

#[test]
fn o2_who_asked_hears_of_a_lost_connection() {
    let (_, one, two) = two();
    let unanswered = one.peers.ask(NodeId(2), Bytes::new()).unwrap();
    eventually(|| two.peers.counters()[&NodeId(1)].received == 1);
    two.peers.common.sessions.end(NodeId(1));
    assert!(unanswered.blocking_recv().is_err());

    one.reaches(&two);
    let unanswered = one.peers.ask(NodeId(2), Bytes::new()).unwrap();
    drop(two);
    assert!(unanswered.blocking_recv().is_err());
}
