//! How sure one can be of a mean, a percentile or a rate of observations that are not independent.
//!
//! The run is cut into batches of equal length, each so long that one hardly knows of the next. The
//! batches' spread gives the interval, by Student's t. A percentile's estimate is that of all
//! observations. The spread about it is that of the batches' own ("sectioning", Asmussen and Glynn,
//! 2007), since the mean of batches' percentiles is biased.
//!
//! Deliberately absent: a choice of the batches' number by the data. Coverage is what
//! `fader measure calibrate` shows of it.

use super::Interval;

/// Batches of a run: with fewer the interval is needlessly wide, with more they know of each other.
const BATCHES: usize = 20;
/// The 97.5th percentile of the standard normal distribution.
pub(super) const NORMAL: f64 = 1.959_963_984_540_054;

/// The mean of observations in their order; none of fewer than two a batch.
pub fn mean(observations: &[f64]) -> Option<Interval> {
    let of = |some: &[f64]| some.iter().sum::<f64>() / some.len() as f64;
    sectioned(observations, of)
}

/// A quantile, from 0 to 1, of observations in their order; none of fewer than two a batch.
///
/// A batch that does not reach beyond the quantile would give its greatest observation, which is
/// too small. So there are fewer batches where they would be too short, and none below five.
pub fn quantile(observations: &[f64], share: f64) -> Option<Interval> {
    let beyond = (1.0 - share).min(share) * observations.len() as f64;
    // At least ten observations of each batch are beyond it.
    let batches = ((beyond / 10.0) as usize).min(BATCHES);
    let of = |some: &[f64]| quantile_of(&mut some.to_vec(), share);
    match batches {
        0..5 => None,
        _ => sectioned_in(observations, batches, of),
    }
}

/// Events a second, of their times in seconds, all before `end`.
pub fn rate(times: impl Iterator<Item = f64>, end: f64) -> Option<Interval> {
    if !end.is_finite() || end <= 0.0 {
        return None;
    }
    let length = end / BATCHES as f64;
    let mut counts = [0.0; BATCHES];
    for time in times.filter(|time| (0.0..end).contains(time)) {
        counts[((time / length) as usize).min(BATCHES - 1)] += 1.0 / length;
    }
    mean(&counts.map(|count| [count; 2]).concat())
}

/// The quantile of observations in any order: the least value that at least this share does not
/// exceed. NaN of nothing.
pub fn quantile_of(observations: &mut [f64], share: f64) -> f64 {
    if observations.is_empty() {
        return f64::NAN;
    }
    let rank = (share * observations.len() as f64).ceil() as usize;
    let at = rank.clamp(1, observations.len()) - 1;
    let (_, value, _) = observations.select_nth_unstable_by(at, f64::total_cmp);
    *value
}

fn sectioned(observations: &[f64], of: impl Fn(&[f64]) -> f64) -> Option<Interval> {
    sectioned_in(observations, BATCHES, of)
}

fn sectioned_in(
    observations: &[f64],
    batches: usize,
    of: impl Fn(&[f64]) -> f64,
) -> Option<Interval> {
    let length = observations.len() / batches;
    if length < 2 {
        return None;
    }
    // What does not fill a batch is of the beginning.
    let rest = observations.len() - length * batches;
    let estimate = of(observations);
    let sections = observations[rest..].chunks_exact(length);
    let squares: f64 = sections.map(|some| (of(some) - estimate).powi(2)).sum();
    let count = batches as f64;
    let error = (squares / (count * (count - 1.0))).sqrt();
    let half = student(count - 1.0) * error;
    Some(Interval {
        estimate,
        low: estimate - half,
        high: estimate + half,
    })
}

/// The 97.5th percentile of Student's t.
pub(super) fn student(freedom: f64) -> f64 {
    match freedom {
        ..1.5 => 12.706,
        1.5..2.5 => 4.303,
        _ => student_at(NORMAL, freedom),
    }
}

/// The percentile of Student's t that is this one of the standard normal distribution, by the
/// expansion of Fisher and Cornish. It is right to 0.2 % from 3 degrees of freedom on.
pub fn student_at(normal: f64, freedom: f64) -> f64 {
    let z = normal;
    let terms = [
        (z.powi(3) + z) / 4.0,
        (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0,
        (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0,
        (79.0 * z.powi(9) + 776.0 * z.powi(7) + 1482.0 * z.powi(5)
            - 1920.0 * z.powi(3)
            - 945.0 * z)
            / 92_160.0,
    ];
    let powers = (1..).map(|power| freedom.powi(power));
    z + terms
        .iter()
        .zip(powers)
        .map(|(term, power)| term / power)
        .sum::<f64>()
}

#[cfg(test)]
mod tests;
