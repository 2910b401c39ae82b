//! The bytes of znodes, and what others might put there.

use std::time::Duration;

use expect_test::expect;
use fader_chain::controller::first;
use fader_chain::placement::PlacementPolicy;
use fader_chain::{
    ChainId, Configuration, DiskId, EntryId, Identity, Incarnation, NodeId, Progress, Report,
    Version, Wiring,
};
use proptest::prelude::*;

use super::{
    ClusterRecord, Content, DiskRecord, IncarnationRecord, NextNode, SessionRecord, ZNODE_MAX,
};

const MEMBER: Identity = Identity {
    node: NodeId(3),
    incarnation: Incarnation(0x0102),
    disk: DiskId(0x0304),
};

fn cluster() -> ClusterRecord {
    ClusterRecord {
        version: Version::OLDEST,
        id: 0x0506,
        session: Duration::from_secs(2),
        wiring: Wiring::Chain,
        key_check: [7; 16],
        members: vec!["n1".to_owned(), "rack-2.b".to_owned()],
        zones: vec!["east".to_owned(), String::new()],
        chains: 300,
        policy: PlacementPolicy {
            replication_factor: 3,
            head_zone: Some("east".to_owned()),
            tail_zone: None,
        },
    }
}

fn disk() -> DiskRecord {
    DiskRecord {
        node: NodeId(3),
        progress: Progress {
            epoch: 300,
            last: EntryId::ZERO,
        },
        name: "n1".to_owned(),
        chain: Some(ChainId(2)),
    }
}

fn session() -> SessionRecord {
    SessionRecord {
        identity: MEMBER,
        name: "n1".to_owned(),
        address: "10.0.0.1:4570".to_owned(),
        incarnations: vec![IncarnationRecord {
            chain: ChainId(2),
            identity: Identity {
                node: NodeId(9),
                ..MEMBER
            },
            reports: reports(),
        }],
    }
}

fn reports() -> Vec<Report> {
    vec![
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
    ]
}

/// Thirty-two bytes a line.
fn hex(bytes: &[u8]) -> String {
    let line = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let lines: Vec<String> = bytes.chunks(32).map(line).collect();
    lines.join("\n")
}

#[test]
fn each_kind_has_bytes_that_stay() {
    let configuration = first(&[MEMBER], Wiring::Star, Version::OLDEST);
    let all = [
        cluster().encode(),
        disk().encode(),
        NextNode(9).encode(),
        session().encode(),
        configuration.encode(),
    ];
    let all: Vec<String> = all.iter().map(|bytes| hex(bytes)).collect();
    expect![[r#"
        464452430200000000000000000000000000000506d00f010707070707070707
        070707070707070702026e31087261636b2d322e62046561737400ac02030465
        6173740013c8e2a9

        464452440203ac02026e3103c0efb26a

        4644524e01095f73a220

        4644525302030000000000000000000000000000030400000000000000000000
        000000000102026e310d31302e302e302e313a34353730010209000000000000
        0000000000000000030400000000000000000000000000000102060004010403
        0902040308050304030701040405050405455dacad

        46445248013d0401000103000000000000000000000000000001020000000000
        0000000000000000000304000103000000000000000000000000000003040000
        000000df8b660b"#]]
    .assert_eq(&all.join("\n\n"));
    assert_eq!(ClusterRecord::decode(&cluster().encode()), Ok(cluster()));
    assert_eq!(DiskRecord::decode(&disk().encode()), Ok(disk()));
    assert_eq!(NextNode::decode(&NextNode(9).encode()), Ok(NextNode(9)));
    assert_eq!(SessionRecord::decode(&session().encode()), Ok(session()));
    let read = Configuration::decode(&configuration.encode());
    assert_eq!(read, Ok(configuration));
}

/// The bytes of format 1, which had one chain.
#[test]
fn records_of_an_older_version_are_read() {
    let bytes = |hex: &str| {
        let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
        let pairs = digits
            .chunks(2)
            .map(|pair| std::str::from_utf8(pair).unwrap());
        let bytes = pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap());
        bytes.collect::<Vec<u8>>()
    };
    let old = bytes(
        "464452430100000000000000000000000000000506d00f010707070707070707
         070707070707070702026e31087261636b2d322e62c83ce47b",
    );
    let read = ClusterRecord {
        zones: vec![String::new(); 2],
        chains: 0,
        policy: PlacementPolicy {
            replication_factor: 2,
            head_zone: None,
            tail_zone: None,
        },
        ..cluster()
    };
    assert_eq!(ClusterRecord::decode(&old), Ok(read));
    let old = bytes("464452440103ac02026e31821859cb");
    let read = DiskRecord {
        chain: Some(ChainId::SYSTEM),
        ..disk()
    };
    assert_eq!(DiskRecord::decode(&old), Ok(read));
    let old = bytes(
        "4644525301030000000000000000000000000000030400000000000000000000
         000000000102026e310d31302e302e302e313a34353730060004010403090204
         0308050304030701040405050405293220a8",
    );
    let read = SessionRecord {
        incarnations: vec![IncarnationRecord {
            chain: ChainId::SYSTEM,
            identity: MEMBER,
            reports: reports(),
        }],
        ..session()
    };
    assert_eq!(SessionRecord::decode(&old), Ok(read));
}

/// Format 3 begins with the version, as all later ones will.
#[test]
fn the_record_of_a_cluster_says_its_version() {
    let cluster = ClusterRecord {
        version: Version(3),
        ..cluster()
    };
    let mut bytes = cluster.encode();
    let mut older = super::tests::cluster().encode();
    assert_eq!((older[4], bytes[4], bytes[5]), (2, 3, 3));
    assert_eq!(ClusterRecord::version_of(&bytes), None, "it can be read");
    assert_eq!(ClusterRecord::decode(&bytes).as_ref(), Ok(&cluster));
    older.truncate(older.len() - 4);
    bytes.truncate(bytes.len() - 4);
    assert_eq!(bytes[6..], older[5..]);
    (bytes[4], bytes[5]) = (4, 17);
    assert_eq!(ClusterRecord::version_of(&bytes), Some(Version(17)));
    assert_eq!(ClusterRecord::version_of(&bytes[..5]), None);
    assert_eq!(ClusterRecord::version_of(&disk().encode()), None);
}

#[test]
fn a_disk_with_an_entry_has_bytes_that_stay() {
    let far = DiskRecord {
        progress: Progress {
            epoch: 300,
            last: EntryId::new(299, 70_000),
        },
        ..disk()
    };
    expect!["464452440303ac02026e3103ab02f0a20424e35756"].assert_eq(&hex(&far.encode()));
    assert_eq!(DiskRecord::decode(&far.encode()), Ok(far));
}

#[test]
fn a_foreign_record_is_reported() {
    let why = |bytes: &[u8]| DiskRecord::decode(bytes).unwrap_err();
    let mut newer = disk().encode();
    newer[4] = 9;
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
    /// It shows ZNODE-1.
    #[test]
    fn any_bytes_are_read_or_refused(
        mut bytes in prop::collection::vec(any::<u8>(), 0..96),
        kind in prop::sample::select(vec![b'C', b'D', b'N', b'S', b'H']),
        format in 1..4_u8,
    ) {
        // With the checksum right, so that what is behind it is met too.
        let mut sealed = b"FDR".to_vec();
        sealed.extend_from_slice(&[kind, format]);
        sealed.append(&mut bytes);
        let crc = super::checksum(super::CrcAlgorithm::Crc32Iscsi, &sealed) as u32;
        sealed.extend_from_slice(&crc.to_be_bytes());
        let _ = ClusterRecord::decode(&sealed);
        let _ = DiskRecord::decode(&sealed);
        let _ = SessionRecord::decode(&sealed);
        let _ = Configuration::decode(&sealed);
    }
}
