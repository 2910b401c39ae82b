//! Sessions in the shell (semantics.md, section 7). What a token says goes with its request to a
//! member, and what the session has seen since comes back with the answer.
//!
//! ```text
//!  token ──open──▶ Session ──Work──▶ replica ──Reply──▶ Followed ──Told──▶ seal ──▶ next token
//! ```
//!
//! Invariants:
//! - what is sealed is what a replica made of its reply in the step of the reply, or what
//!   came with the request. Every answer to a request whose token opened carries the next one.
//!
//! A request without a session costs a look at an `Option`.

use fader_chain::{EntryId, Reply, Scope, Session};
use fader_services::level::{SettlementNotice, settled_outcome};
use fader_services::service::Sight;
use fader_services::{Call, CollectionId, ViewError};

use super::context::collection_of;
use super::pending::{PendingRequest, SessionUpdate};
use super::thread::ChainThread;

impl ChainThread {
    /// What the session of a request has seen by `reply`, in the step of the reply.
    pub(super) fn follow(
        &self,
        work: &PendingRequest,
        reply: &Reply,
    ) -> Result<Option<Box<SessionUpdate>>, ViewError> {
        let Some(session) = work.context() else {
            return Ok(None);
        };
        let scope = match (reply, work) {
            (Reply::ShowTentative { .. }, PendingRequest::Read { call, .. }) => self.shown(call)?,
            _ => Scope::Keys(Vec::new()),
        };
        let session = Session::clone(session);
        let committed = &**self.requests.snapshot();
        let (session, ended) = self
            .replica
            .next_session(session, &scope, reply, committed)?;
        let settled = ended.into_iter().map(|(name, outcome)| {
            let outcome = settled_outcome(&outcome)?;
            Ok(SettlementNotice { name, outcome })
        });
        Ok(Some(Box::new(SessionUpdate {
            session,
            settled: settled.collect::<Result<_, ViewError>>()?,
        })))
    }

    /// The registers of unsettled operations that an eventual read of this member shows.
    fn shown(&self, call: &Call) -> Result<Scope, ViewError> {
        let collection = self.collection(call)?;
        let sight = collection.map(|collection| call.request.sight(collection));
        let keys = match sight {
            Some(Sight::Register(key)) => vec![key],
            Some(Sight::Registers(start, end)) => {
                let operations = self.replica.operations_within(&start, &end);
                operations.map(|operation| operation.key.clone()).collect()
            }
            Some(Sight::Rows(_)) | None => Vec::new(),
        };
        Ok(Scope::Keys(keys))
    }

    /// What a read has to wait for. Of a query it is what its session has seen of the collection
    /// (6.10). Of anything in a collection that is not known here, it is all of it.
    pub(super) fn awaited(&self, work: &PendingRequest) -> Result<Option<Session>, ViewError> {
        let Some(session) = work.context() else {
            return Ok(None);
        };
        let mut session = Session::clone(session);
        if let PendingRequest::Read { call, .. } = work
            && let Some(collection) = self.collection(call)?
            && let Sight::Registers(..) = call.request.sight(collection)
        {
            let is_here = |key: &[u8]| in_collection(key, collection);
            session.tentative.retain(|(key, _, _)| is_here(key));
        }
        Ok(Some(session))
    }

    /// Whether the session of a request has seen more than this member has applied.
    pub(super) fn lags(&self, work: &PendingRequest) -> bool {
        let seen = work.context().map(|session| session.committed);
        self.requests.applied() < seen.unwrap_or(EntryId::ZERO)
    }

    /// The collection of a request, as far as this member knows.
    pub(super) fn collection(&self, call: &Call) -> Result<Option<CollectionId>, ViewError> {
        let entry = collection_of(&**self.requests.snapshot(), call)?;
        Ok(entry.map(|entry| entry.collection))
    }
}

fn in_collection(key: &[u8], collection: CollectionId) -> bool {
    key.first_chunk() == Some(&collection.0.to_be_bytes())
}
