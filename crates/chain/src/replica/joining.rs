//! Joining: the gap of a member that returns, and how it is filled (docs/protocol/
//! reconfiguration.md, section 5).

use super::{Replica, Step};
use crate::config::NodeId;
use crate::message::Message;
use crate::stamp::EntryId;
use crate::view::ViewError;

/// The state of a joining member, and of a greeter that fills one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Joining {
    /// Whether the engine lacks entries at or below the log's base.
    open: bool,
}

impl Joining {
    /// Whether the engine stands for no commit id.
    pub(super) fn is_open(&self) -> bool {
        self.open
    }

    pub(super) fn recover(&mut self, filling: bool) {
        self.open = filling;
    }

    pub(super) fn on_epoch(&mut self) {}
}

impl Replica {
    /// JN-2, JN-3: the greeter can send entries after `base`, has committed `commit` and persisted
    /// `last`.
    pub(super) fn begin_joining(
        &mut self,
        base: EntryId,
        commit: EntryId,
        last: EntryId,
        step: &mut Step<'_>,
    ) {
        let _ = (base, commit, last, step);
    }

    pub(super) fn on_joining(
        &mut self,
        from: NodeId,
        message: Message,
        step: &mut Step<'_>,
    ) -> Result<(), ViewError> {
        drop(message);
        let _ = (from, step);
        Ok(())
    }

    pub(super) fn on_filled(&mut self, step: &mut Step<'_>) -> Result<(), ViewError> {
        let _ = step;
        Ok(())
    }

    pub(super) fn on_persisted_joining(&mut self, step: &mut Step<'_>) -> Result<(), ViewError> {
        let _ = step;
        Ok(())
    }

    pub(super) fn tick_joining(&mut self, step: &mut Step<'_>) -> Result<(), ViewError> {
        let _ = step;
        Ok(())
    }
}
