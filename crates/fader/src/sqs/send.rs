//! `fader sqs send`: messages of the command line, or the lines of standard input.
//!
//! ```text
//! reader thread ──lines──▶ batches of 10 ──▶ several requests in flight ──▶ settled lines
//! ```
//!
//! Invariants:
//! 1. A line is *settled* when its message is sent or the line is rejected with its number. After
//!    an interrupt or a failure the number of the first unsettled line is printed.
//! 2. A message is sent again only where it was not sent: the endpoint refused it, or an id for
//!    deduplication makes the second a duplicate.
//! 3. One request is in flight at a time to a FIFO queue: lines keep their order.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use fader_client::{Error, ErrorKind};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::lines::{self, Line};
use super::message::Outgoing;
use super::{BATCH_MESSAGES, Service, in_words, list, name_of, settings};
use crate::failure::{self, Failure};
use crate::interrupt::{EXIT_INTERRUPTED, Interrupts};
use crate::sdb::progress::Progress;

/// Bytes of a batch: the least that services take.
const BATCH_BYTES: usize = 256 << 10;
/// Requests in flight to a standard queue.
const IN_FLIGHT: usize = 4;
/// How often entries are sent before the command gives up.
const ATTEMPTS_MAX: u32 = 7;
/// The wait before the second attempt; it doubles each time.
const WAIT_FIRST: Duration = Duration::from_millis(100);

const NOTES: &str = "\
A line that the endpoint refuses is reported with its number; the others are sent, and the exit
code is 1. After an interrupt the line is printed to go on with.

Examples:
  fader sqs send jobs hello world
  fader sqs send jobs < lines.txt
  fader sqs send orders.fifo --group customer-7 --unique < orders.txt
  fader sqs receive old --json --max 1000 --delete | fader sqs send new --json";

/// What to send where.
#[derive(Args)]
#[command(after_help = NOTES)]
pub(super) struct Options {
    /// The queue.
    queue: String,
    /// The messages. Without them, the lines of standard input.
    #[arg(value_name = "BODY")]
    bodies: Vec<String>,
    /// Lines are JSON, as `fader sqs receive --json` prints them:
    /// {"body": "...", "group": "...", "deduplication_id": "...", "delay": 5, "attributes": {...}}.
    #[arg(long, conflicts_with = "bodies")]
    json: bool,
    /// The message group; FIFO queues need one.
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,
    /// Each message gets a deduplication id of its own, for FIFO queues without deduplication by
    /// content.
    #[arg(long)]
    unique: bool,
    /// How long the messages are hidden first, up to 15m.
    #[arg(long, value_name = "TIME", value_parser = settings::seconds)]
    delay: Option<u64>,
    /// An attribute of each message; may come several times.
    #[arg(long = "attribute", value_name = "NAME=VALUE", value_parser = settings::pair)]
    attributes: Vec<(String, String)>,
    /// Skip the lines before this one; an interrupted command prints where to go on.
    #[arg(long, default_value_t = 1, value_name = "LINE")]
    from_line: u64,
}

impl Options {
    /// The message of a line.
    fn message(&self, line: &str) -> Result<Outgoing> {
        let mut message = match self.json {
            true => Outgoing::of_json(line)?,
            false => Outgoing {
                body: line.to_owned(),
                ..Outgoing::default()
            },
        };
        if message.body.is_empty() {
            return failure::invalid("a message has one character at least");
        }
        if self.group.is_some() {
            message.group.clone_from(&self.group);
        }
        if self.unique {
            message.deduplication_id = Some(unique());
        }
        message.delay_s = self.delay.or(message.delay_s);
        for (name, value) in &self.attributes {
            let value = json!({ "DataType": "String", "StringValue": value });
            message.attributes.insert(name.clone(), value);
        }
        Ok(message)
    }
}

fn unique() -> String {
    let mut bytes = [0; 16];
    fader_client::system_runtime().entropy.fill(&mut bytes);
    format!("{:032x}", u128::from_be_bytes(bytes))
}

/// Sends the messages.
pub(super) async fn run(service: Service, options: Options) -> Result<ExitCode> {
    let url = service.url(&options.queue).await?;
    let is_fifo = name_of(&url).ends_with(".fifo");
    let lines = match options.bodies.is_empty() {
        true => lines::start(),
        false => given(&options.bodies),
    };
    let mut sending = Sending {
        service,
        url: url.into(),
        connections: if is_fifo { 1 } else { IN_FLIGHT },
        batch: Vec::new(),
        batch_bytes: 0,
        in_flight: JoinSet::new(),
        unsettled: BTreeSet::new(),
        read_up_to: options.from_line,
        sent: 0,
        rejected: 0,
        progress: Progress::new(None),
    };
    let mut interrupts = Interrupts::listen()?;
    let result = sending.all(lines, &options, &mut interrupts).await;
    sending.progress.finish();
    sending.report(result, options.bodies.is_empty())
}

/// The messages of the command line, as lines.
fn given(bodies: &[String]) -> mpsc::Receiver<Line> {
    let (sender, receiver) = mpsc::channel(bodies.len());
    for (number, body) in (1..).zip(bodies) {
        let is_room = sender.try_send((number, Ok(body.clone())));
        is_room.expect("there is room for all of them");
    }
    receiver
}

/// How reading the lines ended.
enum End {
    Complete,
    Interrupted,
}

/// What became of a line.
type Settled = (u64, Result<(), String>);

struct Sending {
    service: Service,
    url: Arc<str>,
    connections: usize,
    /// Lines read and not sent yet.
    batch: Vec<(u64, Outgoing)>,
    batch_bytes: usize,
    in_flight: JoinSet<Result<Vec<Settled>>>,
    /// Lines that were read and are neither sent nor rejected.
    unsettled: BTreeSet<u64>,
    /// The line after the last one read.
    read_up_to: u64,
    sent: u64,
    rejected: u64,
    progress: Progress,
}

impl Sending {
    async fn all(
        &mut self,
        mut lines: mpsc::Receiver<Line>,
        options: &Options,
        interrupts: &mut Interrupts,
    ) -> Result<End> {
        loop {
            let has_room = self.in_flight.len() < self.connections;
            tokio::select! {
                () = interrupts.next() => {
                    self.progress.say("interrupted: waiting for what is in flight");
                    tokio::select! {
                        drained = self.drain() => drained?,
                        () = interrupts.next() => {}
                    }
                    return Ok(End::Interrupted);
                }
                Some(done) = self.in_flight.join_next() => self.settle(done??),
                line = lines.recv(), if has_room => match line {
                    Some((number, _)) if number < options.from_line => continue,
                    Some((number, line)) => {
                        self.take(number, line.and_then(|line| options.message(&line)));
                    }
                    None => break,
                },
            }
            // What is typed, or comes slowly, waits for no full batch.
            if lines.is_empty() && self.in_flight.is_empty() {
                self.send();
            }
            let done = format!("{} messages sent", self.sent);
            self.progress.show(self.read_up_to, done);
        }
        self.send();
        self.drain().await?;
        Ok(End::Complete)
    }

    fn take(&mut self, number: u64, message: Result<Outgoing>) {
        self.read_up_to = number + 1;
        let message = match message {
            Ok(message) => message,
            Err(error) => return self.reject(number, &format!("{error:#}")),
        };
        let bytes = message.bytes();
        if self.batch_bytes + bytes > BATCH_BYTES {
            self.send();
        }
        self.unsettled.insert(number);
        self.batch.push((number, message));
        self.batch_bytes += bytes;
        if self.batch.len() == BATCH_MESSAGES {
            self.send();
        }
    }

    fn send(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        let batch = std::mem::take(&mut self.batch);
        self.batch_bytes = 0;
        let (service, url) = (self.service.clone(), Arc::clone(&self.url));
        self.in_flight
            .spawn(async move { send(&service, &url, batch).await });
    }

    async fn drain(&mut self) -> Result<()> {
        while let Some(done) = self.in_flight.join_next().await {
            self.settle(done??);
        }
        Ok(())
    }

    fn settle(&mut self, lines: Vec<Settled>) {
        for (number, outcome) in lines {
            self.unsettled.remove(&number);
            match outcome {
                Ok(()) => self.sent += 1,
                Err(reason) => self.reject(number, &reason),
            }
        }
    }

    fn reject(&mut self, number: u64, reason: &str) {
        self.rejected += 1;
        self.progress.say(&format!("line {number}: {reason}"));
    }

    fn report(&self, result: Result<End>, is_input: bool) -> Result<ExitCode> {
        let (sent, rejected) = (self.sent, self.rejected);
        note!("{sent} messages sent, {rejected} rejected");
        let next = self.unsettled.first().copied().unwrap_or(self.read_up_to);
        let go_on = match is_input {
            true => {
                format!("\nall lines before {next} are settled; go on with --from-line {next}")
            }
            false => String::new(),
        };
        match result {
            Ok(End::Complete) if rejected == 0 => Ok(ExitCode::SUCCESS),
            Ok(End::Complete) => Ok(ExitCode::FAILURE),
            Ok(End::Interrupted) => {
                note!("{}", go_on.trim_start());
                Ok(ExitCode::from(EXIT_INTERRUPTED))
            }
            Err(error) => failure::fail_with_more(&error, go_on),
        }
    }
}

/// Sends a batch until each of its messages is sent or rejected.
///
/// # Errors
/// When the endpoint cannot be reached, refuses all of them, or may have sent them.
async fn send(service: &Service, url: &str, batch: Vec<(u64, Outgoing)>) -> Result<Vec<Settled>> {
    let mut settled = Vec::with_capacity(batch.len());
    let mut pending = batch;
    let mut wait = WAIT_FIRST;
    for attempt in 1.. {
        let entries = pending.iter().enumerate();
        let entries: Vec<Value> = entries.map(|(at, (_, it))| it.entry(at)).collect();
        let body = json!({ "QueueUrl": url, "Entries": entries });
        let sent = service.0.call("SendMessageBatch", true, &body).await;
        let is_last = attempt == ATTEMPTS_MAX;
        match sent {
            Ok(reply) => {
                let (done, failed) = judge(&reply, pending, is_last);
                settled.extend(done);
                pending = failed;
            }
            Err(error) if is_last || !may_repeat(&error, &pending) => return Err(explain(error)),
            Err(_) => {}
        }
        if pending.is_empty() {
            break;
        }
        tokio::time::sleep(wait).await;
        wait *= 2;
    }
    Ok(settled)
}

/// What is settled by a reply, and what is to be sent again: what failed at the endpoint.
fn judge(
    reply: &Value,
    pending: Vec<(u64, Outgoing)>,
    is_last: bool,
) -> (Vec<Settled>, Vec<(u64, Outgoing)>) {
    let by_id = |name: &str| -> Map<String, Value> {
        let entries = list(reply, name);
        let entries = entries.filter_map(|it| Some((it["Id"].as_str()?.to_owned(), it.clone())));
        entries.collect()
    };
    let (sent, failed) = (by_id("Successful"), by_id("Failed"));
    let (mut settled, mut again) = (Vec::new(), Vec::new());
    for (at, (number, message)) in pending.into_iter().enumerate() {
        let id = at.to_string();
        if sent.contains_key(&id) {
            settled.push((number, Ok(())));
            continue;
        }
        let entry = failed.get(&id).unwrap_or(&Value::Null);
        let is_ours = entry["SenderFault"].as_bool().unwrap_or(true);
        if !is_ours && !is_last {
            again.push((number, message));
            continue;
        }
        let said = [&entry["Code"], &entry["Message"]];
        let said = said.map(|said| said.as_str().unwrap_or_default());
        let said = match entry {
            Value::Null => "the endpoint said nothing of it".to_owned(),
            _ => said.join(": "),
        };
        settled.push((number, Err(said)));
    }
    (settled, again)
}

/// Whether nothing was sent, or what was sent is dropped the second time.
fn may_repeat(error: &Error, pending: &[(u64, Outgoing)]) -> bool {
    match &error.kind {
        ErrorKind::Unavailable => true,
        ErrorKind::Refused { status, code, .. } => {
            *status == 503 || code == "RequestThrottled" || code == "ThrottlingException"
        }
        ErrorKind::Ambiguous => {
            let mut ids = pending.iter().map(|(_, it)| &it.deduplication_id);
            ids.all(Option::is_some)
        }
        ErrorKind::Invalid | ErrorKind::Malformed => false,
    }
}

fn explain(error: Error) -> anyhow::Error {
    let refused = error.to_string();
    let advice = match refused.contains("MessageGroupId") {
        true => "a FIFO queue needs --group GROUP",
        false if refused.contains("ContentBasedDeduplication") => {
            "give --unique, or create the queue with --content-deduplication"
        }
        false => return in_words(error),
    };
    Failure::advised(error.into(), advice).into()
}

#[cfg(test)]
mod tests;
