//! Tables I to III and figures 1 to 8 of Ampaporn and Gertphol, ours beside the paper's.

use std::fmt::Write;
use std::path::Path;

use anyhow::Result;
use fader_history::Rules;
use fader_history::check::staleness;
use fader_history::object::{Log, Operation, Verb};
use fader_measure::statistics::{Quartiles, quantile_of};
use fader_measure::{Axis, Boxes, Curve, EVENTUAL, Plot, Point, STRONG, Scale, Series, Whiskers};
use fader_services::ErrorCode;
use serde::Serialize;

use super::super::target;
use super::{Measured, runs};
use crate::failure::Failure;

const MILLI: f64 = 1e6;
/// Bins of figure 8, in nanoseconds.
const BIN: u64 = 10_000_000;

/// A row of the paper's table I: name, count, min, quartiles, max, outliers in percent, mean,
/// standard deviation.
const TABLE_1: [(&str, [f64; 9]); 3] = [
    (
        "writes",
        [4600.0, 42.0, 50.0, 56.0, 103.0, 2391.0, 9.35, 114.4, 186.84],
    ),
    (
        "eventual reads",
        [260_132.0, 9.0, 14.0, 16.0, 18.0, 1576.0, 7.81, 18.78, 17.61],
    ),
    (
        "strong reads",
        [225_891.0, 9.0, 14.0, 16.0, 18.0, 1350.0, 8.66, 18.19, 24.34],
    ),
];
/// Of table II: quartiles, mean, standard deviation.
const TABLE_2: [(&str, [f64; 5]); 2] = [
    ("eventual reads", [51.0, 57.0, 62.0, 53.03, 13.87]),
    ("strong reads", [51.0, 57.0, 62.0, 54.45, 16.07]),
];
/// A client that reads at this share of what it can do at most is the limit itself.
const LIMITED: f64 = 0.8;
/// What the paper has wrong, beside what stands in our tables.
const ERRATA: &str = "\
The paper's text has a mean of \"114.4 seconds\" (ms) and 225,801 strong reads (in its table\n\
225,891). Its whiskers are by formula: 29.5 ms for -29.5, and 8 ms below the least read, 9.\n\
Ours end at observations; the figures have both.\n";

/// What all runs showed.
#[derive(Serialize)]
pub(super) struct Found {
    writes: Quartiles,
    /// Of eventual reads, then of strong ones.
    reads: [Quartiles; 2],
    rates: [Quartiles; 2],
    curves: [Vec<Point>; 2],
    /// The same by the time since the write's call, as Wada and others have it.
    curves_since_call: [Vec<Point>; 2],
    /// By run, of both levels.
    write_runs: [Vec<Quartiles>; 2],
    read_runs: [Vec<Quartiles>; 2],
    /// Reads by k, the newer versions that they missed: 0, 1, 2 and more.
    missed: [[usize; 3]; 2],
    /// The time after a write's return from which 50, 90, 99 and 99.9 % of reads show it, in ms.
    visible_ms: [[Option<f64>; 4]; 2],
    /// Operations that were refused or not answered.
    failed: usize,
    /// Reads a second of the same reader at a server that answers a constant, if it was measured.
    floor: Option<f64>,
}

impl Found {
    /// Of all runs' logs.
    pub(super) fn new(measured: &[Measured], floor: Option<f64>) -> Result<Found> {
        let levels = [EVENTUAL, STRONG];
        let logs = |level: &'static str| {
            let of_level = measured.iter().filter(move |one| one.level == level);
            of_level.map(|one| &one.log)
        };
        let all = || measured.iter().map(|one| &one.log);
        let mut curves = [Curve::default(), Curve::default()];
        let mut curves_since_call = curves.clone();
        let (mut missed, mut visible_ms) = ([[0; 3]; 2], [[None; 4]; 2]);
        for (at, level) in levels.into_iter().enumerate() {
            let mut times = [0.5, 0.9, 0.99, 0.999].map(|_| Vec::new());
            for log in logs(level) {
                let found = staleness(log, &Rules::default());
                let found =
                    found.map_err(|unfit| Failure::new(ErrorCode::AnswerMalformed, unfit))?;
                curves[at].add(&found, BIN, |reference| reference.since_return);
                curves_since_call[at].add(&found, BIN, |reference| reference.since_call);
                for reading in &found.readings {
                    missed[at][reading.newer.min(2)] += 1;
                }
                let visible = found.visibility(&[0.5, 0.9, 0.99, 0.999]);
                for (times, one) in times.iter_mut().zip(visible) {
                    times.extend(one.nanos.map(|nanos| nanos as f64 / MILLI));
                }
            }
            // The median of runs: each has its own reads, and too few for the last share.
            visible_ms[at] = times.map(|mut of_runs| {
                let is_any = !of_runs.is_empty();
                is_any.then(|| quantile_of(&mut of_runs, 0.5))
            });
        }
        let none = || Failure::new(ErrorCode::Unavailable, "a level has no reads, or no writes");
        let of = |logs: &mut dyn Iterator<Item = &Log>, is_write| {
            let values: Vec<f64> = logs.flat_map(|log| times(log, is_write)).collect();
            Quartiles::of(&values).ok_or_else(none)
        };
        let by_run = |level, is_write| {
            let of_run = |log| Quartiles::of(&times(log, is_write));
            logs(level).filter_map(of_run).collect()
        };
        let rates = |level| {
            let values: Vec<f64> = logs(level).flat_map(reads_by_second).collect();
            Quartiles::of(&values).ok_or_else(none)
        };
        Ok(Found {
            writes: of(&mut all(), true)?,
            reads: [
                of(&mut logs(EVENTUAL), false)?,
                of(&mut logs(STRONG), false)?,
            ],
            rates: [rates(EVENTUAL)?, rates(STRONG)?],
            curves: curves.map(|curve| curve.points()),
            curves_since_call: curves_since_call.map(|curve| curve.points()),
            write_runs: levels.map(|level| by_run(level, true)),
            read_runs: levels.map(|level| by_run(level, false)),
            missed,
            visible_ms,
            failed: all()
                .flat_map(|log| &log.operations)
                .filter(|one| one.done().is_none())
                .count(),
            floor,
        })
    }

    /// Whether every strong read showed the latest version.
    pub(super) fn is_strong_fresh(&self) -> bool {
        self.missed[1][1..] == [0, 0]
    }
}

fn is_write(operation: &Operation) -> bool {
    operation.action.verb != Verb::Read
}

/// Service times of a log's reads or writes, in milliseconds, as the paper has them.
fn times(log: &Log, of_writes: bool) -> Vec<f64> {
    let wanted = log
        .operations
        .iter()
        .filter(|one| is_write(one) == of_writes);
    let time = |one: &Operation| {
        let (returned, _) = one.done()?;
        Some(returned.since(one.called) as f64 / MILLI)
    };
    wanted.filter_map(time).collect()
}

/// Reads that ended in each whole second between the first and the last.
fn reads_by_second(log: &Log) -> Vec<f64> {
    let reads = log.operations.iter().filter(|one| !is_write(one));
    let ends = reads.filter_map(|one| Some(one.done()?.0.nanos / 1_000_000_000));
    let ends: Vec<u64> = ends.collect();
    let (Some(first), Some(last)) = (ends.iter().min(), ends.iter().max()) else {
        return Vec::new();
    };
    // The first and the last second are not whole.
    let mut counts = vec![0.0; usize::try_from(last - first + 1).unwrap_or(0)];
    for end in &ends {
        counts[(end - first) as usize] += 1.0;
    }
    let inner = 1..counts.len().saturating_sub(1).max(1);
    counts.get(inner).unwrap_or_default().to_vec()
}

/// All tables, for a terminal.
pub(super) fn text(found: &Found, target: &str) -> String {
    let target = target::told(target);
    let mut text = format!("\nTarget: {target}\n\nTable I: latencies in ms\n{:<16}", "");
    let names = [
        "n", "min", "Q1", "median", "Q3", "max", "outliers", "mean", "SD",
    ];
    for name in names {
        let _ = write!(text, "{name:>10}");
    }
    text.push('\n');
    let ours = [&found.writes, &found.reads[0], &found.reads[1]];
    for ((name, paper), ours) in TABLE_1.into_iter().zip(ours) {
        let Quartiles {
            min,
            q1,
            median,
            q3,
            max,
            mean,
            deviation,
            ..
        } = *ours;
        let (count, outliers) = (ours.count as f64, 100.0 * ours.outliers);
        row(
            &mut text,
            name,
            &[count, min, q1, median, q3, max, outliers, mean, deviation],
        );
        row(&mut text, "  the paper", &paper);
    }
    let _ = writeln!(
        text,
        "\nTable II: reads per second\n{:<16}{:>10}{:>10}{:>10}{:>10}{:>10}",
        "", "Q1", "median", "Q3", "mean", "SD"
    );
    for ((name, paper), ours) in TABLE_2.into_iter().zip(&found.rates) {
        row(
            &mut text,
            name,
            &[ours.q1, ours.median, ours.q3, ours.mean, ours.deviation],
        );
        row(&mut text, "  the paper", &paper);
    }
    if let Some(floor) = found.floor {
        let most = found.rates[0].median.max(found.rates[1].median);
        let limit = match LIMITED * floor <= most {
            true => "the client is the limit, not the service",
            false => "the service is the limit, not the client",
        };
        let _ = writeln!(
            text,
            "the same reader at a server that answers a constant: {floor:.0} reads per second: \
             {limit}"
        );
    }
    let ([first, second], [eventual, strong]) = (&found.write_runs, &found.read_runs);
    text += &runs::table([first, eventual, second, strong]);
    text + &shares(found) + ERRATA
}

fn row(text: &mut String, name: &str, values: &[f64]) {
    let _ = write!(text, "{name:<16}");
    for value in values {
        let _ = match value.fract() == 0.0 || 1e4 <= *value {
            true => write!(text, "{value:>10.0}"),
            false => write!(text, "{value:>10.2}"),
        };
    }
    text.push('\n');
}

/// Figure 8 in words.
fn shares(found: &Found) -> String {
    let paper = [
        "30 % before 500 ms, 80 % to 600 ms, then almost 100 %",
        "100 %",
    ];
    let mut text =
        String::from("\nFigure 8: reads of the latest version, by time since the write returned\n");
    for (at, name) in ["eventual", "strong"].into_iter().enumerate() {
        let share = |from: u64, to: u64| {
            let within = found.curves[at].iter().filter(|point| {
                point
                    .from
                    .is_some_and(|start| (from..to).contains(&(start / 1_000_000)))
            });
            let (reads, latest) = within.fold((0, 0), |sum, point| {
                (sum.0 + point.reads, sum.1 + point.latest)
            });
            100.0 * latest as f64 / reads as f64
        };
        let negative = found.curves[at]
            .first()
            .filter(|point| point.from.is_none());
        let negative = negative.map_or(0, |point| point.reads);
        let _ = writeln!(
            text,
            "{name:<10}0-500 ms {:.1} %   500-600 ms {:.1} %   600 ms on {:.2} %   \
             before the return {:.2} % of reads\n  the paper: {}",
            share(0, 500),
            share(500, 600),
            share(600, u64::MAX),
            100.0 * negative as f64 / found.reads[at].count as f64,
            paper[at],
        );
        let [fresh, one, more] = found.missed[at];
        let _ = writeln!(
            text,
            "  missed versions: none {fresh}, one {one}, more {more}"
        );
        let times = found.visible_ms[at].map(|time| match time {
            Some(time) => format!("{time:.0}"),
            None => "-".to_owned(),
        });
        let _ = writeln!(
            text,
            "  visible to 50, 90, 99, 99.9 % of reads after {} ms (median of runs)",
            times.join(", ")
        );
    }
    let _ = writeln!(
        text,
        "{} operations were refused or not answered\n",
        found.failed
    );
    text
}

/// All figures as SVG, and all numbers as JSON.
pub(super) fn write(found: &Found, folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    for (number, (title, x, y, boxes)) in (1..).zip(box_plots(found)) {
        for (suffix, whiskers) in [("", Whiskers::Observed), ("-formula", Whiskers::Formula)] {
            let plot = Boxes {
                title: title.to_owned(),
                x: x.to_owned(),
                y: y.to_owned(),
                boxes: boxes.clone(),
                whiskers,
            };
            let path = folder.join(format!("figure-{number}{suffix}.svg"));
            std::fs::write(path, plot.svg())?;
        }
    }
    for (name, curves, since) in [
        ("figure-8.svg", &found.curves, "returned"),
        (
            "figure-8-since-call.svg",
            &found.curves_since_call,
            "was called",
        ),
    ] {
        std::fs::write(folder.join(name), curve(curves, since))?;
    }
    let json = serde_json::to_vec_pretty(found)?;
    Ok(std::fs::write(folder.join("staleness.json"), json)?)
}

/// A box plot: title, what the boxes are of, what is measured, boxes with their names.
type BoxPlot = (
    &'static str,
    &'static str,
    &'static str,
    Vec<(String, Quartiles)>,
);

/// Figures 1 to 7.
fn box_plots(found: &Found) -> [BoxPlot; 7] {
    let named = |pairs: &[(&str, &Quartiles)]| {
        let pairs = pairs.iter();
        pairs
            .map(|(name, one)| ((*name).to_owned(), **one))
            .collect()
    };
    let by_run = |all: &[Quartiles]| {
        let numbered = all.iter().enumerate();
        numbered
            .map(|(run, one)| ((run + 1).to_string(), *one))
            .collect()
    };
    let ([eventual, strong], [few, more]) = (&found.reads, &found.rates);
    let rates = named(&[("eventual", few), ("strong", more)]);
    let (writes, reads) = (&found.write_runs, &found.read_runs);
    [
        (
            "Write latency",
            "",
            "ms",
            named(&[("writes", &found.writes)]),
        ),
        (
            "Read latency",
            "",
            "ms",
            named(&[("strong", strong), ("eventual", eventual)]),
        ),
        ("Throughput", "", "reads per second", rates),
        (
            "Write latency by run, eventual reads",
            "run",
            "ms",
            by_run(&writes[0]),
        ),
        (
            "Write latency by run, strong reads",
            "run",
            "ms",
            by_run(&writes[1]),
        ),
        (
            "Eventual read latency by run",
            "run",
            "ms",
            by_run(&reads[0]),
        ),
        ("Strong read latency by run", "run", "ms", by_run(&reads[1])),
    ]
}

/// Figure 8, up to the second that matters.
fn curve(curves: &[Vec<Point>; 2], since: &str) -> String {
    let shown = |at: usize| {
        let points = curves[at].iter();
        points.filter_map(|point| {
            let from = point.from.filter(|from| *from < 1_000_000_000)?;
            Some((from as f64 / MILLI, point.share?))
        })
    };
    let axis = |label: &str| Axis {
        label: label.to_owned(),
        scale: Scale::Linear,
    };
    let plot = Plot {
        title: "Reads of the latest version, with 95 % bands".to_owned(),
        x: axis(&format!("ms since the last write {since}")),
        y: axis("share of reads"),
        series: [EVENTUAL, STRONG]
            .into_iter()
            .enumerate()
            .map(|(at, name)| Series {
                name: name.to_owned(),
                points: shown(at).map(|(x, share)| (x, share.estimate)).collect(),
            })
            .collect(),
    };
    let bands = [0, 1].map(|at| {
        shown(at)
            .map(|(x, share)| (x, share.low, share.high))
            .collect()
    });
    plot.svg_with(&bands)
}
