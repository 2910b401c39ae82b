//! Ranges of keys: leaf after leaf, with those that follow read ahead in parallel.

use bytes::Bytes;
use fader_blink::Payload;
use fader_cloud::Result;
use futures_util::future::try_join_all;

use super::{KeyValue, Transaction, Write};
use crate::catalogue::{Collection, CollectionId};
use crate::level::Level;
use crate::store::Held;
use crate::tree::AHEAD_MAX;

/// Where a range ended.
#[derive(Debug)]
pub(super) struct Scan {
    collection: CollectionId,
    last: Bytes,
    /// Leaves that the next leaf is read with.
    ahead: usize,
}

impl Scan {
    /// Whether a range from `from` on goes on behind this one.
    fn goes_on(&self, collection: CollectionId, from: &[u8]) -> bool {
        self.collection == collection && from.strip_prefix(&self.last[..]) == Some(b"\0")
    }
}

/// A part of a leaf that a scan is in.
struct Part<'a> {
    held: &'a Held,
    from: &'a [u8],
    until: Option<&'a [u8]>,
}

impl Part<'_> {
    fn is_before_end(&self, key: &[u8]) -> bool {
        self.until.is_none_or(|until| key < until)
    }
}

impl Transaction {
    /// The records of keys from `from` on and below `until`, in the order of their keys, at most
    /// `limit`. The transaction's own writes are seen. The next part begins after the last key, at
    /// the key with a zero byte appended.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub async fn range(
        &mut self,
        collection: &str,
        from: &[u8],
        until: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<KeyValue>> {
        let found = self.database.collection(collection).await?;
        let before = self.scan.take().filter(|scan| scan.goes_on(found.id, from));
        let mut ahead = before.map_or(0, |scan| scan.ahead);
        let all = self
            .payloads(&found, from, until, limit, &mut ahead)
            .await?;
        self.scan = all.last().map(|(last, _)| Scan {
            collection: found.id,
            last: last.clone(),
            ahead,
        });
        let sealer = self.database.0.sealer(&found)?;
        let objects = all
            .iter()
            .map(|(_, payload)| payload)
            .filter(|payload| matches!(payload, Payload::Object(_)))
            .map(|payload| self.read.payload(found.id, &sealer, payload));
        let mut objects = try_join_all(objects).await?.into_iter();
        let values = all.into_iter().map(|(key, payload)| {
            let value = match payload {
                Payload::Inline(value) => value,
                Payload::Object(_) => objects.next().expect("one was read for each"),
            };
            (key, value)
        });
        Ok(values.collect())
    }

    /// As [`Transaction::range`], without reading the objects of records. `ahead` leaves are read
    /// with the first; it rises.
    pub(crate) async fn payloads(
        &self,
        found: &Collection,
        from: &[u8],
        until: Option<&[u8]>,
        limit: usize,
        ahead: &mut usize,
    ) -> Result<Vec<(Bytes, Payload)>> {
        let mut all: Vec<(Bytes, Payload)> = Vec::new();
        let mut from = Bytes::copy_from_slice(from);
        while all.len() < limit && until.is_none_or(|until| &from[..] < until) {
            self.read_leaves_ahead(found, &from, *ahead).await?;
            // With its neighbours a leaf makes as many reads as go at once.
            *ahead = (2 * *ahead).clamp(1, AHEAD_MAX - 1);
            let held = self.leaf(found, &from).await?;
            let high = held.page.high();
            let until = match (high, until) {
                (Some(high), Some(until)) => Some(high.min(until)),
                (high, until) => high.or(until),
            };
            let part = Part {
                held: &held,
                from: &from,
                until,
            };
            self.leaf_records(found, &part, limit, &mut all).await?;
            match high {
                Some(high) => from = Bytes::copy_from_slice(high),
                None => break,
            }
        }
        Ok(all)
    }

    /// Reads leaves of a scan before it comes to them. It reads more of them the longer it is, and
    /// no more than a part of the pool. Those that are known to be fresh are not read.
    async fn read_leaves_ahead(&self, tree: &Collection, from: &[u8], count: usize) -> Result<()> {
        let inner = &self.database.0;
        let count = count.min(inner.options.pool_bytes / 4 / tree.leaf_bytes());
        if count == 0 {
            return Ok(());
        }
        let tree = inner.tree(&self.read, tree)?;
        let leaves = tree.known_leaves(from, count);
        // Once per batch: a leaf that is there already was read with its neighbours.
        if leaves
            .first()
            .is_some_and(|first| tree.has(*first, self.since()))
        {
            return Ok(());
        }
        tree.read_ahead(leaves, self.since()).await
    }

    /// Appends what the transaction sees in a part of a leaf, up to `limit` records in `all`.
    async fn leaf_records(
        &self,
        collection: &Collection,
        part: &Part<'_>,
        limit: usize,
        all: &mut Vec<(Bytes, Payload)>,
    ) -> Result<()> {
        let page = &part.held.page;
        let mut overlaid = self.overlaid(collection.id, part).into_iter().peekable();
        let mut newest = None;
        for (key, slot) in page.slots(part.from) {
            let key = Bytes::from(key.to_vec());
            if limit <= all.len() || !part.is_before_end(&key) {
                break;
            }
            while let Some(other) = overlaid.next_if(|other| *other < key) {
                all.extend(self.seen(collection, part.held, other).await?);
            }
            if overlaid.next_if_eq(&key).is_some() {
                all.extend(self.seen(collection, part.held, key).await?);
                continue;
            }
            newest = newest.max(slot.newest());
            all.extend(
                slot.visible()
                    .map(|payload| (key, payload.to_payload(page))),
            );
        }
        self.database.0.session().observe_stamp(newest);
        while all.len() < limit
            && let Some(key) = overlaid.next()
        {
            all.extend(self.seen(collection, part.held, key).await?);
        }
        all.truncate(limit);
        Ok(())
    }

    /// Keys of a part of a leaf whose slots are not all that the transaction sees, in order.
    fn overlaid(&self, id: CollectionId, part: &Part<'_>) -> Vec<Bytes> {
        let mut keys = Vec::new();
        if Level::Monotonic <= self.level {
            let session = self.database.0.session();
            let own = session.own_in(id, part.from, part.until);
            keys.extend(own.map(|record| record.key.clone()));
        }
        if let Some(fresh) = self.fresh.get(&id) {
            let records = fresh.records(part.from, part.until);
            keys.extend(records.map(|record| record.key.clone()));
        }
        if let Some(writes) = self.writes.get(&id) {
            let own = writes.by_key.range(Bytes::copy_from_slice(part.from)..);
            let own = own.map(|(key, _)| key);
            keys.extend(own.take_while(|key| part.is_before_end(key)).cloned());
        }
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// A record as the transaction sees it in its leaf, with what overlays it.
    async fn seen(
        &self,
        collection: &Collection,
        held: &Held,
        key: Bytes,
    ) -> Result<Option<(Bytes, Payload)>> {
        let slot = self.slot(collection, held, &key);
        let payload = match (self.own_write(collection.id, &key), slot.visible()) {
            (Some(Write::Insert(value)), _) | (Some(Write::Update(value)), Some(_)) => {
                self.payload(value).await?
            }
            (Some(Write::Delete | Write::Update(_)), _) | (None, None) => return Ok(None),
            (None, Some(payload)) => payload.clone(),
        };
        Ok(Some((key, payload)))
    }
}
