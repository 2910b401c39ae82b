//! A bucket in virtual time whose requests take time, are counted, and go wrong as a test says.
//!
//! A request's effect is apart from its caller: it lands though the caller died.

#![allow(dead_code, reason = "each test uses a part of it")]

pub(crate) mod domains;
pub(crate) mod queues;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use fader_cloud::model::{Executor, ModelClock, Process, Skew};
use fader_cloud::{Clock, Runtime};
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, StreamExt};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload,
    ObjectMeta, ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult,
    Result,
};

/// What a request meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It lands, and its answer is lost.
    LoseAnswer,
    /// It never lands, and the caller hears nothing.
    LoseRequest,
    /// The caller hears nothing, and it lands after this time.
    Late(Duration),
    /// It takes so much longer to land.
    Slow(Duration),
    /// Its answer takes so much longer.
    SlowAnswer(Duration),
}

/// A request, as a rule sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    /// `PUT`, `GET`, `HEAD`, `LIST` or `DELETE`.
    pub(crate) kind: &'static str,
    pub(crate) key: String,
    /// Counted from 1, among all.
    pub(crate) number: usize,
}

type Rule = Box<dyn FnMut(&Call) -> Option<Fault> + Send>;

struct Object {
    bytes: Bytes,
    e_tag: u64,
    /// Virtual time.
    modified: Duration,
}

#[derive(Default)]
struct Inner {
    objects: BTreeMap<String, Object>,
    e_tags: u64,
    rules: Vec<Rule>,
    calls: Vec<Call>,
    /// How many of each outcome: `GET 404`, `PUT 412`.
    outcomes: BTreeMap<String, usize>,
}

/// The bucket. Clones are the same one.
#[derive(Clone)]
pub(crate) struct Stage {
    pub(crate) executor: Executor,
    harness: Runtime,
    clock: Arc<ModelClock>,
    inner: Arc<Mutex<Inner>>,
    /// Keys of a page of a list.
    pub(crate) page: usize,
    pub(crate) get: Duration,
    pub(crate) put: Duration,
    pub(crate) list: Duration,
    /// Requests take up to so much longer, by chance.
    pub(crate) jitter: Duration,
}

/// What a request does at the store.
type Act = Box<dyn FnOnce(&mut Inner, Duration) -> Result<Answer> + Send>;

enum Answer {
    Put(PutResult),
    Get(Bytes, ObjectMeta),
    Meta(Vec<ObjectMeta>),
    Done,
}

impl Stage {
    pub(crate) fn new(seed: u64) -> Self {
        let executor = Executor::new(seed);
        let harness = executor.harness();
        Stage {
            harness: harness.runtime(),
            clock: harness.clock(),
            executor,
            inner: Arc::default(),
            page: 1000,
            get: Duration::from_millis(25),
            put: Duration::from_millis(30),
            list: Duration::from_millis(25),
            jitter: Duration::ZERO,
        }
    }

    pub(crate) fn objects(&self) -> Arc<dyn ObjectStore> {
        Arc::new(self.clone())
    }

    pub(crate) fn process(&self, name: &str) -> Process {
        self.executor.process(name, Skew::default())
    }

    pub(crate) fn run<F: Future>(&self, future: F) -> F::Output {
        self.executor.run(future)
    }

    pub(crate) async fn sleep(&self, time: Duration) {
        self.clock.sleep(time).await;
    }

    pub(crate) fn now(&self) -> Duration {
        self.clock.monotonic()
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner
            .lock()
            .expect("nothing panics while it is locked")
    }

    /// What a rule says of calls, until it says `None` for all of them.
    pub(crate) fn rule(&self, rule: impl FnMut(&Call) -> Option<Fault> + Send + 'static) {
        self.inner().rules.push(Box::new(rule));
    }

    /// The next call of this kind whose key contains `key` meets a fault.
    pub(crate) fn once(&self, kind: &'static str, key: &'static str, fault: Fault) {
        let mut is_over = false;
        self.rule(move |call| {
            let meets = !is_over && call.kind == kind && call.key.contains(key);
            is_over |= meets;
            meets.then_some(fault)
        });
    }

    /// Forgets all rules.
    pub(crate) fn calm(&self) {
        self.inner().rules.clear();
    }

    pub(crate) fn keys(&self) -> Vec<String> {
        self.inner().objects.keys().cloned().collect()
    }

    pub(crate) fn keys_with(&self, text: &str) -> Vec<String> {
        let keys = self.keys();
        keys.into_iter().filter(|key| key.contains(text)).collect()
    }

    pub(crate) fn bytes(&self, key: &str) -> Option<Bytes> {
        let inner = self.inner();
        inner.objects.get(key).map(|object| object.bytes.clone())
    }

    /// Puts an object at once, as damage or a foreign process would.
    pub(crate) fn set(&self, key: &str, bytes: impl Into<Bytes>) {
        let now = self.now();
        self.inner().set(key, bytes.into(), now);
    }

    pub(crate) fn unset(&self, key: &str) {
        self.inner().objects.remove(key);
    }

    pub(crate) fn calls(&self) -> Vec<Call> {
        self.inner().calls.clone()
    }

    /// The kinds of calls since the `since`th, in order.
    pub(crate) fn kinds(&self, since: usize) -> Vec<&'static str> {
        let inner = self.inner();
        inner.calls[since..].iter().map(|call| call.kind).collect()
    }

    pub(crate) fn count(&self) -> usize {
        self.inner().calls.len()
    }

    pub(crate) fn outcomes(&self, outcome: &str) -> usize {
        self.inner().outcomes.get(outcome).copied().unwrap_or(0)
    }

    /// Does something at the store beside the caller.
    fn request(
        &self,
        kind: &'static str,
        key: &str,
        time: Duration,
        act: Act,
    ) -> BoxFuture<'static, Result<Answer>> {
        let mut inner = self.inner();
        let call = Call {
            kind,
            key: key.to_owned(),
            number: inner.calls.len() + 1,
        };
        inner.calls.push(call.clone());
        let fault = inner.rules.iter_mut().find_map(|rule| rule(&call));
        drop(inner);
        let stage = self.clone();
        let jitter = |stage: &Stage| match stage.jitter.as_micros() as u64 {
            0 => Duration::ZERO,
            most => Duration::from_micros(stage.harness.random() % most),
        };
        let before = time / 2 + jitter(self);
        let after = time - time / 2 + jitter(self);
        let served = async move {
            let lands = match fault {
                Some(Fault::Late(late) | Fault::Slow(late)) => before + late,
                _ => before,
            };
            stage.sleep(lands).await;
            let outcome = match fault {
                Some(Fault::LoseRequest) => Err(silence(&call)),
                _ => {
                    let now = stage.now();
                    let mut inner = stage.inner();
                    let outcome = act(&mut inner, now);
                    let name = name_of(&outcome);
                    *inner.outcomes.entry(format!("{kind} {name}")).or_default() += 1;
                    drop(inner);
                    stage
                        .executor
                        .note(|| format!("{kind} {} {name} {fault:?}", call.key));
                    outcome
                }
            };
            let answers = match fault {
                Some(Fault::SlowAnswer(late)) => after + late,
                _ => after,
            };
            stage.sleep(answers).await;
            match fault {
                Some(Fault::LoseAnswer) => Err(silence(&call)),
                _ => outcome,
            }
        };
        let answer = self.harness.spawn(served);
        let stage = self.clone();
        let (kind, key) = (kind.to_owned(), key.to_owned());
        Box::pin(async move {
            if let Some(Fault::Late(_)) = fault {
                stage.sleep(time).await;
                let error = format!("{kind} of {key}: no answer");
                return Err(generic(error));
            }
            answer.await.expect("the store does not crash")
        })
    }
}

fn name_of(outcome: &Result<Answer>) -> &'static str {
    match outcome {
        Ok(_) => "200",
        Err(Error::NotFound { .. }) => "404",
        Err(_) => "412",
    }
}

fn silence(call: &Call) -> Error {
    generic(format!("{} of {}: no answer", call.kind, call.key))
}

fn generic(text: String) -> Error {
    Error::Generic {
        store: "stage",
        source: text.into(),
    }
}

impl Inner {
    fn set(&mut self, key: &str, bytes: Bytes, now: Duration) -> PutResult {
        self.e_tags += 1;
        let object = Object {
            bytes,
            e_tag: self.e_tags,
            modified: now,
        };
        self.objects.insert(key.to_owned(), object);
        PutResult {
            e_tag: Some(e_tag(self.e_tags)),
            version: None,
            extensions: Default::default(),
        }
    }

    fn put(&mut self, key: &str, bytes: Bytes, mode: PutMode, now: Duration) -> Result<Answer> {
        let known = self.objects.get(key).map(|object| e_tag(object.e_tag));
        let refused = || Error::Precondition {
            path: key.to_owned(),
            source: "the condition does not hold".into(),
        };
        match (mode, known) {
            (PutMode::Create, Some(_)) => Err(Error::AlreadyExists {
                path: key.to_owned(),
                source: "it exists".into(),
            }),
            (PutMode::Update(version), known) if version.e_tag != known => Err(refused()),
            _ => Ok(Answer::Put(self.set(key, bytes, now))),
        }
    }

    fn get(&self, key: &str) -> Result<Answer> {
        let object = self.objects.get(key).ok_or_else(|| Error::NotFound {
            path: key.to_owned(),
            source: "there is none".into(),
        })?;
        Ok(Answer::Get(object.bytes.clone(), meta(key, object)))
    }
}

fn e_tag(number: u64) -> String {
    format!("\"{number}\"")
}

fn meta(key: &str, object: &Object) -> ObjectMeta {
    /// When virtual time begins: 2026-01-01.
    const BEGINNING: u64 = 1_767_225_600;
    // Last-Modified has a grain of a second.
    let seconds = BEGINNING + object.modified.as_secs();
    let modified = std::time::UNIX_EPOCH + Duration::from_secs(seconds);
    ObjectMeta {
        location: Path::parse(key).expect("it was a path"),
        last_modified: modified.into(),
        size: object.bytes.len() as u64,
        e_tag: Some(e_tag(object.e_tag)),
        version: None,
    }
}

impl fmt::Debug for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stage")
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a bucket on stage")
    }
}

#[async_trait]
impl ObjectStore for Stage {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        let key = location.as_ref().to_owned();
        let bytes: Bytes = payload.into();
        let act: Act = {
            let key = key.clone();
            Box::new(move |inner, now| inner.put(&key, bytes, options.mode, now))
        };
        match self.request("PUT", &key, self.put, act).await? {
            Answer::Put(put) => Ok(put),
            _ => unreachable!("a PUT answers so"),
        }
    }

    async fn put_multipart_opts(
        &self,
        _location: &Path,
        _options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        Err(generic("parts are not played".to_owned()))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let key = location.as_ref().to_owned();
        let kind = if options.head { "HEAD" } else { "GET" };
        let act: Act = {
            let key = key.clone();
            Box::new(move |inner, _| inner.get(&key))
        };
        let Answer::Get(bytes, meta) = self.request(kind, &key, self.get, act).await? else {
            unreachable!("a GET answers so")
        };
        options.check_preconditions(&meta)?;
        let size = bytes.len() as u64;
        let stream = stream::once(async move { Ok(bytes) }).boxed();
        Ok(GetResult {
            payload: GetResultPayload::Stream(stream),
            meta,
            range: 0..size,
            attributes: Default::default(),
            extensions: Default::default(),
        })
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let stage = self.clone();
        let deleted = locations.then(move |location| {
            let stage = stage.clone();
            async move {
                let location = location?;
                let key = location.as_ref().to_owned();
                let act: Act = {
                    let key = key.clone();
                    Box::new(move |inner, _| {
                        inner.objects.remove(&key);
                        Ok(Answer::Done)
                    })
                };
                stage.request("DELETE", &key, stage.put, act).await?;
                Ok(location)
            }
        });
        deleted.boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let folder = prefix.map_or_else(String::new, |prefix| format!("{prefix}/"));
        let stage = self.clone();
        let pages = stream::unfold(Some(String::new()), move |after| {
            let (stage, folder) = (stage.clone(), folder.clone());
            async move {
                let after = after?;
                let (most, below) = (stage.page, folder.clone());
                let act: Act = Box::new(move |inner, _| {
                    let found = inner.objects.iter();
                    let found = found.filter(|(key, _)| key.starts_with(&below) && after < **key);
                    let found = found.take(most).map(|(key, object)| meta(key, object));
                    Ok(Answer::Meta(found.collect()))
                });
                let listed = stage.request("LIST", &folder, stage.list, act).await;
                match listed {
                    Ok(Answer::Meta(found)) => {
                        let last = found.last().map(|meta| meta.location.to_string());
                        let next = last.filter(|_| found.len() == most);
                        let found: Vec<Result<ObjectMeta>> = found.into_iter().map(Ok).collect();
                        Some((found, next))
                    }
                    Ok(_) => unreachable!("a LIST answers so"),
                    Err(error) => Some((vec![Err(error)], None)),
                }
            }
        });
        pages.flat_map(stream::iter).boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let memory = InMemory::new();
        memory.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, _from: &Path, _to: &Path, _options: CopyOptions) -> Result<()> {
        Err(generic("copies are not played".to_owned()))
    }
}
