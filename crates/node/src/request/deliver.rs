//! The way of a request on a chain to a member that can take it: here, or in another process.
//!
//! Invariants:
//! - X5 a request that no member has taken goes on to where the member is now, until its time
//!   is over: that the head moves refuses nothing.

use std::time::Instant;

use fader_chain::ChainId;
use fader_services::Reason;
use fader_services::catalog::{self, AccountId};
use fader_services::forward::{self, Asked};
use fader_services::level::{Demand, Receipt};
use fader_services::simpledb::{Error, Request};
use tokio::sync::oneshot;

use super::alone::{read, read_eventually, shows_more, write};
use super::route::{AGAIN, carry_out_at};
use super::{Done, Doors, Router, tokens};
use crate::member::pending::{Following, REQUEST, Told, Work};
use crate::member::refusal::{Kind, Refusal};
use crate::member::thread::Job;

impl Router {
    /// Carries out what another process was asked, if that can be done here.
    pub(crate) async fn carry_out_for(&self, chain: ChainId, asked: Asked) -> forward::Told {
        let can = match &self.doors {
            Doors::One(..) => false,
            Doors::Many(chains) => chains.get(chain).is_some_and(|it| it.carries_out(&asked)),
        };
        if !can {
            return forward::Told::NotHere(Reason::Moved.sentence().to_owned());
        }
        match asked {
            Asked::Write(account, request, demand) | Asked::Read(account, request, demand) => {
                match self
                    .carry_out_here(chain, &account, (request, demand))
                    .await
                {
                    Ok((outcome, receipt)) => forward::Told::Request(outcome, receipt),
                    Err(_) => forward::Told::NotHere(Reason::Moved.sentence().to_owned()),
                }
            }
            Asked::Catalog(command) => match self.catalog_here(chain, &command).await {
                Ok(outcome) => forward::Told::Catalog(outcome),
                Err(refusal) if refusal.kind == Kind::Elsewhere => {
                    forward::Told::NotHere(refusal.to_string())
                }
                Err(refusal) => forward::Told::Catalog(Err(refusal.into())),
            },
            Asked::Mode(account, domain) => match self.mode_here(chain, &account, &domain) {
                Ok(mode) => forward::Told::Mode(mode),
                Err(refusal) => forward::Told::NotHere(refusal.to_string()),
            },
            Asked::Why => forward::Told::Why(self.waits_here(chain)),
        }
    }

    /// Carries out a request on a chain: here, or where it can be done.
    pub(crate) async fn on_chain(
        &self,
        chain: ChainId,
        account: &AccountId,
        request: Request,
        demand: Demand,
    ) -> Done {
        let done = self.at_taker(chain, account, (request, demand)).await;
        if let Some(reason) = done.0.as_ref().err().and_then(|error| error.reason) {
            self.count_refusal(chain, reason);
        }
        done
    }

    /// Counts a client that is refused.
    pub(crate) fn count_refusal(&self, chain: ChainId, reason: Reason) {
        self.refusals.count(chain, reason);
    }

    /// The same, uncounted: again while the member that can take it comes and goes, since no member
    /// took it.
    async fn at_taker(
        &self,
        chain: ChainId,
        account: &AccountId,
        mut asked: (Request, Demand),
    ) -> Done {
        let end = Instant::now() + REQUEST;
        let failed = |why: Refusal| (Err(why.into()), Receipt::default());
        loop {
            let elsewhere = self.chain(chain);
            let elsewhere = elsewhere.filter(|it| it.is_elsewhere(account, &asked.0, &asked.1));
            if let Some(cluster) = elsewhere {
                let (request, demand) = asked;
                let handed = match request.is_write() {
                    true => Asked::Write(account.clone(), request, demand),
                    false => Asked::Read(account.clone(), request, demand),
                };
                asked = match (cluster.hand_on(&handed).await, handed) {
                    (Ok(Some(forward::Told::Request(outcome, receipt))), _) => {
                        return (outcome, receipt);
                    }
                    // The head has come here meanwhile.
                    (
                        Ok(None),
                        Asked::Write(_, request, demand) | Asked::Read(_, request, demand),
                    ) => (request, demand),
                    (Ok(_), _) => return failed(Refusal::new(Kind::Again, Reason::NoMember)),
                    (Err(why), _) => return failed(why),
                };
            }
            match self.carry_out_here(chain, account, asked).await {
                Ok(done) => return done,
                Err(moved) => asked = *moved,
            }
            if end <= Instant::now() {
                return failed(Refusal::new(Kind::Again, Reason::Moved));
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    async fn carry_out_here(
        &self,
        chain: ChainId,
        account: &AccountId,
        (request, mut demand): (Request, Demand),
    ) -> Result<Done, Box<(Request, Demand)>> {
        let seal = &self.seal;
        let token = demand.session.take();
        let sessions = match tokens::open(seal, account, token.as_deref()) {
            Ok(sessions) => sessions,
            Err(error) => return Ok((Err(error), Receipt::default())),
        };
        let following = tokens::on(chain, sessions.as_ref());
        let told = match &self.doors {
            Doors::Many(chains) => {
                let asked = (&request, &demand, &following);
                let told = carry_out_at(chains.get(chain), account, asked).await;
                if told.as_ref().is_err_and(|it| it.kind == Kind::Elsewhere) {
                    demand.session = token;
                    return Err(Box::new((request, demand)));
                }
                told.map_err(Error::from)
            }
            Doors::One(..) => self.carry_out(account, (request, demand, &following)).await,
        };
        let told = told.unwrap_or_else(Told::from);
        Ok(tokens::answered(told, seal, account, (chain, sessions)))
    }

    /// Carries out a request at the member that is alone.
    async fn carry_out(
        &self,
        account: &AccountId,
        (request, demand, session): (Request, Demand, &Following),
    ) -> Result<Told, Error> {
        match &self.doors {
            Doors::Many(_) => Err(Refusal::new(Kind::Again, Reason::NoWrites).into()),
            Doors::One(member, _) if request.is_write() => {
                write(member, account, request, (demand, session.clone())).await
            }
            Doors::One(member, scans) if shows_more(member, &demand, session) => {
                read_eventually(member, scans, account, request, (demand, session)).await
            }
            Doors::One(member, scans) => {
                let answered = read(member, scans, account, request, demand).await?;
                Ok(Told::of(Ok((answered, Receipt::default())), None))
            }
        }
    }

    /// Carries out a catalog command on a chain.
    pub(crate) async fn catalog_on(
        &self,
        chain: ChainId,
        command: catalog::Command,
    ) -> Result<(), catalog::Refusal> {
        let end = Instant::now() + REQUEST;
        loop {
            match self.catalog_once(chain, &command).await {
                Ok(outcome) => return outcome,
                Err(refusal) if refusal.kind != Kind::Elsewhere || end <= Instant::now() => {
                    return Err(refusal.into());
                }
                Err(_) => tokio::time::sleep(AGAIN).await,
            }
        }
    }

    async fn catalog_once(
        &self,
        chain: ChainId,
        command: &catalog::Command,
    ) -> Result<Result<(), catalog::Refusal>, Refusal> {
        if let Some(cluster) = self.chain(chain)
            && !cluster.decides()
        {
            match cluster.hand_on(&Asked::Catalog(command.clone())).await? {
                Some(forward::Told::Catalog(told)) => return Ok(told),
                Some(_) => return Err(Refusal::new(Kind::Again, Reason::NoMember)),
                None => {}
            }
        }
        self.catalog_here(chain, command).await
    }

    async fn catalog_here(
        &self,
        chain: ChainId,
        command: &catalog::Command,
    ) -> Result<Result<(), catalog::Refusal>, Refusal> {
        let member = match &self.doors {
            Doors::Many(chains) => {
                let cluster = chains.get(chain);
                let cluster = cluster.ok_or(Refusal::new(Kind::Again, Reason::NoChain))?;
                return cluster.catalog(command).await;
            }
            Doors::One(member, _) => member,
        };
        let (reply, answer) = oneshot::channel();
        member.enqueue(Job::Submit(Work::catalog(command.clone(), reply)))?;
        answer
            .await
            .unwrap_or(Err(Refusal::new(Kind::Unknown, Reason::Stopping)))
    }
}
