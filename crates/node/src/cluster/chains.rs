//! The chains that a process takes part in.

use std::sync::Arc;

use fader_chain::{ChainId, ReplicationLag};
use fader_services::figures::Figures;

use super::Cluster;
use super::process::{DataChains, ProcessContext};
use super::supervisor::MemberSupervisor;
use crate::peer::PeerCounters;
use crate::status::{Counters, Health, HealthCause};

/// The chains, by number: that of the system, then those of data.
pub(crate) struct Chains {
    pub(crate) system: Arc<Cluster>,
    /// Those of data; more may come.
    pub(crate) data: DataChains,
    /// What their members share, where other processes have members too.
    pub(crate) home: Option<(Arc<ProcessContext>, MemberSupervisor)>,
}

impl Chains {
    /// The only chain, whose members are all here.
    pub(crate) fn of_one(system: Arc<Cluster>) -> Self {
        Chains {
            system,
            data: DataChains::default(),
            home: None,
        }
    }

    /// The chain that knows accounts, access keys and collections.
    pub(crate) fn system(&self) -> &Arc<Cluster> {
        &self.system
    }

    /// A chain.
    pub(crate) fn get(&self, ChainId(number): ChainId) -> Option<Arc<Cluster>> {
        match number.checked_sub(1) {
            None => Some(self.system.clone()),
            Some(at) => self.data.read().get(usize::try_from(at).ok()?).cloned(),
        }
    }

    /// Whether there are chains beside the system chain.
    pub(crate) fn are_several(&self) -> bool {
        !self.data.read().is_empty()
    }

    /// All of them, by number.
    pub(crate) fn with_numbers(&self) -> impl Iterator<Item = (ChainId, Arc<Cluster>)> {
        let data = self.data.read().clone();
        let all = std::iter::once(self.system.clone()).chain(data);
        (0..).map(ChainId).zip(all)
    }

    /// The worst that is said of a member.
    pub(crate) fn health(&self) -> Health {
        let healths = self.with_numbers().filter(|(_, chain)| chain.is_here());
        let healths = healths.map(|(number, chain)| (number, chain.health()));
        let worst = healths.max_by_key(|(_, health)| match health {
            Health::Serving => 0,
            Health::ReadOnly(_) => 1,
            Health::Failed(_) => 2,
        });
        let name = |chain: ChainId, cause: HealthCause| match self.are_several() {
            false => cause,
            true => HealthCause::OfChain {
                chain,
                cause: Box::new(cause),
            },
        };
        match worst {
            None | Some((_, Health::Serving)) => Health::Serving,
            Some((number, Health::ReadOnly(cause))) => Health::ReadOnly(name(number, cause)),
            Some((number, Health::Failed(cause))) => Health::Failed(name(number, cause)),
        }
    }

    /// The counters of each chain that has a member here.
    pub(crate) fn counters(&self) -> Vec<(ChainId, Counters)> {
        let keepers = self.with_numbers();
        let counters = keepers.filter_map(|(number, chain)| {
            let keeper = chain.local_member().or_else(|| chain.any())?;
            let all = chain.members().map(|member| member.counters());
            let (strong, eventual) = all.fold(Default::default(), |(strong, eventual), it| {
                (strong + it.counters, eventual + it.eventual)
            });
            let counters = Counters {
                counters: strong,
                eventual,
                ..keeper.counters()
            };
            Some((number, counters))
        });
        counters.collect()
    }

    /// What the services show of the collections of those chains whose heads are here. A chain that
    /// cannot be read is left out: its member says why.
    pub(crate) fn figures(&self, most: usize) -> Figures {
        let mut all = Figures::default();
        for (number, chain) in self.with_numbers() {
            let Some((_, head)) = chain.head() else {
                continue;
            };
            match head.figures(number, most) {
                Ok(figures) => all.extend(figures, most),
                Err(error) => tracing::debug!(%error, %number, "no figures of a chain"),
            }
        }
        all
    }

    /// How often members here have failed since the process began, and how many do not run again
    /// yet. The numbers are of each chain that has a member here.
    pub(crate) fn failures(&self) -> Vec<(ChainId, u64, u64)> {
        let here = self.with_numbers().filter(|(_, chain)| chain.is_here());
        let failures = here.map(|(number, chain)| {
            let (total, resting) = chain.failures();
            (number, total, resting)
        });
        failures.collect()
    }

    /// How far members are behind the heads that are here, by name.
    pub(crate) fn behind(&self) -> Vec<(ChainId, String, ReplicationLag)> {
        let heads = self.with_numbers();
        let behind = heads.flat_map(|(number, chain)| {
            let behind = chain.members().flat_map(|member| member.behind());
            let named = behind.map(|it| (number, chain.name(it.node), it));
            named.collect::<Vec<_>>()
        });
        behind.collect()
    }

    /// What went between this process and each other one, by name.
    pub(crate) fn peers(&self) -> Vec<(String, PeerCounters)> {
        let home = self.home.iter();
        let peers = home.flat_map(|(home, _)| home.peers().counters());
        let name = |(node, counters)| (self.system().name(node), counters);
        peers.map(name).collect()
    }

    /// Ends all at once, and then what they share.
    pub(crate) fn close(&self) {
        if let Some((_, supervisor)) = &self.home {
            supervisor.close();
        }
        std::thread::scope(|scope| {
            for (_, chain) in self.with_numbers() {
                scope.spawn(move || chain.close());
            }
        });
        if let Some((home, _)) = &self.home {
            home.close();
        }
    }
}
