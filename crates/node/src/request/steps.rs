//! Steps across chains: what one chain began is finished here
//! (docs/internals/protocol/steps.md; `fader_services::steps` has the rules).
//!
//! Invariants:
//! - ROUTE-3 a step across chains is finished before its origin is told that it was done.
//! - ROUTE-4 who finds one unfinished that matters to it finishes it; any other, the node that
//!   decides for its origin.

use std::collections::BTreeMap;
use std::sync::Arc;

use fader_chain::{ALL_GUARDS, ChainId};
use fader_services::Call;
use fader_services::catalog::{DomainPlacement, Name};
use fader_services::request::own;
use fader_services::steps::{self, Ask, Command, Finish, Heard, Step, Steps, Taken};

use super::Router;
use super::deliver::Reach;
use crate::cluster::Cluster;
use crate::member::refusal::{Kind, Refusal};

/// Unsettled steps of one origin that are finished in one round.
const STEPS_MAX: usize = 256;

/// The steps that were unsettled when it was looked last, of the chains that this node decides for.
pub(crate) type Unsettled = BTreeMap<ChainId, Vec<Step>>;

impl Router {
    /// Finishes a step of `origin`: what came of it.
    ///
    /// # Errors
    /// [`Refusal`] of the kind unknown: its record stays, and it is finished later.
    pub(crate) async fn finish(&self, origin: ChainId, step: Step) -> Result<Taken, Refusal> {
        let mut finish = Finish::new(origin, step, ALL_GUARDS.clone());
        loop {
            let (chain, command) = match finish.ask() {
                Ask::Nothing(taken) => return Ok(taken),
                Ask::Of(chain, command) => (chain, command),
            };
            let is_take = matches!(command, Command::Take(..));
            let call = Arc::new(Call::of_node(command));
            let told = self.on_chain(chain, &call, Reach::Anywhere).await;
            let unknown = |words: String| Refusal::of_store(Kind::Unknown, words);
            let (outcome, _) = told.map_err(|refusal| unknown(refusal.to_string()))?;
            let taken = own::<Steps>(outcome).map_err(|refused| unknown(refused.to_string()))?;
            finish.hear(match is_take {
                true => Heard::Taken(taken),
                false => Heard::Settled,
            });
        }
    }

    /// Takes the steps that are left of a collection that comes or goes.
    pub(super) async fn finish_name(
        &self,
        name: Name<'_>,
        placed: &DomainPlacement,
    ) -> Result<(), Refusal> {
        match steps::of_collection(name.to_owned(), placed) {
            Some(step) => self.finish(ChainId::SYSTEM, step).await.map(drop),
            None => Ok(()),
        }
    }

    /// Finishes the steps across chains that were unsettled `before` and still are, of the chains
    /// that this node decides for.
    pub(crate) async fn finish_others(&self, before: &mut Unsettled) {
        let Some(chains) = self.several() else {
            return before.clear();
        };
        let here = chains.with_numbers().filter(|(_, chain)| chain.decides());
        let now = here.filter_map(|(chain, of)| Some((chain, unsettled(&of)?)));
        let known = std::mem::replace(before, now.collect());
        for (origin, steps) in before.iter() {
            let known = known.get(origin).map_or(&[][..], Vec::as_slice);
            let is_same = |step: &Step, other: &Step| {
                step.number == other.number && step.action == other.action
            };
            let old = steps
                .iter()
                .filter(|step| known.iter().any(|other| is_same(step, other)));
            for step in old {
                let number = step.number;
                match self.finish(*origin, step.clone()).await {
                    Ok(_) => tracing::info!(%origin, number, "finished a step across chains"),
                    Err(refusal) => {
                        tracing::debug!(%origin, number, why = %refusal, "not finished yet");
                    }
                }
            }
        }
    }
}

/// The steps that a chain has a record of, as its member here knows them.
fn unsettled(chain: &Cluster) -> Option<Vec<Step>> {
    let snapshot = chain.local_member()?.snapshot();
    match steps::unsettled(&*snapshot, STEPS_MAX) {
        Ok(steps) => Some(steps),
        Err(error) => {
            tracing::warn!(%error, "the records of steps cannot be read");
            None
        }
    }
}
