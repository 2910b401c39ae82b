//! Requests at a member that has no company.

use std::sync::Arc;

use fader_services::catalog::AccountId;
use fader_services::level::{Demand, Level};
use fader_services::simpledb::{Answered, Error, Request};
use fader_services::{Reason, ViewError};
use tokio::sync::{Semaphore, oneshot};

use crate::member::pending::{Following, Told, Work};
use crate::member::refusal::{Kind, Refusal};
use crate::member::thread::Job;
use crate::member::{Member, READ, Showing, reads_keys};

/// Carries out a request that may change state.
pub(crate) async fn write(
    member: &Member,
    account: &AccountId,
    request: Request,
    (demand, session): (Demand, Following),
) -> Result<Told, Error> {
    // One without a name is decided first, and need not be looked at twice.
    let quorum = match demand.request {
        Some(_) => member.quorum(account, &request, &demand)?,
        None => None,
    };
    let (reply, answer) = oneshot::channel();
    let work = Work::simpledb(account.clone(), request, (demand, session), quorum, reply);
    let enqueued = member.enqueue(Job::Submit(work));
    enqueued?;
    match answer.await {
        Ok(Ok(told)) => Ok(told),
        Ok(Err(refusal)) if refusal.kind == Kind::Elsewhere => {
            Err(Refusal::new(Kind::Again, Reason::NoWrites).into())
        }
        Ok(Err(refusal)) => Err(refusal.into()),
        Err(_) => Err(Refusal::new(Kind::Unknown, Reason::Stopping).into()),
    }
}

/// Answers a request that changes nothing from what is committed.
pub(crate) async fn read(
    member: &Arc<Member>,
    scans: &Semaphore,
    account: &AccountId,
    request: Request,
    demand: Demand,
) -> Result<Answered, Error> {
    if reads_keys(&request) {
        return member.answer(&*member.snapshot(), account, &request, &demand);
    }
    let permit = scans.acquire().await;
    let _permit = permit.map_err(|_| Refusal::new(Kind::Elsewhere, Reason::Stopping))?;
    let (member, account) = (member.clone(), account.clone());
    let answer = tokio::task::spawn_blocking(move || {
        member.answer(&*member.snapshot(), &account, &request, &demand)
    });
    answer
        .await
        .unwrap_or_else(|error| Err(ViewError(error.to_string()).into()))
}

/// Whether a read may be shown more than what is committed, or has to follow a session.
pub(crate) fn shows_more(member: &Member, demand: &Demand, session: &Following) -> bool {
    session.is_some() || !member.shared().is_settled() || demand.level != Level::Default
}

/// Answers a read from what its level shows, and from what its session has seen.
pub(crate) async fn read_eventually(
    member: &Arc<Member>,
    scans: &Semaphore,
    account: &AccountId,
    request: Request,
    (demand, session): (Demand, &Following),
) -> Result<Told, Error> {
    let level = member.shows(account, &request, &demand)?;
    let _permit = match reads_keys(&request) {
        true => None,
        false => Some(
            scans
                .acquire()
                .await
                .map_err(|_| Refusal::new(Kind::Elsewhere, Reason::Stopping))?,
        ),
    };
    // All that is committed is applied before anyone hears of it.
    let is_here = level.is_none() || member.shared().is_settled();
    let shown = match session.is_none() && is_here {
        true => Some((Showing::Snapshot(member.snapshot()), None)),
        false => {
            let asked = (&request, &demand, session);
            let level = level.unwrap_or(fader_chain::Level::Strong);
            member.show(account, asked, (level, READ)).await
        }
    };
    let (showing, followed) = shown.ok_or_else(|| Refusal::new(Kind::Again, Reason::NoMember))?;
    let answered = member
        .clone()
        .answer_aside(showing, account, &request, &demand)
        .await;
    Ok(Told::of(answered, followed))
}
