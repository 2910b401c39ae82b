//! What becomes of a member that failed: its thread panicked, or its disk did not take a write.
//!
//! The member ends alone, and its session with it; the process and its other chains go on. It
//! begins again after 1 s, then 2 s, and so on up to 64 s. After three failures its folder is set
//! aside as a damaged one is (`damage.rs`), once. Before that it waits for the configuration in
//! which others serve without it, as long as one of them lives. If it fails on an empty folder,
//! too, that is not the folder's fault.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use super::damage::Need;
use super::{Cluster, Event, Slot};
use crate::coordinator::Fault;
use crate::member::Member;
use crate::status::{Health, HealthCause, MemberFailure, OpenError};

/// How long a member rests after its first failure, and how often that doubles.
const REST: Duration = Duration::from_secs(1);
const DOUBLINGS: u32 = 6;
/// After so many failures in a row the folder is set aside.
const FOLDER: u32 = 3;
/// A failure that is so much later than the one before is the first of a new row.
const CALM: Duration = Duration::from_secs(600);

/// How a member begins again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beginning {
    OwnFolder,
    EmptyFolder,
    /// Not yet.
    Later,
}

/// The failures of one member.
#[derive(Debug, Default)]
pub(super) struct Failures {
    /// Since the process began.
    total: u64,
    in_a_row: u32,
    /// The last one, and why.
    last: Option<(Instant, HealthCause)>,
    /// When the member begins again, while it rests.
    again_at: Option<Instant>,
    /// Whether the folder was set aside in this row.
    has_new_folder: bool,
    /// What was told last of a member that runs and is ahead of its chain (LD-2).
    ahead: Option<u64>,
}

impl Failures {
    /// The member failed: how long it rests.
    fn on_failure(&mut self, now: Instant, cause: HealthCause) -> Duration {
        let is_calm = |(last, _): &(Instant, HealthCause)| CALM <= now.duration_since(*last);
        if self.last.as_ref().is_none_or(is_calm) {
            (self.in_a_row, self.has_new_folder) = (0, false);
        }
        let rest = REST * 2_u32.pow(self.in_a_row.min(DOUBLINGS));
        self.in_a_row += 1;
        self.total += 1;
        self.last = Some((now, cause));
        self.again_at = Some(now + rest);
        rest
    }

    /// The member could not begin, through no fault of its own.
    fn postpone(&mut self, now: Instant) {
        self.again_at = Some(now + REST);
    }

    /// The member runs again.
    pub(super) fn on_started(&mut self) {
        self.again_at = None;
    }

    /// Whether the member has failed and does not run again yet.
    pub(super) fn rests(&self) -> bool {
        self.again_at.is_some()
    }

    /// Since the process began.
    fn total(&self) -> u64 {
        self.total
    }

    /// While it rests: how often it failed in a row, and why.
    pub(super) fn newest(&self) -> Option<MemberFailure> {
        let (_, cause) = self.last.as_ref().filter(|_| self.rests())?;
        Some(MemberFailure {
            times: self.in_a_row,
            cause: Box::new(cause.clone()),
        })
    }

    fn is_due(&self, now: Instant) -> bool {
        self.again_at.is_some_and(|at| at <= now)
    }

    /// Whether its folder is to be set aside, which is done once in a row.
    fn wants_new_folder(&self) -> bool {
        FOLDER <= self.in_a_row && !self.has_new_folder
    }

    /// How the member begins again that rested, where the chain needs this of its folder.
    fn begin_again(&mut self, now: Instant, need: Need) -> Beginning {
        match need {
            _ if !self.wants_new_folder() => Beginning::OwnFolder,
            Need::Folder => Beginning::OwnFolder,
            Need::Passing => {
                self.postpone(now);
                Beginning::Later
            }
            Need::Nothing => {
                self.has_new_folder = true;
                Beginning::EmptyFolder
            }
        }
    }
}

impl Cluster {
    /// Ends a member that failed, and begins it again when its rest is over.
    pub(super) fn revive(&self, name: &str, slot: &Slot) {
        self.tell_ahead(slot);
        let failure = |slot: &Slot| slot.running.read().as_ref()?.member.shared().failure();
        if let Some(cause) = failure(slot) {
            if let Some(incarnation) = self.stop(slot, Member::kill) {
                self.coordinator.close(incarnation);
            }
            return self.on_failure(name, slot, cause);
        }
        if !slot.failures.lock().is_due(Instant::now()) {
            return;
        }
        let wants_new_folder = slot.failures.lock().wants_new_folder();
        let need = match wants_new_folder {
            true => self.need(),
            false => Need::Folder,
        };
        let beginning = slot.failures.lock().begin_again(Instant::now(), need);
        match beginning {
            Beginning::OwnFolder => {}
            Beginning::EmptyFolder => return self.replace(name, slot),
            Beginning::Later => return,
        }
        match self.start(slot) {
            Ok(()) => (self.tell)(Event::Started(name.to_owned())),
            // It was noted as another failure.
            Err(error) if error.is_panic() => {}
            // Who looks at it still has it, or the coordinator cannot be asked.
            Err(error) => {
                tracing::warn!(name, %error, "a member that failed does not begin yet");
                slot.failures.lock().postpone(Instant::now());
            }
        }
    }

    /// Whether a member here failed, is damaged, or has stopped.
    pub(super) fn has_trouble(&self) -> bool {
        let mut members = self.members();
        let fails = members.any(|member| member.shared().failure().is_some());
        fails || self.is_damaged() || self.failed_health().is_some()
    }

    /// Says when the member here has stopped because it is ahead, and when that is over (LD-2).
    fn tell_ahead(&self, slot: &Slot) {
        let running = slot.running.read();
        let running = running.as_ref().map(|it| it.member.shared().clone());
        let Some(ahead) = running.map(|shared| shared.ahead()) else {
            return;
        };
        let is_news = std::mem::replace(&mut slot.failures.lock().ahead, ahead) != ahead;
        if is_news {
            self.say(ahead.map(Fault::Ahead));
        }
    }

    /// The member runs: what was wrong with it is over.
    pub(super) fn on_started(&self, slot: &Slot) {
        slot.failures.lock().on_started();
        self.say(None);
    }

    /// Notes a failure of a member that does not run any more.
    pub(super) fn on_failure(&self, name: &str, slot: &Slot, cause: HealthCause) {
        let (rest, times) = {
            let mut failures = slot.failures.lock();
            let rest = failures.on_failure(Instant::now(), cause.clone());
            (rest, failures.in_a_row)
        };
        let seconds = rest.as_secs();
        let code = cause.code();
        tracing::error!(name, reason = %cause, %code, seconds, "a member failed: it begins again");
        self.say(Some(Fault::Failed(times)));
        (self.tell)(Event::Failed(name.to_owned(), cause, rest));
    }

    /// What `begin` comes to. A panic in it is a failure of the member, and of nothing else.
    pub(super) fn guarded<T>(
        &self,
        slot: &Slot,
        begin: impl FnOnce() -> Result<T, OpenError>,
    ) -> Result<T, OpenError> {
        catch_unwind(AssertUnwindSafe(begin)).unwrap_or_else(|_| {
            self.on_failure(&self.name_of(slot), slot, HealthCause::Broken);
            let (code, context) = (HealthCause::Broken.code(), HealthCause::Broken.to_string());
            Err(OpenError::new(code, context))
        })
    }

    /// Reports the state of the member here to readers of the cluster's status.
    pub(super) fn say(&self, fault: Option<Fault>) {
        if let Some(process) = &self.process {
            process.say(fault);
        }
    }

    /// How often members here have failed since the process began, and how many rest.
    pub(crate) fn failures(&self) -> (u64, u64) {
        let slots = self.slots.iter().map(|slot| slot.failures.lock());
        slots.fold((0, 0), |(total, resting), it| {
            (total + it.total(), resting + u64::from(it.rests()))
        })
    }

    /// The members here that have failed, with the names of their nodes.
    pub(crate) fn failed(&self) -> Vec<(String, MemberFailure)> {
        let failed = self.slots.iter().filter_map(|slot| {
            let failure = slot.failures.lock().newest()?;
            Some((self.name_of(slot), failure))
        });
        failed.collect()
    }

    /// What is said of a chain whose members here have failed, or stopped (LD-2).
    pub(super) fn failed_health(&self) -> Option<Health> {
        let members = self.members().find_map(|member| member.shared().ahead());
        if let Some(entries) = members {
            return Some(Health::ReadOnly(HealthCause::MemberAhead { entries }));
        }
        let (_, failure) = self.failed().into_iter().next()?;
        Some(Health::ReadOnly(HealthCause::MemberFailed(failure)))
    }
}

#[cfg(test)]
mod tests;
