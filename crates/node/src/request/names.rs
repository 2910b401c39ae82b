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

use std::sync::Arc;

use fader_chain::ChainId;
use fader_services::catalog::{self, AccountId, Command, Name, Placed, State};
use fader_services::level::{Demand, Receipt};
use fader_services::simpledb::{Code, Error, Request};
use fader_services::{CollectionId, Reason, View, ViewError};

use super::deliver::Reach;
use super::{Answer, Router};
use crate::cluster::chains::Chains;
use crate::member::call::Call;
use crate::member::refusal::{Kind, Refusal};
use crate::storage::engine::Snapshot;

/// How often a domain may come and go while a request looks for it.
const TRIES: usize = 8;

/// Where a request goes.
struct Place {
    chain: ChainId,
    /// The collection that its name stands for, where that is known: its chain checks it.
    collection: Option<CollectionId>,
}

impl Place {
    /// The system chain, which knows names.
    const SYSTEM: Place = Place {
        chain: ChainId::SYSTEM,
        collection: None,
    };
}

impl Router {
    /// Carries out a request of a client, at the chain that it is for.
    pub(crate) async fn route(&self, call: Call) -> Answer {
        let mut call = Arc::new(call);
        // What was not found on its chain.
        let mut missed = None;
        for _ in 0..TRIES {
            let place = match self.place(&call, missed).await {
                Ok(place) => place,
                Err(error) => return self.refused(ChainId::SYSTEM, error),
            };
            let Place { chain, collection } = place;
            if collection.is_some() {
                Arc::make_mut(&mut call).demand.collection = collection;
            }
            let steps = self.several().filter(|_| has_steps(&call.request));
            let done = match steps {
                Some(chains) => self.in_steps(chains, &call).await,
                None => self
                    .on_chain(chain, &call, Reach::Anywhere)
                    .await
                    .map_err(Error::from),
            };
            let done = match done {
                Ok(done) => done,
                Err(error) => return self.refused(chain, error),
            };
            match &done.0 {
                Err(error) if error.code == Code::NoSuchDomain && collection.is_some() => {
                    missed = collection;
                    Arc::make_mut(&mut call).demand.collection = None;
                }
                Err(error) => {
                    if let Some(reason) = error.reason {
                        self.count_refusal(chain, reason);
                    }
                    return done;
                }
                Ok(_) => return done,
            }
        }
        let moves = Refusal::new(Kind::Again, Reason::DomainMoves);
        self.refused(ChainId::SYSTEM, moves.into())
    }

    /// Counts a client that is refused.
    pub(crate) fn count_refusal(&self, chain: ChainId, reason: Reason) {
        self.refusals.count(chain, reason);
    }

    fn refused(&self, chain: ChainId, error: Error) -> Answer {
        if let Some(reason) = error.reason {
            self.count_refusal(chain, reason);
        }
        (Err(error), Receipt::default())
    }

    /// The one look-up of a name, but for what was `missed` on its chain. Where there is one chain,
    /// that chain is asked for what is not known here, or not there any more; and for what has a
    /// name of its own, since its first answer is its last.
    async fn place(&self, call: &Call, missed: Option<CollectionId>) -> Result<Place, Error> {
        let Some(name) = call.request.domain().filter(|_| !has_steps(&call.request)) else {
            return Ok(Place::SYSTEM);
        };
        let account = &call.account;
        let Some(chains) = self.several() else {
            let keeper = self.chains.system().keeper();
            let is_first = missed.is_none() && call.demand.request.is_none();
            let keeper = keeper.filter(|_| is_first);
            let entry = keeper
                .map(|keeper| keeper.domain(account, name))
                .transpose()?;
            return Ok(Place {
                collection: entry.flatten().map(|entry| entry.collection),
                ..Place::SYSTEM
            });
        };
        let mut placed = match missed {
            None => found(&*chains.catalog()?, account, name)?,
            Some(_) => None,
        };
        if placed.is_none() {
            let fresh = chains.fresh_catalog().await?;
            placed = found(&*fresh, account, name)?;
        }
        let is_missed = |it: &&Placed| missed == Some(it.entry.collection);
        if let Some(unfinished) = placed.as_ref().filter(is_missed) {
            self.finish(account, name, unfinished).await?;
            let fresh = chains.fresh_catalog().await?;
            placed = found(&*fresh, account, name)?;
        }
        Ok(placed.map_or(Place::SYSTEM, |placed| Place {
            chain: placed.chain,
            collection: Some(placed.entry.collection),
        }))
    }

    /// Creates or deletes a domain on another chain than the system chain.
    async fn in_steps(&self, chains: &Chains, call: &Arc<Call>) -> Result<Answer, Error> {
        match call.request {
            Request::DeleteDomain { .. } => self.delete(chains, call).await,
            _ => self.create(chains, call).await,
        }
    }

    async fn create(&self, chains: &Chains, call: &Arc<Call>) -> Result<Answer, Error> {
        let (account, name) = (&call.account, call.request.domain().unwrap_or_default());
        let known = catalog::placed(&*chains.catalog()?, Name::domain(account, name))?;
        if let Some(placed) = known.filter(|placed| placed.state == State::Deleting) {
            self.finish(account, name, &placed).await?;
        }
        let (begun, placed) = self.begin(chains, call).await?;
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
        } = call.request
        {
            return Ok(begun);
        }
        // Whether it is as it is asked for, its own chain knows.
        let demand = Demand {
            collection: Some(placed.entry.collection),
            ..Demand::default()
        };
        let own = Arc::new(Call {
            demand,
            ..Call::clone(call)
        });
        let (outcome, _) = self.on_chain(placed.chain, &own, Reach::Anywhere).await?;
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
        call: &Arc<Call>,
    ) -> Result<(Answer, Option<Placed>), Error> {
        let (account, name) = (&call.account, call.request.domain().unwrap_or_default());
        let begun = self
            .on_chain(ChainId::SYSTEM, call, Reach::Anywhere)
            .await?;
        if begun.0.is_err() {
            return Ok((begun, None));
        }
        let catalog = chains.fresh_catalog().await?;
        Ok((
            begun,
            catalog::placed(&*catalog, Name::domain(account, name))?,
        ))
    }

    async fn delete(&self, chains: &Chains, call: &Arc<Call>) -> Result<Answer, Error> {
        let (account, name) = (&call.account, call.request.domain().unwrap_or_default());
        let (begun, placed) = self.begin(chains, call).await?;
        if let Some(placed) = placed.filter(|placed| placed.state == State::Deleting) {
            self.finish(account, name, &placed).await?;
        }
        Ok(begun)
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
            match self
                .finish(&it.name.account, &it.name.name, &it.placed)
                .await
            {
                Ok(()) => tracing::info!(domain = it.name.name, "finished a step across chains"),
                Err(error) => {
                    tracing::debug!(
                        domain = it.name.name,
                        why = error.message,
                        "not finished yet"
                    );
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

/// Whether a request changes which names there are, which takes steps on two chains where there are
/// several.
fn has_steps(request: &Request) -> bool {
    matches!(
        request,
        Request::CreateDomain { .. } | Request::DeleteDomain { .. }
    )
}

/// Where a domain is, if it is there.
fn found(view: &dyn View, account: &AccountId, name: &str) -> Result<Option<Placed>, ViewError> {
    let placed = catalog::placed(view, Name::domain(account, name))?;
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
