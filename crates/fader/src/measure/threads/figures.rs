//! Tables and figures of the experiment with threads.

use std::fmt::Write;
use std::path::Path;

use anyhow::Result;
use fader_measure::{Axis, Plot, Scale, Series};

use super::super::target;
use super::claims::{self, Claim};
use super::{Curve, Point};

/// The paper's mean of one thread on one item, in milliseconds: plain, then strong.
const PAPER_MS: [(bool, [f64; 2]); 2] = [(true, [110.0, 118.0]), (false, [22.0, 23.0])];

/// Both tables with the claims about them, for a terminal.
pub(super) fn text(points: &[Point], target: &str, requests: u64) -> String {
    let mut text = format!("\nTarget: {}\n", target::told(target));
    for (is_put, paper) in PAPER_MS {
        let name = if is_put {
            "PutAttributes"
        } else {
            "GetAttributes"
        };
        let _ = writeln!(text, "\n{name}: seconds for {requests} requests");
        let _ = write!(text, "{:<12}", "threads");
        for curve in curves(is_put) {
            let items = if curve.items == 1 {
                "1 item"
            } else {
                "1,000 items"
            };
            let _ = write!(text, "{:>26}", format!("{items}, {}", curve.variant()));
        }
        text.push('\n');
        for threads in all_threads(points) {
            let _ = write!(text, "{threads:<12}");
            for curve in curves(is_put) {
                let seconds = find(points, curve, threads).map_or(f64::NAN, |it| it.seconds);
                let _ = write!(text, "{seconds:>26.2}");
            }
            text.push('\n');
        }
        let _ = write!(text, "{:<12}", "1, the paper");
        for milliseconds in paper {
            let _ = write!(text, "{:>26.2}", milliseconds * requests as f64 / 1e3);
        }
        text.push_str("\n\nThe paper's claims about the figure\n");
        for claim in claims::of(points, is_put) {
            line(&mut text, &claim);
        }
    }
    let failed: u64 = points.iter().map(|point| point.failed).sum();
    let _ = writeln!(
        text,
        "\n{failed} requests were refused or not answered\n\
         The paper shows its figures as pictures; its seconds by one thread are its means of\n\
         1,000 requests. \"As long\" is within 10 %; \"longer\" is a 95 % interval above 1."
    );
    text
}

fn line(text: &mut String, claim: &Claim) {
    let verdict = match claim.holds {
        Some(true) => "holds",
        Some(false) => "DOES NOT HOLD",
        None => "not measured",
    };
    let ratio = claim.ratio.map_or_else(String::new, |it| {
        format!(
            "x {:.2} (95 %: {:.2} to {:.2})",
            it.estimate, it.low, it.high
        )
    });
    let _ = writeln!(text, "{verdict:<15}{:<52}{ratio}", claim.text);
}

fn curves(is_put: bool) -> impl Iterator<Item = Curve> {
    Curve::all().filter(move |curve| curve.is_put == is_put)
}

fn all_threads(points: &[Point]) -> Vec<u32> {
    let mut threads: Vec<u32> = points.iter().map(|point| point.threads).collect();
    threads.sort_unstable();
    threads.dedup();
    threads
}

fn find(points: &[Point], curve: Curve, threads: u32) -> Option<&Point> {
    points
        .iter()
        .find(|it| (it.curve, it.threads) == (curve, threads))
}

/// Both figures as SVG, and all numbers as JSON.
pub(super) fn write(points: &[Point], folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    for (is_put, name) in [(true, "put"), (false, "get")] {
        let svg = figure(points, is_put).svg();
        std::fs::write(folder.join(format!("{name}.svg")), svg)?;
    }
    let json = serde_json::to_vec_pretty(points)?;
    Ok(std::fs::write(folder.join("threads.json"), json)?)
}

fn figure(points: &[Point], is_put: bool) -> Plot {
    let axis = |label: &str| Axis {
        label: label.to_owned(),
        scale: Scale::Logarithmic,
    };
    let series = |curve: Curve| {
        let items = if curve.items == 1 {
            "1 item"
        } else {
            "1,000 items"
        };
        let of_curve = |threads| {
            let seconds = find(points, curve, threads)?.seconds;
            Some((f64::from(threads), seconds))
        };
        Series {
            name: format!("{items}, {}", curve.variant()),
            points: all_threads(points)
                .into_iter()
                .filter_map(of_curve)
                .collect(),
        }
    };
    let name = if is_put {
        "PutAttributes"
    } else {
        "GetAttributes"
    };
    Plot {
        title: format!("{name} by threads"),
        x: axis("threads"),
        y: axis("seconds for all requests"),
        series: curves(is_put).map(series).collect(),
    }
}
