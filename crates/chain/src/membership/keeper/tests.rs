//! What a process writes after which answer, and for whom a ping counts.

use std::time::Duration;

use super::*;
use crate::config::{DiskId, NodeId};
use crate::stamp::EntryId;

fn incarnation(number: u32) -> Identity {
    Identity {
        node: NodeId(number),
        incarnation: Incarnation(u128::from(number)),
        disk: DiskId(u128::from(number)),
    }
}

/// Of sessions of 2 s: a ping counts for others for 100 ms.
fn keeper() -> Keeper {
    let record = SessionRecord {
        identity: incarnation(1),
        name: "n1".to_owned(),
        address: String::new(),
        incarnations: Vec::new(),
    };
    Keeper::new(record, Duration::from_secs(2))
}

fn open(keeper: &mut Keeper, number: u32) {
    keeper.open(ChainId(number), incarnation(number), Progress::default());
}

/// A request, in short: what it does, at which version, and for which lives.
fn asks(keeper: &mut Keeper, now_ms: u64) -> String {
    let incarnations = |record: &SessionRecord| {
        let incarnations = record.incarnations.iter().map(|it| it.chain.0.to_string());
        incarnations.collect::<Vec<_>>().join(",")
    };
    match keeper.next(now_ms, Incarnation(u128::from(now_ms))) {
        None => "nothing".to_owned(),
        Some(Request::Create(record)) => {
            let name = record.identity.incarnation.0;
            format!("create {name} of {}", incarnations(&record))
        }
        Some(Request::Write { record, version }) => {
            format!("write {version} of {}", incarnations(&record))
        }
        Some(Request::Delete { version, .. }) => format!("delete {version}"),
        Some(Request::Find { .. }) => "find".to_owned(),
    }
}

/// Runs requests at these times, with their answers.
fn script(keeper: &mut Keeper, steps: &[(u64, &str, Answer)]) {
    for (now_ms, request, answer) in steps {
        assert_eq!(asks(keeper, *now_ms), *request, "at {now_ms}");
        assert_eq!(asks(keeper, *now_ms), "nothing", "one is under way");
        keeper.on_answer(*answer);
    }
}

/// One with this incarnation and a session at version 0, which was written at 1000.
fn begun() -> Keeper {
    let mut keeper = keeper();
    assert_eq!(asks(&mut keeper, 999), "nothing", "no incarnation");
    open(&mut keeper, 2);
    script(&mut keeper, &[(1000, "create 1000 of 2", Answer::Done)]);
    assert_eq!(keeper.ping(incarnation(2), 1000), Ping::At(1000));
    keeper
}

/// It shows ZNODE-7.
#[test]
fn z7_a_ping_of_one_life_is_that_of_all_once_and_not_for_long() {
    let mut keeper = keeper();
    open(&mut keeper, 2);
    open(&mut keeper, 3);
    assert_eq!(
        keeper.ping(incarnation(2), 50),
        Ping::Due,
        "no ping was sent"
    );
    script(&mut keeper, &[(1000, "create 1000 of 2,3", Answer::Done)]);
    assert_eq!(keeper.ping(incarnation(2), 1000), Ping::At(1000));
    assert_eq!(keeper.ping(incarnation(2), 1010), Ping::Due, "it was told");
    assert_eq!(keeper.ping(incarnation(3), 1010), Ping::At(1000));
    script(&mut keeper, &[(1050, "write 0 of 2,3", Answer::Done)]);
    assert_eq!(keeper.ping(incarnation(2), 1150), Ping::Due, "it is old");
    assert_eq!(keeper.ping(incarnation(2), 1149), Ping::At(1050));
    assert_eq!(keeper.ping(incarnation(4), 1149), Ping::Over, "a stranger");
}

/// It shows ZNODE-7.
#[test]
fn z7_a_write_under_way_is_no_ping_of_a_life_that_is_not_in_it() {
    let mut keeper = begun();
    assert_eq!(asks(&mut keeper, 2000), "write 0 of 2");
    open(&mut keeper, 3);
    keeper.on_answer(Answer::Done);
    assert_eq!(keeper.ping(incarnation(2), 2000), Ping::At(2000));
    assert_eq!(keeper.ping(incarnation(3), 2000), Ping::Due);
    script(&mut keeper, &[(2010, "write 1 of 2,3", Answer::Done)]);
    assert_eq!(keeper.ping(incarnation(3), 2000), Ping::At(2010));
}

#[test]
fn a_ping_says_what_was_reported_before_it() {
    let mut keeper = begun();
    open(&mut keeper, 3);
    let safe_point = Report::Floor {
        epoch: 1,
        applied: EntryId::new(1, 1),
        gap: false,
    };
    assert_eq!(asks(&mut keeper, 2000), "write 0 of 2,3");
    keeper.report(incarnation(2), safe_point);
    keeper.on_answer(Answer::Done);
    assert_eq!(keeper.ping(incarnation(3), 2000), Ping::At(2000));
    assert_eq!(keeper.ping(incarnation(2), 2000), Ping::Due);
    script(&mut keeper, &[(2010, "write 1 of 2,3", Answer::Done)]);
    assert_eq!(keeper.ping(incarnation(2), 2000), Ping::At(2010));
}

#[test]
fn z10_after_a_lost_answer_the_version_is_found_first() {
    let mut keeper = begun();
    script(&mut keeper, &[(2000, "write 0 of 2", Answer::Lost)]);
    open(&mut keeper, 3);
    script(
        &mut keeper,
        &[
            (2100, "find", Answer::Lost),
            // It had not come yet, and does then.
            (2200, "find", Answer::Found(Some(0))),
            (2210, "write 0 of 2,3", Answer::Stale),
            (2220, "find", Answer::Found(Some(1))),
        ],
    );
    assert_eq!(
        keeper.ping(incarnation(3), 2200),
        Ping::Due,
        "it is in no write"
    );
    assert_eq!(
        keeper.ping(incarnation(2), 2000),
        Ping::Due,
        "none was confirmed"
    );
    script(&mut keeper, &[(2230, "write 1 of 2,3", Answer::Done)]);
    assert_eq!(keeper.ping(incarnation(3), 2200), Ping::At(2230));
    script(&mut keeper, &[(2300, "write 2 of 2,3", Answer::Done)]);
}

/// It shows ZNODE-8.
#[test]
fn z8_a_name_is_used_once() {
    let mut keeper = keeper();
    open(&mut keeper, 2);
    script(
        &mut keeper,
        &[
            (10, "create 10 of 2", Answer::Lost),
            (20, "find", Answer::Found(None)),
            // The first may still come: no process pings it.
            (30, "create 30 of 2", Answer::Exists),
            (40, "create 40 of 2", Answer::Lost),
            (50, "find", Answer::Found(Some(0))),
            (60, "write 0 of 2", Answer::Done),
        ],
    );
    assert_eq!(keeper.ping(incarnation(2), 60), Ping::At(60));
}

/// It shows ZNODE-8.
#[test]
fn z8_with_the_session_all_lives_are_over() {
    for steps in [
        [(2000, "write 0 of 2,3", Answer::Missing)].as_slice(),
        &[
            (2000, "write 0 of 2,3", Answer::Stale),
            (2010, "find", Answer::Found(None)),
        ],
    ] {
        let mut keeper = begun();
        open(&mut keeper, 3);
        script(&mut keeper, steps);
        let report = Report::Adopted { epoch: 5 };
        for number in [2, 3] {
            assert_eq!(keeper.ping(incarnation(number), 2000), Ping::Over);
            assert_eq!(keeper.report(incarnation(number), report), None);
            assert_eq!(keeper.close(incarnation(number)), None);
        }
        assert_eq!(asks(&mut keeper, 2100), "nothing");
        open(&mut keeper, 4);
        assert_eq!(asks(&mut keeper, 3000), "create 3000 of 4");
    }
}

/// It shows ZNODE-2.
#[test]
fn z2_with_its_last_life_a_session_is_removed_at_its_version() {
    let mut keeper = begun();
    script(&mut keeper, &[(2000, "write 0 of 2", Answer::Lost)]);
    assert_eq!(keeper.close(incarnation(2)), Some(Progress::default()));
    assert_eq!(keeper.close(incarnation(2)), None, "it is closing");
    assert_eq!(keeper.ping(incarnation(2), 2000), Ping::Over);
    let change = keeper.leave_out(incarnation(2));
    script(
        &mut keeper,
        &[
            (2010, "find", Answer::Found(Some(0))),
            (2020, "delete 0", Answer::Stale),
            (2030, "find", Answer::Found(Some(1))),
        ],
    );
    assert!(!keeper.is_acknowledged(change));
    script(&mut keeper, &[(2040, "delete 1", Answer::Done)]);
    assert!(keeper.is_acknowledged(change));
    assert_eq!(asks(&mut keeper, 2050), "nothing");
}

#[test]
fn a_process_that_stays_has_a_session_without_a_life() {
    let mut keeper = keeper();
    assert_eq!(keeper.ping_alone(), None, "it does not stay");
    keeper.stay(true);
    let first = keeper.ping_alone().unwrap();
    script(&mut keeper, &[(1000, "create 1000 of ", Answer::Done)]);
    assert!(keeper.is_acknowledged(first));
    let second = keeper.ping_alone().unwrap();
    assert!(!keeper.is_acknowledged(second));
    script(&mut keeper, &[(1200, "write 0 of ", Answer::Done)]);
    assert!(keeper.is_acknowledged(second));
    // A life is in the same session, and leaves it there.
    open(&mut keeper, 2);
    assert_eq!(keeper.ping_alone(), None, "the life pings");
    script(&mut keeper, &[(1400, "write 1 of 2", Answer::Done)]);
    keeper.close(incarnation(2));
    keeper.leave_out(incarnation(2));
    script(&mut keeper, &[(1600, "write 2 of ", Answer::Done)]);
    // Others ended it: the next one has another name.
    let third = keeper.ping_alone().unwrap();
    let steps = [
        (1800, "write 3 of ", Answer::Missing),
        (1900, "create 1900 of ", Answer::Done),
    ];
    script(&mut keeper, &steps);
    assert!(keeper.is_acknowledged(third));
    let last = keeper.stay(false);
    assert!(!keeper.is_acknowledged(last));
    script(&mut keeper, &[(2000, "delete 0", Answer::Done)]);
    assert!(keeper.is_acknowledged(last) && keeper.ping_alone().is_none());
    assert_eq!(asks(&mut keeper, 2200), "nothing");
}

#[test]
fn z8_a_life_that_begins_while_the_session_is_removed_has_another() {
    for answer in [Answer::Done, Answer::Missing, Answer::Lost] {
        let mut keeper = begun();
        keeper.close(incarnation(2));
        keeper.leave_out(incarnation(2));
        assert_eq!(asks(&mut keeper, 2000), "delete 0");
        open(&mut keeper, 3);
        keeper.on_answer(answer);
        assert_eq!(asks(&mut keeper, 2010), "create 2010 of 3", "{answer:?}");
    }
}

#[test]
fn a_life_that_ends_alone_is_left_out_of_the_next_write() {
    let mut keeper = begun();
    open(&mut keeper, 3);
    keeper.close(incarnation(2));
    let change = keeper.leave_out(incarnation(2));
    script(&mut keeper, &[(2000, "write 0 of 3", Answer::Done)]);
    assert!(keeper.is_acknowledged(change));
}

#[test]
fn how_far_disks_came_is_noted_once_an_epoch() {
    let mut keeper = begun();
    let reported = keeper.report(incarnation(2), Report::Adopted { epoch: 4 });
    assert!(reported.is_some_and(|change| !keeper.is_acknowledged(change)));
    let adopted = Progress {
        epoch: 4,
        last: EntryId::ZERO,
    };
    assert_eq!(keeper.unnoted(), [(incarnation(2), adopted)]);
    keeper.on_noted(incarnation(2), adopted);
    assert!(keeper.unnoted().is_empty());
    let applied = EntryId::new(4, 9);
    let safe_point = Report::Floor {
        epoch: 4,
        applied,
        gap: false,
    };
    assert_eq!(
        keeper.report(incarnation(2), safe_point),
        None,
        "it is in no hurry"
    );
    assert!(keeper.unnoted().is_empty(), "the session says it");
    let came = Progress {
        epoch: 4,
        last: applied,
    };
    assert_eq!(keeper.close(incarnation(2)), Some(came));
}

#[test]
fn the_newest_epochs_last_report_of_each_kind_is_kept() {
    let safe_point = |epoch, index| Report::Floor {
        epoch,
        applied: EntryId::new(1, index),
        gap: false,
    };
    let adopted = |epoch| Report::Adopted { epoch };
    let mut reports = Vec::new();
    for (report, kept) in [
        (adopted(2), vec![adopted(2)]),
        (safe_point(2, 1), vec![adopted(2), safe_point(2, 1)]),
        (safe_point(2, 5), vec![adopted(2), safe_point(2, 5)]),
        (adopted(1), vec![adopted(2), safe_point(2, 5)]),
        (safe_point(3, 6), vec![safe_point(3, 6)]),
        (adopted(3), vec![safe_point(3, 6), adopted(3)]),
    ] {
        note(&mut reports, report);
        assert_eq!(reports, kept);
    }
}
