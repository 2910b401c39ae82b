//! Vacuum: deletes what nothing leads to, while no other client is at work.
//!
//! Pages of lost splits, of failed loads and of dropped collections, and large records that were
//! replaced. What transactions that crashed had out of memory. Also queues of dropped collections,
//! and of leaves that are no pages of the tree.
//!
//! Invariants:
//! - VACUUM-1 nothing is deleted while a message is pending: it may name an object. Queues of
//!   leaves that nothing leads to count; the checkpoint before sends on what they have.
//! - VACUUM-2 an object that the store shows as younger than the caller's age stays. A client that
//!   was late with it may still be at work.
//! - VACUUM-3 an encrypted collection whose key is missing cannot be read: nothing is deleted then,
//!   since any object may be its.
//! - VACUUM-4 behind a page that is missing or damaged others may be: nothing is deleted then.
//!
//! Deliberately absent: merging of pages; deletion of abort claims, which must stay (DB-8).

use std::collections::BTreeSet;
use std::time::Duration;

use fader_blink::{Page, PayloadRef};
use fader_cloud::{Error, ErrorKind, Result};
use futures_util::stream::{StreamExt, TryStreamExt};
use object_store::path::Path;

use crate::catalogue::Collection;
use crate::database::Database;
use crate::guard::Guard;
use crate::layout::Place;
use crate::store::PREFIX;
use crate::timed::{self, Fencing};
use crate::token;

/// Objects that are deleted at once.
const DELETES_AT_ONCE: usize = 16;

/// What a vacuum deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vacuumed {
    /// Pages that no root leads to, and objects of records that no page has.
    pub objects: u64,
    /// Their bytes together.
    pub bytes: u64,
    /// Queues of dropped collections, and of leaves that nothing leads to.
    pub queues: u64,
    /// Such objects that are too young to be deleted.
    pub young: u64,
}

impl Database {
    /// Deletes what nothing leads to and what is older than `age`. Other clients must not be at
    /// work: `age` is more than the time of their longest request, transaction or load.
    ///
    /// # Errors
    /// `Unavailable`: records are pending and do not settle. `Denied`: the key of an encrypted
    /// collection is missing. `Malformed`: a page is damaged or missing. Nothing was deleted then.
    /// Of the cloud.
    pub async fn vacuum(&self, age: Duration) -> Result<Vacuumed> {
        self.check_token().await?;
        self.settle().await?;
        self.check_queues().await?;
        let (mut pages, mut values) = (BTreeSet::new(), BTreeSet::new());
        let mut orphans = Vec::new();
        for collection in self.collections().await?.values() {
            for tree in std::iter::once(collection).chain(collection.index_trees()) {
                self.0.sealer(tree)?.check()?;
                let found = self.survey(tree).await?;
                if let Some(problem) = found.check(tree.root).problems.first() {
                    let context = format!("nothing is deleted: {problem}");
                    return Err(Error::new(ErrorKind::Malformed, context));
                }
                let found = found.pages;
                let report = self.queue_report(tree, &found).await?;
                orphans.extend(report.orphans.into_iter().map(|page| (tree.id, page)));
                for (id, page) in found {
                    pages.insert(id.0);
                    values.extend(objects(&page));
                }
            }
        }
        let mut done = Vacuumed::default();
        let young = self.sweep("pages", &pages, age, &mut done).await?;
        self.sweep("values", &values, age, &mut done).await?;
        // Of clients that died while they compared their clock with the store's.
        self.sweep("clock", &BTreeSet::new(), age, &mut done)
            .await?;
        let pending = self.0.pending(&self.0.store);
        for (tree, page) in orphans {
            // A page that stays may still become a part of the tree.
            if !young.contains(&page.0) {
                done.queues += u64::from(pending.delete(tree, Place::Leaf(page)).await?);
            }
        }
        self.delete_queues(&mut done).await?;
        Ok(done)
    }

    /// Makes a new token when there is none: a service of queues keeps no message for ever.
    async fn check_token(&self) -> Result<()> {
        if self.fencing() == Fencing::Conditional {
            return Ok(());
        }
        let store = &self.0.store;
        let lock = timed::queue(&self.0.name);
        match token::is_there(&*store.0.queues, &lock).await? {
            true => Ok(()),
            false => timed::mint(store, &lock).await,
        }
    }

    /// Fails when any queue of the database has a message, hidden ones included.
    async fn check_queues(&self) -> Result<()> {
        let pending = self.0.pending(&self.0.store);
        let mut queues = vec![pending.atomic()];
        let trees: Vec<Collection> = self.0.known().catalogue.trees().cloned().collect();
        for tree in &trees {
            queues.extend(pending.queues_of(tree));
            if self.0.options.guards.has(Guard::LeafQueuesCount) {
                let leaves = pending.leaves_with_queues(tree.id, tree.queues).await?;
                let leaves = leaves.into_iter().filter(|leaf| *leaf != tree.root);
                queues.extend(leaves.map(|leaf| pending.queue(tree.id, Place::Leaf(leaf))));
            }
        }
        for queue in queues {
            let counts = self.0.store.0.queues.counts(&queue).await?;
            let count = counts.total();
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

    /// Deletes objects of a kind that are not `kept`; those that stay because they are young.
    async fn sweep(
        &self,
        kind: &str,
        kept: &BTreeSet<u128>,
        age: Duration,
        done: &mut Vacuumed,
    ) -> Result<BTreeSet<u128>> {
        let store = self.0.store.scope("vacuum");
        let failed =
            |error| Error::caused(ErrorKind::Unavailable { retry_after: None }, "LIST", error);
        let listed = store
            .0
            .objects
            .list(Some(&Path::from(format!("{PREFIX}/{kind}"))));
        let all: Vec<_> = listed.try_collect().await.map_err(failed)?;
        let until = store.0.runtime.clock.wall().saturating_sub(age).as_millis();
        let (mut old, mut young) = (Vec::new(), BTreeSet::new());
        for meta in all {
            let id = meta
                .location
                .filename()
                .and_then(|name| u128::from_str_radix(name, 16).ok());
            let Some(id) = id.filter(|id| !kept.contains(id)) else {
                continue;
            };
            let written = meta.last_modified.timestamp_millis();
            if i128::from(written) < i128::try_from(until).unwrap_or(i128::MAX) {
                done.objects += 1;
                done.bytes += meta.size;
                old.push(meta.location);
            } else {
                done.young += 1;
                young.insert(id);
            }
        }
        let delete = |key: Path| {
            let store = store.clone();
            async move { store.delete(&key).await }
        };
        let deletes = old.into_iter().map(delete);
        let deletes = futures_util::stream::iter(deletes).buffer_unordered(DELETES_AT_ONCE);
        deletes.try_collect::<()>().await?;
        Ok(young)
    }

    /// Deletes the queues of dropped collections, and forgets these.
    async fn delete_queues(&self, done: &mut Vacuumed) -> Result<()> {
        let dropped = self.0.known().catalogue.dropped.clone();
        let pending = self.0.pending(&self.0.store);
        for tree in &dropped {
            done.queues += pending.delete_queues(tree).await?;
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
