//! A configuration comes back as it was; anything else does not pass for one.

use crate::codec::put_varint;
use crate::config::{Away, Configuration, DiskId, Incarnation, Lossy, NodeId, Role, Seat, Wiring};
use crate::stamp::EntryId;
use crate::version::Version;
use bytes::Bytes;

fn seat(node: u32, role: Role) -> Seat {
    Seat {
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
        seats: vec![seat(1, Role::Serving), seat(70_000, Role::Syncing)],
        last_serving: vec![(NodeId(1), DiskId(5)), (NodeId(2), DiskId(6))],
        away: vec![Away {
            node: NodeId(3),
            incarnation: Incarnation(6),
            disk: DiskId(7),
            left: 299,
            must_fill: true,
        }],
        floor: EntryId::new(7, 800),
        lossy: Lossy {
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

fn with_away(away: Vec<Away>) -> Configuration {
    Configuration {
        epoch: 3,
        wiring: Wiring::Star,
        seats: vec![seat(1, Role::Serving)],
        last_serving: vec![(NodeId(1), DiskId(5))],
        away,
        floor: EntryId::new(2, 9),
        lossy: Lossy::default(),
        version: Version::OLDEST,
    }
}

#[test]
fn one_of_the_first_format_has_nobody_away() {
    let configuration = with_away(Vec::new());
    let mut bytes = Vec::new();
    configuration.encode_to(&mut bytes);
    assert_eq!(bytes[0], 4);
    // Nobody is away, nothing was lost.
    assert_eq!(bytes.split_off(bytes.len() - 3), [0; 3]);
    bytes[0] = 1;
    assert_eq!(
        Configuration::decode_from(Bytes::from(bytes)),
        Ok(configuration)
    );
}

#[test]
fn those_of_the_second_format_name_lives_or_not_and_nobody_who_differs() {
    let away = |node: u32, incarnation| Away {
        node: NodeId(node),
        incarnation: Incarnation(incarnation),
        disk: DiskId(u128::MAX / u128::from(node)),
        left: 200 + u64::from(node),
        must_fill: false,
    };
    for count in 1..4 {
        for has_life in [true, false] {
            let life = |node: u32| u128::from(has_life) << (100 + node);
            let away: Vec<Away> = (1..=count).map(|node| away(node, life(node))).collect();
            let mut bytes = Vec::new();
            with_away(Vec::new()).encode_to(&mut bytes);
            bytes.truncate(bytes.len() - 2);
            (bytes[0], *bytes.last_mut().unwrap()) = (2, count as u8);
            for it in &away {
                put_varint(&mut bytes, u64::from(it.node.0));
                if has_life {
                    bytes.extend_from_slice(&it.incarnation.0.to_be_bytes());
                }
                bytes.extend_from_slice(&it.disk.0.to_be_bytes());
                put_varint(&mut bytes, it.left);
            }
            let bytes = Bytes::from(bytes);
            assert_eq!(
                Configuration::decode_from(bytes.clone()),
                Ok(with_away(away))
            );
            assert!(Configuration::decode_from(bytes.slice(..bytes.len() - 1)).is_err());
        }
    }
}

#[test]
fn one_of_the_third_format_has_lost_nothing() {
    let mut bytes = Vec::new();
    with_away(Vec::new()).encode_to(&mut bytes);
    bytes.truncate(bytes.len() - 2);
    bytes[0] = 3;
    assert_eq!(
        Configuration::decode_from(Bytes::from(bytes)),
        Ok(with_away(Vec::new()))
    );
}

#[test]
fn what_is_written_in_version_2_is_what_was_written_before_there_were_others() {
    let old = with_away(Vec::new());
    let mut bytes = Vec::new();
    old.encode_to(&mut bytes);
    assert_eq!((bytes[0], bytes.len()), (4, 61));
    let mut newer = Vec::new();
    let version = Version(3);
    Configuration { version, ..old }.encode_to(&mut newer);
    assert_eq!((newer[0], newer.pop()), (5, Some(3)));
    assert_eq!(newer[1..], bytes[1..]);
}
