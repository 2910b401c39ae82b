//! `fader sqs create` and `fader sqs set`.

use anyhow::{Context as _, Result};
use clap::Args;
use fader_services::Mode;
use serde_json::{Map, Value, json};

use super::{Service, in_words, name_of, settings};
use crate::failure;
use crate::output;

const EXAMPLES: &str = "\
Examples:
  fader sqs create jobs --visibility 60s --dead-letter failed:5
  fader sqs create orders --fifo --content-deduplication
  fader sqs create events --mode mixed          (eventual sends too; for Fader only)";

/// Which queue, and what it is like.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Options {
    /// 1 to 80 letters, digits, `-` and `_`; of a FIFO queue `.fifo` at the end.
    queue: String,
    /// A FIFO queue: messages of a group are received in order, and duplicates are dropped. Adds
    /// `.fifo` to a name without it.
    #[arg(long)]
    fifo: bool,
    #[command(flatten)]
    settings: settings::Flags,
    /// A tag; may come several times.
    #[arg(long = "tag", value_name = "KEY=VALUE", value_parser = settings::pair)]
    tags: Vec<(String, String)>,
    #[arg(long, help = format!(
        "Who may send to it, for Fader only: `strong` or `mixed`. [default: {}]", Mode::default()
    ))]
    mode: Option<Mode>,
}

/// Which queue, and what to change.
#[derive(Args)]
pub(super) struct SetOptions {
    /// The queue.
    queue: String,
    #[command(flatten)]
    settings: settings::Flags,
    /// Messages stay, however often they are received.
    #[arg(long, conflicts_with = "dead_letter")]
    no_dead_letter: bool,
}

/// Creates the queue.
pub(super) async fn run(service: &Service, options: &Options) -> Result<()> {
    let mut name = options.queue.clone();
    if options.fifo && !name.ends_with(".fifo") {
        name.push_str(".fifo");
    }
    let is_fifo = name.ends_with(".fifo");
    let mut attributes = options.settings.attributes(service, is_fifo).await?;
    if is_fifo {
        attributes.insert("FifoQueue".to_owned(), json!("true"));
    }
    let mut body = json!({ "QueueName": name, "Attributes": attributes });
    if !options.tags.is_empty() {
        let tags = options.tags.iter();
        let tags: Map<String, Value> = tags.map(|(key, it)| (key.clone(), json!(it))).collect();
        body["tags"] = json!(tags);
    }
    let created = service.0.create_as(&body, options.mode).await;
    let reply = created.map_err(in_words)?;
    let url = reply["QueueUrl"].as_str();
    let url = url.context("the endpoint told no queue URL")?;
    output::print(&format!("{url}\n"))
}

/// Changes the settings.
pub(super) async fn set(service: &Service, options: &SetOptions) -> Result<()> {
    let url = service.url(&options.queue).await?;
    let is_fifo = name_of(&url).ends_with(".fifo");
    let mut attributes = options.settings.attributes(service, is_fifo).await?;
    if options.no_dead_letter {
        attributes.insert("RedrivePolicy".to_owned(), json!(""));
    }
    if attributes.is_empty() {
        return failure::invalid("nothing to change: give a setting, such as --visibility 60s");
    }
    let body = json!({ "QueueUrl": url, "Attributes": attributes });
    service.call("SetQueueAttributes", &body).await?;
    Ok(())
}
