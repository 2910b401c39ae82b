//! A configuration comes back as it was; anything else does not pass for one.

use bytes::Bytes;
use fader_chain::{Configuration, DiskId, EntryId, Incarnation, NodeId, Role, Seat, Wiring};

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
