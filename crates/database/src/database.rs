//! A client of a database: opening it, its catalogue, its collections.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use fader_blink::{HybridClock, HybridTime, Page, PageId, Stamp};
use fader_cloud::{Cloud, Error, ErrorKind, Result};
use object_store::{PutMode, UpdateVersion};

use crate::catalogue::{Catalogue, Collection, CollectionId, CollectionSettings};
use crate::level::Level;
use crate::options::Options;
use crate::pending::Pending;
use crate::pool::Pool;
use crate::session::Session;
use crate::store::{Put, Store, catalogue_key, is_passing, key};
use crate::transaction::Transaction;
use crate::tree::{Tree, edition, random};

/// How often a change of the catalogue is tried against other clients.
const TRIES: u32 = 20;
/// After this time the client compares its clock with the store's again.
const CLOCK_CHECK: Duration = Duration::from_secs(60 * 60);

/// One client of a database. Clones are the same client, with one session.
#[derive(Clone, Debug)]
pub struct Database(pub(crate) Arc<Inner>);

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) store: Store,
    pub(crate) options: Options,
    pub(crate) pool: Mutex<Pool>,
    pub(crate) session: Mutex<Session>,
    /// Random, new in each opening: a part of all stamps.
    pub(crate) incarnation: u64,
    /// The name of the database in the names of its queues.
    pub(crate) name: String,
    known: Mutex<Catalogue>,
    pub(crate) work: Mutex<Work>,
    clock_checked: Mutex<Option<Duration>>,
}

/// Work of this client that is under way or due.
#[derive(Debug, Default)]
pub(crate) struct Work {
    /// Collections with a checkpoint to come.
    pub(crate) checkpoints: BTreeSet<CollectionId>,
    /// Whether transactions are to be finished.
    pub(crate) finishing: bool,
    /// Collections of transactions that were finished since the last checkpoint was planned.
    pub(crate) touched: BTreeSet<CollectionId>,
    /// Whether the client is closed.
    pub(crate) is_closed: bool,
}

impl Database {
    /// Creates a database in a cloud that has none at its prefix, and opens it.
    ///
    /// # Errors
    /// `Precondition`: there is one. Of the cloud.
    pub async fn create(cloud: Cloud, options: Options) -> Result<Self> {
        let store = Store(cloud);
        let catalogue = Catalogue::new(store.0.runtime.random());
        let is_here = || {
            let context = "a database is here already: open it, or choose another URL";
            Error::new(ErrorKind::Precondition, context)
        };
        if store.object(&catalogue_key()).await?.is_some() {
            return Err(is_here());
        }
        let pending = Pending {
            store: &store,
            database: &catalogue.database,
            guards: options.guards,
        };
        pending.create(&pending.atomic()).await?;
        let mut tries = 1;
        loop {
            let put = store
                .put(&catalogue_key(), catalogue.encode(), PutMode::Create)
                .await?;
            let error = match put {
                Put::Landed(_) => break,
                Put::Refused => match store.object(&catalogue_key()).await? {
                    // An earlier try landed.
                    Some((found, _)) if found == catalogue.encode() => break,
                    _ => return Err(is_here()),
                },
                Put::Unknown(error) => error,
            };
            if TRIES <= tries {
                return Err(error);
            }
            store.pause(tries).await;
            tries += 1;
        }
        Ok(Self::with(store, catalogue, options))
    }

    /// Opens the database at a cloud's prefix.
    ///
    /// # Errors
    /// `NotFound`: there is none. `Malformed`: foreign, damaged, or of a newer format. Of the
    /// cloud.
    pub async fn open(cloud: Cloud, options: Options) -> Result<Self> {
        let store = Store(cloud);
        let Some((bytes, _)) = store.object(&catalogue_key()).await? else {
            let context = "no database is here: create one first";
            return Err(Error::new(ErrorKind::NotFound, context));
        };
        let catalogue = Catalogue::decode(&bytes)?;
        Ok(Self::with(store, catalogue, options))
    }

    fn with(store: Store, catalogue: Catalogue, options: Options) -> Self {
        Database(Arc::new(Inner {
            pool: Mutex::new(Pool::new(options.pool_bytes)),
            session: Mutex::new(Session::new(options.guards)),
            incarnation: store.0.runtime.random(),
            name: catalogue.database.clone(),
            known: Mutex::new(catalogue),
            work: Mutex::default(),
            clock_checked: Mutex::default(),
            store,
            options,
        }))
    }

    /// Begins a transaction. Nothing is sent before its first read or its commit.
    pub fn begin(&self, level: Level) -> Transaction {
        Transaction::new(self.clone(), level)
    }

    /// Creates a collection.
    ///
    /// # Errors
    /// `Precondition`: the name is taken. `Invalid`: a bound. Of the cloud.
    pub async fn create_collection(&self, name: &str, settings: &CollectionSettings) -> Result<()> {
        let runtime = &self.0.store.0.runtime;
        let id = CollectionId(runtime.random());
        let root = PageId(runtime.random_id());
        let collection = Collection::new(id, root, settings)?;
        // A name that is taken, or cannot be, leaves nothing behind.
        self.read_catalogue()
            .await?
            .0
            .add(name, collection.clone())?;
        let page = {
            let mut random = random(runtime);
            Page::empty(Stamp::ZERO, &mut edition(runtime, &mut random))
        };
        self.0
            .store
            .put_surely(&key("pages", root.0), page.encode())
            .await?;
        let pending = self.0.pending(&self.0.store);
        for number in 0..collection.queues {
            pending.create(&pending.queue(id, number)).await?;
        }
        self.change_catalogue(|catalogue| match catalogue.by_id(id) {
            // An earlier try landed.
            Some(_) => Ok(false),
            None => catalogue.add(name, collection.clone()).map(|()| true),
        })
        .await
    }

    /// The collections by their names, as the store has them now.
    ///
    /// # Errors
    /// Of the cloud.
    pub async fn collections(&self) -> Result<BTreeMap<String, Collection>> {
        Ok(self.read_catalogue().await?.0.collections)
    }

    /// A collection by its name, as this client knows it; asked for if it knows none.
    ///
    /// # Errors
    /// `NotFound`. Of the cloud.
    pub async fn collection(&self, name: &str) -> Result<Collection> {
        if let Some(known) = self.0.known().collections.get(name) {
            return Ok(known.clone());
        }
        let mut collections = self.collections().await?;
        collections.remove(name).ok_or_else(|| {
            let context = format!("no collection {name:?}: create it first");
            Error::new(ErrorKind::NotFound, context)
        })
    }

    async fn read_catalogue(&self) -> Result<(Catalogue, UpdateVersion)> {
        let Some((bytes, version)) = self.0.store.object(&catalogue_key()).await? else {
            let context = "the database's catalogue is gone";
            return Err(Error::new(ErrorKind::NotFound, context));
        };
        let catalogue = Catalogue::decode(&bytes)?;
        *self.0.known() = catalogue.clone();
        Ok((catalogue, version))
    }

    /// Changes the catalogue; `change` says whether there is anything to change.
    async fn change_catalogue(
        &self,
        change: impl Fn(&mut Catalogue) -> Result<bool>,
    ) -> Result<()> {
        let mut tries = 1;
        loop {
            let (mut catalogue, version) = self.read_catalogue().await?;
            if !change(&mut catalogue)? {
                return Ok(());
            }
            let mode = PutMode::Update(version);
            let put = self
                .0
                .store
                .put(&catalogue_key(), catalogue.encode(), mode)
                .await;
            let error = match put {
                Ok(Put::Landed(_)) => {
                    *self.0.known() = catalogue;
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
            self.0.store.pause(tries).await;
            tries += 1;
        }
    }

    /// Deletes a collection with its records. Clients that still write to it are refused.
    ///
    /// # Errors
    /// `NotFound`. Of the cloud.
    pub async fn drop_collection(&self, name: &str) -> Result<()> {
        let collection = self.collection(name).await?;
        let pages = self.pages(&collection).await?;
        self.change_catalogue(|catalogue| match catalogue.by_id(collection.id) {
            Some(_) => Ok(catalogue.collections.remove(name).is_some()),
            None => Ok(false),
        })
        .await?;
        let pending = self.0.pending(&self.0.store);
        for number in 0..collection.queues {
            let queue = pending.queue(collection.id, number);
            match self.0.store.0.queues.delete(&queue).await {
                Err(error) if error.kind != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        for id in pages.keys() {
            self.0.store.delete(&key("pages", id.0)).await?;
        }
        Ok(())
    }

    /// The database's scope of the meter: all that this client sent.
    pub fn meter(&self) -> &fader_cloud::Meter {
        &self.0.store.0.meter
    }

    /// Compares the client's clock with the store's, once an hour, before it sends stamps.
    ///
    /// # Errors
    /// `Invalid`: they differ by more than the bound.
    pub(crate) async fn check_clock(&self, store: &Store) -> Result<()> {
        let now = store.0.runtime.clock.monotonic();
        let checked = *self
            .0
            .clock_checked
            .lock()
            .expect("nothing panics while it is locked");
        if checked.is_some_and(|checked| now.saturating_sub(checked) < CLOCK_CHECK) {
            return Ok(());
        }
        let Some((begun_ms, written_ms)) = self.0.store_time(store).await? else {
            return Ok(());
        };
        let bound_ms = u64::try_from(self.0.options.clock_bound.as_millis()).unwrap_or(u64::MAX);
        // The store's times have seconds.
        let store_ms = written_ms.max(begun_ms.min(written_ms + 1_000));
        HybridClock::check(begun_ms, store_ms, bound_ms)
            .map_err(|error| Error::caused(ErrorKind::Invalid, "nothing was sent", error))?;
        let mut checked = self
            .0
            .clock_checked
            .lock()
            .expect("nothing panics while it is locked");
        *checked = Some(now);
        Ok(())
    }
}

impl Inner {
    pub(crate) fn known(&self) -> MutexGuard<'_, Catalogue> {
        self.known
            .lock()
            .expect("nothing panics while it is locked")
    }

    pub(crate) fn session(&self) -> MutexGuard<'_, Session> {
        self.session
            .lock()
            .expect("nothing panics while it is locked")
    }

    pub(crate) fn work(&self) -> MutexGuard<'_, Work> {
        self.work.lock().expect("nothing panics while it is locked")
    }

    pub(crate) fn pending<'a>(&'a self, store: &'a Store) -> Pending<'a> {
        Pending {
            store,
            database: &self.name,
            guards: self.options.guards,
        }
    }

    pub(crate) fn tree<'a>(&'a self, store: &'a Store, collection: &Collection) -> Tree<'a> {
        Tree {
            store,
            pool: &self.pool,
            root: collection.root(),
            sizes: collection.sizes(),
            guards: self.options.guards,
        }
    }

    /// The client's wall clock, milliseconds since 1970.
    pub(crate) fn wall_ms(&self) -> u64 {
        u64::try_from(self.store.0.runtime.clock.wall().as_millis()).unwrap_or(u64::MAX)
    }

    /// The time of the next transaction.
    pub(crate) fn tick(&self) -> Result<HybridTime> {
        let ticked = self.session().tick(self.wall_ms());
        ticked.map_err(|error| Error::caused(ErrorKind::Malformed, "the database's stamps", error))
    }

    /// Own and store's time of one moment, milliseconds since 1970: an object is written, looked
    /// at and deleted. None when the store does not say.
    async fn store_time(&self, store: &Store) -> Result<Option<(u64, u64)>> {
        let runtime = &store.0.runtime;
        let id = runtime.random_id();
        let key = key("clock", id);
        store.put_surely(&key, bytes::Bytes::new()).await?;
        let own = self.wall_ms();
        let modified = store.modified(&key).await?;
        store.delete(&key).await?;
        Ok(modified.map(|modified| (own, modified)))
    }
}
