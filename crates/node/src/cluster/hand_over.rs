//! When the head's role goes from a member that lives to another one, on purpose
//! (docs/internals/protocol/reconfiguration.md, section 12, HM-4).

use std::time::Instant;

use fader_chain::Configuration;
use fader_chain::controller::RoleChange;

use super::Cluster;

/// A head here that prepares to give its role away.
#[derive(Default)]
pub(super) struct HandOver {
    since: Option<Instant>,
}

impl HandOver {
    /// The change of roles that is due. Another head is due in the process of the head alone, once
    /// that has no strong write under way. After the time of a session it is due anyway: a write
    /// may wait for a member that does not answer.
    pub(super) fn due(
        &mut self,
        cluster: &Cluster,
        newest: &Configuration,
        wanted: Option<RoleChange>,
    ) -> Option<RoleChange> {
        let Some(RoleChange::Head(_)) = wanted else {
            self.end(cluster);
            return wanted;
        };
        let Some(head) = cluster.member(newest.head()) else {
            self.end(cluster);
            return None;
        };
        let now = cluster.clock().instant();
        let since = *self.since.get_or_insert(now);
        let is_ready = head.prepares_to_hand_over();
        wanted.filter(|_| is_ready || since + cluster.settings.session <= now)
    }

    pub(super) fn is_under_way(&self) -> bool {
        self.since.is_some()
    }

    fn end(&mut self, cluster: &Cluster) {
        self.since = None;
        for member in cluster.members() {
            member.keeps_its_role();
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
mod tests;
