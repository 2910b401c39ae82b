//! Checks of a world of sessions: at each change, at each lease, and at the end.

use fader_chain::{ChainId, Incarnation};

use super::process::{MemberIncarnation, Process};
use super::zookeeper::{Data, Op, Path};
use super::{CHAINS, PROCESSES, World};

impl World {
    /// SL-6: no other disk is in the way.
    pub(super) fn check_hung(&mut self, chain: ChainId, incarnation: Incarnation) {
        self.count("SL-6");
        let newest = self.zookeeper.newest(&Path::Chain(chain));
        let Some(Data::Chain(newest)) = newest else {
            return;
        };
        if newest
            .members
            .iter()
            .any(|member| member.incarnation == incarnation)
        {
            let text =
                format!("a member of {chain} stands still, and is still in the configuration");
            self.fail("SL-6", &text);
        }
    }

    /// An incarnation is given a lease: it is in the newest configuration, if it ever was in one.
    pub(super) fn leased(&mut self, process: usize, chain: ChainId) {
        self.count("leases");
        let here = &self.processes[process];
        let Some(member) = here.incarnations.get(&chain) else {
            return;
        };
        let Some(Data::Chain(newest)) = self.zookeeper.newest(&Path::Chain(chain)) else {
            return;
        };
        let incarnation = member.identity.incarnation;
        let is_absent = newest.absent.iter().any(|it| it.incarnation == incarnation);
        let is_member = newest
            .members
            .iter()
            .any(|it| it.incarnation == incarnation);
        if member.serves && here.is_leased(member, self.now) && is_absent && !is_member {
            let text = format!("n{process} has a lease on {chain}, and was left out");
            self.fail("FN-2", &text);
        }
    }

    /// The incarnations of a process that have a lease.
    fn leases<'a>(
        &self,
        process: &'a Process,
    ) -> impl Iterator<Item = (ChainId, &'a MemberIncarnation)> {
        let (incarnations, now) = (process.incarnations.iter(), self.now);
        let leased =
            incarnations.filter(move |(_, incarnation)| process.is_leased(incarnation, now));
        leased.map(|(chain, incarnation)| (*chain, incarnation))
    }

    /// The process whose session has this name now.
    fn of(&self, name: &str) -> Option<&Process> {
        self.processes.iter().find(|process| process.is_in(name))
    }

    /// What is checked of a change.
    pub(super) fn changed(&mut self, op: &Op) {
        match op {
            Op::Set(Path::Session(name), Data::Session(record), _)
            | Op::Create(Path::Session(name), Data::Session(record)) => {
                self.count("ZNODE-10");
                let missing = self.of(name).and_then(|process| {
                    let said = |incarnation: &MemberIncarnation| {
                        let mut incarnations = record.incarnations.iter();
                        incarnations.any(|it| it.identity == incarnation.identity)
                    };
                    let mut leases = self.leases(process);
                    leases.find(|(_, incarnation)| !said(incarnation))
                });
                if let Some((chain, incarnation)) = missing {
                    let text = format!(
                        "{name} lacks {} of {chain}, with a lease",
                        incarnation.identity.node
                    );
                    self.fail("ZNODE-10", &text);
                }
            }
            Op::Delete(Path::Session(name), _) => {
                self.count("ZNODE-2");
                let incarnation = self.of(name).and_then(|it| self.leases(it).next());
                if let Some((chain, _)) = incarnation {
                    let text = format!("{name} is removed, with a lease on {chain}");
                    self.fail("ZNODE-2", &text);
                }
            }
            Op::Create(Path::Chain(chain), Data::Chain(next))
            | Op::Set(Path::Chain(chain), Data::Chain(next), _) => {
                // FN-1, FN-3: a lease that began later, or lasts longer, is still held here.
                self.count("FN-2");
                let is_wronged = |member: &MemberIncarnation| {
                    let (mut members, mut absent) = (next.members.iter(), next.absent.iter());
                    let incarnation = member.identity.incarnation;
                    member.serves
                        && absent.any(|it| it.incarnation == incarnation)
                        && !members.any(|it| it.incarnation == incarnation)
                };
                let leases = self.processes.iter().flat_map(|it| self.leases(it));
                let wronged = leases
                    .filter(|(of, _)| of == chain)
                    .find(|(_, it)| is_wronged(it));
                if let Some((_, incarnation)) = wronged {
                    let epoch = next.epoch;
                    let text = format!(
                        "{} has a lease on {chain}, and is left out of {epoch}",
                        incarnation.identity.node
                    );
                    self.fail("FN-2", &text);
                }
            }
            Op::Set(Path::Cluster, Data::Cluster(version), _) => {
                self.count("ZNODE-9");
                if let Some(it) = self.processes.iter().find(|it| it.speaks < *version) {
                    let text = format!("{} does not speak version {version}", it.name);
                    self.fail("ZNODE-9", &text);
                }
            }
            _ => {}
        }
    }

    /// I20: faults have ended.
    pub(super) fn check_well(&mut self) {
        if self.failure.is_some() {
            return;
        }
        for index in 0..self.processes.len() {
            let process = &self.processes[index];
            if !process.is_well(self.now) {
                let text = format!("{} lacks leases at the end", process.name);
                self.fail("I20", &text);
                return;
            }
        }
        for chain in (0..CHAINS).map(ChainId) {
            let newest = self.zookeeper.newest(&Path::Chain(chain));
            let serving = match newest {
                Some(Data::Chain(newest)) => newest.serving().count(),
                _ => 0,
            };
            if serving != PROCESSES as usize {
                self.fail("I20", &format!("{serving} serve on {chain} at the end"));
                return;
            }
        }
        self.count("I20");
    }
}
