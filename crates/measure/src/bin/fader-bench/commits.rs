//! Clients of a database at a URL that commit one record after the other: what `bench database`
//! compares with other tables on object storage.
//!
//! Each client is opened on its own: its connections, its session and its groups of messages are no
//! other's. Prints one line of JSON: commits within the time, commits that were answered later, and
//! the records that a new client finds at the end.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::Args;
use fader_database::{CollectionSettings, Database, Level, Options as DatabaseOptions};
use futures_util::future::join_all;
use serde::Serialize;

const COLLECTION: &str = "hot";
const VALUE: [u8; 100] = [b'.'; 100];
/// Records that one read takes.
const READ: usize = 10_000;

/// Who commits, where and for how long.
#[derive(Args)]
pub(crate) struct Options {
    /// The bucket and prefix, which has no database yet.
    url: String,
    /// The level of each transaction.
    #[arg(long, default_value = "basic")]
    level: Level,
    /// Clients, each with one transaction under way.
    #[arg(long, default_value_t = 64)]
    clients: usize,
    /// For how long new transactions begin.
    #[arg(long, default_value_t = 20.0)]
    seconds: f64,
}

#[derive(Debug, Default, Serialize)]
struct Counts {
    within: u64,
    late: u64,
    records: u64,
}

async fn open(url: &str) -> Result<Database> {
    let cloud = fader_client::open(url, &fader_client::Options::default()).await?;
    Ok(Database::open(cloud, DatabaseOptions::default()).await?)
}

async fn commit(database: &Database, level: Level, key: &str) -> Result<()> {
    let mut transaction = database.begin(level);
    transaction.put(COLLECTION, key.as_bytes(), &VALUE).await?;
    transaction.commit().await?;
    Ok(())
}

/// The records that a new client finds, once all that was committed is in pages.
async fn records(url: &str) -> Result<u64> {
    let database = open(url).await?;
    database.settle().await?;
    let mut transaction = database.begin(Level::Basic);
    let (mut count, mut from) = (0, Vec::new());
    loop {
        let found = transaction.range(COLLECTION, &from, None, READ).await?;
        count += found.len() as u64;
        let Some((last, _)) = found.last() else {
            return Ok(count);
        };
        from = [last, &b"\0"[..]].concat();
    }
}

/// What clients commit within the time. They end as in a crash: checkpoints under way, and those to
/// come, are left to the next client.
async fn measure(options: &Options) -> Result<Counts> {
    let Options { url, level, .. } = options;
    let cloud = fader_client::open(url, &fader_client::Options::default()).await?;
    let first = Database::create(cloud, DatabaseOptions::default()).await?;
    let settings = CollectionSettings::default();
    first.create_collection(COLLECTION, &settings).await?;
    let opened = join_all((0..options.clients).map(|_| open(url))).await;
    let databases: Vec<Database> = opened.into_iter().collect::<Result<_>>()?;
    let until = Instant::now() + Duration::from_secs_f64(options.seconds);
    let clients = databases.iter().enumerate();
    let clients = clients.map(async |(number, database)| -> Result<Counts> {
        let mut counts = Counts::default();
        while Instant::now() < until {
            let key = format!("{number:04}-{:08}", counts.within + counts.late);
            commit(database, *level, &key).await?;
            match Instant::now() < until {
                true => counts.within += 1,
                false => counts.late += 1,
            }
        }
        Ok(counts)
    });
    let mut sum = Counts::default();
    for counts in join_all(clients).await {
        let counts = counts?;
        sum.within += counts.within;
        sum.late += counts.late;
    }
    Ok(sum)
}

/// Runs work with all tasks that it starts, and ends these with it.
fn run_alone<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(work)
}

/// Commits, counts and looks.
pub(crate) fn run(options: &Options) -> Result<()> {
    if options.clients == 0 {
        bail!("no client commits nothing");
    }
    let mut counts = run_alone(measure(options))?;
    counts.records = run_alone(records(&options.url))?;
    println!("{}", serde_json::to_string(&counts)?);
    Ok(())
}
