//! How the modes of collections stand, as the head of a collection's chain knows it, wherever that
//! is.

use fader_chain::{ChainId, NodeId};
use fader_services::catalog::{self, Name, Refusal};
use fader_services::forward::{DomainMode, ForwardedReply, ForwardedRequest};

use super::Router;

impl Router {
    /// The mode of a collection, and what a change of it waits for; `None` when there is no such
    /// collection. The head of its chain is asked, and where it does not answer, the member here.
    ///
    /// # Errors
    /// [`Refusal::View`] when the store fails, [`Refusal::Unavailable`] when no member answers.
    pub(crate) async fn mode(&self, name: Name<'_>) -> Result<Option<DomainMode>, Refusal> {
        let Some(chain) = self.placed(name).await? else {
            return Ok(None);
        };
        let asked = ForwardedRequest::Mode(name.to_owned());
        if let Some(of) = self.in_company().and_then(|chains| chains.get(chain))
            && of.version().is_third()
            && name.kind.since() <= of.version()
            && let Ok(Some(ForwardedReply::Mode(mode))) = of.forward(&asked).await
        {
            return Ok(mode);
        }
        self.mode_here(chain, name)
    }

    /// The same, as this process knows it.
    pub(crate) fn mode_here(
        &self,
        chain: ChainId,
        name: Name<'_>,
    ) -> Result<Option<DomainMode>, Refusal> {
        let keeper = self.keeper_of(chain)?;
        let Some(entry) = catalog::collection(&*keeper.snapshot(), name)? else {
            return Ok(None);
        };
        let waiting = keeper.shared().blockers.of(name, entry.mode);
        let node = |node: &NodeId| match self.in_company() {
            None => node.to_string(),
            Some(chains) => chains.system().name(*node),
        };
        let names = |nodes: &[NodeId]| nodes.iter().map(node).collect();
        Ok(Some(DomainMode {
            mode: entry.mode,
            absent: waiting
                .as_ref()
                .map_or_else(Vec::new, |it| names(&it.absent)),
            silent: waiting
                .as_ref()
                .map_or_else(Vec::new, |it| names(&it.silent)),
        }))
    }

    /// The chain that has a collection.
    ///
    /// # Errors
    /// [`Refusal::NoSuchDomain`], or [`Refusal::Unavailable`] when that is not known here.
    pub(crate) async fn chain_with(&self, name: Name<'_>) -> Result<ChainId, Refusal> {
        let none = || Refusal::NoSuchDomain(name.name.to_owned());
        let chain = self.placed(name).await?.ok_or_else(none)?;
        if self.several().is_none() {
            self.mode_here(chain, name)?.ok_or_else(none)?;
        }
        Ok(chain)
    }

    /// The chain that a collection is on, if it is there; where there is one chain only, that one.
    async fn placed(&self, name: Name<'_>) -> Result<Option<ChainId>, Refusal> {
        if self.several().is_none() {
            return Ok(Some(ChainId::SYSTEM));
        }
        let known = self.known_catalog(name).await?;
        let mut placed = catalog::located(&*known, name)?;
        if placed.is_none() {
            // It may have come a moment ago.
            let fresh = self.fresh_catalog(name).await?;
            placed = catalog::located(&*fresh, name)?;
        }
        Ok(placed.map(|placed| placed.chain))
    }
}
