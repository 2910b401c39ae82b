//! What goes wrong.

use fader_chain::controller::RoleChange;
use fader_chain::{DiskId, NodeId};

use super::disk::Disk;
use super::events::Event;
use super::network::{End, NetworkFaults};
use super::plan::{Fault, Micros};
use super::{SESSION, World};
use crate::history::Fact;

/// The network when faults are over; in some runs it loses a little even then.
const CALM: NetworkFaults = NetworkFaults {
    delay_min: 200,
    delay_max: 1_000,
    loss: 0,
    twice: 0,
    stray: 0,
    stray_max: 0,
};

impl World {
    pub(crate) fn strike(&mut self, fault: Fault) {
        self.trace.say(self.now, || format!("FAULT {fault:?}"));
        let count = self.machines.len();
        let now = self.now;
        match fault {
            Fault::Crash(machine, down) => self.crash(machine % count, down),
            Fault::CrashAll(down) => {
                for machine in 0..count {
                    let more = self.random.between(0, 50_000);
                    self.crash(machine, down + more);
                }
            }
            Fault::Pause(machine, time) => self.machines[machine % count].paused_until = now + time,
            Fault::Stop(machine, time) => self.stop_clock(machine % count, time),
            Fault::Cut(from, to, time) => self.cut(from % count, to % count, now + time),
            Fault::Isolate(machine, time) => {
                for other in (0..count).filter(|other| *other != machine % count) {
                    self.cut(machine % count, other, now + time);
                    self.cut(other, machine % count, now + time);
                }
            }
            Fault::Orphan(machine, time) => {
                let member = End::Member(self.machines[machine % count].node);
                self.network.cut(member, End::Coordinator, now + time);
                if self.random.chance(500) {
                    self.network.cut(End::Coordinator, member, now + time);
                }
            }
            Fault::Deafen(machine, time) => self.machines[machine % count].deaf_until = now + time,
            Fault::Outage(time) => {
                let until = self.coordinator_down_until.max(now + time);
                self.coordinator_down_until = until;
            }
            Fault::Jump(machine, by) => self.machines[machine % count].clock.ahead_ms += by,
            Fault::Lose(machine, down) => self.lose(machine % count, down),
            Fault::FailSync(machine) => self.machines[machine % count].fails_sync = true,
            Fault::Slow(machine, time) => self.machines[machine % count].slow_until = now + time,
            Fault::Promote(machine) => self.role_change(machine % count, RoleChange::Head),
            Fault::Back(machine) => self.role_change(machine % count, RoleChange::Back),
            Fault::Demote(machine) => self.role_change(machine % count, RoleChange::Demote),
            Fault::Rewire => self.coordinator.rewire(),
            Fault::Collect => self.coordinator.raise_safe_point(),
            Fault::Spoil(machine) => self.spoil(machine % count),
            Fault::Full(machine, time) => self.stop(machine % count, time),
            Fault::Copy(machine) => self.copy(machine % count),
            Fault::PutBack(machine, down) => self.put_back(machine % count, down),
            Fault::PutTwinBack(machine, down) => self.put_twin_back(machine % count, down),
            Fault::Mute(from, to, kind, time) => {
                let end = |machine: usize| End::Member(self.machines[machine % count].node);
                self.network.mute(end(from), end(to), kind, now + time);
            }
            Fault::Leave(machine) => self.leave(machine % count),
            Fault::Stay(machine) => {
                self.coordinator
                    .decommissions
                    .stay(self.machines[machine % count].node);
            }
        }
    }

    /// Faults are over.
    pub(crate) fn calm(&mut self) {
        self.trace.say(self.now, || "CALM".to_owned());
        self.is_calm = true;
        self.coordinator.content();
        self.network.heal();
        self.network.change(NetworkFaults {
            loss: self.plan.calm_loss,
            ..CALM
        });
        self.coordinator_down_until = self.coordinator_down_until.min(self.now);
        // Engines that take as long as a test of rest would not be worth waiting for.
        self.plan.work_max = self.plan.sync_max / 4;
        self.plan.work_rest = 100;
        for machine in 0..self.machines.len() {
            let here = &mut self.machines[machine];
            here.deaf_until = 0;
            here.slow_until = 0;
            here.fails_sync = false;
            self.queue.plan(self.now, Event::Start { machine });
        }
    }

    fn cut(&mut self, from: usize, to: usize, until: Micros) {
        let end = |machine: usize| End::Member(self.machines[machine].node);
        self.network.cut(end(from), end(to), until);
    }

    fn role_change(&mut self, machine: usize, role_change: fn(NodeId) -> RoleChange) {
        self.coordinator
            .role_change(role_change(self.machines[machine].node));
    }

    /// A process stops for a time, and ends its session: no member is to wait for it (I23).
    fn stop(&mut self, machine: usize, time: Micros) {
        let Some(process) = &self.machines[machine].process else {
            return;
        };
        if self.coordinator_down_until <= self.now {
            self.coordinator.close(process.me.incarnation);
        }
        self.crash(machine, time);
    }

    /// A disk is gone, if others that may restart the chain alone (AL-1) are there to stay.
    fn lose(&mut self, machine: usize, down: Micros) {
        if self.is_spared(machine) {
            self.crash(machine, down);
            self.replace_disk(machine);
        }
    }

    /// A disk is damaged, under the same condition. The process ends; the member comes back with
    /// another disk when it is none of those that may restart the chain alone.
    fn spoil(&mut self, machine: usize) {
        if self.is_spared(machine) {
            self.crash(machine, 1_000);
            self.machines[machine].is_spoilt = true;
        }
    }

    /// A copy of a disk is made.
    fn copy(&mut self, machine: usize) {
        let here = &mut self.machines[machine];
        if here.is_sound() {
            here.backup = Some(Box::new(here.disk.copy(&mut self.random)));
        }
    }

    /// And puts it back, over what is there, although it lacks what its member reported since; if
    /// the chain can begin again with another.
    fn put_back(&mut self, machine: usize, down: Micros) {
        let here = &self.machines[machine];
        let known = self.coordinator.progress(here.disk.id);
        let is_old = |copy: &Disk| copy.id == here.disk.id && copy.progress() < known;
        let is_old = here.backup.as_deref().is_some_and(is_old);
        let configuration = self.configuration();
        let may_begin = |other: &super::Machine| {
            let disk = (other.node, other.disk.id);
            let last = configuration.iter().flat_map(|it| &it.last_serving);
            other.node != here.node && other.is_sound() && last.into_iter().any(|it| *it == disk)
        };
        if !is_old || !here.is_sound() || !self.machines.iter().any(may_begin) {
            return;
        }
        self.crash(machine, down);
        self.take_backup(machine);
    }

    /// The copy lacks entries that the disk has, but nothing that its member reported. All that
    /// served last go down, and return within a session. It is the first, and is not to be the one
    /// that the chain begins again with (AL-1).
    fn put_twin_back(&mut self, machine: usize, down: Micros) {
        let here = &self.machines[machine];
        let known = self.coordinator.progress(here.disk.id);
        let passes = |copy: &Disk| {
            let (shown, has) = (copy.progress(), here.disk.progress());
            copy.id == here.disk.id && known <= shown && shown.last < has.last
        };
        let Some(configuration) = self.configuration() else {
            return;
        };
        let served = |machine: &super::Machine| {
            let disk = (machine.node, machine.disk.id);
            configuration.last_serving.contains(&disk)
        };
        let runs = |machine: &&super::Machine| machine.is_sound() && machine.process.is_some();
        let are_all = configuration.last_serving.len()
            == self
                .machines
                .iter()
                .filter(|it| served(it))
                .filter(runs)
                .count();
        let may_be = are_all && served(here) && 2 <= configuration.last_serving.len();
        let is_up = self.coordinator_down_until <= self.now;
        if !may_be || !is_up || !here.backup.as_deref().is_some_and(passes) {
            return;
        }
        for other in 0..self.machines.len() {
            let later = match other == machine {
                true => 0,
                false => self.random.between(0, SESSION / 3),
            };
            // Together: the last one whose session ended would be counted on alone (RM-2).
            self.stop(other, down + later);
        }
        self.take_backup(machine);
    }

    fn take_backup(&mut self, machine: usize) {
        let here = &mut self.machines[machine];
        here.disk = *here.backup.take().expect("it is old");
        here.is_copy = true;
        let node = here.node;
        self.note(Fact::DiskLost { node });
    }

    /// COORD-5: the coordinator says that the disk is an old copy of itself. It goes as a damaged
    /// one.
    pub(crate) fn refused(&mut self, machine: usize) {
        let here = &mut self.machines[machine];
        if !here.is_copy {
            let node = here.node;
            self.fail(
                "COORD-5",
                format!("PROGRESS-1: {node} is refused with its own disk"),
            );
            return;
        }
        (here.is_copy, here.is_spoilt) = (false, true);
        self.crash(machine, 1_000);
    }

    /// Whether a machine may start. One whose disk is damaged waits until no chain counts on it.
    pub(crate) fn may_start(&mut self, machine: usize) -> bool {
        let here = &self.machines[machine];
        if self.coordinator.decommissions.is_gone(here.node) {
            // It sets its folder aside: no chain is to count on it.
            self.change_disk(machine);
            return true;
        }
        if !here.is_spoilt {
            return true;
        }
        let disk = (here.node, here.disk.id);
        let configuration = self.configuration().expect("it was spared in one");
        if configuration.last_serving.contains(&disk) {
            self.queue.plan(self.now + 50_000, Event::Start { machine });
            return false;
        }
        self.replace_disk(machine);
        true
    }

    fn replace_disk(&mut self, machine: usize) {
        let lost = self.machines[machine].node;
        self.note(Fact::DiskLost { node: lost });
        self.change_disk(machine);
    }

    fn change_disk(&mut self, machine: usize) {
        let node = self.new_node();
        let disk = Disk::new(DiskId(self.random.name()));
        let here = &mut self.machines[machine];
        self.coordinator.decommissions.lose(here.node);
        (here.node, here.disk) = (node, disk);
        (here.is_spoilt, here.is_copy) = (false, false);
    }

    /// Whether the chain can do without the disk of this machine.
    fn is_spared(&self, machine: usize) -> bool {
        let Some(configuration) = self.configuration() else {
            return false;
        };
        let lost = self.machines[machine].node;
        let is_safe = |other: &super::Machine| {
            let member = configuration.member(other.node);
            let serves = configuration.serving().any(|node| node == other.node);
            let incarnation = other.process.as_ref().map(|process| process.me.incarnation);
            other.node != lost
                && other.is_sound()
                && serves
                && incarnation == member.map(|member| member.incarnation)
        };
        self.machines.iter().any(is_safe)
    }
}
