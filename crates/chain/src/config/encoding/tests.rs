//! A configuration comes back as it was; anything else does not pass for one.

use crate::codec::put_varint;
use crate::config::{
    AbsentMember, ChainMember, Configuration, DiskId, Incarnation, NodeId, Role, UncleanRecovery,
    Wiring,
};
use crate::stamp::EntryId;
use crate::version::Version;
use bytes::Bytes;

fn member(node: u32, role: Role) -> ChainMember {
    ChainMember {
        node: NodeId(node),
        incarnation: Incarnation(u128::from(node) << 100),
        disk: DiskId(u128::MAX - u128::from(node)),
        role,
    }
}

#[test]
fn it_comes_back_and_nothing_shorter_does() {
    let configuration = Configuration {
        epoch: 300,
        wiring: Wiring::Chain,
        members: vec![member(1, Role::Serving), member(70_000, Role::Syncing)],
        last_serving: vec![(NodeId(1), DiskId(5)), (NodeId(2), DiskId(6))],
        absent: vec![AbsentMember {
            node: NodeId(3),
            incarnation: Incarnation(6),
            disk: DiskId(7),
            left: 299,
            must_fill: true,
        }],
        safe_point: EntryId::new(7, 800),
        lossy: UncleanRecovery {
            count: 2,
            epoch: 290,
        },
        version: Version::NEWEST,
    };
    let mut bytes = Vec::new();
    configuration.encode_to(&mut bytes);
    let bytes = Bytes::from(bytes);
    assert_eq!(Configuration::decode_from(bytes.clone()), Ok(configuration));
    for size in 0..bytes.len() {
        assert!(
            Configuration::decode_from(bytes.slice(..size)).is_err(),
            "{size} bytes pass"
        );
    }
}

fn with_absent(absent: Vec<AbsentMember>) -> Configuration {
    Configuration {
        epoch: 3,
        wiring: Wiring::Star,
        members: vec![member(1, Role::Serving)],
        last_serving: vec![(NodeId(1), DiskId(5))],
        absent,
        safe_point: EntryId::new(2, 9),
        lossy: UncleanRecovery::default(),
        version: Version::OLDEST,
    }
}

#[test]
fn a_configuration_of_the_first_format_has_no_absent_member() {
    let configuration = with_absent(Vec::new());
    let mut bytes = Vec::new();
    configuration.encode_to(&mut bytes);
    assert_eq!(bytes[0], 4);
    // No member is absent, nothing was lost.
    assert_eq!(bytes.split_off(bytes.len() - 3), [0; 3]);
    bytes[0] = 1;
    assert_eq!(
        Configuration::decode_from(Bytes::from(bytes)),
        Ok(configuration)
    );
}

#[test]
fn configurations_of_the_second_format_may_name_incarnations_and_no_diverged_member() {
    let absent = |node: u32, incarnation| AbsentMember {
        node: NodeId(node),
        incarnation: Incarnation(incarnation),
        disk: DiskId(u128::MAX / u128::from(node)),
        left: 200 + u64::from(node),
        must_fill: false,
    };
    for count in 1..4 {
        for has_incarnation in [true, false] {
            let incarnation = |node: u32| u128::from(has_incarnation) << (100 + node);
            let absent: Vec<AbsentMember> = (1..=count)
                .map(|node| absent(node, incarnation(node)))
                .collect();
            let mut bytes = Vec::new();
            with_absent(Vec::new()).encode_to(&mut bytes);
            bytes.truncate(bytes.len() - 2);
            (bytes[0], *bytes.last_mut().unwrap()) = (2, count as u8);
            for it in &absent {
                put_varint(&mut bytes, u64::from(it.node.0));
                if has_incarnation {
                    bytes.extend_from_slice(&it.incarnation.0.to_be_bytes());
                }
                bytes.extend_from_slice(&it.disk.0.to_be_bytes());
                put_varint(&mut bytes, it.left);
            }
            let bytes = Bytes::from(bytes);
            assert_eq!(
                Configuration::decode_from(bytes.clone()),
                Ok(with_absent(absent))
            );
            assert!(Configuration::decode_from(bytes.slice(..bytes.len() - 1)).is_err());
        }
    }
}

#[test]
fn one_of_the_third_format_has_lost_nothing() {
    let mut bytes = Vec::new();
    with_absent(Vec::new()).encode_to(&mut bytes);
    bytes.truncate(bytes.len() - 2);
    bytes[0] = 3;
    assert_eq!(
        Configuration::decode_from(Bytes::from(bytes)),
        Ok(with_absent(Vec::new()))
    );
}

#[test]
fn version_2_keeps_its_first_bytes() {
    let old = with_absent(Vec::new());
    let mut bytes = Vec::new();
    old.encode_to(&mut bytes);
    assert_eq!((bytes[0], bytes.len()), (4, 61));
    let mut newer = Vec::new();
    let version = Version(3);
    Configuration { version, ..old }.encode_to(&mut newer);
    assert_eq!((newer[0], newer.pop()), (5, Some(3)));
    assert_eq!(newer[1..], bytes[1..]);
}
