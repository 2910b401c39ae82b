//! A folder's objects, or memory's, with a meter: each call counts as the requests that it would be
//! to S3. A list is one for each 1,000 keys, deletions are one for each 1,000, an upload is one for
//! each part and two more.
//!
//! Deliberately absent: bytes of lists and deletions, whose texts no store has written.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use fader_cloud::{Meter, RequestKind, WireRequest};
use futures_util::FutureExt;
use futures_util::stream::{self, BoxStream, StreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result,
    UploadPart,
};

/// Keys on a page of a list, and in a request that deletes, as in S3.
const KEYS: usize = 1_000;

/// A store whose calls count.
#[derive(Clone, Debug)]
pub(crate) struct Counted {
    store: Arc<dyn ObjectStore>,
    meter: Meter,
}

impl Counted {
    pub(crate) fn new(store: Arc<dyn ObjectStore>, meter: &Meter) -> Counted {
        let meter = meter.clone();
        Counted { store, meter }
    }

    /// Counts a request that ended so.
    fn count<T>(&self, kind: RequestKind, sent_bytes: usize, outcome: &Result<T>) {
        let status = outcome.as_ref().map_or_else(status, |_| 200);
        self.meter.count(&WireRequest {
            sent_bytes: sent_bytes as u64,
            ..WireRequest::new(kind, Some(status))
        });
    }

    /// Counts pages as their keys come; an empty list has one.
    fn pages(
        &self,
        keys: BoxStream<'static, Result<ObjectMeta>>,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        let first = self.clone();
        let begin = stream::once(async move {
            first.count(RequestKind::ObjectList, 0, &Ok(()));
            stream::empty()
        });
        let further = self.clone();
        let keys = keys.enumerate().map(move |(index, key)| {
            if 0 < index && index % KEYS == 0 {
                further.count(RequestKind::ObjectList, 0, &Ok(()));
            }
            key
        });
        begin.flatten().chain(keys).boxed()
    }
}

/// What S3 answers in place of an error.
fn status(error: &Error) -> u16 {
    match error {
        Error::NotFound { .. } => 404,
        Error::NotModified { .. } => 304,
        Error::AlreadyExists { .. } | Error::Precondition { .. } => 412,
        Error::PermissionDenied { .. } => 403,
        Error::NotSupported { .. } | Error::NotImplemented { .. } => 501,
        _ => 500,
    }
}

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.store, f)
    }
}

#[async_trait]
impl ObjectStore for Counted {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        let bytes = payload.content_length();
        let put = self.store.put_opts(location, payload, options).await;
        self.count(RequestKind::ObjectPut, bytes, &put);
        put
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let begun = self.store.put_multipart_opts(location, options).await;
        self.count(RequestKind::ObjectPut, 0, &begun);
        let (upload, counted) = (begun?, self.clone());
        Ok(Box::new(Upload { upload, counted }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let is_head = options.head;
        let got = self.store.get_opts(location, options).await;
        let (kind, length) = match (is_head, &got) {
            (true, _) => (RequestKind::ObjectHead, 0),
            (false, Ok(found)) => (RequestKind::ObjectGet, found.range.end - found.range.start),
            (false, Err(_)) => (RequestKind::ObjectGet, 0),
        };
        self.meter.count(&WireRequest {
            received_bytes: length,
            ..WireRequest::new(kind, Some(got.as_ref().map_or_else(status, |_| 200)))
        });
        got
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let got = self.store.get_ranges(location, ranges).await;
        for index in 0..ranges.len() {
            let received = got.as_ref().ok().and_then(|parts| parts.get(index));
            self.meter.count(&WireRequest {
                received_bytes: received.map_or(0, |part| part.len() as u64),
                ..WireRequest::new(
                    RequestKind::ObjectGet,
                    Some(got.as_ref().map_or_else(status, |_| 200)),
                )
            });
        }
        got
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let counted = self.clone();
        let requests = locations.chunks(KEYS).map(move |locations| {
            counted.count(RequestKind::ObjectDelete, 0, &Ok(()));
            counted.store.delete_stream(stream::iter(locations).boxed())
        });
        requests.flatten().boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.pages(self.store.list(prefix))
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.pages(self.store.list_with_offset(prefix, offset))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let listed = self.store.list_with_delimiter(prefix).await;
        let keys = listed.as_ref().map_or(0, |listed| {
            listed.objects.len() + listed.common_prefixes.len()
        });
        for _ in 0..keys.div_ceil(KEYS).max(1) {
            self.count(RequestKind::ObjectList, 0, &listed);
        }
        listed
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let copied = self.store.copy_opts(from, to, options).await;
        self.count(RequestKind::ObjectCopy, 0, &copied);
        copied
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        let renamed = self.store.rename_opts(from, to, options).await;
        self.count(RequestKind::ObjectCopy, 0, &renamed);
        if renamed.is_ok() {
            self.count(RequestKind::ObjectDelete, 0, &renamed);
        }
        renamed
    }
}

/// An upload whose parts count.
#[derive(Debug)]
struct Upload {
    upload: Box<dyn MultipartUpload>,
    counted: Counted,
}

#[async_trait]
impl MultipartUpload for Upload {
    fn put_part(&mut self, part: PutPayload) -> UploadPart {
        let (bytes, counted) = (part.content_length(), self.counted.clone());
        let put = self.upload.put_part(part);
        let put = put.inspect(move |put| counted.count(RequestKind::ObjectPut, bytes, put));
        put.boxed()
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let completed = self.upload.complete().await;
        self.counted.count(RequestKind::ObjectPut, 0, &completed);
        completed
    }

    async fn abort(&mut self) -> Result<()> {
        let aborted = self.upload.abort().await;
        self.counted.count(RequestKind::ObjectDelete, 0, &aborted);
        aborted
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail here")]

    use futures_util::TryStreamExt;
    use object_store::memory::InMemory;
    use object_store::{ObjectStoreExt, PutMode};

    use super::*;

    #[tokio::test]
    async fn calls_count_as_the_requests_that_they_would_be() {
        let meter = Meter::default();
        let store = Counted::new(Arc::new(InMemory::new()), &meter);
        let keys: Vec<Path> = (0..1_001)
            .map(|key| Path::from(format!("a/{key}")))
            .collect();
        for key in &keys {
            store.put(key, "body".into()).await.unwrap();
        }
        let put = store.put_opts(&keys[0], "body".into(), PutMode::Create.into());
        put.await.unwrap_err();
        store.get(&keys[0]).await.unwrap().bytes().await.unwrap();
        store.get(&Path::from("b")).await.unwrap_err();
        store.head(&keys[0]).await.unwrap();
        store.get_ranges(&keys[0], &[0..1, 1..3]).await.unwrap();
        let listed: Vec<_> = store.list(None).try_collect().await.unwrap();
        assert_eq!(listed.len(), 1_001);
        let prefix = Path::from("b");
        let listed: Vec<_> = store.list(Some(&prefix)).try_collect().await.unwrap();
        assert!(listed.is_empty());
        let mut upload = store.put_multipart(&Path::from("parts")).await.unwrap();
        upload.put_part("part".into()).await.unwrap();
        upload.complete().await.unwrap();
        let keys = stream::iter(keys.into_iter().map(Ok)).boxed();
        let deleted: Vec<_> = store.delete_stream(keys).try_collect().await.unwrap();
        assert_eq!(deleted.len(), 1_001);
        let usage = meter.usage();
        let counts: Vec<_> = usage
            .counts()
            .map(|(kind, status, count)| (kind, status.unwrap(), count.requests))
            .collect();
        assert_eq!(
            counts,
            [
                (RequestKind::ObjectGet, 200, 3),
                (RequestKind::ObjectGet, 404, 1),
                (RequestKind::ObjectHead, 200, 1),
                (RequestKind::ObjectPut, 200, 1_004),
                (RequestKind::ObjectPut, 412, 1),
                (RequestKind::ObjectList, 200, 3),
                (RequestKind::ObjectDelete, 200, 2),
            ]
        );
        let get = usage.of(RequestKind::ObjectGet);
        assert_eq!((get.sent_bytes, get.received_bytes), (0, 7));
        let put = usage.of(RequestKind::ObjectPut);
        assert_eq!(put.sent_bytes, 4 * 1_003);
    }
}
