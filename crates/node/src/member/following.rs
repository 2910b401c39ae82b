//! Sessions in the shell (semantics.md, section 7): what a token says goes with its request to a
//! member, and what the session has seen since comes back with the answer.
//!
//! ```text
//!  token ──open──▶ Session ──Work──▶ replica ──Reply──▶ Followed ──Told──▶ seal ──▶ next token
//! ```
//!
//! Invariants:
//! - F1 a token that does not open with this node's key, for this account, goes no further (D15).
//! - F2 what is sealed is what a replica made of its reply in the step of the reply, or what came
//!   with the request: every answer to a request whose token opened carries the next one.
//!
//! A request without a session costs a look at an `Option`.

use std::sync::Arc;

use fader_chain::{ChainId, EntryId, Reply, RequestId, Scope, Session};
use fader_services::catalog::{self, AccountId};
use fader_services::level::{Notice, Receipt, show_name};
use fader_services::simpledb::{Answered, Code, Error, Request, settled_outcome};
use fader_services::{CollectionId, KeyBuilder, Table, ViewError, item_key, split_item_key};

use crate::member::desk::unavailable;
use crate::member::pending::Work;
use crate::member::thread::ChainThread;
use crate::request::tokens::Sessions;
use crate::secrets::seal::Seal;

/// What a request's session has seen before it, if it has one.
pub(crate) type Following = Option<Arc<Session>>;

/// What a session has seen by the end of a request.
pub(crate) struct Followed {
    /// What the next token says.
    pub(crate) session: Session,
    /// Which of the operations that the token named ended without effect.
    pub(crate) settled: Vec<Notice>,
}

/// What came of a request, and what is told beside.
pub(crate) struct Told {
    /// The service's answer.
    pub(crate) outcome: Result<Answered, Error>,
    /// What was read or written.
    pub(crate) receipt: Receipt,
    /// What its session has seen, where a member said.
    pub(crate) followed: Option<Box<Followed>>,
}

impl Told {
    /// A read's answer.
    pub(crate) fn of(
        answered: Result<(Answered, Receipt), Error>,
        followed: Option<Box<Followed>>,
    ) -> Told {
        let (outcome, receipt) = match answered {
            Ok((answered, receipt)) => (Ok(answered), receipt),
            Err(error) => (Err(error), Receipt::default()),
        };
        Told {
            outcome,
            receipt,
            followed,
        }
    }

    /// The answer as the client gets it, with the token that goes on from here.
    pub(crate) fn seal(
        self,
        seal: &Seal,
        account: &AccountId,
        (chain, sessions): (ChainId, Option<Sessions>),
    ) -> (Result<Answered, Error>, Receipt) {
        let Told {
            outcome,
            mut receipt,
            followed,
        } = self;
        if followed.is_none() && sessions.is_none() {
            return (outcome, receipt);
        }
        let mut sessions = sessions.unwrap_or_default();
        if let Some(followed) = followed {
            receipt.settled = followed.settled;
            sessions.see(chain, followed.session);
        }
        match seal.seal_session(account, &sessions) {
            Ok(token) => receipt.session = Some(token),
            // The client goes on with the token that it has, which may promise less than it saw.
            Err(error) => return (Err(unavailable(&error.to_string())), Receipt::default()),
        }
        (outcome, receipt)
    }
}

impl From<Error> for Told {
    fn from(error: Error) -> Told {
        Told::of(Err(error), None)
    }
}

/// What a request on a chain has to follow.
pub(crate) fn on(chain: ChainId, sessions: Option<&Sessions>) -> Following {
    sessions.map(|sessions| Arc::new(sessions.of(chain)))
}

/// Opens a request's token, if it carries one.
///
/// # Errors
/// `InvalidParameterValue` for one that nobody gave out to this account.
pub(crate) fn open(
    seal: &Seal,
    account: &AccountId,
    token: Option<&[u8]>,
) -> Result<Option<Sessions>, Error> {
    let Some(token) = token else {
        return Ok(None);
    };
    match seal.open_session(account, token) {
        Some(sessions) => Ok(Some(sessions)),
        None => Err(Error::new(
            Code::InvalidParameterValue,
            "The session's token is not one that this service gave to this account. Begin a new \
             session with an empty token.",
        )),
    }
}

/// ?17: what a session saw, or wrote, is nowhere any more.
pub(crate) fn lost(name: &RequestId) -> Error {
    Error::new(
        Code::TentativeValueLost,
        format!(
            "The write {} that this session made or was shown is held by no member that serves, \
             and was not settled. Write it again if it was yours, and go on with the token of this \
             reply, which does not name it any more.",
            show_name(name)
        ),
    )
}

/// AL-4: what a session saw committed is no part of the chain any more.
pub(crate) fn forgotten() -> Error {
    Error::new(
        Code::TentativeValueLost,
        "What this session has seen was lost with the disks that had it: an operator had the chain \
         go on with what another member had. Look at what there is, and go on with the token of \
         this reply.",
    )
}

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
