//! What members do with what they are sent, and what befalls them.

use std::rc::Rc;

use super::chain::{Entry, MEMBERS, rows_of};
use super::{CALM, Event, MISSED, Rule, World};

/// How long a member is down, or cut off.
const DOWN: (u64, u64) = (50_000, 1_200_000);
/// How far a clock on the wall is put, in milliseconds.
const STEP_MS: u64 = 4_000;

impl World {
    /// The controller looks around.
    pub(super) fn control(&mut self) {
        let was_head = self.chains[self.on].head();
        let mut is_other = self.chains[self.on].leave_out(self.now, MISSED);
        if !is_other
            && let Some(back) = self.chains[self.on].joiner(self.now)
            && self.may_join(back)
        {
            self.chains[self.on].members[back].gone.clear();
            self.chains[self.on].join(back);
            self.judge_held(back);
            self.count("joins");
            is_other = true;
        }
        if is_other {
            self.count("epochs");
            if self.chains[self.on].head() != was_head {
                self.count("failovers");
            }
            self.commit_all();
        }
    }

    /// The head sends its log to those that have not all of it, and what is committed.
    pub(super) fn send_log(&mut self) {
        let (head, epoch) = (self.chains[self.on].head(), self.chains[self.on].epoch);
        if !self.chains[self.on].members[head].is_up {
            return;
        }
        let known = (
            self.chains[self.on].commits,
            self.chains[self.on].raise_floor(self.now),
        );
        for member in self.chains[self.on].seats.clone() {
            let from = self.chains[self.on].members[member].acknowledged;
            let log = self.chains[self.on].members[head].log[from..].to_vec();
            if let Some(time) = self.travel(20) {
                self.plan(time, Event::Log((member, epoch), from, log, known));
            }
        }
    }

    /// Whether a member hears the head, and the head it.
    fn is_open(&self, member: usize) -> bool {
        let head = self.chains[self.on].head();
        match member == head {
            true => self.chains[self.on].members[head].is_up,
            false => {
                self.chains[self.on].is_reached(member, self.now)
                    && self.chains[self.on].is_reached(head, self.now)
            }
        }
    }

    /// BGATE-1: an entry is logged when the bytes of its rows are there, or gone everywhere.
    pub(super) fn hear(
        &mut self,
        member: usize,
        epoch: u64,
        from: usize,
        log: &[Rc<Entry>],
        commits: usize,
        floor: usize,
    ) {
        if self.chains[self.on].epoch != epoch || !self.is_open(member) {
            return;
        }
        let (gates, syncs) = (self.has(Rule::Gate), self.has(Rule::SyncBytes));
        let length = self.chains[self.on].hear(member, from, log, |here, entry| {
            if !gates {
                return true;
            }
            let lacking = rows_of(entry).filter(|id| {
                let held = here.blocks.get(id);
                let is_held = held.is_some_and(|held| held.is_durable || !syncs);
                !is_held && !here.gone.contains(id)
            });
            let lacking: Vec<u128> = lacking.collect();
            here.wanted.extend(&lacking);
            lacking.is_empty()
        });
        let here = &mut self.chains[self.on].members[member];
        here.floor = here.floor.max(floor);
        if here.slow_until <= self.now {
            here.apply_to(commits);
        }
        let life = here.life;
        let delay = self.random.skewed(100, 3_000);
        self.plan(self.now + delay, Event::Synced(member, life, length));
    }

    pub(super) fn synced(&mut self, member: usize, life: u64, length: usize) {
        let epoch = self.chains[self.on].epoch;
        let here = &mut self.chains[self.on].members[member];
        if here.life != life || !here.is_up {
            return;
        }
        here.synced = here.synced.max(length.min(here.log.len()));
        let length = here.synced;
        if let Some(time) = self.travel(20) {
            self.plan(time, Event::Acknowledged(member, epoch, length));
        }
    }

    pub(super) fn acknowledged(&mut self, member: usize, epoch: u64, length: usize) {
        if self.chains[self.on].epoch != epoch || !self.is_open(member) {
            return;
        }
        let here = &mut self.chains[self.on].members[member];
        here.acknowledged = here.acknowledged.max(length.min(here.log.len()));
        self.commit_all();
    }

    pub(super) fn strike(&mut self) {
        if self.is_calm() {
            return;
        }
        let pause = self.random.between(100_000, 700_000);
        self.plan(self.now + pause, Event::Fault);
        let member = self.random.below(MEMBERS);
        let until = self.now + self.random.between(DOWN.0, DOWN.1);
        let until = until.min(CALM);
        match self.random.below(10) {
            0 => self.step_clock(self.chains[self.on].head()),
            1 => self.step_clock(member),
            2 => {
                self.chains[self.on].members[member].slow_until = until;
                self.count("slow members");
            }
            3 => {
                self.chains[self.on].members[member].cut_until = until;
                self.count("partitions");
            }
            4 | 5 if !self.wipes => self.damage(member),
            4 if self.may_wipe(member) => {
                self.crash(member, until + 3 * MISSED, true);
                self.count("wipes");
            }
            6 | 7 => {
                self.crash(self.chains[self.on].head(), until, false);
                self.count("crashes");
            }
            _ => {
                self.crash(member, until, false);
                self.count("crashes");
            }
        }
        self.trace.say(self.now, || format!("m{member} is struck"));
    }

    /// A clock on the wall is put to another time.
    fn step_clock(&mut self, member: usize) {
        let ahead = self.random.between(0, 2 * STEP_MS).cast_signed();
        self.chains[self.on].members[member].clock.ahead_ms = ahead - STEP_MS.cast_signed();
        self.count("clock steps");
    }

    fn crash(&mut self, member: usize, until: u64, is_wiped: bool) {
        if !self.chains[self.on].members[member].is_up {
            return;
        }
        if is_wiped {
            self.lose_held(member);
        }
        self.chains[self.on].crash(member, is_wiped, &mut self.random);
        let life = self.chains[self.on].members[member].life;
        self.plan(until, Event::Start(member, life));
    }

    /// Whether the other two have everything, and go on.
    fn may_wipe(&self, member: usize) -> bool {
        let others = (0..MEMBERS).filter(|at| *at != member);
        others.clone().all(|at| {
            self.chains[self.on].is_reached(at, self.now)
                && self.chains[self.on].seats.contains(&at)
        })
    }

    /// A byte of a block is another one, at a member; a third one has it as it was.
    fn damage(&mut self, member: usize) {
        let sound = |at: usize, id: &u128| {
            let held = self.chains[self.on].members[at].blocks.get(id);
            held.is_some_and(|held| held.is_durable && held.is_sound())
        };
        let all = self.chains[self.on].members[member].blocks.keys().copied();
        let counted =
            (0..MEMBERS).filter(|at| *at != member && self.chains[self.on].seats.contains(at));
        let counted: Vec<usize> = counted.collect();
        let candidates =
            all.filter(|id| sound(member, id) && counted.iter().any(|at| sound(*at, id)));
        let candidates: Vec<u128> = candidates.collect();
        if candidates.is_empty() {
            return;
        }
        let id = *self.random.pick(&candidates);
        // Two of three, now and then.
        let second = counted.iter().copied().filter(|at| sound(*at, &id));
        let second: Vec<usize> = second.collect();
        let is_twice = second.len() == 2 && self.random.chance(800);
        let victims = std::iter::once(member).chain(is_twice.then(|| second[0]));
        for (number, victim) in (1..).zip(victims.collect::<Vec<_>>()) {
            if let Some(held) = self.chains[self.on].members[victim].blocks.get_mut(&id) {
                let mut bytes = held.bytes.to_vec();
                bytes[0] ^= number;
                held.bytes = bytes.into();
                self.count("damage");
            }
        }
    }

    pub(super) fn start(&mut self, member: usize, life: u64) {
        if self.chains[self.on].members[member].life != life {
            return;
        }
        if self.chains[self.on].members[member].is_empty
            && self.chains[self.on].seats.contains(&member)
        {
            // It is left out first.
            self.plan(self.now + MISSED, Event::Start(member, life));
            return;
        }
        self.chains[self.on].members[member].is_up = true;
        // A head without its disk has no log for an epoch. It is left out first, too.
        let has_head = !self.chains[self.on].head_member().is_empty;
        if has_head && self.chains[self.on].seats.contains(&member) {
            self.chains[self.on].begin_epoch();
        }
    }
}
