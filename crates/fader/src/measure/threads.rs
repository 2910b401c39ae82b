//! `fader measure threads`: the second experiment of "The cost of eventual consistency",
//! each of its claims judged.
//!
//! 10,000 puts, then 10,000 gets, by 1 to 200 threads. They are to one item, and to 1,000 chosen at
//! random; plain, and with the strong variant of each request. Beside the gets five threads write.
//!
//! A service is asked by threads of this process, each with a connection of its own. The model is
//! asked in virtual time.

mod claims;
mod figures;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use fader_history::Order;
use fader_history::object::{Log, Operation};
use fader_measure::formats::join;
use fader_measure::model::Behaviour;
use fader_measure::{
    CONDITIONAL, EVENTUAL, FILL_FIRST, Load, Party, Plan, Remaining, STRONG, Stress, Target, Until,
    Variant, median,
};
use fader_services::ErrorCode;
use serde::Serialize;

use super::staleness::write_log;
use super::target::{self, MODEL, Phase, Raw, Run, Seam, nothing_done};
use crate::failure::{self, Failure};
use crate::output;

/// Threads that write beside gets.
const WRITERS: u32 = 5;
/// The number of the first of them: beyond those that are measured.
const WRITERS_FIRST: u32 = 100_000;
/// Threads that create the items.
const FILLERS: u32 = 16;
/// Values of writers begin there, beyond those of the puts that are measured.
const WRITERS_VALUE: u64 = 1 << 40;

const EXAMPLES: &str = "\
Examples:
  fader measure threads                                  the model, in virtual time
  fader measure threads --target 'simpledb://?endpoint=http://127.0.0.1:4566'
  fader measure threads --requests 1000 --threads 1,10,100 --out figures

The model is fitted to what the paper says, and says nothing about SimpleDB. The domain's name
begins with `fader-measure-`; it is deleted.
Exit codes: 0 measured; 2 not measured.";

/// At what, and how often.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// `model`, or the URL of a SimpleDB over HTTP.
    #[arg(long, default_value = MODEL, value_name = "TARGET")]
    target: String,

    /// Requests of each point.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    requests: u64,

    /// How many threads, point by point.
    #[arg(
        long, value_delimiter = ',', value_name = "COUNT",
        default_value = "1,2,5,10,20,50,100,150,200",
        value_parser = clap::value_parser!(u32).range(1..=10_000)
    )]
    threads: Vec<u32>,

    /// How often each point is measured; the median counts.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,

    /// Of the model's random choices.
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Writes both figures (SVG), all numbers (JSON) and each point's log into a folder.
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

/// A curve of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Curve {
    /// Puts, or gets.
    pub(super) is_put: bool,
    /// Whether requests are conditional or consistent.
    pub(super) is_strong: bool,
    /// How many items they are about.
    pub(super) items: u64,
}

/// A point of a curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Point {
    pub(super) curve: Curve,
    pub(super) threads: u32,
    /// From the first request's start to the last one's end; the median of the runs.
    pub(super) seconds: f64,
    /// Requests that were refused or not answered, in all runs.
    pub(super) failed: u64,
}

impl Curve {
    /// Both figures' curves.
    pub(super) fn all() -> impl Iterator<Item = Curve> {
        let kinds = [true, false].into_iter();
        let items = move |is_put| [1, 1000].map(|items| (is_put, items));
        let strong = |(is_put, items)| {
            [false, true].map(|is_strong| Curve {
                is_put,
                is_strong,
                items,
            })
        };
        kinds.flat_map(items).flat_map(strong)
    }

    /// The variant of its requests.
    pub(super) fn variant(self) -> &'static str {
        match (self.is_put, self.is_strong) {
            (_, false) => "plain",
            (true, true) => "conditional",
            (false, true) => "consistent",
        }
    }

    fn verb(self) -> &'static str {
        if self.is_put { "put" } else { "get" }
    }

    fn stress(self, domain: &str, requests: u64, run: u32) -> Stress {
        Stress {
            domain: domain.to_owned(),
            is_put: self.is_put,
            variant: if self.is_strong {
                Variant::Strong
            } else {
                Variant::Plain
            },
            items: self.items,
            in_order: false,
            // Above what the items are created with; each run chooses other items.
            value_first: 1 + self.items + u64::from(run) * requests,
            remaining: Remaining::new(requests),
            is_background: false,
        }
    }
}

/// Everything that is done for a point: what creates the items, what is measured, and what runs
/// beside it.
struct Work {
    fill: Stress,
    measured: Stress,
    beside: Option<Stress>,
}

impl Work {
    fn new(curve: Curve, domain: &str, requests: u64, run: u32) -> Self {
        let measured = curve.stress(domain, requests, run);
        let put = |variant| Stress {
            is_put: true,
            variant,
            ..curve.stress(domain, requests, run)
        };
        let fill = Stress {
            in_order: true,
            value_first: 1,
            remaining: Remaining::new(curve.items),
            ..put(Variant::Plain)
        };
        let beside = (!curve.is_put).then(|| Stress {
            value_first: WRITERS_VALUE,
            remaining: measured.remaining.clone(),
            is_background: true,
            ..put(Variant::Plain)
        });
        Work {
            fill,
            measured,
            beside,
        }
    }
}

fn plan(stress: &Stress, clients: u32, until: Until) -> Plan {
    Plan {
        name: "threads".to_owned(),
        load: Load::Closed,
        until,
        connections: clients,
        threads: clients,
        errors_max: None,
        levels: stress.levels(),
    }
}

/// Never reached: a load in the background ends with what is measured.
const ENDLESS: Until = Until::Operations(u64::MAX);

pub(super) async fn run(options: &Options) -> Result<ExitCode> {
    let points = match options.target.as_str() {
        MODEL => {
            measure(options, async |curve, threads, run| {
                on_model(options, curve, threads, run).await
            })
            .await?
        }
        url => {
            let raw = Raw::at(url).await?;
            let work = measure(options, async |curve, threads, run| {
                on_service(&raw, curve, threads, options.requests, run).await
            });
            raw.within(work).await?
        }
    };
    output::tell(&figures::text(&points, &options.target, options.requests));
    if let Some(folder) = &options.out {
        let context = || format!("cannot write to {}", folder.display());
        figures::write(&points, folder).with_context(context)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Every point of both figures, run by run, so that a slow minute falls on all curves alike.
async fn measure(
    options: &Options,
    one: impl AsyncFn(Curve, u32, u32) -> Result<Log>,
) -> Result<Vec<Point>> {
    let mut points: Vec<(Point, Vec<f64>)> = Vec::new();
    for run in 0..options.runs {
        let all = options.threads.iter();
        let all = all.flat_map(|threads| Curve::all().map(move |curve| (curve, *threads)));
        for (number, (curve, threads)) in all.enumerate() {
            let (verb, variant, items) = (curve.verb(), curve.variant(), curve.items);
            note_part!(
                "\r{verb}s, {variant}, of {items}, by {threads} threads, run {} of {}{:12}",
                run + 1,
                options.runs,
                ""
            );
            let log = one(curve, threads, run).await?;
            if let Some(folder) = &options.out {
                let name = format!("{verb}-{variant}-{items}-{threads}-{}.jsonl", run + 1);
                fs::create_dir_all(folder)?;
                write_log(&log, &Path::new(folder).join(name))?;
            }
            let (seconds, failed) = measured_in(&log)?;
            if run == 0 {
                let point = Point {
                    curve,
                    threads,
                    seconds,
                    failed: 0,
                };
                points.push((point, Vec::new()));
            }
            points[number].0.failed += failed;
            points[number].1.push(seconds);
        }
    }
    note!();
    let of_runs = |(point, seconds): (Point, Vec<f64>)| Point {
        seconds: median(&seconds),
        ..point
    };
    Ok(points.into_iter().map(of_runs).collect())
}

/// From the first start to the last end of the requests that are measured, in seconds, and how many
/// of them failed.
fn measured_in(log: &Log) -> Result<(f64, u64)> {
    let of_run = |one: &&Operation| one.process < WRITERS_FIRST;
    let measured = || log.operations.iter().filter(of_run);
    let failed = measured().filter(|one| one.done().is_none());
    let failed = failed.count() as u64;
    let start = measured().map(|one| one.called.nanos).min();
    let end = measured()
        .filter_map(|one| one.end.as_ref())
        .map(|(at, _)| at.nanos)
        .max();
    let (Some(start), Some(end)) = (start, end) else {
        return failure::fail(ErrorCode::Unavailable, "no request was sent");
    };
    if failed == measured().count() as u64 {
        let one = measured().next().context("no request was sent")?;
        return nothing_done(one, format_args!("no request was done; the first: {one}"));
    }
    Ok(((end - start) as f64 / 1e9, failed))
}

async fn on_model(options: &Options, curve: Curve, threads: u32, run: u32) -> Result<Log> {
    let phases = |seam: &Seam| {
        let work = Work::new(curve, "", options.requests, run);
        let party = |stress: Stress, clients, until, first| Party {
            plan: plan(&stress, clients, until),
            workload: Arc::new(stress),
            provider: seam.provider.clone(),
            endpoint: seam.endpoint.clone(),
            first,
        };
        let of_all = Until::Operations(options.requests);
        let fill = party(
            work.fill,
            FILLERS,
            Until::Operations(curve.items),
            FILL_FIRST,
        );
        let mut together = vec![party(work.measured, threads, of_all, 0)];
        together.extend(
            work.beside
                .map(|it| party(it, WRITERS, ENDLESS, WRITERS_FIRST)),
        );
        let at_once = |party| (Duration::ZERO, party);
        let together: Phase = together.into_iter().map(at_once).collect();
        vec![vec![at_once(fill)], together]
    };
    target::run(&Run {
        target: MODEL,
        behaviour: Behaviour::of_2010_threads(),
        seed: options.seed + u64::from(run),
        value_bytes: 1,
        levels: vec![EVENTUAL, STRONG, CONDITIONAL],
        order: Order::Told,
        phases: &phases,
    })
    .await
}

async fn on_service(raw: &Raw, curve: Curve, threads: u32, requests: u64, run: u32) -> Result<Log> {
    let work = Work::new(curve, &raw.domain, requests, run);
    let target = raw.target.clone();
    let (tell, told) = tokio::sync::oneshot::channel();
    // Not on the runtime, whose end would wait for it.
    std::thread::spawn(move || {
        // A command that was interrupted has no use for it.
        let _ = tell.send(by_threads(&target, work, threads, requests));
    });
    told.await.context("a thread panicked")?
}

fn by_threads(target: &Target, work: Work, threads: u32, requests: u64) -> Result<Log> {
    let run = |stress: Stress, clients, until, first| {
        let plan = plan(&stress, clients, until);
        let mut log = fader_measure::run(target, &plan, Arc::new(stress), |_| {})?.log;
        log.operations
            .iter_mut()
            .for_each(|one| one.process += first);
        anyhow::Ok(log)
    };
    let items = Until::Operations(work.fill.items);
    let filled = run(work.fill, FILLERS, items, FILL_FIRST)?;
    if let Some(failed) = filled.operations.iter().find(|one| one.done().is_none()) {
        return nothing_done(
            failed,
            format_args!("an item could not be written: {failed}"),
        );
    }
    std::thread::scope(|scope| {
        let beside = work.beside;
        let beside = beside.map(|it| scope.spawn(move || run(it, WRITERS, ENDLESS, WRITERS_FIRST)));
        let measured = run(work.measured, threads, Until::Operations(requests), 0)?;
        let mut logs = vec![filled, measured];
        if let Some(beside) = beside {
            let log = beside.join();
            logs.push(log.map_err(|_| Failure::new(ErrorCode::Internal, "a writer panicked"))??);
        }
        Ok(join(logs))
    })
}
