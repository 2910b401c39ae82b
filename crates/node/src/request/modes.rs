//! How the modes of domains stand, as the head of a domain's chain knows it, wherever that is.

use fader_chain::{ChainId, NodeId};
use fader_services::catalog::{self, AccountId, Name, Refusal};
use fader_services::forward::{Asked, DomainMode, Told};

use super::Router;

impl Router {
    /// The mode of a domain, and what a change of it waits for; `None` when there is no such
    /// domain. The head of its chain is asked, and where it does not answer, the member here.
    ///
    /// # Errors
    /// [`Refusal::View`] when the store fails, or nobody answers.
    pub(crate) async fn mode(
        &self,
        account: &AccountId,
        domain: &str,
    ) -> Result<Option<DomainMode>, Refusal> {
        let Some(chain) = self.placed(account, domain).await? else {
            return Ok(None);
        };
        let asked = Asked::Mode(account.clone(), domain.to_owned());
        if let Some(of) = self.in_company().and_then(|chains| chains.get(chain))
            && of.version().is_third()
            && let Ok(Some(Told::Mode(mode))) = of.hand_on(&asked).await
        {
            return Ok(mode);
        }
        self.mode_here(chain, account, domain)
    }

    /// The same, as this process knows it.
    pub(crate) fn mode_here(
        &self,
        chain: ChainId,
        account: &AccountId,
        domain: &str,
    ) -> Result<Option<DomainMode>, Refusal> {
        let keeper = self.keeper_of(chain)?;
        let Some(entry) = catalog::domain(&*keeper.snapshot(), account, domain)? else {
            return Ok(None);
        };
        let waiting = keeper.shared().waitings.of(account, domain, entry.mode);
        let name = |node: &NodeId| match self.in_company() {
            None => node.to_string(),
            Some(chains) => chains.system().name(*node),
        };
        let names = |nodes: &[NodeId]| nodes.iter().map(name).collect();
        Ok(Some(DomainMode {
            mode: entry.mode,
            away: waiting.as_ref().map_or_else(Vec::new, |it| names(&it.away)),
            silent: waiting
                .as_ref()
                .map_or_else(Vec::new, |it| names(&it.silent)),
        }))
    }

    /// The chain that has a domain.
    ///
    /// # Errors
    /// [`Refusal::NoSuchDomain`], or [`Refusal::View`] when that is not known here.
    pub(crate) async fn chain_with(
        &self,
        account: &AccountId,
        domain: &str,
    ) -> Result<ChainId, Refusal> {
        let none = || Refusal::NoSuchDomain(domain.to_owned());
        let chain = self.placed(account, domain).await?.ok_or_else(none)?;
        if self.several().is_none() {
            self.mode_here(chain, account, domain)?.ok_or_else(none)?;
        }
        Ok(chain)
    }

    /// The chain that a domain is on, if it is there; where there is one chain only, that one.
    async fn placed(&self, account: &AccountId, domain: &str) -> Result<Option<ChainId>, Refusal> {
        let Some(chains) = self.several() else {
            return Ok(Some(ChainId::SYSTEM));
        };
        let known = chains.catalog()?;
        let mut placed = catalog::placed(&*known, Name::domain(account, domain))?;
        if placed.is_none() {
            // It may have come a moment ago.
            let fresh = chains.fresh_catalog().await?;
            placed = catalog::placed(&*fresh, Name::domain(account, domain))?;
        }
        Ok(placed.map(|placed| placed.chain))
    }
}
