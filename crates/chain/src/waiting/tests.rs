//! Each thing that a chain can wait for, told by what a controller knows; and nothing, where there
//! is nothing.

use super::*;
use crate::config::{Away, Incarnation, Lossy, Wiring};
use crate::controller::Reports;
use crate::replica::{Identity, Report};
use crate::stamp::EntryId;
use crate::version::Version;

fn member(node: u32, life: u128) -> Identity {
    Identity {
        node: NodeId(node),
        incarnation: Incarnation(life),
        disk: DiskId(u128::from(node)),
    }
}

/// `1 2s`: the first serves, the second joins; `2l` leaves.
fn chain(seats: &str) -> Configuration {
    let seats = seats.split_whitespace().map(|word| {
        let it = member(word.trim_end_matches(['s', 'l']).parse().unwrap(), 1);
        Seat {
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
    let seats: Vec<Seat> = seats.collect();
    let serving = seats.iter().filter(|seat| seat.role == Role::Serving);
    Configuration {
        epoch: 7,
        wiring: Wiring::Star,
        last_serving: serving.map(|seat| (seat.node, seat.disk)).collect(),
        seats,
        away: Vec::new(),
        floor: EntryId::ZERO,
        lossy: Lossy::default(),
        version: Version::OLDEST,
    }
}

/// Those with sessions, all of whom have adopted epoch 7.
fn facts(sessions: &[(u32, u128)]) -> Facts {
    let sessions: Vec<Identity> = sessions.iter().map(|it| member(it.0, it.1)).collect();
    let mut reports = Reports::default();
    for it in &sessions {
        reports.note(it.node, Report::Adopted { epoch: 7 });
    }
    Facts {
        sessions,
        unheard: Vec::new(),
        reports,
        size: 3,
        unwanted: Vec::new(),
        wiring: Wiring::Star,
        shift: None,
        raise_floor: true,
        restart: None,
        version: Version::OLDEST,
    }
}

const ALL: [(u32, u128); 3] = [(1, 1), (2, 1), (3, 1)];

fn told(seats: &str, facts: &Facts) -> Vec<Wait> {
    waits(&chain(seats), facts, &[])
}

#[test]
fn a_chain_that_a_member_leaves_waits_for_what_it_hands_on() {
    let leaving = Facts {
        size: 2,
        unwanted: vec![NodeId(3)],
        version: Version::NEWEST,
        ..facts(&ALL)
    };
    let mut current = chain("1 2 3l");
    current.version = Version::NEWEST;
    assert_eq!(waits(&current, &leaving, &[]), [Wait::HandingOn(NodeId(3))]);
}

#[test]
fn a_chain_that_is_whole_waits_for_nothing() {
    assert_eq!(told("1 2 3", &facts(&ALL)), []);
}

#[test]
fn all_down_names_the_disks_that_may_begin_again() {
    let disks = [1, 2].map(|node| (NodeId(node), DiskId(node.into())));
    let waits = told("1 2 3s", &facts(&[(3, 1), (4, 1)]));
    assert_eq!(waits, [Wait::Restart(disks.to_vec())]);
    // One of them is back, in another life: the chain goes on by itself, with it or another one.
    let waits = told("1 2 3s", &facts(&[(2, 2)]));
    assert_eq!(waits, [Wait::Others(disks[..1].to_vec())]);
    let chosen = Facts {
        restart: Some(member(2, 2)),
        ..facts(&[(2, 2)])
    };
    assert_eq!(told("1 2 3s", &chosen), [Wait::Publication(8)]);
    let waits = told("1 2 3s", &facts(&[(2, 2), (1, 2)]));
    assert_eq!(waits, [Wait::Publication(8)]);
}

#[test]
fn a_member_that_is_silent_is_waited_for() {
    let silent = [NodeId(2), NodeId(9)];
    let waits = waits(&chain("1 2 3"), &facts(&ALL), &silent);
    assert_eq!(waits, [Wait::Session(NodeId(2))]);
}

#[test]
fn what_a_controller_is_to_publish_is_told() {
    assert_eq!(told("1 2 3", &facts(&ALL[1..])), [Wait::Publication(8)]);
    let newer = Facts {
        version: Version(3),
        ..facts(&ALL)
    };
    assert_eq!(told("1 2 3", &newer), [Wait::Publication(8)]);
}

#[test]
fn who_has_not_adopted_the_epoch_is_told() {
    let mut facts = facts(&ALL);
    facts.reports = Reports::default();
    facts.reports.note(NodeId(1), Report::Adopted { epoch: 7 });
    facts.reports.note(NodeId(3), Report::Adopted { epoch: 6 });
    let late = [2, 3].map(|node| Wait::Adoption(NodeId(node), 7));
    assert_eq!(told("1 2 3", &facts), late);
}

#[test]
fn a_joining_member_arrives_and_is_heard() {
    let mut facts = facts(&ALL);
    assert_eq!(told("1 2 3s", &facts), [Wait::Arrival(NodeId(3))]);
    let (epoch, last) = (7, EntryId::new(7, 9));
    facts
        .reports
        .note(NodeId(3), Report::SyncDone { epoch, last });
    assert_eq!(told("1 2 3s", &facts), [Wait::Hearing(NodeId(3))]);
    let node = NodeId(3);
    facts.reports.note(NodeId(1), Report::Heard { epoch, node });
    assert_eq!(told("1 2 3s", &facts), [Wait::Publication(8)]);
}

#[test]
fn who_joins_later_waits_for_its_turn() {
    let (joining, last) = (NodeId(2), NodeId(3));
    let waits = told("1 2s", &facts(&ALL));
    assert_eq!(waits, [Wait::Arrival(joining), Wait::Turn(last, joining)]);
    // What is not wanted waits for nothing.
    let waits = told("1 2 3", &facts(&[(1, 1), (2, 1), (3, 1), (4, 1)]));
    assert_eq!(waits, []);
}

#[test]
fn members_that_are_missing_are_told() {
    assert_eq!(told("1 2", &facts(&ALL[..2])), [Wait::Members(2, 3)]);
}

#[test]
fn who_was_left_out_begins_another_life() {
    let mut current = chain("1 2");
    current.away.push(Away {
        node: NodeId(3),
        incarnation: Incarnation(1),
        disk: DiskId(3),
        left: 7,
        must_fill: false,
    });
    let told = waits(&current, &facts(&ALL), &[]);
    assert_eq!(told, [Wait::Life(NodeId(3))]);
    // One that has stopped because it knows more begins none by itself (LD-2).
    let mut ahead = facts(&ALL);
    let (epoch, entries) = (7, 20);
    ahead
        .reports
        .note(NodeId(3), Report::Ahead { epoch, entries });
    let told = waits(&current, &ahead, &[]);
    assert_eq!(told, [Wait::Operator(NodeId(3), 20)]);
}

#[test]
fn a_slow_member_is_told_while_it_cannot_be_left_out() {
    let mut facts = facts(&ALL[..1]);
    let (epoch, node) = (7, NodeId(1));
    facts.reports.note(NodeId(1), Report::Slow { epoch, node });
    let waits = told("1", &facts);
    assert_eq!(waits, [Wait::Slow(node), Wait::Members(1, 3)]);
}
