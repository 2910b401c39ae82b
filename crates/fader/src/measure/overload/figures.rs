//! The table of the experiment with overload, and what the paper says beside it.

use std::collections::BTreeSet;
use std::fmt::Write;

use fader_measure::statistics::wilson;

use super::worker::{Requests, Told};

/// The table, for a terminal.
pub(super) fn text(rounds: &[Vec<Told>], target: &str, seconds: f64, threads: u32) -> String {
    let mut text = format!(
        "\nTarget: {target}\n{threads} threads that get and {threads} that put in each worker, \
         {seconds:.0} s\n\n{:<10}{:>10}{:>22}{:>10}{:>10}{:>22}{:>10}{:>12}\n",
        "workers",
        "gets/s",
        "503: eventual, cons.",
        "p99 ms",
        "puts/s",
        "503: plain, cond.",
        "p99 ms",
        "with a 503",
    );
    for (round, all) in (1..).zip(rounds) {
        let _ = write!(text, "{round:<10}");
        for of in [
            |told: &Told| told.gets.clone(),
            |told: &Told| told.puts.clone(),
        ] {
            let sum = sum(all.iter().map(of));
            let [plain, strong] = [0, 1].map(|level| match share(&sum, level) {
                Some(share) => format!("{:.1} %", 100.0 * share),
                None => "-".to_owned(),
            });
            let rate = sum.done.iter().sum::<u64>() as f64 / seconds;
            let shares = format!("{plain}, {strong}");
            let _ = write!(text, "{rate:>10.1}{shares:>22}{:>10.1}", sum.p99_ms);
        }
        let _ = writeln!(text, "{:>9} s", with_503(all));
    }
    text + &claims(rounds, seconds) + &others(rounds)
}

/// Requests of several workers; latencies are those of the slowest.
fn sum(all: impl Iterator<Item = Requests>) -> Requests {
    all.fold(Requests::default(), |mut sum, one| {
        for level in [0, 1] {
            sum.done[level] += one.done[level];
            sum.unavailable[level] += one.unavailable[level];
        }
        for (status, count) in one.other {
            *sum.other.entry(status).or_default() += count;
        }
        sum.p50_ms = sum.p50_ms.max(one.p50_ms);
        sum.p99_ms = sum.p99_ms.max(one.p99_ms);
        sum
    })
}

/// The share of answers with 503.
fn share(of: &Requests, level: usize) -> Option<f64> {
    let answers = of.done[level] + of.unavailable[level];
    (0 < answers).then(|| of.unavailable[level] as f64 / answers as f64)
}

/// Seconds in which any worker was told 503.
fn with_503(all: &[Told]) -> usize {
    let seconds = all.iter().flat_map(|told| &told.seconds);
    seconds.collect::<BTreeSet<_>>().len()
}

fn claims(rounds: &[Vec<Told>], seconds: f64) -> String {
    let first = |least: f64| {
        let is_so = |all: &Vec<Told>| least <= with_503(all) as f64;
        match rounds.iter().position(is_so) {
            Some(at) => format!("{} workers", at + 1),
            None => "no number of workers".to_owned(),
        }
    };
    // The first and the last second are not whole.
    let steady = (seconds - 1.0).max(1.0);
    let mut text = format!(
        "\n503 now and then from {} on (the paper: 2 or 3), in every second from {} on (4)\n",
        first(1.0),
        first(steady)
    );
    let all = || rounds.iter().flatten();
    for (name, requests) in [
        ("consistent gets", sum(all().map(|told| told.gets.clone()))),
        ("conditional puts", sum(all().map(|told| told.puts.clone()))),
    ] {
        let shares = (share(&requests, 0), share(&requests, 1));
        let verdict = match shares {
            (Some(plain), Some(strong)) if 0.0 < plain => {
                let verdict = if is_alike(&requests) {
                    "holds"
                } else {
                    "DOES NOT HOLD"
                };
                format!(
                    "{verdict}: {:.2} % and {:.2} %",
                    100.0 * strong,
                    100.0 * plain
                )
            }
            _ => "not measured: no 503".to_owned(),
        };
        let _ = writeln!(
            text,
            "The paper: {name} are refused as often as plain ones: {verdict}"
        );
    }
    text
}

/// Whether both variants are refused as often: their 95 % intervals overlap.
fn is_alike(of: &Requests) -> bool {
    let [plain, strong] = [0, 1].map(|level| {
        let answers = (of.done[level] + of.unavailable[level]).max(1) as f64;
        wilson(of.unavailable[level] as f64 / answers, answers)
    });
    plain.low <= strong.high && strong.low <= plain.high
}

fn others(rounds: &[Vec<Told>]) -> String {
    let all = || rounds.iter().flatten();
    let count = |of: fn(&Told) -> u64| all().map(of).sum::<u64>();
    let (same, other) = (
        count(|told| told.bodies.same),
        count(|told| told.bodies.other),
    );
    let mut text = format!(
        "Bodies of {} answers with 503: {same} as in the paper but for the RequestID, \
         {other} not\n",
        same + other
    );
    if let Some(example) = all().find_map(|told| told.bodies.example.as_ref()) {
        let _ = writeln!(text, "  such as {example}");
    }
    let rest = sum(all().flat_map(|told| [told.gets.clone(), told.puts.clone()]));
    for (status, count) in rest.other {
        let _ = match status {
            0 => writeln!(
                text,
                "{count} requests without an answer, or with a wrong one"
            ),
            status => writeln!(text, "{count} requests answered with {status}"),
        };
    }
    text
}
