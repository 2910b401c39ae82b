//! The world's only source of chance: one stream of numbers from one seed.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// A stream of numbers.
#[derive(Clone, Debug)]
pub(crate) struct Random(ChaCha8Rng);

impl Random {
    /// The stream of `seed`.
    pub(crate) fn new(seed: u64) -> Self {
        Random(ChaCha8Rng::seed_from_u64(seed))
    }

    /// Any number.
    pub(crate) fn number(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A name that no other request has.
    pub(crate) fn name(&mut self) -> u128 {
        u128::from(self.number()) << 64 | u128::from(self.number())
    }

    /// A number from `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.number() % (high.max(low) - low + 1)
    }

    /// A number from `low` to `high` of which small ones are likelier: most delays are short.
    pub(crate) fn skewed(&mut self, low: u64, high: u64) -> u64 {
        let span = self.between(low, high);
        self.between(low, span)
    }

    /// An index below `count`.
    pub(crate) fn below(&mut self, count: usize) -> usize {
        self.between(0, count.max(1) as u64 - 1) as usize
    }

    /// Two indices below `count`: different ones, where there are two.
    pub(crate) fn two_below(&mut self, count: usize) -> (usize, usize) {
        let one = self.below(count);
        (one, (one + 1 + self.below(count.max(2) - 1)) % count)
    }

    /// True in `permille` of a thousand cases.
    pub(crate) fn chance(&mut self, permille: u32) -> bool {
        self.number() % 1_000 < u64::from(permille)
    }

    /// One of `options`, which are not none.
    pub(crate) fn pick<'a, T>(&mut self, options: &'a [T]) -> &'a T {
        &options[self.below(options.len())]
    }
}
