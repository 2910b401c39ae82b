//! The pending-update queues of a database and its ATOMIC queue: sending, and finishing.
//!
//! One ATOMIC queue serves all clients: the client that receives a transaction sends its records
//! on, so no client's end leaves one behind.
//!
//! Invariants:
//! - PENDING-1 a transaction leaves the ATOMIC queue after the sends of all its records were
//!   answered with success. Twice is harmless: records repeat without effect.
//! - PENDING-2 a pointer is sent before its claim object is created; the claim's creation is the
//!   commit. A client that gives a transaction up occupies its claim with an abort, which stays.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fader_blink::PageId;
use fader_cloud::{
    Error, ErrorKind, MESSAGE_BYTES_MAX, MESSAGES_MAX, QueueSettings, Queues, Receipt, Receive,
    Received, Result,
};
use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt};
use object_store::PutMode;

use crate::catalogue::{Collection, CollectionId, Dropped};
use crate::claim::{Fate, OnPointer, Standing, fate, on_pointer};
use crate::guard::{Guard, Guards};
use crate::layout::{PendingQueues, Place};
use crate::message::{self, Frame, Part};
use crate::routing::{Outgoing, Routed};
use crate::sealing::Sealer;
use crate::store::{Put, Store, is_passing, key};

/// For how long a transaction in the ATOMIC queue is left to the client that received it.
const ADOPTION: Duration = Duration::from_secs(30);
/// Calls of a commit that are on their way at once.
const SENDS_AT_ONCE: usize = 64;
/// Names in one list of queues, at most.
const LISTED_MAX: usize = 1_000;
/// How often a send is tried.
const TRIES: u32 = 6;
/// Messages are kept as long as a service of queues keeps any.
const RETENTION: Duration = Duration::from_secs(14 * 24 * 60 * 60);

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
type Address = (CollectionId, Place);

/// Transactions that were received, to be sent on. Messages that cannot be read are left out: they
/// stay.
#[derive(Debug, Default)]
pub(crate) struct Adopting {
    /// Encoded records by their tree.
    pub(crate) parts: BTreeMap<CollectionId, Vec<Bytes>>,
    receipts: Vec<Receipt>,
    claims: Vec<u128>,
}

/// Records of transactions that were received, as far as this client reads them.
#[derive(Debug, Default)]
pub(crate) struct Opened {
    pub(crate) parts: Vec<Outgoing>,
    /// Texts of parts whose key was not granted to this client: a checkpoint that has it reads
    /// them.
    pub(crate) sealed: BTreeMap<Address, Vec<String>>,
}

impl Pending<'_> {
    fn queues(&self) -> &dyn Queues {
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
        places.extend(has_leaves.then(|| Place::Leaf(tree.root())));
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

    /// The queue of whole transactions.
    pub(crate) fn atomic(&self) -> String {
        format!("{}-atomic", self.database)
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
    fn texts(&self, parts: &[Routed]) -> Result<BTreeMap<Address, Vec<String>>> {
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

    async fn send_texts(&self, texts: BTreeMap<Address, Vec<String>>) -> Result<()> {
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

    /// Commits a transaction by one message, or by a claim object when it is too large for one.
    ///
    /// # Errors
    /// `Ambiguous`: it may have been committed. Any other: it was not and will not be.
    pub(crate) async fn commit(&self, parts: &[Outgoing]) -> Result<()> {
        let entropy = &*self.store.0.runtime.entropy;
        let mut whole: Vec<Part> = Vec::new();
        for part in parts {
            let id = part.tree.id;
            let encoded = message::encode_parts(id, &part.sealer, &part.records, entropy)?;
            let encoded = encoded.into_iter();
            whole.extend(encoded.map(|part| (id, part)));
        }
        let is_large = message::FRAME_BYTES_MAX < message::transaction_bytes(&whole);
        let frame = Frame::Transaction(whole).encode();
        let queue = self.atomic();
        if !is_large {
            return self.send_surely(&queue, &[message::to_text(&frame)]).await;
        }
        if message::CLAIM_BYTES_MAX < frame.len() {
            let (bytes, max) = (frame.len(), message::CLAIM_BYTES_MAX);
            let context = format!("a transaction of {bytes} bytes: at most {max} are possible");
            return Err(Error::new(ErrorKind::Invalid, context));
        }
        let runtime = &self.store.0.runtime;
        let claim = runtime.random_id();
        let pointer = message::to_text(&Frame::Pointer(claim).encode());
        // A pointer without a claim is no transaction: nothing is committed yet.
        let not_sent = |error: Error| match error.kind {
            ErrorKind::Ambiguous => {
                let kind = ErrorKind::Unavailable { retry_after: None };
                Error::caused(kind, "nothing was committed", error)
            }
            _ => error,
        };
        self.send_surely(&queue, &[pointer])
            .await
            .map_err(not_sent)?;
        self.claim(claim, frame).await
    }

    /// Creates a claim object, which commits its transaction.
    async fn claim(&self, claim: u128, frame: Bytes) -> Result<()> {
        let key = key("claims", claim);
        let (mut tries, mut any_unanswered) = (1, false);
        loop {
            let error = match self.store.put(&key, frame.clone(), PutMode::Create).await {
                Ok(Put::Landed(_)) => return Ok(()),
                // An earlier try landed, or another client gave the transaction up.
                Ok(Put::Refused) => {
                    let found = self.claim_frame(claim).await;
                    let found = found.map(|frame| Standing::of(frame.as_ref()));
                    return told(found.map(|found| fate(found, any_unanswered)), None);
                }
                Ok(Put::Unknown(error)) => {
                    any_unanswered = true;
                    error
                }
                Err(error) => error,
            };
            if TRIES <= tries || !is_passing(&error) {
                // Occupies the name, so that a PUT under way cannot commit any more.
                let found = self.give_up(claim).await;
                let found = found.map(|frame| Standing::of(Some(&frame)));
                return told(found.map(|found| fate(found, any_unanswered)), Some(error));
            }
            self.store.pause(tries).await;
            tries += 1;
        }
    }

    /// The object under a claim's name.
    async fn claim_frame(&self, claim: u128) -> Result<Option<Frame>> {
        let found = self.store.object(&key("claims", claim)).await?;
        found.map(|(bytes, _)| Frame::decode(bytes)).transpose()
    }

    /// What stands under a claim's name once nothing else can.
    async fn give_up(&self, claim: u128) -> Result<Frame> {
        let (key, abort) = (key("claims", claim), Frame::Abort.encode());
        for tries in 1..=TRIES {
            match self.store.put(&key, abort.clone(), PutMode::Create).await {
                Ok(Put::Landed(_)) => return Ok(Frame::Abort),
                Ok(Put::Refused) => {
                    if let Some((found, _)) = self.store.object(&key).await? {
                        return Frame::decode(found);
                    }
                }
                Ok(Put::Unknown(_)) => {}
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(error),
            }
            self.store.pause(tries).await;
        }
        let context = format!("claim {claim:032x}: neither there nor given up");
        Err(Error::new(
            ErrorKind::Unavailable { retry_after: None },
            context,
        ))
    }

    /// Receives transactions.
    ///
    /// # Errors
    /// Of the store or the queues.
    pub(crate) async fn receive(&self) -> Result<Adopting> {
        let how = Receive {
            max: MESSAGES_MAX,
            visibility: Some(ADOPTION),
            wait: Duration::ZERO,
        };
        let mut adopting = Adopting::default();
        for message in self.queues().receive(&self.atomic(), &how).await? {
            let (parts, claim) = match self.transaction(&message).await {
                Ok(Some(found)) => found,
                Ok(None) => continue,
                Err(error) if error.kind == ErrorKind::Malformed => continue,
                Err(error) => return Err(error),
            };
            for (tree, records) in parts {
                adopting.parts.entry(tree).or_default().push(records);
            }
            adopting.claims.extend(claim);
            adopting.receipts.push(message.receipt);
        }
        Ok(adopting)
    }

    /// Reads the records of received transactions. `trees` has those that exist, as the catalogue
    /// had them after the messages were received: a collection that was dropped takes its records
    /// with it.
    pub(crate) fn open(
        adopting: &mut Adopting,
        trees: BTreeMap<CollectionId, (Collection, Sealer)>,
    ) -> Opened {
        let mut opened = Opened::default();
        for (id, (tree, sealer)) in trees {
            let mut records = Vec::new();
            for part in adopting.parts.remove(&id).unwrap_or_default() {
                match message::decode_part(id, &sealer, part.clone()) {
                    Ok(read) => records.extend(read),
                    Err(_) => {
                        let place = match tree.is_curated {
                            true => Place::Proposals,
                            false => Place::of_tree(tree.queues, &part),
                        };
                        let texts = opened.sealed.entry((id, place)).or_default();
                        texts.push(message::to_text(&part));
                    }
                }
            }
            // A client without the key seals nothing: it read nothing either.
            if !records.is_empty() {
                opened.parts.push(Outgoing {
                    tree,
                    sealer,
                    records,
                });
            }
        }
        opened
    }

    /// Sends the records of received transactions on, and removes their messages; their number.
    ///
    /// # Errors
    /// Of the store or the queues. What was not finished is received again.
    pub(crate) async fn adopt(
        &self,
        adopting: Adopting,
        routed: &[Routed],
        sealed: BTreeMap<Address, Vec<String>>,
    ) -> Result<u64> {
        let queue = self.atomic();
        let mut texts = self.texts(routed)?;
        for (at, parts) in sealed {
            texts.entry(at).or_default().extend(parts);
        }
        if !self.guards.has(Guard::AtomicUntilSent) {
            self.remove(&queue, &adopting.receipts).await?;
        }
        self.send_texts(texts).await?;
        if self.guards.has(Guard::AtomicUntilSent) {
            self.remove(&queue, &adopting.receipts).await?;
        }
        for claim in adopting.claims {
            self.store.delete(&key("claims", claim)).await?;
        }
        Ok(adopting.receipts.len() as u64)
    }

    /// The records of a message in the ATOMIC queue, with the claim to free; none when it must
    /// wait.
    async fn transaction(&self, message: &Received) -> Result<Option<(Vec<Part>, Option<u128>)>> {
        match Frame::decode(message::from_text(&message.body)?)? {
            Frame::Transaction(parts) => Ok(Some((parts, None))),
            Frame::Abort => Ok(Some((Vec::new(), None))),
            Frame::Pointer(claim) => {
                let found = self.claim_frame(claim).await?;
                let standing = Standing::of(found.as_ref());
                let frame = match on_pointer(standing, message.receives, self.guards) {
                    OnPointer::Wait => return Ok(None),
                    OnPointer::Occupy => self.give_up(claim).await?,
                    OnPointer::SendOn | OnPointer::Drop => found.unwrap_or(Frame::Abort),
                };
                Ok(Some(match frame {
                    Frame::Transaction(parts) => (parts, Some(claim)),
                    // Its name stays occupied: a slow client must not create it.
                    Frame::Abort | Frame::Pointer(_) => (Vec::new(), None),
                }))
            }
        }
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

/// The outcome of a commit by a claim object. `cause`: why its creation was given up.
fn told(fate: Result<Fate>, cause: Option<Error>) -> Result<()> {
    let (fate, unread) = match fate {
        Ok(fate) => (fate, None),
        Err(error) => (Fate::Unknown, Some(error)),
    };
    let (kind, context) = match fate {
        Fate::Committed => return Ok(()),
        Fate::GivenUp => (
            ErrorKind::Unavailable { retry_after: None },
            "the transaction took too long and was given up: try again",
        ),
        Fate::Unknown => (
            ErrorKind::Ambiguous,
            "the transaction may have been committed",
        ),
    };
    Err(match cause.or(unread) {
        Some(cause) => Error::caused(kind, context, cause),
        None => Error::new(kind, context),
    })
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
