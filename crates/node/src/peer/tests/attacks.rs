//! Bad input to a real listener: refused with the reason, logged once, nothing delivered, the
//! connection closed, and the others served meanwhile.

use fader_chain::put_varint;
use std::io::{Read, Write};
use std::net::{IpAddr, TcpStream};

use super::super::handshake::{Purpose, Versions, call};
use super::super::record::{Lane, PIECE_MAX, Sealer, put_message};
use super::super::refusal::Who;
use super::*;

const LOCALHOST: Who = Who::Address(IpAddr::V4(Ipv4Addr::LOCALHOST));
const MEMBER: NodeId = NodeId(1);

/// A node that is attacked. It knows a member 1, which is the attacker, and a member 3.
struct Victim {
    key: ClusterKey,
    node: Node,
}

fn victim() -> Victim {
    let key = ClusterKey::random().unwrap();
    let node = node(2, &key);
    let victim = Victim { key, node };
    let member = |number: u32| {
        let disk = identity(number).disk;
        (NodeId(number), Peer { disk, ..nowhere() })
    };
    victim
        .node
        .peers
        .know([member(1), member(3)].into())
        .unwrap();
    victim
}

/// No process listens there.
fn nowhere() -> Peer {
    Peer {
        address: (Ipv4Addr::LOCALHOST, 1).into(),
        disk: DiskId(0),
    }
}

fn me() -> LocalIdentity {
    LocalIdentity {
        versions: Versions { min: 2, max: 2 },
        cluster: CLUSTER,
        identity: identity(1),
    }
}

impl Victim {
    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.node.peers.address().unwrap()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// As a member that has the key: the connection, and what seals its frames.
    fn enter(&self) -> (TcpStream, Sealer) {
        let stream = self.connect();
        let (node, disk) = (NodeId(2), DiskId(20));
        let (_, (cipher, _)) =
            call(&stream, &self.key, me(), node, disk, Purpose::Messages).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut sealer = Sealer::new(cipher);
        let mut first = Vec::new();
        sealer.sign_of_life(&mut first);
        (&stream).write_all(&first).unwrap();
        (stream, sealer)
    }

    /// The connection is closed, nothing was delivered, and this was logged of its peer.
    #[track_caller]
    fn refused(&self, mut stream: &TcpStream, who: Who, reason: &str) {
        // What it had not read when it closed resets the connection.
        let closed = stream.read_to_end(&mut Vec::new());
        assert!(!matches!(closed, Ok(1..)), "nothing is answered");
        let logged = self.node.peers.common.log_once.of(who);
        let with_reason = logged.iter().filter(|it| it.starts_with(reason));
        assert_eq!(with_reason.count(), 1, "{logged:?}");
        assert!(self.node.heard.try_recv().is_err());
    }

    /// A member's frames end with this.
    #[track_caller]
    fn refuses_frames(&self, frames: impl Fn(&mut Sealer) -> Vec<u8>, reason: &str) {
        // Twice: it is logged once.
        for _ in 0..2 {
            let (mut stream, mut sealer) = self.enter();
            stream.write_all(&frames(&mut sealer)).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            self.refused(&stream, Who::Node(MEMBER), reason);
        }
    }

    fn refuses_messages(&self, messages: &[&[u8]], reason: &str) {
        let frames = |sealer: &mut Sealer| {
            let mut lane = Vec::new();
            for message in messages {
                put_message(&mut lane, |out| out.extend_from_slice(message));
            }
            frames(sealer, &lane)
        };
        self.refuses_frames(frames, reason);
    }
}

fn frames(sealer: &mut Sealer, lane: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    sealer.frames(Lane::Prompt, lane, &mut out);
    out
}

fn message(envelope: &Envelope) -> Vec<u8> {
    let mut body = vec![outgoing::KIND_ENVELOPE];
    put_varint(&mut body, u64::from(CHAIN.0));
    envelope.encode(&mut body);
    body
}

/// The frames of a message that is all right.
fn good(sealer: &mut Sealer) -> Vec<u8> {
    let mut lane = Vec::new();
    put_message(&mut lane, |out| out.extend(message(&confirm(1, 1))));
    frames(sealer, &lane)
}

#[test]
fn a_stranger_is_refused() {
    let victim = victim();
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0; 100]] {
        let mut stream = victim.connect();
        stream.write_all(bytes).unwrap();
        victim.refused(&stream, LOCALHOST, "it does not speak the protocol");
    }
    let mut stream = victim.connect();
    stream.write_all(b"FADPEER\x01\xff\xff").unwrap();
    victim.refused(
        &stream,
        LOCALHOST,
        "a frame or message is longer than allowed",
    );
    assert_eq!(victim.node.peers.refused(), 3);
}

/// A call as `me` with this key; what the caller learns.
fn calls(victim: &Victim, key: &ClusterKey, me: LocalIdentity) -> (TcpStream, String) {
    let stream = victim.connect();
    let (node, disk) = (NodeId(2), DiskId(20));
    let error = call(&stream, key, me, node, disk, Purpose::Messages)
        .err()
        .unwrap();
    (stream, error.to_string())
}

#[test]
fn a_stranger_with_the_key_is_refused() {
    let victim = victim();
    let other = ClusterKey::random().unwrap();
    let (stream, learns) = calls(&victim, &other, me());
    assert!(learns.starts_with("it closed the connection"), "{learns}");
    victim.refused(&stream, LOCALHOST, "its cluster key is another one");

    let as_node = |identity| LocalIdentity { identity, ..me() };
    let disk = Identity {
        disk: DiskId(99),
        ..identity(1)
    };
    let versions = Versions { min: 7, max: 9 };
    for (me, reason) in [
        (
            LocalIdentity { cluster: 8, ..me() },
            "it belongs to another cluster",
        ),
        (as_node(identity(4)), "it is not a member of the cluster"),
        (as_node(identity(2)), "it is not a member of the cluster"),
        (as_node(disk), "its disk is not the one"),
        (LocalIdentity { versions, ..me() }, "there is no version"),
    ] {
        let (stream, learns) = calls(&victim, &victim.key, me);
        assert!(learns.starts_with(reason), "{learns}");
        victim.refused(&stream, LOCALHOST, reason);
    }
}

#[test]
fn frames_that_were_tampered_with_are_refused() {
    let victim = victim();
    let flipped = |at: usize| {
        move |sealer: &mut Sealer| {
            let mut frames = good(sealer);
            let at = at % frames.len();
            // A longer size would wait for more; a shorter one opens no better than other damage.
            frames[at] ^= 1;
            frames
        }
    };
    for at in [2, 3, 20, usize::MAX] {
        victim.refuses_frames(flipped(at), "a frame was changed, repeated or left out");
    }
    let left_out = |sealer: &mut Sealer| {
        good(sealer);
        good(sealer)
    };
    victim.refuses_frames(left_out, "a frame was changed, repeated or left out");
    let truncated = |sealer: &mut Sealer| {
        let frames = good(sealer);
        frames[..frames.len() - 1].to_vec()
    };
    victim.refuses_frames(truncated, "the connection ended within a frame");
    let noise = |_: &mut Sealer| vec![0x5a; PIECE_MAX + 100];
    victim.refuses_frames(noise, "a frame was changed, repeated or left out");
}

#[test]
fn a_frame_is_taken_once() {
    let victim = victim();
    let (mut stream, mut sealer) = victim.enter();
    let frames = good(&mut sealer);
    stream.write_all(&frames).unwrap();
    victim.node.hears(&confirm(1, 1));
    stream.write_all(&frames).unwrap();
    let reason = "a frame was changed, repeated or left out";
    victim.refused(&stream, Who::Node(MEMBER), reason);

    // In another connection it is worth nothing either.
    let (mut stream, _) = victim.enter();
    stream.write_all(&frames).unwrap();
    victim.refused(&stream, Who::Node(MEMBER), reason);
}

#[test]
fn messages_that_are_none_are_refused() {
    let victim = victim();
    let confirm = message(&confirm(1, 1));
    let mut kind = confirm.clone();
    kind[22] = 99;
    victim.refuses_messages(&[&kind], "malformed bytes: a message's kind");
    let mut version = confirm.clone();
    version[3] = 2;
    victim.refuses_messages(&[&version], "malformed bytes: a message's version");
    victim.refuses_messages(&[&confirm[..8]], "malformed bytes: an early end");
    let long = [&confirm[..], &[0]].concat();
    victim.refuses_messages(&[&long], "malformed bytes: bytes after the end");
    victim.refuses_messages(&[&[9]], "malformed bytes: the kind of what is in a frame");
    victim.refuses_messages(&[&[]], "malformed bytes: an early end");
    victim.refuses_messages(&[&[2, 0, 0x80]], "malformed bytes: an early end");
    let version = "malformed bytes: the version of what is forwarded";
    victim.refuses_messages(&[&[2, 0, 0, 0, 9]], version);
    victim.refuses_messages(&[&[3, 0, 2, 99]], "malformed bytes: what is told");
}

/// It shows GUEST-3.
#[test]
fn a_message_in_another_name_is_refused() {
    let victim = victim();
    let reason = "it sent a message in another node's name";
    victim.refuses_messages(&[&message(&confirm(3, 1))], reason);
    // Nor in that of a member that is on another node.
    let homes = [(NodeId(30), NodeId(3))].into();
    victim.node.peers.house(homes);
    victim.refuses_messages(&[&message(&confirm(30, 1))], reason);
}

#[test]
fn a_size_beyond_the_limit_is_refused_before_anything_comes() {
    let victim = victim();
    let too_long = |sealer: &mut Sealer| {
        let mut out = Vec::new();
        let size = u32::MAX.to_le_bytes();
        sealer.frames(Lane::Bulk, &size, &mut out);
        out
    };
    victim.refuses_frames(too_long, "a frame or message is longer than allowed");
}

/// Passes on what a caller says, and writes it down.
fn record(victim: &Victim) -> Vec<u8> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let caller = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut between, _) = listener.accept().unwrap();
    let mut host = victim.connect();
    let key = victim.key.clone();
    let calling = std::thread::spawn(move || {
        let (node, disk) = (NodeId(2), DiskId(20));
        let (_, (cipher, _)) = call(&caller, &key, me(), node, disk, Purpose::Messages).unwrap();
        let mut sealer = Sealer::new(cipher);
        let mut frames = Vec::new();
        sealer.sign_of_life(&mut frames);
        frames.extend(good(&mut sealer));
        (&caller).write_all(&frames).unwrap();
    });
    let pass = |from: &mut TcpStream, to: &mut TcpStream, size: usize| {
        let mut bytes = vec![0; size];
        from.read_exact(&mut bytes).unwrap();
        to.write_all(&bytes).unwrap();
        bytes
    };
    let mut said = pass(&mut between, &mut host, 10);
    let size = usize::from(u16::from_le_bytes([said[8], said[9]]));
    said.extend(pass(&mut between, &mut host, size));
    let size = pass(&mut host, &mut between, 2);
    let size = usize::from(u16::from_le_bytes([size[0], size[1]]));
    pass(&mut host, &mut between, size);
    calling.join().unwrap();
    let mut frames = Vec::new();
    between.read_to_end(&mut frames).unwrap();
    host.write_all(&frames).unwrap();
    victim.node.hears(&confirm(1, 1));
    said.extend(frames);
    said
}

/// It shows SHAKE-2.
#[test]
fn h2_a_repeated_connection_delivers_nothing_and_cuts_no_peer() {
    let victim = victim();
    let said = record(&victim);
    let (mut member, mut sealer) = victim.enter();
    member.write_all(&good(&mut sealer)).unwrap();
    victim.node.hears(&confirm(1, 1));
    for _ in 0..2 {
        let mut stream = victim.connect();
        stream.write_all(&said).unwrap();
        let mut answer = Vec::new();
        // The host answers the handshake, which no key here can open, and closes.
        let _ = stream.read_to_end(&mut answer);
        let logged = victim.node.peers.common.log_once.of(LOCALHOST);
        assert_eq!(logged, ["a frame was changed, repeated or left out"]);
        assert!(victim.node.heard.try_recv().is_err());
    }
    member.write_all(&good(&mut sealer)).unwrap();
    victim.node.hears(&confirm(1, 1));
}

/// It shows GUEST-1.
#[test]
fn n1_connections_that_say_nothing_keep_no_member_out() {
    let victim = victim();
    let idle: Vec<_> = (0..100).map(|_| victim.connect()).collect();
    let (mut member, mut sealer) = victim.enter();
    member.write_all(&good(&mut sealer)).unwrap();
    victim.node.hears(&confirm(1, 1));
    for mut stream in idle {
        assert!(matches!(stream.read(&mut [0; 1]), Ok(0) | Err(_)));
    }
}

/// It shows GUEST-2.
#[test]
fn n2_the_newest_connection_of_a_member_counts() {
    let victim = victim();
    let (mut older, _) = victim.enter();
    let (mut newer, mut sealer) = victim.enter();
    assert!(matches!(older.read(&mut [0; 1]), Ok(0) | Err(_)));
    newer.write_all(&good(&mut sealer)).unwrap();
    victim.node.hears(&confirm(1, 1));
}

#[test]
fn a_member_that_is_removed_while_it_enters_is_refused() {
    let victim = victim();
    let (stream, _) = victim.enter();
    victim.node.peers.know(BTreeMap::new()).unwrap();
    let closed = (&stream).read(&mut [0; 1]);
    assert!(matches!(closed, Ok(0) | Err(_)));
}
