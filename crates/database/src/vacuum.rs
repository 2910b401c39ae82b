//! Vacuum: deletes what nothing leads to, while no other client is at work.
//!
//! Pages of lost splits, of failed loads and of dropped collections, large records that were
//! replaced, and queues of dropped collections.
//!
//! Invariants:
//! - VACUUM-1 nothing is deleted while a message is pending: it may name an object.
//! - VACUUM-2 an object that the store shows as younger than the caller's age stays. A client that
//!   was late with it may still be at work.
//! - VACUUM-3 an encrypted collection whose key is missing cannot be read: nothing is deleted then,
//!   since any object may be its.
//!
//! Deliberately absent: merging of pages; deletion of abort claims, which must stay (DB-8).

use std::collections::BTreeSet;
use std::time::Duration;

use fader_blink::{Page, PayloadRef};
use fader_cloud::{Error, ErrorKind, Result};
use futures_util::stream::{StreamExt, TryStreamExt};
use object_store::path::Path;

use crate::database::Database;
use crate::store::PREFIX;

/// Objects that are deleted at once.
const DELETES_AT_ONCE: usize = 16;

/// What a vacuum deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vacuumed {
    /// Pages that no root leads to, and objects of records that no page has.
    pub objects: u64,
    /// Their bytes together.
    pub bytes: u64,
    /// Queues of dropped collections.
    pub queues: u64,
    /// Such objects that are too young to be deleted.
    pub young: u64,
}

impl Database {
    /// Deletes what nothing leads to and what is older than `age`. Other clients must not be at
    /// work: `age` is more than the time of their longest request or load.
    ///
    /// # Errors
    /// `Unavailable`: records are pending and do not settle. `Denied`: the key of an encrypted
    /// collection is missing. `Malformed`: a page is damaged. Nothing was deleted then. Of the
    /// cloud.
    pub async fn vacuum(&self, age: Duration) -> Result<Vacuumed> {
        self.settle().await?;
        self.check_queues().await?;
        let (mut pages, mut values) = (BTreeSet::new(), BTreeSet::new());
        for collection in self.collections().await?.values() {
            for tree in std::iter::once(collection).chain(collection.index_trees()) {
                self.0.sealer(tree)?.check()?;
                for (id, page) in self.pages(tree).await? {
                    pages.insert(id.0);
                    values.extend(objects(&page));
                }
            }
        }
        let mut done = Vacuumed::default();
        self.sweep("pages", &pages, age, &mut done).await?;
        self.sweep("values", &values, age, &mut done).await?;
        // Of clients that died while they compared their clock with the store's.
        self.sweep("clock", &BTreeSet::new(), age, &mut done)
            .await?;
        self.delete_queues(&mut done).await?;
        Ok(done)
    }

    /// Fails when any queue of the database has a message, hidden ones included.
    async fn check_queues(&self) -> Result<()> {
        let pending = self.0.pending(&self.0.store);
        let mut queues = vec![pending.atomic()];
        for tree in self.0.known().catalogue.trees() {
            queues.extend(pending.queues_of(tree));
        }
        for queue in queues {
            let counts = self.0.store.0.queues.counts(&queue).await?;
            let count = counts.visible + counts.in_flight;
            if count > 0 {
                let context = format!(
                    "queue {queue:?} has {count} messages: end other clients, and run \
                     `fader db checkpoint` until none is left"
                );
                let kind = ErrorKind::Unavailable { retry_after: None };
                return Err(Error::new(kind, context));
            }
        }
        Ok(())
    }

    /// Deletes objects of a kind that are not `kept`.
    async fn sweep(
        &self,
        kind: &str,
        kept: &BTreeSet<u128>,
        age: Duration,
        done: &mut Vacuumed,
    ) -> Result<()> {
        let store = self.0.store.scope("vacuum");
        let failed =
            |error| Error::caused(ErrorKind::Unavailable { retry_after: None }, "LIST", error);
        let listed = store
            .0
            .objects
            .list(Some(&Path::from(format!("{PREFIX}/{kind}"))));
        let all: Vec<_> = listed.try_collect().await.map_err(failed)?;
        let until = store.0.runtime.clock.wall().saturating_sub(age).as_millis();
        let mut old = Vec::new();
        for meta in all {
            let id = meta
                .location
                .filename()
                .and_then(|name| u128::from_str_radix(name, 16).ok());
            if id.is_none_or(|id| kept.contains(&id)) {
                continue;
            }
            let written = meta.last_modified.timestamp_millis();
            if i128::from(written) < i128::try_from(until).unwrap_or(i128::MAX) {
                done.objects += 1;
                done.bytes += meta.size;
                old.push(meta.location);
            } else {
                done.young += 1;
            }
        }
        let delete = |key: Path| {
            let store = store.clone();
            async move { store.delete(&key).await }
        };
        let deletes = old.into_iter().map(delete);
        let deletes = futures_util::stream::iter(deletes).buffer_unordered(DELETES_AT_ONCE);
        deletes.try_collect().await
    }

    /// Deletes the queues of dropped collections, and forgets these.
    async fn delete_queues(&self, done: &mut Vacuumed) -> Result<()> {
        let dropped = self.0.known().catalogue.dropped.clone();
        let pending = self.0.pending(&self.0.store);
        for tree in &dropped {
            let numbers = 0..tree.queues;
            let mut queues: Vec<_> = numbers
                .map(|number| pending.queue(tree.id, number))
                .collect();
            queues.push(pending.proposals(tree.id));
            for queue in queues {
                match self.0.store.0.queues.delete(&queue).await {
                    Err(error) if error.kind == ErrorKind::NotFound => {}
                    deleted => {
                        deleted?;
                        done.queues += 1;
                    }
                }
            }
        }
        self.change_catalogue(|catalogue| {
            let before = catalogue.dropped.len();
            catalogue.dropped.retain(|tree| !dropped.contains(tree));
            Ok(catalogue.dropped.len() < before)
        })
        .await
    }
}

/// The objects of a leaf's records: also of those that are not visible.
fn objects(page: &Page) -> impl Iterator<Item = u128> {
    let slots = page
        .is_leaf()
        .then(|| page.slots(b""))
        .into_iter()
        .flatten();
    slots.filter_map(|(_, slot)| match slot.payload {
        Some(PayloadRef::Object(pointer)) => Some(pointer.object),
        _ => None,
    })
}
