//! Time that passes because a test says so, in a cluster of one process.
//!
//! Invariants:
//! - MOVED-1 a member that lives and reaches the coordinator keeps session and lease, however slow
//!   the machine is. Between two steps all threads that time concerns have looked at the clock.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, TrySendError, channel};
use std::time::Duration;

use super::{Cluster, Running};
use crate::clock::Clock;
use crate::coordinator::Wakeup;
use crate::member::Member;
use crate::member::thread::Job;

/// Steps in the time of a session. In each a ping is due, and none is late.
const STEPS: u32 = 8;
/// How often it is looked whether all have looked.
const LOOK: Duration = Duration::from_millis(1);
/// A member's thread, and the keeper of its session.
const THREADS: usize = 2;

/// A member whose threads are to look at the clock.
struct Looking {
    member: Arc<Member>,
    keeper: Arc<Wakeup>,
    /// The turn of the keeper with whose end it has; none if there is no keeper.
    turn: Option<u64>,
    /// Where the member's thread says so, once it was asked.
    heard: Option<Receiver<()>>,
    has_heard: bool,
}

impl Looking {
    fn new(running: &Running) -> Self {
        let has_keeper = running.session.is_some();
        let shared = running.member.shared();
        Looking {
            member: running.member.clone(),
            keeper: running.keeper.clone(),
            turn: has_keeper.then(|| shared.turns.next()),
            heard: None,
            has_heard: false,
        }
    }

    /// Whether both threads have looked, are held up or have ended.
    fn is_done(&mut self) -> bool {
        self.keeper.wake();
        self.ask();
        let shared = self.member.shared();
        shared.gate.look();
        let is_told = self.turn.is_none_or(|turn| shared.turns.has_come(turn));
        let looked = usize::from(is_told) + usize::from(self.has_heard);
        THREADS <= looked + shared.gate.held().unwrap_or(0)
    }

    /// Asks the member's thread, or looks whether it has answered.
    fn ask(&mut self) {
        match &self.heard {
            None => {
                let (hears, heard) = channel();
                match self.member.jobs().try_send(Job::Time(hears)) {
                    Ok(()) => self.heard = Some(heard),
                    // There is room later.
                    Err(TrySendError::Full(_)) => {}
                    Err(TrySendError::Disconnected(_)) => self.has_heard = true,
                }
            }
            Some(heard) => self.has_heard |= heard.try_recv() != Err(TryRecvError::Empty),
        }
    }
}

impl Cluster {
    /// The clock of its members, its coordinator and its controller.
    pub(super) fn clock(&self) -> &Clock {
        &self.settings.member.clock
    }

    /// Has so much time pass at once, for members of this process. A member that lives pings in
    /// that time (MOVED-1). One that is killed, paused or cut off does not: its lease ends, then
    /// its session. Returns when all have looked at the clock, and the controller has acted.
    pub fn advance(&self, time: Duration) {
        let step = (self.session() / STEPS).max(LOOK);
        let mut left = time;
        // Who was paused or cut off before does not ping any more.
        self.look();
        while !left.is_zero() {
            let passes = left.min(step);
            self.clock().advance(passes);
            self.look();
            left -= passes;
        }
    }

    /// Waits until all members have looked at the clock, and then the controller.
    fn look(&self) {
        let running = self.slots.iter().map(|slot| slot.running.read());
        let looking = running.filter_map(|running| running.as_ref().map(Looking::new));
        let mut looking: Vec<Looking> = looking.collect();
        loop {
            looking.retain_mut(|looking| !looking.is_done());
            if looking.is_empty() || self.is_closing() {
                break;
            }
            std::thread::sleep(LOOK);
        }
        let turn = self.turns.next();
        while !self.turns.has_come(turn) && !self.is_closing() {
            self.wakeup.wake();
            std::thread::sleep(LOOK);
        }
    }
}
