//! What a pending request asks of the replica, step by step, and how an eventual one is answered.

use bytes::Bytes;
use fader_chain::{
    DecodeError, Digest, EntryId, Fate, Input, Outcome, RequestId, Session, Stamp, Token,
};
use fader_services::level::{self, Level, Outcomes, Receipt, settled_outcome};
use fader_services::service::{Class, Meaning, Sight, Wait};
use fader_services::{Call, CollectionId, SYSTEM};

use super::{Followed, Stage, Told, Work};
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
    /// That it be decided when nobody can hold eventual writes of this collection.
    Close(CollectionId),
}

impl Ask {
    /// The same, of the one that waits under `token`.
    pub(crate) fn of(self, token: Token) -> Input {
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

impl Work {
    /// Whether it is an eventual write.
    pub(crate) fn is_eventual(&self) -> bool {
        matches!(
            self,
            Work::Write {
                stage: Stage::Eventual(_) | Stage::Held(..),
                ..
            }
        )
    }

    /// What it was decided to wait for, and in which collection.
    pub(in crate::member) fn waits(&self) -> Option<(CollectionId, Wait)> {
        match self {
            Work::Write {
                stage: Stage::Waits(collection, wait),
                ..
            } => Some((*collection, *wait)),
            _ => None,
        }
    }

    /// Whether the client of a request has gone.
    pub(in crate::member) fn is_hung_up(&self) -> bool {
        match self {
            Work::Write { reply, .. } => reply.is_closed(),
            Work::Read { reply, .. } => reply.is_closed(),
            Work::Sweep | Work::Close(_) => false,
        }
    }

    /// Whether it is one that may wait for long, and whoever asked has gone.
    pub(crate) fn is_given_up(&self) -> bool {
        match self {
            Work::Write { .. } => self.is_eventual() && self.is_hung_up(),
            Work::Read { .. } => self.is_hung_up(),
            Work::Sweep | Work::Close(_) => false,
        }
    }

    /// Whether it reads more than single items, and shows what is not settled of them.
    pub(in crate::member) fn is_query(&self) -> bool {
        let Work::Read { call, .. } = self else {
            return false;
        };
        matches!(call.request.sight(SYSTEM), Sight::Registers(..))
    }

    /// Whether it was refused for want of its collection.
    pub(in crate::member) fn lacks_collection(&self) -> bool {
        match self {
            Work::Write {
                outcome: Some(Err(refused)),
                ..
            } => refused.meaning() == Meaning::NoCollection,
            _ => false,
        }
    }

    /// What it asks of the replica next.
    pub(crate) fn ask(&self) -> Ask {
        match self {
            Work::Write {
                stage: Stage::Eventual(quorum),
                ..
            } => {
                let session = self.following().cloned().unwrap_or_default();
                Ask::Hold(self.named(), *quorum, session)
            }
            Work::Write {
                stage: Stage::Held(_, held),
                ..
            } => {
                let names = held.writes.iter().map(|written| written.name);
                Ask::Outcome(names.collect(), self.named().map(|(_, digest)| digest))
            }
            Work::Write { call, .. }
                if call.demand.level == Level::Barrier && is_conditional(call) =>
            {
                Ask::Gather(self.name())
            }
            Work::Close(collection) => Ask::Close(*collection),
            _ => Ask::Decide(self.name(), Vec::new()),
        }
    }

    /// As many members hold it as were asked. Gives it back if its outcome is to be told too.
    pub(in crate::member) fn held(
        mut self: Box<Self>,
        held: &fader_chain::Receipt,
        followed: Option<Box<Followed>>,
    ) -> Option<Box<Work>> {
        let told = receipt(held);
        match &mut *self {
            Work::Write { call, stage, .. } if call.demand.outcome && !held.detached => {
                *stage = Stage::Held(Box::new(told), Box::new(held.clone()));
                Some(self)
            }
            _ => {
                self.acknowledge(told, followed);
                None
            }
        }
    }

    /// All its parts are settled.
    pub(in crate::member) fn settled(
        mut self,
        settled: &[(EntryId, Outcome)],
        followed: Option<Box<Followed>>,
    ) {
        let told = match &mut self {
            Work::Write {
                stage: Stage::Held(told, _),
                ..
            } => std::mem::take(&mut **told),
            _ => Receipt::default(),
        };
        match outcomes(settled) {
            Ok(outcomes) => {
                let receipt = Receipt {
                    version: settled.iter().map(|(id, _)| *id).max(),
                    tentative: false,
                    outcome: Some(outcomes),
                    ..told
                };
                self.acknowledge(receipt, followed);
            }
            Err(error) => self.fail(Refusal::of_store(Kind::Unknown, error.to_string())),
        }
    }

    pub(in crate::member) fn acknowledge(self, receipt: Receipt, followed: Option<Box<Followed>>) {
        if let Work::Write { outcome, reply, .. } = self {
            let told = Told {
                outcome: outcome.expect("an accepted request has its answer"),
                receipt,
                followed,
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
fn receipt(held: &fader_chain::Receipt) -> Receipt {
    let mut stamp: Option<Stamp> = None;
    let mut version: Option<EntryId> = None;
    for written in &held.writes {
        match &written.fate {
            Fate::Tentative(of) => stamp = stamp.max(Some(*of)),
            Fate::Settled(id, _) => version = version.max(Some(*id)),
        }
    }
    Receipt {
        stamp,
        version: version.filter(|_| stamp.is_none()),
        tentative: stamp.is_some(),
        outcome: held
            .detached
            .then(|| Outcomes::single(level::Outcome::Detached)),
        ..Receipt::default()
    }
}
