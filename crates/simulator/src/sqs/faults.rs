//! What members do with what they are sent, and what befalls them.

use std::rc::Rc;

use bytes::Bytes;
use fader_chain::Guard;

use super::chain::{Entry, MEMBERS};
use super::{BEAT, CALM, Event, MISSED, W, World};

/// How long a member is down, or cut off.
const DOWN: (u64, u64) = (100_000, 1_500_000);
/// How far a clock on the wall is put, in milliseconds.
const STEP_MS: u64 = 3_000;

impl World {
    /// The head sends its log to those that have not all of it, and members look around.
    pub(super) fn beat(&mut self, at: usize) {
        self.queue.plan(self.now + BEAT, Event::Beat(at));
        let was_head = self.chains[at].head();
        if self.chains[at].control(self.now, MISSED) {
            self.count("epochs");
            if self.chains[at].head() != was_head {
                self.count("failovers");
                self.dismiss(at);
            }
            self.commit_all(at);
        }
        self.send_log(at);
        self.attend(at);
    }

    pub(super) fn send_log(&mut self, at: usize) {
        let chain = &self.chains[at];
        let (head, epoch) = (chain.head(), chain.epoch);
        if !chain.members[head].is_up {
            return;
        }
        let length = chain.members[head].log.len();
        for member in chain.seats.clone() {
            let from = self.chains[at].members[member].acknowledged;
            if from < length {
                let log = self.chains[at].log(from);
                self.send_between(at, Event::Log(at, (member, epoch), from, log));
            }
        }
    }

    /// A message between two members of a chain, of which one is its head.
    fn send_between(&mut self, at: usize, event: Event) {
        let permille = match self.now < self.chains[at].lossy_until {
            true => 400,
            false => 20,
        };
        if let Some(at) = self.travel(permille) {
            self.queue.plan(at, event);
        }
    }

    /// Whether a member hears the head, and the head it.
    fn is_open(&self, at: usize, member: usize) -> bool {
        let chain = &self.chains[at];
        let head = chain.head();
        match member == head {
            true => chain.members[head].is_up,
            false => chain.is_reached(member, self.now) && chain.is_reached(head, self.now),
        }
    }

    pub(super) fn hear(
        &mut self,
        at: usize,
        member: usize,
        epoch: u64,
        from: usize,
        log: &[Rc<Entry>],
    ) {
        if self.chains[at].epoch != epoch || !self.is_open(at, member) {
            return;
        }
        let length = self.chains[at].hear(member, from, log);
        let life = self.chains[at].members[member].life;
        let delay = self.random.skewed(100, 2_000);
        let synced = Event::Synced(at, member, life, length);
        self.queue.plan(self.now + delay, synced);
    }

    pub(super) fn synced(&mut self, at: usize, member: usize, life: u64, length: usize) {
        let epoch = self.chains[at].epoch;
        let here = &mut self.chains[at].members[member];
        if here.life != life || !here.is_up {
            return;
        }
        here.synced = here.synced.max(length.min(here.log.len()));
        let length = here.synced;
        self.send_between(at, Event::Acknowledged(at, member, epoch, length));
    }

    pub(super) fn acknowledged(&mut self, at: usize, member: usize, epoch: u64, length: usize) {
        if self.chains[at].epoch != epoch || !self.is_open(at, member) {
            return;
        }
        let here = &mut self.chains[at].members[member];
        here.acknowledged = here.acknowledged.max(length);
        self.commit_all(at);
    }

    /// The member that took an eventual send gives it to another one.
    pub(super) fn copy(&mut self, at: usize, member: usize, key: &Bytes) {
        let all = self.chains[at].members.iter();
        let found = all.filter_map(|it| it.operations.get(key)).next().cloned();
        let here = &self.chains[at].members[member];
        if let Some(operation) = found
            && here.is_up
            && here.cut_until <= self.now
        {
            let delay = self.random.skewed(100, 2_000);
            let kept = Event::Kept(at, member, here.life, key.clone(), operation.call);
            self.queue.plan(self.now + delay, kept);
        }
    }

    /// A member has synced an eventual send. It is acknowledged when W of them have.
    pub(super) fn kept_there(
        &mut self,
        at: usize,
        member: usize,
        life: u64,
        key: &Bytes,
        call: usize,
    ) {
        let here = &self.chains[at].members[member];
        if here.life != life || !here.is_up {
            return;
        }
        let Some((operation, reply)) = self.calls[call].stamped.clone() else {
            return;
        };
        let chain = &mut self.chains[at];
        if !chain.promoted.contains(key) {
            let operations = &mut chain.members[member].operations;
            operations.insert(key.clone(), operation);
        }
        let holders = self.holders.entry(call).or_default();
        *holders += 1;
        let wanted = match self.guards.has(Guard::JointW) {
            true => W,
            false => 1,
        };
        if *holders == wanted {
            self.reply(call, Ok(reply));
        }
    }

    /// Something befalls one member of a chain that has all of them.
    pub(super) fn strike(&mut self) {
        if CALM <= self.now {
            return;
        }
        let next = self.now + self.random.between(100_000, 900_000);
        self.queue.plan(next, Event::Fault);
        let at = self.random.below(2);
        let member = self.random.below(MEMBERS);
        if self.random.chance(300) {
            let step = self.random.between(0, 2 * STEP_MS).cast_signed() - STEP_MS.cast_signed();
            self.chains[at].members[member].clock.ahead_ms = step;
            return self.count("clock steps");
        }
        let chain = &self.chains[at];
        let are_all = (0..MEMBERS).all(|it| chain.is_reached(it, self.now));
        if !are_all || chain.seats.len() < MEMBERS {
            return;
        }
        let until = self.now + self.random.between(DOWN.0, DOWN.1);
        match self.random.below(8) {
            0 | 1 => {
                self.chains[at].members[member].cut_until = until;
                self.count("partitions");
            }
            2 => {
                self.chains[at].lossy_until = until;
                self.count("lossy times");
            }
            kind => {
                let victim = match kind {
                    3 | 4 => self.chains[at].head(),
                    _ => member,
                };
                let is_wiped = kind == 7;
                // A member without its disk is left out before it begins again.
                let until = if is_wiped { until + 2 * MISSED } else { until };
                let is_head = victim == self.chains[at].head();
                self.chains[at].crash(victim, is_wiped);
                if is_head {
                    self.forget_waiters(at);
                }
                let life = self.chains[at].members[victim].life;
                self.queue.plan(until, Event::Start(at, victim, life));
                self.count(if is_wiped { "wipes" } else { "crashes" });
            }
        }
        self.trace
            .say(self.now, || format!("c{at} m{member} is struck"));
    }

    pub(super) fn start(&mut self, at: usize, member: usize, life: u64) {
        let here = &mut self.chains[at].members[member];
        if here.life == life {
            here.is_up = true;
            self.chains[at].begin_again(member);
        }
    }
}
