//! Decides which tasks an idle worker sends again, and which get a backup. Pure.
//!
//! Invariants:
//! - MR-7 a task is sent again only when the worker itself saw its beat stand still for a lease, by
//!   its own monotonic clock.
//! - MR-9 a turn that another worker took is taken again only when its ticket stood still for a
//!   lease, by the same clock.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::rows::{Order, Phase, Row, Task};

/// A task that is older than so many halves of the median gets a backup.
const BACKUP_HALVES: u32 = 3;
/// And never before.
const BACKUP_MIN: Duration = Duration::from_secs(1);

/// What a worker saw of tasks that have no winner.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watch {
    /// The beat of each, since when it stands still, and since when it runs.
    seen: BTreeMap<Task, (String, Duration, Duration)>,
    /// The ticket of each turn, and since when it stands still.
    turns: BTreeMap<&'static str, (u64, Duration)>,
    /// Before this time it does not look again.
    pub(crate) next: Duration,
}

/// What a worker wants to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wishes {
    /// Tasks to be sent again, each with the beat that stands still.
    pub(crate) again: Vec<Order>,
    /// A task that may get a backup.
    pub(crate) backup: Option<Task>,
}

impl Watch {
    /// Looks at the rows of a phase's tasks.
    pub(crate) fn look(
        &mut self,
        phase: Phase,
        count: u32,
        rows: &BTreeMap<u32, Row>,
        now: Duration,
        lease: Duration,
    ) -> Wishes {
        let mut wishes = Wishes::default();
        let none = Row::default();
        let (mut has_waiting, mut oldest) = (false, None);
        for number in 0..count {
            let task = phase.task(number);
            let row = rows.get(&number).unwrap_or(&none);
            if row.winner.is_some() {
                self.seen.remove(&task);
                continue;
            }
            has_waiting |= row.beat.is_empty();
            let fresh = (row.beat.clone(), now, now);
            let seen = self.seen.entry(task).or_insert_with(|| fresh.clone());
            if seen.0 != row.beat {
                let since = if attempt(&seen.0) == attempt(&row.beat) {
                    seen.2
                } else {
                    now
                };
                *seen = (row.beat.clone(), now, since);
            }
            if lease <= now.saturating_sub(seen.1) {
                wishes.again.push(Order::new(task, row.beat.clone()));
            }
            let age = now.saturating_sub(seen.2);
            if !row.has_backup && oldest.is_none_or(|(_, other)| other < age) {
                oldest = Some((task, age));
            }
        }
        let laps = rows.values().filter_map(Row::lap).map(|(_, ms)| ms);
        let bound =
            median(laps.collect()).map(|median| (median * BACKUP_HALVES / 2).max(BACKUP_MIN));
        let late = oldest.filter(|(_, age)| bound.is_some_and(|bound| bound < *age));
        wishes.backup = late.map(|(task, _)| task).filter(|_| !has_waiting);
        wishes
    }

    /// Whether the worker may take a turn that another took: it was not done within a lease.
    pub(crate) fn may_take(
        &mut self,
        turn: &'static str,
        ticket: u64,
        now: Duration,
        lease: Duration,
    ) -> bool {
        let seen = self.turns.entry(turn).or_insert((ticket, now));
        if seen.0 != ticket {
            *seen = (ticket, now);
        }
        lease <= now.saturating_sub(seen.1)
    }

    /// Tasks were sent, perhaps by another worker: each has another lease.
    pub(crate) fn sent(&mut self, now: Duration) {
        self.seen.values_mut().for_each(|seen| seen.1 = now);
    }
}

/// The attempt that a beat is of.
fn attempt(beat: &str) -> &str {
    beat.split(':').next().unwrap_or_default()
}

fn median(mut laps: Vec<u64>) -> Option<Duration> {
    laps.sort_unstable();
    laps.get(laps.len() / 2).copied().map(Duration::from_millis)
}

#[cfg(test)]
mod tests;
