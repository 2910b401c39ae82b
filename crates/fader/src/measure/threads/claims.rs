//! What the paper says of its two figures, judged by ours.
//!
//! A comparison of two curves is the geometric mean of the ratios of their points, with a 95 %
//! interval by Student's t over the points. "Almost identical" is a ratio within 10 %, "longer" an
//! interval above 1.

use fader_measure::statistics::{Interval, student_at};

use super::{Curve, Point};

/// The number of threads that the paper speaks of.
const MANY: u32 = 100;
/// How far "almost identical" times are apart at most.
const ALIKE: f64 = 0.1;
/// The 97.5th percentile of the standard normal distribution.
const NORMAL: f64 = 1.959_963_984_540_054;

/// One claim about one figure.
pub(super) struct Claim {
    /// What is claimed.
    pub(super) text: String,
    /// The ratio that it is about.
    pub(super) ratio: Option<Interval>,
    /// Whether it holds; none if the points that it is about were not measured.
    pub(super) holds: Option<bool>,
}

/// The claims about one figure.
pub(super) fn of(points: &[Point], is_put: bool) -> Vec<Claim> {
    let points: Vec<Point> = points
        .iter()
        .filter(|it| it.curve.is_put == is_put)
        .copied()
        .collect();
    let (requests, strong) = match is_put {
        true => ("puts", "conditional"),
        false => ("gets", "consistent"),
    };
    let plain = |of: &Curve| Curve {
        is_strong: false,
        ..*of
    };
    let spread = |of: &Curve| Curve { items: 1000, ..*of };
    let is_single = |it: &&Point| it.curve.items == 1;
    let mut claims = vec![
        alike(
            format!("{strong} {requests} take as long as plain ones"),
            &ratios(&points, plain, |it| it.curve.is_strong),
        ),
        longer(
            format!("{requests} of one item take longer than of 1,000 items"),
            &ratios(&points, spread, |it| is_single(&it) && it.threads < MANY),
        ),
        alike(
            format!("by {MANY} threads, they take as long"),
            &ratios(&points, spread, |it| is_single(&it) && it.threads == MANY),
        ),
    ];
    if is_put {
        let many = |of: &Point| {
            points
                .iter()
                .find(|it| it.curve == of.curve && it.threads == MANY)
        };
        let beyond = points.iter().filter(|it| MANY < it.threads);
        let beyond: Vec<f64> = beyond
            .filter_map(|it| Some(it.seconds / many(it)?.seconds))
            .collect();
        claims.push(longer(
            format!("by more than {MANY} threads, they take longer"),
            &beyond,
        ));
    }
    claims
}

/// Times of some points, in parts of those of another curve by as many threads.
fn ratios(
    points: &[Point],
    other: impl Fn(&Curve) -> Curve,
    is_wanted: impl Fn(&Point) -> bool,
) -> Vec<f64> {
    let beside = |of: &Point| {
        let wanted = (other(&of.curve), of.threads);
        points.iter().find(|it| (it.curve, it.threads) == wanted)
    };
    let wanted = points.iter().filter(|it| is_wanted(it));
    wanted
        .filter_map(|it| Some(it.seconds / beside(it)?.seconds))
        .collect()
}

fn alike(text: String, ratios: &[f64]) -> Claim {
    let ratio = mean(ratios);
    let is_alike = |it: Interval| (1.0 - ALIKE..=1.0 + ALIKE).contains(&it.estimate);
    Claim {
        text,
        ratio,
        holds: ratio.map(is_alike),
    }
}

fn longer(text: String, ratios: &[f64]) -> Claim {
    let ratio = mean(ratios);
    Claim {
        text,
        ratio,
        holds: ratio.map(|it| 1.0 < it.low),
    }
}

/// The geometric mean; none of fewer than two.
fn mean(ratios: &[f64]) -> Option<Interval> {
    let count = ratios.len() as f64;
    if count < 2.0 {
        return None;
    }
    let logs = || ratios.iter().map(|ratio| ratio.ln());
    let mean = logs().sum::<f64>() / count;
    let squares: f64 = logs().map(|log| (log - mean).powi(2)).sum();
    let error = (squares / (count * (count - 1.0))).sqrt();
    // Fisher's and Cornish's expansion is right from three degrees of freedom on.
    let student = match count as usize {
        2 => 12.706,
        3 => 4.303,
        _ => student_at(NORMAL, count - 1.0),
    };
    Some(Interval {
        estimate: mean.exp(),
        low: (mean - student * error).exp(),
        high: (mean + student * error).exp(),
    })
}

#[cfg(test)]
mod tests;
