//! Queues of Fader beside those of ElasticMQ, which are in memory: producers and consumers of the
//! same generator, which signs for both.
//!
//! | finding | what is counted |
//! |---|---|
//! | messages | sent, received and deleted, by 16 producers and 16 consumers |
//! | in batches | the same, ten messages a request |
//! | long poll | from the start of a send to the answer of the receive that waits |
//! | FIFO | messages of 1,000 groups, one a request, against a standard queue |
//! | parked | sends to a queue at which 1,000 receives wait, against one; and that serve them |
//! | depth | a queue of 1,000,000 messages: memory, receives, and the start after kill -9 |
//! | log | what receive and delete of a message of 100 KB write |
//!
//! What SimpleDB pays for queues beside it is counted by `bench one-node`.

mod depth;
mod parked;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use clap::{Args, ValueEnum};
use fader_client::{Credentials, Http, Pacing, Settings, Sqs};
use fader_cloud::{QueueSettings, Queues, Receive};
use fader_measure::{Interval, median, ratio_of_medians};
use rand::{SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::machine::Machine;
use crate::report::{Finding, Report, Side, Target};
use crate::server::Server;

const PRODUCERS: usize = 16;
const CONSUMERS: usize = 16;
const BODY_BYTES: usize = 1_000;
const BATCH: usize = 10;
/// Messages that are there at most: producers wait for consumers then.
const AHEAD_MAX: i64 = 2_000;
const POLLS: usize = 50;
/// Groups of the FIFO queue.
const GROUPS: u64 = 1_000;

/// What it takes beside what all benchmarks do.
#[derive(Args)]
#[group(id = "queues")]
pub(crate) struct Options {
    #[command(flatten)]
    common: crate::Options,
    /// The address of an ElasticMQ that runs already; without it that comparison is left out.
    #[arg(long)]
    elasticmq: Option<String>,
    /// A part alone.
    #[arg(long)]
    only: Option<Part>,
}

/// A part of it.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Messages through standard queues, one a request and ten.
    Flow,
}

/// One server, and what it did in each round.
struct Subject {
    name: &'static str,
    queues: Arc<Sqs>,
    single: Vec<f64>,
    batches: Vec<f64>,
    /// Of Fader alone.
    fifo: Vec<f64>,
}

/// How messages are sent and received.
#[derive(Clone, Copy)]
enum Manner {
    /// So many in each request.
    Standard(usize),
    /// One in each request, to a FIFO queue.
    Fifo,
}

impl Manner {
    fn size(self) -> usize {
        match self {
            Manner::Standard(size) => size,
            Manner::Fifo => 1,
        }
    }
}

pub(crate) fn run(options: &Options) -> Result<bool> {
    let common = &options.common;
    let is_whole = options.only != Some(Part::Flow);
    let (scratch, machine) = Machine::begin(&common.scratch)?;
    let server = Server::fader(&common.fader, &scratch.path().join("data"))?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(common.threads.max(1) as usize)
        .enable_all()
        .build()?;
    let mut subjects = vec![subject(
        "fader",
        &format!("http://{}", server.target().address),
    )?];
    if let Some(address) = &options.elasticmq {
        subjects.push(subject("ElasticMQ", address)?);
    }
    let mut random = ChaCha8Rng::seed_from_u64(common.seed);
    for number in 0..common.runs() {
        let mut order: Vec<usize> = (0..subjects.len()).collect();
        order.shuffle(&mut random);
        for at in order {
            let it = &mut subjects[at];
            let manners = [
                (Manner::Standard(1), &mut it.single),
                (Manner::Standard(BATCH), &mut it.batches),
                (Manner::Fifo, &mut it.fifo),
            ];
            // The comparison between servers is of standard queues.
            let count = if at == 0 && is_whole { 3 } else { 2 };
            for (manner, rates) in manners.into_iter().take(count) {
                let rate = flow(&it.queues, number, manner, common.seconds());
                rates.push(runtime.block_on(rate)?);
            }
        }
    }
    let fader = Arc::clone(&subjects[0].queues);
    let mut findings = flow_findings(&subjects, common.seed);
    let mut notes = Vec::new();
    if is_whole {
        let (lone, poll) = runtime.block_on(polls(&fader))?;
        let parked = runtime.block_on(parked::measure(&fader, common))?;
        findings.extend(own_findings(&subjects[0], &lone, &poll, common.seed));
        findings.extend(parked.findings(common.seed));
        notes.push(format!(
            "a lone durable send {:.2} ms, an answer of a long poll {:.2} ms",
            median(&lone) * 1e3,
            median(&poll) * 1e3,
        ));
        notes.push(parked.note());
    }
    ensure!(server.stop()?.success(), "the server did not end in peace");
    if is_whole {
        let depth = depth::measure(common, scratch.path(), &runtime)?;
        findings.extend(depth.findings(common.seed));
        notes.push(depth.note());
    }
    let report = Report {
        benchmark: "sqs",
        machine,
        sides: subjects.iter().flat_map(sides).collect(),
        findings,
        notes,
    };
    report.finish(common.json.as_deref(), common.quick)
}

fn subject(name: &'static str, address: &str) -> Result<Subject> {
    let (key, secret) = Server::credentials();
    let settings = Settings {
        connections_max: parked::MANY + 2 * PRODUCERS,
        pace: Pacing::Bare,
        ..Settings::default()
    };
    let http = Http::here(fader_window::Settings::default());
    let credentials = Credentials::new(key, secret);
    let queues = Sqs::on(http, address, Some(&credentials), &settings)?;
    Ok(Subject {
        name,
        queues: Arc::new(queues),
        single: Vec::new(),
        batches: Vec::new(),
        fifo: Vec::new(),
    })
}

fn receive(max: usize, wait: Duration) -> Receive {
    Receive {
        max,
        visibility: None,
        wait,
    }
}

fn bodies(count: usize) -> Vec<String> {
    vec!["x".repeat(BODY_BYTES); count]
}

/// Sends messages to a FIFO queue, one of each of these numbers, which are given once.
async fn send_in_order(queues: &Sqs, name: &str, number: u64) -> Result<()> {
    let url = queues.queue_url(name).await?;
    let [body] = <[String; 1]>::try_from(bodies(1)).expect("one was asked for");
    let message = json!({
        "QueueUrl": url,
        "MessageBody": body,
        "MessageGroupId": (number % GROUPS).to_string(),
        "MessageDeduplicationId": number.to_string(),
    });
    queues.call("SendMessage", true, &message).await?;
    Ok(())
}

/// Creates a queue of any attributes.
async fn create(queues: &Sqs, name: &str, attributes: &[(&str, &str)]) -> Result<()> {
    let attributes: std::collections::BTreeMap<_, _> = attributes.iter().copied().collect();
    let body = json!({ "QueueName": name, "Attributes": attributes });
    queues.create_as(&body, None).await?;
    Ok(())
}

/// Messages a second that are sent, received and deleted.
async fn flow(queues: &Arc<Sqs>, round: usize, manner: Manner, time: Duration) -> Result<f64> {
    let size = manner.size();
    let name = match manner {
        Manner::Standard(_) => format!("bench-{round}-{size}"),
        Manner::Fifo => format!("bench-{round}.fifo"),
    };
    match manner {
        Manner::Standard(_) => queues.create(&name, &QueueSettings::default()).await?,
        Manner::Fifo => create(queues, &name, &[("FifoQueue", "true")]).await?,
    }
    let (ahead, done) = (Arc::new(AtomicI64::new(0)), Arc::new(AtomicU64::new(0)));
    let numbers = Arc::new(AtomicU64::new(0));
    let until = Instant::now() + time;
    let mut clients: JoinSet<Result<()>> = JoinSet::new();
    for _ in 0..PRODUCERS {
        let (queues, ahead, name) = (Arc::clone(queues), Arc::clone(&ahead), name.clone());
        let numbers = Arc::clone(&numbers);
        clients.spawn(async move {
            while Instant::now() < until {
                if AHEAD_MAX < ahead.load(Ordering::Relaxed) {
                    sleep(Duration::from_millis(1)).await;
                    continue;
                }
                match manner {
                    Manner::Standard(_) => {
                        for sent in queues.send(&name, &bodies(size)).await? {
                            sent?;
                        }
                    }
                    Manner::Fifo => {
                        let number = numbers.fetch_add(1, Ordering::Relaxed);
                        send_in_order(&queues, &name, number).await?;
                    }
                }
                ahead.fetch_add(size as i64, Ordering::Relaxed);
            }
            Ok(())
        });
    }
    for _ in 0..CONSUMERS {
        let (queues, ahead, name) = (Arc::clone(queues), Arc::clone(&ahead), name.clone());
        let done = Arc::clone(&done);
        clients.spawn(async move {
            while Instant::now() < until {
                let how = receive(size, Duration::from_secs(1));
                let messages = queues.receive(&name, &how).await?;
                if messages.is_empty() {
                    continue;
                }
                let receipts: Vec<_> = messages.into_iter().map(|it| it.receipt).collect();
                for removed in queues.remove(&name, &receipts).await? {
                    removed?;
                }
                ahead.fetch_sub(receipts.len() as i64, Ordering::Relaxed);
                done.fetch_add(receipts.len() as u64, Ordering::Relaxed);
            }
            Ok(())
        });
    }
    let begin = Instant::now();
    while let Some(ended) = clients.join_next().await {
        ended.context("a client panicked")??;
    }
    queues.delete(&name).await?;
    let done = done.load(Ordering::Relaxed);
    ensure!(0 < done, "no message was received");
    Ok(done as f64 / begin.elapsed().min(time).as_secs_f64())
}

/// Seconds of lone sends, and from the start of a send to the answer of the receive that waits.
async fn polls(queues: &Arc<Sqs>) -> Result<(Vec<f64>, Vec<f64>)> {
    let name = "polls";
    queues.create(name, &QueueSettings::default()).await?;
    let (mut lone, mut answered) = (Vec::new(), Vec::new());
    for _ in 0..POLLS {
        let waits = {
            let queues = Arc::clone(queues);
            tokio::spawn(async move {
                let how = receive(1, Duration::from_secs(20));
                let messages = queues.receive(name, &how).await?;
                let at = Instant::now();
                let message = messages.into_iter().next();
                let message = message.ok_or_else(|| anyhow!("the poll ended empty"))?;
                queues.remove(name, &[message.receipt]).await?;
                anyhow::Ok(at)
            })
        };
        sleep(Duration::from_millis(50)).await;
        let begin = Instant::now();
        queues.send(name, &bodies(1)).await?;
        answered.push((waits.await.context("the poll panicked")?? - begin).as_secs_f64());
    }
    let other = "lone";
    queues.create(other, &QueueSettings::default()).await?;
    for _ in 0..POLLS {
        let begin = Instant::now();
        queues.send(other, &bodies(1)).await?;
        lone.push(begin.elapsed().as_secs_f64());
        sleep(Duration::from_millis(5)).await;
    }
    Ok((lone, answered))
}

fn sides(subject: &Subject) -> Vec<Side> {
    let side = |what: &str, rates: &[f64]| Side {
        name: format!("{}: messages a second, {what}", subject.name),
        rate: median(rates),
        p50_ms: f64::NAN,
        p99_ms: f64::NAN,
        server_us: f64::NAN,
        rates: rates.to_vec(),
    };
    let mut sides = vec![
        side("one a request", &subject.single),
        side("ten a request", &subject.batches),
    ];
    if !subject.fifo.is_empty() {
        sides.push(side("one a request, FIFO", &subject.fifo));
    }
    sides
}

fn finding(name: &str, interval: Interval, target: Target) -> Finding {
    Finding {
        name: name.to_owned(),
        interval,
        unit: "",
        target,
    }
}

/// What Fader's queues come to beside each other.
fn own_findings(fader: &Subject, lone: &[f64], poll: &[f64], seed: u64) -> [Finding; 2] {
    [
        finding(
            "long poll / lone send: time",
            ratio_of_medians(poll, lone, seed),
            Target::AtMost(2.5),
        ),
        finding(
            "FIFO, 1,000 groups / standard: messages a second",
            ratio_of_medians(&fader.fifo, &fader.single, seed),
            Target::AtLeast(0.5),
        ),
    ]
}

/// What they come to beside ElasticMQ's, if that takes part.
fn flow_findings(subjects: &[Subject], seed: u64) -> Vec<Finding> {
    let [fader, elasticmq] = subjects else {
        return Vec::new();
    };
    vec![
        finding(
            "fader / ElasticMQ: messages a second",
            ratio_of_medians(&fader.single, &elasticmq.single, seed),
            Target::AtLeast(3.0),
        ),
        finding(
            "fader / ElasticMQ: in batches of ten",
            ratio_of_medians(&fader.batches, &elasticmq.batches, seed),
            Target::AtLeast(5.0),
        ),
    ]
}
