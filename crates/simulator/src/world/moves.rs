//! The head's role moves between live members, and moves on before all have heard of it. A head
//! that is one no more goes on numbering (docs/internals/protocol/reconfiguration.md, RM-3).

use super::plan::{Fault, Micros, Plan};
use super::random::Random;

/// Again and again a member becomes head, hears of nothing for a while, and another one follows,
/// which dies, or is followed by the first.
pub(super) fn faults(plan: &Plan, random: &mut Random) -> Vec<(Micros, Fault)> {
    let members = plan.members as usize;
    let mut faults = Vec::new();
    let mut at = random.between(150_000, 400_000);
    while at < plan.calm_at {
        let (one, other) = random.two_below(members);
        if random.chance(700) {
            faults.push((at, Fault::Promote(one)));
        }
        let moved_at = at + random.skewed(20_000, 200_000);
        let long = random.between(50_000, 900_000);
        faults.push((moved_at, Fault::Deafen(one, long)));
        faults.push((moved_at + 1_000, Fault::Promote(other)));
        let then = moved_at + random.between(5_000, long);
        if random.chance(500) {
            faults.push((
                then,
                Fault::Crash(other, random.between(300_000, 1_200_000)),
            ));
        }
        faults.push((then + random.between(1_000, 20_000), Fault::Promote(one)));
        at = then + random.between(50_000, 500_000);
    }
    faults.retain(|(at, _)| *at < plan.calm_at);
    faults
}
