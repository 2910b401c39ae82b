//! `fader s3`: a small S3 client. One file per family of verbs.
//!
//! It uses what AWS's own tools use: the same variables, the same credentials file, the same
//! protocol. So it works on any S3 endpoint.

use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::{Args, Subcommand};
use fader_client::{Error, ErrorKind, S3, S3Reply, S3Request};
use fader_services::ErrorCode;

use crate::endpoint;
use crate::failure::{self, Failure};
use crate::interrupt::{EXIT_INTERRUPTED, Interrupts};

mod buckets;
mod copy;
mod digest;
mod listing;
mod objects;
mod place;

const EXAMPLES: &str = "\
Examples:
  fader s3 mb photos
  fader s3 cp -r holidays s3://photos/2026
  fader s3 cp -r s3://photos/2026 copy
  fader s3 ls s3://photos -r
  fader s3 cat s3://photos/2026/list.txt
  fader s3 presign s3://photos/2026/a.jpg --expires 1h
  fader s3 rm -r s3://photos/2026
  fader s3 rb photos

A copy that is interrupted goes on where it was when it is started again: objects that are there
are compared and passed over.
Access keys come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, else from the profile in
~/.aws/credentials. The endpoint comes from --endpoint, FADER_ENDPOINT, AWS_ENDPOINT_URL_S3 or
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
    /// Makes a bucket.
    Mb(buckets::Options),
    /// Removes an empty bucket.
    Rb(buckets::Options),
    /// Lists the buckets, or the objects of one.
    Ls(listing::Options),
    /// Prints an object.
    Cat(objects::CatOptions),
    /// Removes an object, or with -r all below a prefix.
    Rm(objects::RmOptions),
    /// Copies files to objects, objects to files, or objects to objects.
    Cp(copy::Options),
    /// Prints a URL by which anyone may get an object, or put one, for a while.
    Presign(objects::PresignOptions),
}

/// An endpoint, with words for what goes wrong.
#[derive(Clone)]
struct Service(S3);

impl Service {
    async fn call(&self, request: S3Request<'_>) -> Result<S3Reply> {
        self.0.call(request).await.map_err(in_words)
    }

    /// The same; `None` where there is no such object.
    async fn find(&self, request: S3Request<'_>) -> Result<Option<S3Reply>> {
        match self.0.call(request).await {
            Ok(reply) => Ok(Some(reply)),
            Err(error) if matches!(error.code(), Some("NotFound" | "NoSuchKey")) => Ok(None),
            Err(error) => Err(in_words(error)),
        }
    }
}

/// A failure, with what to do about those that a command line causes.
fn in_words(error: Error) -> anyhow::Error {
    let advice = match error.code() {
        Some("NoSuchBucket") => "`fader s3 ls` lists the buckets, and `fader s3 mb` makes one",
        Some("BucketNotEmpty") => {
            "`fader s3 rm -r s3://BUCKET` removes its objects; older versions count too"
        }
        Some("BucketAlreadyExists") => "bucket names are the cluster's: take another one",
        _ => match error.kind {
            ErrorKind::Unavailable => {
                "is the server running? --endpoint or FADER_ENDPOINT says where it is"
            }
            _ => return error.into(),
        },
    };
    Failure::advised(error.into(), advice).into()
}

/// Carries out one `fader s3` command.
pub(crate) async fn run(options: Options) -> Result<ExitCode> {
    let endpoint = &options.endpoint;
    let (url, credentials) = (endpoint.url("S3"), endpoint.credentials()?);
    let service = Service(S3::new(&url, credentials.as_ref(), &endpoint.settings()?)?);
    let carry_out = async {
        match options.verb {
            Verb::Mb(options) => buckets::make(&service, &options).await,
            Verb::Rb(options) => buckets::remove(&service, &options).await,
            Verb::Ls(options) => listing::run(&service, &options).await,
            Verb::Cat(options) => objects::cat(&service, &options).await,
            Verb::Rm(options) => objects::remove(&service, &options).await,
            Verb::Cp(options) => copy::run(&service, &options).await,
            Verb::Presign(options) => objects::presign(&service, &options),
        }
    };
    let mut interrupts = Interrupts::listen()?;
    tokio::select! {
        done = carry_out => done.map(|()| ExitCode::SUCCESS),
        () = interrupts.next() => {
            note!("interrupted; the same command goes on where this one was");
            Ok(ExitCode::from(EXIT_INTERRUPTED))
        }
    }
}

/// The only element of a list that is there, or why not.
fn number(text: &str, what: &str) -> Result<u64> {
    match text.parse() {
        Ok(number) => Ok(number),
        Err(_) => failure::fail(
            ErrorCode::AnswerMalformed,
            format_args!("the endpoint told no {what}: {text:?}"),
        ),
    }
}

/// A word of a reply that has to be there.
fn need<'a>(text: &'a str, what: &str) -> Result<&'a str> {
    Some(text)
        .filter(|text| !text.is_empty())
        .with_context(|| format!("the endpoint told no {what}"))
}
