//! The threads of a process's members, of which one may stand still while the process lives (SL-6).

use fader_chain::ChainId;
use fader_chain::membership::{Stillness, stillness};

use super::super::SESSION;
use super::Process;

impl Process {
    /// Whether the thread of a chain's member stands still.
    pub(super) fn is_hung(&self, chain: ChainId, at: u64) -> bool {
        self.hung
            .is_some_and(|(of, until)| of == chain && at < until)
    }

    /// SL-6: it asks for pings for members whose threads make steps, and ends the incarnations of
    /// others with their leases.
    pub(super) fn look_at_threads(&mut self, at: u64) {
        let (now_ms, hung) = (self.ms(at), self.hung.filter(|(_, until)| at < *until));
        let Some(keeper) = self.keeper.as_mut() else {
            return;
        };
        let (guards, said) = (&self.guards, &mut self.said);
        self.incarnations.retain(|chain, incarnation| {
            if hung.is_none_or(|(of, _)| of != *chain) {
                incarnation.stepped_ms = now_ms;
            }
            let still_ms = now_ms - incarnation.stepped_ms;
            let session_ms = SESSION.as_millis() as u64;
            let leased_ms = incarnation.lease_until_ms;
            match stillness(still_ms, session_ms, now_ms, leased_ms, guards) {
                Stillness::Moves => {
                    incarnation.asked_ms.get_or_insert(now_ms);
                }
                Stillness::Still => incarnation.asked_ms = None,
                Stillness::Over => {
                    if keeper.close(incarnation.identity).is_some() {
                        *said = (*said).max(Some(keeper.leave_out(incarnation.identity)));
                    }
                    return false;
                }
            }
            true
        });
    }
}
