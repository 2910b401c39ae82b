//! `fader measure calibrate`: measures what is known, and says how often the answer was right.

use std::process::ExitCode;

use clap::Args;
use fader_measure::calibrate::{self, Share, Times};

use crate::output;

const EXAMPLES: &str = "\
Examples:
  fader measure calibrate --seeds 20     a look, in seconds
  fader measure calibrate                200 seeds, in a minute

All of it is in virtual time: the same seeds give the same figures on every machine.
Exit codes: 0 every figure is as promised; 1 one is not.";

/// How much of it.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Runs of each law; comparisons are five times as many.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
}

/// What is promised of a share.
struct Promise {
    from: f64,
    to: f64,
}

const COVERED: Promise = Promise {
    from: 0.93,
    to: 0.97,
};
const TAIL_COVERED: Promise = Promise {
    from: 0.92,
    to: 1.0,
};
const ALARMS: Promise = Promise {
    from: 0.03,
    to: 0.07,
};
const FOUND: Promise = Promise {
    from: 0.95,
    to: 1.0,
};

/// Lines of the report, and whether all were as promised.
struct Report {
    is_good: bool,
}

impl Report {
    fn line(&mut self, name: &str, share: Share, promise: &Promise) {
        let value = share.value();
        let is_kept = (promise.from..=promise.to).contains(&value);
        self.is_good &= is_kept;
        output::tell(&format!(
            "{name:<50}{:>7.1} %  of {:>7}  promised {:.0} to {:.0} %{}",
            100.0 * value,
            share.all,
            100.0 * promise.from,
            100.0 * promise.to,
            if is_kept { "" } else { "   NOT KEPT" }
        ));
    }
}

pub(super) fn run(options: &Options) -> ExitCode {
    let seeds = 0..options.seeds;
    let mut report = Report { is_good: true };
    output::tell("95 % bands of staleness curves hold the truth, in bins where it is 0.02 to 0.98");
    for (name, law) in calibrate::laws() {
        for readers in [1, 4] {
            let found = calibrate::bands(law, readers, seeds.clone());
            let reader = if readers == 1 { "reader" } else { "readers" };
            let line = format!("  {name}, {readers} {reader}");
            report.line(&line, found.clustered, &COVERED);
            output::tell(&format!(
                "{:<50}{:>7.1} %",
                "    as if reads were independent",
                100.0 * found.naive.value()
            ));
        }
    }
    output::tell("95 % intervals of response times hold the truth");
    for law in Times::all() {
        let [mean, p50, p99] = law.coverage(seeds.clone());
        report.line(&format!("  {}: mean", law.name), mean, &COVERED);
        report.line(&format!("  {}: p50", law.name), p50, &COVERED);
        report.line(&format!("  {}: p99", law.name), p99, &TAIL_COVERED);
    }
    output::tell("Violations of session guarantees are counted exactly");
    let mut exact = Share::default();
    for seed in seeds {
        let (injected, counted) = calibrate::injected(seed);
        exact.all += 1;
        exact.counted += u64::from(Some(injected) == counted);
    }
    report.line("  logs", exact, &Promise { from: 1.0, to: 1.0 });
    output::tell("Comparisons of two runs");
    let pairs = 5 * options.seeds;
    report.line(
        "  equal ones called worse",
        calibrate::alarms(1.0, 0..pairs),
        &ALARMS,
    );
    report.line(
        "  10 % slower ones found",
        calibrate::alarms(1.1, 0..pairs),
        &FOUND,
    );
    ExitCode::from(u8::from(!report.is_good))
}
