//! What a read is answered from: committed state, with the unsettled operations over it where it is
//! an eventual one.
//!
//! A member's thread gathers it; the caller's thread answers, so that a long Select holds nobody
//! up.
//!
//! Invariants:
//! - W1 operations and snapshot are of one moment: an operation leaves when its settlement is
//!   applied.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fader_chain::{Level, Operation, Register, View};
use fader_services::catalog::AccountId;
use fader_services::level::{self, Demand, Receipt};
use fader_services::simpledb::{self, Answered, Error, Request, Tentative};
use fader_services::{CollectionId, KeyBuilder, Table, ViewError, item_key};
use tokio::sync::oneshot;

use crate::member::Member;
use crate::member::desk::{domain_of, reads_keys};
use crate::member::following::{Followed, Following};
use crate::member::pending::Work;
use crate::member::thread::Job;
use crate::storage::engine::Snapshot;

/// How long one member may take for a read.
pub(crate) const READ: Duration = Duration::from_secs(1);

/// What a read may be answered from.
pub(crate) enum Showing {
    /// The committed state.
    Snapshot(Snapshot),
    /// The same with what is not settled over it.
    Tentative(Snapshot, Box<Tentative>),
    /// One item.
    Item(Snapshot, Box<Item>),
    /// The answer, with what is told of it: the state was no engine's.
    Answered(Box<Result<(Answered, Receipt), Error>>),
}

/// What members show of one item.
pub(crate) struct Item {
    /// What is committed of it.
    pub(crate) committed: Register,
    /// The same with what is not settled.
    pub(crate) shown: Register,
}

impl Item {
    /// What is committed of the item whose place a request asked to be told, if it did and the
    /// domain is there.
    pub(crate) fn committed(
        view: &dyn View,
        account: &AccountId,
        request: &Request,
        demand: &Demand,
    ) -> Result<Option<Item>, ViewError> {
        let Request::GetAttributes { item, .. } = request else {
            return Ok(None);
        };
        if demand.level == level::Level::Default {
            return Ok(None);
        }
        let Some(entry) = domain_of(view, account, request, demand)? else {
            return Ok(None);
        };
        let committed = register(view, &item_key(entry.collection, item.as_bytes()))?;
        let shown = committed.clone();
        Ok(Some(Item { committed, shown }))
    }

    /// What is told of an answer about it.
    pub(crate) fn receipt(&self, request: &Request) -> Receipt {
        let stamp = self.shown.newest();
        let version = self.committed.version;
        Receipt {
            stamp: Some(stamp).filter(|stamp| *stamp != Default::default()),
            version: Some(version).filter(|version| *version != Default::default()),
            tentative: simpledb::is_tentative(request, &self.committed, &self.shown),
            ..Receipt::default()
        }
    }
}

impl Showing {
    /// Nothing can be shown: the answer says why.
    pub(crate) fn failed(error: impl Into<Error>) -> Showing {
        Showing::Answered(Box::new(Err(error.into())))
    }

    /// What an eventual read of one member is answered from: `operations` gives those that are not
    /// settled of the registers from one key to another.
    pub(crate) fn eventual(
        snapshot: Snapshot,
        collection: CollectionId,
        request: &Request,
        operations: impl FnOnce(&[u8], &[u8]) -> Vec<Arc<Operation>>,
    ) -> Result<Showing, ViewError> {
        match request {
            Request::GetAttributes { item, .. } => {
                let key = item_key(collection, item.as_bytes());
                let committed = register(&*snapshot, &key)?;
                let mut shown = committed.clone();
                let end = [&key[..], &[0]].concat();
                let operations = operations(&key, &end);
                operations
                    .iter()
                    .for_each(|it| shown.merge(&it.ops, it.stamp));
                let item = Item { committed, shown };
                Ok(Showing::Item(snapshot, Box::new(item)))
            }
            Request::Select { .. } | Request::Query { .. } => {
                let items = KeyBuilder::new(collection, Table::Items);
                let (start, end) = (items.clone().build(), items.build_end());
                let operations = operations(&start, &end);
                let operations = operations.iter().map(|operation| &**operation);
                let tentative = Tentative::of(&*snapshot, operations)?;
                Ok(Showing::Tentative(snapshot, Box::new(tentative)))
            }
            // What is counted and listed is committed (2.7).
            _ => Ok(Showing::Snapshot(snapshot)),
        }
    }
}

fn register(view: &dyn View, key: &Bytes) -> Result<Register, ViewError> {
    let stored = view.get(key)?;
    let register = stored.map(Register::decode).transpose()?;
    Ok(register.unwrap_or_default())
}

/// What a member shows at a level, if it does in time, and what the session has seen then.
pub(crate) async fn ask(
    member: &Member,
    account: &AccountId,
    (request, demand, session): (&Request, &Demand, &Following),
    (level, time): (Level, Duration),
) -> Option<(Showing, Option<Box<Followed>>)> {
    let (reply, answer) = oneshot::channel();
    let work = Work::Read {
        account: account.clone(),
        request: request.clone(),
        demand: demand.clone(),
        session: session.clone(),
        reply,
    };
    let job = Job::Read(Box::new(work), level);
    member.enqueue(job).ok()?;
    tokio::time::timeout(time, answer).await.ok()?.ok()?.ok()
}

/// Answers from what a member shows; a scan beside the threads that serve.
pub(crate) async fn answer(
    member: Arc<Member>,
    showing: Showing,
    account: &AccountId,
    request: &Request,
    demand: &Demand,
) -> Result<(Answered, Receipt), Error> {
    let showing = match showing {
        Showing::Snapshot(snapshot) => {
            match Item::committed(&*snapshot, account, request, demand)? {
                Some(item) => Showing::Item(snapshot, Box::new(item)),
                None => Showing::Snapshot(snapshot),
            }
        }
        other => other,
    };
    if reads_keys(request) || matches!(showing, Showing::Answered(_)) {
        return member.answer_from(showing, account, request, demand);
    }
    let (account, request, demand) = (account.clone(), request.clone(), demand.clone());
    let answered = tokio::task::spawn_blocking(move || {
        member.answer_from(showing, &account, &request, &demand)
    });
    answered
        .await
        .unwrap_or_else(|error| Err(ViewError(error.to_string()).into()))
}
