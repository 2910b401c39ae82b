//! A client of a database: opening it, and what its parts share.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use fader_blink::{HybridClock, HybridTime, PageId, Record};
use fader_cloud::{Cloud, Error, ErrorKind, Result};
use object_store::{PutMode, UpdateVersion};

use crate::catalogue::{Catalogue, Collection, CollectionId};
use crate::costs::Counted;
use crate::disk::Disk;
use crate::layout::PendingQueues;
use crate::level::Level;
use crate::options::Options;
use crate::pending::Pending;
use crate::pool::{Pool, Use};
use crate::routing::{Due, Outgoing};
use crate::sealing::{Sealer, SealingKey};
use crate::session::Session;
use crate::store::{Put, Store, catalogue_key, key};
use crate::timed::{self, Fencing};
use crate::transaction::Transaction;
use crate::tree::{LeafQueues, Tree};

/// Leaves that a checkpoint writes at once.
const LEAVES_AT_ONCE: usize = 16;
/// How often a change of the catalogue is tried against other clients.
pub(crate) const TRIES: u32 = 20;
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
    pub(crate) disk: Option<Disk>,
    pub(crate) session: Mutex<Session>,
    /// Random, new in each opening: a part of all stamps.
    pub(crate) incarnation: u64,
    /// The name of the database in the names of its queues.
    pub(crate) name: String,
    pub(crate) known: Mutex<Known>,
    pub(crate) work: Mutex<Work>,
    in_clear: Sealer,
    sealers: Mutex<BTreeMap<CollectionId, (Vec<SealingKey>, Sealer)>>,
    clock_checked: Mutex<Option<Duration>>,
    /// What this client used and kept beside the database.
    kept_cost: Mutex<Counted>,
}

/// The catalogue as this client last read it.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) catalogue: Catalogue,
    pub(crate) version: UpdateVersion,
    /// When that read began, by the monotonic clock.
    pub(crate) read_at: Duration,
}

impl Known {
    /// Id and root of a collection.
    pub(crate) fn tree(&self, name: &str) -> Option<(CollectionId, PageId)> {
        let found = self.catalogue.collections.get(name)?;
        Some((found.id, found.root))
    }
}

/// Work of this client that is under way or due.
#[derive(Debug, Default)]
pub(crate) struct Work {
    /// Queues with a checkpoint to come.
    pub(crate) checkpoints: BTreeSet<Due>,
    /// Queues whose checkpoint is under way: a second one would lose races to the first.
    pub(crate) active: BTreeSet<Due>,
    /// Trees whose last checkpoint was left to another client.
    pub(crate) put_off: BTreeSet<CollectionId>,
    /// Whether transactions are to be finished.
    pub(crate) finishing: bool,
    /// Queues of transactions that were finished since the last checkpoint was planned.
    pub(crate) touched: BTreeSet<Due>,
    /// Whether the client is closed.
    pub(crate) is_closed: bool,
}

impl Database {
    /// Creates a database in a cloud that has none at its prefix, and opens it.
    ///
    /// # Errors
    /// `Precondition`: there is one. Of the cloud.
    pub async fn create(cloud: Cloud, options: Options) -> Result<Self> {
        let plain = Store(options.grouped(cloud));
        let mut catalogue = Catalogue::new(plain.0.runtime.random());
        let is_here = || {
            let context = "a database is here already: open it, or choose another URL";
            Error::new(ErrorKind::Precondition, context)
        };
        if plain.object(&catalogue_key()).await?.is_some() {
            return Err(is_here());
        }
        catalogue.is_timed = !timed::keeps_conditions(&plain).await?;
        let store = fenced(plain, &catalogue, &options);
        let pending = Pending {
            store: &store,
            database: &catalogue.database,
            is_one_by_one: options.is_one_by_one,
            guards: options.guards,
        };
        pending.create(&pending.atomic()).await?;
        if catalogue.is_timed {
            let lock = timed::queue(&catalogue.database);
            pending.create(&lock).await?;
            timed::mint(&store, &lock).await?;
        }
        let mut tries = 1;
        let version = loop {
            let put = store
                .put(&catalogue_key(), catalogue.encode(), PutMode::Create)
                .await?;
            let error = match put {
                Put::Landed(version) => break version,
                Put::Refused => match store.object(&catalogue_key()).await? {
                    // An earlier try landed.
                    Some((found, version)) if found == catalogue.encode() => break version,
                    _ => return Err(is_here()),
                },
                Put::Unknown(error) => error,
            };
            if TRIES <= tries {
                return Err(error);
            }
            store.pause(tries).await;
            tries += 1;
        };
        let read_at = store.0.runtime.clock.monotonic();
        let known = Known {
            catalogue,
            version,
            read_at,
        };
        Ok(Self::with(store, known, options))
    }

    /// Opens the database at a cloud's prefix.
    ///
    /// # Errors
    /// `NotFound`: there is none. `Malformed`: foreign, damaged, or of a newer format. Of the
    /// cloud.
    pub async fn open(cloud: Cloud, options: Options) -> Result<Self> {
        let plain = Store(options.grouped(cloud));
        let read_at = plain.0.runtime.clock.monotonic();
        let Some((bytes, version)) = plain.object(&catalogue_key()).await? else {
            let context = "no database is here: create one first";
            return Err(Error::new(ErrorKind::NotFound, context));
        };
        let catalogue = Catalogue::decode(&bytes)?;
        let store = fenced(plain, &catalogue, &options);
        let known = Known {
            catalogue,
            version,
            read_at,
        };
        Ok(Self::with(store, known, options))
    }

    fn with(store: Store, known: Known, options: Options) -> Self {
        let disk = options.disk.clone();
        let disk = disk.map(|tier| Disk::open(tier, &known.catalogue.database));
        Database(Arc::new(Inner {
            disk,
            pool: Mutex::new(Pool::new(options.pool_bytes)),
            session: Mutex::new(Session::new(options.guards)),
            incarnation: store.0.runtime.random(),
            name: known.catalogue.database.clone(),
            known: Mutex::new(known),
            work: Mutex::default(),
            in_clear: Sealer::in_clear(),
            sealers: Mutex::default(),
            clock_checked: Mutex::default(),
            kept_cost: Mutex::default(),
            store,
            options,
        }))
    }

    /// How this database's conditional PUTs come about. At [`Fencing::Timed`] its promises hold
    /// only while no client stands still, and no PUT is late, for longer than the token allows.
    pub fn fencing(&self) -> Fencing {
        match self.0.known().catalogue.is_timed {
            true => Fencing::Timed,
            false => Fencing::Conditional,
        }
    }

    /// Begins a transaction. Nothing is sent before its first read or its commit.
    pub fn begin(&self, level: Level) -> Transaction {
        Transaction::new(self.clone(), level)
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

/// A store whose conditional PUTs run by the token, where the catalogue says so.
fn fenced(plain: Store, catalogue: &Catalogue, options: &Options) -> Store {
    match catalogue.is_timed {
        true => {
            let queue = timed::queue(&catalogue.database);
            timed::timed(&plain, queue, options.guards)
        }
        false => plain,
    }
}

impl Inner {
    pub(crate) fn known(&self) -> MutexGuard<'_, Known> {
        self.known
            .lock()
            .expect("nothing panics while it is locked")
    }

    pub(crate) fn kept_cost(&self) -> MutexGuard<'_, Counted> {
        self.kept_cost
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
            is_one_by_one: self.options.is_one_by_one,
            guards: self.options.guards,
        }
    }

    pub(crate) fn tree<'a>(
        &'a self,
        store: &'a Store,
        collection: &Collection,
    ) -> Result<Tree<'a>> {
        Ok(Tree {
            store,
            splits: None,
            pool: &self.pool,
            disk: self.disk.as_ref(),
            id: collection.id,
            root: collection.root,
            leaf_queues: match collection.queues {
                PendingQueues::PerLeaf => Some(LeafQueues {
                    database: self.name.clone(),
                    tree: collection.id,
                }),
                PendingQueues::PerCollection(_) => None,
            },
            sizes: collection.sizes(),
            sealer: self.sealer(collection)?,
            at_once: if self.options.is_one_by_one {
                1
            } else {
                LEAVES_AT_ONCE
            },
            guards: self.options.guards,
            used: Use::Read,
        })
    }

    /// The keys of a collection, as far as this client has them.
    ///
    /// # Errors
    /// `Malformed`: a key does not open.
    pub(crate) fn sealer(&self, collection: &Collection) -> Result<Sealer> {
        if !collection.is_encrypted() {
            return Ok(self.in_clear.clone());
        }
        let mut sealers = self
            .sealers
            .lock()
            .expect("nothing panics while it is locked");
        if let Some((keys, sealer)) = sealers.get(&collection.id)
            && *keys == collection.keys
        {
            return Ok(sealer.clone());
        }
        let identity = self.options.identity.as_ref();
        let sealer = Sealer::new(&self.name, &collection.keys, identity)?;
        let keys = collection.keys.clone();
        sealers.insert(collection.id, (keys, sealer.clone()));
        Ok(sealer)
    }

    /// Takes a page out of the pool.
    pub(crate) fn forget(&self, id: PageId) {
        let mut pool = self.pool.lock().expect("nothing panics while it is locked");
        pool.remove(id);
        if let Some(disk) = &self.disk {
            disk.doubt(id);
        }
    }

    /// Records of trees with the keys of these.
    pub(crate) fn outgoing(&self, parts: Vec<(Collection, Vec<Record>)>) -> Result<Vec<Outgoing>> {
        let parts = parts.into_iter();
        let sealed = parts.map(|(tree, records)| {
            let sealer = self.sealer(&tree)?;
            sealer.check()?;
            Ok(Outgoing {
                tree,
                sealer,
                records,
            })
        });
        sealed.collect()
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
