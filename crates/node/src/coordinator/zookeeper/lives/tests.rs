//! What a life says of itself, of one epoch, and names; and for whom a ping counts.

use std::time::Duration;

use fader_chain::{ChainId, DiskId, EntryId, Identity, Incarnation, NodeId, Progress, Report};

use super::{Lives, SessionRecord, note};

fn life(number: u32) -> Identity {
    Identity {
        node: NodeId(number),
        incarnation: Incarnation(u128::from(number)),
        disk: DiskId(u128::from(number)),
    }
}

fn lives() -> Lives {
    Lives::new(SessionRecord {
        identity: life(1),
        name: "n1".to_owned(),
        address: String::new(),
        lives: Vec::new(),
    })
}

#[test]
fn the_newest_epochs_last_report_of_each_kind_is_kept() {
    let floor = |epoch, index| Report::Floor {
        epoch,
        applied: EntryId::new(1, index),
        gap: false,
    };
    let adopted = |epoch| Report::Adopted { epoch };
    let mut reports = Vec::new();
    for (report, kept) in [
        (adopted(2), vec![adopted(2)]),
        (floor(2, 1), vec![adopted(2), floor(2, 1)]),
        (floor(2, 5), vec![adopted(2), floor(2, 5)]),
        (adopted(1), vec![adopted(2), floor(2, 5)]),
        (floor(3, 6), vec![floor(3, 6)]),
        (adopted(3), vec![floor(3, 6), adopted(3)]),
    ] {
        note(&mut reports, report);
        assert_eq!(reports, kept);
    }
}

#[test]
fn z7_a_ping_of_one_life_is_that_of_all_once_and_not_for_long() {
    let age = Duration::from_millis(100);
    let mut lives = lives();
    lives.begin(ChainId(0), life(2), Progress::default());
    lives.begin(ChainId(1), life(3), Progress::default());
    assert_eq!(lives.others_ping(life(2), 50, age), None, "nobody pinged");
    lives.on_written(1000);
    assert_eq!(lives.own_ping(life(2)), 1000);
    assert_eq!(lives.others_ping(life(2), 1010, age), None, "it is its own");
    assert_eq!(lives.others_ping(life(3), 1010, age), Some(1000));
    assert_eq!(lives.others_ping(life(3), 1020, age), None, "it was told");
    lives.on_written(1050);
    assert_eq!(lives.others_ping(life(2), 1150, age), None, "it is old");
    assert_eq!(lives.others_ping(life(2), 1149, age), Some(1050));
    assert_eq!(lives.others_ping(life(4), 1149, age), None, "a stranger");
}

#[test]
fn z8_a_session_that_was_ended_leaves_no_life() {
    let mut lives = lives();
    lives.begin(ChainId(0), life(2), Progress::default());
    lives.begin(ChainId(1), life(3), Progress::default());
    lives.on_written(1000);
    assert!(lives.note(life(3), Report::Adopted { epoch: 4 }));
    let adopted = Progress {
        epoch: 4,
        last: EntryId::ZERO,
    };
    assert_eq!(lives.unnoted(), [(life(3), adopted)]);
    lives.on_noted(life(3), adopted);
    assert!(lives.unnoted().is_empty());
    let applied = EntryId::new(4, 9);
    let floor = Report::Floor {
        epoch: 4,
        applied,
        gap: false,
    };
    assert!(lives.note(life(3), floor));
    assert!(
        lives.unnoted().is_empty(),
        "within an epoch the session says it"
    );
    let came = Progress {
        epoch: 4,
        last: applied,
    };
    assert_eq!(lives.progress(life(3)), came);
    assert!(lives.end(life(2)) && !lives.end(life(2)) && !lives.is_empty());
    lives.end_all();
    assert!(lives.is_empty() && !lives.has_session && !lives.has(life(3)));
    assert!(!lives.note(life(3), Report::Adopted { epoch: 5 }));
    let age = Duration::from_millis(100);
    assert_eq!(lives.others_ping(life(3), 1001, age), None);
}
