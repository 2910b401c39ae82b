//! Whose a name is (docs/protocol/chain.md, XO-7).
//!
//! A client's id is its own choice, so two accounts may choose the same one, by chance or to harm.
//! From version 4 on a name has the account in it, and so have its result, its stamp and its
//! window. What was named before has none, and cannot be given one: only its digest tells whose it
//! is. So a request whose own name is new is looked for under the older one as well.

use super::{Replica, Step};
use crate::entry::RequestId;
use crate::host::Token;
use crate::operation::Digest;
use crate::results::{self, Known};
use crate::version::Version;
use crate::view::ViewError;

impl Replica {
    /// The name by which this chain knows the request of `token`: with its owner, but for a chain
    /// of older members, and for a request that was carried out before names had owners.
    pub(super) fn name_here(
        &self,
        (token, name, digest): (Token, RequestId, Option<Digest>),
        step: &Step<'_>,
    ) -> Result<RequestId, ViewError> {
        let older = name.owned_by(0);
        if name == older || self.version() < Version::FOURTH {
            return Ok(older);
        }
        let is_new = matches!(
            self.known(&name, step.host.committed())?,
            None | Some(Known::TooOld | Known::TooFar)
        );
        Ok(match is_new && self.is_own(token, &older, digest, step)? {
            true => older,
            false => name,
        })
    }

    /// Whether what is known under a name of nobody is of this request.
    fn is_own(
        &self,
        token: Token,
        older: &RequestId,
        digest: Option<Digest>,
        step: &Step<'_>,
    ) -> Result<bool, ViewError> {
        if let Some(held) = self.eventual.held(older) {
            return Ok(!Digest::differ(held.digest, digest));
        }
        if let Some(id) = self.log.named(older)
            && let Some(slot) = self.log.get(id)
        {
            let entry = &slot.entry;
            return Ok(!entry.is_settlement() && step.host.is_own(token, &entry.result));
        }
        Ok(match results::known(older, step.host.committed())? {
            Some(Known::Decided { result, .. }) => step.host.is_own(token, &result),
            Some(Known::Settled { settlement, .. }) => !Digest::differ(settlement.digest, digest),
            Some(Known::Logged(_) | Known::TooOld | Known::TooFar) | None => false,
        })
    }
}
