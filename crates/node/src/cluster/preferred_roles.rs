//! When a chain's head or tail goes back to the zone that is wished for it. That is after the chain
//! was calm for a while, each time longer. So a member that comes and goes is not followed
//! (docs/internals/protocol/reconfiguration.md, section 12, HM).

use std::time::{Duration, Instant};

use fader_chain::controller::RoleChange;
use fader_chain::{ChainMember, Configuration};

/// How long a chain's members must have been the same, at first.
const CALM: Duration = Duration::from_secs(10);
/// How often that time doubles at most.
const DOUBLED_MAX: u32 = 6;
/// After this time without a change that was wished for it is as at first.
const FORGOTTEN: Duration = Duration::from_secs(60 * 60);

/// What a controller remembers of a chain for that.
#[derive(Default)]
pub(super) struct PreferredRoles {
    /// The members, and since when they are so.
    members: Option<(Vec<ChainMember>, Instant)>,
    /// The change that they ask for.
    wanted: Option<RoleChange>,
    /// How often such changes were seen of late, and the last time.
    seen: Option<(u32, Instant)>,
}

impl PreferredRoles {
    /// HM-2: the change that is wished for, when it is time for it.
    pub(super) fn due(
        &mut self,
        newest: &Configuration,
        wanted: Option<RoleChange>,
        now: Instant,
    ) -> Option<RoleChange> {
        let known = self.members.as_ref();
        if known.is_none_or(|(members, _)| *members != newest.members) {
            if known.is_some_and(|(members, _)| is_reordered(members, &newest.members))
                && self.wanted.is_some()
            {
                let times = self.times(now) + 1;
                self.seen = Some((times.min(DOUBLED_MAX), now));
            }
            self.members = Some((newest.members.clone(), now));
        }
        self.wanted = wanted;
        let calm = CALM * 2_u32.pow(self.times(now));
        let since = self.members.as_ref().map_or(now, |(_, since)| *since);
        wanted.filter(|_| calm <= now.duration_since(since))
    }

    fn times(&self, now: Instant) -> u32 {
        let fresh = self
            .seen
            .filter(|(_, last)| now.duration_since(*last) < FORGOTTEN);
        fresh.map_or(0, |(times, _)| times)
    }
}

/// Whether the same members stand in another order.
fn is_reordered(before: &[ChainMember], after: &[ChainMember]) -> bool {
    before.len() == after.len() && after.iter().all(|member| before.contains(member))
}

#[cfg(test)]
mod tests {
    use fader_chain::controller::first;
    use fader_chain::{DiskId, Identity, Incarnation, NodeId, Version, Wiring};

    use super::*;

    fn order(nodes: [u32; 2]) -> Configuration {
        let members = nodes.map(|node| Identity {
            node: NodeId(node),
            incarnation: Incarnation(1),
            disk: DiskId(u128::from(node)),
        });
        first(&members, Wiring::Star, Version::NEWEST)
    }

    /// It shows HM-2.
    #[test]
    fn each_time_is_longer_and_is_forgotten() {
        let (absent, home) = (order([2, 1]), order([1, 2]));
        let wanted = Some(RoleChange::Head(NodeId(1)));
        let mut preferred_roles = PreferredRoles::default();
        let mut now = Instant::now();
        for calm in [10, 20, 40, 80, 160, 320, 640, 640] {
            assert_eq!(preferred_roles.due(&absent, wanted, now), None);
            // A safe point that rises is an epoch, and disturbs no member.
            let mut risen = absent.clone();
            risen.epoch += 1;
            now += Duration::from_millis(calm * 1000 - 1);
            assert_eq!(preferred_roles.due(&risen, wanted, now), None);
            now += Duration::from_millis(1);
            assert_eq!(preferred_roles.due(&risen, wanted, now), wanted);
            now += Duration::from_secs(1);
            assert_eq!(preferred_roles.due(&home, None, now), None);
            now += Duration::from_secs(1);
        }
        now += FORGOTTEN;
        assert_eq!(preferred_roles.due(&absent, wanted, now), None);
        now += CALM;
        assert_eq!(preferred_roles.due(&absent, wanted, now), wanted);
    }
}
