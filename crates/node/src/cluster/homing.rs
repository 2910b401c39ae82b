//! When a chain's head or tail goes back to the zone that is wished for it: after the chain was
//! calm for a while, each time longer, so that a member that comes and goes is not followed
//! (docs/protocol/reconfiguration.md, section 12, HM).

use std::time::{Duration, Instant};

use fader_chain::controller::Shift;
use fader_chain::{Configuration, Seat};

/// How long a chain's seats must have been the same, at first.
const CALM: Duration = Duration::from_secs(10);
/// How often that time doubles at most.
const DOUBLED_MAX: u32 = 6;
/// After this time without a change that was wished for it is as at first.
const FORGOTTEN: Duration = Duration::from_secs(60 * 60);

/// What a controller remembers of a chain for that.
#[derive(Default)]
pub(super) struct Homing {
    /// The seats, and since when they are so.
    seats: Option<(Vec<Seat>, Instant)>,
    /// The change that they ask for.
    wanted: Option<Shift>,
    /// How often such changes were seen of late, and the last time.
    seen: Option<(u32, Instant)>,
}

impl Homing {
    /// HM-2: the change that is wished for, when it is time for it.
    pub(super) fn due(
        &mut self,
        newest: &Configuration,
        wanted: Option<Shift>,
        now: Instant,
    ) -> Option<Shift> {
        let known = self.seats.as_ref();
        if known.is_none_or(|(seats, _)| *seats != newest.seats) {
            if known.is_some_and(|(seats, _)| is_reordered(seats, &newest.seats))
                && self.wanted.is_some()
            {
                let times = self.times(now) + 1;
                self.seen = Some((times.min(DOUBLED_MAX), now));
            }
            self.seats = Some((newest.seats.clone(), now));
        }
        self.wanted = wanted;
        let calm = CALM * 2_u32.pow(self.times(now));
        let since = self.seats.as_ref().map_or(now, |(_, since)| *since);
        wanted.filter(|_| calm <= now.duration_since(since))
    }

    fn times(&self, now: Instant) -> u32 {
        let fresh = self
            .seen
            .filter(|(_, last)| now.duration_since(*last) < FORGOTTEN);
        fresh.map_or(0, |(times, _)| times)
    }
}

/// Whether the same seats stand in another order.
fn is_reordered(before: &[Seat], after: &[Seat]) -> bool {
    before.len() == after.len() && after.iter().all(|seat| before.contains(seat))
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

    #[test]
    fn each_time_is_longer_and_is_forgotten() {
        let (away, home) = (order([2, 1]), order([1, 2]));
        let wanted = Some(Shift::Head(NodeId(1)));
        let mut homing = Homing::default();
        let mut now = Instant::now();
        for calm in [10, 20, 40, 80, 160, 320, 640, 640] {
            assert_eq!(homing.due(&away, wanted, now), None);
            // A floor that rises is an epoch, and disturbs nobody.
            let mut risen = away.clone();
            risen.epoch += 1;
            now += Duration::from_millis(calm * 1000 - 1);
            assert_eq!(homing.due(&risen, wanted, now), None);
            now += Duration::from_millis(1);
            assert_eq!(homing.due(&risen, wanted, now), wanted);
            now += Duration::from_secs(1);
            assert_eq!(homing.due(&home, None, now), None);
            now += Duration::from_secs(1);
        }
        now += FORGOTTEN;
        assert_eq!(homing.due(&away, wanted, now), None);
        now += CALM;
        assert_eq!(homing.due(&away, wanted, now), wanted);
    }
}
