//! The paper's five figures from what was measured, as text and as plots.

use std::fmt::Write;
use std::path::Path;

use anyhow::Result;
use fader_measure::{Axis, Plot, Scale, Series, median};

use super::load::{Failures, Kind};
use super::promises::Promises;
use super::{EVENTUAL_SHARES, MIX_DELAY_MS, Measured, MixedPoint, Point, WRITE_SHARES};

/// A share in percent.
const PERCENT: f64 = 100.0;

/// What the paper's text says of a figure: its pictures come without numbers.
const PAPER: [(u64, &str); 3] = [
    (
        0,
        "EC reads slightly slower than SC reads unless writes dominate; EC writes faster",
    ),
    (
        50,
        "EC writes close to 5 times faster than SC writes on average; EC reads take almost 50 % \
         less\n             time than SC reads where there are more writes",
    ),
    (
        100,
        "EC operations stay between 100 and 200 ms; SC writes almost 900 ms at 75 % writes",
    ),
];

/// All figures, for a terminal.
pub(super) fn text(measured: &Measured) -> String {
    let mut text = String::new();
    for (number, (delay_ms, said)) in PAPER.into_iter().enumerate() {
        let points = || {
            measured
                .latency
                .iter()
                .filter(move |p| p.delay_ms == delay_ms)
        };
        if points().next().is_none() {
            continue;
        }
        let _ = writeln!(
            text,
            "\nFigure {}: mean latency in ms, one-way delay {delay_ms} ms, {} wiring",
            number + 1,
            measured.wiring
        );
        let names = Kind::ALL.map(|kind| format!("{:>10}", kind.name()));
        let _ = writeln!(text, "{:<12}{}", "writes", names.concat());
        for writes in WRITE_SHARES {
            let _ = write!(text, "{:<12}", format!("{:.0} %", PERCENT * writes));
            for kind in Kind::ALL {
                let mean = mean_of(points(), kind, writes);
                let _ = write!(text, "{mean:>10.1}");
            }
            text.push('\n');
        }
        let _ = writeln!(text, "  the paper: {said}");
        let _ = writeln!(text, "  ours:      {}", ratios(points, delay_ms));
        text.push_str(&spread(points));
        if let Some(promises) = measured.promises.get(&delay_ms) {
            text.push_str(&promises.text());
        }
    }
    text + &mixed(&measured.mixed) + &failures(&measured.tally) + &availability(measured)
}

/// Percentiles of a figure's points.
fn spread<'a, I: Iterator<Item = &'a Point>>(points: impl Fn() -> I) -> String {
    let names = Kind::ALL.map(|kind| format!("{:>26}", kind.name()));
    let mut text = format!("{:<18}{}\n", "p50 / p90 / p99", names.concat());
    for writes in WRITE_SHARES {
        let _ = write!(text, "{:<18}", format!("{:.0} %", PERCENT * writes));
        for kind in Kind::ALL {
            let mut own = points().filter(|point| point.kind == kind && point.writes == writes);
            let of_kind = own
                .next()
                .map_or([f64::NAN; 3], |point| point.percentiles_ms);
            let _ = write!(text, "{:>26}", percentiles(of_kind));
        }
        text.push('\n');
    }
    text
}

fn percentiles([p50, p90, p99]: [f64; 3]) -> String {
    format!("{p50:.1} / {p90:.1} / {p99:.1}")
}

fn failures(tally: &Failures) -> String {
    let mut text = format!("\nOf {} operations ", tally.asked);
    if tally.failed.is_empty() {
        return text + "all were carried out\n";
    }
    text.push_str("not carried out, and in no latency:\n");
    for (why, count) in &tally.failed {
        let _ = writeln!(text, "{count:>8} {why}");
    }
    text
}

/// What corresponds to the paper's words.
fn ratios<'a, I: Iterator<Item = &'a Point>>(points: impl Fn() -> I, delay_ms: u64) -> String {
    let mean = |kind, writes| mean_of(points(), kind, writes);
    let writes =
        WRITE_SHARES.map(|share| mean(Kind::StrongWrite, share) / mean(Kind::EventualWrite, share));
    let [.., most] = WRITE_SHARES;
    let reads = mean(Kind::EventualRead, most) / mean(Kind::StrongRead, most);
    let text = format!(
        "EC writes {:.1} times faster than SC writes on average; EC reads take {:.2} of SC reads \
         at {:.0} % writes",
        writes.iter().sum::<f64>() / writes.len() as f64,
        reads,
        PERCENT * most,
    );
    if delay_ms == 0 {
        return text;
    }
    let delays = |kind: Kind| {
        let medians = points().filter(|point| point.kind == kind);
        median(
            &medians
                .map(|point| median(&point.medians_ms))
                .collect::<Vec<_>>(),
        ) / delay_ms as f64
    };
    let [strong, write, read] =
        [Kind::StrongWrite, Kind::EventualWrite, Kind::EventualRead].map(delays);
    format!(
        "{text}\n             in delays, median: SC write {strong:.2}, EC write {write:.2}, \
         EC read {read:.2}. The least there can be is 4, 2 and 2\n             along a chain, 2 \
         each in a star: 5 times came from SC writes that queued"
    )
}

fn mean_of<'a>(points: impl Iterator<Item = &'a Point>, kind: Kind, writes: f64) -> f64 {
    let mut own = points.filter(|point| point.kind == kind && point.writes == writes);
    own.next().map_or(f64::NAN, |point| median(&point.means_ms))
}

fn mixed(points: &[MixedPoint]) -> String {
    if points.is_empty() {
        return String::new();
    }
    let mut text = format!(
        "\nFigures 4 and 5: 50 % writes, one-way delay {MIX_DELAY_MS} ms; mean latency in ms\n\
         {:<12}{:^30}{:^30}\n{:<12}",
        "", "few requests", "many clients", "eventual"
    );
    for name in ["all", "reads", "writes", "all", "reads", "writes"] {
        let _ = write!(text, "{name:>10}");
    }
    let _ = writeln!(text, "{:>10}", "writes/s");
    for point in points {
        let _ = write!(text, "{:<12}", format!("{:.0} %", PERCENT * point.eventual));
        for means in [&point.few, &point.many] {
            for values in [&means.all_ms, &means.reads_ms, &means.writes_ms] {
                let _ = write!(text, "{:>10.1}", median(values));
            }
        }
        let _ = writeln!(text, "{:>10.0}", median(&point.writes_per_s));
    }
    text += "  the paper: latency falls fast and monotonically, write throughput rises\n  \
            ours, in delays: SC write 4 along a chain and 2 in a star, EC write 2; SC read 0 where \
            nothing\n             of the item is under way, else 2 at most, EC read 2. So along a \
            chain an SC write and an SC\n             read take 4 together, and what reads wait \
            for writes; EC ones take 4: at few requests little falls\n";
    let _ = writeln!(
        text,
        "{:<18}{:>26}{:>26}",
        "p50 / p90 / p99", "few requests", "many clients"
    );
    let mut promises = Promises::default();
    for point in points {
        let share = format!("{:.0} %", PERCENT * point.eventual);
        let [few, many] = [&point.few, &point.many].map(|of| percentiles(of.percentiles_ms));
        let _ = writeln!(text, "{share:<18}{few:>26}{many:>26}");
        promises = promises.with(&point.promises);
    }
    text + &promises.text()
}

fn availability(measured: &Measured) -> String {
    let mut text = format!(
        "\nAvailability: answered within a second, while the head is cut off for 6 seconds\
         \n\
         {:<26}{:>10}{:>10}{:>10}{:>24}\n",
        "", "before", "during", "after", "longest gap in it"
    );
    for level in &measured.availability {
        let shares = [level.before, level.during, level.after];
        let [before, during, after] = shares.map(|share| format!("{:.1} %", PERCENT * share));
        let _ = writeln!(
            text,
            "{:<26}{before:>10}{during:>10}{after:>10}{:>22.2} s",
            level.name, level.longest_gap_s
        );
    }
    text
}

/// All figures as SVG, and all numbers as JSON.
pub(super) fn write(measured: &Measured, folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    for (number, (delay_ms, _)) in PAPER.into_iter().enumerate() {
        let points = || {
            measured
                .latency
                .iter()
                .filter(move |p| p.delay_ms == delay_ms)
        };
        let line = |kind: Kind| Series {
            name: kind.name().to_owned(),
            points: WRITE_SHARES
                .map(|share| (PERCENT * share, mean_of(points(), kind, share)))
                .to_vec(),
        };
        let title = format!("Mean latency, one-way delay {delay_ms} ms");
        let lines = Kind::ALL.map(line).to_vec();
        if points().next().is_some() {
            let svg = plot(title, ["writes (%)", "ms"], lines).svg();
            std::fs::write(folder.join(format!("figure-{}.svg", number + 1)), svg)?;
        }
    }
    if !measured.mixed.is_empty() {
        write_mixed(&measured.mixed, folder)?;
    }
    let json = serde_json::to_vec_pretty(measured)?;
    Ok(std::fs::write(folder.join("consistency.json"), json)?)
}

/// Figures 4 and 5.
fn write_mixed(points: &[MixedPoint], folder: &Path) -> Result<()> {
    let line = |name: &str, of: fn(&MixedPoint) -> &[f64]| Series {
        name: name.to_owned(),
        points: EVENTUAL_SHARES
            .into_iter()
            .zip(points)
            .map(|(share, point)| (PERCENT * share, median(of(point))))
            .collect(),
    };
    let latency = vec![
        line("all", |point| &point.many.all_ms),
        line("reads", |point| &point.many.reads_ms),
        line("writes", |point| &point.many.writes_ms),
        line("all, few requests", |point| &point.few.all_ms),
    ];
    let throughput = vec![line("writes", |point| &point.writes_per_s)];
    let title = |what| format!("{what}, 50 % writes, one-way delay {MIX_DELAY_MS} ms");
    let latency = plot(title("Mean latency"), ["eventual (%)", "ms"], latency);
    let throughput = plot(
        title("Throughput"),
        ["eventual (%)", "writes/s"],
        throughput,
    );
    std::fs::write(folder.join("figure-4.svg"), latency.svg())?;
    std::fs::write(folder.join("figure-5.svg"), throughput.svg())?;
    Ok(())
}

fn plot(title: String, [x, y]: [&str; 2], series: Vec<Series>) -> Plot {
    let axis = |label: &str| Axis {
        label: label.to_owned(),
        scale: Scale::Linear,
    };
    Plot {
        title,
        x: axis(x),
        y: axis(y),
        series,
    }
}

#[cfg(test)]
mod tests;
