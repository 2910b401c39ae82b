//! A request on the chain thread's desk: how far it has come, and how it is answered.

pub(super) mod ask;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use fader_chain::{CorrelationId, DecodeError, Digest, EntryId, RequestId, Session};
use fader_services::level::{self, Outcomes, ReplyMetadata, SettlementNotice};
use fader_services::request::{self, Outcome, Refusal as Refused, Reply};
use fader_services::service::{Trouble, Wait};
use fader_services::{Call, CollectionId, Reason};
use tokio::sync::oneshot;

use super::quorum::Quorum;
use super::read_source::ReadSource;
use super::refusal::{Kind, Refusal};

/// How long a request may take altogether.
pub(crate) const REQUEST: Duration = Duration::from_secs(10);
/// How long an eventual write of a session may wait for its W, or its end. There is then time to
/// say what is known of it.
const HOLD: Duration = Duration::from_secs(5);

/// What comes back to the asker: what the service says, or that nothing was done here.
pub(crate) type Answer<T> = Result<T, Refusal>;

/// A read's answer: what it is answered from, and what its session has seen then.
pub(crate) type ReadAnswer = Answer<(ReadSource, Option<Box<SessionUpdate>>)>;

/// What a request's session has seen before it, if it has one.
pub(crate) type SessionContext = Option<Arc<Session>>;

/// What a session has seen by the end of a request.
pub(crate) struct SessionUpdate {
    /// What the next token says.
    pub(crate) session: Session,
    /// Which of the operations that the token named ended without effect.
    pub(crate) settled: Vec<SettlementNotice>,
}

/// What came of a request, and what is told beside.
pub(crate) struct RequestResult {
    /// The service's answer.
    pub(crate) outcome: Outcome,
    /// What was read or written.
    pub(crate) metadata: ReplyMetadata,
    /// What its session has seen, where a member said.
    pub(crate) update: Option<Box<SessionUpdate>>,
}

impl RequestResult {
    /// A read's answer.
    pub(crate) fn of(
        answered: Result<(Reply, ReplyMetadata), Refused>,
        update: Option<Box<SessionUpdate>>,
    ) -> RequestResult {
        let (outcome, metadata) = match answered {
            Ok((answered, metadata)) => (Ok(answered), metadata),
            Err(refused) => (Err(refused), ReplyMetadata::default()),
        };
        RequestResult {
            outcome,
            metadata,
            update,
        }
    }
}

impl From<Refused> for RequestResult {
    fn from(refused: Refused) -> RequestResult {
        RequestResult::of(Err(refused), None)
    }
}

/// How far a request that may change state has come.
pub(crate) enum Stage {
    /// It is decided by the head, which may find that it is eventual.
    Strong,
    /// It was decided to wait for its collection to change.
    Waits(CollectionId, Wait),
    /// It is accepted where it arrives.
    Eventual(Quorum),
    /// It is held by as many as were asked; how its parts end is still to be told.
    Held(Box<ReplyMetadata>, Box<fader_chain::WriteAck>),
}

/// A request on the desk.
pub(crate) enum PendingRequest {
    /// A request that may change state.
    Write {
        call: Arc<Call>,
        session: SessionContext,
        stage: Stage,
        /// Its place among those that wait, once it has waited.
        waiter: Option<CorrelationId>,
        /// When an eventual write of a session is not waited for any more.
        until: Option<Instant>,
        outcome: Option<Outcome>,
        reply: oneshot::Sender<Answer<RequestResult>>,
    },
    /// A step of the sweep.
    Sweep,
    /// The last step of a change of mode, to `strong`.
    Close(CollectionId),
    /// A request that changes nothing.
    Read {
        call: Arc<Call>,
        session: SessionContext,
        reply: oneshot::Sender<ReadAnswer>,
    },
}

impl PendingRequest {
    /// A request, not decided yet; with a quorum if it is known to be eventual.
    pub(crate) fn write(
        call: Arc<Call>,
        session: SessionContext,
        quorum: Option<Quorum>,
        reply: oneshot::Sender<Answer<RequestResult>>,
    ) -> Box<PendingRequest> {
        Box::new(PendingRequest::Write {
            call,
            waiter: None,
            until: session.is_some().then(|| Instant::now() + HOLD),
            stage: quorum.map_or(Stage::Strong, Stage::Eventual),
            session,
            outcome: None,
            reply,
        })
    }

    /// The request's name, where it has one.
    pub(crate) fn name(&self) -> Option<RequestId> {
        match self {
            PendingRequest::Write { call, .. } => name_of(call),
            _ => None,
        }
    }

    /// The same with the digest of what is asked under it (XO-6).
    pub(crate) fn named(&self) -> Option<(RequestId, Digest)> {
        match self {
            PendingRequest::Write { call, .. } => {
                let digest = Digest(call.consistency.digest);
                name_of(call).map(|name| (name, digest))
            }
            _ => None,
        }
    }

    /// What its session has seen before it, if it has one.
    pub(crate) fn context(&self) -> Option<&Session> {
        match self {
            PendingRequest::Write { session, .. } | PendingRequest::Read { session, .. } => {
                session.as_deref()
            }
            PendingRequest::Sweep | PendingRequest::Close(_) => None,
        }
    }

    /// The asker may have gone away; then the answer is not needed.
    pub(crate) fn reply(self, id: Option<EntryId>, update: Option<Box<SessionUpdate>>) {
        match self {
            PendingRequest::Write {
                call,
                outcome,
                reply,
                ..
            } => {
                let outcome = outcome.expect("a decided request has its outcome");
                drop(reply.send(Ok(decided(&call, outcome, id, update))));
            }
            PendingRequest::Sweep | PendingRequest::Close(_) | PendingRequest::Read { .. } => {}
        }
    }

    /// A read may be answered.
    pub(crate) fn show(self, source: ReadSource, update: Option<Box<SessionUpdate>>) {
        if let PendingRequest::Read { reply, .. } = self {
            drop(reply.send(Ok((source, update))));
        }
    }

    /// A read is refused for what stands in its way.
    pub(crate) fn show_trouble(self, trouble: Trouble, update: Option<Box<SessionUpdate>>) {
        if let PendingRequest::Read { call, .. } = &self {
            let refused = call.request.service().word(trouble);
            self.show(ReadSource::failed(refused), update);
        }
    }

    /// It was decided before, under its name, or another request was.
    pub(crate) fn repeat(self, id: EntryId, result: &Bytes, update: Option<Box<SessionUpdate>>) {
        // Only a write of a client has a name.
        let PendingRequest::Write { call, reply, .. } = self else {
            return;
        };
        let service = call.request.service();
        let outcome = match kept_outcome(&call, result) {
            Ok(Some(outcome)) => outcome,
            Ok(None) => Err(service.word(Trouble::NameTaken)),
            Err(error) => {
                let refusal = Refusal::of_store(Kind::Unknown, error.to_string());
                Err(refusal.of_service(service))
            }
        };
        drop(reply.send(Ok(decided(&call, outcome, Some(id), update))));
    }

    /// It is not answered.
    pub(crate) fn fail(self, refusal: Refusal) {
        match self {
            PendingRequest::Write { reply, .. } => drop(reply.send(Err(refusal))),
            PendingRequest::Read { reply, .. } => drop(reply.send(Err(refusal))),
            PendingRequest::Sweep | PendingRequest::Close(_) => {}
        }
    }

    /// Whether it is an eventual write of a session whose time is over.
    pub(crate) fn is_overdue(&self, now: Instant) -> bool {
        match self {
            PendingRequest::Write { until, .. } => {
                self.is_eventual() && until.is_some_and(|until| until <= now)
            }
            _ => false,
        }
    }

    /// It has not come as far as was asked; what its session has seen of it goes with that.
    pub(crate) fn miss(self, update: Option<Box<SessionUpdate>>) {
        if let PendingRequest::Write { call, reply, .. } = self {
            let refusal = Refusal::new(Kind::Unknown, Reason::Unconfirmed);
            let refused = refusal.of_service(call.request.service());
            drop(reply.send(Ok(RequestResult::of(Err(refused), update))));
        }
    }

    /// Nothing was done.
    pub(crate) fn refuse(self, refusal: fader_chain::Refusal) {
        match (self, refusal) {
            (
                PendingRequest::Write {
                    outcome: Some(Err(refused)),
                    reply,
                    ..
                },
                fader_chain::Refusal::Denied,
            ) => drop(reply.send(Ok(refused.into()))),
            (PendingRequest::Write { call, reply, .. }, fader_chain::Refusal::NameUsed(_)) => {
                let service = call.request.service();
                drop(reply.send(Ok(service.word(Trouble::NameTaken).into())));
            }
            (PendingRequest::Write { call, reply, .. }, fader_chain::Refusal::TooFar(_)) => {
                let service = call.request.service();
                drop(reply.send(Ok(service.word(Trouble::NameTooFar).into())));
            }
            (work, refusal) => work.fail(refusal.into()),
        }
    }
}

/// The request's name, which is its account's (XO-7).
fn name_of(call: &Call) -> Option<RequestId> {
    let name = call.consistency.request?;
    Some(name.owned_by(call.sender()))
}

/// What is told of a strong write that this entry decided, if it needed one.
fn decided(
    call: &Call,
    outcome: Outcome,
    id: Option<EntryId>,
    update: Option<Box<SessionUpdate>>,
) -> RequestResult {
    let is_applied = call.consistency.outcome && outcome.is_ok();
    RequestResult {
        metadata: ReplyMetadata {
            version: id.filter(|_| outcome.is_ok()),
            outcome: is_applied.then(|| Outcomes::single(level::Outcome::Applied)),
            ..ReplyMetadata::default()
        },
        outcome,
        update,
    }
}

/// What is kept under a request's name: `digest:u128be outcome`, the digest being the request's
/// (XO-6); nothing of what is no entry.
pub(crate) fn kept_result(digest: u128, outcome: &Outcome) -> Bytes {
    match request::keep(outcome) {
        Some(outcome) => Bytes::from([&digest.to_be_bytes(), &outcome[..]].concat()),
        None => Bytes::new(),
    }
}

/// Whether a kept result is of the request of `call`.
pub(crate) fn is_result_of(call: &Call, result: &Bytes) -> bool {
    result.starts_with(&call.consistency.digest.to_be_bytes())
}

/// Reads what `kept_result` wrote; `None` if it was for another request.
fn kept_outcome(call: &Call, result: &Bytes) -> Result<Option<Outcome>, DecodeError> {
    let service = call.request.service();
    match result.strip_prefix(&call.consistency.digest.to_be_bytes()) {
        Some(outcome) => service.kept(result.slice_ref(outcome)).map(Some),
        None => Ok(None),
    }
}
