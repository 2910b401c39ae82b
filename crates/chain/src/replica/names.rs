//! Whose a name is (docs/internals/protocol/chain.md, XO-7).
//!
//! A client's id is its own choice, so two accounts may choose the same one, by chance or to harm.
//! From version 4 on a name has the account in it, and so have its result, its stamp and its
//! window. What was named before has none, and cannot be given one: only its digest tells whose it
//! is. So a request whose own name is new is looked for under the older one as well.

use super::{Replica, Step};
use crate::dedup::{self, DedupState};
use crate::entry::RequestId;
use crate::host::CorrelationId;
use crate::operation::Digest;
use crate::version::Version;
use crate::view::ViewError;

impl Replica {
    /// The name by which this chain knows the request of `token`: with its owner. It has none for a
    /// chain of older members, and for a request that was carried out before names had owners.
    pub(super) fn name_here(
        &self,
        token: CorrelationId,
        name: RequestId,
        digest: Option<Digest>,
        step: &Step<'_>,
    ) -> Result<RequestId, ViewError> {
        let older = name.owned_by(0);
        if name == older || self.version() < Version::FOURTH {
            return Ok(older);
        }
        let is_new = matches!(
            self.known(&name, step.host.committed())?,
            None | Some(DedupState::TooOld | DedupState::TooFar)
        );
        Ok(match is_new && self.is_own(token, &older, digest, step)? {
            true => older,
            false => name,
        })
    }

    /// Whether what is known under a name without an owner is of this request.
    fn is_own(
        &self,
        token: CorrelationId,
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
        Ok(match dedup::known(older, step.host.committed())? {
            Some(DedupState::Decided { result, .. }) => step.host.is_own(token, &result),
            Some(DedupState::Settled { settlement, .. }) => {
                !Digest::differ(settlement.digest, digest)
            }
            Some(DedupState::Logged(_) | DedupState::TooOld | DedupState::TooFar) | None => false,
        })
    }
}
