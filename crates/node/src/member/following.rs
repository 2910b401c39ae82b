//! Sessions in the shell (semantics.md, section 7): what a token says goes with its request to a
//! member, and what the session has seen since comes back with the answer.
//!
//! ```text
//!  token ──open──▶ Session ──Work──▶ replica ──Reply──▶ Followed ──Told──▶ seal ──▶ next token
//! ```
//!
//! Invariants:
//! - F2 what is sealed is what a replica made of its reply in the step of the reply, or what came
//!   with the request: every answer to a request whose token opened carries the next one.
//!
//! A request without a session costs a look at an `Option`.

use fader_chain::{EntryId, Reply, Scope, Session};
use fader_services::catalog::{self, AccountId};
use fader_services::level::Notice;
use fader_services::simpledb::{Request, settled_outcome};
use fader_services::{CollectionId, KeyBuilder, Table, ViewError, item_key, split_item_key};

use super::pending::{Followed, Work};
use super::thread::ChainThread;

impl ChainThread {
    /// What the session of a request has seen by `reply`, in the step of the reply.
    pub(super) fn follow(
        &self,
        work: &Work,
        reply: &Reply,
    ) -> Result<Option<Box<Followed>>, ViewError> {
        let Some(session) = work.following() else {
            return Ok(None);
        };
        let scope = match (reply, work) {
            (
                Reply::ShowTentative { .. },
                Work::Read {
                    account, request, ..
                },
            ) => self.shown(account, request)?,
            _ => Scope::Keys(Vec::new()),
        };
        let session = Session::clone(session);
        let committed = &**self.desk.snapshot();
        let (session, ended) = self
            .replica
            .next_session(session, &scope, reply, committed)?;
        let settled = ended.into_iter().map(|(name, outcome)| {
            let outcome = settled_outcome(&outcome)?;
            Ok(Notice { name, outcome })
        });
        Ok(Some(Box::new(Followed {
            session,
            settled: settled.collect::<Result<_, ViewError>>()?,
        })))
    }

    /// The registers of unsettled operations that an eventual read of this member shows.
    fn shown(&self, account: &AccountId, request: &Request) -> Result<Scope, ViewError> {
        let keys = match (request, self.collection(account, request)?) {
            (Request::GetAttributes { item, .. }, Some(collection)) => {
                vec![item_key(collection, item.as_bytes())]
            }
            (Request::Select { .. } | Request::Query { .. }, Some(collection)) => {
                let items = KeyBuilder::new(collection, Table::Items);
                let (start, end) = (items.clone().build(), items.build_end());
                let operations = self.replica.operations_within(&start, &end);
                operations.map(|operation| operation.key.clone()).collect()
            }
            _ => Vec::new(),
        };
        Ok(Scope::Keys(keys))
    }

    /// What a read has to wait for: of a query what its session has seen of the collection (6.10);
    /// of anything in a domain that is not known here, all of it.
    pub(super) fn awaited(&self, work: &Work) -> Result<Session, ViewError> {
        let Some(session) = work.following() else {
            return Ok(Session::default());
        };
        let mut session = Session::clone(session);
        if let Work::Read {
            account, request, ..
        } = work
            && let Request::Select { .. } | Request::Query { .. } = request
            && let Some(collection) = self.collection(account, request)?
        {
            let is_here = |key: &[u8]| in_collection(key, collection);
            session.tentative.retain(|(key, _, _)| is_here(key));
        }
        Ok(session)
    }

    /// Whether the session of a request has seen more than this member has applied.
    pub(super) fn lags(&self, work: &Work) -> bool {
        let seen = work.following().map(|session| session.committed);
        self.desk.applied() < seen.unwrap_or(EntryId::ZERO)
    }

    /// The collection of a request's domain, as far as this member knows.
    pub(super) fn collection(
        &self,
        account: &AccountId,
        request: &Request,
    ) -> Result<Option<CollectionId>, ViewError> {
        let Some(name) = request.domain() else {
            return Ok(None);
        };
        let domain = catalog::domain(&**self.desk.snapshot(), account, name)?;
        Ok(domain.map(|domain| domain.collection))
    }
}

fn in_collection(key: &[u8], collection: CollectionId) -> bool {
    split_item_key(key).is_some_and(|(of, _)| of == collection)
}
