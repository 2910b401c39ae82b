//! `fader measure conformance`.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, ValueEnum};
use fader_client::{Access, SystemClock};
use fader_cloud::Clock;
use fader_cloud::conformance::{self, SystemUnderTest, Verdict};

use crate::cloud::Where;
use crate::output;

const EXAMPLES: &str = "\
Examples:
  fader measure conformance domains 'simpledb://?endpoint=http://127.0.0.1:4566'
  fader measure conformance queues 'sqs://?endpoint=http://127.0.0.1:9324'
  fader measure conformance queues file:///var/tmp/queues
  fader measure conformance objects 's3://bucket?endpoint=http://127.0.0.1:9000'
  fader measure conformance queues sqs:// --excuse 'queues are listed by prefix'

URLs and credentials are those of `fader cloud --help`. Queues and domains may also be judged at a
service of their own (sqs://, simpledb://).
It creates domains, queues or objects whose names begin with `fader-`, and deletes them.
Exit codes: 0 all is kept, or broken as excused; 1 not so.";

/// Of what.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// What is judged.
    #[arg(value_enum)]
    service: Service,

    #[command(flatten)]
    place: Where,

    /// A promise that this service is known to break; one that it keeps must not be excused.
    #[arg(long, value_name = "PROMISE")]
    excuse: Vec<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Service {
    /// Objects in a bucket, a folder or memory.
    Objects,
    /// Queues in a bucket, or at a service.
    Queues,
    /// Domains in a bucket, or at a service.
    Domains,
}

pub(super) async fn run(options: &Options) -> Result<ExitCode> {
    let client = options.place.services.options(match options.service {
        // Objects are judged also where queues and domains would refuse.
        Service::Objects => Access::Read,
        Service::Queues | Service::Domains => Access::Write,
    });
    let url = &options.place.url;
    let clock = SystemClock::default();
    let prefix = format!("fader-{}", clock.wall().as_millis());
    let mut verdicts = Vec::new();
    let mut tell = |verdict: Verdict| {
        output::tell(&line(&verdict));
        verdicts.push(verdict);
    };
    match options.service {
        Service::Domains => {
            let service = fader_client::open_domains(url, &client).await?;
            let subject = SystemUnderTest {
                service: &*service,
                clock: &clock,
                prefix: &prefix,
            };
            conformance::domains(&subject, &mut tell).await;
        }
        Service::Queues => {
            let service = fader_client::open_queues(url, &client).await?;
            let subject = SystemUnderTest {
                service: &*service,
                clock: &clock,
                prefix: &prefix,
            };
            conformance::queues(&subject, &mut tell).await;
        }
        Service::Objects => {
            let cloud = fader_client::open(url, &client).await?;
            let subject = SystemUnderTest {
                service: &*cloud.objects,
                clock: &clock,
                prefix: &prefix,
            };
            conformance::objects(&subject, &mut tell).await;
        }
    }
    let excused = options.excuse.iter();
    let excused: Vec<_> = excused
        .map(|promise| (promise.as_str(), "--excuse"))
        .collect();
    match conformance::judge(&verdicts, &excused) {
        Ok(count) => {
            let requests = client.meter.usage().requests();
            let excused = excused.len();
            output::tell(&format!(
                "{count} promises, {excused} excused; {requests} requests"
            ));
            Ok(ExitCode::SUCCESS)
        }
        Err(complaints) => {
            note!("not as expected:\n{complaints}");
            Ok(ExitCode::FAILURE)
        }
    }
}

fn line(verdict: &Verdict) -> String {
    match &verdict.outcome {
        Ok(()) => format!("kept    {}", verdict.promise),
        Err(broken) => format!("broken  {}: {broken}", verdict.promise),
    }
}
