//! A member's lease, which an alarm of clocks ends ([`crate::peer::PeerClocks`]).
//!
//! Invariants:
//! - (CK-2) a member's thread looks at the count of alarms before each step: no answer is given
//!   under a lease that ended with an alarm.

use fader_chain::Input;

use super::cluster_links::Lease;
use super::thread::ChainThread;

impl ChainThread {
    /// A lease is taken if no alarm of clocks came since its ping was sent (CK-2).
    pub(super) fn on_lease(&mut self, lease: Lease) {
        let clocks = self.links.as_ref().map(|links| &links.clocks);
        if clocks.is_none_or(|clocks| clocks.holds(lease.sent)) {
            self.lease = lease;
            self.step(Input::Lease { until: lease.until });
        }
    }

    /// CK-2: after an alarm the lease is none.
    pub(super) fn heed_clocks(&mut self) {
        let Some(links) = &self.links else {
            return;
        };
        let alarms = links.clocks.alarms();
        if alarms == std::mem::replace(&mut self.alarms, alarms) {
            return;
        }
        if !links.clocks.holds(self.lease.sent) {
            self.lease = Lease::default();
            self.step(Input::Lease { until: 0 });
        }
    }
}
