//! Makes a failing plan smaller: what can be left out while it still fails the same way is.

use std::ops::Range;

/// The smallest plan found so far.
pub(crate) struct Search<'a, P> {
    pub(crate) plan: P,
    /// Whether two plans have the same run.
    pub(crate) is_same: fn(&P, &P) -> bool,
    /// Whether a plan fails as the first one did.
    pub(crate) fails: &'a mut dyn FnMut(&P) -> bool,
    pub(crate) runs_left: usize,
}

impl<P: Clone> Search<'_, P> {
    /// Leaves out halves, quarters, and so on down to single ones; whether anything could be.
    pub(crate) fn cut(
        &mut self,
        count: impl Fn(&P) -> usize,
        remove: impl Fn(&mut P, Range<usize>),
    ) -> bool {
        let mut is_smaller = false;
        let mut size = count(&self.plan);
        while 0 < size {
            let mut start = 0;
            while start < count(&self.plan) {
                let end = (start + size).min(count(&self.plan));
                let before = count(&self.plan);
                if !self.try_change(|plan| remove(plan, start..end)) {
                    start = end;
                    continue;
                }
                is_smaller = true;
                if count(&self.plan) == before {
                    start = end;
                }
            }
            size /= 2;
        }
        is_smaller
    }

    /// Takes a change of the plan that still fails; whether it does.
    pub(crate) fn try_change(&mut self, change: impl FnOnce(&mut P)) -> bool {
        let mut plan = self.plan.clone();
        change(&mut plan);
        if (self.is_same)(&plan, &self.plan) || self.runs_left == 0 {
            return false;
        }
        self.runs_left -= 1;
        let fails = (self.fails)(&plan);
        if fails {
            self.plan = plan;
        }
        fails
    }
}
