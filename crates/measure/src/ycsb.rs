//! YCSB's core workloads, A to F: mixes of reads, writes, inserts, scans and changes of what was
//! read.
//!
//! Every value that is written is another one, so that logs can be judged. Items below the number
//! of records are there before the run: [`Fill`] writes them.

use std::collections::BTreeSet;

use parking_lot::Mutex;

use crate::keys::{Chooser, Draw, Keys};
use crate::workload::{Act, Intent, Workload};

/// Shares of operations, and which items they are about.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mix {
    /// Reads.
    pub reads: f64,
    /// Writes of items that are there.
    pub writes: f64,
    /// Writes of new items.
    pub inserts: f64,
    /// Scans.
    pub scans: f64,
    /// Reads, each followed by a write of the same item.
    pub modifies: f64,
    /// Which items.
    pub keys: Keys,
}

/// A run of a mix.
#[derive(Debug)]
pub struct Ycsb {
    mix: Mix,
    /// Shares of levels, by their numbers.
    levels: Vec<f64>,
    seed: u64,
    chooser: Chooser,
    items: Mutex<Inserted>,
}

/// The first of the numbers of clients that write the records before a run: beyond those of the
/// run, so that logs tell them apart.
pub const FILL_FIRST: u32 = 1_000_000;

/// The first pass: writes every record once.
#[derive(Clone, Copy, Debug)]
pub struct Fill;

/// Items that are there.
#[derive(Debug)]
struct Inserted {
    /// All below are there.
    count: u64,
    /// Those at and above that are there.
    above: BTreeSet<u64>,
    /// The next to insert.
    next: u64,
}

impl Mix {
    /// A core workload by its letter.
    pub fn named(letter: char) -> Option<Mix> {
        let none = Mix {
            reads: 0.0,
            writes: 0.0,
            inserts: 0.0,
            scans: 0.0,
            modifies: 0.0,
            keys: Keys::Scrambled,
        };
        Some(match letter.to_ascii_lowercase() {
            'a' => Mix {
                reads: 0.5,
                writes: 0.5,
                ..none
            },
            'b' => Mix {
                reads: 0.95,
                writes: 0.05,
                ..none
            },
            'c' => Mix { reads: 1.0, ..none },
            'd' => Mix {
                reads: 0.95,
                inserts: 0.05,
                keys: Keys::Latest,
                ..none
            },
            'e' => Mix {
                scans: 0.95,
                inserts: 0.05,
                ..none
            },
            'f' => Mix {
                reads: 0.5,
                modifies: 0.5,
                ..none
            },
            _ => return None,
        })
    }

    /// The act of an operation, for a number from 0 and below 1, and whether it is of a new item.
    fn act(&self, unit: f64) -> (Act, bool) {
        let acts = [
            (self.reads, Act::Read, false),
            (self.writes, Act::Write, false),
            (self.inserts, Act::Write, true),
            (self.scans, Act::Scan, false),
            (self.modifies, Act::Modify, false),
        ];
        let sum: f64 = acts.iter().map(|(share, ..)| share).sum();
        let mut rest = unit * sum;
        for (share, act, is_new) in acts {
            if rest < share {
                return (act, is_new);
            }
            rest -= share;
        }
        (Act::Read, false)
    }
}

impl Ycsb {
    /// A run on this many records, at least one, at levels of these shares.
    pub fn new(mix: Mix, records: u64, levels: Vec<f64>, seed: u64) -> Self {
        let records = records.max(1);
        Ycsb {
            mix,
            levels,
            seed,
            chooser: Chooser::new(mix.keys),
            items: Mutex::new(Inserted {
                count: records,
                above: BTreeSet::new(),
                next: records,
            }),
        }
    }

    fn level(&self, unit: f64) -> usize {
        let mut rest = unit * self.levels.iter().sum::<f64>();
        let fits = |share: &f64| {
            let is_here = rest < *share;
            rest -= share;
            is_here
        };
        self.levels.iter().position(fits).unwrap_or(0)
    }
}

impl Workload for Ycsb {
    fn plan(&self, sequence: u64) -> Intent {
        let mut draw = Draw::new(self.seed, sequence);
        let (act, is_new) = self.mix.act(draw.unit());
        let level = self.level(draw.unit());
        let mut items = self.items.lock();
        let key = match is_new {
            true => {
                items.next += 1;
                items.next - 1
            }
            false => self.chooser.choose(&mut draw, items.count),
        };
        Intent {
            act,
            key,
            // 0 is what items were filled with.
            value: matches!(act, Act::Write | Act::Modify).then_some(sequence + 1),
            level,
        }
    }

    fn done(&self, intent: &Intent) {
        let mut items = self.items.lock();
        if intent.act == Act::Write && items.count <= intent.key {
            items.above.insert(intent.key);
            while let Some(first) = items.above.first().copied()
                && first == items.count
            {
                items.above.pop_first();
                items.count += 1;
            }
        }
    }
}

impl Workload for Fill {
    fn plan(&self, sequence: u64) -> Intent {
        Intent {
            act: Act::Write,
            key: sequence,
            value: Some(0),
            level: 0,
        }
    }
}

#[cfg(test)]
mod tests;
