//! A queue of a million messages: what it costs in memory, receives and starts; and what a large
//! message costs in the log.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use fader_client::Sqs;
use fader_cloud::{QueueSettings, Queues, Receive};
use fader_measure::{Interval, median, ratio_of_medians};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use super::{BATCH, CONSUMERS, PRODUCERS, bodies, finding, receive, subject};
use crate::Options;
use crate::report::{Finding, Target};
use crate::server::Server;

const MESSAGES: u64 = 1_000_000;
const QUICK_MESSAGES: u64 = 2_000;
const SHALLOW: u64 = 100;
const DEEP_QUEUE: &str = "deep";
const SHALLOW_QUEUE: &str = "shallow";
const MEGABYTE: f64 = 1e6;
const RESIDENT_MB_MAX: f64 = 200.0;
/// Large messages that are received and deleted.
const LARGE: usize = 20;
const LARGE_BYTES: usize = 100_000;
const LARGE_LOG_BYTES_MAX: f64 = 1_024.0;
/// Messages between two lines of progress.
const PROGRESS: u64 = 100_000;

/// What the depth of a queue costs.
pub(super) struct Depth {
    messages: u64,
    resident: u64,
    /// Messages received a second, of all rounds.
    deep: Vec<f64>,
    shallow: Vec<f64>,
    deep_start: Duration,
    empty_start: Duration,
    log_bytes: (u64, u64),
    /// Bytes of log of each large message.
    large: Vec<f64>,
}

/// Measures on servers of its own, one after the other.
pub(super) fn measure(options: &Options, scratch: &Path, runtime: &Runtime) -> Result<Depth> {
    let messages = if options.quick {
        QUICK_MESSAGES
    } else {
        MESSAGES
    };
    let data = scratch.join("deep");
    let server = Server::fader(&options.fader, &data)?;
    let queues = client_of(&server)?;
    let large = runtime.block_on(large(&server, &queues))?;
    runtime.block_on(fill(&queues, DEEP_QUEUE, messages))?;
    let resident = server.resident()?;
    let written = server.metric("fader_log_bytes_total")?;
    let deep_bytes = server.metric("fader_log_disk_bytes")?;
    server.crash()?;
    let server = Server::fader(&options.fader, &data)?;
    let deep_start = server.start_time;
    let queues = client_of(&server)?;
    let counts = runtime.block_on(queues.counts(DEEP_QUEUE))?;
    ensure!(
        counts.visible == messages,
        "{} of {messages} messages are there after kill -9",
        counts.visible
    );
    runtime.block_on(fill(&queues, SHALLOW_QUEUE, SHALLOW))?;
    let (mut deep, mut shallow) = (Vec::new(), Vec::new());
    for _ in 0..options.runs() {
        for (queue, rates) in [(DEEP_QUEUE, &mut deep), (SHALLOW_QUEUE, &mut shallow)] {
            rates.push(runtime.block_on(receives(&queues, queue, options.seconds()))?);
        }
    }
    drop(server);
    let (empty_start, empty_bytes) = empty(options, &scratch.join("empty"), written, runtime)?;
    Ok(Depth {
        messages,
        resident,
        deep,
        shallow,
        deep_start,
        empty_start,
        log_bytes: (deep_bytes, empty_bytes),
        large,
    })
}

impl Depth {
    pub(super) fn findings(&self, seed: u64) -> Vec<Finding> {
        let single = |value: f64| Interval {
            estimate: value,
            low: value,
            high: value,
        };
        let starts = self.deep_start.as_secs_f64() / self.empty_start.as_secs_f64();
        let messages = self.messages;
        vec![
            Finding {
                unit: " MB",
                ..finding(
                    &format!("{messages} messages of 1 KB: resident"),
                    single(self.resident as f64 / MEGABYTE),
                    Target::AtMost(RESIDENT_MB_MAX),
                )
            },
            finding(
                &format!("{messages} messages / {SHALLOW}: messages received a second"),
                ratio_of_medians(&self.deep, &self.shallow, seed),
                Target::AtLeast(0.8),
            ),
            finding(
                &format!("{messages} messages / none, equal log: start after kill -9"),
                single(starts),
                Target::AtMost(1.5),
            ),
            Finding {
                unit: " B",
                ..finding(
                    "receive and delete of 100 KB: log",
                    single(median(&self.large)),
                    Target::AtMost(LARGE_LOG_BYTES_MAX),
                )
            },
        ]
    }

    pub(super) fn note(&self) -> String {
        format!(
            "{} messages: the start after kill -9 took {:.2} s with {} MiB of log on the disk; \
             without a message {:.2} s with {} MiB. Received a second: {:.0}, of {SHALLOW}: {:.0}. \
             Memory, starts and log are single figures.",
            self.messages,
            self.deep_start.as_secs_f64(),
            self.log_bytes.0 >> 20,
            self.empty_start.as_secs_f64(),
            self.log_bytes.1 >> 20,
            median(&self.deep),
            median(&self.shallow),
        )
    }
}

fn client_of(server: &Server) -> Result<Arc<Sqs>> {
    let address = format!("http://{}", server.target().address);
    Ok(subject("fader", &address)?.queues)
}

/// Puts so many messages into a new queue.
async fn fill(queues: &Arc<Sqs>, name: &'static str, count: u64) -> Result<()> {
    queues.create(name, &QueueSettings::default()).await?;
    let next = Arc::new(AtomicU64::new(0));
    let mut producers: JoinSet<Result<()>> = JoinSet::new();
    for _ in 0..PRODUCERS {
        let (queues, next) = (Arc::clone(queues), Arc::clone(&next));
        producers.spawn(async move {
            loop {
                let first = next.fetch_add(BATCH as u64, Ordering::Relaxed);
                if count <= first {
                    return Ok(());
                }
                if first % PROGRESS == 0 && first != 0 {
                    eprintln!("sent {first} of {count} messages");
                }
                let size = (count - first).min(BATCH as u64);
                for sent in queues.send(name, &bodies(size as usize)).await? {
                    sent?;
                }
            }
        });
    }
    while let Some(ended) = producers.join_next().await {
        ended.context("a producer panicked")??;
    }
    Ok(())
}

/// Messages received a second. They are shown again at once, so that the depth stays.
async fn receives(queues: &Arc<Sqs>, name: &'static str, time: Duration) -> Result<f64> {
    let until = Instant::now() + time;
    let begin = Instant::now();
    let mut consumers: JoinSet<Result<usize>> = JoinSet::new();
    for _ in 0..CONSUMERS {
        let queues = Arc::clone(queues);
        consumers.spawn(async move {
            let how = Receive {
                visibility: Some(Duration::ZERO),
                ..receive(BATCH, Duration::ZERO)
            };
            let mut count = 0;
            while Instant::now() < until {
                count += queues.receive(name, &how).await?.len();
            }
            Ok(count)
        });
    }
    let mut count = 0;
    while let Some(one) = consumers.join_next().await {
        count += one.context("a consumer panicked")??;
    }
    ensure!(0 < count, "no message was received");
    Ok(count as f64 / begin.elapsed().as_secs_f64())
}

/// Bytes of log of receive and delete, of each large message.
async fn large(server: &Server, queues: &Arc<Sqs>) -> Result<Vec<f64>> {
    let name = "large";
    queues.create(name, &QueueSettings::default()).await?;
    for _ in 0..LARGE {
        for sent in queues.send(name, &["x".repeat(LARGE_BYTES)]).await? {
            sent?;
        }
    }
    let mut bytes = Vec::new();
    for _ in 0..LARGE {
        let before = server.metric("fader_log_bytes_total")?;
        let received = queues.receive(name, &receive(1, Duration::ZERO)).await?;
        let message = received.into_iter().next().context("it is there")?;
        ensure!(message.body.len() == LARGE_BYTES, "it is whole");
        for removed in queues.remove(name, &[message.receipt]).await? {
            removed?;
        }
        bytes.push((server.metric("fader_log_bytes_total")? - before) as f64);
    }
    queues.delete(name).await?;
    Ok(bytes)
}

/// The start after kill -9 of a server with an empty queue into whose log as much was written. Also
/// the bytes of log on the disk.
fn empty(
    options: &Options,
    data: &Path,
    written: u64,
    runtime: &Runtime,
) -> Result<(Duration, u64)> {
    let server = Server::fader(&options.fader, data)?;
    let queues = client_of(&server)?;
    runtime.block_on(queues.create(DEEP_QUEUE, &QueueSettings::default()))?;
    while server.metric("fader_log_bytes_total")? < written {
        runtime.block_on(pass_through(&queues))?;
    }
    let log_bytes = server.metric("fader_log_disk_bytes")?;
    server.crash()?;
    let server = Server::fader(&options.fader, data)?;
    let counts = runtime.block_on(client_of(&server)?.counts(DEEP_QUEUE))?;
    ensure!(counts.visible == 0, "the queue is empty");
    Ok((server.start_time, log_bytes))
}

/// Messages that are sent, received and deleted, a few thousand.
async fn pass_through(queues: &Arc<Sqs>) -> Result<()> {
    const TURNS: usize = 10;
    let mut clients: JoinSet<Result<()>> = JoinSet::new();
    for _ in 0..PRODUCERS {
        let queues = Arc::clone(queues);
        clients.spawn(async move {
            for _ in 0..TURNS {
                for sent in queues.send(DEEP_QUEUE, &bodies(BATCH)).await? {
                    sent?;
                }
                // Others may have taken some of them: each takes as many as it sent.
                let mut left = BATCH;
                while 0 < left {
                    let how = receive(left, Duration::from_secs(1));
                    let messages = queues.receive(DEEP_QUEUE, &how).await?;
                    left -= messages.len();
                    let receipts: Vec<_> = messages.into_iter().map(|it| it.receipt).collect();
                    if receipts.is_empty() {
                        continue;
                    }
                    for removed in queues.remove(DEEP_QUEUE, &receipts).await? {
                        removed?;
                    }
                }
            }
            Ok(())
        });
    }
    while let Some(ended) = clients.join_next().await {
        ended.context("a client panicked")??;
    }
    Ok(())
}
