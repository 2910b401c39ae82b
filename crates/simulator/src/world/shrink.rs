//! Makes a failing plan of a chain smaller.

use fader_chain::Guards;

use super::plan::Plan;
use super::run::{Failure, run};
use crate::shrink::Search;

/// The smallest plan found that fails as `plan` does, with its failure; at most `runs_max` runs.
pub fn shrink(plan: &Plan, failure: &Failure, guards: &Guards, runs_max: usize) -> (Plan, Failure) {
    let mut smallest = failure.clone();
    let mut fails = |plan: &Plan| match run(plan, guards, false).failure {
        Some(found) if found.guarantee == smallest.guarantee => {
            smallest = found;
            true
        }
        _ => false,
    };
    let mut search = Search {
        plan: plan.clone(),
        is_same: same,
        fails: &mut fails,
        runs_left: runs_max,
    };
    while round(&mut search) {}
    let plan = search.plan;
    (plan, smallest)
}

/// Whether anything could be left out.
fn round(search: &mut Search<'_, Plan>) -> bool {
    let mut is_smaller = false;
    is_smaller |= search.cut(
        |plan| plan.faults.len(),
        |plan, range| {
            plan.faults.drain(range);
        },
    );
    is_smaller |= search.cut(
        |plan| plan.wishes.len(),
        |plan, range| {
            plan.wishes.drain(range);
        },
    );
    is_smaller |= search.cut(
        |plan| plan.clients.len(),
        |plan, range| {
            plan.clients[range].iter_mut().for_each(Vec::clear);
        },
    );
    for client in 0..search.plan.clients.len() {
        is_smaller |= search.cut(
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
        is_smaller |= search.try_change(simplify);
    }
    is_smaller
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
