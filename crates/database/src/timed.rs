//! Conditional PUTs on a store that keeps no conditions, by a token and time. This is the protocol
//! of the paper (4.3), for every object of a database.
//!
//! ```text
//!  receive the token ──▶ HEAD: is the version that was read the newest? ──▶ PUT ──▶ show the token
//!        └────────────── within the token's time, less the margin ───────────┘
//! ```
//!
//! One LOCK queue of the database holds one message, the token. A client that received it is alone
//! until the token shows again.
//!
//! Invariants:
//! - TIMED-1 a conditional PUT is sent only while its client has the token and the margin is left.
//!
//! After a PUT without an answer the client leaves the token hidden: until it shows again the PUT
//! has landed, or never will. There is one token at most: a send without an answer is not repeated.
//! The token is shown to others only while it is hidden by the own receive, also when that takes
//! effect late.
//!
//! Assumed: a PUT takes effect within the margin after it was sent, or never. A received message
//! is hidden for its time. Reads show the newest version, and clocks run at one rate. A cloud that
//! breaks one of these loses writes.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use fader_cloud::{
    Cloud, Error, ErrorKind, Meter, Metered, Queues, Receipt, Result, Runtime, Services,
    object_error_kind,
};
use futures_util::lock::Mutex;
use futures_util::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult,
};

use crate::guard::{Guard, Guards};
use crate::store::{Put, Store, key};
use crate::token;

/// For how long a received token is hidden.
pub(crate) const TOKEN_TIME: Duration = Duration::from_secs(30);
/// What must be left of that when a PUT is sent: the longest time until it takes effect.
pub(crate) const MARGIN: Duration = Duration::from_secs(10);
/// The pause before the token is asked for again.
const PAUSE: Duration = Duration::from_millis(250);
/// How often the token is asked for: longer than a client that ended can keep it.
const TRIES: u32 = 240;
/// Messages are kept for 14 days at most: an older token is replaced.
const TOKEN_AGE_MAX: Duration = Duration::from_secs(3 * 24 * 60 * 60);

/// How conditional PUTs come about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fencing {
    /// The store keeps their conditions.
    Conditional,
    /// A token is received before each, and each is given up when the token's time is over. A
    /// client that stands still for longer, or a store that is later, loses writes of others.
    Timed,
}

/// The token as this client holds it.
#[derive(Debug)]
struct Held {
    receipt: Receipt,
    /// No PUT is sent after this, by the monotonic clock.
    until: Duration,
    /// When it was sent, by the wall clock.
    sent: Duration,
}

/// What all handles of one client share.
#[derive(Debug)]
struct Turns {
    queue: String,
    runtime: Runtime,
    guards: Guards,
    /// Those of this client take turns too.
    held: Mutex<Option<Held>>,
    waiting: AtomicUsize,
}

/// A cloud whose conditional PUTs run by the token.
#[derive(Debug)]
struct TimedCloud {
    cloud: Cloud,
    turns: Arc<Turns>,
}

impl Metered for TimedCloud {
    fn services(&self, meter: &Meter) -> Services {
        let services = self.cloud.metered(meter);
        let timed = TimedObjects {
            objects: services.objects,
            queues: services.queues.clone(),
            turns: self.turns.clone(),
        };
        Services {
            objects: Arc::new(timed),
            ..services
        }
    }
}

/// The same store, with conditional PUTs by the token in a LOCK queue.
pub(crate) fn timed(store: &Store, queue: String, guards: Guards) -> Store {
    let runtime = store.0.runtime.clone();
    let turns = Turns {
        queue,
        runtime: runtime.clone(),
        guards,
        held: Mutex::new(None),
        waiting: AtomicUsize::new(0),
    };
    let meter = store.0.meter.clone();
    let timed = TimedCloud {
        cloud: store.0.clone(),
        turns: Arc::new(turns),
    };
    Store(Cloud::new(Arc::new(timed), runtime, meter))
}

/// The LOCK queue of a database.
pub(crate) fn queue(database: &str) -> String {
    format!("{database}-lock")
}

/// Sends the token of a new LOCK queue.
///
/// # Errors
/// Of the queues. It may have been sent then: the queue must not be used.
pub(crate) async fn mint(store: &Store, queue: &str) -> Result<()> {
    let sent = store.0.runtime.clock.wall().as_secs().to_string();
    token::send(&*store.0.queues, queue, sent).await
}

/// Whether a store keeps the conditions of PUTs, found out with an object of its own.
///
/// # Errors
/// Of the store.
pub(crate) async fn keeps_conditions(store: &Store) -> Result<bool> {
    let mut tries = 1;
    loop {
        let at = key("clock", store.0.runtime.random_id());
        let found = probe(store, &at).await;
        match found {
            Err(error) if error.kind == ErrorKind::Invalid => return Ok(false),
            Err(error) if crate::store::is_passing(&error) && tries < 5 => {
                store.pause(tries).await;
                tries += 1;
            }
            found => {
                store.delete(&at).await?;
                return found;
            }
        }
    }
}

async fn probe(store: &Store, at: &Path) -> Result<bool> {
    let put = async |text: &'static str, mode: PutMode| match store
        .put(at, bytes::Bytes::from_static(text.as_bytes()), mode)
        .await?
    {
        Put::Landed(version) => Ok(Some(version)),
        Put::Refused => Ok(None),
        Put::Unknown(error) => Err(error),
    };
    let Some(first) = put("1", PutMode::Create).await? else {
        return Ok(false);
    };
    if put("2", PutMode::Create).await?.is_some() {
        return Ok(false);
    }
    let update = || PutMode::Update(first.clone());
    Ok(put("3", update()).await?.is_some() && put("4", update()).await?.is_none())
}

impl Turns {
    fn now(&self) -> Duration {
        self.runtime.clock.monotonic()
    }

    /// The token, unless another client has it.
    async fn receive(&self, queues: &dyn Queues) -> Result<Option<Held>> {
        let asked = self.now();
        let received = token::receive(queues, &self.queue, TOKEN_TIME).await?;
        Ok(received.map(|token| Held {
            receipt: token.receipt,
            until: asked + TOKEN_TIME - MARGIN,
            sent: Duration::from_secs(token.body.parse().unwrap_or(0)),
        }))
    }

    /// The token, waited for.
    async fn take(&self, queues: &dyn Queues) -> Result<Held> {
        for _ in 0..TRIES {
            match self.receive(queues).await {
                Ok(Some(held)) => return Ok(held),
                Err(error) if !crate::store::is_passing(&error) => return Err(error),
                // A receive without an answer may have hidden it: it shows again.
                Ok(None) | Err(_) => self.runtime.clock.sleep(PAUSE).await,
            }
        }
        let context = "another client keeps the token of the database, or it is lost: `fader db \
                       vacuum` makes a new one";
        let kind = ErrorKind::Unavailable { retry_after: None };
        Err(Error::new(kind, context))
    }

    /// Shows the token to others. An old one is replaced: without an answer there may be none.
    async fn give_back(&self, queues: &dyn Queues, held: Held) {
        if held.until <= self.now() {
            return;
        }
        let is_old = held.sent + TOKEN_AGE_MAX < self.runtime.clock.wall();
        if !is_old {
            drop(
                queues
                    .hide(&self.queue, &held.receipt, Duration::ZERO)
                    .await,
            );
            return;
        }
        let removed = queues.remove(&self.queue, &[held.receipt]).await;
        if removed.is_ok_and(|removed| removed.iter().all(Result::is_ok)) {
            let sent = self.runtime.clock.wall().as_secs().to_string();
            drop(token::send(queues, &self.queue, sent).await);
        }
    }
}

/// A PUT that waits for its turn; also one whose caller gives it up counts no longer.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Waiting(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Objects whose conditional PUTs run by the token.
#[derive(Debug)]
struct TimedObjects {
    objects: Arc<dyn ObjectStore>,
    queues: Arc<dyn Queues>,
    turns: Arc<Turns>,
}

impl TimedObjects {
    async fn put_in_turn(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> object_store::Result<PutResult> {
        let turns = &*self.turns;
        let waiting = Waiting::new(&turns.waiting);
        let mut slot = turns.held.lock().await;
        drop(waiting);
        let held = match slot.take().filter(|held| turns.now() < held.until) {
            Some(held) => held,
            None => turns.take(&*self.queues).await.map_err(generic)?,
        };
        let put = self
            .put_before(location, payload, options, held.until)
            .await;
        match &put {
            Err(error) if object_error_kind(error, true) == ErrorKind::Ambiguous => {}
            _ if 0 < turns.waiting.load(Ordering::Relaxed) => *slot = Some(held),
            _ => turns.give_back(&*self.queues, held).await,
        }
        put
    }

    /// Compares the object with the condition, and writes it while there is time.
    async fn put_before(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
        until: Duration,
    ) -> object_store::Result<PutResult> {
        let found = match self.objects.head(location).await {
            Ok(meta) => Some(meta),
            Err(object_store::Error::NotFound { .. }) => None,
            // Nothing was sent that changes anything.
            Err(error) => return Err(given_up("it was not seen", Some(error))),
        };
        let path = || location.to_string();
        match (&options.mode, found) {
            (PutMode::Create, Some(_)) => {
                let source = "it exists".into();
                return Err(object_store::Error::AlreadyExists {
                    path: path(),
                    source,
                });
            }
            (PutMode::Update(version), found) => {
                let newest = found.and_then(|meta| meta.e_tag);
                if newest.is_none() || newest != version.e_tag {
                    let source = "it is another version".into();
                    return Err(object_store::Error::Precondition {
                        path: path(),
                        source,
                    });
                }
            }
            _ => {}
        }
        if until <= self.turns.now() && self.turns.guards.has(Guard::TokenInTime) {
            return Err(given_up("the token's time is over", None));
        }
        let options = PutOptions {
            mode: PutMode::Overwrite,
            ..options
        };
        self.objects.put_opts(location, payload, options).await
    }
}

/// A PUT that was not sent.
fn given_up(context: &'static str, cause: Option<object_store::Error>) -> object_store::Error {
    let kind = ErrorKind::Unavailable { retry_after: None };
    generic(match cause {
        Some(cause) => Error::caused(kind, context, cause),
        None => Error::new(kind, context),
    })
}

fn generic(error: Error) -> object_store::Error {
    object_store::Error::Generic {
        store: "timed",
        source: Box::new(error),
    }
}

impl fmt::Display for TimedObjects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} with a token", self.objects)
    }
}

#[async_trait]
impl ObjectStore for TimedObjects {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> object_store::Result<PutResult> {
        match options.mode {
            PutMode::Overwrite => self.objects.put_opts(location, payload, options).await,
            _ if !self.turns.guards.has(Guard::Token) => {
                let never = Duration::MAX;
                self.put_before(location, payload, options, never).await
            }
            PutMode::Create | PutMode::Update(_) => {
                self.put_in_turn(location, payload, options).await
            }
        }
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> object_store::Result<Box<dyn MultipartUpload>> {
        self.objects.put_multipart_opts(location, options).await
    }

    async fn get_opts(
        &self,
        location: &Path,
        options: GetOptions,
    ) -> object_store::Result<GetResult> {
        self.objects.get_opts(location, options).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, object_store::Result<Path>>,
    ) -> BoxStream<'static, object_store::Result<Path>> {
        self.objects.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        self.objects.list(prefix)
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        self.objects.list_with_offset(prefix, offset)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> object_store::Result<ListResult> {
        self.objects.list_with_delimiter(prefix).await
    }

    async fn copy_opts(
        &self,
        from: &Path,
        to: &Path,
        options: CopyOptions,
    ) -> object_store::Result<()> {
        self.objects.copy_opts(from, to, options).await
    }
}
