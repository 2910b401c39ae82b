//! Makes a failing plan of a database smaller.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use fader_cloud::model::{FaultRates, Latency, Skew, Staleness};
use fader_database::PendingQueues;

use super::run::{Plan, run};
use crate::cloud::Failure;
use crate::shrink::Search;

/// The smallest plan found that fails as `plan` does, with its failure; at most `runs_max` runs.
pub fn shrink(plan: &Plan, failure: &Failure, runs_max: usize) -> (Plan, Failure) {
    let mut smallest = failure.clone();
    let mut fails = |plan: &Plan| {
        let found = catch_unwind(AssertUnwindSafe(|| run(plan, false).failure));
        let panic = Failure {
            guarantee: "panic",
            text: String::new(),
        };
        match found.unwrap_or(Some(panic)) {
            Some(found) if found.guarantee == smallest.guarantee => {
                smallest = found;
                true
            }
            _ => false,
        }
    };
    let mut search = Search {
        plan: plan.clone(),
        is_same: |one, other| format!("{one:?}") == format!("{other:?}"),
        fails: &mut fails,
        runs_left: runs_max,
    };
    while round(&mut search) {}
    let plan = search.plan;
    (plan, smallest)
}

/// Whether anything could be left out.
fn round(search: &mut Search<'_, Plan>) -> bool {
    let mut is_smaller = search.cut(
        |plan| plan.cloud.processes.len(),
        |plan, range| {
            // A run has a client.
            if range.len() < plan.cloud.processes.len() {
                plan.cloud.processes.drain(range);
            }
        },
    );
    for process in 0..search.plan.cloud.processes.len() {
        is_smaller |= search.cut(
            |plan| plan.cloud.processes[process].strikes.len(),
            |plan, range| drop(plan.cloud.processes[process].strikes.drain(range)),
        );
    }
    let calls = search.plan.cloud.profile.calls_mut().len();
    for call in 0..calls {
        is_smaller |= search.try_change(|plan| {
            plan.cloud.profile.calls_mut()[call].faults = FaultRates::default();
        });
    }
    let simpler: [fn(&mut Plan); 14] = [
        |plan| plan.cloud.faults = (plan.cloud.faults / 2).max(Duration::from_secs(1)),
        |plan| plan.disk_bytes = None,
        |plan| plan.settings.is_encrypted = false,
        |plan| plan.settings.queues = PendingQueues::PerCollection(1),
        |plan| plan.options.has_lock_hint = false,
        |plan| plan.options.has_reader_checkpoints = false,
        |plan| plan.levels.truncate(1),
        |plan| plan.habits.large_in = u64::MAX,
        |plan| plan.cloud.profile.objects.reads = Staleness::None,
        |plan| plan.cloud.profile.objects.object_writes = None,
        |plan| plan.cloud.profile.objects.prefix_reads = None,
        |plan| plan.cloud.profile.objects.prefix_writes = None,
        |plan| plan.cloud.profile.queues.duplicates = 0,
        |plan| {
            let processes = plan.cloud.processes.iter_mut();
            processes.for_each(|process| process.skew = Skew::default());
        },
    ];
    for simplify in simpler {
        is_smaller |= search.try_change(simplify);
    }
    is_smaller |= search.try_change(|plan| {
        for call in plan.cloud.profile.calls_mut() {
            call.latency = Latency::Constant(Duration::from_millis(30));
        }
    });
    is_smaller
}

impl Plan {
    /// What is left of it, in a line.
    pub fn summary(&self) -> String {
        let strikes = self.cloud.processes.iter().map(|it| it.strikes.len());
        let mut profile = self.cloud.profile.clone();
        let calls = profile.calls_mut().into_iter();
        let faulty = calls.filter(|call| call.faults != FaultRates::default());
        format!(
            "{} clients, {} faults of processes, {} kinds of calls with faults, {:?} of faults, \
             levels {:?}",
            self.cloud.processes.len(),
            strikes.sum::<usize>(),
            faulty.count(),
            self.cloud.faults,
            self.levels,
        )
    }
}
