//! The database on object storage, in virtual time. A GET takes 25 ms, a PUT 30, a request to a
//! service of queues 10, and nothing fails. The model's meter counts requests.
//!
//! The peer is a table whose every commit puts an object, and names it in one manifest by
//! compare-and-swap, as lakehouses and single-manifest databases do. It compacts and reads nothing.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use anyhow::{Context, Result};
use fader_cloud::model::{Call, Latency, Model, Profile, Skew};
use fader_cloud::{Cloud, Queues};
use fader_database::{CollectionSettings, Database, Level, Options as DatabaseOptions};
use fader_measure::median;
use futures_util::future::join_all;
use object_store::ObjectStoreExt;
use object_store::path::Path;

use crate::Options;
use crate::machine::Machine;
use crate::one_object::OneObject;
use crate::report::{Figure, Report, Target, of_seeds};

/// How long commits are counted, and how long their times are taken. The first checkpoint begins
/// later: all clients began at once, and no checkpoint is in a commit's way.
const COUNTED: Duration = Duration::from_secs(5);
const TIMED: Duration = Duration::from_secs(1);
const GET: Duration = Duration::from_millis(25);
const PUT: Duration = Duration::from_millis(30);
/// What one request to the service of queues takes.
const QUEUE: Duration = Duration::from_millis(10);
const CLIENTS: usize = 64;
/// Transactions of one process at once, where commits are made in groups.
const GROUP: usize = 8;
/// The checkpoint interval.
const INTERVAL: Duration = Duration::from_secs(15);
const WEEK: Duration = Duration::from_secs(7 * 24 * 60 * 60);
const COLLECTION: &str = "hot";
const VALUE: [u8; 100] = [b'.'; 100];

/// Where pending records wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pending {
    Service,
    Bucket,
}

fn profile(seed: u64) -> Profile {
    let call = |time: Duration| Call {
        latency: Latency::Constant(time),
        ..Call::default()
    };
    let mut profile = Profile {
        seed,
        ..Profile::default()
    };
    let (objects, queues) = (&mut profile.objects, &mut profile.queues);
    (objects.get, objects.list) = (call(GET), call(GET));
    (objects.put, objects.delete) = (call(PUT), call(PUT));
    for of_queue in [&mut queues.send, &mut queues.receive, &mut queues.remove] {
        *of_queue = call(QUEUE);
    }
    queues.other = call(QUEUE);
    profile
}

/// A cloud in virtual time.
struct Bench {
    model: Model,
    pending: Pending,
}

impl Bench {
    fn new(seed: u64, pending: Pending) -> Self {
        Bench {
            model: Model::new(profile(seed)),
            pending,
        }
    }

    fn cloud(&self, name: &str) -> Cloud {
        let process = self.model.executor.process(name, Skew::default());
        let cloud = self.model.cloud(&process);
        match self.pending {
            Pending::Service => cloud,
            Pending::Bucket => cloud.in_bucket(&Path::from("queues")),
        }
    }

    fn run<T>(&self, future: impl Future<Output = T>) -> T {
        let done = self.model.executor.run(future);
        self.model.executor.shut_down();
        done
    }

    fn now(&self) -> Duration {
        self.model.executor.now()
    }

    async fn sleep(&self, time: Duration) {
        let harness = self.model.executor.harness();
        harness.runtime().clock.sleep(time).await;
    }

    fn requests(&self) -> u64 {
        self.model.meter.usage().requests()
    }

    async fn create(&self) -> Result<Database> {
        let database = Database::create(self.cloud("first"), options()).await?;
        let settings = CollectionSettings::default();
        database.create_collection(COLLECTION, &settings).await?;
        Ok(database)
    }

    async fn open(&self, name: &str) -> Result<Database> {
        Ok(Database::open(self.cloud(name), options()).await?)
    }
}

fn options() -> DatabaseOptions {
    DatabaseOptions {
        checkpoint_after: INTERVAL,
        ..DatabaseOptions::default()
    }
}

/// Commits one record under a key of its own.
async fn commit(database: &Database, level: Level, key: &str) -> Result<()> {
    let mut transaction = database.begin(level);
    transaction.put(COLLECTION, key.as_bytes(), &VALUE).await?;
    transaction.commit().await?;
    Ok(())
}

/// Clients that commit one transaction after the other, for a while.
#[derive(Clone, Copy)]
struct Load {
    pending: Pending,
    level: Level,
    clients: usize,
    /// Transactions that one client has under way.
    at_once: usize,
    span: Duration,
}

/// The times of commits, in seconds.
fn commits(seed: u64, load: Load) -> Result<Vec<f64>> {
    let Load {
        level,
        clients,
        at_once,
        ..
    } = load;
    let bench = Bench::new(seed, load.pending);
    bench.run(async {
        drop(bench.create().await?);
        let mut databases = Vec::new();
        for number in 0..clients {
            let database = bench.open(&format!("c{number}")).await?;
            // What a client learns with its first commit counts for nothing.
            commit(&database, level, &format!("first-{number}")).await?;
            databases.push(database);
        }
        let until = bench.now() + load.span;
        let times = RefCell::new(Vec::new());
        let workers = (0..clients * at_once).map(async |number| {
            let database = &databases[number % clients];
            for count in 0_u64.. {
                let begun = bench.now();
                commit(database, level, &format!("{number:04}-{count}")).await?;
                if until < bench.now() {
                    break;
                }
                let taken = bench.now() - begun;
                times.borrow_mut().push(taken.as_secs_f64());
            }
            Ok(())
        });
        let done: Result<Vec<()>> = join_all(workers).await.into_iter().collect();
        done?;
        Ok(times.take())
    })
}

/// The commits that the peer makes within [`COUNTED`].
fn manifest_commits(seed: u64, at_once: usize) -> Result<usize> {
    let bench = Bench::new(seed, Pending::Bucket);
    bench.run(async {
        let count = Cell::new(0);
        let until = bench.now() + COUNTED;
        let clients = (0..CLIENTS).map(|number| {
            let cloud = bench.cloud(&format!("c{number}"));
            let manifest = OneObject::new(cloud.objects.clone(), cloud.runtime.clone());
            (cloud, manifest)
        });
        let clients: Vec<(Cloud, OneObject)> = clients.collect();
        let workers = (0..CLIENTS * at_once).map(async |number| {
            let (cloud, manifest) = &clients[number % CLIENTS];
            while bench.now() < until {
                let data = Path::from(format!("data/{:032x}", cloud.runtime.random_id()));
                cloud.objects.put(&data, VALUE.to_vec().into()).await?;
                manifest.send("manifest", &[data.to_string()]).await?;
                if bench.now() <= until {
                    count.set(count.get() + 1);
                }
            }
            Ok(())
        });
        let done: Result<Vec<()>> = join_all(workers).await.into_iter().collect();
        done?;
        Ok(count.get())
    })
}

/// The requests of a week in which nothing is written, with a client that stays open.
fn idle(seed: u64, pending: Pending) -> Result<f64> {
    let bench = Bench::new(seed, pending);
    bench.run(async {
        let database = bench.create().await?;
        commit(&database, Level::Atomic, "one").await?;
        bench.sleep(4 * INTERVAL).await;
        let before = bench.requests();
        bench.sleep(WEEK).await;
        Ok((bench.requests() - before) as f64)
    })
}

/// Checkpoint intervals until a record of a client is in its page; the client does nothing after
/// its commit.
fn silent(seed: u64, pending: Pending) -> Result<f64> {
    let bench = Bench::new(seed, pending);
    bench.run(async {
        let client = bench.create().await?;
        let reader = bench.open("reader").await?;
        commit(&client, Level::Atomic, "one").await?;
        let begun = bench.now();
        loop {
            let mut transaction = reader.begin(Level::Basic);
            if transaction.get(COLLECTION, b"one").await?.is_some() {
                break;
            }
            bench.sleep(Duration::from_millis(500)).await;
        }
        Ok((bench.now() - begun).as_secs_f64() / INTERVAL.as_secs_f64())
    })
}

/// What is measured on each seed, with its target.
const FIGURES: [Figure; 12] = [
    ("basic, SQS: commit of 64 clients / one's", "", ONE_AS_MANY),
    ("atomic, SQS: commit of 64 clients / one's", "", ONE_AS_MANY),
    (
        "basic, bucket: commit of 64 clients / one's",
        "",
        ONE_AS_MANY,
    ),
    (
        "atomic, bucket: commit of 64 clients / one's",
        "",
        ONE_AS_MANY,
    ),
    ("atomic, SQS: commit / one request", "", ONE_TRIP),
    ("atomic, bucket: commit / one PUT", "", ONE_TRIP),
    ("64 clients, basic: commits / one manifest's", "", FACTOR),
    ("in groups of 8 transactions", "", FACTOR),
    ("idle week, SQS: requests", "", NOTHING),
    ("idle week, bucket: requests", "", NOTHING),
    ("silent client, SQS: intervals", "", INTERVALS),
    ("silent client, bucket: intervals", "", INTERVALS),
];
const ONE_AS_MANY: Target = Target::AtMost(1.2);
const ONE_TRIP: Target = Target::AtMost(1.0);
const FACTOR: Target = Target::AtLeast(20.0);
const NOTHING: Target = Target::AtMost(0.0);
const INTERVALS: Target = Target::AtMost(2.0);

/// The figures of one seed, in the order of [`FIGURES`].
fn figures(seed: u64) -> Result<[f64; 12]> {
    let time = |pending, level, clients| -> Result<f64> {
        let load = Load {
            pending,
            level,
            clients,
            at_once: 1,
            span: TIMED,
        };
        Ok(median(&commits(seed, load)?))
    };
    let mut of_levels = Vec::new();
    for pending in [Pending::Service, Pending::Bucket] {
        for level in [Level::Basic, Level::Atomic] {
            let one = time(pending, level, 1)?;
            of_levels.push((one, time(pending, level, CLIENTS)? / one));
        }
    }
    let [basic_sqs, atomic_sqs, basic_bucket, atomic_bucket] = of_levels[..] else {
        unreachable!("two levels on two kinds of queues");
    };
    let factor = |at_once| -> Result<f64> {
        let load = Load {
            pending: Pending::Bucket,
            level: Level::Basic,
            clients: CLIENTS,
            at_once,
            span: COUNTED,
        };
        let own = commits(seed, load)?;
        Ok(own.len() as f64 / manifest_commits(seed, at_once)? as f64)
    };
    Ok([
        basic_sqs.1,
        atomic_sqs.1,
        basic_bucket.1,
        atomic_bucket.1,
        atomic_sqs.0 / QUEUE.as_secs_f64(),
        atomic_bucket.0 / PUT.as_secs_f64(),
        factor(1)?,
        factor(GROUP)?,
        idle(seed, Pending::Service)?,
        idle(seed, Pending::Bucket)?,
        silent(seed, Pending::Service)?,
        silent(seed, Pending::Bucket)?,
    ])
}

pub(crate) fn run(options: &Options) -> Result<bool> {
    let (_scratch, machine) = Machine::begin(&options.scratch)?;
    let findings = of_seeds(options, FIGURES, |seed| {
        println!("seed {seed}, in virtual time");
        figures(seed).with_context(|| format!("seed {seed}"))
    })?;
    let report = Report {
        benchmark: "database",
        machine,
        sides: Vec::new(),
        findings,
        notes: vec![
            "Virtual time: GET 25, PUT and DELETE 30, LIST 25, a request of SQS 10 ms.".to_owned(),
        ],
    };
    report.finish(options.json.as_deref(), options.quick)
}
