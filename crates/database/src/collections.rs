//! The collections of a database: the catalogue as a client sees it, and changes of it.
//!
//! Invariants:
//! - COLLECTIONS-1 a stamp is taken, and a round of a checkpoint begins, only with a catalogue that
//!   the client read within `Options::catalogue_ttl`. So all clients know a new index after that
//!   time.

use std::collections::BTreeMap;

use fader_blink::{Page, PageId, Stamp};
use fader_cloud::{Error, ErrorKind, Result};
use object_store::PutMode;

use crate::catalogue::{Catalogue, Collection, CollectionId, CollectionSettings, Dropped};
use crate::database::{Database, Inner, Known, TRIES};
use crate::store::{Put, catalogue_key, is_passing, key};
use crate::tree::{edition, random};

impl Database {
    /// Creates a collection.
    ///
    /// # Errors
    /// `Precondition`: the name is taken. `Invalid`: a bound. Of the cloud.
    pub async fn create_collection(&self, name: &str, settings: &CollectionSettings) -> Result<()> {
        let runtime = &self.0.store.0.runtime;
        let ids = || (CollectionId(runtime.random()), PageId(runtime.random_id()));
        let key = self.first_key(settings)?;
        let collection = Collection::new(settings, key, ids)?;
        // A name that is taken, or cannot be, leaves nothing behind.
        self.0.read_catalogue().await?;
        let mut catalogue = self.0.known().catalogue.clone();
        catalogue.add(name, collection.clone())?;
        self.plant(&collection).await?;
        for tree in collection.index_trees() {
            self.plant(tree).await?;
        }
        self.change_catalogue(|catalogue| match catalogue.by_id(collection.id) {
            // An earlier try landed.
            Some(_) => Ok(false),
            None => catalogue.add(name, collection.clone()).map(|()| true),
        })
        .await
    }

    /// Creates what a new tree needs before the catalogue names it: its root and its queues.
    pub(crate) async fn plant(&self, tree: &Collection) -> Result<()> {
        let runtime = &self.0.store.0.runtime;
        let sealer = self.0.sealer(tree)?;
        let page = {
            let mut random = random(runtime);
            Page::empty(Stamp::ZERO, &mut edition(runtime, &sealer, &mut random))
        };
        let root = key("pages", tree.root.0);
        let sealed = sealer.seal_page(root.as_ref(), &page)?;
        self.0.store.put_surely(&root, sealed).await?;
        let pending = self.0.pending(&self.0.store);
        for queue in pending.queues_of(tree) {
            pending.create(&queue).await?;
        }
        Ok(())
    }

    /// The collections by their names, as the store has them now.
    ///
    /// # Errors
    /// Of the cloud.
    pub async fn collections(&self) -> Result<BTreeMap<String, Collection>> {
        self.0.read_catalogue().await?;
        Ok(self.0.known().catalogue.collections.clone())
    }

    /// A collection by its name, as this client knows it; asked for if it knows none.
    ///
    /// # Errors
    /// `NotFound`. Of the cloud.
    pub async fn collection(&self, name: &str) -> Result<Collection> {
        if let Some(known) = self.0.known().catalogue.collections.get(name) {
            return Ok(known.clone());
        }
        let mut collections = self.collections().await?;
        collections.remove(name).ok_or_else(|| {
            let context = format!("no collection {name:?}: create it first");
            Error::new(ErrorKind::NotFound, context)
        })
    }

    /// Changes the catalogue; `change` says whether there is anything to change.
    pub(crate) async fn change_catalogue(
        &self,
        change: impl Fn(&mut Catalogue) -> Result<bool>,
    ) -> Result<()> {
        let store = &self.0.store;
        let mut tries = 1;
        loop {
            self.0.read_catalogue().await?;
            let (mut catalogue, version) = {
                let known = self.0.known();
                (known.catalogue.clone(), known.version.clone())
            };
            if !change(&mut catalogue)? {
                return Ok(());
            }
            let mode = PutMode::Update(version);
            let read_at = store.0.runtime.clock.monotonic();
            let put = store.put(&catalogue_key(), catalogue.encode(), mode).await;
            let error = match put {
                Ok(Put::Landed(version)) => {
                    *self.0.known() = Known {
                        catalogue,
                        version,
                        read_at,
                    };
                    return Ok(());
                }
                Ok(Put::Refused) => {
                    let context = "the catalogue is being changed by others";
                    Error::new(ErrorKind::Unavailable { retry_after: None }, context)
                }
                Ok(Put::Unknown(error)) | Err(error) => error,
            };
            if TRIES <= tries || !is_passing(&error) {
                return Err(error);
            }
            store.pause(tries).await;
            tries += 1;
        }
    }

    /// Deletes a collection with its records and indexes. Clients that still write to it are
    /// refused.
    ///
    /// # Errors
    /// `NotFound`. Of the cloud.
    pub async fn drop_collection(&self, name: &str) -> Result<()> {
        let collection = self.collection(name).await?;
        let found = self.survey(&collection).await?;
        self.change_catalogue(|catalogue| match catalogue.by_id(collection.id) {
            Some(_) => Ok(catalogue.remove(name)),
            None => Ok(false),
        })
        .await?;
        let pending = self.0.pending(&self.0.store);
        pending.delete_queues(&Dropped::from(&collection)).await?;
        for id in found.pages.keys().chain(found.damaged.keys()) {
            self.0.store.delete(&key("pages", id.0)).await?;
        }
        Ok(())
    }
}

impl Inner {
    /// Reads the catalogue, unless the client has its newest version.
    pub(crate) async fn read_catalogue(&self) -> Result<()> {
        let read_at = self.store.0.runtime.clock.monotonic();
        let version = self.known().version.clone();
        let found = self
            .store
            .changed_object(&catalogue_key(), &version)
            .await?;
        let Some(found) = found else {
            let context = "the database's catalogue is gone";
            return Err(Error::new(ErrorKind::NotFound, context));
        };
        let mut known = self.known();
        match found {
            None if known.version == version => known.read_at = known.read_at.max(read_at),
            // Another read of this client was faster.
            None => {}
            Some(_) if read_at < known.read_at => {}
            Some((bytes, version)) => {
                *known = Known {
                    catalogue: Catalogue::decode(&bytes)?,
                    version,
                    read_at,
                };
            }
        }
        Ok(())
    }

    /// Reads the catalogue unless that was done within the time for which it is believed.
    pub(crate) async fn refresh_catalogue(&self) -> Result<()> {
        let clock = &self.store.0.runtime.clock;
        // A slow answer may be too old when it comes.
        for _ in 0..TRIES {
            let age = clock.monotonic().saturating_sub(self.known().read_at);
            if age < self.options.catalogue_ttl {
                return Ok(());
            }
            self.read_catalogue().await?;
        }
        let kind = ErrorKind::Unavailable { retry_after: None };
        Err(Error::new(kind, "the catalogue is read too slowly"))
    }

    /// A tree by its id, as the catalogue has it.
    ///
    /// # Errors
    /// `NotFound`: it was dropped. Of the cloud.
    pub(crate) async fn current(&self, id: CollectionId) -> Result<Collection> {
        self.refresh_catalogue().await?;
        let found = self.known().catalogue.by_id(id).cloned();
        found.ok_or_else(|| {
            let context = format!("collection {id} was dropped");
            Error::new(ErrorKind::NotFound, context)
        })
    }
}
