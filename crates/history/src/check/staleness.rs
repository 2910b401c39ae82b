//! How old what reads showed was: in versions, in time, and as a share by the time since a write.
//!
//! Of a read, the *newer writes* are those that were acknowledged before its call and whose
//! versions are newer than the one it showed. There are k of them. Its *age* is the time from the
//! first of their acknowledgements to its call. A read with k = 0 showed the latest version.
//!
//! A read's *reference write* is the newest that was acknowledged before its call, or the one it
//! showed if that is newer still. The curve has the share of reads that showed the latest version.
//! It is by the time since the return of the reference write (Ampaporn and Gertphol, 2015), or
//! since its call (Wada and others, 2011). The time since the return is negative if the read was
//! called before.

use std::collections::BTreeMap;

use super::places::{Places, Read, Write};
use crate::{Action, Log, Moment, Rule, Rules, Unfit};

/// What a log shows of staleness.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Staleness {
    /// Every read that was answered, in the order of calls.
    pub readings: Vec<Reading>,
}

/// What one read showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Its place in the log.
    pub operation: usize,
    /// k: newer writes that were acknowledged before its call.
    pub newer: usize,
    /// Nanoseconds from the first of their acknowledgements to its call; 0 if there is none.
    pub age: u64,
    /// The reference write; none before the first acknowledgement of its key.
    pub reference: Option<Reference>,
}

/// The write from which a read's time counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Its place in the log.
    pub operation: usize,
    /// Nanoseconds from its return to the read's call.
    pub since_return: i64,
    /// Nanoseconds from its call to the read's call.
    pub since_call: i64,
}

/// A part of a curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bin {
    /// Where it begins, in nanoseconds since the reference; none of the bin of negative times.
    pub from: Option<u64>,
    /// Reads.
    pub reads: usize,
    /// Those that showed the latest version.
    pub latest: usize,
    /// Reference writes: reads of one write are not independent of each other.
    pub writes: usize,
}

/// When writes are visible: nanoseconds after their return.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Visibility {
    /// The share of reads that show the latest version.
    pub share: f64,
    /// The least time with that share; none if no time has it.
    pub nanos: Option<u64>,
}

/// The staleness of every read of a log.
///
/// # Errors
/// An operation whose place in the order of versions is not known.
pub fn staleness<A: Action>(log: &Log<A>, rules: &Rules) -> Result<Staleness, Unfit> {
    let places = Places::new(log)?;
    let mut keys: Vec<(Vec<&Write>, Vec<&Read>)> = vec![Default::default(); places.keys.len()];
    for write in &places.writes {
        keys[write.key].0.push(write);
    }
    for read in &places.reads {
        keys[read.key].1.push(read);
    }
    let mut readings: Vec<(Moment, Reading)> = Vec::new();
    for (writes, reads) in keys {
        let key = Key::new(writes, rules);
        readings.extend(
            reads
                .into_iter()
                .map(|read| (read.called, *read))
                .scan(Cursor::default(), |cursor, (called, read)| {
                    Some((called, key.reading(&read, cursor, rules)))
                }),
        );
    }
    readings.sort_by_key(|(called, reading)| (*called, reading.operation));
    Ok(Staleness {
        readings: readings.into_iter().map(|(_, reading)| reading).collect(),
    })
}

/// The writes of a key.
struct Key<'a> {
    /// Acknowledged writes by the moment from which they count: their return.
    acknowledged: Vec<(Moment, &'a Write)>,
    /// All writes by rank.
    by_rank: BTreeMap<usize, &'a Write>,
    /// By rank: the first acknowledgement of a write at or above it.
    first: Vec<Moment>,
    ranks: usize,
}

/// The acknowledgements before a read's call; reads come in the order of their calls.
#[derive(Default)]
struct Cursor<'a> {
    count: usize,
    newest: Option<&'a Write>,
    /// A Fenwick tree: how many acknowledged writes have each rank.
    tree: Vec<usize>,
}

impl<'a> Key<'a> {
    fn new(writes: Vec<&'a Write>, rules: &Rules) -> Self {
        let ranks = writes.iter().map(|write| write.rank).max().unwrap_or(0);
        let counts_from = |write: &Write| match rules.has(Rule::AcknowledgedBefore) {
            true => write.returned,
            false => write.called,
        };
        let mut acknowledged: Vec<(Moment, &Write)> = writes
            .iter()
            .filter(|write| write.is_acknowledged())
            .map(|write| (counts_from(write), *write))
            .collect();
        acknowledged.sort_by_key(|(at, write)| (*at, write.rank));
        let mut first = vec![Moment::END; ranks + 2];
        for (at, write) in &acknowledged {
            first[write.rank] = first[write.rank].min(*at);
        }
        if rules.has(Rule::FirstNewer) {
            for rank in (0..=ranks).rev() {
                first[rank] = first[rank].min(first[rank + 1]);
            }
        } else {
            // The newest one instead.
            let newest = acknowledged.iter().max_by_key(|(_, write)| write.rank);
            let at = newest.map_or(Moment::END, |(at, _)| *at);
            first[..=ranks].fill(at);
        }
        Key {
            acknowledged,
            by_rank: writes
                .into_iter()
                .map(|write| (write.rank, write))
                .collect(),
            first,
            ranks,
        }
    }

    fn reading(&self, read: &Read, cursor: &mut Cursor<'a>, rules: &Rules) -> Reading {
        cursor.tree.resize(self.ranks + 2, 0);
        while let Some((at, write)) = self.acknowledged.get(cursor.count)
            && *at < read.called
        {
            cursor.add(write);
        }
        let newer = cursor.count - cursor.up_to(read.rank);
        let age = match newer {
            0 => 0,
            _ => read.called.since(self.first[read.rank + 1]).unsigned_abs(),
        };
        let shown = self.by_rank.get(&read.rank).copied();
        let newest = cursor.newest;
        let reference = match (newest, shown) {
            (Some(newest), Some(shown))
                if newest.rank < shown.rank && rules.has(Rule::Negative) =>
            {
                Some(shown)
            }
            (None, Some(shown)) if rules.has(Rule::Negative) => Some(shown),
            (newest, _) => newest,
        };
        let reference = reference.filter(|write| write.is_acknowledged());
        Reading {
            operation: read.operation,
            newer,
            age,
            reference: reference.map(|write| Reference {
                operation: write.operation,
                since_return: read.called.since(write.returned),
                since_call: read.called.since(write.called),
            }),
        }
    }
}

impl<'a> Cursor<'a> {
    fn add(&mut self, write: &'a Write) {
        self.count += 1;
        if self.newest.is_none_or(|newest| newest.rank < write.rank) {
            self.newest = Some(write);
        }
        let mut at = write.rank;
        while 0 < at && at < self.tree.len() {
            self.tree[at] += 1;
            at += at & at.wrapping_neg();
        }
    }

    /// How many acknowledged writes have this rank or less.
    fn up_to(&self, rank: usize) -> usize {
        let (mut count, mut at) = (0, rank);
        while 0 < at {
            count += self.tree[at];
            at &= at - 1;
        }
        count
    }
}

impl Reading {
    /// Whether it showed the latest version.
    pub fn is_latest(&self) -> bool {
        self.newer == 0
    }
}

impl Staleness {
    /// The share of reads that showed the latest version, by the time since the reference write.
    /// Bins are of `width` nanoseconds, and one is for negative times. `since` picks the
    /// definition.
    pub fn curve(&self, width: u64, since: impl Fn(&Reference) -> i64) -> Vec<Bin> {
        let mut bins: BTreeMap<Option<u64>, (Bin, Vec<usize>)> = BTreeMap::new();
        for reading in &self.readings {
            let Some(reference) = &reading.reference else {
                continue;
            };
            let from = u64::try_from(since(reference)).ok();
            let from = from.map(|nanos| nanos - nanos % width.max(1));
            let (bin, writes) = bins.entry(from).or_insert_with(|| {
                let bin = Bin {
                    from,
                    reads: 0,
                    latest: 0,
                    writes: 0,
                };
                (bin, Vec::new())
            });
            bin.reads += 1;
            bin.latest += usize::from(reading.is_latest());
            writes.push(reference.operation);
        }
        let counted = bins.into_values().map(|(bin, mut writes)| {
            writes.sort_unstable();
            writes.dedup();
            Bin {
                writes: writes.len(),
                ..bin
            }
        });
        counted.collect()
    }

    /// t-visibility: the least time since a write's return at which each share of reads shows the
    /// latest version.
    ///
    /// Each read says of one time only whether its write was visible by then. So the estimate of
    /// greatest likelihood is the isotonic regression of "latest" on the time (pooled adjacent
    /// violators).
    pub fn visibility(&self, shares: &[f64]) -> Vec<Visibility> {
        let mut points: Vec<(u64, bool)> = self
            .readings
            .iter()
            .filter_map(|reading| {
                let since = u64::try_from(reading.reference?.since_return).ok()?;
                Some((since, reading.is_latest()))
            })
            .collect();
        points.sort_unstable();
        // Each block: where it begins, its reads, and those that showed the latest version.
        let mut blocks: Vec<(u64, u64, u64)> = Vec::new();
        for of_time in points.chunk_by(|(one, _), (other, _)| one == other) {
            let latest = of_time.iter().filter(|(_, is_latest)| *is_latest).count() as u64;
            let mut block = (of_time[0].0, of_time.len() as u64, latest);
            while let Some((from, reads, latest)) = blocks.pop_if(|(_, reads, latest)| {
                u128::from(block.2) * u128::from(*reads)
                    <= u128::from(*latest) * u128::from(block.1)
            }) {
                block = (from, reads + block.1, latest + block.2);
            }
            blocks.push(block);
        }
        let reached = |share: f64| {
            let is_enough =
                |(_, reads, latest): &&(u64, u64, u64)| share * (*reads as f64) <= *latest as f64;
            blocks.iter().find(is_enough).map(|(from, ..)| *from)
        };
        let of_share = |share: &f64| Visibility {
            share: *share,
            nanos: reached(*share),
        };
        shares.iter().map(of_share).collect()
    }
}
