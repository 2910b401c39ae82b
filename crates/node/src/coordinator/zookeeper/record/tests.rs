//! The bytes of znodes, and what others might put there.

use std::time::Duration;

use expect_test::expect;
use fader_chain::controller::first;
use fader_chain::{Configuration, DiskId, EntryId, Identity, Incarnation, NodeId, Report, Wiring};
use proptest::prelude::*;

use super::{ClusterRecord, Content, DiskRecord, NextNode, SessionRecord, ZNODE_MAX};

const MEMBER: Identity = Identity {
    node: NodeId(3),
    incarnation: Incarnation(0x0102),
    disk: DiskId(0x0304),
};

fn cluster() -> ClusterRecord {
    ClusterRecord {
        id: 0x0506,
        session: Duration::from_secs(2),
        wiring: Wiring::Chain,
        key_check: [7; 16],
        members: vec!["n1".to_owned(), "rack-2.b".to_owned()],
    }
}

fn disk() -> DiskRecord {
    DiskRecord {
        node: NodeId(3),
        epoch: 300,
        name: "n1".to_owned(),
    }
}

fn session() -> SessionRecord {
    SessionRecord {
        identity: MEMBER,
        name: "n1".to_owned(),
        address: "10.0.0.1:4570".to_owned(),
        reports: vec![
            Report::Adopted { epoch: 4 },
            Report::SyncDone {
                epoch: 4,
                last: EntryId::new(3, 9),
            },
            Report::Differs {
                epoch: 4,
                id: EntryId::new(3, 8),
                node: NodeId(5),
            },
            Report::Floor {
                epoch: 4,
                applied: EntryId::new(3, 7),
                gap: true,
            },
            Report::Slow {
                epoch: 4,
                node: NodeId(5),
            },
            Report::Heard {
                epoch: 4,
                node: NodeId(5),
            },
        ],
    }
}

/// Thirty-two bytes a line.
fn hex(bytes: &[u8]) -> String {
    let line = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let lines: Vec<String> = bytes.chunks(32).map(line).collect();
    lines.join("\n")
}

#[test]
fn each_kind_has_bytes_that_stay() {
    let configuration = first(&[MEMBER], Wiring::Star);
    let all = [
        cluster().encode(),
        disk().encode(),
        NextNode(9).encode(),
        session().encode(),
        configuration.encode(),
    ];
    let all: Vec<String> = all.iter().map(|bytes| hex(bytes)).collect();
    expect![[r#"
        464452430100000000000000000000000000000506d00f010707070707070707
        070707070707070702026e31087261636b2d322e62c83ce47b

        464452440103ac02026e31821859cb

        4644524e01095f73a220

        4644525301030000000000000000000000000000030400000000000000000000
        000000000102026e310d31302e302e302e313a34353730060004010403090204
        0308050304030701040405050405293220a8

        46445248013b0201000103000000000000000000000000000001020000000000
        0000000000000000000304000103000000000000000000000000000003040000
        00c0b8c3c6"#]]
    .assert_eq(&all.join("\n\n"));
    assert_eq!(ClusterRecord::decode(&cluster().encode()), Ok(cluster()));
    assert_eq!(DiskRecord::decode(&disk().encode()), Ok(disk()));
    assert_eq!(NextNode::decode(&NextNode(9).encode()), Ok(NextNode(9)));
    assert_eq!(SessionRecord::decode(&session().encode()), Ok(session()));
    let read = Configuration::decode(&configuration.encode());
    assert_eq!(read, Ok(configuration));
}

#[test]
fn what_is_something_else_is_told() {
    let why = |bytes: &[u8]| DiskRecord::decode(bytes).unwrap_err();
    let mut newer = disk().encode();
    newer[4] = 2;
    let mut changed = disk().encode();
    changed[6] ^= 1;
    for (bytes, reason) in [
        (Vec::new(), "too short"),
        (b"hello, world".to_vec(), "not written by Fader"),
        (vec![0; ZNODE_MAX + 1], "too large"),
        (NextNode(9).encode(), "something else"),
        (changed, "checksum"),
        (newer, "checksum"),
    ] {
        let why = why(&bytes);
        assert!(
            why.starts_with("is no record of a disk") && why.contains(reason),
            "{why}"
        );
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(
        mut bytes in prop::collection::vec(any::<u8>(), 0..96),
        kind in prop::sample::select(vec![b'C', b'D', b'N', b'S', b'H']),
    ) {
        // With the checksum right, so that what is behind it is met too.
        let mut sealed = b"FDR".to_vec();
        sealed.extend_from_slice(&[kind, 1]);
        sealed.append(&mut bytes);
        let crc = super::checksum(super::CrcAlgorithm::Crc32Iscsi, &sealed) as u32;
        sealed.extend_from_slice(&crc.to_be_bytes());
        let _ = ClusterRecord::decode(&sealed);
        let _ = DiskRecord::decode(&sealed);
        let _ = SessionRecord::decode(&sealed);
        let _ = Configuration::decode(&sealed);
    }
}
