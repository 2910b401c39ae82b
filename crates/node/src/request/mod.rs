//! The way of a request to the member that carries it out: by the name of its domain to its chain,
//! and there to the member that can, here or in another process.

mod alone;
mod deliver;
mod forward;
mod modes;
mod names;
mod refusals;
mod route;
mod tokens;

use std::sync::Arc;

use fader_chain::ChainId;
use fader_services::Reason;
use fader_services::catalog::Refusal;
use fader_services::level::Receipt;
use fader_services::simpledb::{Answered, Error};
use tokio::sync::Semaphore;

use crate::cluster::Cluster;
use crate::cluster::chains::Chains;
use crate::member::Member;
use crate::member::refusal::{self, Kind};
use crate::secrets::seal::Seal;
use refusals::Refusals;

/// Who is behind the handle.
pub(crate) enum Doors {
    /// A member that is alone, and how many scans it answers at once.
    One(Arc<Member>, Semaphore),
    /// Chains of several members: that of the system, then those of data.
    Many(Chains),
}

/// What takes requests to members: the doors, what seals sessions, and the count of refusals.
pub(crate) struct Router {
    pub(crate) doors: Doors,
    pub(crate) seal: Seal,
    refusals: Refusals,
}

/// What a request comes to.
pub(crate) type Done = (Result<Answered, Error>, Receipt);

impl Router {
    /// One that counts from nothing.
    pub(crate) fn new(doors: Doors, seal: Seal) -> Self {
        Router {
            doors,
            seal,
            refusals: Refusals::default(),
        }
    }

    /// The chains, if they have several members.
    pub(crate) fn in_company(&self) -> Option<&Chains> {
        match &self.doors {
            Doors::Many(chains) => Some(chains),
            Doors::One(..) => None,
        }
    }

    /// The chains, if there are several.
    pub(crate) fn several(&self) -> Option<&Chains> {
        self.in_company().filter(|chains| chains.are_several())
    }

    /// The member here at which a chain is read.
    pub(crate) fn keeper_of(&self, chain: ChainId) -> Result<Arc<Member>, Refusal> {
        match &self.doors {
            Doors::One(member, _) => Ok(member.clone()),
            Doors::Many(chains) => {
                let keeper = chains.get(chain).and_then(|chain| chain.keeper());
                keeper.ok_or_else(|| refusal::Refusal::new(Kind::Again, Reason::NoMember).into())
            }
        }
    }

    /// A chain of several members.
    pub(crate) fn chain(&self, chain: ChainId) -> Option<Arc<Cluster>> {
        match &self.doors {
            Doors::One(..) => None,
            Doors::Many(chains) => chains.get(chain),
        }
    }

    /// The member that catalogs are read at.
    pub(crate) fn keeper(&self) -> Result<Arc<Member>, Refusal> {
        match &self.doors {
            Doors::One(member, _) => Ok(member.clone()),
            Doors::Many(chains) => {
                let keeper = chains.system().keeper();
                keeper.ok_or_else(|| refusal::Refusal::new(Kind::Again, Reason::NoMember).into())
            }
        }
    }

    /// What the members here of a chain wait for.
    pub(crate) fn waits_here(&self, chain: ChainId) -> Vec<String> {
        let of = self.in_company().and_then(|chains| chains.get(chain));
        of.map_or_else(Vec::new, |of| of.own_waits())
    }

    /// How many requests of clients were refused with 503 here, by chain and reason.
    pub(crate) fn refusals(&self) -> Vec<(ChainId, Reason, u64)> {
        self.refusals.all()
    }
}
