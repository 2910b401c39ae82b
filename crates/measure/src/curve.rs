//! The share of reads that show the latest version, by the time since the last write, with bands.

use std::collections::BTreeMap;

use fader_history::check::{Reference, Staleness};

use crate::statistics::{Cluster, Interval, band};

/// A part of a curve.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Point {
    /// Where it begins, in nanoseconds since the write; none of reads called before it returned.
    pub from: Option<u64>,
    /// Reads.
    pub reads: u64,
    /// Those that showed the latest version.
    pub latest: u64,
    /// Writes that the reads followed.
    pub writes: u64,
    /// Their share with its 95 % band, clustered by write; none of one write alone.
    pub share: Option<Interval>,
}

/// Reads of several runs by the time since their last write.
#[derive(Clone, Debug, Default)]
pub struct Curve {
    /// By bin, then by run and write.
    bins: BTreeMap<Option<u64>, BTreeMap<(usize, usize), Cluster>>,
    runs: usize,
}

impl Curve {
    /// Adds a run's reads to bins of `width` nanoseconds; `since` picks the definition of the time.
    pub fn add(&mut self, staleness: &Staleness, width: u64, since: impl Fn(&Reference) -> i64) {
        let run = self.runs;
        self.runs += 1;
        for reading in &staleness.readings {
            let Some(reference) = &reading.reference else {
                continue;
            };
            let from = u64::try_from(since(reference)).ok();
            let from = from.map(|nanos| nanos - nanos % width.max(1));
            let bin = self.bins.entry(from).or_default();
            let cluster = bin.entry((run, reference.operation)).or_default();
            cluster.all += 1;
            cluster.counted += u64::from(reading.is_latest());
        }
    }

    /// The curve; negative times first.
    pub fn points(&self) -> Vec<Point> {
        let point = |(from, clusters): (&Option<u64>, &BTreeMap<_, Cluster>)| {
            let clusters: Vec<Cluster> = clusters.values().copied().collect();
            Point {
                from: *from,
                reads: clusters.iter().map(|one| one.all).sum(),
                latest: clusters.iter().map(|one| one.counted).sum(),
                writes: clusters.len() as u64,
                share: band(&clusters),
            }
        };
        self.bins.iter().map(point).collect()
    }
}
