//! The chains that a process takes part in.

use std::sync::Arc;

use fader_chain::ChainId;

use crate::cluster::Cluster;
use crate::cluster::process::Home;
use crate::status::{Counters, Health};

/// The chains, by number: that of the system, then those of data.
pub(crate) struct Chains {
    pub(crate) all: Vec<Arc<Cluster>>,
    /// What their members share, where other processes have members too.
    pub(crate) home: Option<Arc<Home>>,
}

impl Chains {
    /// The chain that knows accounts, access keys and collections.
    pub(crate) fn system(&self) -> &Arc<Cluster> {
        &self.all[0]
    }

    /// A chain.
    pub(crate) fn get(&self, ChainId(number): ChainId) -> Option<&Arc<Cluster>> {
        self.all.get(usize::try_from(number).ok()?)
    }

    fn with_numbers(&self) -> impl Iterator<Item = (ChainId, &Arc<Cluster>)> {
        let numbers = (0..).map(ChainId);
        numbers.zip(&self.all)
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
        let name = |number: ChainId, reason: String| match self.all.len() {
            1 => reason,
            _ => format!("{number}: {reason}"),
        };
        match worst {
            None | Some((_, Health::Serving)) => Health::Serving,
            Some((number, Health::ReadOnly(reason))) => Health::ReadOnly(name(number, reason)),
            Some((number, Health::Failed(reason))) => Health::Failed(name(number, reason)),
        }
    }

    /// The counters of each chain that has a member here.
    pub(crate) fn counters(&self) -> Vec<(ChainId, Counters)> {
        let keepers = self.with_numbers();
        let counters = keepers.filter_map(|(number, chain)| {
            let keeper = chain.keeper().or_else(|| chain.any())?;
            Some((number, keeper.counters()))
        });
        counters.collect()
    }

    /// Ends all at once, and then what they share.
    pub(crate) fn close(&self) {
        std::thread::scope(|scope| {
            for chain in &self.all {
                scope.spawn(|| chain.close());
            }
        });
        if let Some(home) = &self.home {
            home.close();
        }
    }
}
