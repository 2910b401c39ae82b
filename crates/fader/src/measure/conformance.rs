//! `fader measure conformance`.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, ValueEnum};
use fader_client::{Client, S3, SimpleDb, Sqs, SystemClock};
use fader_cloud::conformance::{self, Subject, Verdict};
use fader_cloud::{Clock, Domains, Queues};
use object_store::ObjectStore;

use crate::endpoint;

const EXAMPLES: &str = "\
Examples:
  fader measure conformance simpledb
  fader measure conformance sqs --endpoint http://127.0.0.1:9324
  fader measure conformance sqs --excuse 'queues are listed by prefix'
  fader measure conformance s3 --bucket mine --endpoint http://127.0.0.1:9000

It creates domains, queues or objects whose names begin with `fader-`, and deletes them.
Exit codes: 0 all is kept, or broken as excused; 1 not so.";

/// Of what.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// The kind of service.
    #[arg(value_enum)]
    service: Service,

    /// A promise that this service is known to break; one that it keeps must not be excused.
    #[arg(long, value_name = "PROMISE")]
    excuse: Vec<String>,

    /// The bucket for objects; it must be there.
    #[arg(long, value_name = "NAME", required_if_eq("service", "s3"))]
    bucket: Option<String>,

    #[command(flatten)]
    endpoint: endpoint::Flags,
}

#[derive(Clone, Copy, ValueEnum)]
enum Service {
    /// Domains.
    Simpledb,
    /// Queues.
    Sqs,
    /// Objects.
    S3,
}

pub(super) async fn run(options: &Options) -> Result<ExitCode> {
    let (credentials, settings) = (
        options.endpoint.credentials()?,
        options.endpoint.settings()?,
    );
    let clock = SystemClock::default();
    let prefix = format!("fader-{}", clock.wall().as_millis());
    let mut verdicts = Vec::new();
    let mut tell = |verdict: Verdict| {
        println!("{}", line(&verdict));
        verdicts.push(verdict);
    };
    match options.service {
        Service::Simpledb => {
            let url = options.endpoint.url("SIMPLEDB");
            let service = SimpleDb(Client::new(&url, credentials, settings)?);
            let subject = Subject {
                service: &service as &dyn Domains,
                clock: &clock,
                prefix: &prefix,
            };
            conformance::domains(&subject, &mut tell).await;
        }
        Service::Sqs => {
            let url = options.endpoint.url("SQS");
            let service = Sqs::new(&url, credentials.as_ref(), &settings)?;
            let subject = Subject {
                service: &service as &dyn Queues,
                clock: &clock,
                prefix: &prefix,
            };
            conformance::queues(&subject, &mut tell).await;
        }
        Service::S3 => {
            let url = options.endpoint.url("S3");
            let bucket = options.bucket.as_deref().unwrap_or_default();
            let service = S3::new(&url, bucket, credentials.as_ref(), &settings)?;
            let subject = Subject {
                service: &service as &dyn ObjectStore,
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
            println!("{count} promises, {} excused", excused.len());
            Ok(ExitCode::SUCCESS)
        }
        Err(complaints) => {
            eprintln!("not as expected:\n{complaints}");
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
