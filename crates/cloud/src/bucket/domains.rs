//! Domains in a bucket: a log each (docs/explanation/bucket.md), decided by SimpleDB's rules
//! (`fader-services`) on the log's state.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use fader_chain::{ApplyContext, Change, DecodeError, EntryId, Layered, Mutations, Reader};
use fader_chain::{put_bytes, put_varint};
use fader_services::catalog::{self, AccountId};
use fader_services::simpledb::{Context, Limits, Reply, Request, answer, decide};
use fader_services::{Decision, MapView, View};
use futures_util::stream::StreamExt;
use object_store::ObjectStore;
use object_store::path::Path;

use super::log::{Keeper, LogClient, Machine, WRITES_MAX};
use super::names::key;
use super::store::Store;
use crate::domains::ReadConsistency;
use crate::error::{Error, ErrorKind, Result};
use crate::runtime::Runtime;
use crate::simpledb::{self, Requests};

/// Domains in a bucket, as one process uses them. Clones are the same.
#[derive(Clone, Debug)]
pub struct BucketDomains(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    keeper: Arc<Keeper>,
    logs: Mutex<BTreeMap<String, Arc<LogClient<Domain>>>>,
}

/// A domain as a list of a bucket shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DomainReport {
    /// Its name.
    pub name: String,
    /// Slots and snapshots of its log.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl BucketDomains {
    /// The domains below a prefix of a bucket, which may be empty. `objects` must decide a
    /// conditional PUT (docs/explanation/bucket.md).
    pub fn new(objects: Arc<dyn ObjectStore>, prefix: Path, runtime: Runtime) -> Self {
        BucketDomains::of(Store::new(objects, prefix, runtime))
    }

    /// The same without one of the guards: for mutants.
    #[cfg(feature = "mutants")]
    pub fn without(
        guard: super::guard::Guard,
        objects: Arc<dyn ObjectStore>,
        prefix: Path,
        runtime: Runtime,
    ) -> Self {
        let mut store = Store::new(objects, prefix, runtime);
        store.guards = super::guard::Guards::without(guard);
        BucketDomains::of(store)
    }

    fn of(store: Store) -> Self {
        BucketDomains(Arc::new(Inner {
            keeper: Arc::new(Keeper::new(store, |name| check(name).is_ok())),
            logs: Mutex::default(),
        }))
    }

    /// Deletes, or only names, what is left of deleted domains, a day after their end. To name it,
    /// nothing is written: the day is then this process's clock's.
    ///
    /// # Errors
    /// Those of the requests; `Malformed` names an object that is not this service's.
    pub async fn sweep(&self, is_dry_run: bool) -> Result<Vec<String>> {
        let keeper = &self.0.keeper;
        if !is_dry_run {
            keeper.store.learn_time().await;
        }
        let mut left = Vec::new();
        for (name, _) in keeper.markers.all(&keeper.store, "").await? {
            left.extend(keeper.sweep(&name, is_dry_run).await?);
        }
        Ok(left)
    }

    /// The domains, each with the objects and bytes of its log.
    ///
    /// # Errors
    /// Those of the requests; `Malformed` names an object that is not this service's.
    pub async fn report(&self) -> Result<Vec<DomainReport>> {
        let store = &self.0.keeper.store;
        let mut reports = Vec::new();
        for name in self.list_domains().await? {
            let (mut objects, mut bytes) = (0, 0);
            for folder in ["logs", "snapshots"] {
                let mut keys = store.list(&key(&store.prefix, &[folder, &name]));
                while let Some(meta) = keys.next().await {
                    objects += 1;
                    bytes += meta?.size;
                }
            }
            reports.push(DomainReport {
                name,
                objects,
                bytes,
            });
        }
        Ok(reports)
    }

    fn log(&self, domain: &str) -> Result<Arc<LogClient<Domain>>> {
        check(domain)?;
        let mut logs = self.0.logs.lock().expect("nothing panics");
        let made = || Arc::new(LogClient::new(self.0.keeper.clone(), domain));
        Ok(logs.entry(domain.to_owned()).or_insert_with(made).clone())
    }

    fn now_ms(&self) -> u64 {
        let wall = self.0.keeper.store.runtime.clock.wall();
        u64::try_from(wall.as_millis()).unwrap_or(u64::MAX)
    }
}

/// Whether a domain may have this name.
fn check(domain: &str) -> Result<()> {
    let context = context(None, 0);
    let decided = decide(&MapView::default(), &context, &simpledb::create(domain));
    decided
        .outcome
        .map(drop)
        .map_err(|error| simpledb::refusal(&error))
}

/// The account of all domains in a bucket.
static ACCOUNT: std::sync::LazyLock<AccountId> =
    std::sync::LazyLock::new(|| AccountId("000000000001".to_owned()));
static LIMITS: std::sync::LazyLock<Limits> = std::sync::LazyLock::new(Limits::default);

fn context(
    entry: Option<(fader_services::CollectionId, fader_services::Mode)>,
    now_ms: u64,
) -> Context<'static> {
    Context {
        collection: entry.map(|(collection, _)| collection),
        mode: entry.map(|(_, mode)| mode).unwrap_or_default(),
        now_ms,
        ..Context::new(&ACCOUNT, &LIMITS)
    }
}

/// A write as its caller asked for it.
#[derive(Debug)]
pub(super) struct Write {
    request: Request,
    now_ms: u64,
}

/// The state of a domain.
#[derive(Debug)]
pub(super) struct Domain {
    name: String,
    view: MapView,
}

impl Domain {
    fn context(&self, view: &dyn View, now_ms: u64) -> Context<'static> {
        let entry = catalog::domain(view, &ACCOUNT, &self.name).ok().flatten();
        context(entry.map(|entry| (entry.collection, entry.mode)), now_ms)
    }

    fn answer(&self, request: &Request, now_ms: u64) -> Result<Reply> {
        let context = self.context(&self.view, now_ms);
        let answered = answer(&self.view, &context, request);
        let answered = answered.map_err(|error| simpledb::refusal(&error))?;
        Ok(answered.reply)
    }
}

/// The entry of a write: its place in its slot counts.
fn under(slot: u64, index: usize) -> ApplyContext {
    ApplyContext::strong(EntryId::new(1, slot * WRITES_MAX as u64 + index as u64))
}

impl Machine for Domain {
    type Write = Write;

    fn new(name: &str) -> Self {
        let mut view = MapView::default();
        let context = context(None, 0);
        let Decision { changes, .. } = decide(&view, &context, &simpledb::create(name));
        view.apply(&changes, &ApplyContext::strong(EntryId::new(1, 0)))
            .expect("an empty view has no registers");
        Domain {
            name: name.to_owned(),
            view,
        }
    }

    fn decide(&self, slot: u64, writes: &[&Write]) -> Vec<Result<Option<Bytes>>> {
        let mut above = Mutations::new();
        let mut logged = 0;
        let mut decided = Vec::with_capacity(writes.len());
        for write in writes {
            let view = Layered::new(&self.view, &above);
            let context = self.context(&view, write.now_ms);
            let Decision { outcome, changes } = decide(&view, &context, &write.request);
            if let Err(error) = outcome {
                decided.push(Err(simpledb::refusal(&error)));
                continue;
            }
            if changes.is_empty() {
                decided.push(Ok(None));
                continue;
            }
            let mut out = Vec::new();
            put_varint(&mut out, changes.len() as u64);
            for change in &changes {
                change.encode(&mut out);
            }
            let laid = lay(&self.view, &mut above, &changes, &under(slot, logged));
            decided.push(laid.map(|()| Some(out.into())));
            logged += 1;
        }
        decided
    }

    fn apply(&mut self, slot: u64, writes: &[Bytes]) -> std::result::Result<(), DecodeError> {
        for (index, write) in writes.iter().enumerate() {
            let mut reader = Reader::new(write.clone());
            let count = reader.count()?;
            let changes = (0..count).map(|_| Change::decode(&mut reader));
            let changes = changes.collect::<std::result::Result<Vec<Change>, _>>()?;
            reader.end()?;
            self.view.apply(&changes, &under(slot, index))?;
        }
        Ok(())
    }

    fn snapshot(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_varint(&mut out, self.view.iter().count() as u64);
        for (key, value) in self.view.iter() {
            put_bytes(&mut out, key);
            put_bytes(&mut out, value);
        }
        out
    }

    fn restore(name: &str, reader: &mut Reader) -> std::result::Result<Self, DecodeError> {
        let count = reader.count()?;
        let mut changes = Vec::with_capacity(count);
        for _ in 0..count {
            changes.push(Change::Put {
                key: reader.bytes()?,
                value: reader.bytes()?,
            });
        }
        let mut view = MapView::default();
        view.apply(&changes, &ApplyContext::strong(EntryId::ZERO))?;
        Ok(Domain {
            name: name.to_owned(),
            view,
        })
    }
}

/// Lays changes over a view.
fn lay(
    below: &MapView,
    above: &mut Mutations,
    changes: &[Change],
    under: &ApplyContext,
) -> Result<()> {
    for change in changes {
        let current = Layered::new(below, above).get(change.key());
        let current = current.map_err(|error| damaged(&error.to_string()))?;
        let mut mutations = Vec::new();
        fader_chain::apply(change, current, under, &mut mutations)
            .map_err(|error| damaged(&error.to_string()))?;
        for mutation in mutations {
            above.insert(mutation.key, mutation.value);
        }
    }
    Ok(())
}

fn damaged(what: &str) -> Error {
    Error::new(
        ErrorKind::Malformed,
        format!("the domain is damaged: {what}"),
    )
}

#[async_trait]
impl Requests for BucketDomains {
    async fn write(&self, request: Request) -> Result<()> {
        let domain = request.domain().unwrap_or_default().to_owned();
        let now_ms = self.now_ms();
        self.log(&domain)?.write(Write { request, now_ms }).await
    }

    async fn read(&self, request: Request, reading: ReadConsistency) -> Result<Reply> {
        let no_domain = || Error::new(ErrorKind::Invalid, "the expression names no domain");
        let domain = request.domain().ok_or_else(no_domain)?.to_owned();
        let log = self.log(&domain)?;
        let now_ms = self.now_ms();
        let read = move |domain: &Domain| domain.answer(&request, now_ms);
        match reading {
            ReadConsistency::Strong => log.read(read).await?,
            ReadConsistency::Eventual => log.read_recent(read).await?,
        }
    }

    async fn create_domain(&self, domain: &str) -> Result<()> {
        check(domain)?;
        let keeper = &self.0.keeper;
        if keeper.create(domain).await? {
            // The next sweep deletes what this one cannot.
            let _ = keeper.sweep(domain, false).await;
        }
        Ok(())
    }

    async fn delete_domain(&self, domain: &str) -> Result<()> {
        self.log(domain)?.seal().await
    }

    async fn list_domains(&self) -> Result<Vec<String>> {
        let keeper = &self.0.keeper;
        keeper.markers.living(&keeper.store, "").await
    }
}
