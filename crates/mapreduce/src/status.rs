//! How a job stands: read from its register, rows and manifests, and nothing is written.

use std::collections::BTreeMap;

use fader_cloud::Result;
use serde::Serialize;

use crate::commit::key;
use crate::job::{JobId, Lap, Output, Register, State, Success, list_key, success_key};
use crate::plan::Plan;
use crate::reduce::List;
use crate::rows::{Phase, Row, Rows, Task};

/// A job's state, for a reader.
#[derive(Clone, Debug, Serialize)]
pub struct Status {
    /// The register.
    pub register: Register,
    /// What `_SUCCESS` says, once it is there.
    pub success: Option<Success>,
    /// The phases, in order.
    pub phases: Vec<PhaseStatus>,
    /// Why attempts of tasks failed, by task.
    pub reasons: BTreeMap<String, String>,
}

/// How a phase stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PhaseStatus {
    /// Its name.
    pub phase: &'static str,
    /// Its tasks; `None` while that is not decided.
    pub tasks: Option<u32>,
    /// Tasks with a winner.
    pub done: u32,
    /// Tasks that began and have no winner.
    pub running: u32,
    /// Attempts that failed.
    pub failed: u32,
    /// Attempts that went silent.
    pub lost: u32,
    /// Backups that were asked for.
    pub backups: u32,
    /// Milliseconds of the winners: the median and the longest.
    pub ms: Option<(u64, u64)>,
    /// Of the map phase: bytes of input for each second that a winner worked.
    pub bytes_per_s: Option<u64>,
    /// Tasks without a winner that took so long that they have a backup.
    pub stragglers: Vec<String>,
}

impl Output {
    /// How the output's job stands, if it has one.
    ///
    /// # Errors
    /// Of the cloud.
    pub async fn status(&self) -> Result<Option<Status>> {
        let Some(register) = self.register().await? else {
            return Ok(None);
        };
        let success = match register.state {
            State::Publishing => self.success().await?,
            _ => None,
        };
        let rows = Rows::new(self, &register);
        let mut plan = None;
        let mut phases = Vec::new();
        let mut reasons = BTreeMap::new();
        for phase in Phase::ALL {
            let found = rows.all(phase).await?.unwrap_or_default();
            for (number, row) in found.iter().filter(|(_, row)| !row.reason.is_empty()) {
                reasons.insert(phase.task(*number).to_string(), row.reason.clone());
            }
            if let (Phase::Plan, None) = (phase, &success) {
                plan = self.plan(&register.job, found.get(&0)).await?;
            }
            let laps = match &success {
                // The rows may be gone.
                Some(success) => laps(success, phase),
                None => found
                    .values()
                    .filter_map(Row::lap)
                    .map(|lap| lap.1)
                    .collect(),
            };
            let tasks = match (phase, &success) {
                (_, Some(_)) => Some(laps.len() as u32),
                (Phase::Plan, None) => Some(1),
                (Phase::Map, None) => plan.as_ref().map(|plan| plan.splits.len() as u32),
                (Phase::Reduce, None) => Some(register.definition.reduces),
            };
            let bytes = match (phase, &success, &plan) {
                (Phase::Map, Some(success), _) => success.counters.get("input bytes").copied(),
                (Phase::Map, None, Some(plan)) => Some(bytes_of(plan, &found)),
                _ => None,
            };
            phases.push(phase_status(phase, tasks, laps, bytes, &found));
        }
        Ok(Some(Status {
            register,
            success,
            phases,
            reasons,
        }))
    }

    /// The winning plan, if it is there.
    async fn plan(&self, job: &JobId, row: Option<&Row>) -> Result<Option<Plan>> {
        match row.and_then(|row| row.winner.as_ref()) {
            Some(winner) => {
                self.work()
                    .json(&key(job, Task::PLAN, winner, "plan"))
                    .await
            }
            None => Ok(None),
        }
    }

    /// Bytes of each partition after the map phase, if that is over and not yet cleaned.
    ///
    /// # Errors
    /// Of the cloud.
    pub async fn partitions(&self, register: &Register) -> Result<Option<Vec<u64>>> {
        let list = self.work().json::<List>(&list_key(&register.job)).await?;
        let Some(list) = list else {
            return Ok(None);
        };
        let mut partitions = vec![0; register.definition.reduces as usize];
        let manifests = list.maps.iter().map(|winner| &winner.manifest);
        for manifest in manifests {
            for object in &manifest.objects {
                for (partition, run) in &object.runs {
                    if let Some(sum) = partitions.get_mut(*partition as usize) {
                        *sum += run.bytes;
                    }
                }
            }
            for sent in &manifest.sent {
                let sent = partitions.iter_mut().zip(sent);
                sent.for_each(|(sum, sent)| *sum += sent.bytes);
            }
        }
        Ok(Some(partitions))
    }

    /// Whether the output is complete.
    ///
    /// # Errors
    /// Of the cloud.
    pub async fn is_complete(&self) -> Result<bool> {
        Ok(self.store.size(&success_key()).await?.is_some())
    }
}

/// Bytes of the input of tasks that have winners.
fn bytes_of(plan: &Plan, rows: &BTreeMap<u32, Row>) -> u64 {
    let done = rows.iter().filter(|(_, row)| row.winner.is_some());
    let splits = done.filter_map(|(number, _)| plan.splits.get(*number as usize));
    splits.flatten().map(|piece| piece.bytes).sum()
}

fn phase_status(
    phase: Phase,
    tasks: Option<u32>,
    mut laps: Vec<u64>,
    bytes: Option<u64>,
    rows: &BTreeMap<u32, Row>,
) -> PhaseStatus {
    laps.sort_unstable();
    let open = || rows.iter().filter(|(_, row)| row.winner.is_none());
    let stragglers = open().filter(|(_, row)| row.has_backup);
    PhaseStatus {
        phase: phase.name(),
        tasks,
        done: laps.len() as u32,
        running: open().filter(|(_, row)| !row.started.is_empty()).count() as u32,
        failed: rows.values().map(|row| row.failed.len() as u32).sum(),
        lost: open().map(|(_, row)| row.lost() as u32).sum(),
        backups: rows.values().filter(|row| row.has_backup).count() as u32,
        ms: laps.last().map(|longest| (laps[laps.len() / 2], *longest)),
        bytes_per_s: bytes.and_then(|bytes| (bytes * 1000).checked_div(laps.iter().sum())),
        stragglers: stragglers
            .map(|(number, _)| phase.task(*number).to_string())
            .collect(),
    }
}

/// The milliseconds of a phase's winners.
fn laps(success: &Success, phase: Phase) -> Vec<u64> {
    let is_of = |lap: &&Lap| Task::parse(&lap.task).is_some_and(|task| task.phase == phase);
    success
        .timeline
        .iter()
        .filter(is_of)
        .map(|lap| lap.ms)
        .collect()
}
