//! Lookups by a secondary index: entries of a range, each compared with its record.

use bytes::Bytes;
use fader_cloud::{Error, ErrorKind, Result};

use crate::catalogue::{Collection, Index};
use crate::index::{self, IndexRange};
use crate::transaction::Transaction;

/// Entries that are compared with their records at once.
const BATCH: usize = 256;

/// A record that a lookup found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hit {
    /// Where it is in the index: the next part of a lookup begins behind it.
    pub place: Bytes,
    /// The record's key.
    pub key: Bytes,
    /// The record's bytes.
    pub record: Bytes,
}

impl Transaction {
    /// The records whose field has a value of `range`, in the order of values and keys, at most
    /// `limit`, behind the place `after`. A record with several values in an array is found once
    /// for each. The transaction's own writes are seen.
    ///
    /// # Errors
    /// `NotFound`: no such collection or index. `Unavailable`: the index is being built. Of the
    /// cloud; `Malformed`: damaged pages.
    pub async fn lookup(
        &mut self,
        collection: &str,
        index: &str,
        range: &IndexRange,
        after: Option<&Bytes>,
        limit: usize,
    ) -> Result<Vec<Hit>> {
        let (collection, index) = self.index(collection, index).await?;
        let (from, until) = range.bounds();
        let mut from = after.map_or(from, |place| [place, &b"\0"[..]].concat());
        let own = self.own_entries(&collection, &index).await?;
        let mut hits = Vec::new();
        loop {
            let count = BATCH.min(limit - hits.len());
            let until = until.as_deref();
            let found = self
                .payloads(&index.entries, &from, until, count, &mut 0)
                .await?;
            let is_last = found.len() < count;
            let end = found.last().map(|(last, _)| [last, &b"\0"[..]].concat());
            let end = end.filter(|_| !is_last);
            let is_in = |entry: &&Bytes| {
                let is_before = |end: &[u8]| entry[..] < *end;
                from[..] <= entry[..]
                    && end.as_deref().is_none_or(is_before)
                    && until.is_none_or(is_before)
            };
            let mut entries: Vec<Bytes> = found.into_iter().map(|(entry, _)| entry).collect();
            entries.extend(own.iter().filter(is_in).cloned());
            entries.sort_unstable();
            entries.dedup();
            hits.extend(self.compare(&collection, &index, range, entries).await?);
            if limit <= hits.len() {
                hits.truncate(limit);
                return Ok(hits);
            }
            match end {
                Some(end) => from = end,
                None => return Ok(hits),
            }
        }
    }

    /// The collection and its index, asked for if this client does not know it or knows it as not
    /// ready.
    async fn index(&self, name: &str, index: &str) -> Result<(Collection, Index)> {
        let mut collection = self.database.collection(name).await?;
        if collection
            .indexes
            .get(index)
            .is_none_or(|found| !found.is_ready)
        {
            self.database.0.read_catalogue().await?;
            collection = self.database.collection(name).await?;
        }
        let Some(found) = collection.indexes.get(index).cloned() else {
            let context = format!("collection {name:?} has no index {index:?}: create it first");
            return Err(Error::new(ErrorKind::NotFound, context));
        };
        if !found.is_ready {
            let context = format!(
                "index {index:?} of {name:?} is being built; when its builder has ended, create \
                 it again"
            );
            let kind = ErrorKind::Unavailable { retry_after: None };
            return Err(Error::new(kind, context));
        }
        Ok((collection, found))
    }

    /// Those entries whose records have them, with a value of the range.
    async fn compare(
        &mut self,
        collection: &Collection,
        index: &Index,
        range: &IndexRange,
        entries: Vec<Bytes>,
    ) -> Result<Vec<Hit>> {
        let mut hits = Vec::new();
        let parts = entries.iter().filter_map(|place| {
            let (value, key) = index::split(place)?;
            Some((place, value, key))
        });
        let parts: Vec<_> = parts.collect();
        self.read_ahead(collection, parts.iter().map(|(_, _, key)| *key))
            .await?;
        for (place, value, key) in parts {
            let record = match self.pooled(collection.id, collection.root, key) {
                Some(record) => record,
                None => self.record(collection, key).await?,
            };
            let Some(record) = record else {
                continue;
            };
            if range.matches(&index.field, &record, value) {
                let (place, key) = (place.clone(), place.slice_ref(key));
                hits.push(Hit { place, key, record });
            }
        }
        Ok(hits)
    }
}
