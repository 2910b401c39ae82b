//! The curator: records of a curated collection wait in a queue of proposals for a decision.
//!
//! Invariants:
//! - a proposal leaves its queue after its approved records were sent to the
//!   pending-update queues, and those that wait on were proposed again. Twice is harmless.
//!
//! Deliberately absent: force. Who may send to the pending-update queues and write pages decides
//! the service of queues and objects, by its permissions.

use std::time::Duration;

use bytes::Bytes;
use fader_blink::{Op, Record};
use fader_cloud::{Error, ErrorKind, MESSAGES_MAX, Receipt, Receive, Result};

use crate::catalogue::CollectionId;
use crate::database::Database;
use crate::message;
use crate::routing::{Due, Outgoing};

/// For how long proposals that a review looks at are hidden from others.
const HIDDEN: Duration = Duration::from_secs(60);
/// Messages that one review looks at, at most.
const MESSAGES_AT_ONCE: usize = 10_000;

/// A record that waits for approval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// Its key.
    pub key: Bytes,
    /// What is proposed.
    pub change: ProposedChange,
}

/// What a proposal does to a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProposedChange {
    /// Writes a record with these bytes.
    Put(Bytes),
    /// Writes these bytes if the key is there.
    Update(Bytes),
    /// Deletes the record.
    Delete,
}

/// What becomes of a proposal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It takes effect.
    Approve,
    /// It never does.
    Reject,
    /// It waits on.
    Wait,
}

/// What a review came to, in records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reviewed {
    /// Those that take effect at the next checkpoint.
    pub approved: u64,
    /// Those that never do.
    pub rejected: u64,
    /// Those that wait on.
    pub waiting: u64,
    /// Messages that cannot be read; they stay.
    pub damaged: u64,
}

impl Database {
    /// Asks `judge` about each record that waits for approval. Approved ones keep the time at which
    /// they were proposed: a newer write of their key wins.
    ///
    /// # Errors
    /// `NotFound`: no such collection. `Invalid`: it is not curated. `Denied`: its key is missing.
    /// Of the cloud; what was not decided waits on.
    pub async fn review(
        &self,
        collection: &str,
        judge: &mut (dyn FnMut(&Proposal) -> Verdict + Send),
    ) -> Result<Reviewed> {
        let collection = self.collection(collection).await?;
        if !collection.is_curated {
            let context = "records of the collection need no approval";
            return Err(Error::new(ErrorKind::Invalid, context));
        }
        let store = self.0.store.scope("review").of_tree(collection.id);
        let pending = self.0.pending(&store);
        let sealer = self.0.sealer(&collection)?;
        sealer.check()?;
        let queue = pending.proposals(collection.id);
        let outgoing = |records| Outgoing::of(&collection, &sealer, records);
        let mut done = Reviewed::default();
        let mut untouched: Vec<Receipt> = Vec::new();
        let (mut again, mut split): (Vec<Record>, Vec<Receipt>) = (Vec::new(), Vec::new());
        let how = Receive {
            max: MESSAGES_MAX,
            visibility: Some(HIDDEN),
            wait: Duration::ZERO,
        };
        for _ in 0..MESSAGES_AT_ONCE / MESSAGES_MAX {
            let received = store.0.queues.receive(&queue, &how).await?;
            if received.is_empty() {
                break;
            }
            for proposed in received {
                let part = message::from_text(&proposed.body);
                let part = part.and_then(|part| message::decode_part(collection.id, &sealer, part));
                let Ok(records) = part else {
                    done.damaged += 1;
                    untouched.push(proposed.receipt);
                    continue;
                };
                let count = records.len();
                let (mut approved, mut waiting) = (Vec::new(), Vec::new());
                for record in records {
                    match judge(&proposal(&store, collection.id, &sealer, &record).await?) {
                        Verdict::Approve => approved.push(record),
                        Verdict::Wait => waiting.push(record),
                        Verdict::Reject => done.rejected += 1,
                    }
                }
                done.approved += approved.len() as u64;
                done.waiting += waiting.len() as u64;
                if waiting.len() == count {
                    untouched.push(proposed.receipt);
                    continue;
                }
                pending.send(&[outgoing(approved).into_tree()]).await?;
                match waiting.is_empty() {
                    true => pending.remove(&queue, &[proposed.receipt]).await?,
                    false => {
                        again.extend(waiting);
                        split.push(proposed.receipt);
                    }
                }
            }
        }
        pending.send(&[outgoing(again).into_proposals()]).await?;
        pending.remove(&queue, &split).await?;
        for receipt in untouched {
            // Hidden for a while otherwise.
            drop(store.0.queues.hide(&queue, &receipt, Duration::ZERO).await);
        }
        if done.approved > 0 {
            self.checkpoint_later(vec![Due::of_tree(collection.id)]);
        }
        Ok(done)
    }
}

async fn proposal(
    store: &crate::store::Store,
    tree: CollectionId,
    sealer: &crate::sealing::Sealer,
    record: &Record,
) -> Result<Proposal> {
    let change = match &record.op {
        Op::Insert(payload) => ProposedChange::Put(store.payload(tree, sealer, payload).await?),
        Op::Update(payload) => ProposedChange::Update(store.payload(tree, sealer, payload).await?),
        Op::Delete => ProposedChange::Delete,
    };
    let key = record.key.clone();
    Ok(Proposal { key, change })
}
