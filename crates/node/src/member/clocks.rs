//! A member's lease, which an alarm of clocks ends ([`crate::peer::PeerClocks`]).
//!
//! Invariants:
//! - (CK-2) a member's thread looks at the count of alarms before each step: no answer is given
//!   under a lease that ended with an alarm.

use fader_chain::Input;

use super::cluster_links::Lease;
use super::thread::ChainThread;

impl ChainThread {
    /// Takes the newest lease, before each job and after a tick without one. A lease of another
    /// incarnation is left, and so is one with an alarm of clocks since its ping (CK-2).
    pub(super) fn take_lease(&mut self) {
        let Some(links) = &self.links else {
            return;
        };
        let newest = self.shared.lease();
        let is_own = newest.incarnation == self.lease.incarnation;
        if is_own && self.lease.sent < newest.sent && links.clocks.holds(newest.sent) {
            self.lease = newest;
            self.step(Input::Lease {
                until: newest.until,
            });
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
            self.lease = Lease::none(self.lease.incarnation);
            self.step(Input::Lease { until: 0 });
        }
    }
}
