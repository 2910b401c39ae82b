//! Requests that only the head can carry out, handed on to its process, and those that others hand
//! to this one.
//!
//! Invariants:
//! - X1 a request is handed on once: who gets one that is not for it says so.
//! - X2 a write is handed on again only while it is certain that nobody took it.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use fader_chain::{ChainId, Configuration, Envelope, Level, NodeId, Role};
use fader_services::Reason;
use fader_services::catalog::AccountId;
use fader_services::forward::{Asked, Told};
use fader_services::level::{self, Demand};
use fader_services::simpledb::Request;
use parking_lot::RwLock;
use tokio::runtime::Handle;

use super::route::AGAIN;
use super::{Cluster, Links};
use crate::member::Member;
use crate::peer::{Inbox, Reply, Unheard};
use crate::work::REQUEST;

/// How much longer the answer is waited for than the head takes at most.
const WAY: Duration = Duration::from_secs(1);
/// How long another process may take to say what its member waits for.
const LOOK: Duration = Duration::from_secs(1);

/// Carries out what another process hands on.
pub(crate) type Host =
    Box<dyn Fn(ChainId, Asked) -> Pin<Box<dyn Future<Output = Told> + Send>> + Send + Sync>;

/// Takes what comes from other processes to the members and the handle of this one.
pub(super) struct Door {
    pub(super) links: RwLock<BTreeMap<ChainId, Arc<Links>>>,
    pub(super) host: OnceLock<Host>,
    pub(super) runtime: Handle,
}

impl Inbox for Door {
    fn deliver(&self, chain: ChainId, envelope: Envelope) {
        if let Some(links) = self.links.read().get(&chain) {
            links.receive(envelope);
        }
    }

    fn serve(&self, chain: ChainId, asked: Asked, patience: Duration, reply: Reply) {
        let Some(host) = self.host.get() else {
            return reply.send(&Told::NotHere("the member begins".to_owned()));
        };
        let work = host(chain, asked);
        self.runtime.spawn(async move {
            // Whoever asked has given it up: nobody wants the answer.
            if let Ok(told) = tokio::time::timeout(patience, work).await {
                reply.send(&told);
            }
        });
    }
}

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

    /// The member that is here, if it serves.
    fn serving_here(&self, newest: &Configuration) -> Option<Arc<Member>> {
        let own = self.own()?;
        let seat = newest.seat(own)?;
        (seat.role == Role::Serving).then(|| self.member(own))?
    }

    /// Hands a request to a node that can carry it out, at first the head; nothing when it can be
    /// carried out here.
    ///
    /// # Errors
    /// In words, why nothing came of it, or why that is not known.
    pub(crate) async fn hand_on(&self, asked: &Asked) -> Result<Option<Told>, String> {
        let Some(process) = &self.process else {
            return Ok(None);
        };
        let end = Instant::now() + REQUEST;
        let mut why = Reason::NoMember.sentence().to_owned();
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
                Ok(Told::NotHere(reason)) => why = reason,
                Ok(told) => return Ok(Some(told)),
                Err(Unheard::Unknown) if matches!(asked, Asked::Write(..) | Asked::Catalog(_)) => {
                    return Err(Reason::Lost.sentence().to_owned());
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

    /// Whether a member is another process's, which alone knows what it waits for.
    pub(crate) fn is_of_another(&self, node: NodeId) -> bool {
        self.process.is_some() && self.own() != Some(node)
    }

    /// What a member of another process says that it waits for; none if it does not say.
    pub(crate) async fn waits_of(&self, node: NodeId) -> Option<Vec<String>> {
        // An older version has no such question.
        let process = self.process.as_ref();
        let process = process.filter(|_| self.version().is_third())?;
        let asked = process
            .peers()
            .forward(node, process.chain, &Asked::Why, LOOK);
        match asked.await {
            Ok(Told::Why(waits)) => Some(waits),
            Ok(_) | Err(_) => None,
        }
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
