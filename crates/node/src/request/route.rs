//! The way of a request through a cluster: strong writes to the head, all else to one member after
//! the other.
//!
//! A member that refuses has done nothing, so the request goes on to another, or to the same one
//! later, until its time is over. A write whose answer never comes may have taken effect. A single
//! member takes its requests at once, or none does.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fader_chain::{Configuration, Level, NodeId};
use fader_services::catalog::Command;
use fader_services::request::Refusal as Refused;
use fader_services::service::Meaning;
use fader_services::{Call, Reason};
use tokio::sync::oneshot;

use crate::cluster::Cluster;
use crate::member::pending::{Answer, REQUEST, RequestResult, SessionContext};
use crate::member::quorum::Quorum;
use crate::member::refusal::{Kind, Refusal};
use crate::member::thread::Job;
use crate::member::{Member, READ, reads_keys};

/// How long the first one that is asked may take to catch up with a session.
const FOLLOW: Duration = Duration::from_millis(100);
/// How long a bounded read looks for a member that can prove its bound: a member that is gone is
/// given up meanwhile.
const BOUNDED: Duration = Duration::from_secs(3);
/// How long to wait before asking again, where no member can answer.
pub(crate) const AGAIN: Duration = Duration::from_millis(10);

/// How often to look whether a member that has not answered still has a membership.
const LOOK: Duration = Duration::from_millis(100);
/// The same while a request may wait for long: of these there may be many.
const LOOK_WAITING: Duration = Duration::from_secs(10);

/// Who may take a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takers {
    /// The head alone.
    Head,
    /// Any that serves.
    Any,
}

impl Cluster {
    /// Waits until a strong read of everything is answered.
    pub(crate) async fn ready(&self) -> Result<(), Refusal> {
        let everything = Call::of_node(Command::Confirm);
        self.read(&Arc::new(everything), &None).await.map(drop)
    }

    /// What a write asks if it is eventual, as far as is known here.
    pub(crate) fn quorum(&self, call: &Call) -> Result<Option<Quorum>, Refused> {
        // A lone member decides one without a name, and finds that it is eventual when it does.
        if self.is_lone() && call.consistency.request.is_none() {
            return Ok(None);
        }
        self.local_member()
            .map_or(Ok(None), |keeper| keeper.quorum(call))
    }

    /// The answer of the first that takes the job of a request which may wait for so long.
    pub(crate) async fn at_one<T>(
        &self,
        takers: Takers,
        patience: Duration,
        job: impl Fn(oneshot::Sender<Answer<T>>) -> Job,
    ) -> Answer<T> {
        let end = Instant::now() + REQUEST + patience;
        let look = match patience.is_zero() {
            true => LOOK,
            false => LOOK_WAITING,
        };
        while Instant::now() < end {
            let takers = match takers {
                Takers::Head => self.head().into_iter().collect(),
                Takers::Any => self.readers(),
            };
            if takers.is_empty() {
                self.check_takers()?;
            }
            for (node, member) in takers {
                let (reply, answer) = oneshot::channel();
                let answer = match member.enqueue(job(reply)) {
                    Ok(()) => self.answer_of(node, answer, end, look).await,
                    Err(refusal) => Err(refusal),
                };
                match answer {
                    Err(refusal) if self.is_lone() => return Err(refusal.of_lone()),
                    Err(refusal) if refusal.kind == Kind::Elsewhere => {}
                    answer => return answer,
                }
            }
            tokio::time::sleep(AGAIN).await;
        }
        Err(Refusal::new(Kind::Again, Reason::NoMember))
    }

    /// Whether a member here may take a request soon, where none can now.
    fn check_takers(&self) -> Result<(), Refusal> {
        if self.is_closing() {
            return Err(Refusal::new(Kind::Again, Reason::Stopping));
        }
        match self.is_anothers() {
            true => Err(Refusal::new(Kind::Elsewhere, Reason::Moved)),
            false => Ok(()),
        }
    }

    /// What the member says before the time is over, as long as it has a membership. One that lost
    /// it may be held up, and its chain does not wait for it.
    async fn answer_of<T>(
        &self,
        node: NodeId,
        mut answer: oneshot::Receiver<Answer<T>>,
        end: Instant,
        look: Duration,
    ) -> Answer<T> {
        let lost = Err(Refusal::new(Kind::Unknown, Reason::Lost));
        if self.is_lone() {
            return answer.await.unwrap_or(lost);
        }
        while Instant::now() < end {
            let is_member = |newest: Arc<Configuration>| newest.member(node).is_some();
            let is_member = self.configuration().is_some_and(is_member);
            match tokio::time::timeout(look, &mut answer).await {
                Ok(answer) => return answer.unwrap_or(lost),
                Err(_) if is_member => {}
                Err(_) => return lost,
            }
        }
        lost
    }

    /// The members that may answer a read of a level.
    fn readable(&self, level: Level) -> Vec<Arc<Member>> {
        let members = match level {
            Level::Barrier => self.head().into_iter().collect(),
            _ => self.readers(),
        };
        members.into_iter().map(|(_, member)| member).collect()
    }

    /// Carries out a request that changes nothing, at any member that can.
    pub(crate) async fn read(
        &self,
        call: &Arc<Call>,
        session: &SessionContext,
    ) -> Result<RequestResult, Refusal> {
        let scan = match reads_keys(call) {
            true => None,
            false => Some(self.scans.acquire().await),
        };
        if matches!(scan, Some(Err(_))) {
            return Err(Refusal::new(Kind::Elsewhere, Reason::Stopping));
        }
        let keeper = self.local_member();
        let shows = match keeper.as_ref().map(|keeper| keeper.shows(call)) {
            Some(Ok(shows)) => shows,
            Some(Err(refused)) => return Ok(refused.into()),
            None => None,
        };
        let level = shows.unwrap_or(Level::Strong);
        let is_bounded = matches!(level, Level::BoundVersions(_) | Level::BoundMillis(_));
        let end = Instant::now() + if is_bounded { BOUNDED } else { REQUEST };
        // Another member may have what a session has seen: not long is waited for one, at first.
        let mut time = match session {
            Some(_) if !self.is_lone() => FOLLOW,
            _ => READ,
        };
        // A lone one is asked at once: it was looked up already.
        let mut first = keeper.filter(|_| self.is_lone());
        loop {
            let members = match (first.take(), level) {
                (Some(lone), _) => vec![lone],
                (None, level) => self.readable(level),
            };
            if members.is_empty() {
                self.check_takers()?;
            }
            for member in members {
                let shown = member.show(call, session, level, time).await;
                let Some((source, update)) = shown else {
                    continue;
                };
                match member.answer(source, call).await {
                    // Its store could not be read: another one answers.
                    Err(refused) if refused.meaning() == Meaning::Unreadable && !self.is_lone() => {
                        drop(member.enqueue(Job::Damaged(refused.to_string())));
                    }
                    answered => return Ok(RequestResult::of(answered, update)),
                }
            }
            if end <= Instant::now() {
                break;
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
