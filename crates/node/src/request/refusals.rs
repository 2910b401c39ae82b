//! How often requests were refused with 503, by chain and reason.

use std::collections::BTreeMap;

use fader_chain::ChainId;
use fader_services::Reason;
use parking_lot::Mutex;

/// The counts since the process began. The labels are of closed lists, so they stay few.
#[derive(Default)]
pub(crate) struct Refusals(Mutex<BTreeMap<(ChainId, Reason), u64>>);

impl Refusals {
    /// One more.
    pub(crate) fn count(&self, chain: ChainId, reason: Reason) {
        *self.0.lock().entry((chain, reason)).or_default() += 1;
    }

    /// All that are not zero.
    pub(crate) fn all(&self) -> Vec<(ChainId, Reason, u64)> {
        let counts = self.0.lock();
        let all = counts
            .iter()
            .map(|((chain, reason), it)| (*chain, *reason, *it));
        all.collect()
    }
}
