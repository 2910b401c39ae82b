//! Breadth-first search over the states of a scenario.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use fader_chain::Guards;

use super::scenarios::Scenario;
use super::world::{Action, World};

/// When a search is cut off.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// States visited.
    pub states: usize,
}

/// How a search ended.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// Every state was visited.
    Exhausted,
    /// The limit was met first.
    CutOff,
    /// Something that must not happen happened.
    Violated {
        /// What.
        what: String,
        /// The steps to it, one a line.
        trace: String,
    },
}

/// What a search found.
#[derive(Clone, Debug)]
pub struct Found {
    /// How it ended.
    pub outcome: Outcome,
    /// States visited.
    pub states: usize,
    /// Steps taken between them.
    pub transitions: usize,
    /// The length of the longest shortest way to a state.
    pub depth: usize,
    /// The most requests that were answered in one state: a search without any shows nothing.
    pub answered: usize,
}

/// 128 bits of hash.
pub(super) fn hash(value: &impl Hash) -> u128 {
    let mut mixer = Mixer([0x9e37_79b9_7f4a_7c15, 0xd1b5_4a32_d192_ed03]);
    value.hash(&mut mixer);
    let [low, high] = mixer.0.map(finish);
    u128::from(high) << 64 | u128::from(low)
}

/// Two lanes of multiply and fold; nobody chooses the input to make them collide.
struct Mixer([u64; 2]);

impl Mixer {
    fn mix(&mut self, word: u64) {
        let fold = |lane: u64, by: u64| {
            let product = u128::from(lane ^ word) * u128::from(by);
            (product as u64 ^ (product >> 64) as u64).rotate_left(23) ^ lane
        };
        let [low, high] = self.0;
        self.0 = [
            fold(low, 0xa076_1d64_78bd_642f),
            fold(high, 0xe703_7ed1_a0b4_28db),
        ];
    }
}

impl Hasher for Mixer {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.mix(u64::from_le_bytes(word) ^ (chunk.len() as u64) << 56);
        }
    }

    fn write_u8(&mut self, value: u8) {
        self.mix(u64::from(value));
    }

    fn write_u32(&mut self, value: u32) {
        self.mix(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        self.mix(value);
    }

    fn write_u128(&mut self, value: u128) {
        self.mix(value as u64);
        self.mix((value >> 64) as u64);
    }

    fn write_usize(&mut self, value: usize) {
        self.mix(value as u64);
    }

    fn write_isize(&mut self, value: isize) {
        self.mix(value as u64);
    }

    fn finish(&self) -> u64 {
        self.0[0]
    }
}

fn finish(lane: u64) -> u64 {
    let mixed = (lane ^ lane >> 32).wrapping_mul(0xff51_afd7_ed55_8ccd);
    mixed ^ mixed >> 29
}

/// How a state was reached.
#[derive(Clone)]
struct Step {
    from: u32,
    action: Action,
}

/// Searches `scenario` with these guards in place.
pub fn explore(scenario: &Scenario, guards: &Guards, limits: Limits) -> Found {
    let scenario = Arc::new(scenario.clone());
    let mut found = Found {
        outcome: Outcome::Exhausted,
        states: 0,
        transitions: 0,
        depth: 0,
        answered: 0,
    };
    let first = match World::first(&scenario, guards) {
        Ok(first) => first,
        Err(what) => {
            found.outcome = Outcome::Violated {
                what,
                trace: String::new(),
            };
            return found;
        }
    };
    let mut visited = Visited::default();
    visited.insert(first.fingerprint());
    let mut steps: Vec<Option<Step>> = vec![None];
    let mut frontier = vec![(0_u32, first)];
    while !frontier.is_empty() {
        let mut next = Vec::new();
        for (from, world) in frontier {
            found.answered = found.answered.max(world.answered());
            let mut is_at_rest = true;
            for action in world.actions() {
                let after = match world.after(&action) {
                    Ok(Some(after)) => after,
                    Ok(None) => continue,
                    Err(what) => {
                        let trace = trace(&scenario, guards, &steps, from, Some(&action));
                        found.states = steps.len();
                        found.outcome = Outcome::Violated { what, trace };
                        return found;
                    }
                };
                is_at_rest = false;
                found.transitions += 1;
                if !visited.insert(after.fingerprint()) {
                    continue;
                }
                let number = steps.len() as u32;
                steps.push(Some(Step { from, action }));
                next.push((number, after));
            }
            if is_at_rest && let Err(what) = world.check_rest() {
                let trace = trace(&scenario, guards, &steps, from, None);
                found.states = steps.len();
                found.outcome = Outcome::Violated { what, trace };
                return found;
            }
            if limits.states <= steps.len() {
                found.states = steps.len();
                found.outcome = Outcome::CutOff;
                return found;
            }
        }
        found.depth += usize::from(!next.is_empty());
        frontier = next;
    }
    found.states = steps.len();
    found
}

/// The way to a violation, told step by step.
fn trace(
    scenario: &Arc<Scenario>,
    guards: &Guards,
    steps: &[Option<Step>],
    from: u32,
    last: Option<&Action>,
) -> String {
    let mut way: Vec<Action> = last.into_iter().cloned().collect();
    let mut at = from;
    while let Some(step) = &steps[at as usize] {
        way.push(step.action.clone());
        at = step.from;
    }
    way.reverse();
    let mut lines = Vec::new();
    let mut world = World::first(scenario, guards).ok();
    for action in way {
        lines.push(describe(scenario, &action));
        world = world.and_then(|world| world.after(&action).ok().flatten());
        lines.extend(world.as_ref().map(World::describe));
    }
    lines.join("\n")
}

fn describe(scenario: &Scenario, action: &Action) -> String {
    match action {
        Action::Deliver(_, packet) => {
            let envelope = &packet.envelope;
            format!(
                "{} -> {} in epoch {}: {:?}",
                envelope.from, packet.to, envelope.epoch, envelope.message
            )
        }
        Action::Ask(ask, node) => format!("{node} is asked {:?}", scenario.asks[*ask]),
        Action::Hear(node) => format!("{node} hears of the newest configuration"),
        Action::EndLease(node) => format!("the lease of {node} ends"),
        Action::Crash(node) => format!("{node} crashes"),
        Action::Return(node) => format!("{node} comes back"),
        Action::Publish(shift, floor) => format!("published, {shift:?}, floor raised: {floor}"),
        Action::Sync(node) => format!("{node} syncs one record"),
        Action::Tick(node) => format!("{node} has waited for a while"),
    }
}

/// A set of hashes: open addressing, since hashes are as good as random already.
struct Visited {
    slots: Vec<u128>,
    count: usize,
}

impl Default for Visited {
    fn default() -> Self {
        Visited {
            slots: vec![0; 1 << 16],
            count: 0,
        }
    }
}

impl Visited {
    /// Whether it was not there before.
    fn insert(&mut self, hash: u128) -> bool {
        if self.slots.len() < self.count * 2 {
            let grown = vec![0; self.slots.len() * 2];
            let old = std::mem::replace(&mut self.slots, grown);
            self.count = 0;
            for hash in old.into_iter().filter(|hash| *hash != 0) {
                self.insert(hash);
            }
        }
        let hash = hash.max(1);
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        while self.slots[at] != 0 {
            if self.slots[at] == hash {
                return false;
            }
            at = (at + 1) & mask;
        }
        self.slots[at] = hash;
        self.count += 1;
        true
    }
}
