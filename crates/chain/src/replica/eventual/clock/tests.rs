//! What stamps take from a clock, and whose clock is wrong.

use super::*;

fn at(monotonic: u64, wall: u64) -> Now {
    Now { monotonic, wall }
}

/// It shows HYBRID-1.
#[test]
fn no_stamp_is_given_twice() {
    let mut clock = Clock::after(100);
    // The wall clock stands, falls, and is raised by what a register has seen.
    let cases = [
        (50, 0, (101, 0)),
        (50, 0, (101, 1)),
        (200, 0, (200, 0)),
        (150, 0, (200, 1)),
        (150, 300, (301, 0)),
        (301, 0, (301, 1)),
    ];
    for (wall, above, given) in cases {
        assert_eq!(clock.next(at(0, wall), above), given);
    }
}

/// It shows HYBRID-2.
#[test]
fn a_bound_is_reserved_ahead_and_holds_when_it_is_durable() {
    let mut clock = Clock::default();
    clock.next(at(0, 1_000), 0);
    assert_eq!(clock.bound_due(200), Some(1_200));
    clock.reserve(1_200, Lsn(7));
    assert_eq!((clock.bound_due(200), clock.covers(1_000)), (None, false));
    clock.on_persisted(Lsn(6));
    assert!(!clock.covers(1_000));
    clock.on_persisted(Lsn(7));
    assert!(clock.covers(1_200) && !clock.covers(1_201));
    clock.next(at(0, 1_101), 0);
    assert_eq!(clock.bound_due(200), Some(1_301));
}

#[test]
fn a_majority_of_peers_decides_which_clock_drifts() {
    let now = at(10, 5_000);
    let cases: [(&[u64], bool); 6] = [
        (&[], false),
        (&[5_400], false),
        (&[5_600], true),
        (&[4_000, 5_000], false),
        (&[4_000, 4_000], true),
        (&[4_000, 4_000, 5_000], true),
    ];
    for (peers, drifts) in cases {
        let mut clock = Clock::default();
        for (node, wall) in (1..).zip(peers) {
            clock.on_peer(NodeId(node), *wall, now);
        }
        assert_eq!(clock.drifts(now, 500), drifts, "{peers:?}");
    }
}

#[test]
fn a_late_message_is_no_drift_and_a_jump_is() {
    let mut clock = Clock::default();
    clock.on_peer(NodeId(1), 1_000, at(3_000, 4_000));
    assert!(clock.drifts(at(3_000, 4_000), 500));
    clock.on_peer(NodeId(1), 4_100, at(3_100, 4_100));
    assert!(!clock.drifts(at(3_200, 4_200), 500));
    assert!(clock.drifts(at(3_200, 9_000), 500));
}
