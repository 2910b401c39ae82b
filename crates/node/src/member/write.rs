//! Eventual operations in the shell: their way through the chain thread, and what a client is told.
//! Reads ask for what is shown (`showing`); a write goes this way:
//!
//! ```text
//!  Stage::Strong ── decide: its level is eventual ──┐
//!                                                   ▼
//!  Stage::Eventual ──── Write ──▶ Held ──▶ told that it is tentative, or detached
//!                                  │ its outcome was asked for
//!  Stage::Held ────── Outcome ──▶ Outcomes ──▶ told how it ended
//! ```
//!
//! A write that does not get its W waits as long as somebody waits for it; then it is forgotten
//! here, and the operation stays (EV-4).

use bytes::Bytes;
use fader_chain::{
    DecodeError, Digest, EntryId, Fate, Input, Outcome, Refusal, Reply, RequestId, Scope, Session,
    Shown, Stamp, Token,
};
use fader_services::CollectionId;
use fader_services::catalog::AccountId;
use fader_services::level::{self, Level, Outcomes, Receipt};
use fader_services::simpledb::{Code, Request, settled_outcome};
use fader_services::{ViewError, item_key};

use crate::member::following::{Followed, Told};
use crate::member::pending::{Stage, Work};
use crate::member::showing::{Item, Showing};
use crate::member::thread::{ChainThread, unknown};

/// What an eventual write asks of the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quorum {
    /// How many members hold it before it is acknowledged.
    pub(crate) w: usize,
    /// Whether a member without a lease may take it.
    pub(crate) sloppy: bool,
}

impl Quorum {
    /// What a write at this level asks; nothing of a strong one.
    pub(crate) fn of(level: Level) -> Option<Quorum> {
        match level {
            Level::Eventual { w, sloppy, .. } => Some(Quorum {
                w: usize::from(w),
                sloppy,
            }),
            _ => None,
        }
    }
}

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
            Work::SimpleDb {
                stage: Stage::Eventual(_) | Stage::Held(..),
                ..
            }
        )
    }

    /// Whether it is one that may wait for long, and whoever asked has gone.
    pub(crate) fn is_given_up(&self) -> bool {
        match self {
            Work::SimpleDb { reply, .. } => self.is_eventual() && reply.is_closed(),
            Work::Read { reply, .. } => reply.is_closed(),
            Work::Catalog { .. } | Work::Sweep | Work::Close(_) => false,
        }
    }

    /// Whether it reads more than single items, and shows what is not settled of them.
    fn is_query(&self) -> bool {
        let query =
            |request: &Request| matches!(request, Request::Select { .. } | Request::Query { .. });
        matches!(self, Work::Read { request, .. } if query(request))
    }

    /// Whether it was refused for want of its domain.
    fn lacks_domain(&self) -> bool {
        match self {
            Work::SimpleDb {
                outcome: Some(Err(error)),
                ..
            } => error.code == Code::NoSuchDomain,
            _ => false,
        }
    }

    /// What it asks of the replica next.
    pub(crate) fn ask(&self) -> Ask {
        match self {
            Work::SimpleDb {
                stage: Stage::Eventual(quorum),
                ..
            } => {
                let session = self.following().cloned().unwrap_or_default();
                Ask::Hold(self.named(), *quorum, session)
            }
            Work::SimpleDb {
                stage: Stage::Held(_, held),
                ..
            } => {
                let names = held.writes.iter().map(|written| written.name);
                Ask::Outcome(names.collect(), self.named().map(|(_, digest)| digest))
            }
            Work::SimpleDb {
                request, demand, ..
            } if demand.level == Level::Barrier && is_conditional(request) => {
                Ask::Gather(self.name())
            }
            Work::Close(collection) => Ask::Close(*collection),
            _ => Ask::Decide(self.name(), Vec::new()),
        }
    }

    /// As many members hold it as were asked. Gives it back if its outcome is to be told too.
    fn held(
        mut self: Box<Self>,
        held: &fader_chain::Receipt,
        followed: Option<Box<Followed>>,
    ) -> Option<Box<Work>> {
        let told = receipt(held);
        match &mut *self {
            Work::SimpleDb { demand, stage, .. } if demand.outcome && !held.detached => {
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
    fn settled(
        mut self: Box<Self>,
        settled: &[(EntryId, Outcome)],
        followed: Option<Box<Followed>>,
    ) {
        let told = match &mut *self {
            Work::SimpleDb {
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
            Err(error) => self.fail(&unknown(&error.to_string())),
        }
    }

    fn acknowledge(self, receipt: Receipt, followed: Option<Box<Followed>>) {
        if let Work::SimpleDb { outcome, reply, .. } = self {
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
fn is_conditional(request: &Request) -> bool {
    match request {
        Request::PutAttributes { expected, .. } => !expected.is_empty(),
        Request::DeleteAttributes { expected, .. } => !expected.is_empty(),
        _ => false,
    }
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

impl ChainThread {
    /// W members hold an eventual write.
    pub(super) fn on_held(&mut self, token: Token, held: &fader_chain::Receipt, reply: &Reply) {
        let work = self.desk.take(token);
        // Whoever asks after the reply finds it.
        self.shared
            .on_unsettled(self.replica.eventual_counts().held);
        match (self.shared.failure(), self.follow(&work, reply)) {
            (Some(reason), _) => work.fail(&unknown(&reason)),
            (None, Ok(followed)) => self.turned.extend(work.held(held, followed)),
            (None, Err(error)) => work.fail(&unknown(&error.to_string())),
        }
    }

    /// An eventual write is settled, and whoever asked waits to hear how.
    pub(super) fn on_outcomes(
        &mut self,
        token: Token,
        settled: &[(EntryId, Outcome)],
        reply: &Reply,
    ) {
        let work = self.desk.take(token);
        match self.follow(&work, reply) {
            Ok(followed) => work.settled(settled, followed),
            Err(error) => work.fail(&unknown(&error.to_string())),
        }
    }

    /// Decides after a barrier on the register of the write (BR-1).
    pub(super) fn gather(&self, name: Option<RequestId>, work: &Work) -> Ask {
        let keys = match work {
            Work::SimpleDb {
                account, request, ..
            } => self.item(account, request),
            _ => Ok(None),
        };
        // What cannot be read is said by who decides.
        Ask::Decide(name, keys.ok().flatten().unwrap_or_default())
    }

    /// Begins a read that takes note of what is not settled. Whether there is no such domain, only
    /// the head can say.
    pub(super) fn read_tentative(&mut self, work: Box<Work>, level: fader_chain::Level) {
        let key = match &*work {
            Work::Read {
                account, request, ..
            } => self.item(account, request),
            _ => Ok(None),
        };
        let is_last = self.replica.is_head() && !self.lags(&work);
        let scope = match (key, work.is_query()) {
            (Ok(None), _) if !is_last => return work.refuse(Refusal::NotServing),
            (Ok(None), _) => {
                let at = self.desk.applied();
                let showing = Showing::Snapshot(self.desk.snapshot().clone());
                return self.tell(work, &Reply::Show { at }, showing);
            }
            (Ok(Some(_)), true) => Ok(Scope::All),
            (Ok(Some(keys)), false) => Ok(Scope::Keys(keys)),
            (Err(error), _) => Err(error),
        };
        let asked = scope.and_then(|scope| Ok((scope, self.awaited(&work)?)));
        self.ask_replica(work, level, asked);
    }

    /// The register that a request is about, if it is one; nothing without a domain.
    fn item(
        &self,
        account: &AccountId,
        request: &Request,
    ) -> Result<Option<Vec<Bytes>>, ViewError> {
        let collection = self.collection(account, request)?;
        Ok(collection.map(|collection| match request {
            Request::GetAttributes { item, .. } => vec![item_key(collection, item.as_bytes())],
            Request::PutAttributes { put, .. } => {
                let item = put.item.iter();
                item.map(|item| item_key(collection, item.as_bytes()))
                    .collect()
            }
            Request::DeleteAttributes { delete, .. } => {
                let item = delete.item.iter();
                item.map(|item| item_key(collection, item.as_bytes()))
                    .collect()
            }
            _ => Vec::new(),
        }))
    }

    /// Answers an eventual read with what this member shows.
    pub(super) fn show_tentative(&mut self, token: Token, reply: &Reply) {
        let work = self.desk.take(token);
        let showing = match &*work {
            Work::Read {
                account, request, ..
            } => self.tentative(account, request),
            _ => return work.refuse(Refusal::NotServing),
        };
        let showing = showing.unwrap_or_else(Showing::failed);
        self.tell(work, reply, showing);
    }

    fn tentative(&self, account: &AccountId, request: &Request) -> Result<Showing, ViewError> {
        let snapshot = self.desk.snapshot().clone();
        match self.collection(account, request)? {
            Some(collection) => Showing::eventual(snapshot, collection, request, |start, end| {
                self.replica
                    .operations_within(start, end)
                    .cloned()
                    .collect()
            }),
            None => Ok(Showing::Snapshot(snapshot)),
        }
    }

    /// Answers an eventual read with what several members show.
    pub(super) fn show_register(&mut self, token: Token, shown: &Shown, reply: &Reply) {
        let item = Item {
            committed: shown.committed.clone(),
            shown: shown.register.clone(),
        };
        let snapshot = self.desk.snapshot().clone();
        let work = self.desk.take(token);
        self.tell(work, reply, Showing::Item(snapshot, Box::new(item)));
    }

    /// Nothing was done. Where a domain is not known, another member may know it (7.4).
    pub(super) fn refuse(&mut self, token: Token, refusal: Refusal) {
        let work = self.desk.take(token);
        let is_elsewhere =
            refusal == Refusal::Denied && work.lacks_domain() && !self.replica.is_head();
        work.refuse(match is_elsewhere {
            true => Refusal::NotServing,
            false => refusal,
        });
    }

    /// Forgets what nobody waits for any more, and what is waited for too long.
    pub(super) fn give_up(&mut self) {
        for token in self.desk.overdue() {
            let so_far = self.replica.held_so_far(token);
            let work = self.desk.take(token);
            let held = match &*work {
                Work::SimpleDb {
                    stage: Stage::Held(_, held),
                    ..
                } => Some(fader_chain::Receipt::clone(held)),
                _ => so_far,
            };
            let followed = held.map(|held| self.follow(&work, &Reply::Held(held)));
            // What cannot be read is not known: the session stays where it was.
            work.miss(followed.and_then(|followed| followed.ok().flatten()));
            self.step(Input::Abandon(token));
        }
        for token in self.desk.given_up() {
            self.showing.retain(|(_, other)| *other != token);
            drop(self.desk.take(token));
            self.step(Input::Abandon(token));
        }
    }
}
