//! Queues and domains in a bucket, in virtual time: a GET takes 25 ms, a PUT or DELETE 30, a LIST
//! 25, and nothing fails. Requests are counted by the model's meter.
//!
//! The peer of queues is one object that holds all messages, changed by compare-and-swap with group
//! commit; that of domains is one PUT after another.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow};
use fader_cloud::bucket::{BucketDomains, BucketQueues};
use fader_cloud::model::{Call, ETags, Latency, Model, ObjectProfile, Profile, Skew};
use fader_cloud::{
    AttributePut, Domains, ItemPut, QueueSettings, Queues, Receipt, Receive, Runtime,
};
use fader_measure::median;
use futures_util::future::join_all;
use object_store::ObjectStore;
use object_store::path::Path;

use crate::Options;
use crate::one_object::OneObject;
use crate::report::{Figure, Finding, Target, of_seeds};

/// How long throughput is measured.
const SPAN: Duration = Duration::from_secs(20);
const PUT: Duration = Duration::from_millis(30);
/// Processes that send and receive.
const PROCESSES: usize = 64;
const BATCH: usize = 10;

fn profile(seed: u64) -> Profile {
    let call = |ms| Call {
        latency: Latency::Constant(Duration::from_millis(ms)),
        ..Call::default()
    };
    Profile {
        seed,
        objects: ObjectProfile {
            get: call(25),
            put: call(30),
            delete: call(30),
            list: call(25),
            e_tags: ETags::OfWrites,
            ..ObjectProfile::default()
        },
        ..Profile::default()
    }
}

/// A bucket in virtual time.
struct Bench {
    model: Model,
}

impl Bench {
    fn new(seed: u64) -> Self {
        Bench {
            model: Model::new(profile(seed)),
        }
    }

    fn process(&self, name: &str) -> (Arc<dyn ObjectStore>, Runtime) {
        let process = self.model.executor.process(name, Skew::default());
        (self.model.cloud(&process).objects, process.runtime())
    }

    fn queues(&self, name: &str) -> BucketQueues {
        let (objects, runtime) = self.process(name);
        BucketQueues::new(objects, Path::default(), runtime)
    }

    fn domains(&self, name: &str) -> BucketDomains {
        let (objects, runtime) = self.process(name);
        BucketDomains::new(objects, Path::default(), runtime)
    }

    fn run<T>(&self, future: impl Future<Output = T>) -> T {
        self.model.executor.run(future)
    }

    fn now(&self) -> Duration {
        self.model.executor.now()
    }

    async fn sleep(&self, time: Duration) {
        self.model
            .executor
            .harness()
            .runtime()
            .clock
            .sleep(time)
            .await;
    }

    fn requests(&self) -> u64 {
        self.model.meter.usage().requests()
    }

    async fn queue(&self) -> Result<BucketQueues> {
        let queues = self.queues("creator");
        queues.create("q", &QueueSettings::default()).await?;
        Ok(queues)
    }
}

fn bodies(count: usize) -> Vec<String> {
    vec!["message".to_owned(); count]
}

fn receive_of(visibility: u64, wait: u64) -> Receive {
    Receive {
        max: BATCH,
        visibility: Some(Duration::from_secs(visibility)),
        wait: Duration::from_secs(wait),
    }
}

/// Receives a batch, and removes it; the ids of its messages.
async fn take(queues: &dyn Queues, visibility: u64, wait: u64) -> Result<Vec<String>> {
    let found = queues.receive("q", &receive_of(visibility, wait)).await?;
    let receipts: Vec<Receipt> = found.iter().map(|one| one.receipt.clone()).collect();
    if !receipts.is_empty() {
        for removed in queues.remove("q", &receipts).await? {
            removed?;
        }
    }
    Ok(found.into_iter().map(|one| one.id).collect())
}

/// The requests of a batch that is sent, received and removed.
fn batch(seed: u64, visibility: u64) -> Result<f64> {
    let bench = Bench::new(seed);
    bench.run(async {
        let queues = bench.queue().await?;
        let before = bench.requests();
        queues.send("q", &bodies(BATCH)).await?;
        let taken = take(&queues, visibility, 0).await?;
        bench.sleep(SPAN).await;
        match taken.len() {
            BATCH => Ok((bench.requests() - before) as f64),
            other => Err(anyhow!("{other} of {BATCH} messages")),
        }
    })
}

/// The requests of 100 messages for ten receives that wait.
fn hundred(seed: u64) -> Result<f64> {
    let bench = Bench::new(seed);
    bench.run(async {
        let queues = bench.queue().await?;
        let receives = join_all((0..BATCH).map(|_| take(&queues, 30, 20)));
        let sends = async {
            bench.sleep(Duration::from_millis(2600)).await;
            let before = bench.requests();
            let batch = bodies(BATCH);
            join_all((0..BATCH).map(|_| queues.send("q", &batch))).await;
            before
        };
        let (taken, before) = futures_util::future::join(receives, sends).await;
        let taken: Vec<Vec<String>> = taken.into_iter().collect::<Result<_>>()?;
        bench.sleep(SPAN).await;
        match taken.iter().map(Vec::len).sum::<usize>() {
            100 => Ok((bench.requests() - before) as f64),
            other => Err(anyhow!("{other} of 100 messages")),
        }
    })
}

/// The requests of a day without calls, and of a receive that waits for 20 s in vain.
fn idle(seed: u64) -> Result<(f64, f64)> {
    let bench = Bench::new(seed);
    bench.run(async {
        let queues = bench.queue().await?;
        queues.send("q", &bodies(BATCH)).await?;
        take(&queues, 30, 0).await?;
        bench.sleep(SPAN).await;
        let before = bench.requests();
        bench.sleep(Duration::from_secs(86_400)).await;
        let day = bench.requests() - before;
        // The settings are read again after a day.
        queues.counts("q").await?;
        let before = bench.requests();
        take(&queues, 30, 20).await?;
        Ok((day as f64, (bench.requests() - before) as f64))
    })
}

/// The median time of a send by so many processes at once.
fn send_time(seed: u64, processes: usize) -> Result<f64> {
    let bench = Bench::new(seed);
    let times = bench.run(async {
        bench.queue().await?;
        let senders = (0..processes).map(|number| {
            let (queues, bench) = (bench.queues(&format!("p{number}")), &bench);
            async move {
                let mut times = Vec::new();
                queues.counts("q").await?;
                for _ in 0..20 {
                    let began = bench.now();
                    queues.send("q", &bodies(1)).await?;
                    times.push((bench.now() - began).as_secs_f64());
                }
                Ok(times)
            }
        });
        join_all(senders)
            .await
            .into_iter()
            .collect::<Result<Vec<_>>>()
    })?;
    Ok(median(&times.concat()))
}

/// Messages that processes, each of which sends and receives, take through a queue in a second,
/// and how many came twice.
fn exchange<Q: Queues>(bench: &Bench, of: impl Fn(&Bench, String) -> Q) -> Result<(f64, usize)> {
    let mut taken = bench.run(async {
        let until = bench.now() + SPAN;
        let of = &of;
        let workers = (0..PROCESSES).map(|number| async move {
            let queues = of(bench, format!("p{number}"));
            let mut taken = Vec::new();
            while bench.now() < until {
                queues.send("q", &bodies(BATCH)).await?;
                taken.extend(take(&queues, 600, 0).await?);
            }
            Ok(taken)
        });
        let taken = join_all(workers).await.into_iter();
        Ok::<_, anyhow::Error>(taken.collect::<Result<Vec<_>>>()?.concat())
    })?;
    let count = taken.len();
    taken.sort_unstable();
    taken.dedup();
    let rate = taken.len() as f64 / SPAN.as_secs_f64();
    Ok((rate, count - taken.len()))
}

/// Messages a second of consumers that drain four segments each, until the last is removed. A
/// receive in vain ends no message's way: it is how a consumer learns that none is left.
fn drain(seed: u64, consumers: usize) -> Result<f64> {
    let bench = Bench::new(seed);
    bench.run(async {
        let creator = bench.queue().await?;
        for _ in 0..4 * consumers {
            creator.send("q", &bodies(BATCH)).await?;
        }
        let all: Vec<BucketQueues> = (0..consumers)
            .map(|number| bench.queues(&format!("c{number}")))
            .collect();
        for queues in &all {
            queues.counts("q").await?;
        }
        let began = bench.now();
        let left = std::cell::Cell::new(4 * consumers * BATCH);
        let ended = std::cell::Cell::new(began);
        let drains = all.iter().map(|queues| async {
            while 0 < left.get() {
                let taken = take(queues, 600, 0).await?.len();
                left.set(left.get() - taken);
                if 0 < taken {
                    ended.set(bench.now());
                }
            }
            Ok(())
        });
        join_all(drains)
            .await
            .into_iter()
            .collect::<Result<Vec<()>>>()?;
        let time = (ended.get() - began).as_secs_f64();
        Ok((4 * consumers * BATCH) as f64 / time)
    })
}

async fn put(domains: &BucketDomains, item: usize) -> Result<()> {
    let attribute = AttributePut {
        name: "a".to_owned(),
        value: "1".to_owned(),
        replace: true,
    };
    let put = ItemPut {
        name: item.to_string(),
        attributes: vec![attribute],
    };
    Ok(domains.put("dom", &put, None).await?)
}

/// Writes of 64 writers in one process, as a multiple of one PUT for each.
fn writers(seed: u64) -> Result<f64> {
    let bench = Bench::new(seed);
    bench.run(async {
        let domains = bench.domains("one");
        domains.create("dom").await?;
        put(&domains, 0).await?;
        let began = bench.now();
        let writers = (0..64).map(|writer| {
            let domains = &domains;
            async move {
                for _ in 0..10 {
                    put(domains, writer).await?;
                }
                Ok(())
            }
        });
        join_all(writers)
            .await
            .into_iter()
            .collect::<Result<Vec<()>>>()?;
        Ok((PUT * 640).as_secs_f64() / (bench.now() - began).as_secs_f64())
    })
}

/// The longest write of 16 processes on one domain, as a multiple of the median.
fn fairness(seed: u64) -> Result<f64> {
    let bench = Bench::new(seed);
    let times = bench.run(async {
        bench.domains("creator").create("dom").await?;
        let writers = (0..16).map(|number| {
            let (domains, bench) = (bench.domains(&format!("p{number}")), &bench);
            async move {
                let mut times = Vec::new();
                while bench.now() < SPAN {
                    let began = bench.now();
                    put(&domains, number).await?;
                    times.push((bench.now() - began).as_secs_f64());
                }
                Ok(times)
            }
        });
        join_all(writers)
            .await
            .into_iter()
            .collect::<Result<Vec<_>>>()
    })?;
    let times = times.concat();
    Ok(times.iter().copied().fold(0.0, f64::max) / median(&times))
}

/// What is measured on each seed, with its unit and its target.
const FIGURES: [Figure; 11] = [
    ("batch of ten, requests", "", Target::AtMost(6.0)),
    ("as a peek, requests", "", Target::AtMost(4.0)),
    (
        "100 messages, ten receives, requests",
        "",
        Target::AtMost(8.0),
    ),
    ("idle day, requests", "", Target::AtMost(0.0)),
    ("empty wait of 20 s, requests", "", Target::AtMost(24.0)),
    (
        "send of 64 processes to one's, median",
        " x",
        Target::AtMost(1.1),
    ),
    ("64 processes to one object", " x", Target::AtLeast(20.0)),
    ("messages received twice", "", Target::AtMost(0.0)),
    ("32 consumers to 32 times one", " x", Target::AtLeast(0.8)),
    (
        "64 writers to one PUT per write",
        " x",
        Target::AtLeast(20.0),
    ),
    (
        "longest wait of 16 processes to the median",
        " x",
        Target::AtMost(20.0),
    ),
];

/// Runs everything on each seed.
pub(super) fn measure(options: &Options) -> Result<Vec<Finding>> {
    println!(
        "{} seeds in virtual time: GET 25, PUT 30, LIST 25 ms",
        options.runs()
    );
    of_seeds(options, FIGURES, |seed| {
        let (day, wait) = idle(seed)?;
        let bench = Bench::new(seed);
        bench.run(bench.queue())?;
        let (rate, twice) = exchange(&bench, |bench, name| bench.queues(&name))?;
        let bench = Bench::new(seed);
        let (peer, _) = exchange(&bench, |bench, name| {
            let (objects, runtime) = bench.process(&name);
            OneObject::new(objects, runtime)
        })?;
        Ok([
            batch(seed, 30)?,
            batch(seed, 0)?,
            hundred(seed)?,
            day,
            wait,
            send_time(seed, PROCESSES)? / send_time(seed, 1)?,
            rate / peer,
            twice as f64,
            drain(seed, 32)? / drain(seed, 1)? / 32.0,
            writers(seed)?,
            fairness(seed)?,
        ])
    })
}
