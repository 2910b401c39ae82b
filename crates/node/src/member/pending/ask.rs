//! What a pending request asks of the replica, step by step, and how an eventual one is answered.

use bytes::Bytes;
use fader_chain::{
    CorrelationId, DecodeError, Digest, EntryId, Input, OperationStatus, Outcome, RequestId,
    Session, Stamp,
};
use fader_services::level::{self, Level, Outcomes, ReplyMetadata, settled_outcome};
use fader_services::service::{Class, Meaning, Sight, Wait};
use fader_services::{Call, CollectionId, SYSTEM};

use super::{PendingRequest, RequestResult, SessionUpdate, Stage};
use crate::member::quorum::Quorum;
use crate::member::refusal::{Kind, Refusal};

/// What a request that may change state asks of the replica.
pub(crate) enum Ask {
    /// That it be decided, under its name, when these registers are settled.
    Decide(Option<RequestId>, Vec<Bytes>),
    /// The same, when the one that it is about is.
    Gather(Option<RequestId>),
    /// That it be accepted, under its name, above what its session has seen, and held.
    Hold(Option<(RequestId, Digest)>, Quorum, Session),
    /// How these ended, which are of one request.
    Outcome(Vec<RequestId>, Option<Digest>),
    /// That it be decided when no member can hold eventual writes of this collection.
    Close(CollectionId),
}

impl Ask {
    /// The same, of the one that waits under `token`.
    pub(crate) fn of(self, token: CorrelationId) -> Input {
        match self {
            Ask::Decide(request, barrier) => Input::Submit {
                token,
                request,
                barrier,
            },
            Ask::Gather(request) => Ask::Decide(request, Vec::new()).of(token),
            Ask::Hold(named, Quorum { w, sloppy }, session) => Input::Write {
                token,
                request: named.map(|(name, _)| name),
                digest: named.map(|(_, digest)| digest),
                w,
                sloppy,
                session,
            },
            Ask::Outcome(names, digest) => Input::Outcome {
                token,
                names,
                digest,
            },
            Ask::Close(CollectionId(collection)) => Input::Close { token, collection },
        }
    }
}

impl PendingRequest {
    /// Whether it is an eventual write.
    pub(crate) fn is_eventual(&self) -> bool {
        matches!(
            self,
            PendingRequest::Write {
                stage: Stage::Eventual(_) | Stage::Held(..),
                ..
            }
        )
    }

    /// What it was decided to wait for, and in which collection.
    pub(in crate::member) fn waits(&self) -> Option<(CollectionId, Wait)> {
        match self {
            PendingRequest::Write {
                stage: Stage::Waits(collection, wait),
                ..
            } => Some((*collection, *wait)),
            _ => None,
        }
    }

    /// Whether the client of a request has gone.
    pub(in crate::member) fn is_hung_up(&self) -> bool {
        match self {
            PendingRequest::Write { reply, .. } => reply.is_closed(),
            PendingRequest::Read { reply, .. } => reply.is_closed(),
            PendingRequest::Sweep | PendingRequest::Close(_) => false,
        }
    }

    /// Whether it is one that may wait for long, and its asker has gone.
    pub(crate) fn is_given_up(&self) -> bool {
        match self {
            PendingRequest::Write { .. } => self.is_eventual() && self.is_hung_up(),
            PendingRequest::Read { .. } => self.is_hung_up(),
            PendingRequest::Sweep | PendingRequest::Close(_) => false,
        }
    }

    /// Whether it reads more than single items, and shows what is not settled of them.
    pub(in crate::member) fn is_query(&self) -> bool {
        let PendingRequest::Read { call, .. } = self else {
            return false;
        };
        matches!(call.request.sight(SYSTEM), Sight::Registers(..))
    }

    /// Whether it was refused for want of its collection.
    pub(in crate::member) fn lacks_collection(&self) -> bool {
        match self {
            PendingRequest::Write {
                outcome: Some(Err(refused)),
                ..
            } => refused.meaning() == Meaning::NoCollection,
            _ => false,
        }
    }

    /// What it asks of the replica next.
    pub(crate) fn ask(&self) -> Ask {
        match self {
            PendingRequest::Write {
                stage: Stage::Eventual(quorum),
                ..
            } => {
                let session = self.context().cloned().unwrap_or_default();
                Ask::Hold(self.named(), *quorum, session)
            }
            PendingRequest::Write {
                stage: Stage::Held(_, held),
                ..
            } => {
                let names = held.writes.iter().map(|written| written.name);
                Ask::Outcome(names.collect(), self.named().map(|(_, digest)| digest))
            }
            PendingRequest::Write { call, .. }
                if call.consistency.level == Level::Barrier && is_conditional(call) =>
            {
                Ask::Gather(self.name())
            }
            PendingRequest::Close(collection) => Ask::Close(*collection),
            _ => Ask::Decide(self.name(), Vec::new()),
        }
    }

    /// As many members hold it as were asked. Gives it back if its outcome is to be told too.
    pub(in crate::member) fn held(
        mut self: Box<Self>,
        held: &fader_chain::WriteAck,
        update: Option<Box<SessionUpdate>>,
    ) -> Option<Box<PendingRequest>> {
        let told = metadata(held);
        match &mut *self {
            PendingRequest::Write { call, stage, .. }
                if call.consistency.outcome && !held.detached =>
            {
                *stage = Stage::Held(Box::new(told), Box::new(held.clone()));
                Some(self)
            }
            _ => {
                self.acknowledge(told, update);
                None
            }
        }
    }

    /// All its parts are settled.
    pub(in crate::member) fn settled(
        mut self,
        settled: &[(EntryId, Outcome)],
        update: Option<Box<SessionUpdate>>,
    ) {
        let told = match &mut self {
            PendingRequest::Write {
                stage: Stage::Held(told, _),
                ..
            } => std::mem::take(&mut **told),
            _ => ReplyMetadata::default(),
        };
        match outcomes(settled) {
            Ok(outcomes) => {
                let metadata = ReplyMetadata {
                    version: settled.iter().map(|(id, _)| *id).max(),
                    tentative: false,
                    outcome: Some(outcomes),
                    ..told
                };
                self.acknowledge(metadata, update);
            }
            Err(error) => self.fail(Refusal::of_store(Kind::Unknown, error.to_string())),
        }
    }

    pub(in crate::member) fn acknowledge(
        self,
        metadata: ReplyMetadata,
        update: Option<Box<SessionUpdate>>,
    ) {
        if let PendingRequest::Write { outcome, reply, .. } = self {
            let told = RequestResult {
                outcome: outcome.expect("an accepted request has its answer"),
                metadata,
                update,
            };
            drop(reply.send(Ok(told)));
        }
    }
}

/// Of an unconditional write a barrier asks nothing that a strong one does not do.
fn is_conditional(call: &Call) -> bool {
    call.request.class() == Class::Conditional
}

fn outcomes(settled: &[(EntryId, Outcome)]) -> Result<Outcomes, DecodeError> {
    let outcomes = settled.iter().map(|(_, outcome)| settled_outcome(outcome));
    let outcomes = outcomes.collect::<Result<Vec<_>, _>>()?;
    Ok(match outcomes[..] {
        [one] => Outcomes::single(one),
        _ => Outcomes::batch(outcomes),
    })
}

/// What a client is told of an eventual write that is held.
fn metadata(held: &fader_chain::WriteAck) -> ReplyMetadata {
    let mut stamp: Option<Stamp> = None;
    let mut version: Option<EntryId> = None;
    for written in &held.writes {
        match &written.status {
            OperationStatus::Tentative(of) => stamp = stamp.max(Some(*of)),
            OperationStatus::Settled(id, _) => version = version.max(Some(*id)),
        }
    }
    ReplyMetadata {
        stamp,
        version: version.filter(|_| stamp.is_none()),
        tentative: stamp.is_some(),
        outcome: held
            .detached
            .then(|| Outcomes::single(level::Outcome::Detached)),
        ..ReplyMetadata::default()
    }
}
