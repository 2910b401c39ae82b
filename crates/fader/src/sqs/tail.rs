//! `fader sqs tail`.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use serde_json::json;

use super::{BATCH_MESSAGES, Service, list, message};
use crate::interrupt::Interrupts;
use crate::output;

/// How often a queue is looked at that showed nothing new.
const LOOK: Duration = Duration::from_secs(1);

const NOTES: &str = "\
Shows messages in the order in which they were sent, those that are delayed, or received by others
and not deleted, too. It receives none: no message is hidden, and no receive is counted. The access
key needs the right to receive.";

/// Which queue, and how its messages are shown.
#[derive(Args)]
#[command(after_help = NOTES)]
pub(super) struct Options {
    /// The queue.
    queue: String,
    /// End after the messages that are there.
    #[arg(long)]
    no_follow: bool,
    /// Only messages that are sent from now on.
    #[arg(long, conflicts_with = "no_follow")]
    new: bool,
    /// One JSON object a line.
    #[arg(long)]
    json: bool,
}

/// Shows messages until it is interrupted.
pub(super) async fn run(service: &Service, options: &Options) -> Result<ExitCode> {
    let mut interrupts = Interrupts::listen()?;
    tokio::select! {
        shown = show(service, options) => shown?,
        // To interrupt it is how it ends.
        () = interrupts.next() => {}
    }
    Ok(ExitCode::SUCCESS)
}

async fn show(service: &Service, options: &Options) -> Result<()> {
    let url = service.url(&options.queue).await?;
    let mut after = format!("{:020}", 0);
    let mut is_shown = !options.new;
    loop {
        let body = json!({
            "QueueUrl": url, "After": after, "MaxNumberOfMessages": BATCH_MESSAGES,
        });
        let reply = service.call("PeekMessages", &body).await?;
        let lines = list(&reply, "Messages").map(|it| message::line(it, options.json));
        let lines = lines.collect::<String>();
        if is_shown && !lines.is_empty() {
            output::print(&lines)?;
        }
        match reply["After"].as_str() {
            // Messages on their way elsewhere are passed without a word: the queue goes on.
            Some(next) if next != after => next.clone_into(&mut after),
            _ if options.no_follow => return Ok(()),
            _ => {
                is_shown = true;
                tokio::time::sleep(LOOK).await;
            }
        }
    }
}
