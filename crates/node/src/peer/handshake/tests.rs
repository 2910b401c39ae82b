//! Two nodes meet; who is not to be met is refused with the reason, and who has no key learns none.

use std::net::TcpListener;

use super::*;

fn identity(node: u32) -> Identity {
    Identity {
        node: NodeId(node),
        incarnation: Incarnation(u128::from(node) * 100),
        disk: DiskId(u128::from(node) * 10),
    }
}

fn me(node: u32) -> LocalIdentity {
    LocalIdentity {
        versions: Versions { min: 2, max: 2 },
        cluster: 5,
        identity: identity(node),
    }
}

fn streams() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let caller = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (caller, listener.accept().unwrap().0)
}

type Side<'a> = (&'a ClusterKey, LocalIdentity);

/// Node 1 is a member with its disk.
fn disk(node: NodeId) -> Option<DiskId> {
    (node == NodeId(1)).then_some(DiskId(10))
}

fn meet(
    caller: Side<'_>,
    host: Side<'_>,
    whom: Identity,
) -> [Result<RemoteIdentity, PeerError>; 2] {
    let (calling, supervisor) = streams();
    std::thread::scope(|scope| {
        let answered = scope.spawn(move || {
            let (key, me) = host;
            answer(&supervisor, key, me, disk).map(|(met, ..)| met)
        });
        let (key, me) = caller;
        let called =
            call(&calling, key, me, whom.node, whom.disk, Purpose::Messages).map(|(met, _)| met);
        [called, answered.join().unwrap()]
    })
}

#[test]
fn two_nodes_of_one_cluster_meet() {
    let key = ClusterKey::random().unwrap();
    let [called, answered] = meet((&key, me(1)), (&key, me(2)), identity(2));
    let met = |identity| RemoteIdentity {
        identity,
        version: 2,
    };
    assert_eq!(called.unwrap(), met(identity(2)));
    assert_eq!(answered.unwrap(), met(identity(1)));
}

#[test]
fn both_sides_have_the_same_ciphers() {
    let key = ClusterKey::random().unwrap();
    let (calling, supervisor) = streams();
    let (host_key, host) = (key.clone(), me(2));
    let answered = std::thread::spawn(move || answer(&supervisor, &host_key, host, disk));
    let (node, disk) = (NodeId(2), DiskId(20));
    let (_, (mut seals, _)) = call(&calling, &key, me(1), node, disk, Purpose::Messages).unwrap();
    let (_, purpose, (mut opens, _)) = answered.join().unwrap().unwrap();
    assert_eq!(purpose, Purpose::Messages);
    let mut text = b"text".to_vec();
    seals.seal(&[], &mut text, 0);
    assert_ne!(&text[..4], b"text");
    assert_eq!(opens.open(&[], &mut text), Ok(&b"text"[..]));
}

#[test]
fn of_two_ranges_of_versions_the_greatest_common_one_is_spoken() {
    let key = ClusterKey::random().unwrap();
    let of = |node, (min, max)| LocalIdentity {
        versions: Versions { min, max },
        ..me(node)
    };
    for (ours, theirs, common) in [
        ((1, 2), (2, 3), Some(2)),
        ((1, 3), (1, 2), Some(2)),
        ((2, 2), (1, 9), Some(2)),
        ((1, 2), (3, 4), None),
        ((3, 4), (1, 2), None),
    ] {
        let met = meet((&key, of(1, ours)), (&key, of(2, theirs)), identity(2));
        for side in met {
            match (side, common) {
                (Ok(met), Some(common)) => assert_eq!(met.version, common),
                (Err(PeerError::Version), None) => {}
                (other, _) => panic!("{ours:?} and {theirs:?}: {other:?}"),
            }
        }
    }
}

/// Both sides give this reason.
#[track_caller]
fn refused(caller: LocalIdentity, whom: Identity, reason: &str) {
    let key = ClusterKey::random().unwrap();
    for side in meet((&key, caller), (&key, me(2)), whom) {
        assert_eq!(side.unwrap_err().to_string(), reason);
    }
}

#[test]
fn a_node_with_the_key_is_told_why_it_is_refused() {
    let cluster = LocalIdentity {
        cluster: 6,
        ..me(1)
    };
    refused(cluster, identity(2), "it belongs to another cluster");
    refused(me(3), identity(2), "it is not a member of the cluster");
    let other_disk = LocalIdentity {
        identity: Identity {
            disk: DiskId(11),
            ..identity(1)
        },
        ..me(1)
    };
    let reason = "its disk is not the one that its number was given to";
    refused(other_disk, identity(2), reason);
    let reason = "the connection was meant for another node";
    refused(me(1), identity(4), reason);
}

#[test]
fn a_host_with_another_disk_is_refused() {
    let key = ClusterKey::random().unwrap();
    let whom = Identity {
        disk: DiskId(21),
        ..identity(2)
    };
    let [called, _] = meet((&key, me(1)), (&key, me(2)), whom);
    assert!(matches!(called, Err(PeerError::Disk)));
}

/// It shows SHAKE-1.
#[test]
fn h1_a_node_with_another_key_learns_nothing() {
    let (ours, theirs) = (ClusterKey::random().unwrap(), ClusterKey::random().unwrap());
    let [called, answered] = meet((&ours, me(1)), (&theirs, me(2)), identity(2));
    assert!(matches!(called, Err(PeerError::Closed)));
    assert!(matches!(answered, Err(PeerError::Key)));
}

/// What the host says of these bytes and what it answers.
fn host(bytes: &[u8]) -> (PeerError, Vec<u8>) {
    let key = ClusterKey::random().unwrap();
    let (mut caller, supervisor) = streams();
    let host = std::thread::spawn(move || answer(&supervisor, &key, me(2), disk).map(|_| ()));
    caller.write_all(bytes).unwrap();
    // What it had not read when it closed resets the connection, perhaps by now.
    let _ = caller.shutdown(std::net::Shutdown::Write);
    let mut answer = Vec::new();
    let _ = caller.read_to_end(&mut answer);
    (host.join().unwrap().unwrap_err(), answer)
}

#[test]
fn a_malformed_handshake_is_refused_without_an_answer() {
    let with = |rest: &[u8]| [&Purpose::Messages.preamble()[..], rest].concat();
    for (bytes, reason) in [
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), "it does not speak"),
        (b"FADPEER\x02".to_vec(), "it does not speak"),
        (b"FAD".to_vec(), "the connection ended within a frame"),
        (with(&[]), "the connection ended within a frame"),
        (with(&[47, 0]), "a frame or message is longer"),
        (with(&[1, 2]), "a frame or message is longer"),
        (with(&[0xff, 0xff]), "a frame or message is longer"),
        (with(&[60, 0, 1, 2, 3]), "the connection ended within"),
        (with(&[&[60, 0], &[9; 60][..]].concat()), "its cluster key"),
    ] {
        let (error, answer) = host(&bytes);
        assert!(error.to_string().starts_with(reason), "{bytes:?}: {error}");
        assert_eq!(answer, b"", "{bytes:?}");
    }
}
