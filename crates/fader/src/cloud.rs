//! `fader cloud`: looks at a cloud by its URL, with no server of ours in between.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use fader_client::{Access, Opened, Service, ServiceLocation};
use fader_cloud::{Domains, PriceBook, Queues, RequestKind, probe};
use fader_services::ErrorCode;

use crate::failure;
use crate::interrupt::{Interrupts, interrupted};
use crate::output::{self, visible};

const EXAMPLES: &str = "\
Examples:
  fader cloud check 's3://bucket/prefix?endpoint=http://127.0.0.1:9000'
  fader cloud list gs://bucket/prefix
  fader cloud list s3://bucket --queues 'sqs://shop-' --domains 'simpledb://shop-'
  fader cloud sweep 'az://container/prefix?account=name' --dry-run
  fader cloud prices aws-2026

URLs (docs/how-to/clouds.md has all of it):
  s3://BUCKET/PREFIX?endpoint=URL         AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION;
                                          or AWS_PROFILE
  gs://BUCKET/PREFIX                      GOOGLE_APPLICATION_CREDENTIALS
  az://CONTAINER/PREFIX?account=NAME      AZURE_STORAGE_KEY, or AZURE_STORAGE_SAS_TOKEN
  file:///DIR                             a folder of this machine
  mem://                                  memory; ends with the process
A URL never holds a secret. `unsigned=true` is for servers that take unsigned requests.";

/// What is done with a cloud.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Judges whether a bucket keeps what queues, domains and systems rely on.
    ///
    /// Takes at most 20 requests, on objects below `_fader/probe` that it deletes. The bucket
    /// remembers for 7 days that all is kept.
    ///
    /// Exit codes: 0 all is kept; 1 something is broken, or the bucket cannot be judged.
    Check(CheckOptions),
    /// Lists queues with their depth and age, and domains with their items and bytes. Writes
    /// nothing.
    List(Where),
    /// Deletes what deleted queues and domains, interrupted writes and interrupted probes left in a
    /// bucket.
    Sweep(SweepOptions),
    /// Lists the price books, or prints one.
    Prices(PricesOptions),
}

#[derive(Args)]
struct CheckOptions {
    /// The bucket or folder.
    #[arg(value_name = "URL")]
    url: String,
}

/// A cloud.
#[derive(Args)]
pub(crate) struct Where {
    /// The bucket or folder.
    #[arg(value_name = "URL")]
    pub(crate) url: String,

    #[command(flatten)]
    pub(crate) services: Services,
}

/// Where a cloud's queues and domains are.
#[derive(Args)]
pub(crate) struct Services {
    /// Where queues are: `bucket`, or sqs://PREFIX?endpoint=URL.
    #[arg(long, value_name = "URL", default_value = "bucket", value_parser = queues)]
    queues: ServiceLocation,

    /// Where domains are: `bucket`, or simpledb://PREFIX?endpoint=URL.
    #[arg(long, value_name = "URL", default_value = "bucket", value_parser = domains)]
    domains: ServiceLocation,
}

#[derive(Args)]
struct SweepOptions {
    /// The bucket or folder.
    #[arg(value_name = "URL")]
    url: String,

    /// Only names what would be deleted.
    #[arg(long)]
    dry_run: bool,
}

#[derive(Args)]
struct PricesOptions {
    /// A built-in book, or the path of a file; all names if there is none.
    #[arg(value_name = "BOOK")]
    book: Option<String>,
}

fn queues(text: &str) -> Result<ServiceLocation, String> {
    ServiceLocation::parse(text, Service::Sqs).map_err(|error| error.to_string())
}

fn domains(text: &str) -> Result<ServiceLocation, String> {
    ServiceLocation::parse(text, Service::SimpleDb).map_err(|error| error.to_string())
}

impl Services {
    /// How the client opens such a cloud.
    pub(crate) fn options(&self, access: Access) -> fader_client::Options {
        fader_client::Options {
            queues: self.queues.clone(),
            domains: self.domains.clone(),
            access,
            ..fader_client::Options::default()
        }
    }
}

/// Carries out one `fader cloud` command; an interrupt ends it between two requests.
pub(crate) async fn run(options: &Options) -> Result<ExitCode> {
    let work = async {
        match &options.command {
            Command::Check(options) => check(&options.url).await,
            Command::List(options) => list(options).await,
            Command::Sweep(options) => sweep(options).await,
            Command::Prices(options) => prices(options.book.as_deref()),
        }
    };
    let mut interrupts = Interrupts::listen()?;
    tokio::select! {
        done = work => done,
        () = interrupts.next() => interrupted(),
    }
}

async fn check(url: &str) -> Result<ExitCode> {
    let options = fader_client::Options::default();
    let findings = fader_client::check(url, &options).await?;
    let mut table = output::table(["promise", "", "damage if broken"]);
    for outcome in &findings.outcomes {
        let promise = outcome.promise;
        let (verdict, damage) = match &outcome.seen {
            None => ("kept".to_owned(), ""),
            Some(seen) => (format!("BROKEN: {}", visible(seen)), promise.damage()),
        };
        table.add_row([promise.to_string(), verdict, damage.to_owned()]);
    }
    let etags = match findings.has_repeating_etags {
        true => "equal bytes have equal ETags",
        false => "equal bytes have different ETags",
    };
    let requests = options.meter.usage().requests();
    output::print(&format!(
        "{}\n{etags}; {requests} requests\n",
        table.trim_fmt()
    ))?;
    if findings.is_intact() {
        return Ok(ExitCode::SUCCESS);
    }
    let broken = findings.broken().count();
    note!(
        "{broken} promises are broken: only objects work here; keep queues and domains elsewhere \
         (--queues sqs://PREFIX?endpoint=URL, --domains simpledb://PREFIX?endpoint=URL)"
    );
    Ok(ExitCode::FAILURE)
}

async fn list(options: &Where) -> Result<ExitCode> {
    let client = options.services.options(Access::Read);
    let opened = fader_client::open_all(&options.url, &client).await?;
    let mut table = output::table(["queue", "visible", "in flight", "oldest", "bytes"]);
    let within = |what| format!("{}: {what}", opened.location);
    for row in queue_rows(&opened)
        .await
        .with_context(|| within("queues"))?
    {
        table.add_row(row);
    }
    let mut text = format!("{}\n", table.trim_fmt());
    let mut table = output::table(["domain", "items", "pairs", "bytes"]);
    for row in domain_rows(&opened)
        .await
        .with_context(|| within("domains"))?
    {
        table.add_row(row);
    }
    text.push_str(&format!("\n{}\n", table.trim_fmt()));
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

async fn queue_rows(opened: &Opened) -> Result<Vec<[String; 5]>> {
    if let Some(queues) = &opened.bucket_queues {
        let reports = queues.report().await?.into_iter();
        let row = |report: fader_cloud::bucket::QueueReport| {
            [
                visible(&report.name),
                report.counts.visible.to_string(),
                report.counts.in_flight.to_string(),
                report.age.map_or_else(String::new, in_words),
                report.bytes.to_string(),
            ]
        };
        return Ok(reports.map(row).collect());
    }
    let queues: &dyn Queues = &*opened.cloud.queues;
    let mut rows = Vec::new();
    for name in queues.list("").await? {
        let counts = queues.counts(&name).await?;
        let (visible_count, in_flight) = (counts.visible.to_string(), counts.in_flight.to_string());
        // A service tells neither age nor bytes.
        rows.push([
            visible(&name),
            visible_count,
            in_flight,
            String::new(),
            String::new(),
        ]);
    }
    Ok(rows)
}

async fn domain_rows(opened: &Opened) -> Result<Vec<[String; 4]>> {
    let domains: &dyn Domains = &*opened.cloud.domains;
    let reports = match &opened.bucket_domains {
        None => Vec::new(),
        Some(domains) => domains.report().await?,
    };
    let mut rows = Vec::new();
    for name in domains.list().await? {
        let metadata = domains.metadata(&name).await?;
        // In a bucket, those of the log; at a service, those of names and values.
        let stored = reports.iter().find(|report| report.name == name);
        let bytes = stored.map_or(
            metadata.item_names_size_bytes
                + metadata.attribute_names_size_bytes
                + metadata.attribute_values_size_bytes,
            |report| report.bytes,
        );
        rows.push([
            visible(&name),
            metadata.item_count.to_string(),
            metadata.attribute_value_count.to_string(),
            bytes.to_string(),
        ]);
    }
    Ok(rows)
}

/// A time in its largest unit.
fn in_words(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7_200 => format!("{} min", seconds / 60),
        seconds @ 7_200..172_800 => format!("{} h", seconds / 3_600),
        seconds => format!("{} d", seconds / 86_400),
    }
}

async fn sweep(options: &SweepOptions) -> Result<ExitCode> {
    let client = fader_client::Options {
        access: if options.dry_run {
            Access::Read
        } else {
            Access::Write
        },
        ..fader_client::Options::default()
    };
    let opened = fader_client::open_all(&options.url, &client).await?;
    let (Some(queues), Some(domains)) = (&opened.bucket_queues, &opened.bucket_domains) else {
        let findings = opened.findings.map(|findings| findings.complaint());
        return failure::fail(
            ErrorCode::RequestRefused,
            format_args!(
                "queues and domains refuse this bucket: {}",
                findings.unwrap_or_default()
            ),
        );
    };
    let runtime = fader_client::system_runtime();
    let mut swept = probe::sweep(&*opened.cloud.objects, &runtime, options.dry_run).await?;
    swept.extend(queues.sweep(options.dry_run).await?);
    swept.extend(domains.sweep(options.dry_run).await?);
    let mut text = String::new();
    for key in &swept {
        text.push_str(&visible(key));
        text.push('\n');
    }
    let done = if options.dry_run {
        "would be deleted"
    } else {
        "deleted"
    };
    text.push_str(&format!("{} objects {done}\n", swept.len()));
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn prices(name: Option<&str>) -> Result<ExitCode> {
    let Some(name) = name else {
        let mut table = output::table(["book", "date", "source"]);
        for book in PriceBook::names().filter_map(PriceBook::built_in) {
            table.add_row([book.name, book.date, book.source]);
        }
        output::print(&format!("{}\n", table.trim_fmt()))?;
        return Ok(ExitCode::SUCCESS);
    };
    let book = book(name)?;
    let mut table = output::table(["request", "dollars a million"]);
    for kind in RequestKind::ALL {
        let million = book.request(kind).pico * 1_000_000;
        // 10⁻¹² dollars, to the cent and below.
        table.add_row([
            kind.name().to_owned(),
            format!("{:.4}", million as f64 / 1e12),
        ]);
    }
    let free: Vec<String> = (book.unbilled.iter())
        .map(|(from, to)| {
            if from == to {
                from.to_string()
            } else {
                format!("{from} to {to}")
            }
        })
        .collect();
    let free = if free.is_empty() {
        "none".to_owned()
    } else {
        free.join(", ")
    };
    output::print(&format!(
        "{}, of {}\n{}\n{}\nstatuses that cost nothing: {free}\n",
        visible(&book.name),
        visible(&book.date),
        visible(&book.source),
        table.trim_fmt()
    ))?;
    Ok(ExitCode::SUCCESS)
}

fn book(name: &str) -> Result<PriceBook> {
    if let Some(book) = PriceBook::built_in(name) {
        return Ok(book);
    }
    let path = PathBuf::from(name);
    if !path.exists() {
        let known: Vec<_> = PriceBook::names().collect();
        return failure::invalid(format_args!(
            "{name:?} is neither a file nor one of {}",
            known.join(", ")
        ));
    }
    let context = || format!("cannot read {}", path.display());
    let text = std::fs::read_to_string(&path).with_context(context)?;
    PriceBook::parse(&text).with_context(|| path.display().to_string())
}
