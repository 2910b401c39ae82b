//! The pending-update queues of a database: names, sends, peeks and removes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fader_blink::PageId;
use fader_cloud::{
    Error, ErrorKind, MESSAGE_BYTES_MAX, MESSAGES_MAX, Peeked, QueueSettings, Queues, Receipt,
    Receive, Result,
};
use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt};

use crate::catalogue::{Collection, CollectionId, Dropped};
use crate::guard::Guards;
use crate::layout::{PendingQueues, Place};
use crate::message::{self};
use crate::routing::Routed;
use crate::store::{Store, is_passing};

/// Messages that one look at a queue takes, at most.
pub(crate) const PEEKED_MAX: usize = 1_000;
/// A receive that hides nothing from others.
const PEEK: Receive = Receive {
    max: MESSAGES_MAX,
    visibility: Some(Duration::ZERO),
    wait: Duration::ZERO,
};
/// For how long a transaction in the ATOMIC queue is left to the client that received it.
pub(crate) const ADOPTION: Duration = Duration::from_secs(30);
/// Calls of a commit that are on their way at once.
const SENDS_AT_ONCE: usize = 64;
/// Names in one list of queues, at most.
const LISTED_MAX: usize = 1_000;
/// How often a send is tried.
pub(crate) const TRIES: u32 = 6;
/// Messages are kept as long as a service of queues keeps any.
pub(crate) const RETENTION: Duration = Duration::from_secs(14 * 24 * 60 * 60);

/// The settings of all queues of a database.
pub(crate) fn queue_settings() -> QueueSettings {
    QueueSettings {
        visibility: ADOPTION,
        retention: RETENTION,
    }
}

/// A database's queues, counted in one scope.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending<'a> {
    pub(crate) store: &'a Store,
    pub(crate) database: &'a str,
    /// A record a message, sent one after the other.
    pub(crate) is_one_by_one: bool,
    pub(crate) guards: Guards,
}

/// One queue of a tree.
pub(crate) type Address = (CollectionId, Place);

impl Pending<'_> {
    pub(crate) fn queues(&self) -> &dyn Queues {
        &*self.store.0.queues
    }

    /// Queues whose requests count for a tree.
    pub(crate) fn queues_for(&self, tree: CollectionId) -> Arc<dyn Queues> {
        self.store.of_tree(tree).0.queues
    }

    /// The queue of records that wait for approval.
    pub(crate) fn proposals(&self, collection: CollectionId) -> String {
        self.queue(collection, Place::Proposals)
    }

    /// The queues that a new tree needs.
    pub(crate) fn queues_of(&self, tree: &Collection) -> Vec<String> {
        let numbers = 0..tree.queues.numbered();
        let mut places: Vec<Place> = numbers.map(Place::Number).collect();
        let has_leaves = tree.queues == PendingQueues::PerLeaf;
        places.extend(has_leaves.then_some(Place::Leaf(tree.root)));
        places.extend(tree.is_curated.then_some(Place::Proposals));
        let name = |place| self.queue(tree.id, place);
        places.into_iter().map(name).collect()
    }

    /// A queue of a tree.
    pub(crate) fn queue(&self, tree: CollectionId, place: Place) -> String {
        place.name(self.database, tree)
    }

    /// The leaves of a tree that have a queue, also those that nothing leads to. None unless it
    /// has queues of leaves.
    ///
    /// # Errors
    /// Of the queues.
    pub(crate) async fn leaves_with_queues(
        &self,
        tree: CollectionId,
        queues: PendingQueues,
    ) -> Result<Vec<PageId>> {
        if queues != PendingQueues::PerLeaf {
            return Ok(Vec::new());
        }
        let all = Place::prefix(self.database, tree);
        let (mut leaves, mut prefixes) = (Vec::new(), vec![all.clone()]);
        while let Some(prefix) = prefixes.pop() {
            let names = self.queues_for(tree).list(&prefix).await?;
            if LISTED_MAX <= names.len() {
                // Some may be left out: their ids tell them apart.
                let digits = "0123456789abcdef".chars();
                prefixes.extend(digits.map(|digit| format!("{prefix}{digit}")));
                continue;
            }
            let rests = names.iter().filter_map(|name| name.strip_prefix(&all[..]));
            leaves.extend(rests.filter_map(Place::leaf_of));
        }
        leaves.sort_unstable();
        Ok(leaves)
    }

    /// Creates a queue, unless it is there.
    pub(crate) async fn create(&self, queue: &str) -> Result<()> {
        self.queues().create(queue, &queue_settings()).await
    }

    /// Deletes the queues of a tree that was dropped; how many were there.
    ///
    /// # Errors
    /// Of the queues.
    pub(crate) async fn delete_queues(&self, tree: &Dropped) -> Result<u64> {
        let leaves = self.leaves_with_queues(tree.id, tree.queues).await?;
        let numbers = (0..tree.queues.numbered()).map(Place::Number);
        let places = numbers.chain([Place::Proposals, Place::Hint]);
        let places = places.chain(leaves.into_iter().map(Place::Leaf));
        let mut deleted = 0;
        for place in places {
            deleted += u64::from(self.delete(tree.id, place).await?);
        }
        Ok(deleted)
    }

    /// Deletes a queue of a tree; whether it was there.
    ///
    /// # Errors
    /// Of the queues.
    pub(crate) async fn delete(&self, tree: CollectionId, place: Place) -> Result<bool> {
        match self.queues_for(tree).delete(&self.queue(tree, place)).await {
            Ok(()) => Ok(true),
            Err(error) if error.kind == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Sends records to their queues.
    ///
    /// # Errors
    /// `Ambiguous`: some may have been sent. Any other: none was.
    pub(crate) async fn send(&self, parts: &[Routed]) -> Result<()> {
        self.send_texts(self.texts(parts)?).await
    }

    /// The messages of records by their queues.
    pub(crate) fn texts(&self, parts: &[Routed]) -> Result<BTreeMap<Address, Vec<String>>> {
        let entropy = &*self.store.0.runtime.entropy;
        let mut texts: BTreeMap<Address, Vec<String>> = BTreeMap::new();
        for part in parts {
            for (place, records) in &part.by_place {
                let size = if self.is_one_by_one { 1 } else { records.len() };
                let texts = texts.entry((part.tree, *place)).or_default();
                for records in records.chunks(size) {
                    let parts = message::encode_parts(part.tree, &part.sealer, records, entropy)?;
                    texts.extend(parts.iter().map(|part| message::to_text(part)));
                }
            }
        }
        Ok(texts)
    }

    pub(crate) async fn send_texts(&self, texts: BTreeMap<Address, Vec<String>>) -> Result<()> {
        let messages_max = if self.is_one_by_one { 1 } else { MESSAGES_MAX };
        let sends = texts
            .iter()
            .flat_map(|(at, texts)| calls(texts, messages_max).map(move |call| (*at, call)));
        let at_once = if self.is_one_by_one { 1 } else { SENDS_AT_ONCE };
        let sends = sends.map(|(at, texts)| self.send_to(at, texts));
        let sends = stream::iter(sends.collect::<Vec<_>>()).buffered(at_once);
        let outcomes: Vec<Result<()>> = sends.collect().await;
        let any_sent = outcomes.iter().any(Result::is_ok);
        match outcomes.into_iter().find_map(Result::err) {
            None => Ok(()),
            Some(error) if any_sent => {
                let context = "a part of the transaction may have been sent";
                Err(Error::caused(ErrorKind::Ambiguous, context, error))
            }
            Some(error) => Err(error),
        }
    }

    /// Sends texts to a queue. Without a queue of the leaf they go to that of the tree: a vacuum
    /// deleted it, or the collection was dropped.
    async fn send_to(&self, at: Address, texts: &[String]) -> Result<()> {
        let (tree, place) = at;
        let store = self.store.of_tree(tree);
        let counted = Pending {
            store: &store,
            ..*self
        };
        let queue = self.queue(tree, place);
        let sent = counted.send_surely(&queue, texts).await;
        match (sent, place) {
            (Err(error), Place::Leaf(_)) if error.kind == ErrorKind::NotFound => {
                let queue = self.queue(tree, Place::Number(0));
                counted.send_surely(&queue, texts).await
            }
            (sent, _) => sent,
        }
    }

    /// Sends texts in one call, again where that is safe: each is as good twice.
    ///
    /// # Errors
    /// `Ambiguous`: some may have been sent. Any other: none was.
    pub(crate) async fn send_surely(&self, queue: &str, texts: &[String]) -> Result<()> {
        let mut rest = texts.to_vec();
        let (mut tries, mut is_unknown) = (1, false);
        loop {
            let mut failed = None;
            match self.queues().send(queue, &rest).await {
                Ok(sent) => {
                    let outcomes = rest.into_iter().zip(sent);
                    let mut again = Vec::new();
                    for (text, outcome) in outcomes {
                        match outcome {
                            Ok(_) => is_unknown = true,
                            Err(error) => {
                                again.push(text);
                                failed = Some(error);
                            }
                        }
                    }
                    rest = again;
                }
                Err(error) => failed = Some(error),
            }
            let Some(error) = failed else {
                return Ok(());
            };
            is_unknown |= error.kind == ErrorKind::Ambiguous;
            if TRIES <= tries || !is_passing(&error) {
                let kind = match is_unknown {
                    true => ErrorKind::Ambiguous,
                    false => error.kind,
                };
                let context = format!("sending to queue {queue:?}");
                return Err(Error::caused(kind, context, error));
            }
            self.store.pause(tries).await;
            tries += 1;
        }
    }

    /// Messages of a queue, hidden from no other client: all at once where its service shows them,
    /// else ten.
    ///
    /// # Errors
    /// Of the queues.
    pub(crate) async fn peek(&self, queue: &str) -> Result<Peeked> {
        if let Some(peeked) = self.queues().peek(queue, PEEKED_MAX).await? {
            return Ok(peeked);
        }
        Ok(Peeked {
            messages: self.queues().receive(queue, &PEEK).await?,
            is_all: false,
        })
    }

    /// Removes messages. One that stays is worked on again, without effect.
    pub(crate) async fn remove(&self, queue: &str, receipts: &[Receipt]) -> Result<()> {
        let removes = receipts
            .chunks(MESSAGES_MAX)
            .map(|receipts| self.queues().remove(queue, receipts));
        for outcome in join_all(removes).await {
            match outcome {
                Err(error) if !is_passing(&error) => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

/// Texts in calls to a queue, each within the bounds of one.
fn calls(texts: &[String], messages_max: usize) -> impl Iterator<Item = &[String]> {
    let mut rest = texts;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let count = rest.iter().take(messages_max).take_while(|text| {
            bytes += text.len();
            bytes <= MESSAGE_BYTES_MAX
        });
        let count = count.count().max(1).min(rest.len());
        let (call, behind) = rest.split_at(count);
        rest = behind;
        (!call.is_empty()).then_some(call)
    })
}
