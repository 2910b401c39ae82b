//! Point reads of a database whose pages are all in its client's pool, beside a `BTreeMap`. `bench
//! database` compares them with a prepared SELECT of SQLite (`sqlite_reads.c`).
//!
//! Keys, their order and the rounds are those of that program. One thread reads in one transaction.
//! A first round fills the pool; the best of the others counts. Prints one line of JSON.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::io::Write;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::Args;
use fader_database::{CollectionSettings, Database, Level, Options as DatabaseOptions};
use fader_measure::mix;
use serde::Serialize;

const COLLECTION: &str = "records";
const KEY_BYTES: usize = 16;
const VALUE_BYTES: usize = 84;
/// Above all pages: a record takes some 30 bytes more in its page.
const POOL_BYTES_PER_RECORD: usize = 256;
const ROUNDS: usize = 4;

/// What is read, and where it is.
#[derive(Args)]
pub(crate) struct Options {
    /// Where the database is created; there is none yet.
    url: String,
    /// Records of 100 bytes.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    records: u64,
    /// Reads of a round.
    #[arg(long, default_value_t = 300_000, value_parser = clap::value_parser!(u64).range(1..))]
    reads: u64,
}

/// Reads a second.
#[derive(Debug, Default, Serialize)]
struct Rates {
    basic: f64,
    monotonic: f64,
    btree_map: f64,
}

/// SplitMix64, as in `sqlite_reads.c`.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        let drawn = mix(self.0);
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        drawn
    }
}

fn key(number: u64) -> Result<[u8; KEY_BYTES]> {
    let mut key = [0; KEY_BYTES];
    write!(&mut key[..], "user{number:012}")?;
    Ok(key)
}

async fn load(options: &Options) -> Result<BTreeMap<Vec<u8>, Vec<u8>>> {
    let cloud = fader_client::open(&options.url, &fader_client::Options::default()).await?;
    let database = Database::create(cloud, DatabaseOptions::default()).await?;
    let settings = CollectionSettings::default();
    database.create_collection(COLLECTION, &settings).await?;
    let mut load = database.load(COLLECTION).await?;
    let mut map = BTreeMap::new();
    for number in 0..options.records {
        let (key, value) = (key(number)?, [number as u8; VALUE_BYTES]);
        load.push(&key, &value).await?;
        map.insert(key.to_vec(), value.to_vec());
    }
    load.finish().await?;
    Ok(map)
}

/// Reads a second of one round, whose keys are made before. Each read has a record, of which all is
/// summed that a reader of SQLite's touches.
async fn round(
    options: &Options,
    draws: &mut Random,
    database: Option<(&Database, Level)>,
    map: &BTreeMap<Vec<u8>, Vec<u8>>,
) -> Result<f64> {
    let keys = (0..options.reads).map(|_| key(draws.next() % options.records));
    let keys: Vec<_> = keys.collect::<Result<_>>()?;
    let mut transaction = database.map(|(database, level)| database.begin(level));
    let mut sum = 0;
    let begin = Instant::now();
    for key in &keys {
        sum += match &mut transaction {
            Some(transaction) => {
                let value = transaction.get(COLLECTION, key).await?;
                let value = value.context("a record is not there")?;
                value.len() + usize::from(value[0])
            }
            None => {
                let value = map.get(&key[..]).context("a record is not there")?;
                value.len() + usize::from(value[0])
            }
        };
    }
    let rate = options.reads as f64 / begin.elapsed().as_secs_f64();
    black_box(sum);
    Ok(rate)
}

async fn measure(options: &Options) -> Result<Rates> {
    let map = load(options).await?;
    let cloud = fader_client::open(&options.url, &fader_client::Options::default()).await?;
    let pool = DatabaseOptions {
        pool_bytes: (64 << 20) + options.records as usize * POOL_BYTES_PER_RECORD,
        ..DatabaseOptions::default()
    };
    let database = Database::open(cloud, pool).await?;
    let mut rates = Rates::default();
    let mut draws = Random(1);
    for number in 0..ROUNDS {
        for (rate, level) in [
            (&mut rates.basic, Some(Level::Basic)),
            (&mut rates.monotonic, Some(Level::Monotonic)),
            (&mut rates.btree_map, None),
        ] {
            let of = level.map(|level| (&database, level));
            let found = round(options, &mut draws, of, &map).await?;
            if number > 0 {
                *rate = rate.max(found);
            }
        }
    }
    Ok(rates)
}

/// Loads, reads and says how fast.
pub(crate) fn run(options: &Options) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let rates = runtime.block_on(measure(options))?;
    println!("{}", serde_json::to_string(&rates)?);
    Ok(())
}
