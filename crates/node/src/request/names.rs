//! The way of a request to the chain of its domain, where there are several.
//!
//! Names are looked up in the catalog as this node's member of the system chain has it, which may
//! be behind. What it says is there is asked of its own chain, by collection, so that a domain that
//! came later under the same name is not taken for it; what it does not say, or what its chain does
//! not have, is looked up again in the catalog with all that was acknowledged (D1 of
//! `catalog/placed.rs`).
//!
//! Invariants:
//! - X3 a step across chains is finished before whoever began it is told that it was done.
//! - X4 who finds one unfinished that matters to it finishes it; any other, the node that decides
//!   for the system chain.

use fader_chain::ChainId;
use fader_services::catalog::{self, AccountId, Command, Placed, State};
use fader_services::level::{Demand, Receipt};
use fader_services::simpledb::{Code, Error, Request};
use fader_services::{CollectionId, Reason, View, ViewError};

use super::{Done, Router};
use crate::cluster::chains::Chains;
use crate::member::refusal::{Kind, Refusal};
use crate::storage::engine::Snapshot;

/// How often a domain may come and go while a request looks for it.
const TRIES: usize = 8;

impl Router {
    /// Carries out a request, at the chain that it is for.
    pub(crate) async fn route(
        &self,
        chains: &Chains,
        account: &AccountId,
        request: Request,
        demand: Demand,
    ) -> Done {
        let Some(name) = request.domain().map(str::to_owned) else {
            let system = ChainId::SYSTEM;
            return self.on_chain(system, account, request, demand).await;
        };
        let asked = (request, demand);
        let done = match &asked.0 {
            Request::CreateDomain { .. } => self.create(chains, account, &name, asked).await,
            Request::DeleteDomain { .. } => self.delete(chains, account, &name, asked).await,
            _ => self.in_domain(chains, account, &name, asked).await,
        };
        done.unwrap_or_else(|error| {
            // On the way to its chain: the catalog could not be asked, or a step was not taken.
            if let Some(reason) = error.reason {
                self.count_refusal(ChainId::SYSTEM, reason);
            }
            (Err(error), Receipt::default())
        })
    }

    async fn create(
        &self,
        chains: &Chains,
        account: &AccountId,
        name: &str,
        (request, demand): (Request, Demand),
    ) -> Result<Done, Error> {
        let known = catalog::placed(&*chains.catalog()?, account, name)?;
        if let Some(placed) = known.filter(|placed| placed.state == State::Deleting) {
            self.finish(account, name, &placed).await?;
        }
        let asked = (request.clone(), demand);
        let (begun, placed) = self.begin(chains, account, name, asked).await?;
        let Some(placed) = placed else {
            // It was refused, or deleted meanwhile.
            return Ok(begun);
        };
        if placed.state == State::Creating {
            self.finish(account, name, &placed).await?;
        }
        if let Request::CreateDomain {
            mode: None,
            preference: None,
            ..
        } = request
        {
            return Ok(begun);
        }
        // Whether it is as it is asked for, its own chain knows.
        let demand = Demand {
            collection: Some(placed.entry.collection),
            ..Demand::default()
        };
        let (outcome, _) = self.on_chain(placed.chain, account, request, demand).await;
        match outcome {
            Err(error) if error.code != Code::NoSuchDomain => Ok((Err(error), begun.1)),
            _ => Ok(begun),
        }
    }

    /// The step on the system chain, and how the domain stands in the catalog after it; not looked
    /// up if the step was refused.
    async fn begin(
        &self,
        chains: &Chains,
        account: &AccountId,
        name: &str,
        (request, demand): (Request, Demand),
    ) -> Result<(Done, Option<Placed>), Error> {
        let system = ChainId::SYSTEM;
        let begun = self.on_chain(system, account, request, demand).await;
        if begun.0.is_err() {
            return Ok((begun, None));
        }
        let catalog = chains.fresh_catalog().await?;
        Ok((begun, catalog::placed(&*catalog, account, name)?))
    }

    async fn delete(
        &self,
        chains: &Chains,
        account: &AccountId,
        name: &str,
        asked: (Request, Demand),
    ) -> Result<Done, Error> {
        let (begun, placed) = self.begin(chains, account, name, asked).await?;
        if let Some(placed) = placed.filter(|placed| placed.state == State::Deleting) {
            self.finish(account, name, &placed).await?;
        }
        Ok(begun)
    }

    async fn in_domain(
        &self,
        chains: &Chains,
        account: &AccountId,
        name: &str,
        (request, demand): (Request, Demand),
    ) -> Result<Done, Error> {
        let (mut catalog, mut is_fresh) = (chains.catalog()?, false);
        for _ in 0..TRIES {
            let Some(placed) = found(&*catalog, account, name)? else {
                if is_fresh {
                    let system = ChainId::SYSTEM;
                    return Ok(self.on_chain(system, account, request, demand).await);
                }
                (catalog, is_fresh) = (chains.fresh_catalog().await?, true);
                continue;
            };
            let asked = Demand {
                collection: Some(placed.entry.collection),
                ..demand.clone()
            };
            let done = self.on_chain(placed.chain, account, request.clone(), asked);
            let done = done.await;
            if !matches!(&done.0, Err(error) if error.code == Code::NoSuchDomain) {
                return Ok(done);
            }
            (catalog, is_fresh) = (chains.fresh_catalog().await?, true);
            let now = found(&*catalog, account, name)?;
            let is_same = |now: &Placed| now.entry.collection == placed.entry.collection;
            if let Some(now) = now.filter(is_same) {
                self.finish(account, name, &now).await?;
                catalog = chains.fresh_catalog().await?;
            }
        }
        Err(Refusal::new(Kind::Again, Reason::DomainMoves).into())
    }

    /// Takes the steps that are left of a creation or a deletion.
    async fn finish(&self, account: &AccountId, name: &str, placed: &Placed) -> Result<(), Error> {
        let (account, domain) = (account.clone(), name.to_owned());
        let Placed {
            state,
            chain,
            entry,
        } = placed.clone();
        let collection = entry.collection;
        let own = match state {
            State::Live => return Ok(()),
            State::Creating => Command::Found {
                account: account.clone(),
                domain: domain.clone(),
                entry,
            },
            State::Deleting => Command::Raze {
                account: account.clone(),
                domain: domain.clone(),
                collection,
            },
        };
        let settle = Command::Settle {
            account,
            domain,
            collection,
            is_gone: state == State::Deleting,
        };
        let failed =
            |refusal: catalog::Refusal| Refusal::of_store(Kind::Unknown, refusal.to_string());
        self.catalog_on(chain, own).await.map_err(failed)?;
        let settled = self.catalog_on(ChainId::SYSTEM, settle);
        Ok(settled.await.map_err(failed)?)
    }

    /// Finishes the steps across chains that were unfinished `before` and still are, if this node
    /// decides for the system chain.
    pub(crate) async fn finish_others(&self, before: &mut Vec<CollectionId>) {
        let Some(chains) = self.several().filter(|chains| chains.system().decides()) else {
            return before.clear();
        };
        let unfinished = chains.catalog().and_then(|catalog| {
            let unfinished = catalog::unfinished(&*catalog);
            unfinished.map_err(|error| Refusal::of_store(Kind::Again, error.to_string()))
        });
        let Ok(unfinished) = unfinished else {
            return;
        };
        let now = unfinished.iter().map(|it| it.placed.entry.collection);
        let known = std::mem::replace(before, now.collect());
        for it in unfinished {
            let collection = it.placed.entry.collection;
            if !known.contains(&collection) {
                continue;
            }
            match self.finish(&it.account, &it.name, &it.placed).await {
                Ok(()) => tracing::info!(domain = it.name, "finished a step across chains"),
                Err(error) => {
                    tracing::debug!(domain = it.name, why = error.message, "not finished yet");
                }
            }
        }
    }

    /// The chain that a catalog command is for: of a domain that is there its own.
    pub(crate) async fn chain_of(&self, command: &Command) -> Result<ChainId, catalog::Refusal> {
        let (
            Some(chains),
            Command::SetMode {
                account, domain, ..
            },
        ) = (self.several(), command)
        else {
            return Ok(ChainId::SYSTEM);
        };
        let catalog = chains.fresh_catalog().await?;
        let placed = found(&*catalog, account, domain)?;
        Ok(placed.map_or(ChainId::SYSTEM, |placed| placed.chain))
    }
}

/// Where a domain is, if it is there.
fn found(view: &dyn View, account: &AccountId, name: &str) -> Result<Option<Placed>, ViewError> {
    let placed = catalog::placed(view, account, name)?;
    Ok(placed.filter(|placed| placed.state != State::Creating))
}

impl Chains {
    /// The catalog with all that was acknowledged before.
    pub(crate) async fn fresh_catalog(&self) -> Result<Snapshot, Refusal> {
        // What is answered strongly here is applied here.
        self.system().ready().await?;
        self.catalog()
    }
}
