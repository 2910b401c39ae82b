//! The lease of an attempt: a beat in its task's row, raised at a third of the lease.
//!
//! The message is hidden longer at the same time, which saves receives. The beat is the lease; the
//! conditional put of the winner is the fence.

use fader_cloud::{Receipt, Result, VISIBILITY_MAX};

use crate::commit::Attempt;
use crate::guard::Guard;
use crate::job::Standing;
use crate::view::Job;

/// Why an attempt stops before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The job does not run any more.
    Over,
    /// Another attempt won.
    Lost,
    /// Without [`Guard::HideIsNoLease`] or [`Guard::NothingAtVisibilityMax`]: its message is
    /// another's.
    Hidden,
}

/// Renews until the attempt must stop.
pub(crate) async fn renew(attempt: &Attempt<'_>, receipt: &Receipt) -> Stop {
    let job = attempt.job;
    let clock = &job.store().0.runtime.clock;
    let begun = clock.monotonic();
    loop {
        clock.sleep(job.lease() / 3).await;
        let is_old = VISIBILITY_MAX < clock.monotonic().saturating_sub(begun);
        if is_old && !job.has(Guard::NothingAtVisibilityMax) {
            return Stop::Hidden;
        }
        let queue = job.rows.queue(attempt.task.phase);
        let time = job.rows.visibility();
        let hidden = attempt.store.0.queues.hide(&queue, receipt, time).await;
        if hidden.is_err() && !job.has(Guard::HideIsNoLease) {
            return Stop::Hidden;
        }
        if job.has(Guard::Beats) {
            // A failure is not told: the next renewal tries again.
            drop(attempt.next_beat(&[]).await);
        }
        if let Ok(Some(stop)) = must_stop(job, attempt).await {
            return stop;
        }
    }
}

async fn must_stop(job: &Job, attempt: &Attempt<'_>) -> Result<Option<Stop>> {
    if job.output.standing(job.id()).await? != Standing::Running {
        return Ok(Some(Stop::Over));
    }
    let row = job.rows.read(attempt.task).await?;
    let winner = row.and_then(|row| row.winner);
    let has_lost = winner.is_some_and(|winner| winner != attempt.id);
    Ok(has_lost.then_some(Stop::Lost))
}
