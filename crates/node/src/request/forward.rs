//! Requests that only the head can carry out, handed on to its process.
//!
//! Invariants:
//! - X1 a request is handed on once: who gets one that is not for it says so.
//! - X2 a write is handed on again only while it is certain that nobody took it.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use fader_chain::{Configuration, Level, NodeId};
use fader_services::Reason;
use fader_services::catalog::AccountId;
use fader_services::forward::{Asked, Told};
use fader_services::level::{self, Demand};
use fader_services::simpledb::Request;

use super::route::AGAIN;
use crate::cluster::Cluster;
use crate::member::pending::REQUEST;
use crate::member::refusal::{Kind, Refusal};
use crate::peer::Unheard;

/// How much longer the answer is waited for than the head takes at most.
const WAY: Duration = Duration::from_secs(1);

impl Cluster {
    /// Whether a request is to be carried out elsewhere: it is for the head and that is not here,
    /// or no member here serves.
    pub(crate) fn is_elsewhere(
        &self,
        account: &AccountId,
        request: &Request,
        demand: &Demand,
    ) -> bool {
        if self.process.is_none() {
            return false;
        }
        let Some(newest) = self.configuration() else {
            return self.own().is_none();
        };
        let Some(member) = self.serving_here(&newest) else {
            return true;
        };
        if Some(newest.head()) == self.own() {
            return false;
        }
        // What is wrong with it is told here.
        match request.is_write() {
            true => matches!(member.quorum(account, request, demand), Ok(None)),
            false => matches!(
                member.shows(account, request, demand),
                Ok(Some(Level::Barrier))
            ),
        }
    }

    /// Hands a request to a node that can carry it out, at first the head; nothing when it can be
    /// carried out here.
    ///
    /// # Errors
    /// [`Refusal`].
    pub(crate) async fn hand_on(&self, asked: &Asked) -> Result<Option<Told>, Refusal> {
        let Some(process) = &self.process else {
            return Ok(None);
        };
        let end = Instant::now() + REQUEST;
        let mut why = Refusal::new(Kind::Elsewhere, Reason::NoMember);
        for turn in 0_usize.. {
            if end <= Instant::now() {
                break;
            }
            let Some(newest) = self.configuration() else {
                tokio::time::sleep(AGAIN).await;
                continue;
            };
            let to = self.taker(&newest, asked, turn);
            if Some(to) == self.own() {
                return Ok(None);
            }
            let patience = REQUEST + WAY;
            match process
                .peers()
                .forward(to, process.chain, asked, patience)
                .await
            {
                Ok(Told::NotHere(words)) => why = Refusal::told(&words),
                Ok(told) => return Ok(Some(told)),
                Err(Unheard::Unknown) if matches!(asked, Asked::Write(..) | Asked::Catalog(_)) => {
                    return Err(Refusal::new(Kind::Unknown, Reason::Lost));
                }
                Err(Unheard::Unknown | Unheard::Untouched) => {}
            }
            tokio::time::sleep(AGAIN).await;
        }
        Err(why)
    }

    /// Who is asked next: the head, for what may be its own; of what any serving member can do, one
    /// after the other, where none is here.
    fn taker(&self, newest: &Configuration, asked: &Asked, turn: usize) -> NodeId {
        let is_anyones = match asked {
            Asked::Read(_, _, demand) => demand.level != level::Level::Barrier,
            Asked::Write(_, _, demand) => matches!(demand.level, level::Level::Eventual { .. }),
            Asked::Catalog(_) | Asked::Mode(..) | Asked::Why => false,
        };
        if !is_anyones || self.serving_here(newest).is_some() {
            return newest.head();
        }
        let serving: Vec<NodeId> = newest.serving().collect();
        let first = self.next.fetch_add(1, Ordering::Relaxed);
        serving[(first + turn) % serving.len()]
    }

    /// Whether this process can carry out what another was asked.
    pub(crate) fn carries_out(&self, asked: &Asked) -> bool {
        match asked {
            Asked::Write(account, request, demand) | Asked::Read(account, request, demand) => {
                !self.is_elsewhere(account, request, demand)
            }
            Asked::Catalog(_) | Asked::Mode(..) => self.decides(),
            Asked::Why => self.is_here(),
        }
    }
}
