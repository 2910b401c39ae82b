//! The way of a request on a chain to a member that can take it: here, or in another process.
//!
//! Invariants:
//! - a request is handed off once: who gets one that is not for it says so.
//! - ROUTE-5 a request that no member has taken goes on to where the member is now, until its time
//!   is over. So a move of the head refuses nothing.

use std::sync::Arc;
use std::time::Instant;

use fader_chain::ChainId;
use fader_services::catalog;
use fader_services::forward::{self, ForwardedRequest};
use fader_services::level::{ConsistencyOptions, Level, ReplyMetadata};
use fader_services::request::{Refusal as Refused, Reply, Request};
use fader_services::{Call, Failure, Reason, Unavailable};

use super::route::{AGAIN, Takers};
use super::{Answer, Router, tokens};
use crate::cluster::Cluster;
use crate::member::pending::{PendingRequest, REQUEST, RequestResult, SessionContext};
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
    pub(crate) async fn carry_out_for(
        &self,
        chain: ChainId,
        asked: ForwardedRequest,
    ) -> forward::ForwardedReply {
        let not_here =
            |why: Refusal| forward::ForwardedReply::NotHere(Unavailable::from(&why).into());
        let moved = Refusal::new(Kind::Elsewhere, Reason::Moved);
        let cluster = self.chains.get(chain).filter(|it| it.carries_out(&asked));
        let Some(cluster) = cluster else {
            return not_here(moved);
        };
        match asked {
            ForwardedRequest::Request(call) => {
                let service = call.request.service();
                match self.on_chain(chain, &Arc::new(call), Reach::Here).await {
                    Ok((outcome, metadata)) => forward::ForwardedReply::Request(outcome, metadata),
                    Err(refusal) if refusal.kind == Kind::Elsewhere => not_here(refusal),
                    Err(refusal) => {
                        let refused = refusal.of_service(service);
                        forward::ForwardedReply::Request(Err(refused), ReplyMetadata::default())
                    }
                }
            }
            ForwardedRequest::Mode(name) => match self.mode_here(chain, name.name()) {
                Ok(mode) => forward::ForwardedReply::Mode(mode),
                Err(refusal) => forward::ForwardedReply::NotHere(failure(refusal)),
            },
            ForwardedRequest::Why => forward::ForwardedReply::Why(cluster.waits_to_tell()),
            ForwardedRequest::Catalog(question) => match self.answer_catalog(chain, question).await
            {
                Ok(answer) => forward::ForwardedReply::Catalog(answer),
                Err(refusal) => not_here(refusal),
            },
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
        let cluster = self.cluster(chain)?;
        let service = call.request.service();
        let token = call.consistency.session.as_deref();
        let sessions = match tokens::open(&self.seal, &call.account, token) {
            Ok(sessions) => sessions,
            Err(trouble) => return Ok((Err(service.word(trouble)), ReplyMetadata::default())),
        };
        let context = tokens::on(chain, sessions.as_ref());
        let patience = call.request.patience();
        let end = Instant::now() + REQUEST + patience;
        let told = loop {
            if reach == Reach::Anywhere && cluster.is_elsewhere(call) {
                match Box::pin(cluster.ask_elsewhere(call)).await {
                    Ok(Some(answer)) => return Ok(answer),
                    Ok(None) => {}
                    Err(refusal) => break Err(refusal),
                }
            }
            let told = match call.request.class().is_write() {
                false => cluster.read(call, &context).await,
                true => match cluster.quorum(call) {
                    Err(refused) => Ok(RequestResult::from(refused)),
                    Ok(quorum) => {
                        let takers = quorum.map_or(Takers::Head, |_| Takers::Any);
                        let job = |reply| {
                            let session = context.clone();
                            Job::Submit(PendingRequest::write(call.clone(), session, quorum, reply))
                        };
                        cluster.at_one(takers, patience, job).await
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
            Ok(told) => match told.outcome.as_ref().ok().and_then(Reply::rest) {
                None => Ok(told),
                Some(rest) => {
                    let outcome = Box::pin(rest_of(&cluster, call, &context, rest)).await;
                    Ok(RequestResult { outcome, ..told })
                }
            },
            refused => refused,
        };
        let told = match told {
            Err(refusal) if refusal.kind == Kind::Elsewhere && reach == Reach::Here => {
                return Err(refusal);
            }
            // The session goes on.
            told => told.unwrap_or_else(|refusal| refusal.of_service(service).into()),
        };
        let (seal, account) = (&self.seal, &call.account);
        Ok(tokens::answered(
            told, seal, account, service, chain, sessions,
        ))
    }
}

/// Why the catalog here did not answer.
fn failure(refusal: catalog::Refusal) -> Failure {
    match refusal {
        catalog::Refusal::Unavailable(why) => why.into(),
        catalog::Refusal::View(error) => error.into(),
        _ => Reason::NoMember.into(),
    }
}

/// The outcome of a write whose reply names rows: these are read here, at its commit or later, by
/// the request that the reply gave.
async fn rest_of(
    cluster: &Cluster,
    call: &Arc<Call>,
    context: &SessionContext,
    request: Request,
) -> Result<Reply, Refused> {
    let service = request.service();
    let read = Arc::new(Call {
        request,
        consistency: ConsistencyOptions {
            level: Level::Strong,
            collection: call.consistency.collection,
            ..ConsistencyOptions::default()
        },
        ..Call::clone(call)
    });
    match cluster.read(&read, context).await {
        Ok(read) => read.outcome,
        Err(refusal) => Err(refusal.of_service(service)),
    }
}
