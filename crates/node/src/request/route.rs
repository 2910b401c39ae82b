//! The way of a request through a cluster: strong writes to the head, all else to one member after
//! the other.
//!
//! A member that refuses has done nothing, so the request goes on to another, or to the same one
//! later, until its time is over. A write whose answer never comes may have taken effect.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fader_chain::{Configuration, Level, NodeId};
use fader_services::Reason;
use fader_services::catalog::{self, AccountId};
use fader_services::level::Demand;
use fader_services::simpledb::{Code, Request};
use tokio::sync::oneshot;

use crate::cluster::Cluster;
use crate::member::pending::{Answer, Following, REQUEST, Told, Work};
use crate::member::refusal::{Kind, Refusal};
use crate::member::thread::Job;
use crate::member::{Member, READ, reads_keys};

/// How long the first one that is asked may take to catch up with a session.
const FOLLOW: Duration = Duration::from_millis(100);
/// How long a bounded read looks for a member that can prove its bound: a member that is gone is
/// given up meanwhile.
const BOUNDED: Duration = Duration::from_secs(3);
/// How long to wait before asking again, where nobody can answer.
pub(crate) const AGAIN: Duration = Duration::from_millis(10);

/// How often to look whether a member that has not answered still has a seat.
const LOOK: Duration = Duration::from_millis(100);

/// Carries out a request at a chain, if there is one, with its members here.
pub(crate) async fn carry_out_at(
    cluster: Option<Arc<Cluster>>,
    account: &AccountId,
    (request, demand, session): (&Request, &Demand, &Following),
) -> Result<Told, Refusal> {
    let cluster = cluster.ok_or(Refusal::new(Kind::Again, Reason::NoChain))?;
    match request.is_write() {
        true => cluster.write(account, request, demand, session).await,
        false => cluster.read(account, request, demand, session).await,
    }
}

impl Cluster {
    /// Waits until a strong read of everything is answered.
    pub(crate) async fn ready(&self) -> Result<(), Refusal> {
        let nobody = AccountId(String::new());
        let everything = Request::ListDomains {
            max_count: None,
            next_token: None,
        };
        let demand = Demand::default();
        let told = self.read(&nobody, &everything, &demand, &None).await;
        told.map(drop)
    }

    /// Carries out a request that may change state: an eventual one at any member, others at the
    /// head, which may know better.
    pub(crate) async fn write(
        &self,
        account: &AccountId,
        request: &Request,
        demand: &Demand,
        session: &Following,
    ) -> Result<Told, Refusal> {
        let quorum = match self.keeper().map(|it| it.quorum(account, request, demand)) {
            Some(Ok(quorum)) => quorum,
            Some(Err(error)) => return Ok(error.into()),
            None => None,
        };
        let job = |reply| {
            let asked = (demand.clone(), session.clone());
            let (account, request) = (account.clone(), request.clone());
            Job::Submit(Work::simpledb(account, request, asked, quorum, reply))
        };
        let takers = || match quorum {
            None => self.head().into_iter().collect(),
            Some(_) => self.readers(),
        };
        self.at_one(takers, job).await
    }

    /// Carries out a catalog command, at the head.
    pub(crate) async fn catalog(
        &self,
        command: &catalog::Command,
    ) -> Result<Result<(), catalog::Refusal>, Refusal> {
        let job = |reply| Job::Submit(Work::catalog(command.clone(), reply));
        let takers = || self.head().into_iter().collect();
        self.at_one(takers, job).await
    }

    /// The answer of the first that takes the job.
    async fn at_one<T>(
        &self,
        takers: impl Fn() -> Vec<(NodeId, Arc<Member>)>,
        job: impl Fn(oneshot::Sender<Answer<T>>) -> Job,
    ) -> Answer<T> {
        let end = Instant::now() + REQUEST;
        while Instant::now() < end {
            let takers = takers();
            if takers.is_empty() && self.is_anothers() {
                return Err(Refusal::new(Kind::Elsewhere, Reason::Moved));
            }
            for (node, member) in takers {
                let (reply, answer) = oneshot::channel();
                if member.enqueue(job(reply)).is_err() {
                    continue;
                }
                match self.answer_of(node, answer, end).await {
                    Some(Err(refusal)) if refusal.kind == Kind::Elsewhere => {}
                    Some(answer) => return answer,
                    None => return Err(Refusal::new(Kind::Unknown, Reason::Lost)),
                }
            }
            tokio::time::sleep(AGAIN).await;
        }
        Err(Refusal::new(Kind::Again, Reason::NoMember))
    }

    /// What the member says before the time is over, as long as it has a seat: whoever lost it may
    /// be held up, and its chain does not wait for it.
    async fn answer_of<T>(
        &self,
        node: NodeId,
        mut answer: oneshot::Receiver<Answer<T>>,
        end: Instant,
    ) -> Option<Answer<T>> {
        while Instant::now() < end {
            let has_seat = |newest: Arc<Configuration>| newest.seat(node).is_some();
            let is_member = self.configuration().is_some_and(has_seat);
            match tokio::time::timeout(LOOK, &mut answer).await {
                Ok(answer) => return answer.ok(),
                Err(_) if is_member => {}
                Err(_) => return None,
            }
        }
        None
    }

    /// Carries out a request that changes nothing, at any member that can.
    pub(crate) async fn read(
        &self,
        account: &AccountId,
        request: &Request,
        demand: &Demand,
        session: &Following,
    ) -> Result<Told, Refusal> {
        let scan = match reads_keys(request) {
            true => None,
            false => Some(self.scans.acquire().await),
        };
        if matches!(scan, Some(Err(_))) {
            return Err(Refusal::new(Kind::Elsewhere, Reason::Stopping));
        }
        let shows = match self.keeper().map(|it| it.shows(account, request, demand)) {
            Some(Ok(shows)) => shows,
            Some(Err(error)) => return Ok(error.into()),
            None => None,
        };
        let level = shows.unwrap_or(Level::Strong);
        let is_bounded = matches!(level, Level::BoundVersions(_) | Level::BoundMillis(_));
        let end = Instant::now() + if is_bounded { BOUNDED } else { REQUEST };
        // Another member may have what a session has seen: not long is waited for one, at first.
        let mut time = match session {
            Some(_) => FOLLOW,
            None => READ,
        };
        while Instant::now() < end {
            let members = match level {
                Level::Barrier => self.head().into_iter().collect(),
                _ => self.readers(),
            };
            if members.is_empty() && self.is_anothers() {
                return Err(Refusal::new(Kind::Elsewhere, Reason::Moved));
            }
            for (_, member) in members {
                let asked = (request, demand, session);
                let shown = member.show(account, asked, (level, time)).await;
                let Some((showing, followed)) = shown else {
                    continue;
                };
                match member
                    .clone()
                    .answer_aside(showing, account, request, demand)
                    .await
                {
                    // Its store could not be read: another one answers.
                    Err(error) if error.code == Code::InternalError => {
                        drop(member.enqueue(Job::Damaged(error.message)));
                    }
                    answered => return Ok(Told::of(answered, followed)),
                }
            }
            time = READ;
            tokio::time::sleep(AGAIN).await;
        }
        let reason = match is_bounded {
            true => Reason::NotFresh,
            false => Reason::NoMember,
        };
        Err(Refusal::new(Kind::Again, reason))
    }
}
