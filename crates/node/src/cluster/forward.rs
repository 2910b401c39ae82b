//! Requests that only the head can carry out, handed on to its process, and those that others hand
//! to this one.
//!
//! Invariants:
//! - X1 a request is handed on once: who gets one that is not for it says so.
//! - X2 a write is handed on again only while it is certain that nobody took it.

use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use fader_chain::{Envelope, Level, NodeId, Role};
use fader_services::catalog::AccountId;
use fader_services::forward::{Asked, Told};
use fader_services::level::Demand;
use fader_services::simpledb::Request;
use tokio::runtime::Handle;

use super::route::{AGAIN, LOST};
use super::{Cluster, Links};
use crate::desk::NOBODY;
use crate::peer::{Inbox, Outbox, Reply, Unheard};
use crate::work::REQUEST;

/// How much longer the answer is waited for than the head takes at most.
const WAY: Duration = Duration::from_secs(1);

/// Carries out what another process hands on.
pub(crate) type Host =
    Box<dyn Fn(Asked) -> Pin<Box<dyn Future<Output = Told> + Send>> + Send + Sync>;

/// Takes what comes from other processes to the member and the handle of this one.
pub(super) struct Door {
    pub(super) links: Arc<Links>,
    pub(super) me: NodeId,
    pub(super) host: OnceLock<Host>,
    pub(super) runtime: Handle,
}

impl Inbox for Door {
    fn deliver(&self, envelope: Envelope) {
        self.links.send(self.me, envelope);
    }

    fn serve(&self, asked: Asked, patience: Duration, reply: Reply) {
        let Some(host) = self.host.get() else {
            return reply.send(&Told::NotHere("the member begins".to_owned()));
        };
        let work = host(asked);
        self.runtime.spawn(async move {
            // Whoever asked has given it up: nobody wants the answer.
            if let Ok(told) = tokio::time::timeout(patience, work).await {
                reply.send(&told);
            }
        });
    }
}

impl Cluster {
    /// From now on requests of other processes are carried out by `host`.
    pub(crate) fn serve_others(&self, host: Host) {
        if let Some(process) = &self.process {
            // It is set once, by the handle that joins.
            drop(process.door.host.set(host));
        }
    }

    /// Whether a request is for the head, and that is not here.
    pub(crate) fn is_elsewhere(
        &self,
        account: &AccountId,
        request: &Request,
        demand: &Demand,
    ) -> bool {
        let Some(process) = &self.process else {
            return false;
        };
        let Some(newest) = self.configuration() else {
            return false;
        };
        if newest.head() == process.me {
            return false;
        }
        let seat = newest.seat(process.me);
        let member = self.member(process.me);
        let (Some(Role::Serving), Some(member)) = (seat.map(|seat| seat.role), member) else {
            return true;
        };
        // What is wrong with it is told here.
        match request.is_write() {
            true => matches!(member.quorum(account, request, demand), Ok(None)),
            false => matches!(
                member.shows(account, request, demand),
                Ok(Some(Level::Barrier))
            ),
        }
    }

    /// Hands a request to the head; nothing when the head is here.
    ///
    /// # Errors
    /// In words, why nothing came of it, or why that is not known.
    pub(crate) async fn hand_on(&self, asked: &Asked) -> Result<Option<Told>, String> {
        let Some(process) = &self.process else {
            return Ok(None);
        };
        let end = Instant::now() + REQUEST;
        let mut why = NOBODY.to_owned();
        while Instant::now() < end {
            let head = self.configuration().map(|newest| newest.head());
            let Some(head) = head else {
                tokio::time::sleep(AGAIN).await;
                continue;
            };
            if head == process.me {
                return Ok(None);
            }
            match process.peers.forward(head, asked, REQUEST + WAY).await {
                Ok(Told::NotHere(reason)) => why = reason,
                Ok(told) => return Ok(Some(told)),
                Err(Unheard::Unknown) if !matches!(asked, Asked::Read(..)) => {
                    return Err(LOST.to_owned());
                }
                Err(Unheard::Unknown | Unheard::Untouched) => {}
            }
            tokio::time::sleep(AGAIN).await;
        }
        Err(why)
    }
}
