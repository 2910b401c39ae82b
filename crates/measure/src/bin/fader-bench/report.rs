//! Results as tables, and as JSON.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use fader_measure::{Interval, interval_of_median};
use serde::Serialize;

use crate::Options;
use crate::machine::Machine;

/// What a benchmark found.
#[derive(Serialize)]
pub(crate) struct Report {
    pub(crate) benchmark: &'static str,
    pub(crate) machine: Machine,
    pub(crate) sides: Vec<Side>,
    pub(crate) findings: Vec<Finding>,
    /// What a reader must know to read the figures.
    pub(crate) notes: Vec<String>,
}

/// One side of a comparison, in medians over the rounds.
#[derive(Serialize)]
pub(crate) struct Side {
    pub(crate) name: String,
    pub(crate) rate: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    /// Processor time of the server per operation.
    pub(crate) server_us: f64,
    pub(crate) rates: Vec<f64>,
}

/// A figure with its target.
#[derive(Serialize)]
pub(crate) struct Finding {
    pub(crate) name: String,
    pub(crate) interval: Interval,
    pub(crate) unit: &'static str,
    pub(crate) target: Target,
}

/// What a figure should be.
#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Target {
    AtLeast(f64),
    AtMost(f64),
    /// At least this, as far as the interval can tell.
    Reaches(f64),
}

/// A figure that each seed gives anew: its name, its unit and its target.
pub(crate) type Figure = (&'static str, &'static str, Target);

/// What the seeds of a benchmark give: medians of their figures.
pub(crate) fn of_seeds<const N: usize>(
    options: &Options,
    figures: [Figure; N],
    measure: impl Fn(u64) -> Result<[f64; N]>,
) -> Result<Vec<Finding>> {
    let mut samples = [const { Vec::new() }; N];
    for run in 0..options.runs() as u64 {
        let found = measure(options.seed + run)?;
        for (samples, figure) in samples.iter_mut().zip(found) {
            samples.push(figure);
        }
    }
    let findings = figures.into_iter().zip(samples);
    let findings = findings.map(|((name, unit, target), samples)| Finding {
        name: name.to_owned(),
        interval: interval_of_median(&samples, options.seed),
        unit,
        target,
    });
    Ok(findings.collect())
}

impl Target {
    fn is_met_by(self, figure: f64) -> bool {
        match self {
            Target::AtLeast(bound) | Target::Reaches(bound) => bound <= figure,
            Target::AtMost(bound) => figure <= bound,
        }
    }

    fn text(self) -> String {
        match self {
            Target::AtLeast(bound) => format!(">= {}", short(bound)),
            Target::AtMost(bound) => format!("<= {}", short(bound)),
            Target::Reaches(bound) => format!("reaches {}", short(bound)),
        }
    }
}

impl Finding {
    fn is_met(&self) -> bool {
        let Interval { estimate, high, .. } = self.interval;
        self.target.is_met_by(match self.target {
            Target::Reaches(_) => high,
            Target::AtLeast(_) | Target::AtMost(_) => estimate,
        })
    }

    fn verdict(&self) -> &'static str {
        let Interval { low, high, .. } = self.interval;
        let is_sure = self.target.is_met_by(low) == self.target.is_met_by(high);
        match (self.is_met(), is_sure) {
            (true, true) => "met",
            (true, false) => "met, interval crosses the target",
            (false, true) => "missed",
            (false, false) => "missed, interval crosses the target",
        }
    }
}

impl Report {
    /// Prints the sides, the figures with their verdicts, and the notes.
    pub(crate) fn print(&self, is_quick: bool) {
        println!();
        if !self.sides.is_empty() {
            println!("{}", table(&self.side_rows()));
        }
        println!("{}", table(&self.finding_rows(is_quick)));
        for note in &self.notes {
            println!("{note}");
        }
    }

    /// Prints the report and writes it where asked; whether all targets were met, which a quick run
    /// does not judge.
    pub(crate) fn finish(&self, json: Option<&Path>, is_quick: bool) -> Result<bool> {
        self.print(is_quick);
        if let Some(path) = json {
            let text = serde_json::to_string_pretty(self)?;
            fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(is_quick || self.findings.iter().all(Finding::is_met))
    }

    fn side_rows(&self) -> Vec<Vec<String>> {
        let titles = [
            "median of rounds",
            "per second",
            "p50 ms",
            "p99 ms",
            "server CPU us",
        ];
        let row = |side: &Side| {
            // What was not measured is no number.
            let measured = |figure: f64, digits: usize| match figure.is_nan() {
                true => String::new(),
                false => format!("{figure:.digits$}"),
            };
            vec![
                side.name.clone(),
                format!("{:.0}", side.rate),
                measured(side.p50_ms, 3),
                measured(side.p99_ms, 3),
                measured(side.server_us, 1),
            ]
        };
        let titles = titles.map(str::to_owned).to_vec();
        std::iter::once(titles)
            .chain(self.sides.iter().map(row))
            .collect()
    }

    fn finding_rows(&self, is_quick: bool) -> Vec<Vec<String>> {
        let titles = ["figure", "median", "95 % interval", "target", "verdict"];
        let row = |finding: &Finding| {
            let Finding {
                name,
                interval,
                unit,
                target,
            } = finding;
            vec![
                name.clone(),
                format!("{}{unit}", short(interval.estimate)),
                format!("{} to {}", short(interval.low), short(interval.high)),
                target.text(),
                if is_quick {
                    "not judged"
                } else {
                    finding.verdict()
                }
                .to_owned(),
            ]
        };
        let titles = titles.map(str::to_owned).to_vec();
        std::iter::once(titles)
            .chain(self.findings.iter().map(row))
            .collect()
    }
}

/// Three digits that count.
fn short(figure: f64) -> String {
    match figure.abs() {
        size if 99.95 <= size => format!("{figure:.0}"),
        size if 9.995 <= size => format!("{figure:.1}"),
        _ => format!("{figure:.2}"),
    }
}

/// Columns as wide as their widest cell: the first to the left, figures to the right.
fn table(rows: &[Vec<String>]) -> String {
    let count = rows.first().map_or(0, Vec::len);
    let is_text = |column: usize| column == 0 || rows[0][column] == "verdict";
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..count)
        .map(|column| width(column).unwrap_or(0))
        .collect();
    let mut text = String::new();
    for (index, row) in rows.iter().enumerate() {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let width = widths[column];
            line += &match is_text(column) {
                true => format!("{cell:<width$}  "),
                false => format!("{cell:>width$}  "),
            };
        }
        text += line.trim_end();
        text += "\n";
        if index == 0 {
            text += &"-".repeat(widths.iter().sum::<usize>() + 2 * (count - 1));
            text += "\n";
        }
    }
    text
}
