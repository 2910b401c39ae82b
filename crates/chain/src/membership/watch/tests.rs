//! What a look asks for, in which order, and which sessions it ends.

use super::*;
use crate::config::{Incarnation, NodeId};
use crate::membership::IncarnationRecord;
use crate::replica::{Identity, Report};
use crate::stamp::EntryId;

/// S.
const SESSION: Duration = Duration::from_millis(1000);
const NAME: &str = "1-00000000000000000000000000000001-3";

fn at(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn identity() -> Identity {
    Identity {
        node: NodeId(1),
        incarnation: Incarnation(1),
        disk: DiskId(1),
    }
}

fn record() -> SessionRecord {
    let incarnation = IncarnationRecord {
        chain: ChainId(0),
        identity: identity(),
        reports: vec![Report::Adopted { epoch: 3 }],
    };
    SessionRecord {
        identity: identity(),
        name: "n1".to_owned(),
        address: String::new(),
        incarnations: vec![incarnation],
    }
}

fn watch() -> Watch {
    Watch::new(SESSION, Version(3))
}

/// A cluster with one session of this version, until it is ended.
struct Cluster {
    version: i32,
    record: Result<SessionRecord, String>,
    is_there: bool,
    /// Whether it is pinged when it is to be ended.
    is_late: bool,
    asked: Vec<Ask>,
}

impl Cluster {
    fn new() -> Self {
        Cluster {
            version: 0,
            record: Ok(record()),
            is_there: true,
            is_late: false,
            asked: Vec::new(),
        }
    }

    fn look(&mut self, watch: &mut Watch, ms: u64) -> Result<Vec<ProcessSession>, Trouble> {
        self.asked.clear();
        watch.begin(at(ms));
        while let Some(ask) = watch.ask().cloned() {
            self.asked.push(ask.clone());
            let told = match ask {
                Ask::Cluster => Told::Cluster(Version(2)),
                Ask::Layout => Told::Layout(vec![ChainId(0)]),
                Ask::Configuration(_) => Told::Configuration(None, 0),
                Ask::Sessions if self.is_there => Told::Sessions(vec![NAME.to_owned()]),
                Ask::Sessions => Told::Sessions(Vec::new()),
                Ask::Session(_) => Told::Session(Some(Seen {
                    version: self.version,
                    created: 1,
                    record: self.record.clone(),
                })),
                Ask::Note { .. } => Told::Noted,
                Ask::End { version, .. } => {
                    assert_eq!(version, self.version);
                    if self.is_late {
                        self.version += 1;
                        Told::Outlived
                    } else {
                        self.is_there = false;
                        Told::Ended
                    }
                }
            };
            watch.on_told(at(ms), told)?;
        }
        Ok(watch.end(at(ms))?.sessions)
    }
}

/// It shows ZNODE-5.
#[test]
fn z5_sessions_are_read_after_the_configurations() {
    let mut cluster = Cluster::new();
    let sessions = cluster.look(&mut watch(), 0).unwrap();
    let names = [(sessions[0].speaks, sessions[0].is_silent)];
    assert_eq!(names, [(Version(3), false)]);
    assert_eq!(
        cluster.asked,
        [
            Ask::Cluster,
            Ask::Layout,
            Ask::Configuration(ChainId(0)),
            Ask::Sessions,
            Ask::Session(NAME.to_owned()),
        ]
    );
}

/// It shows ZNODE-2 and COORD-3.
#[test]
fn z2_a_version_that_was_seen_for_the_time_of_a_session_is_ended() {
    let (mut watch, mut cluster) = (watch(), Cluster::new());
    for (ms, is_silent) in [(100, false), (349, false), (350, true), (700, true)] {
        let sessions = cluster.look(&mut watch, ms).unwrap();
        assert_eq!(sessions[0].is_silent, is_silent, "at {ms}");
        assert!(
            !sessions[0].is_heard,
            "it was there before, and may be gone"
        );
    }
    // A ping: it is counted from when it was seen.
    cluster.version = 1;
    for ms in [1000, 1400, 1800, 1999] {
        let sessions = cluster.look(&mut watch, ms).unwrap();
        assert_eq!(sessions.len(), 1, "at {ms}");
        assert!(sessions[0].is_heard);
    }
    assert_eq!(cluster.look(&mut watch, 2000), Ok(Vec::new()));
    // COORD-5: how far its disks came is noted before.
    let progress = Progress {
        epoch: 3,
        last: EntryId::ZERO,
    };
    let note = Ask::Note {
        disk: DiskId(1),
        progress,
    };
    let end = Ask::End {
        name: NAME.to_owned(),
        version: 1,
    };
    assert_eq!(cluster.asked[5..], [note, end]);
}

#[test]
fn z2_one_that_is_pinged_before_it_is_ended_lives() {
    let (mut watch, mut cluster) = (watch(), Cluster::new());
    cluster.is_late = true;
    for ms in [0, 400, 800, 1000] {
        assert_eq!(cluster.look(&mut watch, ms).unwrap().len(), 1, "at {ms}");
    }
    assert!(matches!(cluster.asked.last(), Some(Ask::End { .. })));
    assert_eq!(cluster.look(&mut watch, 1400).unwrap().len(), 1);
    assert!(!matches!(cluster.asked.last(), Some(Ask::End { .. })));
}

#[test]
fn z2_after_a_time_in_which_nothing_was_read_it_is_counted_anew() {
    let (mut watch, mut cluster) = (watch(), Cluster::new());
    for ms in [0, 400, 900, 1300, 1700] {
        // 500 ms is half a session.
        assert_eq!(cluster.look(&mut watch, ms).unwrap().len(), 1, "at {ms}");
    }
    // A look that does not end reads nothing.
    watch.begin(at(1800));
    assert_eq!(watch.end(at(1800)), Err(Trouble::Unasked));
    assert_eq!(cluster.look(&mut watch, 1900), Ok(Vec::new()));
}

#[test]
fn a_session_that_cannot_be_read_is_ended_all_the_same() {
    let (mut watch, mut cluster) = (watch(), Cluster::new());
    let damaged = Err(Trouble::Damaged("no session".to_owned()));
    cluster.record = Err("no session".to_owned());
    for ms in [0, 400, 800] {
        assert_eq!(
            cluster.look(&mut watch, ms),
            damaged,
            "its incarnations may live"
        );
    }
    assert_eq!(cluster.look(&mut watch, 1000), Ok(Vec::new()));
}

/// It shows ZNODE-6.
#[test]
fn z6_a_configuration_that_is_older_than_a_known_one_is_trouble() {
    let mut watch = watch();
    watch.begin(at(0));
    watch.on_told(at(0), Told::Cluster(Version(3))).unwrap();
    let chains = Told::Layout(vec![ChainId(4)]);
    watch.on_told(at(0), chains).unwrap();
    let lost = watch.on_told(at(0), Told::Configuration(None, 7));
    let trouble = Trouble::Older {
        chain: ChainId(4),
        epoch: 0,
        known: 7,
    };
    assert_eq!(lost, Err(trouble));
}

#[test]
fn z9_a_node_that_does_not_support_the_version_reads_nothing_and_is_none() {
    let mut watch = watch();
    watch.begin(at(0));
    let unspoken = watch.on_told(at(0), Told::Cluster(Version(4)));
    assert_eq!(unspoken, Err(Trouble::Unspoken(Version(4))));
    watch.begin(at(0));
    let old = "1-00000000000000000000000000000001".to_owned();
    for told in [
        Told::Cluster(Version(3)),
        Told::Layout(Vec::new()),
        Told::Sessions(vec![old]),
        Told::Session(Some(Seen {
            version: 0,
            created: 1,
            record: Ok(record()),
        })),
    ] {
        watch.on_told(at(0), told).unwrap();
    }
    assert_eq!(watch.end(at(0)), Ok(Reading::default()));
}
