//! `fader measure run`: a load of known shape, its log, and what the log says.

use std::fmt::Write as _;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::builder::ArgPredicate;
use clap::{Args, ValueEnum};
use fader_history::Order;
use fader_history::object::{Log, Operation, Text, Verb};
use fader_measure::model::{Behaviour, Law};
use fader_measure::statistics::{self, Interval, warm_up};
use fader_measure::{
    Arrivals, FILL_FIRST, Fill, InSimpleDb, Keys, Load, Mix, Party, Plan, Rate, Starts, Summary,
    Until, Ycsb, formats, responses,
};

use super::compare;
use super::staleness::write_log;
use super::target::{self, MODEL, Phase, Run, Seam, nothing_done};
use crate::failure;
use crate::output;

/// Clients that write the records before the run.
const FILL_CLIENTS: u32 = 16;

const EXAMPLES: &str = "\
Workloads are YCSB's: a half reads, half writes; b 95 % reads; c reads alone; d 95 % reads of the
newest, 5 % inserts; e scans and inserts; f half reads, half changes of what was read.

Examples:
  fader measure run a --rate 200 --for 60s --log run.jsonl
  fader measure run b --closed 64 --for 10s --target 'simpledb://?endpoint=http://127.0.0.1:4566'
  fader measure run c --rate 100 --to-rate 2000 --ramp 30s --for 60s
  fader measure run c --rate 100 --to-rate 2000 --burst 1s --every 10s --for 60s
  fader measure run a --replay run.jsonl --target 'simpledb://?endpoint=http://127.0.0.1:4566'
  fader measure run a --rate 500 --levels eventual=3,strong=1 --keys latest
  fader measure run b --rate 2000 --for 60s --target etcd://127.0.0.1:2379 --log run.jsonl
  fader measure run b --closed 8 --levels strong,eventual \
    --target 'redis://127.0.0.1:6379?replica=127.0.0.1:6380&wait=1'
  fader measure run a --closed 8 --levels 'eventual; r=1; w=2; session=3,barrier' \
    --target 'simpledb://?endpoint=http://127.0.0.1:4566'
  fader measure check run.jsonl --of registers --levels strong

Response time counts from when an operation was due, service time from when it began; what is late
to begin is slip. Refusals are data, unless --errors-max bounds them.
Levels: strong and eventual everywhere. At Redis they are the primary with WAIT, and the replica; at
etcd linearizable and serializable reads. At Fader there are barrier, `eventual; r=N; w=N`,
`eventual; bound=500ms`, and each with `; session`. The domain, or the prefix of keys, begins with
`fader-measure-`; it is deleted.
Exit codes: 0 measured; 1 too many errors; 2 not measured.";

/// What, how fast and for how long.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// The workload: a letter from a to f.
    workload: char,

    /// `model`, or a URL: of domains, redis://HOST:PORT or etcd://HOST:PORT.
    #[arg(long, default_value = MODEL, value_name = "TARGET")]
    target: String,

    /// Operations a second, by a schedule (an open loop).
    #[arg(long, value_name = "PER SECOND")]
    #[arg(required_unless_present_any = ["closed", "replay"])]
    rate: Option<f64>,

    /// Another rate: --ramp reaches it, --step jumps to it, each --burst has it.
    #[arg(long, value_name = "PER SECOND", requires = "rate")]
    to_rate: Option<f64>,

    /// For how long the rate changes evenly.
    #[arg(long, value_name = "TIME", value_parser = time, requires = "to_rate")]
    ramp: Option<Duration>,

    /// When the rate jumps.
    #[arg(long, value_name = "TIME", value_parser = time, requires = "to_rate")]
    #[arg(conflicts_with = "ramp")]
    step: Option<Duration>,

    /// How long a burst is. The run begins with one.
    #[arg(long, value_name = "TIME", value_parser = time, requires = "to_rate")]
    #[arg(requires = "every", conflicts_with_all = ["ramp", "step"])]
    burst: Option<Duration>,

    /// From the beginning of a burst to that of the next.
    #[arg(long, value_name = "TIME", value_parser = time, requires = "burst")]
    every: Option<Duration>,

    /// Begins operations when those of a log were due (an open loop).
    #[arg(long, value_name = "FILE", conflicts_with_all = ["rate", "closed"])]
    replay: Option<PathBuf>,

    /// How arrivals are spread.
    #[arg(long, value_enum, default_value = "poisson")]
    arrivals: Spread,

    /// Clients that each ask when they were answered (a closed loop).
    #[arg(long, value_name = "CLIENTS", conflicts_with = "rate")]
    closed: Option<u32>,

    /// Operations under way at once at most, in an open loop.
    #[arg(long, default_value_t = 256, value_name = "CLIENTS")]
    clients: u32,

    /// For how long operations begin, such as 60s or 5m; with --replay as long as the log's.
    #[arg(long = "for", default_value = "10s", value_name = "TIME", value_parser = time)]
    #[arg(default_value_if("replay", ArgPredicate::IsPresent, None::<&str>))]
    time: Option<Duration>,

    /// Items that are written before.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    records: u64,

    /// How popular items are; the workload's own unless told.
    #[arg(long, value_enum)]
    keys: Option<Popular>,

    /// Levels with their shares.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "strong",
        value_name = "LEVEL=SHARE"
    )]
    levels: Vec<String>,

    /// Octets of a value at least.
    #[arg(long, default_value_t = 16, value_name = "OCTETS")]
    value: usize,

    /// After this many errors the run is given up.
    #[arg(long, value_name = "COUNT")]
    errors_max: Option<u64>,

    /// Of all random choices.
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Writes the log; the name tells the format (.jsonl, .csv, .edn, .porcupine).
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,

    /// Writes response times as a log of HdrHistogram, an interval a second.
    #[arg(long, value_name = "FILE")]
    hlog: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Spread {
    /// At equal distances.
    Constant,
    /// Independent of each other.
    Poisson,
}

#[derive(Clone, Copy, ValueEnum)]
enum Popular {
    /// All alike.
    Uniform,
    /// By Zipf's law, from the first item.
    Zipfian,
    /// By Zipf's law, spread over all.
    Scrambled,
    /// By Zipf's law, from the newest.
    Latest,
    /// A fifth of the items gets four fifths of the operations.
    Hotspot,
    /// The newest seven eighths get 95 %, exponentially.
    Exponential,
}

impl Popular {
    fn keys(self) -> Keys {
        match self {
            Popular::Uniform => Keys::Uniform,
            Popular::Zipfian => Keys::Zipfian,
            Popular::Scrambled => Keys::Scrambled,
            Popular::Latest => Keys::Latest,
            Popular::Hotspot => Keys::Hotspot {
                items: 0.2,
                operations: 0.8,
            },
            // YCSB's default.
            Popular::Exponential => Keys::Exponential {
                percentile: 95.0,
                items: 0.857_142_857_1,
            },
        }
    }
}

/// A time such as `500ms`, `60s` or `5m`.
pub(super) fn time(text: &str) -> Result<Duration, String> {
    let units = [("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
    let found = units.into_iter().find_map(|(unit, seconds)| {
        let number: f64 = text.strip_suffix(unit)?.parse().ok()?;
        Duration::try_from_secs_f64(number * seconds).ok()
    });
    let found = found.filter(|time| !time.is_zero());
    found.ok_or_else(|| "expected a time above zero, such as 500ms, 60s or 5m".to_owned())
}

/// The load that the options ask for, its clients, and for how long operations begin.
fn load(options: &Options) -> Result<(Load, u32, Duration)> {
    if let Some(path) = &options.replay {
        let (starts, end) = recorded(path)?;
        let time = options.time.unwrap_or(end);
        return Ok((Load::Open(Starts::Replay(starts)), options.clients, time));
    }
    let time = options.time.context("--for has a default")?;
    let Some(from) = options.rate else {
        return Ok((Load::Closed, options.closed.unwrap_or(1), time));
    };
    let starts = Starts::Rate {
        rate: rate(options, from)?,
        arrivals: match options.arrivals {
            Spread::Constant => Arrivals::Constant,
            Spread::Poisson => Arrivals::Poisson,
        },
        seed: options.seed,
    };
    Ok((Load::Open(starts), options.clients, time))
}

fn rate(options: &Options, from: f64) -> Result<Rate> {
    let bursts = options.burst.zip(options.every);
    let rate = match (options.to_rate, options.ramp, options.step, bursts) {
        (None, ..) => Rate::Constant(from),
        (Some(to), Some(over), ..) => Rate::Ramp { from, to, over },
        (Some(to), _, Some(at), _) => Rate::Step { from, to, at },
        (Some(peak), .., Some((length, period))) => Rate::Burst {
            base: from,
            peak,
            length,
            period,
        },
        _ => return failure::invalid("--to-rate needs --ramp, --step or --burst"),
    };
    if let Some((length, period)) = bursts
        && period <= length
    {
        return failure::invalid("--every is longer than --burst");
    }
    if !rate.is_valid() {
        return failure::invalid("--rate and --to-rate are above zero");
    }
    Ok(rate)
}

/// When the operations of a log were due, without the writes of records before it: nanoseconds
/// since the first. Also the end of the time in which they were.
fn recorded(path: &Path) -> Result<(Arc<[u64]>, Duration)> {
    let log = compare::loaded(path)?;
    let mut starts: Vec<u64> = log
        .operations
        .iter()
        .map(|one| one.intended.nanos)
        .collect();
    starts.sort_unstable();
    let (Some(first), Some(last)) = (starts.first().copied(), starts.last().copied()) else {
        return failure::invalid(format_args!("{}: it has no operation", path.display()));
    };
    let end = Duration::from_nanos(last - first + 1);
    Ok((starts.into_iter().map(|start| start - first).collect(), end))
}

/// Levels with their shares. A level may have `=` itself, as `eventual; w=2`: what is a level as a
/// whole has the share 1.
fn levels(options: &Options) -> Result<Vec<(Text, f64)>> {
    let level = |text: &String| {
        let text = text.trim();
        let (name, share) = match InSimpleDb::check_level(text) {
            Ok(()) => (text, "1"),
            Err(_) => text.rsplit_once('=').unwrap_or((text, "1")),
        };
        let wrong = InSimpleDb::check_level(name).err();
        let share = share
            .parse()
            .ok()
            .filter(|it: &f64| 0.0 <= *it && it.is_finite());
        match (share, wrong) {
            (Some(share), None) => Ok((Text::from(name), share)),
            (_, Some(wrong)) => failure::invalid(format_args!("--levels: {text}: {wrong}")),
            (None, None) => {
                failure::invalid(format_args!("--levels: {text}: expected LEVEL=SHARE"))
            }
        }
    };
    let levels: Vec<_> = options.levels.iter().map(level).collect::<Result<_>>()?;
    let sum: f64 = levels.iter().map(|(_, share)| share).sum();
    if sum <= 0.0 {
        return failure::invalid("--levels: a share is above zero");
    }
    Ok(levels)
}

/// The load, as the options mean it.
struct Shape {
    mix: Mix,
    load: Load,
    clients: u32,
    time: Duration,
    levels: Vec<(Text, f64)>,
}

impl Shape {
    /// The records are written, then the load begins.
    fn phases(&self, options: &Options, seam: &Seam) -> Vec<Phase> {
        let plan = |load, until, connections, errors_max| Plan {
            name: format!("workload {}", options.workload),
            load,
            until,
            connections,
            threads: 1,
            errors_max,
            levels: self.levels.iter().map(|(name, _)| name.clone()).collect(),
        };
        let shares = self.levels.iter().map(|(_, share)| *share).collect();
        let until = Until::Elapsed(self.time);
        let loaded = Party {
            plan: plan(self.load.clone(), until, self.clients, options.errors_max),
            workload: Arc::new(Ycsb::new(self.mix, options.records, shares, options.seed)),
            provider: seam.provider.clone(),
            endpoint: seam.endpoint.clone(),
            first: 0,
        };
        let until = Until::Operations(options.records);
        let filled = Party {
            plan: plan(Load::Closed, until, FILL_CLIENTS, Some(1)),
            workload: Arc::new(Fill),
            first: FILL_FIRST,
            ..loaded.clone()
        };
        let at_once = |party| vec![(Duration::ZERO, party)];
        vec![at_once(filled), at_once(loaded)]
    }
}

pub(super) async fn run(options: &Options) -> Result<ExitCode> {
    let letter = options.workload;
    let mix = Mix::named(letter).with_context(|| format!("no workload {letter}: a to f"))?;
    let keys = options.keys.map_or(mix.keys, Popular::keys);
    let mix = Mix { keys, ..mix };
    let (load, clients, time) = load(options)?;
    let levels = levels(options)?;
    let shape = Shape {
        mix,
        load,
        clients,
        time,
        levels,
    };
    let names: Vec<Text> = shape.levels.iter().map(|(name, _)| name.clone()).collect();
    let seconds = time.as_secs_f64();
    if options.target != MODEL {
        note!("{} records, then {seconds:.0} s of load", options.records);
    }
    let log = target::run(&Run {
        target: &options.target,
        behaviour: Behaviour {
            law: Law::Fresh,
            ..Behaviour::of_2015()
        },
        seed: options.seed,
        value_bytes: options.value,
        levels: names.iter().map(|name| &**name).collect(),
        order: Order::Told,
        phases: &|seam| shape.phases(options, seam),
    })
    .await?;
    if let Some(path) = &options.log {
        write_log(&log, path)?;
    }
    let log = loaded(log)?;
    output::tell(&text(&log, time));
    if let Some(path) = &options.hlog {
        let file = File::create(path).with_context(|| path.display().to_string())?;
        formats::write_hlog(&log, BufWriter::new(file))?;
    }
    let errors = Summary::of(&log, time).errors;
    let is_given_up = options.errors_max.is_some_and(|max| max <= errors);
    if is_given_up {
        note!("given up after {errors} errors");
    }
    Ok(ExitCode::from(u8::from(is_given_up)))
}

/// The run without the filling before it; its times count from its own start.
fn loaded(log: Log) -> Result<Log> {
    let (filled, mut loaded): (Vec<Operation>, Vec<Operation>) = log
        .operations
        .into_iter()
        .partition(|one| FILL_FIRST <= one.process);
    if let Some(failed) = filled.iter().find(|one| one.done().is_none()) {
        return nothing_done(
            failed,
            format_args!("a record could not be written: {failed}"),
        );
    }
    let start = loaded.iter().map(|one| one.intended.nanos).min();
    let start = start.context("no operation was begun: a higher --rate, or a longer --for")?;
    for operation in &mut loaded {
        operation.intended.nanos -= start;
        operation.called.nanos -= start;
        if let Some((returned, _)) = &mut operation.end {
            returned.nanos -= start;
        }
    }
    Ok(Log {
        header: log.header,
        operations: loaded,
    })
}

/// What a log says, for a terminal.
fn text(log: &Log, elapsed: Duration) -> String {
    let all = Summary::of(log, elapsed);
    let of = |is_read: bool| {
        Summary::of_some(&log.operations, elapsed, |one| {
            (one.action.verb == Verb::Read) == is_read
        })
    };
    let mut text = format!(
        "{} operations done, {} refused or not answered, {:.1} a second\n\n{:<24}",
        all.done, all.errors, all.rate, "ms"
    );
    for name in ["p50", "p90", "p99", "p99.9", "max"] {
        let _ = write!(text, "{name:>10}");
    }
    text.push('\n');
    let (reads, writes) = (of(true), of(false));
    for (name, histogram) in [
        ("response time", &all.response),
        ("  of reads", &reads.response),
        ("  of writes", &writes.response),
        ("service time", &all.service),
        ("slip", &all.slip),
    ] {
        let _ = write!(text, "{name:<24}");
        for quantile in [0.5, 0.9, 0.99, 0.999, 1.0] {
            let value = histogram.value_at_quantile(quantile) as f64 / 1e6;
            let _ = write!(text, "{value:>10.3}");
        }
        text.push('\n');
    }
    let mut times = responses(log);
    let warm = warm_up(times.iter().copied());
    times.drain(..warm.cut);
    let steady = if warm.is_steady {
        "steady"
    } else {
        "NOT STEADY: still changing at its half"
    };
    let _ = writeln!(
        text,
        "\nwarm-up: {} operations left out; then {steady}",
        warm.cut
    );
    let shown = |interval: Option<Interval>, scale: f64| match interval {
        Some(it) => format!(
            "{:.3}  (95 %: {:.3} to {:.3})",
            it.estimate / scale,
            it.low / scale,
            it.high / scale
        ),
        None => "too few operations".to_owned(),
    };
    let ends = log.operations.iter().filter_map(|one| one.done());
    let ends = ends.map(|(at, _)| at.nanos as f64 / 1e9);
    let rate = statistics::rate(ends, elapsed.as_secs_f64());
    for (name, value) in [
        ("mean response, ms", shown(statistics::mean(&times), 1e6)),
        ("p50, ms", shown(statistics::quantile(&times, 0.5), 1e6)),
        ("p99, ms", shown(statistics::quantile(&times, 0.99), 1e6)),
        ("rate, a second", shown(rate, 1.0)),
    ] {
        let _ = writeln!(text, "{name:<24}{value}");
    }
    text
}
