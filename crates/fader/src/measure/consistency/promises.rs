//! What the logs of loads say of promises: what eventual reads missed, and whether strong
//! operations have one order.

use anyhow::{Result, bail};
use fader_history::Rules;
use fader_history::check::{Fault, registers, staleness};
use fader_history::object::Log;
use serde::Serialize;

use super::load::{Kind, is_strong};

/// What logs say.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Promises {
    /// Eventual reads.
    pub(super) reads: u64,
    /// Those that missed a write of any level that was acknowledged before them.
    pub(super) missed: u64,
    /// How many versions one of them missed at most.
    pub(super) versions_most: usize,
    /// How old what one of them showed was at most, in milliseconds.
    pub(super) oldest_ms: f64,
    /// Logs with strong operations.
    pub(super) strong_logs: u64,
    /// Why some of these have no order.
    pub(super) violations: Vec<String>,
}

impl Promises {
    /// Judges the whole log of a load.
    ///
    /// # Errors
    /// A log that cannot be judged, such as one without versions.
    pub(super) fn add(&mut self, log: &Log) -> Result<()> {
        let rules = Rules::default();
        let found = match staleness(log, &rules) {
            Ok(found) => found,
            Err(unfit) => bail!("staleness: {unfit}"),
        };
        for reading in found.readings {
            if Kind::of(&log.operations[reading.operation]) == Kind::EventualRead {
                self.reads += 1;
                self.missed += u64::from(0 < reading.newer);
                self.versions_most = self.versions_most.max(reading.newer);
                self.oldest_ms = self.oldest_ms.max(reading.age as f64 / 1e6);
            }
        }
        if !log.operations.iter().any(|one| is_strong(&one.level)) {
            return Ok(());
        }
        self.strong_logs += 1;
        match registers(log, &is_strong, &rules) {
            Ok(_) => {}
            Err(Fault::Violated(violation)) => self.violations.push(violation.to_string()),
            Err(Fault::Unfit(unfit)) => bail!("registers: {unfit}"),
        }
        Ok(())
    }

    /// Together with another's.
    pub(super) fn with(mut self, other: &Promises) -> Self {
        self.reads += other.reads;
        self.missed += other.missed;
        self.versions_most = self.versions_most.max(other.versions_most);
        self.oldest_ms = self.oldest_ms.max(other.oldest_ms);
        self.strong_logs += other.strong_logs;
        self.violations.extend_from_slice(&other.violations);
        self
    }

    /// Two lines.
    pub(super) fn text(&self) -> String {
        let Promises { reads, missed, .. } = self;
        let how = match missed {
            0 => String::new(),
            _ => format!(
                ", by at most {} versions and {:.1} ms",
                self.versions_most, self.oldest_ms
            ),
        };
        let (logs, bad) = (self.strong_logs, self.violations.len());
        let strong = match self.violations.first() {
            None => format!("holds          SC operations have one order in all of {logs} logs"),
            Some(first) => format!(
                "DOES NOT HOLD  SC operations have no order in {bad} of {logs} logs, as in\n{first}"
            ),
        };
        format!("EC reads that missed an acknowledged write: {missed} of {reads}{how}\n{strong}\n")
    }
}

#[cfg(test)]
mod tests;
