//! A configuration comes back as it was; anything else does not pass for one.

use bytes::Bytes;
use fader_chain::{Away, Configuration, DiskId, EntryId, Incarnation, NodeId, Role, Seat, Wiring};

use super::{decode, encode};

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
        }],
        floor: EntryId::new(7, 800),
    };
    let mut bytes = Vec::new();
    encode(&configuration, &mut bytes);
    let bytes = Bytes::from(bytes);
    assert_eq!(decode(bytes.clone()), Ok(configuration));
    for size in 0..bytes.len() {
        assert!(decode(bytes.slice(..size)).is_err(), "{size} bytes pass");
    }
}

#[test]
fn one_of_the_first_format_has_nobody_away() {
    let configuration = Configuration {
        epoch: 3,
        wiring: Wiring::Star,
        seats: vec![seat(1, Role::Serving)],
        last_serving: vec![(NodeId(1), DiskId(5))],
        away: Vec::new(),
        floor: EntryId::new(2, 9),
    };
    let mut bytes = Vec::new();
    encode(&configuration, &mut bytes);
    assert_eq!((bytes[0], bytes.pop()), (2, Some(0)));
    bytes[0] = 1;
    assert_eq!(decode(Bytes::from(bytes)), Ok(configuration));
}
