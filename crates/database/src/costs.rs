//! What clients used, kept beside the database: by whom, in which collection, at which stage.
//!
//! A client that is asked to writes an object of what it used since the last one. None is ever
//! changed, so clients need not agree. The object's own PUT is in it.
//!
//! The collection is that of the tree which a request was for. What serves several trees at once
//! counts for the collection that the caller names.

use std::collections::BTreeMap;

use bytes::Bytes;
use fader_cloud::{Count, Error, ErrorKind, RequestKind, Result, Usage};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use object_store::path::Path;
use serde::{Deserialize, Serialize};

use crate::catalogue::CollectionId;
use crate::database::Database;
use crate::store::{PREFIX, key};

/// The objects' format.
const FORMAT: u32 = 1;
/// Objects that are read, at most, and at once.
const OBJECTS_MAX: usize = 1_000_000;
const READS: usize = 32;
/// The stage of requests that served several at once, as those to queues in a bucket.
const SHARED: &str = "shared";
/// The stage of the object itself.
const COST: &str = "cost";

/// Usage by the names of the meter's scopes: the stage, and the tree if there is one.
pub(crate) type Counted = BTreeMap<Vec<String>, Usage>;

/// What was used at one stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Whose access key asked.
    pub who: String,
    /// The collection that a request was for, or that the client worked on; empty if neither says.
    pub collection: String,
    /// Days since 1970.
    pub day: u64,
    /// The stage: read, commit, atomic, checkpoint, and so on.
    pub stage: String,
    /// What was used.
    pub usage: Usage,
}

#[derive(Serialize, Deserialize)]
struct Kept {
    format: u32,
    who: String,
    collection: String,
    day: u64,
    used: Vec<Used>,
}

#[derive(Serialize, Deserialize)]
struct Used {
    stage: String,
    /// If it is not that of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    collection: Option<String>,
    kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    requests: u64,
    chunks: u64,
    sent_bytes: u64,
    received_bytes: u64,
    box_usage: u64,
}

impl Used {
    fn of(stage: &str, collection: Option<&str>, usage: &Usage) -> Vec<Used> {
        let used = usage.counts().map(|(kind, status, count)| Used {
            stage: stage.to_owned(),
            collection: collection.map(str::to_owned),
            kind: kind.name().to_owned(),
            status,
            requests: count.requests,
            chunks: count.chunks,
            sent_bytes: count.sent_bytes,
            received_bytes: count.received_bytes,
            box_usage: count.box_usage,
        });
        used.collect()
    }

    fn usage(&self) -> Option<Usage> {
        let mut kinds = RequestKind::ALL.into_iter();
        let kind = kinds.find(|kind| kind.name() == self.kind)?;
        let count = Count {
            requests: self.requests,
            chunks: self.chunks,
            sent_bytes: self.sent_bytes,
            received_bytes: self.received_bytes,
            box_usage: self.box_usage,
        };
        Some([(kind, self.status, count)].into_iter().collect())
    }
}

impl Database {
    /// What this client used so far, by stage and by the collection that each request was for.
    /// Requests for several collections at once, or for one that was dropped, have none; those that
    /// serve several stages at once are `shared`.
    pub fn used(&self) -> BTreeMap<(String, Option<String>), Usage> {
        self.by_collection(self.counted())
    }

    /// Keeps what this client used since it last did so, as used by `who`. What [`Database::used`]
    /// gives no collection counts for `collection`. One call at a time.
    ///
    /// # Errors
    /// Of the cloud: the next call keeps it.
    pub async fn keep_cost(&self, who: &str, collection: &str) -> Result<()> {
        let mut all = self.counted();
        let new = {
            let kept = self.0.kept_cost();
            let nothing = Usage::default();
            let since = all.iter().map(|(names, usage)| {
                let before = kept.get(names).unwrap_or(&nothing);
                (names.clone(), usage.since(before))
            });
            since.collect()
        };
        let mut used: Vec<Used> = Vec::new();
        for ((stage, of), usage) in self.by_collection(new) {
            used.extend(Used::of(&stage, of.as_deref(), &usage));
        }
        let own = Count {
            requests: 1,
            chunks: 1,
            ..Count::default()
        };
        let own: Usage = [(RequestKind::ObjectPut, Some(200), own)]
            .into_iter()
            .collect();
        used.extend(Used::of(COST, None, &own));
        let kept = Kept {
            format: FORMAT,
            who: who.to_owned(),
            collection: collection.to_owned(),
            day: self.0.wall_ms() / (24 * 60 * 60 * 1000),
            used,
        };
        let text = serde_json::to_vec(&kept).expect("all keys are text");
        let store = self.0.store.scope(COST);
        let id = store.0.runtime.random_id();
        store
            .put_surely(&key("costs", id), Bytes::from(text))
            .await?;
        // It says itself that it was put.
        let names = vec![COST.to_owned()];
        let own = self.counted().remove(&names);
        all.extend(own.map(|own| (names, own)));
        *self.0.kept_cost() = all;
        Ok(())
    }

    /// What the meter has, by the names of scopes.
    fn counted(&self) -> Counted {
        let mut counted = self.meter().nested_usage();
        let own = self.meter().own_usage();
        counted
            .entry(vec![SHARED.to_owned()])
            .or_default()
            .add(&own);
        counted
    }

    fn by_collection(&self, counted: Counted) -> BTreeMap<(String, Option<String>), Usage> {
        let mut used: BTreeMap<(String, Option<String>), Usage> = BTreeMap::new();
        let known = self.0.known();
        for (names, usage) in counted {
            let mut names = names.into_iter();
            let stage = names.next().unwrap_or_default();
            let tree = names
                .next()
                .and_then(|name| CollectionId::try_from(name).ok());
            let collection = tree.and_then(|tree| known.catalogue.name_of(tree));
            let place = (stage, collection.map(str::to_owned));
            used.entry(place).or_default().add(&usage);
        }
        used
    }

    /// All that clients kept.
    ///
    /// # Errors
    /// Of the cloud; `Malformed`: an object is not what [`Database::keep_cost`] writes.
    pub async fn costs(&self) -> Result<Vec<Cost>> {
        let store = self.0.store.scope(COST);
        let failed =
            |error| Error::caused(ErrorKind::Unavailable { retry_after: None }, "LIST", error);
        let below = Path::from(format!("{PREFIX}/costs"));
        let listed = store.0.objects.list(Some(&below)).take(OBJECTS_MAX);
        let listed: Vec<_> = listed.try_collect().await.map_err(failed)?;
        let reads = listed.into_iter().map(|meta| {
            let store = store.clone();
            async move {
                let found = store.object(&meta.location).await?;
                found
                    .map(|(bytes, _)| parse(&meta.location, &bytes))
                    .transpose()
            }
        });
        let reads = stream::iter(reads.collect::<Vec<_>>()).buffered(READS);
        let kept: Vec<Option<Vec<Cost>>> = reads.try_collect().await?;
        Ok(kept.into_iter().flatten().flatten().collect())
    }
}

fn parse(key: &Path, bytes: &[u8]) -> Result<Vec<Cost>> {
    let malformed = || Error::new(ErrorKind::Malformed, format!("object {:?}", key.as_ref()));
    let kept: Kept = serde_json::from_slice(bytes).map_err(|_| malformed())?;
    if kept.format != FORMAT {
        return Err(malformed());
    }
    let costs = kept.used.iter().map(|used| {
        Some(Cost {
            who: kept.who.clone(),
            collection: used.collection.as_ref().unwrap_or(&kept.collection).clone(),
            day: kept.day,
            stage: used.stage.clone(),
            usage: used.usage()?,
        })
    });
    costs.collect::<Option<Vec<_>>>().ok_or_else(malformed)
}
