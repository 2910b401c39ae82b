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
    scenario: &'static str,
    clients: u32,
    what: &'static str,
    figure: fn(&Measured) -> f64,
    unit: &'static str,
    target: Target,
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
const SLOW: &str = "rate 10/s, burst 2";
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

/// What is promised of every service of a limited rate: for one client, then for four.
fn limited(name: &'static str) -> [Aim; 5] {
    [
        aim(name, 1, "goodput", goodput, " %", Target::AtLeast(97.0)),
        aim(name, 1, "refused", refused, " %", Target::AtMost(1.0)),
        aim(name, 4, "goodput", goodput, " %", Target::AtLeast(99.0)),
        aim(name, 4, "refused", refused, " %", Target::AtMost(2.0)),
        aim(name, 4, "Jain", jain, "", Target::AtLeast(0.99)),
    ]
}

/// All aims that are one figure of ours each.
fn aims() -> impl Iterator<Item = Aim> {
    let rates = [RATE, SHALLOW, FAST, PUTS].into_iter().flat_map(limited);
    // Four clients are more than its bucket holds (docs/explanation/congestion-window.md, "Slow
    // services").
    let slow = limited(SLOW).into_iter().filter(|aim| aim.clients == 1);
    rates.chain(slow).chain(OTHER_AIMS)
}

/// Those of other services, and of other figures; the median bound is 1.3 times 33.9 ms.
const OTHER_AIMS: [Aim; 7] = [
    aim(QUEUE, 1, "goodput", goodput, " %", Target::AtLeast(97.0)),
    aim(
        QUEUE,
        1,
        "median latency",
        median_ms,
        " ms",
        Target::AtMost(44.0),
    ),
    aim(RATE, 1, "90 % from cold", rise, " s", Target::AtMost(1.5)),
    aim(FAST, 1, "90 % from cold", rise, " s", Target::AtMost(4.0)),
    aim(RETURN, 1, "90 % again", recovery, " s", Target::AtMost(1.0)),
    aim(RETURN, 4, "90 % again", recovery, " s", Target::AtMost(1.0)),
    aim(WITHIN, 1, "given up", failed, " %", Target::AtMost(0.0)),
];

/// Everything that can be met or missed.
pub(super) fn findings(cells: &[Cell], seed: u64) -> Vec<Finding> {
    let mut findings = Vec::new();
    for aim in aims() {
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
    for (is_held_out, which) in [(false, "tuned on"), (true, "held out")] {
        let (beaten, _) = beaten(cells, is_held_out);
        findings.push(Finding {
            name: format!("cells {which} in which another beats ours"),
            interval: ratio_of_medians(&[beaten as f64], &[1.0], seed),
            unit: "",
            target: Target::AtMost(0.0),
        });
    }
    findings
}

/// Ours beside 34 threads, in the article's own figures.
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

/// The realisable algorithms that beat ours in a cell: more than 3 % more goodput, with no more
/// refused and no higher median latency. Also those that are ahead by less, called so.
pub(super) fn ahead(cell: &Cell) -> Vec<String> {
    let Some(ours) = cell.row(Algorithm::Ours) else {
        return Vec::new();
    };
    let others = ALGORITHMS.iter().filter_map(|it| cell.row(*it));
    let ahead = others.filter(|other| is_ahead(ours, other, 1.0));
    ahead
        .map(|other| {
            let verdict = match is_ahead(ours, other, BEATEN) {
                true => "beaten",
                false => "a little ahead",
            };
            format!(
                "{verdict}: {} ({}), {}: goodput {:.1} % against {:.1} %, refused {:.2} % against \
                 {:.2} %",
                cell.scenario.name,
                cell.clients,
                other.algorithm.name(),
                other.median(goodput),
                ours.median(goodput),
                other.median(refused),
                ours.median(refused),
            )
        })
        .collect()
}

/// In how many cells ours is beaten, of those that were tuned on and of those that were not.
fn beaten(cells: &[Cell], is_held_out: bool) -> (usize, usize) {
    let of_kind = || cells.iter().filter(move |it| it.is_held_out == is_held_out);
    let is_beaten = |cell: &&Cell| ahead(cell).iter().any(|it| it.starts_with("beaten"));
    (of_kind().filter(is_beaten).count(), of_kind().count())
}

/// Where others are ahead, and how often.
pub(super) fn notes(cells: &[Cell]) -> Vec<String> {
    let mut notes: Vec<String> = cells.iter().flat_map(ahead).collect();
    for (is_held_out, which) in [(false, "tuned on"), (true, "held out")] {
        let (beaten, of) = beaten(cells, is_held_out);
        notes.push(format!(
            "beaten in {beaten} of {of} cells {which}: more than 3 % more goodput, no more \
             refused, no higher median"
        ));
    }
    notes
}

/// Ours on the services that nothing was tuned on.
pub(super) fn print_held_out(cells: &[Cell]) {
    println!("\n| held out (clients) | goodput % | refused % | given up % | p50 ms | Jain |");
    println!("|---|---|---|---|---|---|");
    for cell in cells.iter().filter(|cell| cell.is_held_out) {
        if let Some(ours) = cell.row(Algorithm::Ours) {
            println!(
                "| {} ({}) | {:.1} | {:.2} | {:.2} | {:.0} | {:.3} |",
                cell.scenario.name,
                cell.clients,
                ours.median(goodput),
                ours.median(refused),
                ours.median(failed),
                ours.median(median_ms),
                ours.median(jain),
            );
        }
    }
}

/// More goodput than ours, by this factor, bought neither with refusals nor with latency.
fn is_ahead(ours: &Row, other: &Row, factor: f64) -> bool {
    // Less than a tenth of a percent is chance.
    let least = (ours.median(goodput) * factor).max(ours.median(goodput) + 0.1);
    least < other.median(goodput)
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
