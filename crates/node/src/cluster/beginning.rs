//! How the member of a chain begins with its process: its folder is checked before any member lives
//! (P3), and a coordinator that cannot be asked is waited for.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use fader_chain::{DiskId, Identity, Progress};

use super::{Cluster, Event};
use crate::coordinator::{Coordinator, CoordinatorError};
use crate::member::Folder;
use crate::random;
use crate::settings::Settings;
use crate::status::OpenError;

/// How often a coordinator that cannot be asked is asked again, and how often that is told.
const AGAIN: Duration = Duration::from_millis(500);
const TELL: Duration = Duration::from_secs(10);

impl Cluster {
    /// The folder of the member that is to be here, or was here (H2), if it may begin a life; none
    /// of one that is damaged.
    pub(super) fn open_checked(&self) -> Result<Option<Folder>, OpenError> {
        let (Some(process), [slot]) = (&self.process, &self.slots[..]) else {
            return Ok(None);
        };
        if !process.is_wanted() && !slot.folder.exists() {
            return Ok(None);
        }
        let settings = Settings {
            data: slot.folder.clone(),
            ..self.settings.member.clone()
        };
        let folder = match self.guarded(slot, || Folder::open(settings)) {
            Err(OpenError::Broken(_)) => return Ok(None),
            Err(OpenError::Damaged(reason)) => {
                slot.is_unreadable.store(true, Ordering::Relaxed);
                tracing::error!(chain = %process.chain, reason, "a member is damaged");
                (self.tell)(Event::Damaged(process.own_name().to_owned(), reason));
                return Ok(None);
            }
            opened => opened?,
        };
        let coordinator = process.home.coordinator();
        let (disk, progress) = (folder.disk(), folder.progress());
        match patiently(|| coordinator.check(process.chain, disk, progress)) {
            Err(OpenError::Refused(why)) => {
                let folder = slot.folder.display();
                Err(OpenError::Refused(format!("{folder}: {why}")))
            }
            checked => checked.map(|()| Some(folder)),
        }
    }

    /// Begins the life of the member here, waiting for the coordinator.
    pub(super) fn begin(&self, folder: Folder) -> Result<(), OpenError> {
        let (Some(process), [slot]) = (&self.process, &self.slots[..]) else {
            return Ok(());
        };
        let progress = folder.progress();
        let me = begin(&*self.coordinator, folder.disk(), progress)?;
        let starting = |source| OpenError::Io {
            context: format!("starting the member of {}", process.chain),
            source,
        };
        let live = || self.live(folder, (me, progress), &starting);
        match self.guarded(slot, live) {
            Err(OpenError::Broken(_)) => self.coordinator.close(me),
            running => {
                *slot.running.write() = Some(running?);
                *slot.node.lock() = Some(me.node);
                self.on_started(slot);
            }
        }
        Ok(())
    }
}

/// A session for the first life on the disk.
fn begin(
    coordinator: &dyn Coordinator,
    disk: DiskId,
    shown: Progress,
) -> Result<Identity, OpenError> {
    patiently(|| {
        let incarnation = random::incarnation()
            .map_err(|error| CoordinatorError::Unavailable(error.to_string()))?;
        coordinator.open(disk, incarnation, shown)
    })
}

/// Asks the coordinator until it can be asked.
pub(super) fn patiently<T>(ask: impl Fn() -> Result<T, CoordinatorError>) -> Result<T, OpenError> {
    let mut told = None;
    loop {
        match ask() {
            Ok(answer) => return Ok(answer),
            Err(CoordinatorError::Refused(reason)) => return Err(OpenError::Refused(reason)),
            Err(error) => {
                if told.is_none_or(|told: Instant| TELL <= told.elapsed()) {
                    tracing::warn!("waiting: {error}");
                    told = Some(Instant::now());
                }
                std::thread::sleep(AGAIN);
            }
        }
    }
}
