//! The network: between any two ends messages are late, lost, repeated and overtaken, and any
//! direction of any link may be cut.

use std::collections::BTreeMap;

use fader_chain::NodeId;

use super::random::Random;

/// Where messages begin and end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum End {
    /// A member.
    Member(NodeId),
    /// The coordinator.
    Coordinator,
}

/// How a network behaves where it is not cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weather {
    /// The least delay, in microseconds.
    pub delay_min: u64,
    /// The greatest delay of a message that is not stray.
    pub delay_max: u64,
    /// Messages lost, of a thousand.
    pub loss: u32,
    /// Messages that arrive twice, of a thousand.
    pub twice: u32,
    /// Messages of which another copy arrives when nobody expects it any more, of a thousand.
    pub stray: u32,
    /// The greatest delay of such a copy.
    pub stray_max: u64,
}

/// The network of a world.
#[derive(Clone, Debug)]
pub(crate) struct Network {
    weather: Weather,
    /// Until when each direction is cut.
    cuts: BTreeMap<(End, End), u64>,
}

impl Network {
    pub(crate) fn new(weather: Weather) -> Self {
        Network {
            weather,
            cuts: BTreeMap::new(),
        }
    }

    /// Cuts one direction until the time `until`.
    pub(crate) fn cut(&mut self, from: End, to: End, until: u64) {
        let cut = self.cuts.entry((from, to)).or_default();
        *cut = until.max(*cut);
    }

    /// From now on the weather is this.
    pub(crate) fn change(&mut self, weather: Weather) {
        self.weather = weather;
    }

    /// Ends all cuts.
    pub(crate) fn heal(&mut self) {
        self.cuts.clear();
    }

    /// Whether a message that arrives now gets through.
    pub(crate) fn is_open(&self, from: End, to: End, now: u64) -> bool {
        self.cuts.get(&(from, to)).is_none_or(|until| *until <= now)
    }

    /// When the copies of a message sent now arrive; stray copies too.
    pub(crate) fn deliveries(&self, now: u64, random: &mut Random) -> Vec<u64> {
        let weather = &self.weather;
        let mut deliveries = Vec::new();
        if !random.chance(weather.loss) {
            deliveries.push(now + random.skewed(weather.delay_min, weather.delay_max));
        }
        if random.chance(weather.twice) {
            deliveries.push(now + random.skewed(weather.delay_min, weather.delay_max));
        }
        if random.chance(weather.stray) {
            deliveries.push(now + random.between(weather.delay_max, weather.stray_max));
        }
        deliveries
    }
}
