//! Checkpoints that readers begin (4.5 of the paper): a writer that ended leaves its records.

use std::time::Duration;

use crate::catalogue::Collection;
use crate::database::Database;
use crate::layout::PendingQueues;
use crate::routing::Due;
use crate::tree::Found;

impl Database {
    /// Begins, at random, a checkpoint of the queues that may have records of a leaf. The longer
    /// the leaf was not replaced, the less likely it is that records wait. A leaf is drawn for once
    /// in an interval at most.
    pub(crate) fn checkpoint_as_reader(&self, tree: &Collection, leaf: &Found) {
        let options = &self.0.options;
        if !options.has_reader_checkpoints {
            return;
        }
        let runtime = &self.0.store.0.runtime;
        let written = Duration::from_millis(leaf.held.page.envelope().written_ms);
        let age = runtime.clock.wall().saturating_sub(written);
        let (now, interval) = (runtime.clock.monotonic(), options.checkpoint_after);
        let may_ask = || {
            let pool = self.0.pool.lock();
            let mut pool = pool.expect("nothing panics while it is locked");
            pool.may_ask(leaf.id, now, interval)
        };
        if age <= interval || !may_ask() {
            return;
        }
        if is_drawn((runtime.random() >> 32) as u32, age, interval) {
            let of_leaf = (tree.queues == PendingQueues::PerLeaf).then_some(Due {
                tree: tree.id,
                leaf: Some(leaf.id),
            });
            let dues = of_leaf.into_iter().chain([Due::of_tree(tree.id)]);
            self.checkpoint_later(dues.collect());
        }
    }
}

/// Whether a number drawn from all of its type is in the part that `interval` is of `age`.
fn is_drawn(drawn: u32, age: Duration, interval: Duration) -> bool {
    u128::from(drawn) * age.as_millis() < interval.as_millis() << u32::BITS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_probability_is_the_interval_in_the_age() {
        let interval = Duration::from_secs(15);
        for (age_s, part) in [(15, 1.0), (30, 0.5), (150, 0.1), (15_000, 0.001)] {
            let age = Duration::from_secs(age_s);
            let last = (part * f64::from(u32::MAX)) as u32;
            assert!(is_drawn(0, age, interval), "{age_s}");
            assert!(is_drawn(last - 10, age, interval), "{age_s}");
            let is_above = last
                .checked_add(10)
                .is_some_and(|it| is_drawn(it, age, interval));
            assert!(!is_above, "{age_s}");
        }
    }
}
