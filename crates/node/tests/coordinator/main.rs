//! What any coordinator must do (docs/internals/protocol/reconfiguration.md, section 11), run on
//! each one.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod server;
#[path = "../support/mod.rs"]
mod support;
mod zookeeper;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fader_chain::controller::{ObservedState, first, next};
use fader_chain::{
    Configuration, DiskId, EntryId, Identity, Incarnation, Progress, Report, Version, Wiring,
};
use fader_node::Clock;
use fader_node::coordinator::{Coordinator, CoordinatorError, LocalCoordinator, Wakeup};
use fader_node::disk::Disk;
use fader_services::{ErrorCode, Reason};
use support::SimulatedDisk;

/// Longer than a test takes.
const LONG: Duration = Duration::from_secs(300);
/// For those that end.
const SHORT: Duration = Duration::from_secs(3);

fn local(session: Duration) -> Arc<dyn Coordinator> {
    let disk = SimulatedDisk::new();
    disk.create_folder(Path::new("/data")).unwrap();
    let (disk, folder) = (Arc::new(disk), Path::new("/data"));
    Arc::new(LocalCoordinator::open(disk, folder, session, Clock::default()).unwrap())
}

fn on_zookeeper(session: Duration) -> Arc<dyn Coordinator> {
    let (_, coordinator) = server::cluster_of(Version::NEWEST, server::shared(), session);
    Arc::new(coordinator)
}

/// A new, empty coordinator of each kind.
fn each(session: Duration) -> Vec<(&'static str, Arc<dyn Coordinator>)> {
    vec![
        ("local", local(session)),
        ("zookeeper", on_zookeeper(session)),
    ]
}

/// A disk that is in this epoch, and ends at an entry of the first.
pub(crate) fn shown(epoch: u64, index: u64) -> Progress {
    Progress {
        epoch,
        last: EntryId::new(u64::from(index != 0), index),
    }
}

pub(crate) fn safe_point(epoch: u64, index: u64) -> Report {
    Report::Floor {
        epoch,
        applied: EntryId::new(1, index),
        gap: false,
    }
}

fn open(coordinator: &dyn Coordinator, disk: u128) -> Identity {
    static LIFE: AtomicU64 = AtomicU64::new(1);
    let incarnation = Incarnation(u128::from(LIFE.fetch_add(1, Ordering::Relaxed)));
    coordinator
        .open(DiskId(disk), incarnation, shown(0, 0))
        .unwrap()
}

/// Waits for a change, or until the time is over.
fn wait(coordinator: &dyn Coordinator, time: Duration) {
    let wakeup = Arc::new(Wakeup::default());
    coordinator.listen(&wakeup);
    wakeup.wait(time);
}

/// Waits for what a watcher hears of some time (COORD-4).
fn eventually(coordinator: &dyn Coordinator, is_so: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < end, "no member heard of it");
        wait(coordinator, Duration::from_millis(10));
    }
}

fn published(coordinator: &dyn Coordinator) -> (Configuration, Vec<Identity>) {
    let members: Vec<Identity> = (1..4).map(|disk| open(coordinator, disk)).collect();
    let first = first(&members, Wiring::Star, Version::OLDEST);
    assert!(coordinator.publish(0, first.clone()).unwrap());
    (first, members)
}

#[test]
fn c1_one_of_two_that_publish_wins() {
    for (name, coordinator) in each(LONG) {
        assert_eq!(coordinator.configuration(), Ok(None), "{name}");
        let (first, _) = published(&*coordinator);
        let candidates = (0..8_u64).map(|safe_point| Configuration {
            epoch: 2,
            safe_point: EntryId::new(1, safe_point),
            ..first.clone()
        });
        let won: Vec<Configuration> = std::thread::scope(|scope| {
            let racing: Vec<_> = candidates
                .map(|next| {
                    let coordinator = coordinator.clone();
                    scope.spawn(move || {
                        let is_published = coordinator.publish(1, next.clone()).unwrap();
                        is_published.then_some(next)
                    })
                })
                .collect();
            let ended = racing.into_iter().map(|racing| racing.join().unwrap());
            ended.flatten().collect()
        });
        assert_eq!(won.len(), 1, "{name}");
        eventually(&*coordinator, || {
            coordinator.configuration().unwrap().as_deref() == won.first()
        });
        assert_eq!(coordinator.publish(1, first.clone()), Ok(false), "{name}");
        let older = Configuration { epoch: 2, ..first };
        assert_eq!(coordinator.publish(2, older), Ok(false), "I2: {name}");
    }
}

#[test]
fn c2_a_session_is_one_lifes_and_ends() {
    for (name, coordinator) in each(LONG) {
        let member = open(&*coordinator, 1);
        let other = open(&*coordinator, 1);
        assert_eq!(member.node, other.node, "{name}");
        eventually(&*coordinator, || coordinator.sessions().len() == 2);
        coordinator.close(member);
        eventually(&*coordinator, || coordinator.sessions() == [other]);
        let pinged = coordinator.ping(member);
        let over = pinged.unwrap_err();
        assert_eq!(over, CoordinatorError::SessionOver, "{name}");
        let code = ErrorCode::Refused(Reason::IncarnationOver);
        assert_eq!(over.code(), code, "{name}");
        coordinator.report(member, Report::Adopted { epoch: 7 });
        assert!(!coordinator.reports().has_adopted(member.node, 7), "{name}");
        let (first, second) = (coordinator.ping(other), coordinator.ping(other));
        assert!(first.unwrap() <= second.unwrap(), "{name}");
    }
}

/// It shows COORD-3.
#[test]
fn c3_a_session_outlives_its_last_ping() {
    for (name, coordinator) in each(SHORT) {
        let member = open(&*coordinator, 1);
        eventually(&*coordinator, || coordinator.sessions() == [member]);
        let pinged = Instant::now();
        coordinator.ping(member).unwrap();
        eventually(&*coordinator, || coordinator.sessions().is_empty());
        assert!(SHORT <= pinged.elapsed(), "{name}");
        let late = coordinator.ping(member);
        assert_eq!(late, Err(CoordinatorError::SessionOver), "{name}");
    }
}

/// It shows WAIT-1.
#[test]
fn c4_a_waiter_hears_of_a_change() {
    for (name, coordinator) in each(LONG) {
        let waiting = coordinator.clone();
        let waiter = std::thread::spawn(move || {
            let wakeup = Arc::new(Wakeup::default());
            waiting.listen(&wakeup);
            while waiting.configuration().unwrap().is_none() {
                wakeup.wait(Duration::from_secs(600));
            }
        });
        // Published before it waits, or while it does: it hears of it.
        published(&*coordinator);
        assert!(waiter.join().is_ok(), "{name}");
    }
}

/// It shows D16 and HOLE-16.
#[test]
fn c5_a_disk_keeps_its_number_and_an_old_copy_is_told() {
    for (name, coordinator) in each(LONG) {
        let (first, members) = published(&*coordinator);
        let third = Configuration { epoch: 3, ..first };
        assert!(coordinator.publish(1, third).unwrap());
        coordinator.report(members[0], Report::Adopted { epoch: 3 });
        let begin =
            |epoch| coordinator.open(members[0].disk, Incarnation(1 << 64), shown(epoch, 0));
        let is_refused = |epoch, why: &str| match begin(epoch) {
            Err(CoordinatorError::Refused { code, context }) => {
                code == ErrorCode::DataOutdated && context.contains(why)
            }
            _ => false,
        };
        assert!(is_refused(2, "an old copy"), "{name}");
        assert!(is_refused(4, "history was lost"), "{name}");
        assert_eq!(begin(3).unwrap().node, members[0].node, "{name}");
        let new = open(&*coordinator, 40);
        assert!(
            members.iter().all(|member| member.node != new.node),
            "{name}"
        );
    }
}

/// COORD-5: a folder that was put back as it was in the same epoch lacks what was acknowledged
/// since.
#[test]
fn c5_an_old_copy_of_the_same_epoch_is_told() {
    for (name, coordinator) in each(LONG) {
        let (_, members) = published(&*coordinator);
        for member in &members {
            coordinator.report(*member, Report::Adopted { epoch: 1 });
            coordinator.report(*member, safe_point(1, 70));
            coordinator.ping(*member).unwrap();
        }
        // One incarnation is over, the other two are not.
        coordinator.close(members[0]);
        let begin = |member: Identity, index| {
            let opened = coordinator.open(member.disk, Incarnation(1 << 64), shown(1, index));
            opened.map(|again| again.node)
        };
        for member in members {
            match begin(member, 69) {
                Err(CoordinatorError::Refused { context: why, .. }) => {
                    assert!(why.contains("had entry 1.70"), "{name}: {why}");
                }
                other => panic!("{name}: {other:?}"),
            }
            assert_eq!(begin(member, 70), Ok(member.node), "{name}");
        }
    }
}

/// COORD-5: what a disk showed is known, for the choice between those that are back (AL-1).
#[test]
fn c5_the_state_of_a_disk_is_noted() {
    for (name, coordinator) in each(LONG) {
        let (_, members) = published(&*coordinator);
        let begin = |disk, shown| coordinator.open(disk, Incarnation(1 << 64), shown);
        let disks: Vec<DiskId> = members.iter().map(|it| it.disk).collect();
        for (disk, index) in [(disks[0], 70), (disks[1], 71)] {
            begin(disk, shown(1, index)).unwrap();
            assert_eq!(coordinator.progress(disk), Ok(shown(1, index)), "{name}");
            assert!(begin(disk, shown(1, index - 1)).is_err(), "{name}");
        }
        // Of a log that is not synced nothing is certain.
        let uncertain = Progress {
            epoch: 1,
            last: Progress::UNCERTAIN,
        };
        begin(disks[2], uncertain).unwrap();
        assert_eq!(coordinator.progress(disks[2]), Ok(shown(1, 0)), "{name}");
        let unknown = coordinator.progress(DiskId(99));
        assert_eq!(unknown, Ok(Progress::default()), "{name}");
    }
}

/// COORD-5: in a later epoch a log may be shorter, lawfully: it was cut, or began anew.
#[test]
fn c5_a_truncated_log_makes_no_old_copy() {
    for (name, coordinator) in each(LONG) {
        let (first, members) = published(&*coordinator);
        coordinator.report(members[0], Report::Adopted { epoch: 1 });
        coordinator.report(members[0], safe_point(1, 70));
        let second = Configuration { epoch: 2, ..first };
        assert!(coordinator.publish(1, second).unwrap());
        coordinator.ping(members[0]).unwrap();
        coordinator.close(members[0]);
        let begin = |shown| coordinator.open(members[0].disk, Incarnation(1 << 64), shown);
        assert!(
            begin(shown(2, 60)).is_ok(),
            "{name}: no member heard of its epoch"
        );
    }
}

#[test]
fn a_controller_acts_on_what_it_is_told() {
    for (name, coordinator) in each(LONG) {
        let (first, members) = published(&*coordinator);
        coordinator.close(members[0]);
        eventually(&*coordinator, || coordinator.sessions() == members[1..]);
        let observed = ObservedState {
            sessions: coordinator.sessions(),
            unheard: Vec::new(),
            reports: coordinator.reports(),
            size: 3,
            unwanted: Vec::new(),
            wiring: Wiring::Star,
            role_change: None,
            raise_safe_point: false,
            restart: None,
            version: Version::OLDEST,
        };
        let second = next(&first, &observed).unwrap();
        assert!(coordinator.publish(first.epoch, second).unwrap(), "{name}");
        let newest = coordinator.configuration().unwrap().unwrap();
        assert_eq!(newest.head(), members[1].node, "{name}");
    }
}
