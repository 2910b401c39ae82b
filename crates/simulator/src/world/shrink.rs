//! Makes a failing plan smaller: what can be left out while it still fails the same way is.

use fader_chain::Guards;

use super::plan::Plan;
use super::run::{Failure, run};

/// The smallest plan found that fails as `plan` does, with its failure; at most `runs_max` runs.
pub fn shrink(plan: &Plan, failure: &Failure, guards: &Guards, runs_max: usize) -> (Plan, Failure) {
    let mut smallest = Search {
        plan: plan.clone(),
        failure: failure.clone(),
        guards,
        runs_left: runs_max,
    };
    while smallest.round() {}
    (smallest.plan, smallest.failure)
}

struct Search<'a> {
    plan: Plan,
    failure: Failure,
    guards: &'a Guards,
    runs_left: usize,
}

impl Search<'_> {
    /// Whether anything could be left out.
    fn round(&mut self) -> bool {
        let mut is_smaller = false;
        is_smaller |= self.cut(
            |plan| plan.faults.len(),
            |plan, range| {
                plan.faults.drain(range);
            },
        );
        is_smaller |= self.cut(
            |plan| plan.wishes.len(),
            |plan, range| {
                plan.wishes.drain(range);
            },
        );
        is_smaller |= self.cut(
            |plan| plan.clients.len(),
            |plan, range| {
                plan.clients[range].iter_mut().for_each(Vec::clear);
            },
        );
        for client in 0..self.plan.clients.len() {
            is_smaller |= self.cut(
                |plan| plan.clients[client].len(),
                |plan, range| {
                    plan.clients[client].drain(range);
                },
            );
        }
        let simpler: [fn(&mut Plan); 9] = [
            // Faults and orders name machines round a circle: those of the last become others'.
            |plan| plan.members = plan.members.saturating_sub(1).max(1),
            |plan| plan.controllers = 0,
            |plan| plan.calm_loss = 0,
            |plan| plan.network_faults.stray = 0,
            |plan| plan.network_faults.twice = 0,
            |plan| plan.network_faults.loss = 0,
            |plan| plan.network_faults.delay_max = plan.network_faults.delay_min,
            |plan| plan.sync_max = 0,
            |plan| plan.flush_max = 0,
        ];
        for simplify in simpler {
            let mut plan = self.plan.clone();
            simplify(&mut plan);
            is_smaller |= !same(&plan, &self.plan) && self.try_plan(plan);
        }
        is_smaller
    }

    /// Leaves out halves, quarters, and so on down to single ones.
    fn cut(
        &mut self,
        count: impl Fn(&Plan) -> usize,
        remove: impl Fn(&mut Plan, std::ops::Range<usize>),
    ) -> bool {
        let mut is_smaller = false;
        let mut size = count(&self.plan);
        while 0 < size {
            let mut start = 0;
            while start < count(&self.plan) {
                let end = (start + size).min(count(&self.plan));
                let mut plan = self.plan.clone();
                remove(&mut plan, start..end);
                if same(&plan, &self.plan) || !self.try_plan(plan) {
                    start = end;
                } else {
                    is_smaller = true;
                    if count(&self.plan) == end {
                        start = end;
                    }
                }
            }
            size /= 2;
        }
        is_smaller
    }

    fn try_plan(&mut self, plan: Plan) -> bool {
        if self.runs_left == 0 {
            return false;
        }
        self.runs_left -= 1;
        match run(&plan, self.guards, false).failure {
            Some(failure) if failure.guarantee == self.failure.guarantee => {
                self.plan = plan;
                self.failure = failure;
                true
            }
            _ => false,
        }
    }
}

fn same(one: &Plan, other: &Plan) -> bool {
    let work = |plan: &Plan| plan.clients.iter().map(Vec::len).collect::<Vec<_>>();
    one.faults == other.faults
        && one.wishes == other.wishes
        && work(one) == work(other)
        && one.network_faults == other.network_faults
        && (one.members, one.controllers) == (other.members, other.controllers)
        && one.calm_loss == other.calm_loss
        && (one.sync_max, one.flush_max) == (other.sync_max, other.flush_max)
}
