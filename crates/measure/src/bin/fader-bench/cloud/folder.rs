//! Durable sends of 1 KB to a queue in a folder, and puts of as much. They run beside the bare loop
//! that any durable send is made of: write a file, sync it, rename it, sync the folder.
//!
//! Senders are tasks of one process: those that wait share the next segment. A put creates an
//! object under a new key (create-if-absent). All sides write to one file system, interleaved in
//! shuffled rounds.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use fader_client::Folder;
use fader_cloud::{QueueSettings, Queues};
use fader_measure::{Interval, median, ratio_of_medians};
use object_store::path::Path as Key;
use object_store::{ObjectStore, PutMode, PutOptions};
use rand::{SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;
use tokio::task::JoinSet;

use crate::Options;
use crate::report::{Finding, Side, Target};

/// Octets of each send.
const SEND_BYTES: usize = 1_024;
/// Senders at once.
const SENDERS: usize = 64;
/// Where they send to.
const QUEUE: &str = "work";

/// What was measured.
pub(super) struct Measured {
    pub(super) sides: Vec<Side>,
    pub(super) findings: Vec<Finding>,
    pub(super) notes: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Bare,
    OneSender,
    ManySenders,
    OnePutter,
    ManyPutters,
}

impl Who {
    const ALL: [Who; 5] = [
        Who::Bare,
        Who::OneSender,
        Who::ManySenders,
        Who::OnePutter,
        Who::ManyPutters,
    ];

    fn name(self) -> &'static str {
        match self {
            Who::Bare => "write, fsync, rename, fsync",
            Who::OneSender => "send, 1 sender",
            Who::ManySenders => "send, 64 senders",
            Who::OnePutter => "put, 1 at a time",
            Who::ManyPutters => "put, 64 at a time",
        }
    }
}

/// What one side did in one round.
struct Round {
    who: Who,
    rate: f64,
    p50_ms: f64,
    p99_ms: f64,
}

pub(super) fn measure(options: &Options, scratch: &Path) -> Result<Measured> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let mut random = ChaCha8Rng::seed_from_u64(options.seed);
    let mut rounds = Vec::new();
    for number in 0..options.runs() {
        let mut order = Who::ALL;
        order.shuffle(&mut random);
        for who in order {
            let at = scratch.join(format!("{number}-{who:?}"));
            fs::create_dir(&at).context("cannot make a folder")?;
            let time = options.seconds();
            let (time, latencies) = match who {
                Who::Bare => bare(&at, time)?,
                Who::OneSender => runtime.block_on(send(&at, 1, time))?,
                Who::ManySenders => runtime.block_on(send(&at, SENDERS, time))?,
                Who::OnePutter => runtime.block_on(put(&at, 1, time))?,
                Who::ManyPutters => runtime.block_on(put(&at, SENDERS, time))?,
            };
            rounds.push(Round::new(who, time, latencies)?);
        }
    }
    let sides = Who::ALL.map(|who| side(&rounds, who));
    Ok(Measured {
        sides: sides.into(),
        findings: findings(&rounds, options.seed),
        notes: vec![format!(
            "Each send and each put: {SEND_BYTES} octets, durable when it is answered."
        )],
    })
}

impl Round {
    fn new(who: Who, time: Duration, mut latencies: Vec<Duration>) -> Result<Round> {
        latencies.sort_unstable();
        let last = latencies.len().checked_sub(1).context("nothing was sent")?;
        let quantile = |share: f64| latencies[(share * last as f64) as usize].as_secs_f64() * 1e3;
        Ok(Round {
            who,
            rate: latencies.len() as f64 / time.as_secs_f64(),
            p50_ms: quantile(0.5),
            p99_ms: quantile(0.99),
        })
    }
}

/// How long a side ran, and how long each of its sends took.
type Sent = (Duration, Vec<Duration>);

/// The loop that nothing durable can do without.
fn bare(at: &Path, time: Duration) -> Result<Sent> {
    let body = [b'x'; SEND_BYTES];
    let (folder, staged) = (File::open(at)?, at.join("staged"));
    let mut latencies = Vec::new();
    let start = Instant::now();
    while start.elapsed() < time {
        let begin = Instant::now();
        let mut file = File::create_new(&staged)?;
        file.write_all(&body)?;
        file.sync_all()?;
        fs::rename(&staged, at.join(format!("{}", latencies.len())))?;
        folder.sync_all()?;
        latencies.push(begin.elapsed());
    }
    Ok((start.elapsed(), latencies))
}

/// Sends to one queue, as a process does that opened the folder by its URL.
async fn send(at: &Path, senders: usize, time: Duration) -> Result<Sent> {
    let url = format!("file://{}", at.display());
    let cloud = fader_client::open(&url, &fader_client::Options::default()).await?;
    cloud
        .queues
        .create(QUEUE, &QueueSettings::default())
        .await?;
    at_once(senders, time, move |_, _| {
        send_one(Arc::clone(&cloud.queues))
    })
    .await
}

async fn send_one(queues: Arc<dyn Queues>) -> Result<()> {
    let bodies = ["x".repeat(SEND_BYTES)];
    for sent in queues.send(QUEUE, &bodies).await? {
        sent?;
    }
    Ok(())
}

/// Puts of new keys.
async fn put(at: &Path, putters: usize, time: Duration) -> Result<Sent> {
    let folder = Arc::new(Folder::open(at)?);
    at_once(putters, time, move |putter, number| {
        put_one(Arc::clone(&folder), putter, number)
    })
    .await
}

async fn put_one(folder: Arc<Folder>, putter: usize, number: usize) -> Result<()> {
    let body = vec![b'x'; SEND_BYTES];
    let key = Key::from(format!("puts/{putter:02}-{number:08}"));
    let create = PutOptions::from(PutMode::Create);
    folder.put_opts(&key, body.into(), create).await?;
    Ok(())
}

/// Tasks that call one by one, each for that time. A call gets its task's number and its own.
async fn at_once<F>(
    tasks: usize,
    time: Duration,
    call: impl Fn(usize, usize) -> F + Clone + Send + 'static,
) -> Result<Sent>
where
    F: Future<Output = Result<()>> + Send,
{
    let start = Instant::now();
    let mut calling = JoinSet::new();
    for task in 0..tasks {
        let call = call.clone();
        calling.spawn(async move {
            let mut latencies = Vec::new();
            while start.elapsed() < time {
                let begin = Instant::now();
                call(task, latencies.len()).await?;
                latencies.push(begin.elapsed());
            }
            anyhow::Ok(latencies)
        });
    }
    let mut latencies = Vec::new();
    while let Some(called) = calling.join_next().await {
        latencies.extend(called??);
    }
    Ok((start.elapsed(), latencies))
}

fn figures(rounds: &[Round], who: Who, figure: fn(&Round) -> f64) -> Vec<f64> {
    let rounds = rounds.iter().filter(|round| round.who == who);
    rounds.map(figure).collect()
}

fn side(rounds: &[Round], who: Who) -> Side {
    let rates = figures(rounds, who, |round| round.rate);
    Side {
        name: who.name().to_owned(),
        rate: median(&rates),
        p50_ms: median(&figures(rounds, who, |round| round.p50_ms)),
        p99_ms: median(&figures(rounds, who, |round| round.p99_ms)),
        server_us: f64::NAN,
        rates,
    }
}

fn findings(rounds: &[Round], seed: u64) -> Vec<Finding> {
    let of = |who, figure| figures(rounds, who, figure);
    let (time, rate) = (|round: &Round| round.p50_ms, |round: &Round| round.rate);
    let finding = |name: &str, interval: Interval, target| Finding {
        name: name.to_owned(),
        interval,
        unit: "",
        target,
    };
    vec![
        finding(
            "folder / bare loop: time of a send, 1 sender",
            ratio_of_medians(&of(Who::OneSender, time), &of(Who::Bare, time), seed),
            Target::AtMost(1.5),
        ),
        finding(
            "folder / bare loop: sends per second, 64 senders",
            ratio_of_medians(&of(Who::ManySenders, rate), &of(Who::Bare, rate), seed),
            Target::AtLeast(10.0),
        ),
        finding(
            "folder / bare loop: time of a put, 1 at a time",
            ratio_of_medians(&of(Who::OnePutter, time), &of(Who::Bare, time), seed),
            Target::AtMost(1.5),
        ),
    ]
}
