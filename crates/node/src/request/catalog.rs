//! The catalog as this node knows it: its member of the system chain has it. A node without one
//! asks a member of another process, and remembers rows.
//!
//! Invariants:
//! - CATALOG-1 a name that is remembered says only where to ask: its chain checks the collection's
//!   id. What is not found there is asked of the system chain again.
//! - (CATALOG-2) an access key that is remembered opens nothing after S from when it was asked for.
//! - (CATALOG-3) ids of which no key is known cause few questions, however many requests name them.
//!
//! Deliberately absent: which node has a member of the system chain.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fader_chain::membership::{CachedKey, KeyCache};
use fader_chain::{ALL_GUARDS, ChainId, Version};
use fader_services::catalog::{self, AccessKey, Name};
use fader_services::forward::{CatalogAnswer, CatalogQuestion, ForwardedReply, ForwardedRequest};
use fader_services::{Direction, Reason, Scan, View, ViewError};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use super::Router;
use super::bodies::attempt;
use crate::clock::monotonic_ms;
use crate::member::refusal::{Kind, Refusal};
use crate::secrets::seal::OpenKey;
use crate::storage::cache::BoundedMap;
use crate::storage::engine::Snapshot;

/// Questions about ids of which no key is known that are under way at once.
const ASKED_AT_ONCE: usize = 16;
/// How long one more waits for its turn.
const TURN: Duration = Duration::from_secs(1);

/// What a node without a member of the system chain remembers of the catalog.
pub(super) struct RemoteCatalog {
    names: Mutex<BoundedMap<Bytes, Bytes>>,
    /// By the lease clock.
    keys: Mutex<KeyCache<Arc<OpenKey>>>,
    /// For questions about ids of which no key is known.
    turns: Semaphore,
}

impl RemoteCatalog {
    /// One that knows nothing, where sessions last so long.
    pub(super) fn new(session: Duration) -> Self {
        let session_ms = session.as_millis() as u64;
        RemoteCatalog {
            names: Mutex::default(),
            keys: Mutex::new(KeyCache::new(session_ms, ALL_GUARDS.clone())),
            turns: Semaphore::new(ASKED_AT_ONCE),
        }
    }
}

/// An access key as far as it is known without asking.
#[derive(Clone, Debug)]
pub enum KnownKey {
    /// The key.
    Key(Arc<OpenKey>),
    /// There is no such key.
    None,
    /// Another process knows: [`Node::open_key`](crate::Node::open_key) asks it.
    Elsewhere,
}

/// The catalog, as far as one row goes.
struct OneRow {
    key: Bytes,
    value: Option<Bytes>,
}

impl View for OneRow {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, ViewError> {
        match self.key == key {
            true => Ok(self.value.clone()),
            false => Err(ViewError::NotInView),
        }
    }

    fn scan(&self, _: &[u8], _: &[u8], _: Direction) -> Scan<'_> {
        Box::new(std::iter::once(Err(ViewError::NotInView)))
    }
}

/// Another answer than the question has.
pub(crate) fn no_answer() -> Refusal {
    Refusal::new(Kind::Unknown, Reason::Lost)
}

fn unreadable(error: &ViewError) -> Refusal {
    Refusal::of_store(Kind::Again, error.to_string())
}

impl Router {
    /// The catalog about a name, as it is known here. It may be behind.
    pub(crate) async fn known_catalog(&self, name: Name<'_>) -> Result<Snapshot, Refusal> {
        if let Some(keeper) = self.chains.system().local_member() {
            return Ok(keeper.snapshot());
        }
        let key = catalog::name_key(name);
        let known = self.remote.names.lock().get(&key).cloned();
        match known {
            Some(value) => Ok(Arc::new(OneRow {
                key,
                value: Some(value),
            })),
            None => Box::pin(self.asked_catalog(name)).await,
        }
    }

    /// The catalog about a name, with all that was acknowledged before.
    pub(super) async fn fresh_catalog(&self, name: Name<'_>) -> Result<Snapshot, Refusal> {
        let system = self.chains.system();
        if system.local_member().is_some() {
            // What is answered strongly here is applied here.
            system.ready().await?;
            if let Some(keeper) = system.local_member() {
                return Ok(keeper.snapshot());
            }
        }
        Box::pin(self.asked_catalog(name)).await
    }

    async fn asked_catalog(&self, name: Name<'_>) -> Result<Snapshot, Refusal> {
        let key = catalog::name_key(name);
        let answer = self
            .ask_catalog(CatalogQuestion::Name(name.to_owned()))
            .await?;
        let CatalogAnswer::Name(value) = answer else {
            return Err(no_answer());
        };
        let mut names = self.remote.names.lock();
        match value.clone() {
            Some(value) => names.insert(key.clone(), value),
            None => names.remove(&key),
        }
        drop(names);
        Ok(Arc::new(OneRow { key, value }))
    }

    /// The access key with this id, as it is remembered.
    pub(crate) fn remembered_key(&self, id: &str) -> KnownKey {
        match self.remote.keys.lock().get(id, monotonic_ms()) {
            CachedKey::Key(key) => KnownKey::Key(key),
            CachedKey::Absent => KnownKey::None,
            CachedKey::Unknown => KnownKey::Elsewhere,
        }
    }

    /// Forgets the access key with this id: it is changed here.
    pub(crate) fn forget_key(&self, id: &str) {
        self.remote.keys.lock().forget(id);
    }

    /// The access key with this id, as a member of another process has it. `open` opens it.
    pub(crate) async fn ask_key<E: From<Refusal>>(
        &self,
        id: &str,
        open: impl Fn(AccessKey) -> Result<OpenKey, E>,
    ) -> Result<Option<Arc<OpenKey>>, E> {
        let busy = || Refusal::new(Kind::Again, Reason::UnknownKeys);
        let had_key = self.remote.keys.lock().had_key(id);
        let _turn = match had_key {
            // Strangers do not delay it.
            true => None,
            false => {
                let turn = tokio::time::timeout(TURN, self.remote.turns.acquire()).await;
                Some(turn.map_err(|_| busy())?)
            }
        };
        // Another request may have asked meanwhile.
        match self.remembered_key(id) {
            KnownKey::Key(key) => return Ok(Some(key)),
            KnownKey::None => return Ok(None),
            KnownKey::Elsewhere => {}
        }
        let asked_ms = monotonic_ms();
        if !self.remote.keys.lock().may_ask(id, asked_ms) {
            return Err(busy().into());
        }
        let answer = self
            .ask_catalog(CatalogQuestion::Key(id.to_owned()))
            .await?;
        let CatalogAnswer::Key(key) = answer else {
            return Err(no_answer().into());
        };
        let key = key.map(|key| open(key).map(Arc::new)).transpose()?;
        let mut keys = self.remote.keys.lock();
        if !keys.on_answer(id, asked_ms, monotonic_ms(), key.clone()) {
            // It took too long: the key may have been disabled meanwhile.
            return Err(Refusal::new(Kind::Again, Reason::NoMember).into());
        }
        Ok(key)
    }

    /// What a member of the system chain answers, wherever it is.
    pub(crate) async fn ask_catalog(
        &self,
        question: CatalogQuestion,
    ) -> Result<CatalogAnswer, Refusal> {
        self.ask_member(ChainId::SYSTEM, question).await
    }

    /// What a member of a chain answers, wherever it is.
    pub(super) async fn ask_member(
        &self,
        chain: ChainId,
        question: CatalogQuestion,
    ) -> Result<CatalogAnswer, Refusal> {
        let cluster = self.cluster(chain)?;
        if cluster.process.is_none() || cluster.version() < Version::SIXTH {
            return Err(Refusal::new(Kind::Again, Reason::NoMember));
        }
        let asked = ForwardedRequest::Catalog(question);
        let told = cluster.forward(&asked).await?;
        match (told, asked) {
            (Some(ForwardedReply::Catalog(answer)), _) => Ok(answer),
            // It can be answered here meanwhile.
            (None, ForwardedRequest::Catalog(question)) => {
                self.answer_catalog(chain, question).await
            }
            _ => Err(no_answer()),
        }
    }

    /// Answers as the member of a chain here has it, with all that was acknowledged before.
    pub(super) async fn answer_catalog(
        &self,
        chain: ChainId,
        question: CatalogQuestion,
    ) -> Result<CatalogAnswer, Refusal> {
        self.cluster(chain)?.ready().await?;
        let keeper = self.keeper_of(chain)?;
        let view = keeper.snapshot();
        let answer = match question {
            CatalogQuestion::Name(name) => view
                .get(&catalog::name_key(name.name()))
                .map(CatalogAnswer::Name),
            CatalogQuestion::Key(id) => catalog::key(&*view, &id).map(CatalogAnswer::Key),
            CatalogQuestion::Keys => catalog::keys(&*view).map(CatalogAnswer::Keys),
            CatalogQuestion::Attempt(name, id) => {
                attempt(&keeper, name.name(), id).map(CatalogAnswer::Attempt)
            }
        };
        answer.map_err(|error| unreadable(&error))
    }
}
