//! The congestion window against what others do, on services simulated in virtual time.
//!
//! Prints every cell as a table with the algorithms that are ahead of ours in it, then the goals of
//! docs/explanation/congestion-window.md. `--csv` writes every cell to a file
//! (docs/reference/window-cells.csv has a run of it). All algorithms of a cell get the same seeds;
//! figures are medians over the seeds. Services and seeds that nothing was tuned on come last.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result};
use fader_measure::{Interval, interval_of_median, median};
use fader_simulator::traffic::{
    ALGORITHMS, Algorithm, HOLDOUT, Kind, Measured, SCENARIOS, Scenario, measure,
};

use crate::Options;
use crate::machine::Machine;
use crate::report::Report;

mod limit;
mod targets;

/// Seeds of each cell in a round; five rounds unless `--runs` says otherwise.
const SEEDS: u64 = 4;
/// Seeds of the services that nothing was tuned on come after this.
const HELD_SEEDS: u64 = 1_000;
/// A quick run has one of so many services.
const QUICK_STEP: usize = 4;
/// Clients of one kind at a service.
const CLIENTS: [u32; 2] = [1, 4];
/// What is tried for the best fixed number of requests in flight, in all.
const COUNTS: [u32; 16] = [
    1, 2, 4, 8, 16, 32, 40, 48, 56, 68, 80, 100, 128, 160, 250, 500,
];
/// The share of refused requests that the best fixed number may have.
const REFUSED_MAX: f64 = 0.01;

/// One algorithm in one scenario: one figure for each seed.
struct Row {
    algorithm: Algorithm,
    runs: Vec<Measured>,
}

/// One scenario with so many clients.
struct Cell {
    scenario: &'static Scenario,
    clients: u32,
    /// Whether nothing was tuned on it.
    is_held_out: bool,
    rows: Vec<Row>,
}

impl Row {
    fn samples(&self, figure: impl Fn(&Measured) -> f64) -> Vec<f64> {
        self.runs.iter().map(figure).collect()
    }

    fn median(&self, figure: impl Fn(&Measured) -> f64) -> f64 {
        median(&self.samples(figure))
    }

    fn interval(&self, seed: u64, figure: impl Fn(&Measured) -> f64) -> Interval {
        let samples = self.samples(figure);
        interval_of_median(&samples, seed)
    }
}

impl Cell {
    fn row(&self, algorithm: Algorithm) -> Option<&Row> {
        self.rows.iter().find(|row| row.algorithm == algorithm)
    }
}

/// Seconds, or never.
fn time(span: Option<f64>) -> f64 {
    span.unwrap_or(f64::INFINITY)
}

pub(crate) fn run(options: &Options) -> Result<bool> {
    let machine = Machine::describe(&options.scratch);
    machine.print();
    let seeds = if options.quick {
        1
    } else {
        SEEDS * u64::from(options.runs)
    };
    let clients = if options.quick {
        &CLIENTS[..1]
    } else {
        &CLIENTS[..]
    };
    let step = if options.quick { QUICK_STEP } else { 1 };
    println!("{seeds} seeds of each cell; medians, with 95 % intervals in brackets");
    let cells = cells(step, clients, seeds);
    for cell in &cells {
        print(cell, options.seed);
    }
    if let Some(path) = &options.csv {
        write_csv(path, &cells, options.seed)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    targets::print_held_out(&cells);
    let report = Report {
        benchmark: "window",
        machine,
        sides: Vec::new(),
        findings: targets::findings(&cells, options.seed),
        notes: targets::notes(&cells),
    };
    report.finish(options.json.as_deref(), options.quick)
}

/// Runs one of so many services, a cell at a time on each processor.
fn cells(step: usize, clients: &[u32], seeds: u64) -> Vec<Cell> {
    let tuned = SCENARIOS.iter().map(|scenario| (scenario, false));
    let held = HOLDOUT.iter().map(|scenario| (scenario, true));
    let plans: Vec<(&'static Scenario, bool, u32)> = tuned
        .chain(held)
        .step_by(step)
        .flat_map(|(scenario, is_held)| clients.iter().map(move |it| (scenario, is_held, *it)))
        .collect();
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, Cell)>> = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some((scenario, is_held, clients)) = plans.get(index) else {
                        break;
                    };
                    let cell = cell(scenario, *is_held, *clients, seeds);
                    done.lock()
                        .expect("no thread panics with it")
                        .push((index, cell));
                }
            });
        }
    });
    let mut done = done.into_inner().expect("all threads are over");
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, cell)| cell).collect()
}

fn cell(scenario: &'static Scenario, is_held_out: bool, clients: u32, seeds: u64) -> Cell {
    let before = if is_held_out { HELD_SEEDS } else { 0 };
    let fixed = Algorithm::Fixed(best_fixed(scenario, clients));
    // Several clients of a limited rate meet at random, with any knowledge.
    let is_met = 1 < clients && matches!(scenario.shape.kind, Kind::Rate { .. });
    let algorithms = [Algorithm::Oracle]
        .into_iter()
        .chain(is_met.then_some(Algorithm::Uncoordinated))
        .chain([fixed])
        .chain(ALGORITHMS);
    let rows = algorithms.map(|algorithm| Row {
        algorithm,
        runs: (before + 1..=before + seeds)
            .map(|seed| measure(scenario, algorithm, clients, seed))
            .collect(),
    });
    Cell {
        scenario,
        clients,
        is_held_out,
        rows: rows.collect(),
    }
}

/// The number in flight with the most goodput among those that are hardly refused, or that which is
/// refused least.
fn best_fixed(scenario: &Scenario, clients: u32) -> u32 {
    let tried = COUNTS.iter().filter(|count| clients <= **count);
    let tried = tried.map(|count| {
        (
            *count,
            measure(scenario, Algorithm::Fixed(*count), clients, 0),
        )
    });
    let worth = |it: &Measured| match it.rejected <= REFUSED_MAX {
        true => it.goodput,
        false => -it.rejected,
    };
    tried
        .max_by(|(_, one), (_, other)| worth(one).total_cmp(&worth(other)))
        .map_or(clients, |(count, _)| count)
}

fn print(cell: &Cell, seed: u64) {
    let Cell {
        scenario, clients, ..
    } = cell;
    let plural = if *clients == 1 { "client" } else { "clients" };
    let held = if cell.is_held_out { "held out: " } else { "" };
    println!("\n**{held}{}, {clients} {plural}**\n", scenario.name);
    println!(
        "| algorithm | goodput % | bound | refused % | given up % | p50 ms | p99 ms | Jain | \
         90 % after s | again after s |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    for row in &cell.rows {
        let goodput = row.interval(seed, |run| run.goodput * 100.0);
        let refused = row.interval(seed, |run| run.rejected * 100.0);
        let limit = limit::goodput(&scenario.shape, refused.estimate / 100.0) * 100.0;
        let rise = row.median(|run| time(run.rise));
        let recovery = row.median(|run| time(run.recovery));
        println!(
            "| {} | {:.1} [{:.1}, {:.1}] | {limit:.0} | {:.2} [{:.2}, {:.2}] | {:.2} | {:.0} | \
             {:.0} | {:.3} | {} | {} |",
            row.algorithm.name(),
            goodput.estimate,
            goodput.low,
            goodput.high,
            refused.estimate,
            refused.low,
            refused.high,
            row.median(|run| run.failed * 100.0),
            row.median(|run| run.median_ms),
            row.median(|run| run.p99_ms),
            row.median(|run| run.jain),
            seconds(rise),
            seconds(recovery),
        );
    }
    for ahead in targets::ahead(cell) {
        println!("\n{ahead}");
    }
}

/// The columns of [`write_csv`]: medians, 95 % intervals of two of them. No time means never.
const COLUMNS: [&str; 17] = [
    "held_out",
    "service",
    "clients",
    "algorithm",
    "goodput_percent",
    "goodput_low",
    "goodput_high",
    "bound_percent",
    "refused_percent",
    "refused_low",
    "refused_high",
    "given_up_percent",
    "p50_ms",
    "p99_ms",
    "jain",
    "rise_s",
    "recovery_s",
];

fn write_csv(path: &Path, cells: &[Cell], seed: u64) -> Result<()> {
    let mut out = csv::Writer::from_path(path)?;
    out.write_record(COLUMNS)?;
    for cell in cells {
        for row in &cell.rows {
            let goodput = row.interval(seed, |run| run.goodput * 100.0);
            let refused = row.interval(seed, |run| run.rejected * 100.0);
            let shape = &cell.scenario.shape;
            let bound = limit::goodput(shape, refused.estimate / 100.0) * 100.0;
            let known = |span: f64| match span.is_finite() {
                true => format!("{span:.2}"),
                false => String::new(),
            };
            out.write_record([
                cell.is_held_out.to_string(),
                cell.scenario.name.to_owned(),
                cell.clients.to_string(),
                row.algorithm.name(),
                format!("{:.1}", goodput.estimate),
                format!("{:.1}", goodput.low),
                format!("{:.1}", goodput.high),
                format!("{bound:.0}"),
                format!("{:.2}", refused.estimate),
                format!("{:.2}", refused.low),
                format!("{:.2}", refused.high),
                format!("{:.2}", row.median(|run| run.failed * 100.0)),
                format!("{:.0}", row.median(|run| run.median_ms)),
                format!("{:.0}", row.median(|run| run.p99_ms)),
                format!("{:.3}", row.median(|run| run.jain)),
                known(row.median(|run| time(run.rise))),
                known(row.median(|run| time(run.recovery))),
            ])?;
        }
    }
    out.flush()?;
    Ok(())
}

fn seconds(span: f64) -> String {
    match span.is_finite() {
        true => format!("{span:.2}"),
        false => "–".to_owned(),
    }
}
