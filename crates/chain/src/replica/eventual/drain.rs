//! What a change of mode asks of a member: which members stamp, what is settled no more, and when a
//! draining collection may become strong. See docs/internals/protocol/reconfiguration.md, section
//! 9.
//!
//! The drain is a barrier over everything (BR): members are asked after the draining entry is
//! committed. Then it is in each one's log, and none of them stamps for the collection any more
//! (MD-3). What one of them comes to hold later another one held when it was asked.

use std::collections::BTreeSet;

use crate::config::NodeId;
use crate::guard::Guard;
use crate::host::{Accepted, CorrelationId, Refusal};
use crate::keys::collection_of;
use crate::mode::{Mode, ModeState};
use crate::operation::Operation;
use crate::replica::{Replica, Step};
use crate::stamp::EntryId;
use crate::view::{View, ViewError};

impl Replica {
    /// The members for which the change of a draining collection waits, as its head knows. First
    /// come absent members that may hold operations of it, then members that have been asked and
    /// have not answered (I20).
    ///
    /// # Errors
    /// [`ViewError`] when the host's store fails.
    pub fn awaited(
        &self,
        collection: u64,
        committed: &dyn View,
    ) -> Result<(Vec<NodeId>, Vec<NodeId>), ViewError> {
        let standing = ModeState::of(committed, collection)?;
        let Some(adopted) = self.adopted() else {
            return Ok(Default::default());
        };
        let absent = standing.awaits(adopted).map(|absent| absent.node).collect();
        Ok((absent, self.silent_in_closing(collection)))
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
            if ModeState::of(committed, collection)? != ModeState::of(&newest, collection)? {
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
        let standing = ModeState::of(newest, collection)?;
        Ok(match self.guards.has(Guard::SettlesOwnTime) {
            true => !standing.settles(operation.accept),
            false => !standing.mode.settles_eventual(),
        })
    }

    /// MD-4, MD-6: the next step of a collection to the mode `strong`, if it may be taken.
    pub(in crate::replica) fn on_close(
        &mut self,
        token: CorrelationId,
        collection: u64,
        step: &mut Step<'_>,
    ) -> Result<(), ViewError> {
        if let Some(refusal) = self.refuses_submit() {
            step.refuse(token, refusal);
            return Ok(());
        }
        let standing = ModeState::of(&self.log.newest(step.host.committed()), collection)?;
        match standing.mode {
            Mode::Draining if self.may_close(&standing) => {
                self.begin_closing(token, collection, standing.since, step)
            }
            Mode::Drained if self.may_drop_marks(&standing) => self.decide(token, None, step),
            _ => {
                step.refuse(token, Refusal::NotDrained);
                Ok(())
            }
        }
    }

    /// MD-4, when all have answered: decides, if nothing that counts has changed since they were
    /// asked. The change may have been taken back, and members may have gone away.
    pub(super) fn end_closing(
        &mut self,
        token: CorrelationId,
        collection: u64,
        since: EntryId,
        step: &mut Step<'_>,
    ) -> Result<(), ViewError> {
        let standing = ModeState::of(&self.log.newest(step.host.committed()), collection)?;
        if standing.mode == Mode::Draining && standing.since == since && self.may_close(&standing) {
            return self.decide(token, None, step);
        }
        step.refuse(token, Refusal::NotDrained);
        Ok(())
    }

    /// Whether members may be asked what they hold, and none who is absent is waited for.
    fn may_close(&self, draining: &ModeState) -> bool {
        let is_committed = draining.since <= self.commit || !self.guards.has(Guard::CloseCommitted);
        let adopted = self.adopted();
        let awaits = adopted.is_some_and(|adopted| draining.awaits(adopted).next().is_some());
        is_committed && !(awaits && self.guards.has(Guard::CloseAwaits))
    }

    /// Whether every member has applied the entry that drained the collection, and all before it.
    fn may_drop_marks(&self, drained: &ModeState) -> bool {
        let safe_point = self.adopted().map(|adopted| adopted.safe_point);
        let applied = match self.is_alone() {
            true => Some(self.log.applied()),
            false => safe_point,
        };
        applied.is_some_and(|applied| drained.since <= applied)
            || !self.guards.has(Guard::DropWaits)
    }
}
