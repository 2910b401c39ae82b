//! `fader measure compare`: is one run worse than another?

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use fader_history::object::Log;
use fader_measure::statistics::warm_up;
use fader_measure::{Compared, FILL_FIRST, Measure, compare, formats, responses};

use crate::output;

const EXAMPLES: &str = "\
Examples:
  fader measure compare base.jsonl run.jsonl
  fader measure compare base.jsonl run.jsonl --worse-by 5% --of p50,p99

Response times count from the intended starts; the warm-up of each run is left out. Each is a test
at the 5 % level: of equal runs one in twenty is called worse. Where several are compared, each has
its share of the 5 %.
Exit codes: 0 not worse; 1 worse; 2 not measured.";

/// Which runs, and of what.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// The run that was good.
    base: PathBuf,
    /// The run that is judged.
    run: PathBuf,
    /// What is compared.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "mean")]
    of: Vec<Of>,
    /// How much worse is still good enough, such as 5%.
    #[arg(long, default_value = "0%", value_name = "PERCENT", value_parser = percent)]
    worse_by: f64,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Of {
    /// The mean response time.
    Mean,
    /// The median.
    P50,
    /// The 99th percentile.
    P99,
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).parse::<f64>();
    let number = number.ok().filter(|number| (0.0..=1e6).contains(number));
    let number = number.ok_or_else(|| "expected a percentage such as 5%".to_owned())?;
    Ok(number / 100.0)
}

pub(super) fn run(options: &Options) -> ExitCode {
    match compared(options) {
        Ok(is_worse) => ExitCode::from(u8::from(is_worse)),
        Err(error) => super::unusable(&error),
    }
}

fn compared(options: &Options) -> Result<bool> {
    let (base, run) = (times(&options.base)?, times(&options.run)?);
    let mut is_worse = false;
    for of in &options.of {
        let (name, measure) = match of {
            Of::Mean => ("mean", Measure::Mean),
            Of::P50 => ("p50", Measure::P50),
            Of::P99 => ("p99", Measure::P99),
        };
        let found = compare(&base, &run, measure, options.worse_by, options.of.len());
        let found: Compared = found.context("a run has fewer than 40 operations that were done")?;
        is_worse |= found.is_worse;
        let percent = |share: f64| 100.0 * (share + options.worse_by);
        output::tell(&format!(
            "{name}: {:.3} ms, base {:.3} ms: {:+.1} % ({:+.1} to {:+.1}){}",
            found.new / 1e6,
            found.base / 1e6,
            percent(found.excess.estimate),
            percent(found.excess.low),
            percent(found.excess.high),
            if found.is_worse { "   WORSE" } else { "" }
        ));
    }
    Ok(is_worse)
}

/// The log of a run in a file, without the writes of records before it. Warnings are told.
pub(super) fn loaded(path: &Path) -> Result<Log> {
    let mut found = formats::read_all(&[path.to_owned()], None)?;
    for warning in &found.warnings {
        note!("warning: {warning}");
    }
    let operations = &mut found.log.operations;
    operations.retain(|one| one.process < FILL_FIRST);
    Ok(found.log)
}

/// The response times of a log's operations, without the writes of records before it and without
/// its warm-up.
fn times(path: &Path) -> Result<Vec<f64>> {
    let mut times = responses(&loaded(path)?);
    let warm = warm_up(times.iter().copied());
    if !warm.is_steady {
        note!("warning: {} is not steady", path.display());
    }
    times.drain(..warm.cut);
    Ok(times)
}
