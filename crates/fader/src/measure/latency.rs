//! `fader measure latency`: the first experiment of "The cost of eventual consistency", on one
//! thread.
//!
//! One item, one attribute, 1,000 of each: reads, consistent reads, puts, and conditional puts. The
//! condition is that the value is what was read just before; that read is not timed.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use fader_history::Order;
use fader_history::object::{Log, Operation, Verb};
use fader_measure::model::Behaviour;
use fader_measure::statistics::{self, Quartiles};
use fader_measure::{Act, EVENTUAL, Intent, Load, Party, Plan, STRONG, Until, Workload};

use super::staleness::write_log;
use super::target::{self, MODEL, Run, Seam};
use crate::output;

const EXAMPLES: &str = "\
Examples:
  fader measure latency
  fader measure latency --target 'simpledb://?endpoint=http://127.0.0.1:4566' --log latency.jsonl

The model is fitted to the paper's four means, and says nothing about SimpleDB. The domain's name
begins with `fader-measure-`; it is deleted.";

/// At what, and how often.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// `model`, or a URL of domains.
    #[arg(long, default_value = MODEL, value_name = "TARGET")]
    target: String,

    /// Operations of each kind.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(40..))]
    count: u64,

    /// Of the model's random choices.
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Writes the log; the name tells the format (.jsonl, .csv, .edn, .porcupine).
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
}

/// One kind of operation, again and again; values count from the first.
struct Repeated {
    act: Act,
    level: usize,
    first: u64,
}

impl Workload for Repeated {
    fn plan(&self, sequence: u64) -> Intent {
        Intent {
            act: self.act,
            key: 0,
            value: matches!(self.act, Act::Write | Act::Modify).then_some(self.first + sequence),
            level: self.level,
        }
    }
}

/// Each kind with the paper's mean in milliseconds, in the order in which they are measured.
const KINDS: [(&str, Act, usize, f64); 4] = [
    ("put", Act::Write, 0, 110.0),
    ("get", Act::Read, 0, 22.0),
    ("get, consistent", Act::Read, 1, 23.0),
    ("put, conditional", Act::Modify, 1, 118.0),
];

pub(super) async fn run(options: &Options) -> Result<ExitCode> {
    let phases = |seam: &Seam| {
        let numbered = KINDS.into_iter().zip(0_u32..);
        let phase = |((name, act, level, _), number): ((&str, Act, usize, f64), u32)| {
            let party = Party {
                plan: Plan {
                    name: name.to_owned(),
                    load: Load::Closed,
                    until: Until::Operations(options.count),
                    connections: 1,
                    threads: 1,
                    errors_max: None,
                    levels: vec![EVENTUAL.into(), STRONG.into()],
                },
                workload: Arc::new(Repeated {
                    act,
                    level,
                    first: 1 + u64::from(number) * options.count,
                }),
                provider: seam.provider.clone(),
                endpoint: seam.endpoint.clone(),
                // Each kind has its number.
                first: number,
            };
            vec![(Duration::ZERO, party)]
        };
        numbered.map(phase).collect()
    };
    let log = target::run(&Run {
        target: &options.target,
        behaviour: Behaviour::of_2010(),
        seed: options.seed,
        value_bytes: 1,
        levels: vec![EVENTUAL, STRONG],
        order: Order::Told,
        phases: &phases,
    })
    .await?;
    if let Some(path) = &options.log {
        write_log(&log, path)?;
    }
    output::tell(&format!("Target: {}\n", target::told(&options.target)));
    output::tell(&format!(
        "{:<20}{:>8}{:>10}{:>22}{:>10}{:>10}{:>12}",
        "ms", "n", "mean", "95 %", "median", "max", "the paper"
    ));
    for ((name, act, _, paper), number) in KINDS.into_iter().zip(0_u32..) {
        let times = times(&log, number, act == Act::Modify);
        let found = Quartiles::of(&times).with_context(|| format!("no {name} was done"))?;
        let interval = statistics::mean(&times);
        let interval =
            interval.map_or_else(String::new, |it| format!("{:.1} to {:.1}", it.low, it.high));
        output::tell(&format!(
            "{name:<20}{:>8}{:>10.1}{interval:>22}{:>10.1}{:>10.1}{paper:>12.0}",
            found.count, found.mean, found.median, found.max
        ));
    }
    let failed = log.operations.iter().filter(|one| one.done().is_none());
    output::tell(&format!(
        "\n{} operations were refused or not answered",
        failed.count()
    ));
    Ok(ExitCode::SUCCESS)
}

/// Service times of one kind in milliseconds; of changes without the reads before them.
fn times(log: &Log, process: u32, is_change: bool) -> Vec<f64> {
    let is_wanted =
        |one: &&Operation| one.process == process && !(is_change && one.action.verb == Verb::Read);
    let time = |one: &Operation| {
        let (returned, _) = one.done()?;
        Some(returned.since(one.called) as f64 / 1e6)
    };
    log.operations
        .iter()
        .filter(is_wanted)
        .filter_map(time)
        .collect()
}
