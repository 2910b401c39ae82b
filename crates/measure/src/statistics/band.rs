//! How sure one can be of a share whose observations come in clusters.
//!
//! Reads of one write are alike: all of them see the replicas that this write had or had not
//! reached. The variance is that of clusters' residuals about the share. It says how many
//! independent reads would be as sure. Wilson's interval of that many is the band, with Student's t
//! for few clusters (as Korn and Graubard, 1998, do for Clopper's).

use super::Interval;
use super::batches::{NORMAL, student};

/// One cluster: observations, and how many of them are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cluster {
    /// Observations.
    pub all: u64,
    /// Those that are counted.
    pub counted: u64,
}

/// The share of what is counted, with its 95 % band; none without two clusters.
pub fn band(clusters: &[Cluster]) -> Option<Interval> {
    let all: u64 = clusters.iter().map(|one| one.all).sum();
    let counted: u64 = clusters.iter().map(|one| one.counted).sum();
    let groups = clusters.iter().filter(|one| 0 < one.all).count() as f64;
    if groups < 2.0 {
        return None;
    }
    let count = all as f64;
    let share = counted as f64 / count;
    let residual = |one: &Cluster| (one.counted as f64 - share * one.all as f64).powi(2);
    let squares: f64 = clusters.iter().map(residual).sum();
    let variance = groups / (groups - 1.0) * squares / (count * count);
    let independent = share * (1.0 - share);
    let effective = match 0.0 < variance {
        // Not more than there are: a variance that is small by chance makes nothing surer.
        true => (independent / variance).min(count),
        // All alike: as many as there are clusters.
        false => groups,
    };
    let scale = NORMAL / student(groups - 1.0);
    Some(wilson(share, effective * scale * scale))
}

/// Wilson's 95 % interval of a share of `count` independent observations.
pub fn wilson(share: f64, count: f64) -> Interval {
    let z2 = NORMAL * NORMAL;
    let middle = (share + z2 / (2.0 * count)) / (1.0 + z2 / count);
    let spread = (share * (1.0 - share) / count + z2 / (4.0 * count * count)).sqrt();
    let half = NORMAL * spread / (1.0 + z2 / count);
    Interval {
        estimate: share,
        low: (middle - half).max(0.0),
        high: (middle + half).min(1.0),
    }
}

#[cfg(test)]
mod tests;
