//! `fader sqs`: a small SQS client. One file per family of verbs.
//!
//! It uses what AWS's own tools use: the same variables, the same credentials file, the same
//! protocol. So it works on any SQS endpoint; only `tail` and `--mode` need Fader's.

use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::{Args, Subcommand};
use fader_client::{Error, ErrorKind, Sqs};
use fader_services::ErrorCode;
use serde_json::{Value, json};

use crate::endpoint;
use crate::failure::{self, Failure};

mod create;
mod lines;
mod message;
mod queues;
mod receive;
mod redrive;
mod send;
pub(crate) mod settings;
mod tail;

/// Messages in one request.
const BATCH_MESSAGES: usize = 10;

const EXAMPLES: &str = "\
Examples:
  fader sqs create jobs --visibility 60s --dead-letter failed:5
  fader sqs send jobs hello world
  fader sqs send jobs < lines.txt
  fader sqs receive jobs --wait 20s --delete --json
  fader sqs tail jobs
  fader sqs queues --details
  fader sqs stat jobs
  fader sqs redrive failed --rate 100

A queue is given by its name, or by its URL if it is another account's.
Access keys come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, else from the profile in
~/.aws/credentials. The endpoint comes from --endpoint, FADER_ENDPOINT, AWS_ENDPOINT_URL_SQS or
AWS_ENDPOINT_URL.";

/// Which endpoint, as whom.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(flatten)]
    endpoint: endpoint::Flags,

    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Lists the queues.
    Queues(queues::Options),
    /// Creates a queue and prints its URL; one that is the same stays as it is.
    Create(create::Options),
    /// Changes settings of a queue.
    Set(create::SetOptions),
    /// Shows the settings of a queue and how many messages it has.
    Stat(queues::StatOptions),
    /// Sends messages: those on the command line, else the lines of standard input.
    Send(send::Options),
    /// Receives messages and prints their bodies.
    Receive(receive::Options),
    /// Deletes received messages by their receipt handles.
    Remove(receive::RemoveOptions),
    /// Shows the messages of a queue and receives none, so that nothing changes. Needs Fader.
    Tail(tail::Options),
    /// Moves the messages of a dead-letter queue back to where they came from.
    Redrive(redrive::Options),
    /// Deletes all messages of a queue.
    Purge(queues::QueueOptions),
    /// Deletes a queue with all its messages.
    Delete(queues::QueueOptions),
}

/// An endpoint, with words for what goes wrong.
#[derive(Clone)]
struct Service(Sqs);

impl Service {
    /// The URL of a queue that is given by its name or its URL.
    async fn url(&self, queue: &str) -> Result<String> {
        match queue.contains('/') {
            true => Ok(queue.to_owned()),
            false => self.0.queue_url(queue).await.map_err(in_words),
        }
    }

    /// Carries out an action.
    async fn call(&self, action: &str, body: &Value) -> Result<Value> {
        let is_read = ["Get", "List", "Peek"]
            .iter()
            .any(|verb| action.starts_with(verb));
        let called = self.0.call(action, !is_read, body).await;
        called.map_err(in_words)
    }

    /// The attributes of a queue, as text.
    async fn attributes(&self, url: &str) -> Result<serde_json::Map<String, Value>> {
        let body = json!({ "QueueUrl": url, "AttributeNames": ["All"] });
        match self.call("GetQueueAttributes", &body).await?["Attributes"].take() {
            Value::Object(attributes) => Ok(attributes),
            _ => failure::fail(
                ErrorCode::AnswerMalformed,
                format_args!("the endpoint told no attributes of {url}"),
            ),
        }
    }

    /// The ARN of a queue.
    async fn arn(&self, queue: &str) -> Result<String> {
        let url = self.url(queue).await?;
        let body = json!({ "QueueUrl": url, "AttributeNames": ["QueueArn"] });
        let reply = self.call("GetQueueAttributes", &body).await?;
        let arn = reply["Attributes"]["QueueArn"].as_str();
        Ok(arn.context("the endpoint told no ARN")?.to_owned())
    }
}

/// A failure, with what to do about those that a command line causes.
fn in_words(error: Error) -> anyhow::Error {
    let advice = match error.code() {
        Some("QueueDoesNotExist") => {
            "`fader sqs queues` lists the queues, and `fader sqs create` makes one"
        }
        Some("QueueAlreadyExists" | "QueueNameExists") => {
            "the queue is there with other settings: `fader sqs stat` shows them, and `fader sqs \
             set` changes them"
        }
        Some("InvalidAction" | "UnknownOperationException" | "UnknownOperation") => {
            "the endpoint does not know this action; `tail` needs a Fader server"
        }
        _ => match error.kind {
            ErrorKind::Unavailable => {
                "is the server running? --endpoint or FADER_ENDPOINT says where it is"
            }
            _ => return error.into(),
        },
    };
    Failure::advised(error.into(), advice).into()
}

/// The elements of a list in a reply; none where it is absent.
fn list<'a>(reply: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    reply[name].as_array().into_iter().flatten()
}

/// The name at the end of a queue's URL or ARN.
fn name_of(url: &str) -> &str {
    url.rsplit(['/', ':']).next().unwrap_or(url)
}

/// Carries out one `fader sqs` command.
pub(crate) async fn run(options: Options) -> Result<ExitCode> {
    let endpoint = &options.endpoint;
    let (url, credentials) = (endpoint.url("SQS"), endpoint.credentials()?);
    let sqs = Sqs::new(&url, credentials.as_ref(), &endpoint.settings()?)?;
    let service = Service(sqs);
    match options.verb {
        Verb::Queues(options) => queues::run(&service, &options).await?,
        Verb::Create(options) => create::run(&service, &options).await?,
        Verb::Set(options) => create::set(&service, &options).await?,
        Verb::Stat(options) => queues::stat(&service, &options).await?,
        Verb::Send(options) => return send::run(service, options).await,
        Verb::Receive(options) => return receive::run(&service, &options).await,
        Verb::Remove(options) => return receive::remove(&service, &options).await,
        Verb::Tail(options) => return tail::run(&service, &options).await,
        Verb::Redrive(options) => return redrive::run(&service, &options).await,
        Verb::Purge(options) => queues::purge(&service, &options).await?,
        Verb::Delete(options) => queues::delete(&service, &options).await?,
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests;
