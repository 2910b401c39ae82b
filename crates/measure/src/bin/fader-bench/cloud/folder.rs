//! Durable sends of 1 KB to a folder, beside the bare loop that any durable send is made of: write
//! a file, sync it, rename it, sync the folder.
//!
//! A send creates an object under a new key (create-if-absent). All sides write to one file system,
//! interleaved in shuffled rounds.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use fader_client::Folder;
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

/// What was measured.
pub(super) struct Measured {
    pub(super) sides: Vec<Side>,
    pub(super) findings: Vec<Finding>,
    pub(super) notes: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Bare,
    One,
    Many,
}

impl Who {
    const ALL: [Who; 3] = [Who::Bare, Who::One, Who::Many];

    fn name(self) -> &'static str {
        match self {
            Who::Bare => "write, fsync, rename, fsync",
            Who::One => "folder, 1 sender",
            Who::Many => "folder, 64 senders",
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
            let begin = Instant::now();
            let until = begin + options.seconds();
            let latencies = match who {
                Who::Bare => bare(&at, until)?,
                Who::One => runtime.block_on(send(&at, 1, until))?,
                Who::Many => runtime.block_on(send(&at, SENDERS, until))?,
            };
            rounds.push(Round::new(who, begin.elapsed(), latencies)?);
        }
    }
    let sides = Who::ALL.map(|who| side(&rounds, who));
    Ok(Measured {
        sides: sides.into(),
        findings: findings(&rounds, options.seed),
        notes: vec![format!(
            "Each send: {SEND_BYTES} octets under a new key, durable when it is answered."
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

/// The loop that nothing durable can do without.
fn bare(at: &Path, until: Instant) -> Result<Vec<Duration>> {
    let body = [b'x'; SEND_BYTES];
    let (folder, staged) = (File::open(at)?, at.join("staged"));
    let mut latencies = Vec::new();
    while Instant::now() < until {
        let begin = Instant::now();
        let mut file = File::create_new(&staged)?;
        file.write_all(&body)?;
        file.sync_all()?;
        fs::rename(&staged, at.join(format!("{}", latencies.len())))?;
        folder.sync_all()?;
        latencies.push(begin.elapsed());
    }
    Ok(latencies)
}

async fn send(at: &Path, senders: usize, until: Instant) -> Result<Vec<Duration>> {
    let folder = Arc::new(Folder::open(at)?);
    let mut sending = JoinSet::new();
    for sender in 0..senders {
        sending.spawn(send_one_by_one(Arc::clone(&folder), sender, until));
    }
    let mut latencies = Vec::new();
    while let Some(sent) = sending.join_next().await {
        latencies.extend(sent??);
    }
    Ok(latencies)
}

async fn send_one_by_one(
    folder: Arc<Folder>,
    sender: usize,
    until: Instant,
) -> Result<Vec<Duration>> {
    let body = vec![b'x'; SEND_BYTES];
    let mut latencies = Vec::new();
    while Instant::now() < until {
        let begin = Instant::now();
        let key = Key::from(format!("queue/{sender:02}-{:08}", latencies.len()));
        let create = PutOptions::from(PutMode::Create);
        folder.put_opts(&key, body.clone().into(), create).await?;
        latencies.push(begin.elapsed());
    }
    Ok(latencies)
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
            ratio_of_medians(&of(Who::One, time), &of(Who::Bare, time), seed),
            Target::AtMost(1.5),
        ),
        finding(
            "folder / bare loop: sends per second, 64 senders",
            ratio_of_medians(&of(Who::Many, rate), &of(Who::Bare, rate), seed),
            Target::AtLeast(10.0),
        ),
    ]
}
