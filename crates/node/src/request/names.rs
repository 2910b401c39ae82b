//! The way of a request to the chain of its collection, where there are several.
//!
//! Names are looked up in the catalog as this node knows it (`catalog.rs`), which may be behind.
//! What it says is there is asked of its own chain, by collection. So one that came later under
//! the same name is not taken for it. What it does not say, or what its chain does not
//! have, is looked up again in the catalog. That look has all that was acknowledged (SAGA-1 of
//! `catalog/placement.rs`).
//!
//! Rare branches are awaited on the heap. The future of a request has room for all of its branches,
//! and it is moved when it is made.

use std::sync::Arc;

use fader_chain::{ChainId, Version};
use fader_services::catalog::{self, DomainPlacement, Name, State};
use fader_services::level::{ConsistencyOptions, Level, ReplyMetadata};
use fader_services::request::{Outcome, Refusal as Refused};
use fader_services::service::{self, Meaning, Target, Trouble};
use fader_services::{Call, CollectionId, Reason, View};

use super::deliver::Reach;
use super::{Answer, Router};
use crate::member::context::{name_of, towards_of, unreadable};
use crate::member::refusal::{Kind, Refusal};

/// How often a collection may come and go while a request looks for it.
pub(super) const TRIES: usize = 8;

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
    pub(crate) async fn route(&self, mut call: Call) -> Answer {
        if let Err(refused) = self.prepare(&mut call).await {
            return self.refused(ChainId::SYSTEM, refused);
        }
        let mut call = Arc::new(call);
        // What was not found on its chain.
        let mut missed = None;
        for _ in 0..TRIES {
            let place = match self.place(&call, missed).await {
                Ok(place) => place,
                Err(refused) => return self.refused(ChainId::SYSTEM, refused),
            };
            let Place { chain, collection } = place;
            if collection.is_some() {
                Arc::make_mut(&mut call).consistency.collection = collection;
            }
            let done = match self.several().is_some() && changes_names(&call) {
                true => Box::pin(self.come_or_go(&call)).await,
                false => self.carry_out(chain, &call).await,
            };
            let done = match done {
                Ok(done) => done,
                Err(refused) => return self.refused(chain, refused),
            };
            match &done.0 {
                Err(refused)
                    if refused.meaning() == Meaning::NoCollection && collection.is_some() =>
                {
                    missed = collection;
                    Arc::make_mut(&mut call).consistency.collection = None;
                }
                Err(refused) => {
                    if let Some(reason) = refused.reason() {
                        self.count_refusal(chain, reason);
                    }
                    return done;
                }
                Ok(_) => return done,
            }
        }
        let moves = Refusal::new(Kind::Again, Reason::DomainMoves);
        self.refused(ChainId::SYSTEM, moves.of_service(call.request.service()))
    }

    /// Counts a client that is refused.
    pub(crate) fn count_refusal(&self, chain: ChainId, reason: Reason) {
        self.refusals.count(chain, reason);
    }

    fn refused(&self, chain: ChainId, refused: Refused) -> Answer {
        if let Some(reason) = refused.reason() {
            self.count_refusal(chain, reason);
        }
        (Err(refused), ReplyMetadata::default())
    }

    /// Whether members may hold eventual puts of blocks: all processes close their attempts.
    pub(super) fn takes_eventual_blocks(&self) -> bool {
        Version::NINTH <= self.chains.system().version()
    }

    /// Refuses what older processes of the cluster do not know. Looks up the other collection that
    /// a request names, where that may be on another chain.
    async fn prepare(&self, call: &mut Call) -> Result<(), Refused> {
        let since = call.request.since();
        let is_known = || since <= self.chains.system().version();
        if Version::OLDEST < since && self.chains.home.is_some() && !is_known() {
            let refusal = Refusal::new(Kind::Never, Reason::ClusterOld);
            return Err(refusal.of_service(call.request.service()));
        }
        let is_eventual = matches!(call.consistency.level, Level::Eventual { .. });
        if is_eventual && call.request.attempt().is_some() && !self.takes_eventual_blocks() {
            // What is stronger than asked is as good.
            call.consistency.level = Level::Strong;
        }
        let Some(name) = towards_of(call).filter(|_| self.several().is_some()) else {
            return Ok(());
        };
        let service = call.request.service();
        let placed = self.look_up(name, None).await;
        let placed = placed.map_err(|trouble| service.word(trouble))?;
        call.towards = placed.map(|placed| service::Place {
            chain: placed.chain,
            collection: placed.entry.collection,
        });
        Ok(())
    }

    /// Where a collection is, if it is there; but for what was `missed` on its chain.
    pub(super) async fn look_up(
        &self,
        name: Name<'_>,
        missed: Option<CollectionId>,
    ) -> Result<Option<DomainPlacement>, Trouble> {
        if missed.is_none() {
            let known = self.known_catalog(name).await?;
            let placed = found(&*known, name)?;
            if placed.is_some() {
                return Ok(placed);
            }
        }
        let fresh = Box::pin(self.fresh_catalog(name));
        let placed = found(&*fresh.await?, name)?;
        let is_missed = |it: &&DomainPlacement| missed == Some(it.entry.collection);
        let Some(unfinished) = placed.as_ref().filter(is_missed) else {
            return Ok(placed);
        };
        Box::pin(self.finish_name(name, unfinished)).await?;
        let fresh = Box::pin(self.fresh_catalog(name));
        found(&*fresh.await?, name)
    }

    /// The one look-up of a name, but for what was `missed` on its chain. Where there is one chain,
    /// that chain is asked for what is not known here, or not there any more. It is also asked for
    /// what has a name of its own, since its first answer is its last.
    async fn place(&self, call: &Call, missed: Option<CollectionId>) -> Result<Place, Refused> {
        let Some(name) = name_of(call).filter(|_| !changes_names(call)) else {
            return Ok(Place::SYSTEM);
        };
        if self.chains.system().is_lone() && !call.request.class().is_write() {
            // It is answered by the name, at once and on this member: no id has to be kept.
            return Ok(Place::SYSTEM);
        }
        if self.several().is_none() {
            let keeper = self.chains.system().local_member();
            let is_first = missed.is_none() && call.consistency.request.is_none();
            let entry = match keeper.filter(|_| is_first) {
                Some(keeper) => keeper.collection(name).map_err(unreadable(call))?,
                None => None,
            };
            return Ok(Place {
                collection: entry.map(|entry| entry.collection),
                ..Place::SYSTEM
            });
        }
        let service = call.request.service();
        let placed = self.look_up(name, missed).await;
        let placed = placed.map_err(|trouble| service.word(trouble))?;
        Ok(placed.map_or(Place::SYSTEM, |placed| Place {
            chain: placed.chain,
            collection: Some(placed.entry.collection),
        }))
    }

    /// Creates or deletes a collection on another chain than the system chain.
    async fn come_or_go(&self, call: &Arc<Call>) -> Result<Answer, Refused> {
        let Some(name) = name_of(call) else {
            return self.carry_out(ChainId::SYSTEM, call).await;
        };
        match call.request.target() {
            Target::Create { plain, .. } => self.create(call, name, plain).await,
            _ => self.delete(call, name).await,
        }
    }

    /// `plain`: any that is there already will do.
    async fn create(
        &self,
        call: &Arc<Call>,
        name: Name<'_>,
        plain: bool,
    ) -> Result<Answer, Refused> {
        let service = call.request.service();
        let later = |refusal: Refusal| refusal.of_service(service);
        let known = self.known_catalog(name).await.map_err(later)?;
        let known = catalog::placed(&*known, name).map_err(unreadable(call))?;
        if let Some(placed) = known.filter(|placed| placed.state == State::Deleting) {
            self.finish_name(name, &placed).await.map_err(later)?;
        }
        let (begun, placed) = self.begin(call, name).await?;
        let Some(placed) = placed else {
            // It was refused, or deleted meanwhile.
            return Ok(begun);
        };
        if placed.state == State::Creating {
            self.finish_name(name, &placed).await.map_err(later)?;
        }
        if plain {
            return Ok(begun);
        }
        // Whether it is as it is asked for, its own chain knows.
        let consistency = ConsistencyOptions {
            collection: Some(placed.entry.collection),
            ..ConsistencyOptions::default()
        };
        let own = Arc::new(Call {
            consistency,
            ..Call::clone(call)
        });
        let is_missing = |outcome: &Outcome| {
            let refused = outcome.as_ref().err();
            refused.is_some_and(|refused| refused.meaning() == Meaning::NoCollection)
        };
        let (mut outcome, _) = self.carry_out(placed.chain, &own).await?;
        if is_missing(&outcome) {
            // Its chain has lost it, and founds it again; or it has ended there (SAGA-2).
            let lost = DomainPlacement {
                state: State::Creating,
                ..placed
            };
            self.finish_name(name, &lost).await.map_err(later)?;
            (outcome, _) = self.carry_out(lost.chain, &own).await?;
        }
        if is_missing(&outcome) {
            // Its name is not free yet.
            outcome = Err(later(Refusal::new(Kind::Again, Reason::DomainDeleting)));
        }
        Ok((outcome, begun.1))
    }

    /// The step on the system chain, and how the collection stands in the catalog after it; not
    /// looked up if the step was refused.
    async fn begin(
        &self,
        call: &Arc<Call>,
        name: Name<'_>,
    ) -> Result<(Answer, Option<DomainPlacement>), Refused> {
        let begun = self.carry_out(ChainId::SYSTEM, call).await?;
        if begun.0.is_err() {
            return Ok((begun, None));
        }
        let service = call.request.service();
        let catalog = self.fresh_catalog(name).await;
        let catalog = catalog.map_err(|refusal| refusal.of_service(service))?;
        let placed = catalog::placed(&*catalog, name).map_err(unreadable(call))?;
        Ok((begun, placed))
    }

    async fn delete(&self, call: &Arc<Call>, name: Name<'_>) -> Result<Answer, Refused> {
        let (begun, placed) = self.begin(call, name).await?;
        if let Some(placed) = placed.filter(|placed| placed.state == State::Deleting) {
            let finished = self.finish_name(name, &placed).await;
            finished.map_err(|refusal| refusal.of_service(call.request.service()))?;
        }
        Ok(begun)
    }

    /// Carries out a request on a chain, with the step that it begins.
    async fn carry_out(&self, chain: ChainId, call: &Arc<Call>) -> Result<Answer, Refused> {
        let service = call.request.service();
        let done = self.on_chain(chain, call, Reach::Anywhere).await;
        let (outcome, metadata) = done.map_err(|refusal| refusal.of_service(service))?;
        let reply = match outcome {
            Ok(reply) => reply,
            Err(refused) => return Ok((Err(refused), metadata)),
        };
        let Some(step) = reply.begun().cloned() else {
            return Ok((Ok(reply), metadata));
        };
        let outcome = match Box::pin(self.finish(chain, step)).await {
            Ok(taken) => reply.finished(&taken),
            Err(refusal) => Err(refusal.of_service(service)),
        };
        Ok((outcome, metadata))
    }
}

/// Whether a request changes which names there are, which takes steps on two chains where there are
/// several.
fn changes_names(call: &Call) -> bool {
    let target = call.request.target();
    matches!(target, Target::Create { .. } | Target::Delete(..))
}

/// Where a collection is, if it is there.
fn found(view: &dyn View, name: Name<'_>) -> Result<Option<DomainPlacement>, Trouble> {
    let placed = catalog::located(view, name).map_err(Trouble::Unreadable)?;
    Ok(placed.filter(|placed| placed.state != State::Creating))
}
