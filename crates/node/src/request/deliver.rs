//! The way of a request on a chain to a member that can take it: here, or in another process.
//!
//! Invariants:
//! - X1 a request is handed on once: who gets one that is not for it says so.
//! - X5 a request that no member has taken goes on to where the member is now, until its time
//!   is over: that the head moves refuses nothing.

use std::sync::Arc;
use std::time::Instant;

use fader_chain::ChainId;
use fader_services::Reason;
use fader_services::catalog;
use fader_services::forward::{self, Asked};
use fader_services::level::Receipt;
use fader_services::simpledb::Error;

use super::route::{AGAIN, Takers};
use super::{Answer, Router, tokens};
use crate::member::call::Call;
use crate::member::pending::{REQUEST, Told, Work};
use crate::member::refusal::{Kind, Refusal};
use crate::member::thread::Job;

/// Whether a request may be carried out by another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Wherever it can be done.
    Anywhere,
    /// In this process: another one has handed it on.
    Here,
}

impl Router {
    /// Carries out what another process was asked, if that can be done here.
    pub(crate) async fn carry_out_for(&self, chain: ChainId, asked: Asked) -> forward::Told {
        let not_here = |why: Refusal| forward::Told::NotHere(why.to_string());
        let moved = Refusal::new(Kind::Elsewhere, Reason::Moved);
        let cluster = self.chains.get(chain).filter(|it| it.carries_out(&asked));
        let Some(cluster) = cluster else {
            return not_here(moved);
        };
        match asked {
            Asked::Write(account, request, demand) | Asked::Read(account, request, demand) => {
                let call = Arc::new(Call {
                    account,
                    request,
                    demand,
                });
                match self.on_chain(chain, &call, Reach::Here).await {
                    Ok((outcome, receipt)) => forward::Told::Request(outcome, receipt),
                    Err(refusal) if refusal.kind == Kind::Elsewhere => not_here(refusal),
                    Err(refusal) => forward::Told::Request(Err(refusal.into()), Receipt::default()),
                }
            }
            Asked::Catalog(command) => match cluster.catalog(&command).await {
                Ok(outcome) => forward::Told::Catalog(outcome),
                Err(refusal) if refusal.kind == Kind::Elsewhere => not_here(refusal),
                Err(refusal) => forward::Told::Catalog(Err(refusal.into())),
            },
            Asked::Mode(account, domain) => match self.mode_here(chain, &account, &domain) {
                Ok(mode) => forward::Told::Mode(mode),
                Err(refusal) => forward::Told::NotHere(refusal.to_string()),
            },
            Asked::Why => forward::Told::Why(cluster.own_waits()),
        }
    }

    /// Carries out a request on a chain: again while the member that can take it comes and goes,
    /// since no member took it.
    pub(crate) async fn on_chain(
        &self,
        chain: ChainId,
        call: &Arc<Call>,
        reach: Reach,
    ) -> Result<Answer, Refusal> {
        let cluster = self.chains.get(chain);
        let cluster = cluster.ok_or(Refusal::new(Kind::Again, Reason::NoChain))?;
        let token = call.demand.session.as_deref();
        let sessions = match tokens::open(&self.seal, &call.account, token) {
            Ok(sessions) => sessions,
            Err(error) => return Ok((Err(error), Receipt::default())),
        };
        let following = tokens::on(chain, sessions.as_ref());
        let end = Instant::now() + REQUEST;
        let told = loop {
            if reach == Reach::Anywhere && cluster.is_elsewhere(call) {
                match cluster.ask_elsewhere(call).await {
                    Ok(Some(answer)) => return Ok(answer),
                    Ok(None) => {}
                    Err(refusal) => break Err(refusal),
                }
            }
            let told = match call.request.is_write() {
                false => cluster.read(call, &following).await,
                true => match cluster.quorum(call) {
                    Err(error) => Ok(Told::from(error)),
                    Ok(quorum) => {
                        let takers = quorum.map_or(Takers::Head, |_| Takers::Any);
                        let job = |reply| {
                            let session = following.clone();
                            Job::Submit(Work::simpledb(call.clone(), session, quorum, reply))
                        };
                        cluster.at_one(takers, job).await
                    }
                },
            };
            match told {
                Err(refusal)
                    if refusal.kind == Kind::Elsewhere
                        && reach == Reach::Anywhere
                        && Instant::now() < end =>
                {
                    tokio::time::sleep(AGAIN).await;
                }
                told => break told,
            }
        };
        let told = match told {
            Err(refusal) if refusal.kind == Kind::Elsewhere && reach == Reach::Here => {
                return Err(refusal);
            }
            // F2: the session goes on.
            told => told.unwrap_or_else(|refusal| Error::from(refusal).into()),
        };
        let seen = (chain, sessions);
        Ok(tokens::answered(told, &self.seal, &call.account, seen))
    }

    /// Carries out a catalog command on a chain.
    pub(crate) async fn catalog_on(
        &self,
        chain: ChainId,
        command: catalog::Command,
    ) -> Result<(), catalog::Refusal> {
        let cluster = self.chains.get(chain);
        let cluster = cluster.ok_or(Refusal::new(Kind::Again, Reason::NoChain))?;
        let end = Instant::now() + REQUEST;
        loop {
            let handed = match cluster.decides() {
                true => Ok(None),
                false => cluster.hand_on(&Asked::Catalog(command.clone())).await,
            };
            let outcome = match handed {
                Ok(Some(forward::Told::Catalog(outcome))) => Ok(outcome),
                Ok(Some(_)) => Err(Refusal::new(Kind::Again, Reason::NoMember)),
                Ok(None) => cluster.catalog(&command).await,
                Err(refusal) => Err(refusal),
            };
            match outcome {
                Ok(outcome) => return outcome,
                Err(refusal) if refusal.kind != Kind::Elsewhere || end <= Instant::now() => {
                    return Err(refusal.into());
                }
                Err(_) => tokio::time::sleep(AGAIN).await,
            }
        }
    }
}
