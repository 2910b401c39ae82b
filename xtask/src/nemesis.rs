//! Attacks a cluster of real processes, in namespaces of their own, and judges what clients saw.

use anyhow::Result;
use clap::Args;

use crate::crash::Service;
use crate::{bench, command, python};

/// How long, and what.
#[derive(Args)]
pub(crate) struct Options {
    /// For how long faults are made; starting and judging come besides.
    #[arg(long, default_value_t = 30.0)]
    minutes: f64,
    /// Where the faults come from; the same seed draws the same faults.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Members of the cluster.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(3..=5))]
    nodes: u32,
    /// Servers of ZooKeeper, 1 or 3; 3 from 5 minutes on, where this is not given.
    #[arg(long, value_parser = zookeepers)]
    zookeepers: Option<u32>,
    /// What clients ask for.
    #[arg(long, default_value = "simpledb")]
    service: Service,
    /// Only kills members (kill -9), one so often, such as `10s`.
    #[arg(long, value_name = "DURATION", value_parser = seconds)]
    kill_every: Option<f64>,
    /// A folder for the history and what the members said; kept in any case if something is wrong.
    #[arg(long)]
    keep: Option<std::path::PathBuf>,
}

/// Runs an attack with the release binary.
pub(crate) fn run(options: &Options) -> Result<bool> {
    bench::build()?;
    python::prepare()?;
    let mut nemesis = python::program("python");
    nemesis
        .args(["-m", "nemesis"])
        .args(["--minutes", &options.minutes.to_string()])
        .args(["--seed", &options.seed.to_string()])
        .args(["--nodes", &options.nodes.to_string()])
        .env("PYTHONPATH", command::root().join("tests"));
    nemesis.args(["--service", options.service.name()]);
    if let Some(seconds) = options.kill_every {
        nemesis.args(["--kill-every", &seconds.to_string()]);
    }
    if let Some(count) = options.zookeepers {
        nemesis.args(["--zookeepers", &count.to_string()]);
    }
    if let Some(keep) = &options.keep {
        nemesis.arg("--keep").arg(keep);
    }
    command::succeeds(&mut nemesis)
}

/// One server, or three: two of them are a majority.
fn zookeepers(text: &str) -> Result<u32, String> {
    match text {
        "1" => Ok(1),
        "3" => Ok(3),
        _ => Err("1 or 3".to_owned()),
    }
}

/// Seconds, or milliseconds, with their unit.
fn seconds(text: &str) -> Result<f64, String> {
    let (number, unit) = match text.strip_suffix("ms") {
        Some(number) => (number, 0.001),
        None => (text.strip_suffix('s').unwrap_or(text), 1.0),
    };
    let parsed: Result<f64, _> = number.parse();
    match parsed {
        Ok(number) if 0.0 < number && number.is_finite() => Ok(number * unit),
        _ => Err("a duration such as 10s or 500ms".to_owned()),
    }
}
