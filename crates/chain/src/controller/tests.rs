//! The next configuration, for what a controller can know.

use std::time::Duration;

use super::*;
use crate::config::{DiskId, Incarnation};
use crate::progress::Progress;

fn member(node: u32, incarnation: u128) -> Identity {
    Identity {
        node: NodeId(node),
        incarnation: Incarnation(incarnation),
        disk: DiskId(u128::from(node)),
    }
}

/// `1 2 3s`: nodes in order, each in its first incarnation; `s` for syncing, `l` for leaving.
fn chain(epoch: u64, members: &str) -> Configuration {
    let members: Vec<ChainMember> = members
        .split_whitespace()
        .map(|word| {
            let node = word.trim_end_matches(['s', 'l']).parse().unwrap();
            let role = match word.chars().last() {
                Some('s') => Role::Syncing,
                Some('l') => Role::Leaving,
                _ => Role::Serving,
            };
            chain_member(member(node, 1), role)
        })
        .collect();
    let serving = members.iter().filter(|member| member.role == Role::Serving);
    Configuration {
        epoch,
        wiring: Wiring::Star,
        last_serving: serving.map(|member| (member.node, member.disk)).collect(),
        absent: Vec::new(),
        members,
        safe_point: EntryId::ZERO,
        lossy: crate::config::UncleanRecovery::default(),
        version: Version::NEWEST,
    }
}

fn observed(sessions: &[(u32, u128)]) -> ObservedState {
    ObservedState {
        sessions: sessions
            .iter()
            .map(|(node, incarnation)| member(*node, *incarnation))
            .collect(),
        unheard: Vec::new(),
        reports: Reports::default(),
        size: 3,
        unwanted: Vec::new(),
        wiring: Wiring::Star,
        role_change: None,
        raise_safe_point: false,
        restart: None,
        version: Version::OLDEST,
    }
}

fn members_of(configuration: &Configuration) -> String {
    let words = configuration.members.iter().map(|member| {
        let role = match member.role {
            Role::Serving => "",
            Role::Syncing => "s",
            Role::Leaving => "l",
        };
        format!("{}{role}", member.node.0)
    });
    words.collect::<Vec<_>>().join(" ")
}

/// The same facts, where the first that is back begins a chain again that is down.
fn begun(current: &Configuration, observed: &ObservedState) -> ObservedState {
    ObservedState {
        restart: returned(current, &observed.sessions).first().copied(),
        ..observed.clone()
    }
}

/// The members of the next configuration, or `-`.
fn after(current: &Configuration, observed: &ObservedState) -> String {
    let next = next(current, &begun(current, observed));
    if let Some(next) = &next {
        assert_eq!(next.epoch, current.epoch + 1);
        assert!(next.serving().next().is_some(), "CONFIG-2");
    }
    next.map_or("-".to_string(), |next| members_of(&next))
}

/// A configuration, the incarnations that have sessions, and what follows.
type Case = (&'static str, &'static [(u32, u128)], &'static str);

/// It shows JN-1, RM-1, RM-2, CTRL-1, CTRL-3 and CONFIG-1.
#[test]
fn members_go_with_their_sessions_and_others_take_their_place() {
    let cases: [Case; 9] = [
        ("1 2 3", &[(1, 1), (2, 1), (3, 1)], "-"),
        ("1 2 3", &[(2, 1), (3, 1)], "2 3"),
        ("1 2 3", &[(3, 1)], "3"),
        // The last serving member stays, and what is behind it waits with it.
        ("1 2s", &[(2, 1)], "-"),
        ("1 2 3", &[], "-"),
        // Another incarnation of a member is not that member.
        ("1 2 3", &[(1, 2), (2, 1), (3, 1)], "2 3 1s"),
        // One at a time.
        ("1", &[(1, 1), (2, 1), (3, 1)], "1 2s"),
        ("1 2s", &[(1, 1), (2, 1), (3, 1)], "-"),
        // No more than wanted.
        ("1 2 3", &[(1, 1), (2, 1), (3, 1), (4, 1)], "-"),
    ];
    for (members, sessions, expected) in cases {
        assert_eq!(
            after(&chain(7, members), &observed(sessions)),
            expected,
            "{members} {sessions:?}"
        );
    }
}

/// It shows AL-2 and CTRL-2.
#[test]
fn one_of_the_last_serving_members_recovers_alone() {
    let current = chain(7, "1 2 3s");
    let back = next(&current, &begun(&current, &observed(&[(2, 2)]))).unwrap();
    assert_eq!(members_of(&back), "2");
    assert_eq!(back.last_serving, [(NodeId(2), DiskId(2))]);
    // A member that was joining cannot.
    assert_eq!(after(&current, &observed(&[(3, 2)])), "-");
    // Nor one whose disk is another.
    let mut stranger = observed(&[]);
    stranger.sessions = vec![Identity {
        disk: DiskId(9),
        ..member(2, 2)
    }];
    assert_eq!(after(&current, &stranger), "-");
}

/// A time in ms, the members that are back by then, and the one that begins the chain again.
type Look<'a> = (u64, &'a [(u32, u128)], Option<u32>);

/// A chain that served last with members 1 to 3, whose disks have entries up to these. At each of
/// these times, in ms, these are back, and this one begins it again; sessions last a second.
fn check_returning(last: [u64; 3], looks: &[Look<'_>]) {
    let current = chain(7, "1 2 3 4s");
    let mut returning = Returning::default();
    for (now, sessions, expected) in looks {
        let chosen = returning.choose::<()>(
            Duration::from_millis(*now),
            Duration::from_secs(1),
            &current,
            &observed(sessions).sessions,
            |DiskId(disk)| {
                Ok(Progress {
                    epoch: 7,
                    last: EntryId::new(7, last[disk as usize - 1]),
                })
            },
        );
        let chosen = chosen.unwrap().map(|it| it.node.0);
        assert_eq!(chosen, *expected, "at {now} {sessions:?} of {last:?}");
    }
}

#[test]
fn of_those_that_served_last_the_one_with_the_highest_last_id_begins_again() {
    const LIVE: &[(u32, u128)] = &[(1, 1), (2, 2), (3, 2)];
    const ALL: &[(u32, u128)] = &[(1, 2), (2, 2), (3, 2), (4, 2)];
    const TWO: &[(u32, u128)] = &[(1, 2), (2, 2), (4, 2)];
    const ONE: &[(u32, u128)] = &[(1, 2)];
    // All are back: there is nothing to wait for. Of equal ones it is the first.
    check_returning([5, 6, 6], &[(0, ALL, Some(2))]);
    check_returning([5, 5, 6], &[(9_000, ALL, Some(3))]);
    // Others are waited for as long as a session lasts, from when the first was seen.
    let waits = [
        (5_000, ONE, None),
        (5_400, TWO, None),
        (5_999, TWO, None),
        (6_000, TWO, Some(2)),
    ];
    check_returning([5, 6, 7], &waits);
    check_returning([5, 6, 7], &[(0, ONE, None), (1_000, ONE, Some(1))]);
    // Anew where all had gone, or one served, in between.
    for between in [&[], LIVE] {
        let anew = [(0, ONE, None), (900, between, None), (1_000, ONE, None)];
        check_returning([5, 6, 7], &anew);
    }
    // A member that joined is none of them.
    check_returning([5, 6, 7], &[(0, &[(4, 2)], None), (9_000, &[(4, 2)], None)]);
}

/// It shows AL-2, TRACE-19 and CTRL-6.
#[test]
fn a_member_that_may_believe_to_serve_stays_when_another_recovers() {
    // 3 was made to join, lives, and has not heard of it: until its lease ends it shows what was.
    let current = chain(7, "1 2 3s");
    let mut observed = observed(&[(3, 1), (2, 2)]);
    assert_eq!(after(&current, &observed), "2 3s");
    let epoch = current.epoch;
    observed.reports.note(NodeId(3), Report::Adopted { epoch });
    assert_eq!(after(&current, &observed), "2");
    // Nor does it keep a member waiting when its session is over.
    observed.sessions.remove(0);
    assert_eq!(after(&current, &observed), "2");
}

#[test]
fn a_member_serves_when_it_is_synced_in_the_current_epoch() {
    let last = EntryId::new(7, 1);
    for (epoch, expected) in [(6, "-"), (7, "1 2")] {
        let mut observed = observed(&[(1, 1), (2, 1)]);
        observed
            .reports
            .note(NodeId(2), Report::SyncDone { epoch, last });
        assert_eq!(
            after(&chain(7, "1 2s"), &observed),
            "-",
            "no member hears it"
        );
        let node = NodeId(2);
        observed
            .reports
            .note(NodeId(1), Report::Heard { epoch, node });
        assert_eq!(after(&chain(7, "1 2s"), &observed), expected);
    }
    // Synced and alone: as if two epochs had followed each other.
    let mut observed = observed(&[(2, 1)]);
    observed
        .reports
        .note(NodeId(2), Report::SyncDone { epoch: 7, last });
    let (epoch, node) = (7, NodeId(2));
    observed
        .reports
        .note(NodeId(1), Report::Heard { epoch, node });
    assert_eq!(after(&chain(7, "1 2s"), &observed), "2");
}

/// It shows RM-3.
#[test]
fn live_members_change_places() {
    let cases = [
        ("1 2 3", RoleChange::Head(NodeId(3)), "3 1 2"),
        ("1 2 3", RoleChange::Back(NodeId(1)), "2 3 1"),
        ("1 2 3s", RoleChange::Back(NodeId(1)), "2 1 3s"),
        ("1 2 3", RoleChange::Demote(NodeId(1)), "2 3 1s"),
        ("1 2 3s", RoleChange::Demote(NodeId(1)), "-"),
        ("1 2 3s", RoleChange::Head(NodeId(3)), "-"),
        ("1 2s", RoleChange::Back(NodeId(1)), "-"),
    ];
    for (members, role_change, expected) in cases {
        let mut observed = observed(&[(1, 1), (2, 1), (3, 1)]);
        observed.role_change = Some(role_change);
        assert_eq!(
            after(&chain(7, members), &observed),
            expected,
            "{members} {role_change:?}"
        );
    }
}

/// It shows CTRL-4.
#[test]
fn the_floor_is_what_all_have_applied_in_this_epoch() {
    let current = chain(7, "1 2");
    let safe_point = |epoch, index, gap| Report::Floor {
        epoch,
        applied: EntryId::new(7, index),
        gap,
    };
    let cases = [
        (
            vec![safe_point(7, 5, false), safe_point(7, 4, false)],
            Some(EntryId::new(7, 4)),
        ),
        (vec![safe_point(7, 5, false)], None),
        (vec![safe_point(7, 5, false), safe_point(6, 4, false)], None),
        (vec![safe_point(7, 5, false), safe_point(7, 4, true)], None),
    ];
    for (reports, expected) in cases {
        let mut observed = observed(&[(1, 1), (2, 1)]);
        observed.raise_safe_point = true;
        for (node, report) in (1..).zip(&reports) {
            observed.reports.note(NodeId(node), *report);
        }
        let raised = next(&current, &observed).map(|next| next.safe_point);
        assert_eq!(raised, expected, "{reports:?}");
    }
}

/// Who is absent, as `node@left`.
fn absent_of(configuration: &Configuration) -> String {
    let words = configuration.absent.iter();
    let words = words.map(|absent| format!("{}@{}", absent.node.0, absent.left));
    words.collect::<Vec<_>>().join(" ")
}

/// It shows CTRL-5.
#[test]
fn a_removed_member_is_absent_until_it_serves_again() {
    let step = |current: &Configuration, observed: &ObservedState| {
        next(current, &begun(current, observed)).unwrap()
    };
    let two = step(&chain(7, "1 2 3"), &observed(&[(2, 1), (3, 1)]));
    assert_eq!(
        (members_of(&two), absent_of(&two)),
        ("2 3".into(), "1@8".into())
    );
    // It joins, and has not handed off what it held.
    let mut living = observed(&[(1, 2), (2, 1), (3, 1)]);
    let joins = step(&two, &living);
    assert_eq!(
        (members_of(&joins), absent_of(&joins)),
        ("2 3 1s".into(), "1@8".into())
    );
    // What it took while it was joining counts as well.
    living.role_change = Some(RoleChange::Head(NodeId(3)));
    let moved = step(&joins, &living);
    assert_eq!(
        (members_of(&moved), absent_of(&moved)),
        ("3 2 1s".into(), "1@10".into())
    );
    living.role_change = None;
    let (epoch, last) = (moved.epoch, EntryId::new(7, 1));
    living
        .reports
        .note(NodeId(1), Report::SyncDone { epoch, last });
    let node = NodeId(1);
    living
        .reports
        .note(moved.head(), Report::Heard { epoch, node });
    let whole = step(&moved, &living);
    assert_eq!(
        (members_of(&whole), absent_of(&whole)),
        ("3 2 1".into(), String::new())
    );
    // A slow one is absent while it does not serve; of all that were down, those that are not back.
    living.role_change = Some(RoleChange::Demote(NodeId(2)));
    assert_eq!(absent_of(&step(&whole, &living)), "2@12");
    assert_eq!(absent_of(&step(&whole, &observed(&[(2, 2)]))), "3@12 1@12");
    // Its disk is gone; the node that has its place has another number.
    assert_eq!(
        absent_of(&step(&two, &observed(&[(2, 1), (3, 1), (4, 1)]))),
        "1@8"
    );
}

/// It shows DG-2.
#[test]
fn a_diverged_member_goes_on_as_a_joining_member() {
    // Who differs, who has adopted the epoch, and what follows.
    let cases: [(&str, u32, &[u32], &str); 7] = [
        ("1 2 3", 2, &[], "1 3 2s"),
        ("1 2 3", 1, &[], "2 3 1s"),
        ("1", 1, &[], "-"),
        ("1 2s", 1, &[2], "-"),
        // One at a time: who joins now leaves, once it is sure that it does not believe to serve.
        ("1 2 3s", 2, &[3], "1 2s"),
        ("1 2 3s", 2, &[1, 2], "-"),
        ("1 2 3s", 3, &[3], "-"),
    ];
    for (members, differs, adopted, expected) in cases {
        let mut observed = observed(&[(1, 1), (2, 1), (3, 1)]);
        observed.size = chain(7, members).size();
        for node in adopted {
            let report = Report::Adopted { epoch: 7 };
            observed.reports.note(NodeId(*node), report);
        }
        let id = EntryId::new(7, 1);
        let node = NodeId(differs);
        let report = |epoch| Report::Differs { epoch, id, node };
        observed.reports.note(NodeId(1), report(6));
        assert_eq!(
            after(&chain(7, members), &observed),
            "-",
            "of an older epoch"
        );
        observed.reports.note(NodeId(1), report(7));
        assert_eq!(after(&chain(7, members), &observed), expected, "{members}");
    }
}

/// It shows DG-3 and CTRL-7.
#[test]
fn a_diverged_member_must_fill_until_it_serves() {
    let disk = member(2, 1).disk;
    let mut told = observed(&[(1, 1), (2, 1), (3, 1)]);
    let (id, node) = (EntryId::new(7, 1), NodeId(2));
    let report = Report::Differs { epoch: 7, id, node };
    told.reports.note(NodeId(1), report);
    let demoted = next(&chain(7, "1 2 3"), &told).unwrap();
    assert_eq!(members_of(&demoted), "1 3 2s");
    // It crashes, it comes back, and what the controllers heard is forgotten.
    let removed = next(&demoted, &observed(&[(1, 1), (3, 1)])).unwrap();
    let joined = next(&removed, &observed(&[(1, 1), (2, 2), (3, 1)])).unwrap();
    assert_eq!(members_of(&joined), "1 3 2s");
    let mut synced = observed(&[(1, 1), (2, 2), (3, 1)]);
    let (last, epoch) = (EntryId::ZERO, joined.epoch);
    synced.reports.note(node, Report::SyncDone { epoch, last });
    synced
        .reports
        .note(NodeId(1), Report::Heard { epoch, node });
    let serving = next(&joined, &synced).unwrap();
    assert_eq!(members_of(&serving), "1 3 2");
    let marks = [&demoted, &removed, &joined, &serving].map(|it| it.must_fill(disk));
    assert_eq!(marks, [true, true, true, false]);
    let others = demoted.absent.iter().filter(|absent| absent.must_fill);
    assert_eq!(others.count(), 1);
    // It is removed with the epoch that would have demoted it.
    told.sessions.remove(1);
    let removed = next(&chain(7, "1 2 3"), &told).unwrap();
    assert_eq!(
        (&*members_of(&removed), removed.must_fill(disk)),
        ("1 3", true)
    );
}

/// It shows RM-2.
#[test]
fn a_member_without_a_session_takes_nobodys_place() {
    // Of two that serve one differs, and the other one is dead.
    let mut observed = observed(&[(1, 1)]);
    let (id, node) = (EntryId::new(7, 1), NodeId(1));
    let report = Report::Differs { epoch: 7, id, node };
    observed.reports.note(NodeId(2), report);
    assert_eq!(after(&chain(7, "1 2"), &observed), "1");
}

/// It shows SL-3, SL-4 and JN-1.
#[test]
fn a_slow_member_goes_to_the_end_and_then_out() {
    // Who is slow, who has adopted the epoch, and what follows.
    let cases: [(&str, u32, &[u32], &str); 6] = [
        ("1 2 3", 2, &[], "1 3 2s"),
        ("1 2 3", 1, &[], "2 3 1s"),
        ("1 3 2s", 2, &[], "-"),
        ("1 3 2s", 2, &[2], "1 3"),
        ("1 3 2s", 3, &[2], "1 3s"),
        // The incarnation that was left out joins no more, here and later: another member does.
        ("1 2s", 2, &[2], "1 3s"),
    ];
    for (members, slow, adopted, expected) in cases {
        let current = chain(7, members);
        let mut observed = observed(&[(1, 1), (2, 1), (3, 1)]);
        for node in adopted {
            let report = Report::Adopted { epoch: 7 };
            observed.reports.note(NodeId(*node), report);
        }
        let (epoch, node) = (7, NodeId(slow));
        let report = Report::Slow { epoch, node };
        observed.reports.note(NodeId(3), report);
        assert_eq!(after(&current, &observed), "-", "not the head says so");
        observed.reports.note(current.head(), report);
        assert_eq!(after(&current, &observed), expected, "{members}, n{slow}");
    }
    let mut observed = observed(&[(1, 1), (2, 1)]);
    observed
        .reports
        .note(NodeId(2), Report::Adopted { epoch: 7 });
    let (epoch, node) = (7, NodeId(2));
    observed
        .reports
        .note(NodeId(1), Report::Slow { epoch, node });
    let left = next(&chain(7, "1 2s"), &observed).unwrap();
    assert_eq!(after(&left, &observed), "-");
    observed.sessions[1] = member(2, 2);
    assert_eq!(after(&left, &observed), "1 2s", "another incarnation");
}

#[test]
fn a_member_that_is_ahead_gives_up_its_seat_and_may_be_chosen_while_another_serves() {
    let mut observed = observed(&[(1, 1), (2, 1), (3, 1)]);
    let ahead = |epoch| Report::Ahead { epoch, entries: 2 };
    // Of an older epoch it says nothing of this one.
    observed.reports.note(NodeId(2), ahead(6));
    assert_eq!(after(&chain(7, "1 2 3"), &observed), "-");
    observed.reports.note(NodeId(2), ahead(7));
    let left = next(&chain(7, "1 2 3"), &observed).unwrap();
    assert_eq!(&*members_of(&left), "1 3");
    // Its incarnation had a membership, and gets no other.
    assert_eq!(after(&left, &observed), "-");
    // Where it alone would serve, it stays: no other member can.
    observed.reports.note(NodeId(3), ahead(7));
    observed.reports.note(NodeId(1), ahead(7));
    assert_eq!(after(&chain(7, "1 2 3"), &observed), "-");

    let mut reports = Reports::default();
    let sessions = &observed.sessions;
    let refused = restore(&left, NodeId(2), sessions, &reports);
    assert_eq!(refused, Err(RestoreError::Serves(NodeId(1))));
    reports.note(NodeId(2), ahead(7));
    let next = restore(&left, NodeId(2), sessions, &reports).unwrap();
    assert_eq!((next.epoch, &*members_of(&next)), (left.epoch + 1, "2"));
    assert_eq!(next.lossy.epoch, next.epoch);
    assert!(next.must_fill(DiskId(1)) && next.must_fill(DiskId(3)));
}

/// It shows AL-5 and CTRL-8.
#[test]
fn an_operator_has_a_chain_go_on_with_less() {
    // The last servers were 1 and 2; 3 was joining.
    let current = chain(7, "1 2 3s");
    let there = |sessions: &[(u32, u128)]| observed(sessions).sessions;
    let not_yet = [
        (there(&[(1, 1), (3, 1)]), RestoreError::Serves(NodeId(1))),
        (there(&[(2, 2), (3, 1)]), RestoreError::Returns(NodeId(2))),
        (there(&[(4, 1)]), RestoreError::Absent),
    ];
    for (sessions, why) in not_yet {
        let none = Reports::default();
        let refused = restore(&current, NodeId(3), &sessions, &none);
        assert_eq!(refused, Err(why));
    }
    // Its engine was being filled when it ended.
    let sessions = there(&[(3, 2), (4, 1)]);
    let mut reports = Reports::default();
    let said = |epoch, gap| Report::Floor {
        epoch,
        applied: EntryId::ZERO,
        gap,
    };
    reports.note(NodeId(3), said(6, true));
    let refused = restore(&current, NodeId(3), &sessions, &reports);
    assert_eq!(refused, Err(RestoreError::Unfilled));
    reports.note(NodeId(3), said(7, false));
    let next = restore(&current, NodeId(3), &sessions, &reports).unwrap();
    assert_eq!((next.epoch, &*members_of(&next)), (8, "3"));
    assert_eq!((next.lossy.count, next.lossy.epoch), (1, 8));
    assert_eq!(next.last_serving, [(NodeId(3), DiskId(3))]);
    // Each member that comes back with what it had is filled.
    let marks = [1, 2, 3, 4].map(|disk| next.must_fill(DiskId(disk)));
    assert_eq!(marks, [true, true, false, false]);
    let mut all = observed(&[(1, 2), (3, 2), (4, 1)]);
    all.size = 2;
    let joined = super::next(&next, &all).unwrap();
    assert_eq!(members_of(&joined), "3 1s");
    assert!(joined.must_fill(DiskId(1)));
    assert_eq!(joined.lossy, next.lossy);
}

/// Facts of a chain that has to leave these nodes.
fn leaving(sessions: &[(u32, u128)], unwanted: &[u32]) -> ObservedState {
    ObservedState {
        unwanted: unwanted.iter().map(|node| NodeId(*node)).collect(),
        version: Version::NEWEST,
        ..observed(sessions)
    }
}

/// A configuration, the incarnations that have sessions, who is to leave, and what follows.
type Leaving = (
    &'static str,
    &'static [(u32, u128)],
    &'static [u32],
    &'static str,
);

/// It shows LV-1 and CTRL-10.
#[test]
fn a_member_placed_elsewhere_leaves_when_as_many_others_serve() {
    const ALL: [(u32, u128); 4] = [(1, 1), (2, 1), (3, 1), (4, 1)];
    let cases: [Leaving; 10] = [
        // Its replacement joins first.
        ("1 2 3", &ALL, &[3], "1 2 3 4s"),
        ("1 2 3 4s", &ALL, &[3], "-"),
        ("1 2 3 4", &ALL, &[3], "1 2 4 3l"),
        // The head too, by a live move.
        ("1 2 3 4", &ALL, &[1], "2 3 4 1l"),
        // Of several the head last; one at a time.
        ("1 2 3", &[(1, 1), (2, 1), (3, 1)], &[1, 2], "-"),
        (
            "1 2 3 4 5",
            &[(1, 1), (2, 1), (3, 1), (4, 1), (5, 1)],
            &[1, 2],
            "1 3 4 5 2l",
        ),
        // Not while one that is to stay is dead: that one goes first.
        ("1 2 3 4", &[(1, 1), (2, 1), (3, 1)], &[3], "1 2 3"),
        ("1 2 3", &[(1, 1), (2, 1), (3, 1)], &[3], "-"),
        // A replacement died meanwhile: who leaves is needed.
        ("1 2 4 3l", &[(1, 1), (2, 1), (3, 1)], &[3], "1 2 3s"),
        // The plan has changed.
        ("1 2 4 3l", &ALL, &[], "1 2 4 3s"),
    ];
    for (members, sessions, unwanted, expected) in cases {
        let next = after(&chain(7, members), &leaving(sessions, unwanted));
        assert_eq!(next, expected, "{members} {sessions:?} {unwanted:?}");
    }
}

/// It shows CTRL-10.
#[test]
fn a_decommissioned_member_is_gone_once_its_handoff_is_done_in_this_epoch() {
    let current = chain(7, "1 2 4 3l");
    let all = [(1, 1), (2, 1), (3, 1), (4, 1)];
    let told = |reports: &[Report], sessions: &[(u32, u128)]| {
        let mut observed = leaving(sessions, &[3]);
        for report in reports {
            observed.reports.note(NodeId(3), *report);
        }
        next(&current, &observed).map(|next| (members_of(&next), absent_of(&next)))
    };
    let (old, adopted) = (
        Report::HandoffDone { epoch: 6 },
        Report::Adopted { epoch: 7 },
    );
    let handed_off = Report::HandoffDone { epoch: 7 };
    assert_eq!(told(&[old], &all), None);
    assert_eq!(told(&[adopted], &all), None);
    let gone = Some(("1 2 4".to_owned(), String::new()));
    assert_eq!(told(&[adopted, handed_off], &all), gone);
    // A member it handed off to is gone: what it said is said anew.
    let without = [(1, 1), (2, 1), (3, 1)];
    let waits = Some(("1 2 3s".to_owned(), "4@8 3@8".to_owned()));
    assert_eq!(told(&[handed_off], &without), waits);
    // It died with what it may hold.
    let dead = [(1, 1), (2, 1), (4, 1)];
    let absent = Some(("1 2 4".to_owned(), "3@8".to_owned()));
    assert_eq!(told(&[handed_off], &dead), absent);
}

/// It shows LV-5.
#[test]
fn an_absent_member_placed_elsewhere_returns_for_its_handoff() {
    let mut current = chain(7, "1 2 4");
    let all = [(1, 1), (2, 1), (3, 2), (4, 1)];
    assert_eq!(
        after(&current, &leaving(&all, &[3])),
        "-",
        "it never was a member"
    );
    current.absent.push(AbsentMember {
        node: NodeId(3),
        incarnation: Incarnation(1),
        disk: DiskId(3),
        left: 5,
        must_fill: false,
    });
    assert_eq!(after(&current, &leaving(&all, &[3])), "1 2 4 3l");
    // The members that are to stay come first; where one is missing it serves meanwhile.
    current.members.pop();
    assert_eq!(after(&current, &leaving(&all, &[3])), "1 2 4s");
    assert_eq!(after(&current, &leaving(&all[..3], &[3])), "1 2 3s");
}

/// It shows LV-6.
#[test]
fn a_disk_that_an_operator_gives_up_is_not_waited_for() {
    let mut current = chain(7, "1 2");
    current.absent.push(AbsentMember {
        node: NodeId(3),
        incarnation: Incarnation(1),
        disk: DiskId(3),
        left: 5,
        must_fill: true,
    });
    let dead = |_| false;
    let next = abandon(&current, &[DiskId(3)], dead).unwrap();
    assert_eq!(
        (next.epoch, &*absent_of(&next), &*members_of(&next)),
        (8, "", "1 2")
    );
    assert_eq!(
        abandon(&current, &[DiskId(1)], dead),
        Err(AbandonError::Lives)
    );
    assert_eq!(
        abandon(&current, &[DiskId(3)], |_| true),
        Err(AbandonError::Lives)
    );
    assert_eq!(
        abandon(&current, &[DiskId(4)], dead),
        Err(AbandonError::NotAbsent)
    );
}

/// Three members went together, and the session of one ends last. It shows RM-2.
#[test]
fn rm2_a_chain_is_not_left_to_a_member_that_may_be_gone() {
    let current = first(
        &[member(1, 1), member(2, 1), member(3, 1)],
        Wiring::Star,
        Version::NEWEST,
    );
    let back = [(1, 1), (2, 2), (3, 2)];
    let known = ObservedState {
        unheard: vec![member(1, 1)],
        version: Version::NEWEST,
        ..observed(&back)
    };
    assert_eq!(next(&current, &known), None, "its session may end too");
    // It is there, and has everything.
    let heard = ObservedState {
        unheard: Vec::new(),
        ..known.clone()
    };
    assert_eq!(members_of(&next(&current, &heard).unwrap()), "1 2s");
    // It was gone: all are back that served last, and any of them may begin.
    let ended = ObservedState {
        restart: Some(member(3, 2)),
        ..ObservedState {
            version: Version::NEWEST,
            ..observed(&[(1, 2), (2, 2), (3, 2)])
        }
    };
    assert_eq!(members_of(&next(&current, &ended).unwrap()), "3 1s");
}

/// It shows CTRL-9.
#[test]
fn the_version_of_a_chain_rises_with_that_of_the_cluster_and_never_falls() {
    let of = |version, known| {
        let current = Configuration {
            version,
            ..chain(7, "1 2")
        };
        let observed = ObservedState {
            version: known,
            ..observed(&[(1, 1), (2, 1)])
        };
        next(&current, &observed).map(|next| next.version)
    };
    assert_eq!(of(Version::OLDEST, Version::NEWEST), Some(Version::NEWEST));
    // A controller that has not heard of the newer version.
    assert_eq!(of(Version::NEWEST, Version::OLDEST), None);
    let current = chain(7, "1 2 3");
    let removed = next(&current, &observed(&[(1, 1), (2, 1)])).unwrap();
    assert_eq!(removed.version, Version::NEWEST);
}
