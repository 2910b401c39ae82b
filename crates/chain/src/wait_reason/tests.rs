//! Each thing that a chain can wait for, told by what a controller knows; and nothing, where there
//! is nothing.

use super::*;
use crate::config::{AbsentMember, Incarnation, UncleanRecovery, Wiring};
use crate::controller::Reports;
use crate::replica::{Identity, Report};
use crate::stamp::EntryId;
use crate::version::Version;

fn member(node: u32, incarnation: u128) -> Identity {
    Identity {
        node: NodeId(node),
        incarnation: Incarnation(incarnation),
        disk: DiskId(u128::from(node)),
    }
}

/// `1 2s`: the first serves, the second joins; `2l` leaves.
fn chain(members: &str) -> Configuration {
    let members = members.split_whitespace().map(|word| {
        let it = member(word.trim_end_matches(['s', 'l']).parse().unwrap(), 1);
        ChainMember {
            node: it.node,
            incarnation: it.incarnation,
            disk: it.disk,
            role: match word.chars().last() {
                Some('s') => Role::Syncing,
                Some('l') => Role::Leaving,
                _ => Role::Serving,
            },
        }
    });
    let members: Vec<ChainMember> = members.collect();
    let serving = members.iter().filter(|member| member.role == Role::Serving);
    Configuration {
        epoch: 7,
        wiring: Wiring::Star,
        last_serving: serving.map(|member| (member.node, member.disk)).collect(),
        members,
        absent: Vec::new(),
        safe_point: EntryId::ZERO,
        lossy: UncleanRecovery::default(),
        version: Version::OLDEST,
    }
}

/// Those with sessions, all of whom have adopted epoch 7.
fn observed(sessions: &[(u32, u128)]) -> ObservedState {
    let sessions: Vec<Identity> = sessions.iter().map(|it| member(it.0, it.1)).collect();
    let mut reports = Reports::default();
    for it in &sessions {
        reports.note(it.node, Report::Adopted { epoch: 7 });
    }
    ObservedState {
        sessions,
        unheard: Vec::new(),
        reports,
        size: 3,
        unwanted: Vec::new(),
        wiring: Wiring::Star,
        role_change: None,
        raise_safe_point: true,
        restart: None,
        version: Version::OLDEST,
    }
}

const ALL: [(u32, u128); 3] = [(1, 1), (2, 1), (3, 1)];

fn told(members: &str, observed: &ObservedState) -> Vec<WaitReason> {
    wait_reasons(&chain(members), observed, &[])
}

#[test]
fn a_chain_that_a_member_leaves_waits_for_its_handoff() {
    let leaving = ObservedState {
        size: 2,
        unwanted: vec![NodeId(3)],
        version: Version::NEWEST,
        ..observed(&ALL)
    };
    let mut current = chain("1 2 3l");
    current.version = Version::NEWEST;
    assert_eq!(
        wait_reasons(&current, &leaving, &[]),
        [WaitReason::Handoff(NodeId(3))]
    );
}

#[test]
fn a_chain_that_is_whole_waits_for_nothing() {
    assert_eq!(told("1 2 3", &observed(&ALL)), []);
}

#[test]
fn all_down_names_the_disks_that_may_begin_again() {
    let disks = [1, 2].map(|node| (NodeId(node), DiskId(node.into())));
    let waits = told("1 2 3s", &observed(&[(3, 1), (4, 1)]));
    assert_eq!(waits, [WaitReason::Restart(disks.to_vec())]);
    // One of them is back, in another incarnation: the chain goes on by itself, with it or another
    // one.
    let waits = told("1 2 3s", &observed(&[(2, 2)]));
    assert_eq!(waits, [WaitReason::Others(disks[..1].to_vec())]);
    let chosen = ObservedState {
        restart: Some(member(2, 2)),
        ..observed(&[(2, 2)])
    };
    assert_eq!(told("1 2 3s", &chosen), [WaitReason::Publication(8)]);
    let waits = told("1 2 3s", &observed(&[(2, 2), (1, 2)]));
    assert_eq!(waits, [WaitReason::Publication(8)]);
}

#[test]
fn a_member_that_is_silent_is_waited_for() {
    let silent = [NodeId(2), NodeId(9)];
    let waits = wait_reasons(&chain("1 2 3"), &observed(&ALL), &silent);
    assert_eq!(waits, [WaitReason::Session(NodeId(2))]);
}

#[test]
fn a_configuration_to_publish_is_reported() {
    assert_eq!(
        told("1 2 3", &observed(&ALL[1..])),
        [WaitReason::Publication(8)]
    );
    let newer = ObservedState {
        version: Version(3),
        ..observed(&ALL)
    };
    assert_eq!(told("1 2 3", &newer), [WaitReason::Publication(8)]);
}

#[test]
fn members_that_have_not_adopted_the_epoch_are_reported() {
    let mut observed = observed(&ALL);
    observed.reports = Reports::default();
    observed
        .reports
        .note(NodeId(1), Report::Adopted { epoch: 7 });
    observed
        .reports
        .note(NodeId(3), Report::Adopted { epoch: 6 });
    let late = [2, 3].map(|node| WaitReason::Adoption(NodeId(node), 7));
    assert_eq!(told("1 2 3", &observed), late);
}

#[test]
fn a_joining_member_arrives_and_is_heard() {
    let mut observed = observed(&ALL);
    assert_eq!(told("1 2 3s", &observed), [WaitReason::Arrival(NodeId(3))]);
    let (epoch, last) = (7, EntryId::new(7, 9));
    observed
        .reports
        .note(NodeId(3), Report::SyncDone { epoch, last });
    assert_eq!(told("1 2 3s", &observed), [WaitReason::Hearing(NodeId(3))]);
    let node = NodeId(3);
    observed
        .reports
        .note(NodeId(1), Report::Heard { epoch, node });
    assert_eq!(told("1 2 3s", &observed), [WaitReason::Publication(8)]);
}

#[test]
fn a_later_member_waits_for_its_turn_to_join() {
    let (joining, last) = (NodeId(2), NodeId(3));
    let waits = told("1 2s", &observed(&ALL));
    assert_eq!(
        waits,
        [
            WaitReason::Arrival(joining),
            WaitReason::Turn(last, joining)
        ]
    );
    // What is not wanted waits for nothing.
    let waits = told("1 2 3", &observed(&[(1, 1), (2, 1), (3, 1), (4, 1)]));
    assert_eq!(waits, []);
}

#[test]
fn members_that_are_missing_are_told() {
    assert_eq!(
        told("1 2", &observed(&ALL[..2])),
        [WaitReason::Members(2, 3)]
    );
}

#[test]
fn a_removed_member_begins_another_incarnation() {
    let mut current = chain("1 2");
    current.absent.push(AbsentMember {
        node: NodeId(3),
        incarnation: Incarnation(1),
        disk: DiskId(3),
        left: 7,
        must_fill: false,
    });
    let told = wait_reasons(&current, &observed(&ALL), &[]);
    assert_eq!(told, [WaitReason::Incarnation(NodeId(3))]);
    // One that has stopped because it knows more begins none by itself (LD-2).
    let mut ahead = observed(&ALL);
    let (epoch, entries) = (7, 20);
    ahead
        .reports
        .note(NodeId(3), Report::Ahead { epoch, entries });
    let told = wait_reasons(&current, &ahead, &[]);
    assert_eq!(told, [WaitReason::Operator(NodeId(3), 20)]);
}

#[test]
fn a_slow_member_is_told_while_it_cannot_be_left_out() {
    let mut observed = observed(&ALL[..1]);
    let (epoch, node) = (7, NodeId(1));
    observed
        .reports
        .note(NodeId(1), Report::Slow { epoch, node });
    let waits = told("1", &observed);
    assert_eq!(waits, [WaitReason::Slow(node), WaitReason::Members(1, 3)]);
}
