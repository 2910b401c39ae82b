//! Coming to rest: when faults are over, everything comes back and is the same everywhere (I20,
//! G3).

use std::collections::BTreeMap;

use bytes::Bytes;
use fader_chain::{Outcome, Register, Role, Settlement, View};

use super::World;
use super::events::Event;
use super::host::pairs_in;
use super::machine::Machine;
use super::plan::BitRot;
use crate::history::{MemberState, WriteStatus};
use crate::service::PAIRS;

impl World {
    /// Whether every member serves in one epoch, and has applied all there is; otherwise, what is
    /// missing.
    pub(crate) fn rests(&self) -> Result<(), String> {
        let configuration = self
            .configuration()
            .ok_or("the chain has no configuration")?;
        if let Some(client) = self.clients.iter().position(|client| !client.is_done()) {
            return Err(format!("client {client} is not done"));
        }
        self.mode_rests()?;
        let mut last = None;
        for machine in &self.machines {
            let node = machine.node;
            let Some(process) = &machine.process else {
                return Err(format!("{node} is down"));
            };
            if self.rots(machine) {
                return Err(format!("{node} rots"));
            }
            if self.now < machine.paused_until {
                return Err(format!("{node} stands still"));
            }
            let member = configuration.member(node);
            let serves = member.is_some_and(|member| {
                member.role == Role::Serving && member.incarnation == process.me.incarnation
            });
            if !serves {
                return Err(format!("{node} does not serve in {}", configuration.epoch));
            }
            let replica = &process.replica;
            if replica.epoch() != configuration.epoch || !replica.is_ready() {
                return Err(format!("{node} is not ready in {}", configuration.epoch));
            }
            let counts = replica.eventual_counts();
            if 0 < counts.held + counts.quarantined {
                let (held, quarantined) = (counts.held, counts.quarantined);
                return Err(format!(
                    "{node} holds {held} operations, {quarantined} apart"
                ));
            }
            if !replica.may_serve(machine.clock.read(self.now)) {
                return Err(format!("{node} has no lease"));
            }
            let applied = machine.disk.state().applied;
            if applied != replica.last() || *last.get_or_insert(applied) != applied {
                return Err(format!(
                    "{node} has applied {applied} of {}",
                    replica.last()
                ));
            }
        }
        Ok(())
    }

    /// Whether its engine is rotten still: what an entry has written anew is sound again.
    fn rots(&self, machine: &Machine) -> bool {
        let state = machine.disk.state();
        let mut others = self.machines.iter().map(|other| other.disk.state());
        let sound = others.find(|other| !other.is_rotten);
        state.is_rotten && sound.is_none_or(|sound| sound.digest() != state.digest())
    }

    /// Whether a chain that cannot begin again without an operator (AL-4) is left.
    pub(crate) fn is_lost(&self) -> bool {
        self.configuration().is_some_and(|configuration| {
            let returns = |machine: &Machine| {
                let disk = (machine.node, machine.disk.id);
                configuration.last_serving.contains(&disk) && machine.is_sound()
            };
            !self.machines.iter().any(returns)
        })
    }

    /// A member's engine rots. Of two members it is unknown which is wrong: the head is right.
    pub(crate) fn bit_rot(&mut self, bit_rot: BitRot) {
        let configuration = self.configuration().expect("it rests in one");
        let may =
            |machine: &Machine| 2 < self.machines.len() || machine.node != configuration.head();
        let machines = (0..self.machines.len()).filter(|at| may(&self.machines[*at]));
        let machines: Vec<usize> = machines.collect();
        if self.machines.len() < 2 {
            return;
        }
        let machine = machines[bit_rot.machine % machines.len()];
        let here = &mut self.machines[machine];
        let node = here.node;
        if here.disk.bit_rot(bit_rot.row, bit_rot.how) {
            self.trace
                .say(self.now, || format!("{node} rots: {:?}", bit_rot.how));
            if let Some(after) = bit_rot.crash_after {
                self.queue.plan(self.now + after, Event::Crash { machine });
            }
        }
    }

    /// Every member, for the checks of what is left.
    pub(crate) fn member_states(&self) -> Vec<MemberState> {
        self.machines.iter().filter_map(member_state).collect()
    }
}

fn member_state(machine: &Machine) -> Option<MemberState> {
    machine.process.as_ref()?;
    let state = machine.disk.state();
    let is_own = |key: &[u8]| key.starts_with(&fader_chain::COLLECTION.to_be_bytes());
    let mut registers = BTreeMap::new();
    for (key, value) in state.pairs() {
        if !is_own(key) && key.as_ref() != PAIRS {
            let register = Register::decode(value.clone()).expect("the chain wrote it");
            registers.insert(key.clone(), register);
        }
    }
    let pairs = state.get(PAIRS).expect("a simulated engine reads");
    Some(MemberState {
        node: machine.node,
        applied: state.applied,
        pairs: pairs.map_or(0, |value| pairs_in(&value)),
        registers,
        overlay: Vec::new(),
        quarantine: Vec::new(),
    })
}

/// What the entry that settles an operation says came of it.
pub(crate) fn fate_of(result: &Bytes) -> WriteStatus {
    let settlement = Settlement::decode(result.clone()).expect("the chain wrote it");
    match settlement.outcome {
        Outcome::Applied => WriteStatus::Applied,
        Outcome::Superseded => WriteStatus::Superseded,
        Outcome::Refused(_) => WriteStatus::Refused,
        Outcome::Gone => WriteStatus::Gone,
    }
}
