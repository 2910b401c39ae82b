//! How writers of several processes take turns at the next slot. After its own slot a writer rests,
//! so that each of its rivals comes to write.

use std::collections::VecDeque;
use std::time::Duration;

/// Slots by which the rivals of a writer are counted.
const RECENT: usize = 32;
/// Own slots in a row before a look-out for rivals.
const RUN: u32 = 8;

/// The turns of one writer.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// The processes of the newest slots.
    recent: VecDeque<u128>,
    run: u32,
    rests_until: Duration,
}

impl Turns {
    /// The next slot is not written before.
    pub(super) fn rests_until(&self) -> Duration {
        self.rests_until
    }

    /// A slot of this process was seen.
    pub(super) fn saw(&mut self, process: u128) {
        self.recent.push_back(process);
        if RECENT < self.recent.len() {
            self.recent.pop_front();
        }
    }

    /// An own slot landed. The writer rests for the time of a PUT for each rival that the newest
    /// slots show. A writer that sees none looks out for them now and then.
    pub(super) fn wrote(&mut self, process: u128, sent: Duration, answered: Duration, random: u64) {
        let mut rivals: Vec<u128> = self.recent.iter().copied().collect();
        rivals.sort_unstable();
        rivals.dedup();
        let rivals = rivals.iter().filter(|one| **one != process).count() as u32;
        self.run = match rivals {
            0 => (self.run + 1) % RUN,
            _ => 1,
        };
        let latency = answered.saturating_sub(sent);
        let rests = match (rivals, self.run) {
            (0, 0) => latency * 3,
            (0, _) => Duration::ZERO,
            _ => latency * rivals * (512 + (random % 512) as u32) / 1024,
        };
        self.rests_until = answered + rests;
    }
}
