//! A member's lease, which an alarm of clocks ends ([`crate::peer::PeerClocks`]).
//!
//! Invariants:
//! - CK-2 a member's thread looks at the count of alarms before each step: no answer is given under
//!   a lease that ended with an alarm.

use fader_chain::Input;

use super::thread::ChainThread;

/// A lease: when the ping was sent that it comes from, and when it ends, in milliseconds of the
/// lease clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lease {
    pub(crate) sent: u64,
    pub(crate) until: u64,
}

impl ChainThread {
    /// A lease is taken if no alarm of clocks came since its ping was sent (CK-2).
    pub(super) fn on_lease(&mut self, lease: Lease) {
        let clocks = self.company.as_ref().map(|company| &company.clocks);
        if clocks.is_none_or(|clocks| clocks.holds(lease.sent)) {
            self.lease = lease;
            self.step(Input::Lease { until: lease.until });
        }
    }

    /// CK-2: after an alarm the lease is none.
    pub(super) fn heed_clocks(&mut self) {
        let Some(company) = &self.company else {
            return;
        };
        let alarms = company.clocks.alarms();
        if alarms == std::mem::replace(&mut self.alarms, alarms) {
            return;
        }
        if !company.clocks.holds(self.lease.sent) {
            self.lease = Lease::default();
            self.step(Input::Lease { until: 0 });
        }
    }
}
