//! The words of modes, what each mode allows, and what is kept of a collection's.

use super::*;
use crate::config::{DiskId, Incarnation, NodeId, Wiring};

#[test]
fn a_collection_is_created_in_a_mode_of_rest() {
    for mode in Mode::ALL {
        let parsed: Result<Mode, UnknownMode> = format!(" {mode} ").parse();
        let promised = mode.promised();
        assert_eq!(parsed.ok(), promised.is_at_rest().then_some(promised));
    }
    assert_eq!(
        "draining".parse::<Mode>().unwrap_err().to_string(),
        "'draining' is no mode of a collection: one of strong, mixed and eventual"
    );
}

#[test]
fn modes_allow_what_the_table_says() {
    let allowed = |mode: Mode| {
        let writes = (mode.takes_strong(), mode.takes_eventual());
        (writes, mode.settles_eventual(), mode.keeps_marks())
    };
    let expected = [
        ((true, false), false, false),
        ((true, false), false, true),
        ((true, true), true, true),
        ((true, false), true, true),
        ((false, true), true, true),
    ];
    assert_eq!(Mode::ALL.map(allowed), expected);
}

#[test]
fn bytes_are_frozen() {
    assert_eq!(Mode::ALL.map(Mode::byte), [0, 1, 2, 3, 4]);
    let modes = (0..=u8::MAX).filter_map(Mode::from_byte);
    assert!(modes.eq(Mode::ALL));
    let standing = ModeState {
        mode: Mode::Draining,
        since: EntryId::new(300, 2),
        opened: EntryId::new(1, 4),
        is_abandoned: true,
    };
    let bytes = standing.encode();
    assert_eq!(&bytes[..], b"\x03\xac\x02\x02\x01\x04\x01");
    assert_eq!(ModeState::decode(bytes.clone()), Ok(standing));
    for size in 0..bytes.len() {
        assert!(ModeState::decode(bytes.slice(..size)).is_err(), "{size}");
    }
}

/// It shows MODE-1.
#[test]
fn the_opening_entry_is_known_until_the_collection_is_strong_again() {
    let id = |index| EntryId::new(1, index);
    let turn = |standing: ModeState, mode, index| standing.turned(mode, false, id(index));
    let mixed = turn(ModeState::default(), Mode::Mixed, 5).unwrap();
    assert_eq!((mixed.since, mixed.opened), (id(5), id(5)));
    let draining = turn(mixed, Mode::Draining, 7).unwrap();
    assert_eq!((draining.since, draining.opened), (id(7), id(5)));
    assert_eq!(turn(draining, Mode::Eventual, 8).unwrap().opened, id(5));
    let drained = turn(draining, Mode::Drained, 8).unwrap();
    assert_eq!(turn(drained, Mode::Strong, 9), None);
    let again = turn(drained, Mode::Mixed, 9).unwrap();
    assert_eq!(turn(ModeState::default(), Mode::Mixed, 9), Some(again));
    let settles = |standing: ModeState| [4, 5, 8, 9].map(|accept| standing.settles(id(accept)));
    assert_eq!(settles(mixed), [false, true, true, true]);
    assert_eq!(settles(draining), [false, true, true, true]);
    assert_eq!(settles(drained), [false; 4]);
    assert_eq!(settles(ModeState::default()), [false; 4]);
    assert_eq!(settles(again), [false, false, false, true]);
}

#[test]
fn it_waits_for_members_that_may_have_taken_operations() {
    let absent = |node, left| AbsentMember {
        node: NodeId(node),
        incarnation: Incarnation(1),
        disk: DiskId(u128::from(node)),
        left,
        must_fill: false,
    };
    let configuration = Configuration {
        epoch: 9,
        wiring: Wiring::Star,
        members: Vec::new(),
        last_serving: Vec::new(),
        absent: vec![absent(1, 4), absent(2, 5), absent(3, 6)],
        safe_point: EntryId::ZERO,
        lossy: crate::config::UncleanRecovery::default(),
        version: crate::version::Version::NEWEST,
    };
    let mut draining = ModeState {
        mode: Mode::Draining,
        since: EntryId::new(8, 20),
        opened: EntryId::new(5, 10),
        is_abandoned: false,
    };
    // Without a membership in the epoch that opened it, no member has it open.
    let nodes = |standing: &ModeState| -> Vec<u32> {
        let awaited = standing.awaits(&configuration);
        awaited.map(|absent| absent.node.0).collect()
    };
    assert_eq!(nodes(&draining), [3]);
    draining.is_abandoned = true;
    assert_eq!(nodes(&draining), []);
}
