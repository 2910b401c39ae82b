//! Which item an operation is about: YCSB's distributions (Cooper and others, SoCC 2010).
//!
//! An operation's draws come from its number and the run's seed, so that it asks for the same in
//! each run, at any client.

use parking_lot::Mutex;

use crate::items::mix;

/// The exponent of YCSB's Zipf distributions.
const THETA: f64 = 0.99;
/// A scrambled Zipf distribution draws from so many ranks, for any number of items.
const SCRAMBLED_RANKS: u64 = 10_000_000_000;
/// The sum of 1/rank^θ over all of them.
const SCRAMBLED_ZETA: f64 = 26.469_028_201_783_02;

/// How keys are distributed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Keys {
    /// All alike.
    Uniform,
    /// By Zipf's law: the first items are the popular ones.
    Zipfian,
    /// By Zipf's law, the popular items spread over all.
    Scrambled,
    /// By Zipf's law: the newest items are the popular ones.
    Latest,
    /// Some items get most operations.
    Hotspot {
        /// The share of the popular items, the first ones.
        items: f64,
        /// The share of operations on them.
        operations: f64,
    },
    /// The newest items are the popular ones: this percentage of operations is about that share of
    /// items.
    Exponential {
        /// Percent of operations.
        percentile: f64,
        /// Share of items.
        items: f64,
    },
}

/// The draws of one operation.
#[derive(Clone, Copy, Debug)]
pub struct Draw(u64);

/// Draws keys.
#[derive(Debug)]
pub struct Chooser {
    keys: Keys,
    zipf: Mutex<Zipf>,
}

/// The numbers of Gray and others, "Quickly generating billion-record synthetic databases", SIGMOD
/// 1994.
#[derive(Clone, Copy, Debug)]
struct Zipf {
    ranks: u64,
    /// The sum of 1/rank^θ over all ranks.
    zeta: f64,
}

impl Draw {
    /// Those of the operation of this number.
    pub fn new(seed: u64, sequence: u64) -> Self {
        Draw(mix(mix(seed) ^ sequence))
    }

    /// From 0, and below 1.
    pub fn unit(&mut self) -> f64 {
        self.0 = mix(self.0);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        ((self.unit() * end as f64) as u64).min(end.saturating_sub(1))
    }
}

impl Chooser {
    /// Draws by this distribution.
    pub fn new(keys: Keys) -> Self {
        let zipf = match keys {
            Keys::Scrambled => Zipf {
                ranks: SCRAMBLED_RANKS,
                zeta: SCRAMBLED_ZETA,
            },
            _ => Zipf {
                ranks: 0,
                zeta: 0.0,
            },
        };
        Chooser {
            keys,
            zipf: Mutex::new(zipf),
        }
    }

    /// A key below `count`, which is above zero.
    pub fn choose(&self, draw: &mut Draw, count: u64) -> u64 {
        match self.keys {
            Keys::Uniform => draw.below(count),
            Keys::Zipfian => self.rank(draw, count),
            Keys::Scrambled => scatter(self.zipf.lock().rank(draw.unit())) % count,
            // As YCSB has it: of all items but the oldest.
            Keys::Latest => count - 1 - self.rank(draw, (count - 1).max(1)),
            Keys::Hotspot { items, operations } => {
                let hot = (count as f64 * items) as u64;
                match draw.unit() < operations {
                    true => draw.below(hot.max(1)),
                    false if hot < count => hot + draw.below(count - hot),
                    false => draw.below(count),
                }
            }
            Keys::Exponential { percentile, items } => {
                let gamma = -(1.0 - percentile / 100.0).ln() / (count as f64 * items);
                loop {
                    let back = (-(1.0 - draw.unit()).ln() / gamma) as u64;
                    if back < count {
                        return count - 1 - back;
                    }
                }
            }
        }
    }

    fn rank(&self, draw: &mut Draw, count: u64) -> u64 {
        let mut zipf = self.zipf.lock();
        zipf.resize(count);
        zipf.rank(draw.unit()).min(count - 1)
    }
}

impl Zipf {
    fn resize(&mut self, ranks: u64) {
        if ranks < self.ranks {
            (self.ranks, self.zeta) = (0, 0.0);
        }
        for rank in self.ranks + 1..=ranks {
            self.zeta += 1.0 / (rank as f64).powf(THETA);
        }
        self.ranks = ranks;
    }

    /// A rank from 0, for a number from 0 and below 1.
    fn rank(&self, unit: f64) -> u64 {
        let of_two = 1.0 + 0.5_f64.powf(THETA);
        let scaled = unit * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < of_two {
            return 1;
        }
        let ranks = self.ranks as f64;
        let eta = (1.0 - (2.0 / ranks).powf(1.0 - THETA)) / (1.0 - of_two / self.zeta);
        (ranks * (eta * unit - eta + 1.0).powf(1.0 / (1.0 - THETA))) as u64
    }
}

/// FNV-1a over the number's octets, as YCSB spreads ranks.
fn scatter(rank: u64) -> u64 {
    let hash = rank
        .to_le_bytes()
        .into_iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, octet| {
            (hash ^ u64::from(octet)).wrapping_mul(0x0100_0000_01b3)
        });
    // Signed, as there.
    hash.cast_signed().unsigned_abs()
}

#[cfg(test)]
mod tests;
