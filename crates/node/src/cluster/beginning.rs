//! How the member of a chain begins with its process. Its folder is checked before any member lives
//! (PROC-3), and a coordinator that cannot be asked is waited for.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use fader_chain::{DiskId, Identity, Progress};

use super::{Cluster, Event};
use crate::coordinator::{Coordinator, CoordinatorError, Outage};
use crate::member::Folder;
use crate::random;
use crate::settings::Settings;
use crate::status::OpenError;

/// How often a coordinator that cannot be asked is asked again, and how often that is told.
const AGAIN: Duration = Duration::from_millis(500);
const TELL: Duration = Duration::from_secs(10);

impl Cluster {
    /// The folder of the member that is to be here, or was here (FOLDERS-2), if it may begin an
    /// incarnation. There is none of one that is damaged.
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
            Err(error) if error.is_panic() => return Ok(None),
            Err(error) if error.is_damage() => {
                let reason = error.context;
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
            Err(error) => {
                let folder = slot.folder.display();
                Err(OpenError::new(error.code, format!("{folder}: {error}")))
            }
            checked => checked.map(|()| Some(folder)),
        }
    }

    /// Begins the incarnation of the member here, waiting for the coordinator.
    pub(super) fn begin(&self, folder: Folder) -> Result<(), OpenError> {
        let (Some(process), [slot]) = (&self.process, &self.slots[..]) else {
            return Ok(());
        };
        let progress = folder.progress();
        let me = begin(&*self.coordinator, folder.disk(), progress)?;
        let starting =
            |source| OpenError::io(format!("starting the member of {}", process.chain), source);
        let live = || self.live(folder, me, progress, &starting);
        match self.guarded(slot, live) {
            Err(error) if error.is_panic() => self.coordinator.close(me),
            running => {
                *slot.running.write() = Some(running?);
                *slot.node.lock() = Some(me.node);
                self.on_started(slot);
            }
        }
        Ok(())
    }
}

/// A session for the first incarnation on the disk.
fn begin(
    coordinator: &dyn Coordinator,
    disk: DiskId,
    shown: Progress,
) -> Result<Identity, OpenError> {
    patiently(|| {
        let incarnation = random::incarnation().map_err(|error| Outage::system(&error))?;
        coordinator.open(disk, incarnation, shown)
    })
}

/// Asks the coordinator until it can be asked.
pub(super) fn patiently<T>(ask: impl Fn() -> Result<T, CoordinatorError>) -> Result<T, OpenError> {
    let mut told = None;
    loop {
        match ask() {
            Ok(answer) => return Ok(answer),
            Err(CoordinatorError::Refused { code, context }) => {
                return Err(OpenError::new(code, context));
            }
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
