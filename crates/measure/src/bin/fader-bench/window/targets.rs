//! What the window must show, and in which cells it is beaten.

use fader_measure::ratio_of_medians;
use fader_simulator::traffic::{ALGORITHMS, Algorithm, Measured};

use super::{Cell, Row, limit, time};
use crate::report::{Finding, Target};

/// More goodput than ours by this much, without more refusals or a higher median latency, beats us.
const BEATEN: f64 = 1.03;

/// A figure of one algorithm in one cell.
struct Aim {
    scenario: &'static str,
    clients: u32,
    what: &'static str,
    figure: fn(&Measured) -> f64,
    unit: &'static str,
    target: Target,
}

const fn aim(
    (scenario, clients): (&'static str, u32),
    what: &'static str,
    figure: fn(&Measured) -> f64,
    (unit, target): (&'static str, Target),
) -> Aim {
    Aim {
        scenario,
        clients,
        what,
        figure,
        unit,
        target,
    }
}

const RATE: &str = "rate 1,000/s, burst 100";
const SHALLOW: &str = "rate 1,000/s, burst 10";
const FAST: &str = "rate 10,000/s, burst 1,000";
const QUEUE: &str = "32 slots, queue 200";
const RETURN: &str = "capacity 1,000, 300, 1,000/s";
const WITHIN: &str = "demand 800/s of 1,000/s";
const GETS: &str = "seed: gets, 1,300/s, 113 ms";
const PUTS: &str = "seed: puts, 75/s, 113 ms";
const NO_QUEUE: &str = "32 slots, no queue";

fn goodput(run: &Measured) -> f64 {
    run.goodput * 100.0
}

fn refused(run: &Measured) -> f64 {
    run.rejected * 100.0
}

fn failed(run: &Measured) -> f64 {
    run.failed * 100.0
}

fn jain(run: &Measured) -> f64 {
    run.jain
}

fn rise(run: &Measured) -> f64 {
    time(run.rise)
}

fn recovery(run: &Measured) -> f64 {
    time(run.recovery)
}

fn median_ms(run: &Measured) -> f64 {
    run.median_ms
}

/// The aims that are one figure of ours each; the median bound is 1.3 times 33.9 ms.
const AIMS: [Aim; 21] = [
    aim((RATE, 1), "goodput", goodput, (" %", Target::AtLeast(97.0))),
    aim((RATE, 1), "refused", refused, (" %", Target::AtMost(1.0))),
    aim((RATE, 4), "goodput", goodput, (" %", Target::AtLeast(99.0))),
    aim((RATE, 4), "refused", refused, (" %", Target::AtMost(2.0))),
    aim((RATE, 4), "Jain", jain, ("", Target::AtLeast(0.99))),
    aim(
        (SHALLOW, 1),
        "goodput",
        goodput,
        (" %", Target::AtLeast(97.0)),
    ),
    aim(
        (SHALLOW, 1),
        "refused",
        refused,
        (" %", Target::AtMost(1.0)),
    ),
    aim(
        (SHALLOW, 4),
        "goodput",
        goodput,
        (" %", Target::AtLeast(99.0)),
    ),
    aim(
        (SHALLOW, 4),
        "refused",
        refused,
        (" %", Target::AtMost(2.0)),
    ),
    aim((SHALLOW, 4), "Jain", jain, ("", Target::AtLeast(0.99))),
    aim((FAST, 1), "goodput", goodput, (" %", Target::AtLeast(97.0))),
    aim((FAST, 1), "refused", refused, (" %", Target::AtMost(1.0))),
    aim((FAST, 4), "goodput", goodput, (" %", Target::AtLeast(99.0))),
    aim((FAST, 4), "refused", refused, (" %", Target::AtMost(2.0))),
    aim((FAST, 4), "Jain", jain, ("", Target::AtLeast(0.99))),
    aim(
        (QUEUE, 1),
        "goodput",
        goodput,
        (" %", Target::AtLeast(97.0)),
    ),
    aim(
        (QUEUE, 1),
        "median latency",
        median_ms,
        (" ms", Target::AtMost(44.0)),
    ),
    aim(
        (RATE, 1),
        "90 % from cold",
        rise,
        (" s", Target::AtMost(1.5)),
    ),
    aim(
        (FAST, 1),
        "90 % from cold",
        rise,
        (" s", Target::AtMost(4.0)),
    ),
    aim(
        (RETURN, 1),
        "90 % again",
        recovery,
        (" s", Target::AtMost(1.0)),
    ),
    aim((WITHIN, 1), "given up", failed, (" %", Target::AtMost(0.0))),
];

/// Everything that can be met or missed.
pub(super) fn findings(cells: &[Cell], seed: u64) -> Vec<Finding> {
    let mut findings = Vec::new();
    for aim in &AIMS {
        if let Some(row) = ours(cells, aim.scenario, aim.clients) {
            findings.push(Finding {
                name: format!("{} ({}): {}", aim.scenario, aim.clients, aim.what),
                interval: row.interval(seed, aim.figure),
                unit: aim.unit,
                target: aim.target,
            });
        }
    }
    if let Some(row) = ours(cells, NO_QUEUE, 1) {
        let bound = |run: &Measured| {
            let shape = cells.iter().find(|cell| cell.scenario.name == NO_QUEUE);
            shape.map_or(f64::NAN, |cell| {
                run.goodput / limit::goodput(&cell.scenario.shape, run.rejected)
            })
        };
        findings.push(Finding {
            name: format!("{NO_QUEUE} (1): goodput / Erlang's bound"),
            interval: row.interval(seed, bound),
            unit: "",
            target: Target::AtLeast(1.0),
        });
    }
    findings.extend(seed_scenario(cells, seed));
    findings
}

/// Ours beside 34 threads, in the seed's own figures.
fn seed_scenario(cells: &[Cell], seed: u64) -> Vec<Finding> {
    let sides = [
        (
            GETS,
            "goodput / 34 threads'",
            goodput as fn(&Measured) -> f64,
            4.3,
        ),
        (PUTS, "goodput / 34 threads'", goodput, 0.99),
        (PUTS, "34 threads' refused / ours", refused, 10.0),
    ];
    let finding = |(scenario, what, figure, least): (_, &str, fn(&Measured) -> f64, f64)| {
        let ours = ours(cells, scenario, 1)?.samples(figure);
        let theirs = row(cells, scenario, 1, Algorithm::Threads)?.samples(figure);
        let interval = match what.starts_with("34") {
            true => ratio_of_medians(&theirs, &ours, seed),
            false => ratio_of_medians(&ours, &theirs, seed),
        };
        Some(Finding {
            name: format!("{scenario}: {what}"),
            interval,
            unit: "",
            target: Target::AtLeast(least),
        })
    };
    sides.into_iter().filter_map(finding).collect()
}

/// The cells where a realisable algorithm beats ours.
pub(super) fn notes(cells: &[Cell]) -> Vec<String> {
    let mut notes = Vec::new();
    for cell in cells {
        let Some(ours) = cell.row(Algorithm::Ours) else {
            continue;
        };
        for other in ALGORITHMS.iter().filter_map(|it| cell.row(*it)) {
            if is_beaten(ours, other) {
                notes.push(format!(
                    "beaten: {} ({}) by {}: goodput {:.1} % against {:.1} %",
                    cell.scenario.name,
                    cell.clients,
                    other.algorithm.name(),
                    other.median(goodput),
                    ours.median(goodput),
                ));
            }
        }
    }
    notes.push(format!(
        "beaten in {} of {} cells: more than 3 % more goodput, no more refused, no higher median",
        notes.len(),
        cells.len()
    ));
    notes
}

fn is_beaten(ours: &Row, other: &Row) -> bool {
    BEATEN * ours.median(goodput) < other.median(goodput)
        && other.median(refused) <= ours.median(refused)
        && other.median(median_ms) <= ours.median(median_ms)
}

fn ours<'a>(cells: &'a [Cell], scenario: &str, clients: u32) -> Option<&'a Row> {
    row(cells, scenario, clients, Algorithm::Ours)
}

fn row<'a>(
    cells: &'a [Cell],
    scenario: &str,
    clients: u32,
    algorithm: Algorithm,
) -> Option<&'a Row> {
    let cell = cells
        .iter()
        .find(|cell| cell.scenario.name == scenario && cell.clients == clients)?;
    cell.row(algorithm)
}
