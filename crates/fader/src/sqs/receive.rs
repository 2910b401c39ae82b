//! `fader sqs receive` and `fader sqs remove`.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};

use super::{BATCH_MESSAGES, Service, list, message, settings};
use crate::interrupt::{EXIT_INTERRUPTED, Interrupts};
use crate::output;

const NOTES: &str = "\
A message that is received is hidden from others for the visibility time of the queue, then it is
there again. --delete deletes a message after it was printed: a command that is killed in between
prints it again the next time. Without --delete, --json prints the receipt handles that `fader sqs
remove` takes.

Examples:
  fader sqs receive jobs --wait 20s --delete --json
  fader sqs receive jobs --follow --delete | while read -r line; do work \"$line\"; done
  fader sqs receive jobs --json | fader sqs send others --json";

/// From which queue, how many, how.
#[derive(Args)]
#[command(after_help = NOTES)]
pub(super) struct Options {
    /// The queue.
    queue: String,
    /// How many messages at most.
    #[arg(long, default_value_t = 10, value_name = "COUNT",
          value_parser = clap::value_parser!(u64).range(1..))]
    max: u64,
    /// How long to wait for a message where there is none, up to 20s. Without it,
    /// as long as the queue says.
    #[arg(long, value_name = "TIME", value_parser = wait)]
    wait: Option<u64>,
    /// How long to hide the messages from others. Without it, as long as the queue says.
    #[arg(long, value_name = "TIME", value_parser = settings::seconds)]
    visibility: Option<u64>,
    /// Delete the messages when they are printed.
    #[arg(long)]
    delete: bool,
    /// Receive until interrupted.
    #[arg(long, conflicts_with = "max")]
    follow: bool,
    /// One JSON object a line, with all attributes.
    #[arg(long)]
    json: bool,
}

/// Which messages to delete.
#[derive(Args)]
pub(super) struct RemoveOptions {
    /// The queue.
    queue: String,
    /// Receipt handles, as `fader sqs receive --json` prints them.
    #[arg(required = true, value_name = "HANDLE")]
    handles: Vec<String>,
}

/// The longest wait that SQS knows.
const WAIT_MAX_S: u64 = 20;

fn wait(text: &str) -> Result<u64, String> {
    let wait_s = settings::seconds(text)?;
    match wait_s <= WAIT_MAX_S {
        true => Ok(wait_s),
        false => Err(format!(
            "a receive waits {WAIT_MAX_S}s at most; --follow goes on"
        )),
    }
}

/// Receives and prints.
pub(super) async fn run(service: &Service, options: &Options) -> Result<ExitCode> {
    let url = service.url(&options.queue).await?;
    let mut interrupts = Interrupts::listen()?;
    let mut left = match options.follow {
        true => u64::MAX,
        false => options.max,
    };
    let mut is_all_deleted = true;
    while 0 < left {
        let is_first = left == options.max || options.follow;
        let received = tokio::select! {
            received = receive(service, options, &url, left, is_first) => received?,
            () = interrupts.next() => return Ok(ended(options)),
        };
        if received.is_empty() && !options.follow {
            break;
        }
        left = left.saturating_sub(received.len() as u64);
        let lines = received.iter().map(|it| message::line(it, options.json));
        let handles: Vec<&str> = received.iter().map(handle).collect();
        if let Err(error) = output::print(&lines.collect::<String>()) {
            // No consumer saw them: others may have them at once.
            let shown = each(service, "ChangeMessageVisibilityBatch", &url, &handles).await;
            drop(shown);
            return Err(error);
        }
        if options.delete && !handles.is_empty() {
            is_all_deleted &= each(service, "DeleteMessageBatch", &url, &handles).await?;
        }
    }
    Ok(match is_all_deleted {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// To interrupt `--follow` is how it ends.
fn ended(options: &Options) -> ExitCode {
    match options.follow {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(EXIT_INTERRUPTED),
    }
}

async fn receive(
    service: &Service,
    options: &Options,
    url: &str,
    left: u64,
    is_first: bool,
) -> Result<Vec<Value>> {
    let mut body = json!({
        "QueueUrl": url,
        "MaxNumberOfMessages": left.min(BATCH_MESSAGES as u64),
        "MessageSystemAttributeNames": ["All"],
        // What services read that do not know the newer name.
        "AttributeNames": ["All"],
        "MessageAttributeNames": ["All"],
    });
    // Behind the first messages nothing is waited for.
    let wait_s = match is_first {
        true => options.wait.or(options.follow.then_some(WAIT_MAX_S)),
        false => Some(0),
    };
    if let Some(wait_s) = wait_s {
        body["WaitTimeSeconds"] = json!(wait_s);
    }
    if let Some(visibility_s) = options.visibility {
        body["VisibilityTimeout"] = json!(visibility_s);
    }
    let mut reply = service.call("ReceiveMessage", &body).await?;
    Ok(match reply["Messages"].take() {
        Value::Array(messages) => messages,
        _ => Vec::new(),
    })
}

fn handle(message: &Value) -> &str {
    message["ReceiptHandle"].as_str().unwrap_or_default()
}

/// Deletes messages, or shows them to others again. Says whether it did so to all, and tells on
/// standard error of those to which it did not.
async fn each(service: &Service, action: &str, url: &str, handles: &[&str]) -> Result<bool> {
    let mut is_all = true;
    for handles in handles.chunks(BATCH_MESSAGES) {
        let entries = handles.iter().enumerate().map(|(at, handle)| {
            let mut entry = json!({ "Id": at.to_string(), "ReceiptHandle": handle });
            if action == "ChangeMessageVisibilityBatch" {
                entry["VisibilityTimeout"] = json!(0);
            }
            entry
        });
        let body = json!({ "QueueUrl": url, "Entries": entries.collect::<Vec<_>>() });
        let reply = service.call(action, &body).await?;
        for failed in list(&reply, "Failed") {
            is_all = false;
            let at = failed["Id"]
                .as_str()
                .and_then(|id| id.parse::<usize>().ok());
            let handle = at.and_then(|at| handles.get(at)).unwrap_or(&"");
            let said = [&failed["Code"], &failed["Message"]];
            let said = said
                .map(|said| said.as_str().unwrap_or_default())
                .join(": ");
            note!("not deleted: {said}: {}", output::visible(handle));
        }
    }
    Ok(is_all)
}

/// Deletes messages.
pub(super) async fn remove(service: &Service, options: &RemoveOptions) -> Result<ExitCode> {
    let url = service.url(&options.queue).await?;
    let handles: Vec<&str> = options.handles.iter().map(String::as_str).collect();
    Ok(
        match each(service, "DeleteMessageBatch", &url, &handles).await? {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        },
    )
}
