//! Stores that keep their promises pass; each wrapper that breaks one is found out by name.

#![allow(clippy::unwrap_used, reason = "a test may fail here")]

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, StreamExt};
use object_store::memory::InMemory;
use object_store::{
    CopyOptions, GetResult, ListResult, MultipartUpload, PutMultipartOptions, PutPayload,
};

use super::*;
use crate::clock::Clock;
use crate::runtime::{Entropy, Tasks};

/// How a store, or a proxy before it, breaks its promises.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    DropsIfNoneMatch,
    DropsIfMatch,
    IfMatchCreates,
    RefusesIfMatch,
    OldReads,
    OldReadsAfterDelete,
    OldLists,
    OldListsAfterDelete,
    NeverNotModified,
    AlwaysNotModified,
    SameEtag,
    NoConditions,
}

/// A store with a fault, which counts requests.
#[derive(Debug)]
struct Faulty {
    fault: Fault,
    store: InMemory,
    requests: AtomicUsize,
    reads: Mutex<HashMap<Path, String>>,
    lists: Mutex<Option<Vec<ObjectMeta>>>,
}

impl Faulty {
    fn new(fault: Fault) -> Self {
        Faulty {
            fault,
            store: InMemory::new(),
            requests: AtomicUsize::new(0),
            reads: Mutex::default(),
            lists: Mutex::default(),
        }
    }

    fn count(&self) -> usize {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.requests.load(Ordering::Relaxed)
    }
}

impl fmt::Display for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

fn same_etag(put: PutResult) -> PutResult {
    PutResult {
        e_tag: Some("same".to_owned()),
        ..put
    }
}

#[async_trait]
impl ObjectStore for Faulty {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        mut options: PutOptions,
    ) -> object_store::Result<PutResult> {
        self.count();
        let is_there = self.store.head(location).await.is_ok();
        match (&mut options.mode, self.fault) {
            (mode @ PutMode::Create, Fault::DropsIfNoneMatch) => *mode = PutMode::Overwrite,
            (mode @ PutMode::Update(_), Fault::DropsIfMatch) => *mode = PutMode::Overwrite,
            (mode @ PutMode::Update(_), Fault::IfMatchCreates) if !is_there => {
                *mode = PutMode::Overwrite;
            }
            (PutMode::Update(_), Fault::RefusesIfMatch) => {
                return Err(StoreError::Precondition {
                    path: location.to_string(),
                    source: "refused".into(),
                });
            }
            (PutMode::Create | PutMode::Update(_), Fault::NoConditions) => {
                return Err(StoreError::NotImplemented {
                    operation: "a put on a condition".to_owned(),
                    implementer: "this store".to_owned(),
                });
            }
            (PutMode::Update(version), Fault::SameEtag) => {
                version.e_tag = Some(self.store.head(location).await?.e_tag.unwrap());
            }
            _ => {}
        }
        let put = self.store.put_opts(location, payload, options).await?;
        Ok(match self.fault {
            Fault::SameEtag => same_etag(put),
            _ => put,
        })
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> object_store::Result<Box<dyn MultipartUpload>> {
        self.store.put_multipart_opts(location, options).await
    }

    async fn get_opts(
        &self,
        location: &Path,
        mut options: GetOptions,
    ) -> object_store::Result<GetResult> {
        self.count();
        let is_conditional = options.if_none_match.is_some();
        match self.fault {
            Fault::NeverNotModified => options.if_none_match = None,
            Fault::AlwaysNotModified if is_conditional => {
                return Err(StoreError::NotModified {
                    path: location.to_string(),
                    source: "cached".into(),
                });
            }
            Fault::SameEtag if is_conditional => {
                options.if_none_match = self.store.head(location).await?.e_tag;
            }
            _ => {}
        }
        let found = self.store.get_opts(location, options).await;
        let known = self.reads.lock().unwrap().get(location).cloned();
        let is_old = match self.fault {
            Fault::OldReads => !is_conditional,
            Fault::OldReadsAfterDelete => found.is_err() && !is_conditional,
            _ => false,
        };
        match (is_old, known) {
            (true, Some(body)) => {
                let other = InMemory::new();
                other.put(location, body.into()).await?;
                other.get(location).await
            }
            _ => {
                let found = found?;
                let (meta, body) = (found.meta.clone(), found.bytes().await?);
                let text = String::from_utf8_lossy(&body).into_owned();
                self.reads.lock().unwrap().insert(location.clone(), text);
                let mut answer = self.store.get(location).await?;
                answer.meta = meta;
                Ok(answer)
            }
        }
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, object_store::Result<Path>>,
    ) -> BoxStream<'static, object_store::Result<Path>> {
        self.count();
        self.store.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        self.count();
        let listed = self.store.list(prefix).collect::<Vec<_>>();
        let listed = futures_util::FutureExt::now_or_never(listed).unwrap();
        let listed: Vec<ObjectMeta> = listed.into_iter().map(|meta| meta.unwrap()).collect();
        let mut known = self.lists.lock().unwrap();
        let is_old = match self.fault {
            Fault::OldLists => true,
            Fault::OldListsAfterDelete => listed.is_empty(),
            _ => false,
        };
        let listed = match (&*known, is_old) {
            (Some(known), true) => known.clone(),
            _ => listed,
        };
        *known = Some(listed.clone());
        let etag = |mut meta: ObjectMeta| {
            if self.fault == Fault::SameEtag {
                meta.e_tag = Some("same".to_owned());
            }
            Ok(meta)
        };
        stream::iter(listed.into_iter().map(etag).collect::<Vec<_>>()).boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> object_store::Result<ListResult> {
        self.store.list_with_delimiter(prefix).await
    }

    async fn copy_opts(
        &self,
        from: &Path,
        to: &Path,
        options: CopyOptions,
    ) -> object_store::Result<()> {
        self.store.copy_opts(from, to, options).await
    }
}

/// A clock that is set by hand.
#[derive(Debug, Default)]
struct Hand(Mutex<Duration>);

#[async_trait]
impl Clock for Hand {
    fn wall(&self) -> Duration {
        *self.0.lock().unwrap()
    }

    fn monotonic(&self) -> Duration {
        self.wall()
    }

    async fn sleep(&self, _: Duration) {}
}

#[derive(Debug, Default)]
struct Counting(AtomicUsize);

impl Entropy for Counting {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(self.0.fetch_add(1, Ordering::Relaxed) as u8);
    }
}

impl Tasks for Counting {
    fn start(&self, _: BoxFuture<'static, ()>) {}
}

fn runtime() -> (Runtime, Arc<Hand>) {
    let clock = Arc::new(Hand(Mutex::new(Duration::from_secs(1_800_000_000))));
    let runtime = Runtime {
        clock: clock.clone(),
        tasks: Arc::new(Counting::default()),
        entropy: Arc::new(Counting::default()),
    };
    (runtime, clock)
}

/// Everything here is ready at once.
fn run<F: Future>(future: F) -> F::Output {
    futures_util::FutureExt::now_or_never(future).unwrap()
}

fn broken(fault: Fault) -> Vec<Promise> {
    let (store, (runtime, _)) = (Faulty::new(fault), runtime());
    let findings = run(remembered_or_probed(&store, &runtime, "way")).unwrap();
    assert_eq!(findings.outcomes.len(), Promise::ALL.len(), "{fault:?}");
    let requests = store.requests.load(Ordering::Relaxed);
    assert!(requests <= REQUESTS_MAX, "{fault:?}: {requests} requests");
    let left = run(store.store.list(None).try_collect::<Vec<_>>()).unwrap();
    assert_eq!(
        left.len(),
        usize::from(findings.is_intact()),
        "{fault:?}: {left:?}"
    );
    findings.broken().map(|outcome| outcome.promise).collect()
}

#[test]
fn a_store_that_keeps_all_promises_passes() {
    assert_eq!(broken(Fault::None), []);
}

#[test]
fn each_broken_promise_is_found_out() {
    use Promise as P;
    for (fault, expected) in [
        (Fault::DropsIfNoneMatch, vec![P::CreateOnce]),
        (Fault::DropsIfMatch, vec![P::UpdateOld, P::UpdateAbsent]),
        (Fault::IfMatchCreates, vec![P::UpdateAbsent]),
        (Fault::RefusesIfMatch, vec![P::UpdateNewest]),
        (
            Fault::OldReads,
            vec![P::ReadAfterOverwrite, P::ReadAfterDelete],
        ),
        (Fault::OldReadsAfterDelete, vec![P::ReadAfterDelete]),
        (
            Fault::OldLists,
            vec![P::ListAfterOverwrite, P::ListAfterDelete],
        ),
        (Fault::OldListsAfterDelete, vec![P::ListAfterDelete]),
        (Fault::NeverNotModified, vec![P::NotModifiedAfterPut]),
        (
            Fault::AlwaysNotModified,
            vec![P::ModifiedAfterOverwrite, P::GoneAfterDelete],
        ),
    ] {
        assert_eq!(broken(fault), expected, "{fault:?}");
    }
    assert!(broken(Fault::SameEtag).contains(&P::NewVersion));
}

#[test]
fn a_store_without_conditions_is_an_answer_and_no_failure() {
    let found = broken(Fault::NoConditions);
    for promise in [
        Promise::CreateOnce,
        Promise::UpdateNewest,
        Promise::UpdateOld,
    ] {
        assert!(found.contains(&promise), "{found:?}");
    }
}

#[test]
fn a_probes_result_is_remembered_for_seven_days_and_one_kind() {
    let (store, (runtime, clock)) = (Faulty::new(Fault::None), runtime());
    let requests = || store.requests.swap(0, Ordering::Relaxed);
    let probe = |way| run(remembered_or_probed(&store, &runtime, way)).unwrap();
    assert!(!probe("a:1").is_remembered);
    assert_eq!(requests(), 19);
    assert!(probe("a:1").is_remembered);
    assert_eq!(requests(), 1);
    assert!(!probe("b:1").is_remembered);
    requests();
    *clock.0.lock().unwrap() += MEMORY - Duration::from_secs(1);
    assert!(probe("a:1").is_remembered);
    *clock.0.lock().unwrap() += Duration::from_secs(1);
    assert!(!probe("a:1").is_remembered);
    // A memory from the future is none: the clock that wrote it, or this one, is wrong.
    *clock.0.lock().unwrap() -= Duration::from_secs(2 * 60 * 60);
    assert!(!probe("a:1").is_remembered);
}

#[test]
fn a_broken_promise_is_not_remembered() {
    let (store, (runtime, _)) = (Faulty::new(Fault::DropsIfMatch), runtime());
    for _ in 0..2 {
        let findings = run(remembered_or_probed(&store, &runtime, "way")).unwrap();
        assert!(!findings.is_remembered && !findings.is_intact());
        let complaint = findings.complaint();
        assert!(
            complaint.contains("an update of an old version is refused"),
            "{complaint}"
        );
        assert!(
            complaint.contains("two receivers claim one message"),
            "{complaint}"
        );
    }
}

#[test]
fn a_memory_is_read_as_it_was_written_and_nothing_else_is() {
    let findings = Findings {
        has_repeating_etags: true,
        ..memory::parse("fader probe 1\nat 1767225600123\netags differ\n").unwrap()
    };
    assert_eq!(
        memory::text(&findings),
        "fader probe 1\nat 1767225600123\netags repeat\n"
    );
    assert_eq!(memory::parse(&memory::text(&findings)), Some(findings));
    for text in [
        "",
        "fader probe 2\nat 1\netags differ\n",
        "fader probe 1\nat x\netags differ\n",
        "fader probe 1\nat 1\netags\n",
        "fader probe 1\nat 1\netags differ\nmore\n",
    ] {
        assert_eq!(memory::parse(text), None, "{text:?}");
    }
}

#[test]
fn a_sweep_takes_what_interrupted_probes_left_and_nothing_else() {
    run(async {
        let (runtime, clock) = runtime();
        let store = InMemory::new();
        let left = Path::from("_fader/probe/0123456789abcdef/object");
        let others = [
            "_fader/probe/of-localhost",
            "_fader/probe/0123456789abcdef/other",
            "_fader/probe/0123456789ABCDEF/object",
            "_fader/probe/0123/object",
            "_fader/probed/0123456789abcdef/object",
            "0123456789abcdef/object",
        ];
        for key in others.map(Path::from).iter().chain([&left]) {
            store.put(key, "body".into()).await.unwrap();
        }
        let modified = store.head(&left).await.unwrap().last_modified;
        let modified = Duration::from_millis(modified.timestamp_millis() as u64);
        // One under way is left alone.
        *clock.0.lock().unwrap() = modified + LEFT - Duration::from_millis(1);
        assert_eq!(sweep(&store, &runtime, false).await.unwrap(), [""; 0]);
        *clock.0.lock().unwrap() = modified + LEFT;
        for is_dry_run in [true, false] {
            let swept = sweep(&store, &runtime, is_dry_run).await.unwrap();
            assert_eq!(swept, [left.as_ref()]);
        }
        assert_eq!(sweep(&store, &runtime, false).await.unwrap(), [""; 0]);
        let kept: Vec<_> = store.list(None).try_collect().await.unwrap();
        assert_eq!(kept.len(), others.len());
    });
}
