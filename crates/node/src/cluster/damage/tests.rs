//! What a chain needs of the folder of a member that ended.

use fader_chain::controller::first;
use fader_chain::{Incarnation, Version, Wiring};

use super::*;

fn identity(node: u32, incarnation: u128) -> Identity {
    Identity {
        node: NodeId(node),
        incarnation: Incarnation(incarnation),
        disk: DiskId(u128::from(node)),
    }
}

/// What the chain needs of the folder of node 1.
fn need(newest: &Configuration, sessions: &[Identity]) -> Need {
    Need::of(newest, sessions, |node, _| node == NodeId(1))
}

#[test]
fn a_folder_is_needed_until_another_member_serves_without_it() {
    let (one, two) = (identity(1, 1), identity(2, 2));
    let both = first(&[one, two], Wiring::Star, Version::NEWEST);
    assert_eq!(need(&both, &[two]), Need::Passing);
    let without = first(&[two], Wiring::Star, Version::NEWEST);
    assert_eq!(need(&without, &[two]), Need::Nothing);
    assert_eq!(need(&without, &[]), Need::Nothing);
}

#[test]
fn a_folder_is_needed_when_no_other_member_serves() {
    let (one, two) = (identity(1, 1), identity(2, 2));
    let alone = first(&[one], Wiring::Star, Version::NEWEST);
    assert_eq!(need(&alone, &[two]), Need::Folder);
    let both = first(&[one, two], Wiring::Star, Version::NEWEST);
    assert_eq!(need(&both, &[]), Need::Folder);
    // The session of the one that ended is seen for a moment; the other one began anew.
    assert_eq!(need(&both, &[one]), Need::Folder);
    assert_eq!(need(&both, &[identity(2, 3)]), Need::Folder);
}

#[test]
fn a_member_that_joins_does_not_stand_in() {
    let (one, two) = (identity(1, 1), identity(2, 2));
    let mut both = first(&[one, two], Wiring::Star, Version::NEWEST);
    both.members[1].role = Role::Syncing;
    both.last_serving.pop();
    assert_eq!(need(&both, &[two]), Need::Folder);
}
