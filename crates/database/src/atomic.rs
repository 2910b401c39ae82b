//! The ATOMIC queue of a database: committing whole transactions, and finishing them.
//!
//! One queue serves all clients: the client that takes a transaction sends its records on, so no
//! client's end leaves one behind.
//!
//! Invariants:
//! - ATOMIC-1 a transaction leaves the ATOMIC queue after the sends of all its records were
//!   answered with success. Twice is harmless: records repeat without effect.
//! - ATOMIC-2 a pointer is sent before its claim object is created; the claim's creation is the
//!   commit. A client that gives a transaction up occupies its claim with an abort, which stays.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use fader_cloud::{Error, ErrorKind, MESSAGES_MAX, Receipt, Receive, Received, Result};
use object_store::PutMode;

use crate::catalogue::{Collection, CollectionId};
use crate::claim::{Fate, OnPointer, Standing, fate, on_pointer};
use crate::guard::Guard;
use crate::layout::Place;
use crate::message::{self, Frame, Part};
use crate::pending::{ADOPTION, Address, PEEKED_MAX, Pending, TRIES};
use crate::routing::{Outgoing, Routed};
use crate::sealing::Sealer;
use crate::store::{Put, is_passing, key};

/// Transactions that were received, to be sent on. Messages that cannot be read are left out: they
/// stay.
#[derive(Debug, Default)]
pub(crate) struct Adopting {
    /// Encoded records by their tree.
    pub(crate) parts: BTreeMap<CollectionId, Vec<Bytes>>,
    receipts: Vec<Receipt>,
    claims: Vec<u128>,
    /// Whether there may be more.
    pub(crate) is_more: bool,
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
    /// The queue of whole transactions.
    pub(crate) fn atomic(&self) -> String {
        format!("{}-atomic", self.database)
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

    /// Transactions to send on. Where the queue shows its messages none is hidden from others: that
    /// would cost a write for each. Pointers that have to wait are received, which counts how
    /// often, and so are messages behind many that cannot be read.
    ///
    /// # Errors
    /// Of the store or the queues.
    pub(crate) async fn transactions(&self) -> Result<Adopting> {
        let Some(peeked) = self.queues().peek(&self.atomic(), PEEKED_MAX).await? else {
            return self.receive().await;
        };
        let mut adopting = Adopting::default();
        let is_waiting = self.read(peeked.messages, &mut adopting).await?;
        adopting.is_more = is_waiting || !peeked.is_all;
        match adopting.is_more && adopting.receipts.is_empty() {
            true => self.receive().await,
            false => Ok(adopting),
        }
    }

    async fn receive(&self) -> Result<Adopting> {
        let how = Receive {
            max: MESSAGES_MAX,
            visibility: Some(ADOPTION),
            wait: Duration::ZERO,
        };
        let mut adopting = Adopting::default();
        let received = self.queues().receive(&self.atomic(), &how).await?;
        self.read(received, &mut adopting).await?;
        adopting.is_more = !adopting.receipts.is_empty();
        Ok(adopting)
    }

    /// Adds the transactions of messages; whether a pointer has to wait.
    async fn read(&self, messages: Vec<Received>, adopting: &mut Adopting) -> Result<bool> {
        let mut is_waiting = false;
        for message in messages {
            let (parts, claim) = match self.transaction(&message).await {
                Ok(Some(found)) => found,
                Ok(None) => {
                    is_waiting = true;
                    continue;
                }
                Err(error) if error.kind == ErrorKind::Malformed => continue,
                Err(error) => return Err(error),
            };
            for (tree, records) in parts {
                adopting.parts.entry(tree).or_default().push(records);
            }
            adopting.claims.extend(claim);
            adopting.receipts.push(message.receipt);
        }
        Ok(is_waiting)
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

    /// Sends the records of received transactions on, and removes their messages.
    ///
    /// # Errors
    /// Of the store or the queues. What was not finished is received again.
    pub(crate) async fn adopt(
        &self,
        adopting: Adopting,
        routed: &[Routed],
        sealed: BTreeMap<Address, Vec<String>>,
    ) -> Result<()> {
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
        Ok(())
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
