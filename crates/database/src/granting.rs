//! Keys of encrypted collections: the first one, grants, rotation.

use fader_cloud::{Error, ErrorKind, Permissions, Result};
use futures_util::future::join_all;

use crate::catalogue::{Collection, CollectionSettings};
use crate::database::Database;
use crate::layout::Place;
use crate::sealing::{PublicIdentity, Sealer, SealingKey};
use crate::store::PREFIX;

/// What a client may do with a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// Reads its pages.
    Read,
    /// Reads, and writes records that wait for approval.
    Propose,
    /// Reads, writes and checkpoints.
    Write,
}

impl Database {
    /// The first key of a new collection, for this client's identity; none for one in clear.
    pub(crate) fn first_key(&self, settings: &CollectionSettings) -> Result<Option<SealingKey>> {
        if !settings.is_encrypted {
            return Ok(None);
        }
        let Some(identity) = &self.0.options.identity else {
            let context = "an encrypted collection needs an identity that gets its key";
            return Err(Error::new(ErrorKind::Invalid, context));
        };
        let entropy = &*self.0.store.0.runtime.entropy;
        let to = std::iter::once(identity.public());
        SealingKey::new(&self.0.name, to, entropy).map(Some)
    }

    /// Grants all keys of a collection that this client has to another identity.
    ///
    /// # Errors
    /// `NotFound`: no such collection. `Invalid`: it is in clear. `Denied`: its key was not granted
    /// to this client. Of the cloud.
    pub async fn grant(&self, collection: &str, to: PublicIdentity) -> Result<()> {
        let entropy = self.0.store.0.runtime.entropy.clone();
        self.change_keys(collection, |sealer, found| {
            sealer.grant(&found.keys, to, &*entropy)
        })
        .await
    }

    /// What a service of objects and queues must let a client do for a right to a collection.
    ///
    /// Objects are those of the whole database: pages of all collections have random names in one
    /// folder. Queues are those of the collection, and that of Atomic transactions.
    ///
    /// # Errors
    /// `NotFound`: no such collection. Of the cloud.
    pub async fn needs(&self, collection: &str, right: Right) -> Result<Permissions> {
        let found = self.collection(collection).await?;
        let store = self.0.store.scope("grant");
        let pending = self.0.pending(&store);
        let mut needs = Permissions {
            reads: vec![PREFIX.to_owned()],
            ..Permissions::default()
        };
        match right {
            Right::Read => {}
            Right::Propose => {
                let folders = ["values", "claims", "clock", "costs"];
                needs.writes = folders.map(|folder| format!("{PREFIX}/{folder}")).into();
                needs.sends = vec![pending.proposals(found.id), pending.atomic()];
            }
            Right::Write => {
                needs.writes = needs.reads.clone();
                needs.receives.push(pending.atomic());
                for tree in std::iter::once(&found).chain(found.index_trees()) {
                    needs.receives.extend(pending.queues_of(tree));
                    let leaves = pending.leaves_with_queues(tree.id, tree.queues).await?;
                    let leaves = leaves.into_iter().filter(|leaf| *leaf != tree.root);
                    let name = |leaf| pending.queue(tree.id, Place::Leaf(leaf));
                    needs.receives.extend(leaves.map(name));
                }
            }
        }
        Ok(needs)
    }

    /// Gives a collection a new key, for all identities that have the newest, but one if it is
    /// named. Pages and records are sealed with it from now on; [`Database::reseal`] does the rest.
    /// What the identity left out has read, and what it finds sealed with older keys, it can read.
    ///
    /// # Errors
    /// As [`Database::grant`]. `Malformed`: an identity in the catalogue was granted by none that
    /// had the key.
    pub async fn rotate_key(
        &self,
        collection: &str,
        without: Option<PublicIdentity>,
    ) -> Result<()> {
        let entropy = self.0.store.0.runtime.entropy.clone();
        self.change_keys(collection, |sealer, found| {
            sealer.rotate(&found.keys, without, &*entropy)
        })
        .await
    }

    async fn change_keys(
        &self,
        name: &str,
        change: impl Fn(&Sealer, &Collection) -> Result<Vec<SealingKey>>,
    ) -> Result<()> {
        let id = self.collection(name).await?.id;
        let before = std::sync::atomic::AtomicUsize::new(usize::MAX);
        let relaxed = std::sync::atomic::Ordering::Relaxed;
        self.change_catalogue(|catalogue| {
            let mut all = catalogue.collections.values_mut();
            let Some(found) = all.find(|found| found.id == id) else {
                return Err(Error::new(
                    ErrorKind::NotFound,
                    "the collection was dropped",
                ));
            };
            // An earlier try of a rotation landed.
            let count = found.keys.len();
            if before.fetch_min(count, relaxed) < count {
                return Ok(false);
            }
            let sealer = self.0.sealer(found)?;
            let keys = change(&sealer, found)?;
            found.set_keys(keys);
            Ok(true)
        })
        .await
    }

    /// Seals all pages of a collection and of its indexes with the newest key; the number of pages.
    /// Large records, and messages on their way, keep theirs.
    ///
    /// # Errors
    /// As [`Database::grant`].
    pub async fn reseal(&self, name: &str) -> Result<u64> {
        let collection = self.collection(name).await?;
        let store = self.0.store.scope("seal");
        let mut count = 0;
        for tree in std::iter::once(&collection).chain(collection.index_trees()) {
            let pages = self.pages(tree).await?;
            let tree = self.0.tree(&store, tree)?.for_upkeep();
            tree.sealer.check()?;
            let current = tree.sealer.current();
            let old = pages
                .iter()
                .filter(|(_, page)| page.envelope().key != current);
            let old: Vec<_> = old.map(|(id, _)| *id).collect();
            for ids in old.chunks(crate::tree::AHEAD_MAX) {
                let renewed = ids.iter().map(|id| tree.renew(*id, |_| true));
                for renewed in join_all(renewed).await {
                    count += u64::from(renewed?.is_some());
                }
            }
        }
        Ok(count)
    }
}
