//! Requests that only the head can carry out, handed on to its process.
//!
//! Invariants:
//! - X2 a write is handed on again only while it is certain that nobody took it.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use fader_chain::{Configuration, Level, NodeId};
use fader_services::forward::{Asked, Told};
use fader_services::{Call, Reason, level};

use super::Answer;
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
    pub(crate) fn is_elsewhere(&self, call: &Call) -> bool {
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
        match call.request.class().is_write() {
            true => matches!(member.quorum(call), Ok(None)),
            false => matches!(member.shows(call), Ok(Some(Level::Barrier))),
        }
    }

    /// Has another process carry out a request of a client; nothing when it can be done here.
    ///
    /// # Errors
    /// [`Refusal`].
    pub(crate) async fn ask_elsewhere(&self, call: &Call) -> Result<Option<Answer>, Refusal> {
        let Some(told) = self.hand_on(&Asked::Request(call.clone())).await? else {
            // The head has come here meanwhile.
            return Ok(None);
        };
        // What another service says is no answer.
        let unknown = Refusal::new(Kind::Unknown, Reason::Lost);
        told.of(call.request.service()).map(Some).ok_or(unknown)
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
        let (waits, is_write) = match asked {
            Asked::Request(call) => (call.request.patience(), call.request.class().is_write()),
            Asked::Mode(..) | Asked::Why => (Duration::ZERO, false),
        };
        let patience = REQUEST + waits + WAY;
        let end = Instant::now() + REQUEST + waits;
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
            match process
                .peers()
                .forward(to, process.chain, asked, patience)
                .await
            {
                Ok(Told::NotHere(words)) => why = Refusal::told(&words),
                Ok(told) => return Ok(Some(told)),
                Err(Unheard::Unknown) if is_write => {
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
            Asked::Request(call) if call.request.class().is_write() => {
                matches!(call.demand.level, level::Level::Eventual { .. })
            }
            Asked::Request(call) => call.demand.level != level::Level::Barrier,
            Asked::Mode(..) | Asked::Why => false,
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
            Asked::Request(call) => !self.is_elsewhere(call),
            Asked::Mode(..) => self.decides(),
            Asked::Why => self.is_here(),
        }
    }
}
