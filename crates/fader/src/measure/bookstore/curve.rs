//! The curve of price ratios: each level's price divided by naive's, over the records that a
//! checkpoint interval collects.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use fader_database::Level;
use fader_measure::{Axis, Plot, Scale, Series};

use super::{INTERVALS_OF_CURVE, Options, RECORDS, measure, setting};
use crate::output;

/// Transactions a second unless `--rate` says otherwise.
const RATE: f64 = 0.1;
/// Checkpoint intervals that a point of the curve covers, at least.
const COVERED: f64 = 3.0;

/// A point: the records of a checkpoint interval, and a price divided by naive's.
type Point = (f64, f64);

/// Measures the curve, prints it with the break-even of each level, and draws it into `svg`.
pub(super) fn run(options: &Options, svg: Option<&Path>) -> Result<ExitCode> {
    let rate = options.rate.unwrap_or(RATE);
    let options = Options {
        rate: Some(rate),
        ..options.clone()
    };
    output::tell("naive");
    let naive = measure(&options, Level::Naive)?.total();
    let levels = [Level::Basic, Level::Monotonic, Level::Atomic];
    let mut curves = levels.map(|level| (level, Vec::new()));
    let head = ["records per interval", "interval s"].map(str::to_owned);
    let names = levels.map(|level| format!("{level} / naive"));
    let mut table = output::table(head.into_iter().chain(names));
    for interval in INTERVALS_OF_CURVE {
        output::tell(&format!("interval {interval} s"));
        let seconds = interval as f64;
        let records = rate * seconds * f64::from(RECORDS);
        let options = Options {
            interval,
            transactions: options
                .transactions
                .max((rate * seconds * COVERED).ceil() as u32),
            ..options.clone()
        };
        let mut row = vec![format!("{records:.1}"), interval.to_string()];
        for (level, points) in &mut curves {
            let ratio = measure(&options, *level)?.total() / naive;
            points.push((records, ratio));
            row.push(format!("{ratio:.3}"));
        }
        table.add_row(row);
    }
    let told: Vec<String> = curves
        .iter()
        .map(|(level, points)| told(*level, points))
        .collect();
    if let Some(path) = svg {
        let text = drawn(&curves).svg();
        fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    output::print(&format!(
        "Price of each level / naive's, {}\n{}\n{}\n",
        setting(&options),
        table.trim_fmt(),
        told.join("\n")
    ))?;
    Ok(ExitCode::SUCCESS)
}

fn told(level: Level, points: &[Point]) -> String {
    match (break_even(points), points.last()) {
        (Some(records), _) => {
            format!("{level} costs less than naive from {records:.1} records per interval on")
        }
        (None, Some((_, ratio))) if *ratio < 1.0 => {
            format!("{level} costs less than naive at every point")
        }
        (None, _) => format!("{level} costs more than naive at the last point"),
    }
}

/// Where the curve falls below 1 and stays below, between two points on a logarithmic axis of
/// records. None where no point lies above or none below.
fn break_even(points: &[Point]) -> Option<f64> {
    let last_above = points.iter().rposition(|(_, ratio)| 1.0 <= *ratio)?;
    let (left, above) = points[last_above];
    let (right, below) = *points.get(last_above + 1)?;
    let share = (above - 1.0) / (above - below);
    Some((left.ln() + share * (right.ln() - left.ln())).exp())
}

fn drawn(curves: &[(Level, Vec<Point>)]) -> Plot {
    let mut series: Vec<Series> = curves
        .iter()
        .map(|(level, points)| Series {
            name: level.to_string(),
            points: points.clone(),
        })
        .collect();
    let ends = curves.first().map(|(_, points)| points);
    let ends = ends.and_then(|points| Some((points.first()?.0, points.last()?.0)));
    series.extend(ends.map(|(left, right)| Series {
        name: "naive".to_owned(),
        points: vec![(left, 1.0), (right, 1.0)],
    }));
    series.extend(curves.iter().filter_map(|(level, points)| {
        let records = break_even(points)?;
        Some(Series {
            name: format!("{level}: {records:.1}"),
            points: vec![(records, 0.0), (records, 1.0)],
        })
    }));
    Plot {
        title: "Price of a level / price of naive, with break-even".to_owned(),
        x: Axis {
            label: "records per checkpoint interval".to_owned(),
            scale: Scale::Logarithmic,
        },
        y: Axis {
            label: "price / naive's".to_owned(),
            scale: Scale::Linear,
        },
        series,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_break_even_lies_between_two_points() {
        for (curve, expected) in [
            (
                &[(1.0, 3.0), (100.0, 0.5), (200.0, 0.2)][..],
                100.0_f64.powf(0.8),
            ),
            (&[(10.0, 1.0), (100.0, 0.5)], 10.0),
        ] {
            let records = break_even(curve).unwrap();
            assert!((records - expected).abs() < 1e-9, "{records}");
        }
    }

    #[test]
    fn a_curve_that_rises_again_breaks_even_at_its_last_fall() {
        let curve = [(1.0, 2.0), (10.0, 0.5), (100.0, 1.5), (1000.0, 0.5)];
        let records = break_even(&curve).unwrap();
        assert!(
            (records - 100.0 * 10.0_f64.sqrt()).abs() < 1e-9,
            "{records}"
        );
    }

    #[test]
    fn no_curve_above_or_below_breaks_even() {
        assert_eq!(break_even(&[(1.0, 0.9), (10.0, 0.5)]), None);
        assert_eq!(break_even(&[(1.0, 2.0), (10.0, 1.5)]), None);
        assert_eq!(break_even(&[]), None);
        assert_eq!(
            told(Level::Basic, &[(1.0, 0.9)]),
            "basic costs less than naive at every point"
        );
        assert_eq!(
            told(Level::Basic, &[(1.0, 2.0)]),
            "basic costs more than naive at the last point"
        );
    }

    #[test]
    fn the_plot_marks_each_break_even() {
        let curves = [(Level::Atomic, vec![(1.0, 3.0), (100.0, 0.5)])];
        let plot = drawn(&curves);
        let names: Vec<&str> = plot.series.iter().map(|it| &*it.name).collect();
        assert_eq!(names, ["atomic", "naive", "atomic: 39.8"]);
    }
}
