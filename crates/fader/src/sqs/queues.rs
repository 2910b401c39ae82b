//! `fader sqs queues`, `stat`, `purge` and `delete`.

use anyhow::Result;
use clap::Args;
use fader_services::ErrorCode;
use serde_json::{Map, Value, json};

use super::{Service, list, name_of};
use crate::failure;
use crate::output::{self, visible};

/// Pages of ListQueues that are read before it is called endless.
const LIST_PAGES_MAX: usize = 1_000;

/// Which queues, and what of them.
#[derive(Args)]
pub(super) struct Options {
    /// Only queues whose names begin so.
    #[arg(default_value = "")]
    prefix: String,
    /// Counts of messages, and where dead letters go.
    #[arg(long)]
    details: bool,
    /// One JSON object a line, with all attributes.
    #[arg(long, conflicts_with = "details")]
    json: bool,
}

/// Which queue.
#[derive(Args)]
pub(super) struct QueueOptions {
    /// The queue.
    queue: String,
}

/// Which queue, and how it is shown.
#[derive(Args)]
pub(super) struct StatOptions {
    /// The queue.
    queue: String,
    /// One JSON object.
    #[arg(long)]
    json: bool,
}

/// Lists the queues.
pub(super) async fn run(service: &Service, options: &Options) -> Result<()> {
    let urls = all(service, &options.prefix).await?;
    if options.json {
        for url in &urls {
            let attributes = service.attributes(url).await?;
            output::print(&format!("{}\n", described(url, &attributes)))?;
        }
        return Ok(());
    }
    if !options.details {
        let names = urls.iter().map(|url| format!("{}\n", name_of(url)));
        return output::print(&names.collect::<String>());
    }
    let mut table = output::table(["queue", "visible", "in flight", "delayed", "dead letters"]);
    for url in &urls {
        let attributes = service.attributes(url).await?;
        let get = |name: &str| visible(attributes.get(name).and_then(Value::as_str).unwrap_or(""));
        let counted = |what: &str| get(&format!("ApproximateNumberOfMessages{what}"));
        table.add_row([
            name_of(url).to_owned(),
            counted(""),
            counted("NotVisible"),
            counted("Delayed"),
            dead_letters(&attributes),
        ]);
    }
    output::print(&format!("{}\n", table.trim_fmt()))
}

async fn all(service: &Service, prefix: &str) -> Result<Vec<String>> {
    let mut urls = Vec::new();
    let mut body = json!({ "QueueNamePrefix": prefix, "MaxResults": 1000 });
    for _ in 0..LIST_PAGES_MAX {
        let reply = service.call("ListQueues", &body).await?;
        let page = list(&reply, "QueueUrls").filter_map(Value::as_str);
        urls.extend(page.map(str::to_owned));
        match reply["NextToken"].as_str() {
            Some(token) => body["NextToken"] = json!(token),
            None => return Ok(urls),
        }
    }
    failure::fail(
        ErrorCode::AnswerMalformed,
        "the list of queues has no last page",
    )
}

/// `NAME after COUNT receives`, or nothing.
fn dead_letters(attributes: &Map<String, Value>) -> String {
    let policy = attributes.get("RedrivePolicy").and_then(Value::as_str);
    let policy = policy.and_then(|policy| serde_json::from_str::<Value>(policy).ok());
    let Some(policy) = policy else {
        return String::new();
    };
    let target = policy["deadLetterTargetArn"].as_str().unwrap_or_default();
    let count = &policy["maxReceiveCount"];
    let count = count.as_str().map_or(count.to_string(), str::to_owned);
    visible(&format!("{} after {count} receives", name_of(target)))
}

fn described(url: &str, attributes: &Map<String, Value>) -> Value {
    json!({ "queue": name_of(url), "url": url, "attributes": attributes })
}

/// Shows the attributes of a queue.
pub(super) async fn stat(service: &Service, options: &StatOptions) -> Result<()> {
    let url = service.url(&options.queue).await?;
    let attributes = service.attributes(&url).await?;
    if options.json {
        return output::print(&format!("{}\n", described(&url, &attributes)));
    }
    let mut table = output::table(["attribute", "value"]);
    table.add_row(["QueueUrl".to_owned(), visible(&url)]);
    for (name, value) in &attributes {
        let value = value.as_str().map_or(value.to_string(), str::to_owned);
        table.add_row([visible(name), visible(&value)]);
    }
    output::print(&format!("{}\n", table.trim_fmt()))
}

/// Deletes all messages.
pub(super) async fn purge(service: &Service, options: &QueueOptions) -> Result<()> {
    let body = json!({ "QueueUrl": service.url(&options.queue).await? });
    service.call("PurgeQueue", &body).await?;
    Ok(())
}

/// Deletes the queue.
pub(super) async fn delete(service: &Service, options: &QueueOptions) -> Result<()> {
    let body = json!({ "QueueUrl": service.url(&options.queue).await? });
    service.call("DeleteQueue", &body).await?;
    Ok(())
}
