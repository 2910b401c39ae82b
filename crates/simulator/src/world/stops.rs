//! Clocks that stop with their machine, as when a virtual machine is paused. Processes show each
//! other their lease clocks by frames (docs/internals/protocol/failures.md, section 6).
//!
//! A process that went on and has not heard half of its peers cannot know that its clock stood
//! still. What it tells clients until then is the window that remains, and counts as lost. From
//! then on every check holds.

use std::collections::BTreeSet;

use fader_chain::clocks::{Alarm, Frame};
use fader_chain::{Incarnation, Input, NodeId};

use super::events::Event;
use super::network::End;
use super::plan::{Fault, Micros};
use super::random::Random;
use super::{Plan, SESSION, World};

/// A frame shows what it is to show if it is under way for less than S/4.
const PROMPT: Micros = SESSION / 5;

/// A frame on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    from: NodeId,
    /// The real time.
    at: Micros,
    frame: Frame,
}

/// A process whose clock stood still, and that has not heard half of its peers since.
#[derive(Clone, Debug)]
pub(crate) struct Unaware {
    until: Micros,
    /// The peers that it knew, and those that it heard of since.
    knew: BTreeSet<(NodeId, Incarnation, u64)>,
    heard: BTreeSet<NodeId>,
}

impl World {
    /// A machine is paused, and its clock with it.
    pub(super) fn stop_clock(&mut self, machine: usize, time: Micros) {
        let here = &mut self.machines[machine];
        if self.now < here.paused_until {
            return;
        }
        here.paused_until = self.now + time;
        here.clock.origin -= time;
        let knew = here.process.as_ref().map(|it| it.clocks.heard().collect());
        here.unaware = knew.map(|knew| Unaware {
            until: self.now + time,
            knew,
            heard: BTreeSet::new(),
        });
    }

    /// A process shows its clock to all others.
    pub(super) fn show_clock(&mut self, machine: usize) {
        if !self.plan.stops {
            return;
        }
        let here = &self.machines[machine];
        let Some(process) = &here.process else {
            return;
        };
        let now_ms = here.clock.read(self.now).monotonic;
        let sent = Sent {
            from: here.node,
            at: self.now,
            frame: process.clocks.frame(process.me.incarnation, now_ms),
        };
        let others = self.machines.iter().map(|it| it.node);
        let others: Vec<_> = others.filter(|node| *node != sent.from).collect();
        for to in others {
            let (from, to) = (End::Member(sent.from), End::Member(to));
            self.send(from, to, &Event::Clock(sent));
        }
    }

    /// A process sees another one's clock.
    pub(super) fn see_clock(&mut self, machine: usize, sent: Sent) {
        let here = &mut self.machines[machine];
        let now_ms = here.clock.read(self.now).monotonic;
        let Some(process) = here.process.as_mut() else {
            return;
        };
        let alarm = process.clocks.on_frame(now_ms, sent.from, sent.frame);
        let ends = !process.clocks.holds(process.lease.sent / 1_000);
        if ends {
            process.lease.until = 0;
        }
        let incarnation = (sent.from, sent.frame.incarnation, sent.frame.stops);
        if let Some(it) = here.unaware.as_mut()
            && it.until <= sent.at
            && self.now - sent.at <= PROMPT
            && it.knew.contains(&incarnation)
        {
            it.heard.insert(sent.from);
            here.unaware
                .take_if(|it| it.knew.len() <= 2 * it.heard.len());
        }
        let node = here.node;
        if let Some(alarm) = alarm {
            self.trace.say(self.now, || format!("{node}: {alarm:?}"));
        }
        if matches!(alarm, Some(Alarm::Behind { .. })) && ends {
            self.input(machine, Input::Lease { until: 0 });
        }
    }

    /// A lease from a ping that was sent when the clock ran again is what it should be.
    pub(super) fn is_leased_anew(&mut self, machine: usize, sent: u64) {
        let here = &mut self.machines[machine];
        let clock = here.clock;
        here.unaware
            .take_if(|it| clock.steady(it.until) <= sent && it.until <= self.now);
    }

    /// Whether a process has a lease that its clock may have prolonged, and no means to know.
    pub(super) fn is_unaware(&self, machine: usize) -> bool {
        self.machines[machine].unaware.is_some()
    }
}

/// Again and again a clock stops with its machine, mostly for so long that its session ends. Most
/// do not hear of that from the coordinator. One at a time.
pub(super) fn faults(plan: &Plan, random: &mut Random) -> Vec<(Micros, Fault)> {
    let members = plan.members as usize;
    let mut faults = Vec::new();
    let mut at = random.between(300_000, 500_000);
    while at + 400_000 < plan.calm_at {
        let machine = random.below(members);
        let time = match random.chance(700) {
            true => random.between(SESSION, 3 * SESSION),
            false => random.between(SESSION / 3, SESSION),
        };
        faults.push((at, Fault::Stop(machine, time)));
        if random.chance(800) {
            faults.push((at, Fault::Orphan(machine, time + 2 * SESSION)));
        }
        if random.chance(300) {
            let other = random.below(members);
            let cut_at = at + time - random.between(0, time.min(50_000));
            let short = random.skewed(5_000, 100_000);
            faults.push((cut_at, Fault::Cut(other, machine, short)));
        }
        if random.chance(200) {
            let then = at + random.between(0, time);
            faults.push((then, Fault::Promote(random.below(members))));
        }
        at += time + random.between(SESSION, 3 * SESSION);
    }
    faults
}
