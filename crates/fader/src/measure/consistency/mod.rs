//! `fader measure consistency`: what each level costs when members are far apart, as CRAQamo
//! (Miltner, Yang, Zhang) measured it. Also how available each level is during a partition.
//!
//! The setting is the paper's: three members, of which an eventual operation asks two (W = R = 2).
//! A one-way delay of 0, 50 and 100 ms is between them, and requests come at a rate far below what
//! the members can do. The members are those of a `fader dev` that is started for it, one for each
//! delay.
//!
//! Deliberately absent: the points of the paper's figures, which it shows as pictures without
//! numbers. Beside ours stands what its text says of them.

mod availability;
mod cluster;
mod figures;
mod load;
mod promises;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use fader_history::object::{Log, Operation};
use fader_measure::statistics::quantile_of;
use serde::Serialize;

use crate::dev::WiringName;
use crate::failure;
use crate::output;
use cluster::Cluster;
use load::{Failures, Kind, Mix};
use promises::Promises;

/// The delays of figures 1 to 3.
const DELAYS_MS: [u64; 3] = [0, 50, 100];
/// Shares of writes in figures 1 to 3.
const WRITE_SHARES: [f64; 3] = [0.25, 0.5, 0.75];
/// Shares of eventual operations in figures 4 and 5.
const EVENTUAL_SHARES: [f64; 5] = [0.0, 0.25, 0.5, 0.75, 1.0];
/// The delay of figures 4 and 5.
const MIX_DELAY_MS: u64 = 50;
/// Half of the operations of figures 4 and 5 are writes.
const MIX_WRITES: f64 = 0.5;
/// In which what many clients left behind is settled: five delays and more.
const CALM: Duration = Duration::from_millis(500);
/// Shares of operations that take at most a percentile.
pub(super) const SHARES: [f64; 3] = [0.5, 0.9, 0.99];

const EXAMPLES: &str = "\
Examples:
  fader measure consistency                    all figures, about ten minutes
  fader measure consistency --quick            shows that it works, in half a minute
  fader measure consistency --wiring star      writes travel from the head to all, at once
  fader measure consistency --delays 50        figures 2, 4 and 5 alone
  fader measure consistency --out figures      the figures as SVG, and all numbers as JSON

It starts clusters of its own on loopback, with their data in a temporary folder.
Exit codes: 0 measured; 1 strong operations had no order; 2 not measured.";

/// What, and how often.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// How writes travel.
    #[arg(long, value_name = "HOW", default_value = "chain")]
    wiring: WiringName,

    /// How often each point is measured; all points are measured once before any is again.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,

    /// Seconds for each point in each run.
    #[arg(long, default_value_t = 4.0)]
    seconds: f64,

    /// Requests a second where latency is measured.
    #[arg(long, default_value_t = 20.0)]
    rate: f64,

    /// Requests under way where throughput is measured.
    #[arg(long, default_value_t = 128)]
    clients: u32,

    #[arg(long, value_name = "MS", value_delimiter = ',', help = format!(
        "One-way delays in milliseconds, with commas between them. Figures 4 and 5 are those of \
         {MIX_DELAY_MS}. [default: {}]",
        DELAYS_MS.map(|delay| delay.to_string()).join(",")
    ))]
    delays: Vec<u64>,

    /// One run of a second for each point, without the delay of 100 ms: shows that it works.
    #[arg(long)]
    quick: bool,

    /// Writes the figures (SVG) and all numbers (JSON) into a folder.
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

/// All that was measured.
#[derive(Serialize)]
pub(super) struct Measured {
    wiring: String,
    /// Figures 1 to 3.
    latency: Vec<Point>,
    /// Of the logs of figures 1 to 3, by the delay in milliseconds.
    promises: BTreeMap<u64, Promises>,
    /// Figures 4 and 5.
    mixed: Vec<MixedPoint>,
    availability: Vec<availability::Level>,
    /// Operations of figures 1 to 5.
    tally: Failures,
}

/// Latencies of one kind of operation in one setting; one number for each run, in milliseconds.
#[derive(Serialize)]
pub(super) struct Point {
    delay_ms: u64,
    writes: f64,
    kind: Kind,
    means_ms: Vec<f64>,
    medians_ms: Vec<f64>,
    /// Of all runs together, at [`SHARES`].
    percentiles_ms: [f64; 3],
    #[serde(skip)]
    all_ms: Vec<f64>,
}

/// One mix of levels.
#[derive(Serialize)]
pub(super) struct MixedPoint {
    eventual: f64,
    /// At a low rate.
    few: Means,
    /// With many clients.
    many: Means,
    writes_per_s: Vec<f64>,
    promises: Promises,
}

/// Mean latencies in milliseconds, one number for each run; and percentiles of all.
#[derive(Default, Serialize)]
pub(super) struct Means {
    /// Of reads and writes together, as the paper draws it.
    all_ms: Vec<f64>,
    reads_ms: Vec<f64>,
    writes_ms: Vec<f64>,
    /// Of reads and writes together, of all runs, at [`SHARES`].
    percentiles_ms: [f64; 3],
    #[serde(skip)]
    taken_ms: Vec<f64>,
}

pub(super) async fn run(options: &Options) -> Result<ExitCode> {
    if options.rate <= 0.0 || options.seconds <= 0.0 || options.clients == 0 {
        return failure::invalid("--rate, --seconds and --clients are above zero");
    }
    let options = options.as_meant();
    if !options.delays.iter().all(|delay| DELAYS_MS.contains(delay)) {
        return failure::invalid("--delays are of 0, 50 and 100, as the paper's figures");
    }
    let mut latency = Vec::new();
    let mut mixed = Vec::new();
    let mut tally = Failures::default();
    let mut promises: BTreeMap<u64, Promises> = BTreeMap::new();
    for delay_ms in &options.delays {
        let cluster = Cluster::start(options.wiring, Duration::from_millis(*delay_ms)).await?;
        let of_delay = promises.entry(*delay_ms).or_default();
        latency.extend(latencies(&options, &cluster, *delay_ms, &mut tally, of_delay).await?);
        if *delay_ms == MIX_DELAY_MS {
            mixed = mixes(&options, &cluster, &mut tally).await?;
        }
        cluster.done();
    }
    let cluster = Cluster::start(options.wiring, Duration::ZERO).await?;
    let availability = availability::measure(&cluster).await?;
    cluster.done();
    let measured = Measured {
        wiring: options.wiring_name().to_owned(),
        latency,
        promises,
        mixed,
        availability,
        tally,
    };
    output::tell(&figures::text(&measured));
    if let Some(folder) = &options.out {
        figures::write(&measured, folder)
            .with_context(|| format!("cannot write to {}", folder.display()))?;
    }
    Ok(ExitCode::from(u8::from(measured.is_broken())))
}

impl Measured {
    /// Whether strong operations had no order.
    fn is_broken(&self) -> bool {
        let of_mixed = self.mixed.iter().map(|point| &point.promises);
        let mut all = self.promises.values().chain(of_mixed);
        all.any(|promises| !promises.violations.is_empty())
    }
}

impl Options {
    fn as_meant(&self) -> Options {
        let (runs, seconds, delays) = match self.quick {
            true => (1, 1.0, &DELAYS_MS[..2]),
            false => (self.runs, self.seconds, &DELAYS_MS[..]),
        };
        let delays = match self.delays.is_empty() {
            true => delays.to_vec(),
            false => self.delays.clone(),
        };
        Options {
            runs,
            seconds,
            delays,
            out: self.out.clone(),
            ..*self
        }
    }

    fn time(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }

    fn wiring_name(&self) -> &'static str {
        match self.wiring {
            WiringName::Star => "star",
            WiringName::Chain => "chain",
        }
    }
}

/// One of figures 1 to 3: strong operations among themselves, then eventual ones.
async fn latencies(
    options: &Options,
    cluster: &Cluster,
    delay_ms: u64,
    tally: &mut Failures,
    promises: &mut Promises,
) -> Result<Vec<Point>> {
    let mut points: BTreeMap<(usize, Kind), Point> = BTreeMap::new();
    for run in 0..options.runs {
        for (at, writes) in WRITE_SHARES.into_iter().enumerate() {
            for eventual in [0.0, 1.0] {
                note_part!(
                    "\rdelay {delay_ms} ms, run {}, {:.0} % writes ",
                    run + 1,
                    100.0 * writes
                );
                let mix = Mix { writes, eventual };
                let log = load::at_rate(cluster, mix, options.rate, options.time()).await?;
                promises.add(&log)?;
                let done = log.operations;
                tally.add(&done);
                for kind in Kind::ALL {
                    let taken = load::taken(&done, &[kind]);
                    if taken.is_empty() {
                        continue;
                    }
                    let point = points.entry((at, kind)).or_insert_with(|| Point {
                        delay_ms,
                        writes,
                        kind,
                        means_ms: Vec::new(),
                        medians_ms: Vec::new(),
                        percentiles_ms: [f64::NAN; 3],
                        all_ms: Vec::new(),
                    });
                    point.means_ms.push(load::mean(&done, &[kind]));
                    point.medians_ms.push(fader_measure::median(&taken));
                    point.all_ms.extend(taken);
                    point.percentiles_ms = percentiles(&mut point.all_ms);
                }
            }
        }
    }
    note!();
    Ok(points.into_values().collect())
}

/// Figures 4 and 5: latencies at a low rate, then with many clients, and what gets through.
async fn mixes(
    options: &Options,
    cluster: &Cluster,
    tally: &mut Failures,
) -> Result<Vec<MixedPoint>> {
    let mut points: Vec<MixedPoint> = EVENTUAL_SHARES
        .into_iter()
        .map(|eventual| MixedPoint {
            eventual,
            few: Means::default(),
            many: Means::default(),
            writes_per_s: Vec::new(),
            promises: Promises::default(),
        })
        .collect();
    for run in 0..options.runs {
        for point in &mut points {
            note_part!(
                "\rrun {}, {:.0} % eventual ",
                run + 1,
                100.0 * point.eventual
            );
            let mix = Mix {
                writes: MIX_WRITES,
                eventual: point.eventual,
            };
            let few = load::at_rate(cluster, mix, options.rate, options.time()).await?;
            point.few.add(&few, tally, &mut point.promises)?;
            let many = load::saturated(cluster, mix, options.clients, options.time()).await?;
            point.many.add(&many, tally, &mut point.promises)?;
            let writes = load::writes_within(&many.operations, options.time());
            point.writes_per_s.push(writes as f64 / options.seconds);
            tokio::time::sleep(CALM).await;
        }
    }
    note!();
    Ok(points)
}

/// The percentiles of times at [`SHARES`].
fn percentiles(times: &mut [f64]) -> [f64; 3] {
    SHARES.map(|share| quantile_of(times, share))
}

impl Means {
    fn add(&mut self, log: &Log, tally: &mut Failures, promises: &mut Promises) -> Result<()> {
        promises.add(log)?;
        tally.add(&log.operations);
        self.push(&log.operations);
        Ok(())
    }

    fn push(&mut self, done: &[Operation]) {
        self.all_ms.push(load::mean(done, &Kind::ALL));
        self.reads_ms.push(load::mean(done, &Kind::READS));
        self.writes_ms.push(load::mean(done, &Kind::WRITES));
        self.taken_ms.extend(load::taken(done, &Kind::ALL));
        self.percentiles_ms = percentiles(&mut self.taken_ms);
    }
}
