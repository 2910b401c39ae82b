//! The bytes of blocks at members: they come, are synced, fetched, freed, damaged and repaired.

use bytes::Bytes;

use super::chain::{MEMBERS, Member};
use super::{BEAT, Event, LEASE_MS, Rule, SCRUB, World};

/// A block that a member has.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) bytes: Bytes,
    /// As its header has it.
    pub(super) sum: u32,
    /// Whether it survives a power cut.
    pub(super) is_durable: bool,
    /// When it came, by the member's monotonic clock, in milliseconds.
    pub(super) since_ms: u64,
}

/// Bytes on their way.
#[derive(Clone, Debug)]
pub(super) struct Copied {
    pub(super) bytes: Bytes,
    pub(super) sum: u32,
}

/// A checksum: FNV-1a of 32 bits.
pub(super) fn sum_of(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |sum, byte| {
        (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    })
}

impl Held {
    pub(super) fn is_sound(&self) -> bool {
        sum_of(&self.bytes) == self.sum
    }
}

impl World {
    /// Whether a member may say that it has a block.
    pub(super) fn is_held(&self, member: &Member, id: u128) -> bool {
        let held = member.blocks.get(&id);
        held.is_some_and(|held| held.is_durable || !self.has(Rule::SyncBytes))
    }

    /// The members that can be asked for bytes, the head first.
    fn sources(&self, but: usize) -> Vec<usize> {
        let head = self.chains[self.on].head();
        let others = (0..MEMBERS).filter(|at| *at != head && *at != but);
        let all = std::iter::once(head).filter(|at| *at != but).chain(others);
        all.filter(|at| self.chains[self.on].is_reached(*at, self.now))
            .collect()
    }

    /// Asks the others for bytes.
    pub(super) fn fetch(&mut self, member: usize, id: u128, is_repair: bool) {
        let sources = self.sources(member);
        let holders: Vec<usize> = sources
            .iter()
            .copied()
            .filter(|at| self.chains[self.on].members[*at].blocks.contains_key(&id))
            .collect();
        let is_checked = self.has(Rule::CheckedRepair);
        let found = holders.iter().find_map(|at| {
            let held = &self.chains[self.on].members[*at].blocks[&id];
            (held.is_sound() || !is_checked).then(|| Copied {
                bytes: held.bytes.clone(),
                sum: held.sum,
            })
        });
        if let Some(copied) = found {
            if let Some(time) = self.travel(20) {
                self.plan(time, Event::Bytes(member, id, copied, is_repair));
            }
            self.count("fetched");
            return;
        }
        let counted = self.chains[self.on]
            .seats
            .iter()
            .filter(|at| **at != member);
        let are_all_asked = counted.clone().all(|at| sources.contains(at));
        if holders.is_empty() && are_all_asked && !is_repair {
            // All members of the configuration say that they have it no more.
            self.chains[self.on].members[member].gone.insert(id);
            self.count("gone");
        }
    }

    pub(super) fn bytes_come(&mut self, member: usize, id: u128, copied: Copied, is_repair: bool) {
        if !self.chains[self.on].is_reached(member, self.now) {
            return;
        }
        let now = self.now;
        let here = &mut self.chains[self.on].members[member];
        match here.blocks.get_mut(&id) {
            Some(held) if is_repair => {
                held.bytes = copied.bytes;
                let is_sound = held.is_sound();
                self.count("repaired");
                if !is_sound {
                    self.fail("bytes", &format!("{id:x} is repaired with damaged bytes"));
                }
                return;
            }
            Some(_) => return,
            None if is_repair => return,
            None => {}
        }
        let held = Held {
            bytes: copied.bytes,
            sum: copied.sum,
            is_durable: false,
            since_ms: here.clock.steady(now) / 1_000,
        };
        here.blocks.insert(id, held);
        here.gone.remove(&id);
        let life = here.life;
        let delay = self.random.skewed(100, 5_000);
        self.plan(now + delay, Event::Flushed(member, life, id));
    }

    pub(super) fn flushed(&mut self, member: usize, life: u64, id: u128) {
        let here = &mut self.chains[self.on].members[member];
        if here.life == life
            && here.is_up
            && let Some(held) = here.blocks.get_mut(&id)
        {
            held.is_durable = true;
            here.wanted.remove(&id);
        }
    }

    /// Members fetch what they wait for, free what the floor has passed, and drop what has no row.
    pub(super) fn tend_bytes(&mut self) {
        for at in 0..MEMBERS {
            if !self.chains[self.on].is_reached(at, self.now) {
                continue;
            }
            let here = &self.chains[self.on].members[at];
            let lacking = here
                .wanted
                .iter()
                .filter(|id| !here.blocks.contains_key(id));
            for id in lacking.copied().collect::<Vec<_>>() {
                self.fetch(at, id, false);
            }
            self.free(at);
            self.drop_rowless(at);
        }
    }

    fn free(&mut self, at: usize) {
        let here = &self.chains[self.on].members[at];
        let is_passed = |(removed, _): &&(usize, u128)| *removed <= here.floor;
        let passed = here.removed.iter().filter(is_passed).copied();
        let passed: Vec<(usize, u128)> = passed.collect();
        for (_, id) in &passed {
            if !self.chains[self.on].members[at].has_row(*id) {
                let freed = self.chains[self.on].members[at].blocks.remove(id);
                if freed.is_some() {
                    self.count("freed");
                }
            }
        }
        let removed = &mut self.chains[self.on].members[at].removed;
        removed.retain(|it| !passed.contains(it));
    }

    fn drop_rowless(&mut self, at: usize) {
        let here = &self.chains[self.on].members[at];
        if here.is_empty || !here.wanted.is_empty() {
            return;
        }
        let now_ms = here.clock.steady(self.now) / 1_000;
        let rowless = here.blocks.iter().filter(|(id, held)| {
            match self.has(Rule::KeepLogged) {
                true => {
                    let is_old = held.since_ms + LEASE_MS <= now_ms;
                    is_old && held.is_durable && !here.has_row(**id)
                }
                // By what is applied, at any time: the log may have the row.
                false => {
                    let row = fader_services::blocks::row(&here.state, **id);
                    held.is_durable && row.expect(super::READABLE).is_none()
                }
            }
        });
        for id in rowless.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.chains[self.on].members[at].blocks.remove(&id);
            self.count("rowless");
        }
    }

    /// Members read all bytes again, and have those repaired that are damaged.
    pub(super) fn scrub(&mut self) {
        self.plan(self.now + SCRUB, Event::Scrub);
        for at in 0..MEMBERS {
            let here = &self.chains[self.on].members[at];
            let bad = here.blocks.iter().filter(|(_, held)| !held.is_sound());
            for id in bad.map(|(id, _)| *id).collect::<Vec<_>>() {
                self.count("found damage");
                self.fetch(at, id, true);
            }
        }
    }

    /// Whether a member may join: it has the bytes of all rows of the head's newest state. It
    /// fetches the others.
    pub(super) fn may_join(&mut self, member: usize) -> bool {
        let rows = World::rows(&self.chains[self.on].newest);
        let here = &self.chains[self.on].members[member];
        let lacking = rows.into_iter().filter(|id| {
            let held = here.blocks.get(id);
            !held.is_some_and(|held| held.is_durable)
        });
        let lacking: Vec<u128> = lacking.collect();
        if !self.has(Rule::JoinBytes) || lacking.is_empty() {
            return true;
        }
        self.count("filled");
        for id in lacking {
            self.fetch(member, id, false);
        }
        false
    }

    /// The head sends to all, and members look around.
    pub(super) fn beat(&mut self) {
        self.plan(self.now + BEAT, Event::Beat);
        self.control();
        self.send_log();
        self.tell_held();
        self.tend_bytes();
    }
}
