//! Records on their way to pending-update queues: which of them goes where.
//!
//! Invariants:
//! - ROUTING-1 a route is a belief: the page may have split since. The checkpoint of a leaf's queue
//!   compares each record with the page, and sends others on before it removes their messages.

use std::collections::BTreeMap;

use fader_blink::{Op, PageId, Record};

use crate::catalogue::{Collection, CollectionId};
use crate::database::Inner;
use crate::layout::{PendingQueues, Place};
use crate::sealing::Sealer;
use crate::store::Store;

/// Records of a tree, to be sent.
#[derive(Clone, Debug)]
pub(crate) struct Outgoing {
    pub(crate) tree: Collection,
    pub(crate) sealer: Sealer,
    pub(crate) records: Vec<Record>,
}

/// Records of a tree by the queue that each goes to.
#[derive(Clone, Debug)]
pub(crate) struct Routed {
    pub(crate) tree: CollectionId,
    pub(crate) sealer: Sealer,
    pub(crate) by_place: BTreeMap<Place, Vec<Record>>,
}

/// Queues with a checkpoint to come: those of a tree with numbers, or that of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Due {
    pub(crate) tree: CollectionId,
    /// Of a leaf, its queue; `None`: those with numbers.
    pub(crate) leaf: Option<PageId>,
}

impl Due {
    /// The queues of a tree that have numbers.
    pub(crate) fn of_tree(tree: CollectionId) -> Self {
        Due { tree, leaf: None }
    }
}

impl Outgoing {
    /// Records of a tree, with its keys.
    pub(crate) fn of(tree: &Collection, sealer: &Sealer, records: Vec<Record>) -> Self {
        Outgoing {
            tree: tree.clone(),
            sealer: sealer.clone(),
            records,
        }
    }

    fn routed(self, place: impl Fn(&Record) -> Place) -> Routed {
        let mut by_place: BTreeMap<Place, Vec<Record>> = BTreeMap::new();
        for record in self.records {
            by_place.entry(place(&record)).or_default().push(record);
        }
        Routed {
            tree: self.tree.id,
            sealer: self.sealer,
            by_place,
        }
    }

    /// To the queues that take records of any page, also those of a curated collection.
    pub(crate) fn into_tree(self) -> Routed {
        let queues = self.tree.queues;
        self.routed(|record| Place::of_tree(queues, &record.key))
    }

    /// To the queue of records that wait for approval.
    pub(crate) fn into_proposals(self) -> Routed {
        self.routed(|_| Place::Proposals)
    }
}

impl Routed {
    /// What must be checkpointed once the records were sent. Proposals are not there yet.
    pub(crate) fn dues(&self) -> impl Iterator<Item = Due> {
        let tree = self.tree;
        self.by_place.keys().filter_map(move |place| match place {
            Place::Number(_) => Some(Due::of_tree(tree)),
            Place::Leaf(page) => Some(Due {
                tree,
                leaf: Some(*page),
            }),
            Place::Proposals | Place::Hint => None,
        })
    }
}

impl Inner {
    /// Routes records as this client believes the tree to be. Pages above the leaves are read if
    /// the pool has none. A record whose leaf is not found goes to the queue of its tree: a commit
    /// does not depend on pages.
    pub(crate) async fn route(&self, store: &Store, part: Outgoing) -> Routed {
        let has_leaves = part.tree.queues == PendingQueues::PerLeaf && !part.tree.is_curated;
        let mut leaves = BTreeMap::new();
        if has_leaves && let Ok(tree) = self.tree(store, &part.tree) {
            for record in part.records.iter().filter(|record| is_update(record)) {
                match tree.believed_leaf(&record.key).await {
                    Ok(leaf) => drop(leaves.insert(record.key.clone(), leaf)),
                    Err(_) => break,
                }
            }
        }
        let tree = part.tree.clone();
        part.routed(|record| Place::of(&tree, record, leaves.get(&record.key).copied()))
    }
}

fn is_update(record: &Record) -> bool {
    matches!(record.op, Op::Update(_))
}
