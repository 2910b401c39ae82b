//! SL-6: a member whose thread stands still, as one does that waits for a disk which does not
//! answer. The rest of its process lives and keeps its session.

use crate::guard::{Guard, Guards};

/// How a member's thread stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stillness {
    /// It makes steps.
    Moves,
    /// It made none for S: no ping is sent for it, and it is passed no lease.
    Still,
    /// Its last lease has ended as well: its incarnation is over.
    Over,
}

/// What comes of a thread that made no step for `still_ms`, at `now_ms`, where sessions last
/// `session_ms`. The last lease that its incarnation was given holds until `leased_ms`.
pub fn stillness(
    still_ms: u64,
    session_ms: u64,
    now_ms: u64,
    leased_ms: u64,
    guards: &Guards,
) -> Stillness {
    match session_ms <= still_ms && guards.has(Guard::StillNoPing) {
        false => Stillness::Moves,
        true if now_ms < leased_ms => Stillness::Still,
        true => Stillness::Over,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_life_ends_with_its_last_lease_and_never_before() {
        let guards = Guards::default();
        let of = |still, now| stillness(still, 2_000, now, 10_000, &guards);
        assert_eq!(of(0, 9_000), Stillness::Moves);
        assert_eq!(of(1_999, 12_000), Stillness::Moves, "without a lease, too");
        assert_eq!(of(2_000, 9_999), Stillness::Still);
        assert_eq!(of(60_000, 9_999), Stillness::Still);
        assert_eq!(of(2_000, 10_000), Stillness::Over);
    }
}
