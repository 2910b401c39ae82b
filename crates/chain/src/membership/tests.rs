//! Which change of a cluster's facts may follow which.

use super::*;
use crate::config::{DiskId, Incarnation};

fn session(name: &str, speaks: u32) -> ProcessSession {
    ProcessSession {
        record: SessionRecord {
            identity: Identity {
                node: NodeId(1),
                incarnation: Incarnation(1),
                disk: DiskId(1),
            },
            name: name.to_owned(),
            address: String::new(),
            incarnations: Vec::new(),
        },
        speaks: Version(speaks),
        is_silent: false,
        is_heard: true,
    }
}

/// It shows I2 and ZNODE-3.
#[test]
fn z3_a_configuration_follows_the_one_that_was_read() {
    assert_eq!(publish(None, 0, 1), Some(Put::Create));
    assert_eq!(publish(None, 1, 2), None, "there is none to follow");
    assert_eq!(publish(Some((4, 9)), 4, 5), Some(Put::Replace(9)));
    assert_eq!(publish(Some((5, 9)), 4, 6), None, "another one was first");
    assert_eq!(publish(Some((4, 9)), 4, 4), None, "I2");
}

/// It shows ZNODE-4.
#[test]
fn z4_each_number_is_given_once() {
    assert_eq!(number(7), (NodeId(7), 8));
}

/// It shows ZNODE-6.
#[test]
fn z6_an_older_configuration_is_not_taken() {
    let configuration = |epoch| {
        let members = [session("a", 2).record.identity];
        let first = crate::controller::first(&members, crate::Wiring::Star, Version::OLDEST);
        Arc::new(Configuration { epoch, ..first })
    };
    let mut newest = Newest::default();
    assert_eq!(newest.epoch(ChainId(1)), 0);
    newest.take(ChainId(1), configuration(3));
    newest.take(ChainId(1), configuration(2));
    assert_eq!((newest.epoch(ChainId(1)), newest.epoch(ChainId(0))), (3, 0));
}

/// It shows ZNODE-9.
#[test]
fn z9_the_version_rises_when_no_member_is_missing_and_all_support_more() {
    let names = ["a", "b"];
    let risen = |sessions: &[ProcessSession]| risen(Version(2), names, sessions);
    assert_eq!(risen(&[session("a", 3)]), None, "b is missing");
    assert_eq!(risen(&[session("a", 3), session("b", 2)]), None);
    let both = [session("a", 3), session("b", 3)];
    assert_eq!(risen(&both), Some(Version(3)));
    let old = [session("a", 3), session("b", 3), session("b", 2)];
    assert_eq!(risen(&old), None, "an older process of b is not over");
    assert_eq!(super::risen(Version(3), names, &both), None, "it is");
}

#[test]
fn z9_the_name_says_what_is_spoken() {
    let process = session("a", 2).record.identity;
    for speaks in [Version(2), Version(3), Version(12)] {
        assert_eq!(spoken(&session_name(process, speaks)), speaks);
    }
    assert_eq!(spoken("something"), Version::OLDEST);
}

#[test]
fn the_record_of_a_disk_only_grows() {
    let progress = |epoch, index| Progress {
        epoch,
        last: EntryId::new(u64::from(index != 0), index),
    };
    let third = |known, said| further(known, said, Version(3));
    assert_eq!(third(progress(1, 5), progress(1, 4)), None);
    assert_eq!(third(progress(1, 5), progress(1, 5)), None);
    assert_eq!(
        third(progress(1, 5), progress(2, 1)),
        Some(progress(2, 1)),
        "a later epoch"
    );
    // Nodes of version 2 know epochs alone.
    let second = |known, said| further(known, said, Version(2));
    assert_eq!(second(progress(1, 0), progress(1, 9)), None);
    assert_eq!(second(progress(1, 0), progress(2, 9)), Some(progress(2, 0)));
}
