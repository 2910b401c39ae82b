//! What a change of mode asks of a member: who stamps, what is settled no more, and when a closing
//! collection may become strong (docs/protocol/reconfiguration.md, section 9).
//!
//! The drain is a barrier over everything (BR): members are asked after the closing entry is
//! committed. Then it is in each one's log, none of them stamps for the collection any more (MD-3),
//! and whatever one of them comes to hold later another one held when it was asked.

use std::collections::BTreeSet;

use crate::config::NodeId;
use crate::guard::Guard;
use crate::host::{Accepted, Refusal, Token};
use crate::keys::collection_of;
use crate::mode::{Mode, Standing};
use crate::operation::Operation;
use crate::replica::{Replica, Step};
use crate::stamp::EntryId;
use crate::view::{View, ViewError};

impl Replica {
    /// Whom the change of a closing collection waits for, as its head knows: who is away and may
    /// hold operations of it, then who has been asked and has not answered (I20).
    ///
    /// # Errors
    /// [`ViewError`] when the host's store fails.
    pub fn awaited(
        &self,
        collection: u64,
        committed: &dyn View,
    ) -> Result<(Vec<NodeId>, Vec<NodeId>), ViewError> {
        let standing = Standing::of(committed, collection)?;
        let Some(adopted) = self.adopted() else {
            return Ok(Default::default());
        };
        let away = standing.awaits(adopted).map(|away| away.node).collect();
        Ok((away, self.silent_in_closing(collection)))
    }

    /// MD-3: whether no entry that is not applied here changes the mode of what is written.
    pub(super) fn is_mode_clean(
        &self,
        accepted: &[Accepted],
        step: &Step<'_>,
    ) -> Result<bool, ViewError> {
        if self.log.last() == self.log.applied() || !self.guards.has(Guard::StampClean) {
            return Ok(true);
        }
        let committed = step.host.committed();
        let newest = self.log.newest(committed);
        let keys = accepted.iter().map(|accepted| &accepted.key);
        let collections: BTreeSet<u64> = keys.filter_map(|key| collection_of(key)).collect();
        for collection in collections {
            if Standing::of(committed, collection)? != Standing::of(&newest, collection)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// MD-5: whether the collection has closed for eventual writers since the operation was
    /// accepted. What is in no collection has no mode.
    pub(super) fn is_gone(
        &self,
        operation: &Operation,
        newest: &dyn View,
    ) -> Result<bool, ViewError> {
        let Some(collection) = collection_of(&operation.key) else {
            return Ok(false);
        };
        let standing = Standing::of(newest, collection)?;
        Ok(match self.guards.has(Guard::SettlesOwnTime) {
            true => !standing.settles(operation.accept),
            false => !standing.mode.settles_eventual(),
        })
    }

    /// MD-4: makes a closing collection strong, when nobody can hold operations of it.
    pub(in crate::replica) fn on_close(
        &mut self,
        token: Token,
        collection: u64,
        step: &mut Step<'_>,
    ) -> Result<(), ViewError> {
        if let Some(refusal) = self.refuses_submit() {
            step.refuse(token, refusal);
            return Ok(());
        }
        match self.may_close(collection, step)? {
            Some(since) => self.begin_closing(token, (collection, since), step),
            None => {
                step.refuse(token, Refusal::NotDrained);
                Ok(())
            }
        }
    }

    /// The closing entry of the collection, if members may be asked what they hold of it, and none
    /// who is away is waited for.
    pub(super) fn may_close(
        &self,
        collection: u64,
        step: &Step<'_>,
    ) -> Result<Option<EntryId>, ViewError> {
        let newest = self.log.newest(step.host.committed());
        let standing = Standing::of(&newest, collection)?;
        let is_committed = standing.since <= self.commit || !self.guards.has(Guard::CloseCommitted);
        let awaits = self
            .adopted()
            .is_some_and(|adopted| standing.awaits(adopted).next().is_some());
        let awaits = awaits && self.guards.has(Guard::CloseAwaits);
        let may = standing.mode == Mode::Closing && is_committed && !awaits;
        Ok(may.then_some(standing.since))
    }
}
