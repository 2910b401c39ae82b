//! Requests that only the head can carry out, handed off to its process.
//!
//! What any member can do goes to one after the other, where none is here. It goes to the next one
//! when one has not answered for a moment, and the first answer counts.
//!
//! Invariants:
//! - a write is handed off again only while it is certain that no member took it, or under
//!   one name.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use fader_chain::{Configuration, Level, NodeId, RequestId};
use fader_services::forward::{ForwardedReply, ForwardedRequest};
use fader_services::{Call, Reason, level};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use super::Answer;
use super::route::AGAIN;
use crate::cluster::{Cluster, Lent};
use crate::member::pending::REQUEST;
use crate::member::refusal::{Kind, Refusal};
use crate::peer::ForwardError;

/// How much longer the answer is waited for than the head takes at most.
const WAY: Duration = Duration::from_secs(1);
/// How long one member is waited for before the next one is asked, of those that can all do it.
const NEXT: Duration = Duration::from_millis(100);

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
        let Some(told) = self
            .forward(&ForwardedRequest::Request(call.clone()))
            .await?
        else {
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
    pub(crate) async fn forward(
        &self,
        asked: &ForwardedRequest,
    ) -> Result<Option<ForwardedReply>, Refusal> {
        let Some(process) = &self.process else {
            return Ok(None);
        };
        let lent = self.lend_name(asked);
        let named = lent.as_ref().and_then(|lent| named(asked, lent.name()));
        let asked = named.as_ref().unwrap_or(asked);
        let (waits, is_write) = match asked {
            ForwardedRequest::Request(call) => {
                (call.request.patience(), call.request.class().is_write())
            }
            ForwardedRequest::Mode(..) | ForwardedRequest::Why | ForwardedRequest::Catalog(_) => {
                (Duration::ZERO, false)
            }
        };
        let patience = REQUEST + waits + WAY;
        let end = Instant::now() + REQUEST + waits;
        let first = self.next.fetch_add(1, Ordering::Relaxed);
        let mut why = Refusal::new(Kind::Elsewhere, Reason::NoMember);
        let unknown = Refusal::new(Kind::Unknown, Reason::Lost);
        let mut under_way = FuturesUnordered::new();
        for turn in 0_usize.. {
            if end <= Instant::now() {
                break;
            }
            let Some(newest) = self.configuration() else {
                tokio::time::sleep(AGAIN).await;
                continue;
            };
            let takers = self.takers(&newest, asked);
            let to = takers[first.wrapping_add(turn) % takers.len()];
            if Some(to) == self.own() {
                return Ok(None);
            }
            let chain = process.chain;
            under_way.push(process.peers().forward(to, chain, asked, patience));
            // What may wait for long waits at one member.
            let may_repeat = 1 < takers.len() && waits.is_zero() && (!is_write || is_named(asked));
            // Of those that were asked, one is well, or all are waited for.
            let wait = match may_repeat && under_way.len() < takers.len() {
                true => NEXT,
                false => patience,
            };
            match tokio::time::timeout(wait, under_way.next()).await {
                Ok(Some(Ok(ForwardedReply::NotHere(failure)))) => {
                    why = why.then(Refusal::told(&failure));
                }
                Ok(Some(Ok(told))) => return Ok(Some(told)),
                Ok(Some(Err(ForwardError::Unknown))) if is_write => {
                    if !may_repeat {
                        return Err(unknown);
                    }
                    why = unknown.clone();
                }
                Ok(Some(Err(ForwardError::Unknown | ForwardError::Untouched)) | None) => {}
                Err(_) => continue,
            }
            tokio::time::sleep(AGAIN).await;
        }
        // What was asked, and not answered, may have been done.
        match is_write && !under_way.is_empty() {
            true => Err(unknown),
            false => Err(why),
        }
    }

    /// A name for an eventual write that has none, and that any member may take.
    fn lend_name(&self, asked: &ForwardedRequest) -> Option<Lent<'_>> {
        let newest = self.configuration()?;
        let ForwardedRequest::Request(call) = asked else {
            return None;
        };
        let is_write = call.request.class().is_write();
        let is_short = call.request.patience().is_zero();
        let may_repeat = is_write && is_short && call.consistency.request.is_none();
        let is_anyones = may_repeat && 1 < self.takers(&newest, asked).len();
        is_anyones.then(|| self.names.lend().ok()).flatten()
    }

    /// Which members may be asked: the head, for what may be its own. For what any serving member
    /// can do, all of them, where none is here.
    fn takers(&self, newest: &Configuration, asked: &ForwardedRequest) -> Vec<NodeId> {
        let is_anyones = match asked {
            ForwardedRequest::Request(call) if call.request.class().is_write() => {
                matches!(call.consistency.level, level::Level::Eventual { .. })
            }
            ForwardedRequest::Request(call) => call.consistency.level != level::Level::Barrier,
            ForwardedRequest::Catalog(_) => true,
            ForwardedRequest::Mode(..) | ForwardedRequest::Why => false,
        };
        match is_anyones && self.serving_here(newest).is_none() {
            true => newest.serving().collect(),
            false => vec![newest.head()],
        }
    }

    /// Whether this process can carry out what another was asked.
    pub(crate) fn carries_out(&self, asked: &ForwardedRequest) -> bool {
        match asked {
            ForwardedRequest::Request(call) => !self.is_elsewhere(call),
            ForwardedRequest::Mode(..) => self.decides(),
            ForwardedRequest::Why => self.is_here(),
            ForwardedRequest::Catalog(_) => {
                let newest = self.configuration();
                newest.is_some_and(|newest| self.serving_here(&newest).is_some())
            }
        }
    }
}

/// Whether a request has a name: asked twice, it is carried out once.
fn is_named(asked: &ForwardedRequest) -> bool {
    matches!(asked, ForwardedRequest::Request(call) if call.consistency.request.is_some())
}

/// The same request under a name of this process; what it says is all that the name is for.
fn named(asked: &ForwardedRequest, name: RequestId) -> Option<ForwardedRequest> {
    let ForwardedRequest::Request(call) = asked else {
        return None;
    };
    let mut call = call.clone();
    call.consistency.request = Some(name);
    call.consistency.digest = name.client.id ^ u128::from(name.seq);
    Some(ForwardedRequest::Request(call))
}
