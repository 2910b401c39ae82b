//! Settings of a queue as flags, and as the attributes that they become.

use anyhow::{Context as _, Result};
use clap::Args;
use fader_client::Error;
use fader_services::sqs::NEW_QUEUE;
use serde_json::{Map, Value, json};

use super::{Service, in_words};
use crate::failure;

const DAY_S: u64 = 86_400;

/// How long a dead-letter queue that is made here keeps its messages: the longest time.
const LETTERS_KEPT_S: u64 = 14 * 24 * 3600;

/// Settings of a queue. Without one, the queue has AWS's default.
#[derive(Args)]
pub(super) struct Flags {
    #[arg(long, value_name = "TIME", value_parser = seconds, help = format!(
        "How long a received message is hidden from others, up to 12h. A new queue has {}s.",
        NEW_QUEUE.visibility_s
    ))]
    visibility: Option<u64>,

    #[arg(long, value_name = "TIME", value_parser = seconds, help = format!(
        "How long a message is hidden after it is sent, up to 15m. A new queue has {}s.",
        NEW_QUEUE.delay_s
    ))]
    delay: Option<u64>,

    #[arg(long, value_name = "TIME", value_parser = seconds, help = format!(
        "How long a message is kept, 60s to 14d. A new queue has {}d.",
        NEW_QUEUE.retention_s / DAY_S
    ))]
    retention: Option<u64>,

    #[arg(long, value_name = "TIME", value_parser = seconds, help = format!(
        "How long a receive waits for messages that names no time of its own, up to 20s. A new \
         queue has {}s.",
        NEW_QUEUE.wait_s
    ))]
    wait: Option<u64>,

    /// Most bytes of a message, 1024 to 1048576.
    #[arg(long, value_name = "BYTES")]
    max_bytes: Option<u64>,

    /// Messages that were received COUNT times move to the queue NAME. It is created if it is
    /// absent, and keeps messages for 14 days.
    #[arg(long, value_name = "NAME:COUNT", value_parser = dead_letter)]
    dead_letter: Option<(String, u32)>,

    /// In a FIFO queue: messages with the same body within 5 minutes are one.
    #[arg(long)]
    content_deduplication: bool,

    /// Any other attribute, such as Policy or DeduplicationScope.
    #[arg(long = "attribute", value_name = "NAME=VALUE", value_parser = pair)]
    attributes: Vec<(String, String)>,
}

impl Flags {
    /// The attributes that were given. Makes the dead-letter queue if it is absent.
    pub(super) async fn attributes(
        &self,
        service: &Service,
        is_fifo: bool,
    ) -> Result<Map<String, Value>> {
        let mut attributes = Map::new();
        let numbers = [
            ("VisibilityTimeout", self.visibility),
            ("DelaySeconds", self.delay),
            ("MessageRetentionPeriod", self.retention),
            ("ReceiveMessageWaitTimeSeconds", self.wait),
            ("MaximumMessageSize", self.max_bytes),
        ];
        for (name, number) in numbers {
            attributes.extend(number.map(|number| (name.to_owned(), json!(number.to_string()))));
        }
        if self.content_deduplication {
            attributes.insert("ContentBasedDeduplication".to_owned(), json!("true"));
        }
        for (name, value) in &self.attributes {
            attributes.insert(name.clone(), json!(value));
        }
        if let Some((name, count)) = &self.dead_letter {
            let arn = dead_letter_arn(service, name, is_fifo).await?;
            let policy = json!({ "deadLetterTargetArn": arn, "maxReceiveCount": count });
            let policy = json!(policy.to_string());
            attributes.insert("RedrivePolicy".to_owned(), policy);
        }
        Ok(attributes)
    }
}

async fn dead_letter_arn(service: &Service, name: &str, is_fifo: bool) -> Result<String> {
    if is_fifo && !name.ends_with(".fifo") {
        return failure::invalid(format_args!(
            "the dead-letter queue of a FIFO queue is one too: name it {name}.fifo"
        ));
    }
    match service.0.queue_url(name).await {
        Ok(_) => {}
        Err(error) if is_absent(&error) => {
            let mut attributes = Map::new();
            let kept = json!(LETTERS_KEPT_S.to_string());
            attributes.insert("MessageRetentionPeriod".to_owned(), kept);
            if is_fifo {
                attributes.insert("FifoQueue".to_owned(), json!("true"));
            }
            let body = json!({ "QueueName": name, "Attributes": attributes });
            let made = service.call("CreateQueue", &body).await;
            made.with_context(|| format!("cannot make the dead-letter queue {name}"))?;
            note!("made the dead-letter queue {name}, which keeps messages for 14 days");
        }
        Err(error) => return Err(in_words(error)),
    }
    service.arn(name).await
}

fn is_absent(error: &Error) -> bool {
    error.code() == Some("QueueDoesNotExist")
}

/// Reads a time in seconds, minutes, hours or days; a bare number is seconds.
pub(crate) fn seconds(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is no time such as 30s, 5m, 12h or 4d");
    let at = text.find(|c: char| !c.is_ascii_digit());
    let (number, unit) = text.split_at(at.unwrap_or(text.len()));
    let unit = match unit {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 24 * 3600,
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    number.checked_mul(unit).ok_or_else(wrong)
}

fn dead_letter(text: &str) -> Result<(String, u32), String> {
    let read = || {
        let (name, count) = text.rsplit_once(':')?;
        let count = count.parse().ok().filter(|count| 0 < *count)?;
        (!name.is_empty()).then(|| (name.to_owned(), count))
    };
    read().ok_or_else(|| format!("{text:?} is not NAME:COUNT, such as failed:5"))
}

/// Reads `NAME=VALUE`.
pub(super) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(format!("{text:?} is not NAME=VALUE")),
    }
}
