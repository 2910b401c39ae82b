//! What the chain thread has on its desk: requests that are not answered yet, and the engine's
//! state as the replica knows it. The replica asks here (`fader_chain::Host`).
//!
//! Invariants:
//! - T1 a request is answered once: as decided, or that its outcome is unknown.
//! - D1 `committed` is the engine's state as of the last entry that the replica was told is
//!   applied.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use bytes::Bytes;
use fader_chain::{Accepted, Decided, EntryId, Host, Operation, Settled, Token, View};
use fader_services::catalog;
use fader_services::level::Level;
use fader_services::service::{Service, Target};
use fader_services::simpledb::{self, Answered, Context, Error, Limits, Request, SimpleDb};
use fader_services::{CollectionId, Pace, Unhurried, ViewError};

use super::call::Call;
use super::context::{in_context, reads_keys};
use super::pending::{Stage, Work, kept_result};
use super::quorum::{Members, Quorum};
use super::sweep::Sweep;
use crate::settings::Placing;
use crate::storage::engine::Snapshot;

type Decision = fader_services::Decision<Result<Answered, Error>>;

/// The desk.
pub(crate) struct Desk {
    limits: Limits,
    committed: Snapshot,
    applied: EntryId,
    fixed: Option<(EntryId, Snapshot)>,
    works: RefCell<BTreeMap<Token, Box<Work>>>,
    next_token: u64,
    sweep: RefCell<Sweep>,
    members: Members,
    placing: Placing,
}

impl Desk {
    /// An empty desk over an engine that has everything up to `applied`.
    pub(crate) fn new(
        limits: Limits,
        placing: Placing,
        committed: Snapshot,
        applied: EntryId,
    ) -> Self {
        Desk {
            limits,
            committed,
            applied,
            fixed: None,
            works: RefCell::default(),
            next_token: 0,
            sweep: RefCell::new(Sweep::new()),
            members: Members::ONE,
            placing,
        }
    }

    /// The chain has so many members now.
    pub(crate) fn on_members(&mut self, members: Members) {
        self.members = members;
    }

    /// Requests that wait for other members, and that nobody waits for any more.
    pub(crate) fn given_up(&self) -> Vec<Token> {
        let works = self.works.borrow();
        let given_up = works.iter().filter(|(_, work)| work.is_given_up());
        given_up.map(|(token, _)| *token).collect()
    }

    /// Eventual writes of sessions whose time is over.
    pub(crate) fn overdue(&self) -> Vec<Token> {
        let works = self.works.borrow();
        let now = Instant::now();
        let overdue = works.iter().filter(|(_, work)| work.is_overdue(now));
        overdue.map(|(token, _)| *token).collect()
    }

    /// Whether the last step of this collection's change of mode waits for others.
    pub(crate) fn is_closing(&self, collection: CollectionId) -> bool {
        let works = self.works.borrow();
        let mut works = works.values();
        works.any(|work| matches!(**work, Work::Close(other) if other == collection))
    }

    /// Takes a request.
    pub(crate) fn put(&mut self, work: Box<Work>) -> Token {
        let token = Token(self.next_token);
        self.next_token += 1;
        self.works.get_mut().insert(token, work);
        token
    }

    /// Gives a request back, to be answered.
    pub(crate) fn take(&mut self, token: Token) -> Box<Work> {
        let work = self.works.get_mut().remove(&token);
        work.expect("T1: a token is answered once")
    }

    /// The engine was brought to the entry `applied`.
    pub(crate) fn on_applied(&mut self, committed: Snapshot, applied: EntryId) {
        self.committed = committed;
        self.applied = applied;
    }

    /// The engine took a part of another member's state.
    pub(crate) fn on_filling(&mut self, filling: Snapshot) {
        self.committed = filling;
    }

    /// Whether the request is a read of more than single keys.
    pub(crate) fn is_scan(&self, token: Token) -> bool {
        let works = self.works.borrow();
        match works.get(&token).map(|work| &**work) {
            Some(Work::Read { call, .. }) => !reads_keys(&call.request),
            _ => false,
        }
    }

    /// The engine's state.
    pub(crate) fn snapshot(&self) -> &Snapshot {
        &self.committed
    }

    /// The last entry that it has.
    pub(crate) fn applied(&self) -> EntryId {
        self.applied
    }

    /// The sweep of deleted domains.
    pub(crate) fn sweep(&mut self) -> &mut Sweep {
        self.sweep.get_mut()
    }

    /// Answers a read on `view`.
    pub(crate) fn answer(&self, view: &dyn View, call: &Call) -> Result<Answered, Error> {
        self.with_context(view, call, |context, _| {
            simpledb::answer(view, context, &call.request)
        })
    }

    fn with_context<T>(
        &self,
        view: &dyn View,
        call: &Call,
        run: impl FnOnce(&Context<'_>, Level) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let around = (self.members, &self.limits, &Unhurried as &dyn Pace);
        in_context(view, call, around, run)
    }

    /// Decides a write of a client; nothing if it turns out to be eventual.
    fn decide_simpledb(&self, newest: &dyn View, call: &Call) -> Result<Decision, Quorum> {
        let decision = self.with_context(newest, call, |context, level| {
            Ok(
                match Quorum::of(level).filter(|_| context.collection.is_some()) {
                    Some(quorum) => Err(quorum),
                    None => Ok(self.decide_strong(newest, context, &call.request)),
                },
            )
        });
        decision.unwrap_or_else(|error| {
            Ok(Decision {
                outcome: Err(error),
                changes: Vec::new(),
            })
        })
    }
}

impl Desk {
    /// Decides a strong write.
    fn decide_strong(
        &self,
        newest: &dyn View,
        context: &Context<'_>,
        request: &Request,
    ) -> Decision {
        if let Placing::Elsewhere(chains) = &self.placing {
            let chains = chains.load(Ordering::Relaxed);
            let decision =
                simpledb::decide_names(newest, context.account, &self.limits, chains, request);
            if let Some(decision) = decision {
                return decision;
            }
        }
        let is_name = matches!(SimpleDb::target(request), Target::Create { .. });
        let is_named = matches!(self.placing, Placing::Named);
        if is_name && is_named && context.collection.is_none() {
            return Decision {
                outcome: Err(Error::no_such_domain()),
                changes: Vec::new(),
            };
        }
        simpledb::decide(newest, context, request)
    }
}

impl Host for Desk {
    fn committed(&self) -> &dyn View {
        &*self.committed
    }

    fn decide(&self, token: Token, newest: &dyn View) -> Result<Decided, ViewError> {
        let mut works = self.works.borrow_mut();
        let work = works.get_mut(&token).expect("T1: it is not answered yet");
        match &mut **work {
            Work::SimpleDb {
                call,
                stage,
                outcome,
                ..
            } => {
                let decision = match self.decide_simpledb(newest, call) {
                    Ok(decision) => decision,
                    Err(quorum) => {
                        *stage = Stage::Eventual(quorum);
                        return Ok(Decided::default());
                    }
                };
                let (decided, changes) = (decision.outcome, decision.changes);
                let depends_on_state = match &decided {
                    Ok(_) => true,
                    Err(error) => error.code.depends_on_state(),
                };
                let result = match call.demand.request {
                    Some(_) => kept_result(call.demand.digest, &decided),
                    None => Bytes::new(),
                };
                *outcome = Some(decided);
                Ok(Decided {
                    result,
                    changes,
                    depends_on_state,
                })
            }
            Work::Catalog {
                command, outcome, ..
            } => {
                let decision = catalog::decide(newest, command);
                *outcome = Some(decision.outcome);
                Ok(Decided {
                    result: Bytes::new(),
                    changes: decision.changes,
                    depends_on_state: true,
                })
            }
            Work::Close(collection) => Ok(Decided {
                changes: catalog::close_domain(newest, *collection)?,
                ..Decided::default()
            }),
            Work::Sweep => Ok(Decided {
                changes: self.sweep.borrow_mut().step(newest)?,
                ..Decided::default()
            }),
            Work::Read { .. } => Ok(Decided::default()),
        }
    }

    fn accept(
        &self,
        token: Token,
        tentative: &dyn View,
    ) -> Result<Option<Vec<Accepted>>, ViewError> {
        let mut works = self.works.borrow_mut();
        let work = works.get_mut(&token).expect("T1: it is not answered yet");
        let Work::SimpleDb { call, outcome, .. } = &mut **work else {
            return Ok(None);
        };
        let acceptance = self.with_context(tentative, call, |context, _| {
            simpledb::accept(tentative, context, &call.request)
        });
        let (answered, writes) = match acceptance {
            Ok(acceptance) => (Ok(acceptance.answered), Some(acceptance.writes)),
            Err(error) => (Err(error), None),
        };
        *outcome = Some(answered);
        Ok(writes)
    }

    fn settle(&self, operation: &Operation, newest: &dyn View) -> Result<Settled, ViewError> {
        let Operation {
            key, ops, stamp, ..
        } = operation;
        let settled = simpledb::settle(newest, &self.limits, key, ops.clone(), *stamp)?;
        Ok(settled.into())
    }

    fn fix(&mut self) {
        self.committed.keep();
        self.fixed = Some((self.applied, Arc::clone(&self.committed)));
    }

    fn unfix(&mut self) {
        self.fixed = None;
    }

    fn fixed(&self) -> Option<(EntryId, &dyn View)> {
        let (id, state) = self.fixed.as_ref()?;
        Some((*id, &**state))
    }
}

#[cfg(test)]
mod tests;
