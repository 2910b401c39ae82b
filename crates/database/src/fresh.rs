//! Fresh reads: what is committed and not yet in pages overlays them.
//!
//! ```text
//!  ATOMIC queue ──▶ queues of leaves ──▶ queues of trees ──▶ pages      the way of a record, and
//!                                                                       of the look
//! ```
//!
//! Invariants:
//! - queues are looked at in the order in which records go through them, and pages after
//!   that. So a record that was acknowledged before is seen at one of these places at least.
//!
//! Left out: queues that do not show all that they have, as those of SQS.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use fader_blink::Record;
use fader_cloud::{Queues, Received, Result};

use crate::catalogue::{Collection, CollectionId};
use crate::layout::Place;
use crate::message::{self, Frame};
use crate::pending::Pending;
use crate::sealing::Sealer;
use crate::store::key;
use crate::transaction::Transaction;

/// Messages of a queue that are looked at, at most.
const MESSAGES_MAX: usize = 100_000;

/// What was pending in a tree, and since when its pages must be newer.
#[derive(Debug, Default)]
pub(crate) struct Fresh {
    pub(crate) since: Duration,
    by_key: BTreeMap<Bytes, Vec<Record>>,
}

impl Fresh {
    fn add(&mut self, records: Vec<Record>) {
        for record in records {
            self.by_key
                .entry(record.key.clone())
                .or_default()
                .push(record);
        }
    }

    /// The pending records of keys in `[from, until)`, in the order of keys.
    pub(crate) fn records(
        &self,
        from: &[u8],
        until: Option<&[u8]>,
    ) -> impl Iterator<Item = &Record> {
        let records = self.by_key.range(Bytes::copy_from_slice(from)..);
        let until = until.map(Bytes::copy_from_slice);
        let is_before = move |key: &Bytes| until.as_ref().is_none_or(|until| key < until);
        records
            .take_while(move |(key, _)| is_before(key))
            .flat_map(|(_, records)| records)
    }
}

/// Trees that are looked for, with what was found.
type Looked = BTreeMap<CollectionId, (Collection, Sealer, Fresh)>;

impl Transaction {
    /// Makes this transaction's reads of a collection fresh: they see all that was acknowledged
    /// before this call, also what no page has. Whether the collection's queues allow it: those in
    /// a bucket do, those of SQS do not; then reads are as before.
    ///
    /// # Errors
    /// `NotFound`: no such collection. Of the cloud.
    pub async fn refresh(&mut self, collection: &str) -> Result<bool> {
        let inner = self.database.0.clone();
        inner.refresh_catalogue().await?;
        let found = self.database.collection(collection).await?;
        let mut looked = Looked::new();
        for tree in std::iter::once(&found).chain(found.index_trees()) {
            let sealer = inner.sealer(tree)?;
            looked.insert(tree.id, (tree.clone(), sealer, Fresh::default()));
        }
        let pending = inner.pending(&self.read);
        if !pending.look_at_transactions(&mut looked).await?
            || !pending.look_at_updates(&mut looked).await?
        {
            return Ok(false);
        }
        // Behind the look: a page that was shown before may lack what left a queue since.
        let since = inner.store.0.runtime.clock.monotonic();
        for (id, (_, _, mut fresh)) in looked {
            fresh.since = since;
            let records = fresh.by_key.values().flatten();
            inner
                .session()
                .observe(&records.cloned().collect::<Vec<_>>());
            self.fresh.insert(id, fresh);
        }
        Ok(true)
    }
}

/// All messages of a queue; none unless its service shows all.
async fn peek_all(queues: &dyn Queues, queue: &str) -> Result<Option<Vec<Received>>> {
    let peeked = queues.peek(queue, MESSAGES_MAX).await?;
    let whole = peeked.filter(|peeked| peeked.is_all);
    Ok(whole.map(|peeked| peeked.messages))
}

impl Pending<'_> {
    /// Looks at whole transactions; whether the queue shows them.
    async fn look_at_transactions(&self, looked: &mut Looked) -> Result<bool> {
        let Some(messages) = peek_all(&*self.store.0.queues, &self.atomic()).await? else {
            return Ok(false);
        };
        for message in messages {
            // Damaged messages stay in their queues, and are counted by checkpoints.
            let Ok(frame) = message::from_text(&message.body).and_then(Frame::decode) else {
                continue;
            };
            let parts = match frame {
                Frame::Transaction(parts) => parts,
                Frame::Abort => continue,
                // Without its claim it is not committed, or was sent on whole.
                Frame::Pointer(claim) => match self.store.object(&key("claims", claim)).await? {
                    Some((bytes, _)) => match Frame::decode(bytes) {
                        Ok(Frame::Transaction(parts)) => parts,
                        _ => continue,
                    },
                    None => continue,
                },
            };
            for (id, part) in parts {
                if let Some((_, sealer, fresh)) = looked.get_mut(&id) {
                    fresh.add(message::decode_part(id, sealer, part)?);
                }
            }
        }
        Ok(true)
    }

    /// Looks at pending updates; whether the queues show them.
    async fn look_at_updates(&self, looked: &mut Looked) -> Result<bool> {
        for (id, (tree, sealer, fresh)) in looked {
            let queues = self.queues_for(*id);
            // Records of leaves may be sent on to the queue of the tree meanwhile.
            let leaves = self.leaves_with_queues(*id, tree.queues).await?;
            let numbers = (0..tree.queues.numbered()).map(Place::Number);
            for place in leaves.into_iter().map(Place::Leaf).chain(numbers) {
                let queue = self.queue(*id, place);
                let Some(messages) = peek_all(&*queues, &queue).await? else {
                    return Ok(false);
                };
                for message in messages {
                    let part = message::from_text(&message.body);
                    let records = part.and_then(|part| message::decode_part(*id, sealer, part));
                    fresh.add(records.unwrap_or_default());
                }
            }
        }
        Ok(true)
    }
}
