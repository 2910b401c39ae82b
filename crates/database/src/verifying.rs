//! Verifying the tree of a collection, and the queues of its leaves.

use std::collections::{BTreeMap, BTreeSet};

use fader_blink::{Page, PageId, Problem, Report, check};
use fader_cloud::{Error, ErrorKind, Result};
use futures_util::future::join_all;

use crate::catalogue::Collection;
use crate::database::Database;
use crate::layout::PendingQueues;

/// The queues of a collection's leaves, compared with the leaves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueReport {
    /// Queues of leaves.
    pub queues: u64,
    /// Leaves that have none. Their updates go through the queue of the tree.
    pub missing: Vec<PageId>,
    /// Queues of pages that nothing leads to. A checkpoint sends on what they hold, `vacuum`
    /// deletes them.
    pub orphans: Vec<PageId>,
}

/// The tree of a collection, and the queues of its leaves.
#[derive(Clone, Debug)]
pub struct Verified {
    /// The tree.
    pub tree: Report,
    /// The queues.
    pub queues: QueueReport,
}

/// The pages of a tree.
#[derive(Debug)]
pub(crate) struct Survey {
    pub(crate) pages: BTreeMap<PageId, Page>,
    /// Those that cannot be read.
    pub(crate) damaged: BTreeMap<PageId, Error>,
}

impl Survey {
    /// Verifies the tree. Links and ranges behind a page that cannot be read stay unknown.
    pub(crate) fn check(&self, root: PageId) -> Report {
        let mut report = check(root, |id| self.pages.get(&id));
        let problems = &mut report.problems;
        problems.retain(|problem| !self.damaged.contains_key(&problem.page));
        problems.extend(self.damaged.iter().map(|(page, error)| Problem {
            page: *page,
            what: match &error.source {
                Some(cause) => format!("{error}: {cause}").into(),
                None => error.to_string().into(),
            },
        }));
        report
    }
}

impl Database {
    /// Verifies the tree of a collection: each page that its root leads to. Damaged ones are
    /// problems.
    ///
    /// # Errors
    /// `NotFound`: no such collection. Of the cloud.
    pub async fn verify(&self, name: &str) -> Result<Report> {
        let collection = self.collection(name).await?;
        Ok(self.survey(&collection).await?.check(collection.root))
    }

    /// All pages of a collection that its root leads to.
    ///
    /// # Errors
    /// `Malformed`: one is damaged. Of the cloud.
    pub(crate) async fn pages(&self, collection: &Collection) -> Result<BTreeMap<PageId, Page>> {
        let found = self.survey(collection).await?;
        match found.damaged.into_values().next() {
            Some(error) => Err(error),
            None => Ok(found.pages),
        }
    }

    /// All pages of a collection that its root leads to, as far as they can be read.
    pub(crate) async fn survey(&self, collection: &Collection) -> Result<Survey> {
        let store = self.0.store.scope("verify");
        let tree = self.0.tree(&store, collection)?.for_upkeep();
        let since = store.0.runtime.clock.monotonic();
        let (mut pages, mut damaged) = (BTreeMap::new(), BTreeMap::new());
        let mut next = vec![collection.root];
        while !next.is_empty() {
            let batch: Vec<PageId> = next.drain(..next.len().min(16)).collect();
            let reads = join_all(batch.iter().map(|id| tree.read(*id, since))).await;
            for (id, read) in batch.into_iter().zip(reads) {
                match read {
                    Ok(None) => {}
                    Ok(Some(held)) => {
                        next.extend(held.page.children().chain(held.page.right()));
                        pages.insert(id, held.page);
                    }
                    Err(error) if error.kind == ErrorKind::Malformed => {
                        damaged.insert(id, error);
                    }
                    Err(error) => return Err(error),
                }
            }
            next.sort_unstable();
            next.dedup();
            next.retain(|id| !pages.contains_key(id) && !damaged.contains_key(id));
        }
        Ok(Survey { pages, damaged })
    }

    /// As [`Database::verify`]; the queues of the leaves are compared with the leaves, too. Nothing
    /// is found without queues of leaves.
    ///
    /// # Errors
    /// As [`Database::verify`].
    pub async fn verify_with_queues(&self, name: &str) -> Result<Verified> {
        let collection = self.collection(name).await?;
        let found = self.survey(&collection).await?;
        Ok(Verified {
            tree: found.check(collection.root),
            queues: self.queue_report(&collection, &found.pages).await?,
        })
    }

    /// Compares the queues of a tree's leaves with these pages of it.
    pub(crate) async fn queue_report(
        &self,
        tree: &Collection,
        pages: &BTreeMap<PageId, Page>,
    ) -> Result<QueueReport> {
        let store = self.0.store.scope("verify");
        let pending = self.0.pending(&store);
        let queues = pending.leaves_with_queues(tree.id, tree.queues).await?;
        let queues: BTreeSet<PageId> = queues.into_iter().collect();
        let has_queues = tree.queues == PendingQueues::PerLeaf;
        let leaves = pages
            .iter()
            .filter(|(_, page)| page.is_leaf() && has_queues);
        // The root keeps its queue when it is no leaf any more: writers may not know.
        let is_orphan = |id: &PageId| *id != tree.root && !pages.contains_key(id);
        Ok(QueueReport {
            queues: queues.len() as u64,
            missing: leaves
                .map(|(id, _)| *id)
                .filter(|id| !queues.contains(id))
                .collect(),
            orphans: queues.into_iter().filter(is_orphan).collect(),
        })
    }
}
