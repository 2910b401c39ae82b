//! `fader sqs redrive`.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Args;
use fader_services::ErrorCode;
use serde_json::{Value, json};

use super::{Service, list, name_of};
use crate::failure;
use crate::interrupt::{EXIT_INTERRUPTED, Interrupts};
use crate::sdb::progress::Progress;

/// How often a running task is looked at.
const LOOK: Duration = Duration::from_millis(500);

const NOTES: &str = "\
The endpoint moves the messages; this command shows how far it is, and may be interrupted. Messages
that were sent to the dead-letter queue itself have no way back: give --to.

Examples:
  fader sqs redrive failed --rate 100
  fader sqs redrive failed --to jobs
  fader sqs redrive failed --cancel";

/// Which dead-letter queue, where to, and how fast.
#[derive(Args)]
#[command(after_help = NOTES)]
pub(super) struct Options {
    /// The dead-letter queue.
    queue: String,
    /// The queue that the messages go to. Without it, each goes back to its source.
    #[arg(long, value_name = "QUEUE")]
    to: Option<String>,
    /// How many messages a second at most, up to 500. Without it, the endpoint chooses.
    #[arg(long, value_name = "COUNT")]
    rate: Option<u32>,
    /// Begin and do not wait for the end.
    #[arg(long)]
    no_wait: bool,
    /// Show how the task that runs is going on, and begin none.
    #[arg(long, conflicts_with_all = ["to", "rate", "no_wait"])]
    watch: bool,
    /// End the task that runs; what is moved stays moved.
    #[arg(long, conflicts_with_all = ["to", "rate", "no_wait", "watch"])]
    cancel: bool,
}

/// Begins a task and follows it to its end.
pub(super) async fn run(service: &Service, options: &Options) -> Result<ExitCode> {
    let arn = service.arn(&options.queue).await?;
    if options.cancel {
        return cancel(service, &arn).await;
    }
    if !options.watch {
        let mut body = json!({ "SourceArn": arn });
        if let Some(to) = &options.to {
            body["DestinationArn"] = json!(service.arn(to).await?);
        }
        if let Some(rate) = options.rate {
            body["MaxNumberOfMessagesPerSecond"] = json!(rate);
        }
        service.call("StartMessageMoveTask", &body).await?;
        if options.no_wait {
            note!(
                "began; `fader sqs redrive {} --watch` shows it",
                options.queue
            );
            return Ok(ExitCode::SUCCESS);
        }
    }
    let progress = Progress::new(None);
    let mut interrupts = Interrupts::listen()?;
    tokio::select! {
        code = follow(service, &arn, progress) => code,
        () = interrupts.next() => {
            let queue = &options.queue;
            note!("the endpoint goes on; `fader sqs redrive {queue} --cancel` ends it");
            Ok(ExitCode::from(EXIT_INTERRUPTED))
        }
    }
}

async fn follow(service: &Service, arn: &str, mut progress: Progress) -> Result<ExitCode> {
    loop {
        let task = newest(service, arn).await?;
        let count = |name: &str| task[name].as_u64().unwrap_or(0);
        let moved = count("ApproximateNumberOfMessagesMoved");
        let done = match task["ApproximateNumberOfMessagesToMove"].as_u64() {
            Some(all) => format!("{moved} of {all} messages moved"),
            None => format!("{moved} messages moved"),
        };
        progress.show(moved, done.clone());
        let status = task["Status"].as_str().unwrap_or_default();
        if matches!(status, "RUNNING" | "CANCELLING") {
            tokio::time::sleep(LOOK).await;
            continue;
        }
        progress.finish();
        return match status {
            "COMPLETED" => {
                note!("{done}");
                Ok(ExitCode::SUCCESS)
            }
            "CANCELLED" => {
                note!("cancelled: {done}");
                Ok(ExitCode::FAILURE)
            }
            _ => {
                let reason = task["FailureReason"].as_str().unwrap_or("no reason told");
                return failure::fail(
                    ErrorCode::StateConflict,
                    format_args!("the task failed: {reason}; {done}"),
                );
            }
        };
    }
}

/// The task that began last.
async fn newest(service: &Service, arn: &str) -> Result<Value> {
    let body = json!({ "SourceArn": arn, "MaxResults": 1 });
    let reply = service.call("ListMessageMoveTasks", &body).await?;
    let task = list(&reply, "Results").next().cloned();
    task.with_context(|| format!("{} has no move task", name_of(arn)))
}

async fn cancel(service: &Service, arn: &str) -> Result<ExitCode> {
    let task = newest(service, arn).await?;
    let Some(handle) = task["TaskHandle"].as_str() else {
        return failure::fail(
            ErrorCode::NotFound,
            format_args!("{} has no move task that runs", name_of(arn)),
        );
    };
    let body = json!({ "TaskHandle": handle });
    let reply = service.call("CancelMessageMoveTask", &body).await?;
    let moved = &reply["ApproximateNumberOfMessagesMoved"];
    note!("cancelled: {moved} messages moved");
    Ok(ExitCode::SUCCESS)
}
