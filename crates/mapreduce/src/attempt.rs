//! The way of an attempt from its message to its end: won, lost, failed or stopped.

use fader_cloud::Received;
use futures_util::future::{Either, select};

use crate::commit::Attempt;
use crate::failure::{Failure, Outcome, shortened};
use crate::guard::Guard;
use crate::job::{Standing, State};
use crate::lease::{Stop, renew};
use crate::rows::{Order, Phase, Task, also, one};
use crate::view::Job;
use crate::{map, planner, reduce};

/// How an attempt ended, as far as its worker cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The job goes on.
    Goes,
    /// The job may be over.
    Over,
}

/// Runs an attempt of the task that a message names, to its end.
pub(crate) async fn attempt(job: &Job, phase: Phase, message: Received) -> Ended {
    let order: Option<Order> = serde_json::from_str(&message.body).ok();
    let task = order.as_ref().and_then(|order| Task::parse(&order.task));
    let (Some(order), Some(task)) = (order, task.filter(|task| task.phase == phase)) else {
        remove(job, phase, &message).await;
        return Ended::Goes;
    };
    match begun(job, &order, task, &message).await {
        Ok(()) => {
            remove(job, phase, &message).await;
            Ended::Goes
        }
        Err(Failure::Cloud(_)) => Ended::Goes,
        Err(_) => Ended::Over,
    }
}

async fn remove(job: &Job, phase: Phase, message: &Received) {
    let queue = job.rows.queue(phase);
    let receipts = [message.receipt.clone()];
    // A message that stays is dropped by its next receiver.
    drop(job.store().0.queues.remove(&queue, &receipts).await);
}

/// Starts an attempt unless the task has a winner, and ends it in one of its ways.
async fn begun(job: &Job, order: &Order, task: Task, message: &Received) -> Outcome<()> {
    let row = job.rows.read(task).await?.ok_or(Failure::Over)?;
    if row.winner.is_some() {
        return Ok(());
    }
    if job.output.standing(job.id()).await? != Standing::Running {
        return Err(Failure::Over);
    }
    let attempt = Attempt::new(job, task);
    if !attempt.start(order).await? {
        return Ok(());
    }
    let work = Box::pin(work(&attempt));
    let stopped = Box::pin(renew(&attempt, &message.receipt));
    let outcome = match select(work, stopped).await {
        Either::Left((outcome, _)) => outcome,
        Either::Right((Stop::Over, _)) => Err(Failure::Over),
        Either::Right((Stop::Lost, _)) => {
            attempt.delete().await;
            Ok(())
        }
        Either::Right((Stop::Hidden, _)) => Ok(()),
    };
    match outcome {
        Ok(()) => Ok(()),
        Err(Failure::Over) => {
            if !job.has(Guard::DeleteOnlyAsLoser) {
                attempt.delete().await;
            }
            Err(Failure::Over)
        }
        Err(failure) => fail(&attempt, failure).await,
    }
}

/// Does the task, and commits it.
async fn work(attempt: &Attempt<'_>) -> Outcome<()> {
    let job = attempt.job;
    let manifest = match attempt.task.phase {
        Phase::Plan => {
            let (manifest, splits) = planner::plan(attempt).await?;
            if !job.has(Guard::PlanFirst) {
                job.send_all(Phase::Map, splits).await?;
            }
            manifest
        }
        Phase::Map => {
            let plan = job.plan().await?;
            map::map(attempt, &plan).await?
        }
        Phase::Reduce => {
            let list = job.list().await?;
            reduce::reduce(attempt, &list).await?
        }
    };
    let has_won = attempt.commit(manifest).await?;
    if has_won && attempt.task.phase == Phase::Plan {
        let count = job.plan().await?.splits.len() as u32;
        job.send_all(Phase::Map, count).await?;
    }
    Ok(())
}

/// An attempt that has no result: noted, counted, and its task sent again.
async fn fail(attempt: &Attempt<'_>, failure: Failure) -> Outcome<()> {
    let (job, task) = (attempt.job, attempt.task);
    if job.output.standing(job.id()).await? != Standing::Running {
        return Err(Failure::Over);
    }
    let reason = shortened(&format!("task {task}: {failure}"));
    let noted = match &failure {
        Failure::Cloud(_) => vec![also("ended", attempt.id.clone())],
        _ => vec![
            also("failed", attempt.id.clone()),
            one("reason", reason.clone()),
        ],
    };
    job.rows.note(task, noted).await?;
    if let Failure::Job(reason) = &failure {
        job.output
            .decide(job.id(), State::Failed, &shortened(reason))
            .await?;
        return Err(Failure::Over);
    }
    let row = job.rows.read(task).await?.ok_or(Failure::Over)?;
    if job.definition().failed_max as usize <= row.failed.len() {
        job.output.decide(job.id(), State::Failed, &reason).await?;
        return Err(Failure::Over);
    }
    let order = Order::new(task, attempt.beat());
    job.rows.send(task.phase, &[order]).await?;
    Ok(())
}
