//! Eventual operations: the overlay, stamps, quorums, promotion, barriers (docs/protocol/chain.md,
//! sections 10 to 12; semantics.md, sections 3 and 7).

use bytes::Bytes;

use super::{Now, Replica, Session, Step};
use crate::config::NodeId;
use crate::entry::RequestId;
use crate::host::{Refusal, Token};
use crate::message::{Message, Scope};
use crate::record::{Durable, Lsn};
use crate::register::Register;
use crate::stamp::{EntryId, Stamp};
use crate::view::ViewError;

/// What R members show of a register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The join of their committed registers and of their overlays' operations.
    pub register: Register,
    /// Whether an operation that is not settled decided what is shown (SDB-6.3).
    pub tentative: bool,
    /// The greatest commit id among them.
    pub commit: EntryId,
}

/// An eventual write that was accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The stamp, name and register of each operation of the request, in order.
    pub operations: Vec<(RequestId, Bytes, Stamp)>,
    /// Accepted without a lease (G7).
    pub detached: bool,
}

/// The state of the eventual path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Eventual {}

impl Eventual {
    pub(super) fn on_epoch(&mut self) {}

    pub(super) fn clock(&self, now: Now) -> u64 {
        now.wall
    }

    pub(super) fn on_peer_clock(&mut self, _from: NodeId, _clock: u64, _now: Now) {}

    pub(super) fn drain(&mut self) -> impl Iterator<Item = Token> + use<> {
        std::iter::empty()
    }
}

impl Replica {
    pub(super) fn recover_eventual(
        &mut self,
        durable: Durable,
        step: &mut Step<'_>,
    ) -> Result<(), ViewError> {
        drop(durable);
        let _ = step;
        Ok(())
    }

    pub(super) fn on_ready_eventual(&mut self, step: &mut Step<'_>) -> Result<(), ViewError> {
        let _ = step;
        Ok(())
    }

    /// JN-7: the gap is closed and the state has reached the greeter's: what was held before is
    /// judged.
    pub(super) fn on_caught_up_eventual(&mut self, step: &mut Step<'_>) -> Result<(), ViewError> {
        let _ = step;
        Ok(())
    }

    pub(super) fn on_persisted_eventual(
        &mut self,
        lsn: Lsn,
        step: &mut Step<'_>,
    ) -> Result<(), ViewError> {
        let _ = (lsn, step);
        Ok(())
    }

    /// Entries above `before` up to `id` are in the engine: settlements end overlay operations.
    pub(super) fn on_applied_eventual(
        &mut self,
        before: EntryId,
        id: EntryId,
        step: &mut Step<'_>,
    ) -> Result<(), ViewError> {
        let _ = (before, id, step);
        Ok(())
    }

    pub(super) fn on_write(
        &mut self,
        token: Token,
        request: Option<RequestId>,
        quorum: (usize, bool),
        session: &Session,
        step: &mut Step<'_>,
    ) -> Result<(), ViewError> {
        let _ = (request, quorum, session);
        step.refuse(token, Refusal::NotServing);
        Ok(())
    }

    pub(super) fn begin_eventual_read(
        &mut self,
        token: Token,
        scope: Scope,
        r: usize,
        session: Session,
        step: &mut Step<'_>,
    ) -> Result<(), ViewError> {
        drop((scope, r, session));
        step.refuse(token, Refusal::NotServing);
        Ok(())
    }

    pub(super) fn begin_barrier(
        &mut self,
        token: Token,
        request: Option<RequestId>,
        keys: Vec<Bytes>,
        step: &mut Step<'_>,
    ) -> Result<(), ViewError> {
        drop(keys);
        let _ = request;
        step.refuse(token, Refusal::NotServing);
        Ok(())
    }

    pub(super) fn begin_barrier_read(
        &mut self,
        token: Token,
        scope: Scope,
        step: &mut Step<'_>,
    ) -> Result<(), ViewError> {
        drop(scope);
        step.refuse(token, Refusal::NotServing);
        Ok(())
    }

    /// Whether everything tentative that the session saw of `scope` is settled and committed.
    pub(super) fn is_session_settled(
        &self,
        session: &Session,
        scope: &Scope,
        step: &mut Step<'_>,
    ) -> Result<bool, ViewError> {
        let _ = (session, scope, step);
        Ok(true)
    }

    pub(super) fn on_applied_reads(&mut self, step: &mut Step<'_>) -> Result<(), ViewError> {
        let _ = step;
        Ok(())
    }

    pub(super) fn on_eventual(
        &mut self,
        from: NodeId,
        message: Message,
        step: &mut Step<'_>,
    ) -> Result<(), ViewError> {
        drop(message);
        let _ = (from, step);
        Ok(())
    }

    pub(super) fn tick_eventual(&mut self, step: &mut Step<'_>) -> Result<(), ViewError> {
        let _ = step;
        Ok(())
    }

    pub(super) fn flush_eventual(&mut self, step: &mut Step<'_>) {
        let _ = step;
    }

    pub(super) fn abandon_eventual(&mut self, token: Token) {
        let _ = token;
    }
}
