//! The coordinator's file: what was said is there after a power cut, whole; damage does not pass.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fader_chain::controller::first;
use fader_chain::{DiskId, EntryId, Incarnation, Progress, Report, Version, Wiring};

use super::{FILE, LocalCoordinator};
use crate::clock::Clock;
use crate::coordinator::{Coordinator, CoordinatorError};
use crate::status::OpenError;
use crate::storage::disk::{Disk, SyncSite};
use crate::support::SimulatedDisk;

/// Longer than a test takes.
const SESSION: Duration = Duration::from_secs(300);

fn open(disk: &SimulatedDisk) -> Result<LocalCoordinator, OpenError> {
    open_by(disk, Clock::default())
}

fn open_by(disk: &SimulatedDisk, clock: Clock) -> Result<LocalCoordinator, OpenError> {
    LocalCoordinator::open(Arc::new(disk.clone()), Path::new("/data"), SESSION, clock)
}

/// A disk that is in this epoch, and holds nothing.
fn adopted(epoch: u64) -> Progress {
    Progress {
        epoch,
        last: EntryId::ZERO,
    }
}

fn new_disk() -> SimulatedDisk {
    let disk = SimulatedDisk::new();
    disk.create_folder(Path::new("/data")).unwrap();
    disk.sync_folder(Path::new("/"), SyncSite::DataFolder)
        .unwrap();
    disk
}

#[test]
fn answered_commands_are_there_after_a_power_cut() {
    for seed in 0..50 {
        let disk = new_disk();
        let coordinator = open(&disk).unwrap();
        let members = [5, 6].map(|disk| {
            let opened = coordinator.open(DiskId(disk), Incarnation(1), adopted(0));
            opened.unwrap()
        });
        let first = first(&members, Wiring::Star, Version::OLDEST);
        assert_eq!(coordinator.publish(0, first.clone()), Ok(true));
        coordinator.report(members[1], Report::Adopted { epoch: 1 });

        let after = open(&disk.crash(seed)).unwrap();
        assert_eq!(after.configuration().unwrap().as_deref(), Some(&first));
        assert!(after.sessions().is_empty());
        let again = after.open(DiskId(6), Incarnation(2), adopted(1)).unwrap();
        assert_eq!(again.node, members[1].node);
        let other = after.open(DiskId(7), Incarnation(2), adopted(0)).unwrap();
        assert!(members.iter().all(|member| member.node != other.node));
        assert!(matches!(
            after.open(DiskId(6), Incarnation(3), adopted(0)),
            Err(CoordinatorError::Refused { .. })
        ));
    }
}

#[test]
fn a_cut_at_any_operation_leaves_the_old_or_the_new() {
    for cut in 0..8 {
        for seed in 0..30 {
            let disk = new_disk();
            let coordinator = open(&disk).unwrap();
            let member = coordinator
                .open(DiskId(5), Incarnation(1), adopted(0))
                .unwrap();
            let first = first(&[member], Wiring::Star, Version::OLDEST);
            disk.cut_power_at(disk.operations() + cut);
            let published = coordinator.publish(0, first);
            let after = open(&disk.crash(seed)).unwrap();
            let epoch = after
                .configuration()
                .unwrap()
                .map_or(0, |newest| newest.epoch);
            assert!(
                published != Ok(true) || epoch == 1,
                "cut {cut}, seed {seed}"
            );
            let again = after
                .open(DiskId(5), Incarnation(2), adopted(epoch))
                .unwrap();
            assert_eq!(again.node, member.node);
        }
    }
}

#[test]
fn damage_does_not_pass() {
    let disk = new_disk();
    let coordinator = open(&disk).unwrap();
    coordinator
        .open(DiskId(5), Incarnation(1), adopted(0))
        .unwrap();
    let path = Path::new("/data").join(FILE);
    for offset in 0..disk.content(&path).unwrap().len() {
        let disk = disk.copy();
        disk.flip(&path, offset, 0x10);
        assert!(
            open(&disk).is_err_and(|error| error.is_damage()),
            "{offset}"
        );
    }
}

/// The bytes of format 1, which had no entries of disks, and is written while there are none.
#[test]
fn records_of_an_older_version_are_read_and_written() {
    let disk = new_disk();
    let coordinator = open(&disk).unwrap();
    let member = coordinator
        .open(DiskId(5), Incarnation(1), adopted(0))
        .unwrap();
    let first = first(&[member], Wiring::Star, Version::NEWEST);
    assert_eq!(coordinator.publish(0, first), Ok(true));
    coordinator.report(member, Report::Adopted { epoch: 1 });
    let path = Path::new("/data").join(FILE);
    let format = |disk: &SimulatedDisk| disk.content(&path).unwrap()[8];
    assert_eq!(format(&disk), 1);
    let applied = EntryId::new(1, 300);
    let safe_point = Report::Floor {
        epoch: 1,
        applied,
        gap: false,
    };
    coordinator.report(member, safe_point);
    coordinator.close(member);
    assert_eq!(format(&disk), 2);
    let after = open(&disk.crash(7)).unwrap();
    let shown = |index| Progress {
        epoch: 1,
        last: EntryId::new(1, index),
    };
    let begin = |index| after.open(DiskId(5), Incarnation(2), shown(index));
    assert!(matches!(begin(299), Err(CoordinatorError::Refused { .. })));
    assert_eq!(begin(300).unwrap().node, member.node);
}

/// COORD-3: by the clock alone, which the test moves.
#[test]
fn a_session_ends_when_it_was_not_pinged_for_its_time() {
    let clock = Clock::default();
    let coordinator = open_by(&new_disk(), clock.clone()).unwrap();
    let [quiet, heard] = [5, 6].map(|disk| {
        let opened = coordinator.open(DiskId(disk), Incarnation(1), adopted(0));
        opened.unwrap()
    });
    let pinged = coordinator.ping(heard).unwrap();
    assert!(coordinator.silent().is_empty());
    clock.advance(SESSION / 2);
    assert_eq!(coordinator.silent(), [quiet.node, heard.node]);
    assert_eq!(coordinator.sessions(), [quiet, heard]);
    let again = coordinator.ping(heard).unwrap();
    assert!(pinged.0 + SESSION.as_millis() as u64 / 2 <= again.0);
    assert_eq!(coordinator.silent(), [quiet.node]);
    clock.advance(SESSION / 2);
    assert_eq!(coordinator.sessions(), [heard]);
    let over = Err(CoordinatorError::SessionOver);
    assert_eq!(coordinator.ping(quiet), over);
    // No other has looked for it.
    clock.advance(SESSION / 2);
    assert_eq!(coordinator.ping(heard), over);
}
