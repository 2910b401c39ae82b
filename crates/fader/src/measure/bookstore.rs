//! `fader measure bookstore`: the experiments of Brantner and others (2008), in virtual time on
//! modelled services.
//!
//! A transaction reads a customer, searches six products and orders three: it updates the three
//! products and inserts three orders. The code is that of `fader db`; only the services, with their
//! latencies, are a model. So the figures repeat to the last digit and cost nothing.
//!
//! Deliberately absent: time that the client's own processor takes.

mod curve;
mod layouts;
mod year;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use fader_cloud::model::{Model, Process, Profile, Skew};
use fader_cloud::{Clock, Cloud, PriceBook, RequestKind, Usage};
use fader_database::{CollectionSettings, Database, Level, PendingQueues};
use object_store::path::Path;

use self::year::Year;
use crate::failure;
use crate::output;

const EXAMPLES: &str = "\
Examples:
  fader measure bookstore
  fader measure bookstore --year 2026 --clients 16 --rate 10 --queues bucket
  fader measure bookstore --figure
  fader measure bookstore --layouts
  fader measure bookstore --year 2026 --products 1000 --break-even --svg curve.svg";

/// Bytes of a customer, a product and an order.
const CUSTOMER_BYTES: usize = 700;
const PRODUCT_BYTES: usize = 600;
const ORDER_BYTES: usize = 150;
/// Products that a transaction searches, and those that it orders.
const SEARCHED: usize = 6;
const ORDERED: usize = 3;
/// Records that a transaction writes: its products, and an order of each.
const RECORDS: u32 = 2 * ORDERED as u32;
/// The intervals of Figure 3.
const INTERVALS: [u64; 5] = [5, 10, 15, 20, 25];
/// The intervals of the curve of price ratios.
const INTERVALS_OF_CURVE: [u64; 8] = [1, 2, 4, 8, 15, 30, 60, 120];

/// The experiment.
#[derive(Args, Clone)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Latencies and prices: of the paper's services, or of those of 2026.
    #[arg(long, default_value = "2007")]
    year: Year,
    /// Clients at once.
    #[arg(long, default_value_t = 1)]
    clients: u32,
    /// Transactions of each level.
    #[arg(long, default_value_t = 300)]
    transactions: u32,
    /// Transactions a second of all clients together; without it each client's follow at once.
    #[arg(long, value_name = "NUMBER")]
    rate: Option<f64>,
    /// Where pending records wait.
    #[arg(long, default_value = "sqs")]
    queues: QueuesOf,
    /// Pending-update queues of a collection: a number, or `per-leaf` as in the paper.
    #[arg(long, value_name = "NUMBER|per-leaf", default_value_t)]
    pending_queues: PendingQueues,
    /// Seconds between two checkpoints of a client.
    #[arg(long, value_name = "SECONDS", default_value_t = 15)]
    interval: u64,
    /// Products of the store.
    #[arg(long, default_value_t = 10_000)]
    products: u32,
    /// Customers of the store.
    #[arg(long, default_value_t = 2_880)]
    customers: u32,
    /// Sends the requests of a commit in parallel and several records in a message, instead of one
    /// by one as in the paper. In 2026 that is so in any case.
    #[arg(long)]
    parallel: bool,
    /// Draws Figure 3: the price by the checkpoint interval.
    #[arg(long)]
    figure: bool,
    /// Clients ask for a token before a checkpoint: a hint that others are at it.
    #[arg(long)]
    lock_hint: bool,
    /// Compares layouts of pending-update queues: requests and price.
    #[arg(long, conflicts_with_all = ["figure", "break_even"])]
    layouts: bool,
    /// Compares each level's price with naive's by the records that a checkpoint interval collects,
    /// and says from how many on it costs less. Without --rate: 0.1 transactions a second.
    #[arg(long, conflicts_with = "figure")]
    break_even: bool,
    /// Draws the curve of --break-even into a file (SVG).
    #[arg(long, value_name = "FILE", requires = "break_even")]
    svg: Option<PathBuf>,
    /// Decides what clients choose.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum QueuesOf {
    /// A service of queues, SQS.
    Sqs,
    /// In the bucket.
    Bucket,
}

/// What the paper reports of a level: seconds on average and at most. Also dollars for 1000
/// transactions in all, of transactions, and of checkpoints with the ATOMIC queue.
fn paper(level: Level) -> [f64; 5] {
    match level {
        Level::Naive => [11.3, 12.1, 0.15, 0.15, 0.0],
        Level::Basic => [4.0, 5.9, 1.8, 0.7, 1.1],
        Level::Monotonic => [4.0, 6.8, 2.1, 0.7, 1.4],
        Level::Atomic => [2.8, 4.6, 2.9, 0.3, 2.6],
    }
}

/// What a level came to.
struct Outcome {
    /// Seconds of each transaction, rising.
    seconds: Vec<f64>,
    /// Dollars for 1000 transactions: of transactions, and of all else.
    dollars: [f64; 2],
    /// Requests for each transaction: of transactions, and of all else.
    requests: [f64; 2],
    /// PUTs for each transaction that were refused with 412.
    lost: f64,
    /// Seconds until all pending records were in pages, in all.
    lasted: f64,
}

impl Outcome {
    fn at(&self, share: f64) -> f64 {
        let last = self.seconds.len().saturating_sub(1);
        self.seconds
            .get((last as f64 * share) as usize)
            .copied()
            .unwrap_or(0.0)
    }

    fn average(&self) -> f64 {
        self.seconds.iter().sum::<f64>() / self.seconds.len().max(1) as f64
    }

    fn total(&self) -> f64 {
        self.dollars.iter().sum()
    }
}

/// Columns of the table: ours beside the paper's, times in seconds.
const HEAD: [&str; 12] = [
    "level",
    "avg s",
    "p50",
    "max",
    "paper avg",
    "max",
    "$/1000",
    "transaction",
    "checkpoint",
    "paper $",
    "transaction",
    "checkpoint",
];

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    if options.clients == 0 || options.customers == 0 || (options.products as usize) < SEARCHED {
        return failure::invalid(format_args!(
            "at least one client and customer, and {SEARCHED} products"
        ));
    }
    if options
        .rate
        .is_some_and(|rate| !(0.0..1e6).contains(&rate) || rate == 0.0)
    {
        return failure::invalid("--rate is a number of transactions a second above 0");
    }
    if options.figure {
        return figure(options);
    }
    if options.layouts {
        return layouts::run(options);
    }
    if options.break_even {
        return curve::run(options, options.svg.as_deref());
    }
    tables(options)
}

/// Tables 3 and 4, ours beside the paper's.
fn tables(options: &Options) -> Result<ExitCode> {
    let mut table = output::table(HEAD);
    let mut outcomes = Vec::new();
    for level in Level::ALL {
        output::tell(&format!(
            "{level}: {} transactions in virtual time",
            options.transactions
        ));
        let outcome = measure(options, level)?;
        let paper = paper(level);
        let shown = |number: f64| format!("{number:.3}");
        let price = |number: f64| format!("{number:.4}");
        table.add_row([
            level.to_string(),
            shown(outcome.average()),
            shown(outcome.at(0.5)),
            shown(outcome.at(1.0)),
            paper[0].to_string(),
            paper[1].to_string(),
            price(outcome.total()),
            price(outcome.dollars[0]),
            price(outcome.dollars[1]),
            paper[2].to_string(),
            paper[3].to_string(),
            paper[4].to_string(),
        ]);
        outcomes.push(outcome);
    }
    let naive = &outcomes[0];
    let ratios = Level::ALL
        .iter()
        .zip(&outcomes)
        .skip(1)
        .map(|(level, outcome)| {
            let (faster, dearer) = (
                naive.average() / outcome.average(),
                outcome.total() / naive.total(),
            );
            format!("{level}: {faster:.2} times as fast as naive, {dearer:.3} of its price")
        });
    let ratios: Vec<String> = ratios.collect();
    let lasted = outcomes
        .iter()
        .map(|outcome| outcome.lasted)
        .fold(0.0, f64::max);
    let races = Level::ALL.iter().zip(&outcomes).skip(1);
    let races = races.map(|(level, outcome)| {
        let [own, other] = outcome.requests;
        format!(
            "{level}: {:.2} requests for each transaction, {:.3} PUTs refused with 412",
            own + other,
            outcome.lost
        )
    });
    let races: Vec<String> = races.collect();
    output::print(&format!(
        "Tables 3 and 4 of the paper, {}\n{}\n{}\n{}\nthe longest run: {lasted:.0} virtual s\n",
        about(options),
        table.trim_fmt(),
        ratios.join("\n"),
        races.join("\n"),
    ))?;
    Ok(ExitCode::SUCCESS)
}

fn about(options: &Options) -> String {
    format!("{}, interval {} s", setting(options), options.interval)
}

/// What all intervals have in common.
fn setting(options: &Options) -> String {
    let queues = match options.queues {
        QueuesOf::Sqs => "SQS",
        QueuesOf::Bucket => "queues in the bucket",
    };
    let rate = match options.rate {
        Some(rate) => format!("{rate} transactions a second"),
        None => "one transaction after the other".to_owned(),
    };
    let pending = match options.pending_queues {
        PendingQueues::PerCollection(1) => String::new(),
        other => format!(", pending queues {other}"),
    };
    format!(
        "clients: {}, {rate}, {queues}{pending}, prices of {}",
        options.clients,
        options.year.book(),
    )
}

/// The price of 1000 transactions by the checkpoint interval.
fn figure(options: &Options) -> Result<ExitCode> {
    let mut table = output::table([
        "interval s",
        "basic $/1000",
        "atomic $/1000",
        "naive $/1000",
    ]);
    for interval in INTERVALS {
        let options = Options {
            interval,
            ..options.clone()
        };
        output::tell(&format!("interval {interval} s"));
        let mut row = vec![interval.to_string()];
        for level in [Level::Basic, Level::Atomic, Level::Naive] {
            row.push(format!("{:.4}", measure(&options, level)?.total()));
        }
        table.add_row(row);
    }
    output::print(&format!(
        "Figure 3 of the paper, {}\n{}\nThe paper's curves fall most between 10 and 20 s.\n",
        about(options),
        table.trim_fmt()
    ))?;
    Ok(ExitCode::SUCCESS)
}

fn measure(options: &Options, level: Level) -> Result<Outcome> {
    let book = PriceBook::built_in(options.year.book()).context("a built-in price book")?;
    let model = Model::new(Profile {
        seed: options.seed,
        ..Profile::default()
    });
    let executor = model.executor.clone();
    let outcome = executor.run(experiment(options.clone(), level, model, book));
    executor.shut_down();
    outcome
}

/// One experiment. Loading the store takes no time and counts for nothing.
async fn experiment(
    options: Options,
    level: Level,
    model: Model,
    book: PriceBook,
) -> Result<Outcome> {
    let process = |name: &str| model.executor.process(name, Skew::default());
    let settings = database_options(&options);
    let setup = process("setup");
    let database = Database::create(cloud(&options, &model, &setup), settings.clone()).await?;
    fill(&options, &database).await?;
    model.set_profile(options.year.profile(options.seed));
    let before = model.meter.usage();
    let begun = model.clock.monotonic();
    let done = Arc::new(Mutex::new(Done::default()));
    let mut clients = Vec::new();
    for number in 0..options.clients {
        let process = process(&format!("client {number}"));
        let client = Client {
            number,
            options: options.clone(),
            level,
            cloud: cloud(&options, &model, &process),
            book: book.clone(),
            done: done.clone(),
        };
        let runtime = client.cloud.runtime.clone();
        clients.push(runtime.spawn(client.live()));
    }
    for client in clients {
        client.await.context("a client ended early")??;
    }
    let lasted = (model.clock.monotonic() - begun).as_secs_f64();
    let Done {
        mut seconds,
        pico,
        requests,
    } = {
        let mut done = done.lock().expect("no client panics while it is locked");
        std::mem::take(&mut *done)
    };
    seconds.sort_by(f64::total_cmp);
    let count = seconds.len() as f64;
    let used = model.meter.usage().since(&before);
    let is_lost = |kind, status| kind == RequestKind::ObjectPut && status == Some(412);
    let lost = used
        .counts()
        .filter(|(kind, status, _)| is_lost(*kind, *status));
    let lost: u64 = lost.map(|(_, _, count)| count.requests).sum();
    let dollars = |pico: u128| pico as f64 / 1e12 / (count / 1000.0);
    let (all, own) = (dollars(book.cost(&used).pico), dollars(pico));
    let (all_requests, own_requests) = (used.requests() as f64 / count, requests as f64 / count);
    Ok(Outcome {
        seconds,
        dollars: [own, all - own],
        requests: [own_requests, all_requests - own_requests],
        lost: lost as f64 / count,
        lasted,
    })
}

fn database_options(options: &Options) -> fader_database::Options {
    fader_database::Options {
        pool_bytes: 5_000_000,
        ttl: Duration::from_secs(100),
        checkpoint_after: Duration::from_secs(options.interval),
        has_lock_hint: options.lock_hint,
        is_one_by_one: options.year == Year::Y2007 && !options.parallel,
        ..fader_database::Options::default()
    }
}

fn cloud(options: &Options, model: &Model, process: &Process) -> Cloud {
    let cloud = model.cloud(process);
    match options.queues {
        QueuesOf::Sqs => cloud,
        QueuesOf::Bucket => cloud.in_bucket(&Path::from("bucket")),
    }
}

fn key(number: u32) -> Vec<u8> {
    format!("{number:08}").into_bytes()
}

async fn fill(options: &Options, database: &Database) -> Result<()> {
    let settings = CollectionSettings {
        minimum: Level::Naive,
        queues: options.pending_queues,
        ..CollectionSettings::default()
    };
    for (name, count, bytes) in [
        ("customers", options.customers, CUSTOMER_BYTES),
        ("products", options.products, PRODUCT_BYTES),
        ("orders", options.products, ORDER_BYTES),
    ] {
        database.create_collection(name, &settings).await?;
        let mut load = database.load(name).await?;
        for number in 0..count {
            load.push(&key(number), &vec![b'.'; bytes]).await?;
        }
        load.finish().await?;
    }
    Ok(())
}

/// What transactions took.
#[derive(Default)]
struct Done {
    /// Seconds of each.
    seconds: Vec<f64>,
    /// The price of all, in 10⁻¹² dollars.
    pico: u128,
    /// Requests of all.
    requests: u64,
}

struct Client {
    number: u32,
    options: Options,
    level: Level,
    cloud: Cloud,
    book: PriceBook,
    done: Arc<Mutex<Done>>,
}

impl Client {
    async fn live(self) -> Result<()> {
        let database = Database::open(self.cloud.clone(), database_options(&self.options)).await?;
        let clock = self.cloud.runtime.clock.clone();
        let clients = self.options.clients;
        let share = self.options.transactions.div_ceil(clients);
        let begun = clock.monotonic();
        for number in 0..share {
            if let Some(rate) = self.options.rate {
                let place = f64::from(number * clients + self.number) / rate;
                let due = begun + Duration::from_secs_f64(place);
                clock.sleep(due.saturating_sub(clock.monotonic())).await;
            }
            let start = clock.monotonic();
            let usage = self.order(&database).await?;
            let took = (clock.monotonic() - start).as_secs_f64();
            let mut done = self
                .done
                .lock()
                .expect("no client panics while it is locked");
            done.seconds.push(took);
            for usage in usage.values() {
                done.pico += self.book.cost(usage).pico;
                done.requests += usage.requests();
            }
        }
        // What the client has under way ends with its last checkpoint.
        clock
            .sleep(Duration::from_secs(self.options.interval + 5))
            .await;
        database.close().await?;
        Ok(())
    }

    fn below(&self, count: u32) -> u32 {
        let random = self.cloud.runtime.random() % u64::from(count);
        u32::try_from(random).expect("below a u32")
    }

    /// One transaction of the paper.
    async fn order(&self, database: &Database) -> Result<BTreeMap<String, Usage>> {
        let mut transaction = database.begin(self.level);
        let customer = key(self.below(self.options.customers));
        transaction.get("customers", &customer).await?;
        let mut products = Vec::new();
        while products.len() < SEARCHED {
            let product = self.below(self.options.products);
            if !products.contains(&product) {
                transaction.get("products", &key(product)).await?;
                products.push(product);
            }
        }
        for product in &products[..ORDERED] {
            let record = vec![b'.'; PRODUCT_BYTES];
            transaction
                .update("products", &key(*product), &record)
                .await?;
            let order = [&key(self.below(self.options.products))[..], &self.unique()].concat();
            transaction
                .put("orders", &order, &[b'.'; ORDER_BYTES])
                .await?;
        }
        Ok(transaction.commit().await?.usage)
    }

    /// No two orders are the same.
    fn unique(&self) -> [u8; 8] {
        self.cloud.runtime.random().to_be_bytes()
    }
}
