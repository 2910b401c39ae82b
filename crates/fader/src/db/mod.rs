//! `fader db`: a database on any cloud, with no server of ours in between.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use fader_client::{Access, Location};
use fader_cloud::ErrorKind;
use fader_database::{
    CollectionSettings, Database, DiskTier, Fencing, Level, PendingQueues, Report, Transaction,
};

use self::cache::Cache;
use self::price::Price;
use crate::cloud::Where;
use crate::failure;
use crate::interrupt::{Interrupts, interrupted};
use crate::output::{self, visible};

mod approve;
mod cache;
mod cost;
mod export;
mod import;
mod index;
mod keys;
mod lines;
mod parquet;
mod price;
mod read;
mod sort;

const EXAMPLES: &str = "\
Examples:
  fader db create file://$PWD/shop books --key isbn
  fader db import file://$PWD/shop books books.csv --level atomic
  fader db get 's3://bucket/shop?endpoint=http://127.0.0.1:9000' books 0385333498 --cost
  fader db put gs://bucket/shop notes today 'buy milk'
  fader db get s3://bucket/shop books 0385333498 --cache ~/.cache/fader --cache-bytes 512MiB
  fader db scan file://$PWD/shop books --from 03 --until 04 --limit 10
  fader db index file://$PWD/shop books author
  fader db scan file://$PWD/shop books --index author --is 'Ursula K. Le Guin'
  fader db create s3://bucket/shop customers --encrypt
  fader db grant s3://bucket/shop customers $IDENTITY_OF_A_COLLEAGUE --principal 123456789012
  fader db checkpoint file://$PWD/shop --watch
  fader db get file://$PWD/shop books 0385333498 --fresh
  fader db import file://$PWD/shop books books.parquet --keep-cost
  fader db cost file://$PWD/shop --by collection,stage
  fader db cost file://$PWD/shop --metrics > /var/lib/node_exporter/shop.prom

Levels, each with the promises of those before it (docs/how-to/database.md):
  naive       none: a change gets lost when another of its page comes first
  basic       no acknowledged write is lost
  monotonic   a session reads its own writes, and never backwards
  atomic      a transaction takes effect whole, or not at all

A committed record reaches its page at the next checkpoint. The commands here checkpoint what they
wrote before they end. URLs and credentials: fader cloud --help.";

/// Rows that a scan reads at once.
const ROWS: usize = 1_000;
/// The pause between two checkpoints of the watchdog.
const WATCH: Duration = Duration::from_secs(15);
/// After this time a watchdog keeps what it used.
const KEEP: Duration = Duration::from_secs(60 * 60);

/// What is done with a database.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Creates a collection, and the database if there is none.
    Create(Create),
    /// Writes a record, whether its key is there or not.
    Put(Put),
    /// Prints a record. Exit code 1: there is none.
    Get(read::Get),
    /// Prints records in the order of their keys: the key, a tab, the record.
    Scan(read::Scan),
    /// Deletes a record, whether its key is there or not.
    Delete(Delete),
    /// Writes the records of a file of CSV, JSON lines or Parquet.
    Import(import::Options),
    /// Prints all records as JSON lines, CSV or Parquet.
    Export(export::Options),
    /// Creates, lists or drops secondary indexes; others may write meanwhile.
    Index(index::Options),
    /// Lists records that wait for approval, approves or rejects them.
    Approve(approve::Options),
    /// Prints this user's identity, to which keys of encrypted collections are granted; makes one
    /// if there is none.
    Identity,
    /// Lets others read and write a collection: gives an identity its key, and a principal a bucket
    /// policy and permissions of queues. Exit code 1: something was not set.
    Grant(keys::Grant),
    /// Gives an encrypted collection a new key.
    Rotate(keys::Rotate),
    /// Deletes a collection with all its records.
    Drop(Drop),
    /// Finishes transactions and brings pending records into pages.
    Checkpoint(Checkpoint),
    /// Deletes what nothing leads to: pages of lost splits and dropped collections, replaced large
    /// records. Other clients must not be at work.
    Vacuum(Vacuum),
    /// Shows what commands used that ran with --keep-cost: requests, bytes, dollars.
    Cost(cost::Options),
    /// Shows the collections: levels, records, pages, bytes. Exit code 1: some cannot be read.
    Stat(Where),
    /// Verifies the pages of all collections. Exit code 1: something is wrong.
    Verify(Where),
}

#[derive(Args)]
struct Create {
    #[command(flatten)]
    at: Where,
    /// The collection.
    collection: String,
    /// The field of imported records that is their key.
    #[arg(long, value_name = "FIELD")]
    key: Option<String>,
    /// The weakest level of a transaction that writes to it.
    #[arg(long, value_name = "LEVEL", default_value = "basic")]
    minimum: Level,
    /// A secondary index of the field FIELD; can be repeated. `fader db index` adds one later.
    #[arg(long, value_name = "FIELD")]
    index: Vec<String>,
    /// Lets its records wait until `fader db approve` approves them.
    #[arg(long)]
    curated: bool,
    /// Encrypts its pages and records, with a key for this user's identity: the service sees sizes
    /// and times. `fader db grant` lets others in.
    #[arg(long)]
    encrypt: bool,
    /// Its pending-update queues: with more of them more checkpoints run at once. A number, or
    /// `per-leaf` as in the paper: one for inserts and deletes, one for the updates of each leaf.
    #[arg(long, value_name = "NUMBER|per-leaf", default_value_t)]
    pending_queues: PendingQueues,
}

#[derive(Args)]
struct Put {
    #[command(flatten)]
    at: Where,
    /// The collection.
    collection: String,
    /// The record's key.
    key: String,
    /// The record; `-` reads it from standard input.
    #[arg(allow_hyphen_values = true)]
    value: String,
    #[command(flatten)]
    how: How,
}

#[derive(Args)]
struct Delete {
    #[command(flatten)]
    at: Where,
    /// The collection.
    collection: String,
    /// The record's key.
    key: String,
    #[command(flatten)]
    how: How,
}

#[derive(Args)]
struct Drop {
    #[command(flatten)]
    at: Where,
    /// The collection.
    collection: String,
    /// Does it without being asked again.
    #[arg(long)]
    yes: bool,
}

#[derive(Args)]
struct Checkpoint {
    #[command(flatten)]
    at: Where,
    /// Goes on every 15 s, until it is interrupted.
    #[arg(long)]
    watch: bool,
    #[command(flatten)]
    price: Price,
    #[command(flatten)]
    cache: Cache,
}

#[derive(Args)]
struct Vacuum {
    #[command(flatten)]
    at: Where,
    /// Deletes only what was written so many seconds ago: longer than any request or import lasts.
    #[arg(long, value_name = "SECONDS", default_value_t = 3_600)]
    age: u64,
}

/// How a transaction is committed.
#[derive(Args)]
struct How {
    /// Its level: naive, basic, monotonic or atomic.
    #[arg(long, value_name = "LEVEL", default_value = "basic")]
    level: Level,
    #[command(flatten)]
    price: Price,
    #[command(flatten)]
    cache: Cache,
}

/// Carries out one `fader db` command; an interrupt ends it between two requests. What was
/// committed by then stays in the queues for the next client.
pub(crate) async fn run(options: Options) -> Result<ExitCode> {
    if let Command::Import(options) = &options.command {
        return import::run(options).await;
    }
    let work = async {
        match &options.command {
            Command::Create(options) => create(options).await,
            Command::Put(options) => put(options).await,
            Command::Get(options) => read::get(options).await,
            Command::Scan(options) => read::scan(options).await,
            Command::Delete(options) => delete(options).await,
            Command::Export(options) => export::run(options).await,
            Command::Index(options) => index::run(options).await,
            Command::Approve(options) => approve::run(options).await,
            Command::Identity => keys::show(),
            Command::Grant(options) => keys::grant(options).await,
            Command::Rotate(options) => keys::rotate(options).await,
            Command::Drop(options) => drop_collection(options).await,
            Command::Checkpoint(options) => checkpoint(options).await,
            Command::Vacuum(options) => vacuum(options).await,
            Command::Cost(options) => cost::run(options).await,
            Command::Stat(at) => stat(at).await,
            Command::Verify(at) => verify(at).await,
            Command::Import(_) => unreachable!("it ends in its own way"),
        }
    };
    let mut interrupts = Interrupts::listen()?;
    tokio::select! {
        done = work => done,
        () = interrupts.next() => interrupted(),
    }
}

async fn cloud(at: &Where, access: Access) -> Result<fader_cloud::Cloud> {
    Ok(fader_client::open(&at.url, &at.services.options(access)).await?)
}

/// Opens the database of a cloud.
async fn open(at: &Where, access: Access) -> Result<Database> {
    open_with(at, access, None).await
}

/// As [`open`], with pages on this machine.
async fn open_with(at: &Where, access: Access, disk: Option<DiskTier>) -> Result<Database> {
    let options = fader_database::Options {
        identity: keys::identity()?,
        disk,
        ..fader_database::Options::default()
    };
    let opened = Database::open(cloud(at, access).await?, options).await;
    let database = opened.with_context(|| format!("the database at {}", visible(&at.url)))?;
    warn(&database).await?;
    Ok(database)
}

/// Says so when the store keeps no conditions, and when records may have expired.
async fn warn(database: &Database) -> Result<()> {
    if let Some(time) = database.may_have_expired().await? {
        note!(
            "no page was written for {} days, and the service of queues forgets messages after 14: \
             what a client committed then, and no client checkpointed, is lost",
            time.as_secs() / (24 * 60 * 60)
        );
    }
    if database.fencing() == Fencing::Timed {
        note!(
            "this store keeps no conditions of PUTs: a token with a timeout stands for them; a \
             client that stands still, or a PUT that is late, for more than 10 s may lose writes"
        );
    }
    Ok(())
}

async fn create(options: &Create) -> Result<ExitCode> {
    if let Location::Folder(path) = Location::parse(&options.at.url)? {
        let context = || format!("cannot make {}", path.display());
        std::fs::create_dir_all(&path).with_context(context)?;
    }
    let cloud = cloud(&options.at, Access::Write).await?;
    let opening = fader_database::Options {
        identity: match options.encrypt {
            true => Some(keys::identity_or_new()?),
            false => None,
        },
        ..fader_database::Options::default()
    };
    let database = match Database::open(cloud.clone(), opening.clone()).await {
        Err(error) if error.kind == ErrorKind::NotFound => Database::create(cloud, opening).await?,
        opened => opened?,
    };
    warn(&database).await?;
    let settings = CollectionSettings {
        key: options.key.clone(),
        minimum: options.minimum,
        queues: options.pending_queues,
        is_encrypted: options.encrypt,
        is_curated: options.curated,
        indexes: options
            .index
            .iter()
            .map(|field| (field.clone(), field.clone()))
            .collect(),
        ..CollectionSettings::default()
    };
    database
        .create_collection(&options.collection, &settings)
        .await?;
    Ok(ExitCode::SUCCESS)
}

async fn put(options: &Put) -> Result<ExitCode> {
    let value = match options.value.as_str() {
        "-" => {
            let mut value = Vec::new();
            let read = std::io::Read::read_to_end(&mut std::io::stdin().lock(), &mut value);
            read.context("standard input")?;
            value
        }
        value => value.as_bytes().to_vec(),
    };
    let disk = options.how.cache.open()?;
    let database = open_with(&options.at, Access::Write, disk).await?;
    let mut transaction = database.begin(options.how.level);
    let key = options.key.as_bytes();
    transaction.put(&options.collection, key, &value).await?;
    finish(
        database,
        transaction,
        &options.collection,
        &options.how.price,
    )
    .await
}

async fn delete(options: &Delete) -> Result<ExitCode> {
    let disk = options.how.cache.open()?;
    let database = open_with(&options.at, Access::Write, disk).await?;
    let mut transaction = database.begin(options.how.level);
    transaction
        .delete(&options.collection, options.key.as_bytes())
        .await?;
    finish(
        database,
        transaction,
        &options.collection,
        &options.how.price,
    )
    .await
}

/// Commits, tells what the transaction cost, and checkpoints.
async fn finish(
    database: Database,
    transaction: Transaction,
    collection: &str,
    price: &Price,
) -> Result<ExitCode> {
    let before = database.meter().own_usage();
    let mut usage = transaction.commit().await?.usage;
    // A request to queues in a bucket may serve several transactions: it counts for the database.
    let shared = database.meter().own_usage().since(&before);
    usage.insert("shared".to_owned(), shared);
    price.show(&usage)?;
    let closed = database.clone().close().await;
    closed.context("it is committed, but not yet in its page: run `fader db checkpoint`")?;
    price.keep(&database, collection).await?;
    Ok(ExitCode::SUCCESS)
}

async fn drop_collection(options: &Drop) -> Result<ExitCode> {
    if !options.yes {
        return failure::invalid(format_args!(
            "this deletes all records of {:?}: say --yes",
            options.collection
        ));
    }
    let database = open(&options.at, Access::Write).await?;
    database.drop_collection(&options.collection).await?;
    Ok(ExitCode::SUCCESS)
}

async fn checkpoint(options: &Checkpoint) -> Result<ExitCode> {
    let disk = options.cache.open()?;
    let database = open_with(&options.at, Access::Write, disk).await?;
    let mut kept = Instant::now();
    loop {
        let done = database.settle().await;
        match done {
            Ok(done) => {
                let text = format!(
                    "{} messages: {} records applied, {} pages written, {} split off",
                    done.messages, done.applied, done.pages, done.splits
                );
                if !options.watch || done.messages > 0 {
                    output::print(&format!("{text}\n"))?;
                }
                for (count, what) in [
                    (
                        done.refused,
                        "records came too late and are kept below db/dead",
                    ),
                    (
                        done.damaged,
                        "messages cannot be read and stay in their queues",
                    ),
                    (
                        done.closed,
                        "encrypted collections are left out: their keys were not granted to you",
                    ),
                ] {
                    if count > 0 {
                        note!("{count} {what}");
                    }
                }
            }
            Err(error) if options.watch => note!("{error}; it is tried again"),
            Err(error) => return Err(error.into()),
        }
        if !options.watch {
            options.price.show_all(&database)?;
            options.price.keep(&database, "").await?;
            return Ok(ExitCode::SUCCESS);
        }
        if KEEP <= kept.elapsed() {
            if let Err(error) = options.price.keep(&database, "").await {
                note!("{error}; it is tried again");
            }
            kept = Instant::now();
        }
        tokio::time::sleep(WATCH).await;
    }
}

async fn vacuum(options: &Vacuum) -> Result<ExitCode> {
    let database = open(&options.at, Access::Write).await?;
    let done = database.vacuum(Duration::from_secs(options.age)).await?;
    let text = format!(
        "{} objects of {} bytes and {} queues deleted; {} objects are younger than {} s and stay\n",
        done.objects, done.bytes, done.queues, done.young, options.age
    );
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

async fn stat(at: &Where) -> Result<ExitCode> {
    let database = open(at, Access::Read).await?;
    let head = [
        "collection",
        "key",
        "minimum",
        "queues",
        "records",
        "pages",
        "height",
        "bytes",
    ];
    let mut table = output::table(head);
    let mut is_well = true;
    for (name, collection) in database.collections().await? {
        let report = match database.verify(&name).await {
            Ok(report) => Some(report),
            Err(error) => pass_over(&name, error)?,
        };
        is_well &= report
            .as_ref()
            .is_some_and(|report| is_whole(&name, report));
        let shown = |count: fn(&Report) -> usize| match &report {
            Some(report) => count(report).to_string(),
            None => "?".to_owned(),
        };
        table.add_row([
            visible(&name),
            collection.key.map(|key| visible(&key)).unwrap_or_default(),
            collection.minimum.to_string(),
            collection.queues.to_string(),
            shown(|report| report.visible),
            shown(|report| report.leaves + report.nodes),
            shown(|report| report.height),
            shown(|report| report.bytes),
        ]);
    }
    output::print(&format!("{}\n", table.trim_fmt()))?;
    Ok(exit(is_well))
}

fn exit(is_well: bool) -> ExitCode {
    match is_well {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// Says what cannot be read, and goes on. What concerns the other collections too fails.
fn pass_over<T>(name: &str, error: fader_cloud::Error) -> Result<Option<T>> {
    match error.kind {
        ErrorKind::Denied | ErrorKind::Malformed => {
            note!("{}: {:#}", visible(name), anyhow::Error::from(error));
            Ok(None)
        }
        _ => Err(error.into()),
    }
}

/// Whether a tree has no contradiction; says each.
fn is_whole(name: &str, report: &Report) -> bool {
    for problem in &report.problems {
        note!("{}: {problem}", visible(name));
    }
    report.problems.is_empty()
}

async fn verify(at: &Where) -> Result<ExitCode> {
    let database = open(at, Access::Read).await?;
    let mut is_well = true;
    for name in database.collections().await?.into_keys() {
        is_well &= match verify_collection(&database, &name).await {
            Ok(is_well) => is_well,
            Err(error) => pass_over(&name, error)?.unwrap_or(false),
        };
        for index in database.collection(&name).await?.indexes.keys() {
            is_well &= match verify_index(&database, &name, index).await {
                Ok(is_well) => is_well,
                Err(error) => pass_over(&format!("{name}, index {index}"), error)?.unwrap_or(false),
            };
        }
    }
    Ok(exit(is_well))
}

async fn verify_collection(database: &Database, name: &str) -> fader_cloud::Result<bool> {
    let verified = database.verify_with_queues(name).await?;
    let (report, queues) = (verified.tree, verified.queues);
    let mut is_well = is_whole(name, &report);
    if let Some(first) = queues.missing.first() {
        let count = queues.missing.len();
        note!(
            "{}: {count} leaves have no queue, among them {first}; their updates go through the \
             queue of the tree",
            visible(name)
        );
        is_well = false;
    }
    let pages = report.leaves + report.nodes;
    let (shown, records) = (visible(name), report.visible);
    output::tell(&format!("{shown}: {records} records in {pages} pages"));
    Ok(is_well)
}

async fn verify_index(database: &Database, name: &str, index: &str) -> fader_cloud::Result<bool> {
    let report = database.verify_index(name, index).await?;
    let (entries, dangling) = (report.entries, report.dangling);
    let (shown, index) = (visible(name), visible(index));
    output::tell(&format!(
        "{shown}, index {index}: {entries} entries, {dangling} outdated"
    ));
    if let Some(first) = report.missing.first() {
        let count = report.missing.len();
        note!(
            "{shown}, index {index}: {count} records have no entry, among them {first:?}; pending \
             ones get theirs at the next checkpoint"
        );
        return Ok(false);
    }
    Ok(true)
}
