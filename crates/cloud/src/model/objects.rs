//! Modelled objects: S3's rules on a map, at the pace and with the faults of a profile.
//!
//! Each call is the wire requests that a client makes. A list is one request a page, and deletions
//! go in batches of a thousand. An upload in parts is one request for each part and two more.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::{self, FutureExt};
use futures_util::stream::{self, BoxStream, StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    Attributes, CopyMode, CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult,
    MultipartUpload, ObjectMeta, ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload,
    PutResult, Result, UploadPart,
};

use super::link::{Ask, Link, Reply, Shared};
use super::profile::{Call, Conditions, ObjectProfile, Staleness};
use super::schedule::Access;
use super::store::{Moment, Store};
use crate::clock::Clock;
use crate::meter::RequestKind;

/// Deletions in one request, at most.
const DELETIONS_MAX: usize = 1000;

/// Objects of a model, as one process sees them.
#[derive(Clone, Debug)]
pub struct ModelObjects {
    link: Link,
    service: Arc<ObjectService>,
}

/// What all processes share.
#[derive(Debug)]
pub(super) struct ObjectService {
    pub(super) profile: Shared<ObjectProfile>,
    store: Mutex<Store>,
}

impl ObjectService {
    pub(super) fn new(profile: ObjectProfile) -> Self {
        ObjectService {
            profile: Shared::new(profile),
            store: Mutex::default(),
        }
    }

    pub(super) fn store(&self) -> MutexGuard<'_, Store> {
        self.store
            .lock()
            .expect("nothing panics while it is locked")
    }
}

/// What one call does to the store.
struct Deed<'a> {
    store: MutexGuard<'a, Store>,
    moment: Moment,
}

impl ModelObjects {
    pub(super) fn new(link: Link, service: Arc<ObjectService>) -> Self {
        ModelObjects { link, service }
    }

    fn ask(&self, kind: RequestKind, call: &'static str, name: &str) -> Ask {
        let profile = self.service.profile.get();
        let behaviour: &Call = match kind {
            RequestKind::ObjectGet | RequestKind::ObjectHead => &profile.get,
            RequestKind::ObjectDelete => &profile.delete,
            RequestKind::ObjectList => &profile.list,
            _ => &profile.put,
        };
        let is_read = matches!(
            kind,
            RequestKind::ObjectGet | RequestKind::ObjectHead | RequestKind::ObjectList
        );
        Ask {
            call: behaviour.clone(),
            kind,
            access: Access {
                call,
                name: name.to_owned(),
                is_prefix: kind == RequestKind::ObjectList,
                is_write: !is_read,
            },
            is_conditional: false,
            sent_bytes: 0,
            box_usage: 0,
        }
    }

    /// Calls, within the limits of rate.
    async fn call<T: Send + 'static>(
        &self,
        ask: Ask,
        act: impl FnOnce(&mut Deed<'_>) -> Result<(T, u64)> + Send + 'static,
    ) -> Result<T> {
        let (service, link) = (self.service.clone(), self.link.clone());
        let access = ask.access.clone();
        let effect = move || {
            let mut deed = begin(&service, &link);
            if !deed.is_admitted(&service.profile.get(), &access) {
                return Err(503);
            }
            let (value, status, bytes) = match act(&mut deed) {
                Ok((value, bytes)) => (Ok(value), 200, bytes),
                Err(error) => {
                    let status = status(&error);
                    (Err(error), status, 0)
                }
            };
            Ok(Reply {
                value,
                status,
                bytes,
            })
        };
        self.link.call(ask, effect).await.map_err(failure)?
    }

    async fn put_as(
        &self,
        key: &str,
        body: Bytes,
        attributes: Attributes,
        mode: PutMode,
    ) -> Result<PutResult> {
        let profile = self.service.profile.get();
        let e_tags = profile.e_tags;
        let mode = match profile.conditions {
            Conditions::Ignored => PutMode::Overwrite,
            Conditions::Refused if mode != PutMode::Overwrite => {
                return Err(Error::NotImplemented {
                    operation: "a put with a condition".to_owned(),
                    implementer: self.to_string(),
                });
            }
            Conditions::Kept | Conditions::Refused => mode,
        };
        let ask = Ask {
            is_conditional: !matches!(mode, PutMode::Overwrite),
            sent_bytes: body.len() as u64,
            ..self.ask(RequestKind::ObjectPut, "PUT", key)
        };
        let key = key.to_owned();
        let put = self.call(ask, move |deed| {
            let (store, moment) = (&mut *deed.store, deed.moment);
            let e_tag = store.put(&key, body, attributes, &mode, moment, e_tags)?;
            Ok((e_tag, 0))
        });
        Ok(PutResult {
            e_tag: Some(put.await?),
            version: None,
            extensions: object_store::Extensions::default(),
        })
    }

    async fn delete_all(&self, keys: Vec<Path>) -> Result<Vec<Path>> {
        let Some(first) = keys.first() else {
            return Ok(keys);
        };
        // A deletion in bulk is ordered against each call on one of its keys.
        let name = keys[1..].iter().fold(first.as_ref(), |name, key| {
            let pairs = name.char_indices().zip(key.as_ref().chars());
            let differs = pairs.into_iter().find(|((_, one), other)| one != other);
            let common = differs.map_or(key.as_ref().len(), |((at, _), _)| at);
            &name[..common.min(name.len())]
        });
        let mut ask = self.ask(RequestKind::ObjectDelete, "DELETE", name);
        ask.access.is_prefix = 1 < keys.len();
        let deleted = keys.clone();
        self.call(ask, move |deed| {
            for key in &deleted {
                deed.store.delete(key.as_ref(), deed.moment);
            }
            Ok(((), 0))
        })
        .await?;
        Ok(keys)
    }

    /// A page of a list, and whether there are more.
    async fn page(&self, prefix: String, after: String) -> Result<(Vec<ObjectMeta>, bool)> {
        let ask = self.ask(RequestKind::ObjectList, "LIST", &prefix);
        let (profile, faults) = (self.service.profile.get(), self.link.faults.clone());
        let page = self.call(ask, move |deed| {
            let age = || faults.age(&profile.lists);
            let page = deed
                .store
                .list(&prefix, &after, profile.list_page, deed.moment.now, age);
            let bytes = page.0.iter().map(|meta| 200 + meta.location.as_ref().len());
            let bytes = bytes.sum::<usize>() as u64;
            Ok((page, bytes))
        });
        page.await
    }

    fn pages(&self, prefix: Option<&Path>, after: &str) -> BoxStream<'static, Result<ObjectMeta>> {
        let objects = self.clone();
        let prefix = folder(prefix);
        let start = Some(after.to_owned());
        let pages = stream::try_unfold(start, move |after| {
            let (objects, prefix) = (objects.clone(), prefix.clone());
            async move {
                let Some(after) = after else {
                    return Ok(None);
                };
                let (page, has_more) = objects.page(prefix, after).await?;
                let last = page.last().map(|meta| meta.location.to_string());
                let next = last.filter(|_| has_more);
                let page = stream::iter(page.into_iter().map(Ok));
                Ok::<_, Error>(Some((page, next)))
            }
        });
        pages.try_flatten().boxed()
    }
}

fn begin<'a>(service: &'a ObjectService, link: &Link) -> Deed<'a> {
    let profile = service.profile.get();
    let max = |staleness: &Staleness| staleness.max();
    let moment = Moment {
        now: link.executor.now(),
        wall: link.executor.harness().clock().wall(),
        age_max: max(&profile.reads).max(max(&profile.lists)),
    };
    Deed {
        store: service.store(),
        moment,
    }
}

impl Deed<'_> {
    fn is_admitted(&mut self, profile: &ObjectProfile, access: &Access) -> bool {
        let name = access.name.as_str();
        let prefix = name.rsplit_once('/').map_or("", |(prefix, _)| prefix);
        let (kind, limit) = match access.is_write {
            true => ("w", profile.prefix_writes),
            false => ("r", profile.prefix_reads),
        };
        let now = self.moment.now;
        let of_prefix = format!("{kind}/{prefix}/");
        let is_of_one = access.is_write && !access.is_prefix;
        let of_object = is_of_one.then_some(profile.object_writes).flatten();
        self.store.admits(&of_prefix, limit, now) && self.store.admits(name, of_object, now)
    }
}

/// The prefix of all keys below a path.
fn folder(prefix: Option<&Path>) -> String {
    let prefix = prefix.map(Path::as_ref).unwrap_or_default();
    match prefix.is_empty() {
        true => String::new(),
        false => format!("{prefix}/"),
    }
}

fn failure(error: crate::Error) -> Error {
    Error::Generic {
        store: "model",
        source: Box::new(error),
    }
}

fn status(error: &Error) -> u16 {
    match error {
        Error::NotFound { .. } => 404,
        Error::NotModified { .. } => 304,
        Error::AlreadyExists { .. } | Error::Precondition { .. } => 412,
        _ => 416,
    }
}

impl fmt::Display for ModelObjects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("modelled objects")
    }
}

#[async_trait]
impl ObjectStore for ModelObjects {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        let (key, body) = (location.as_ref(), Bytes::from(payload));
        self.put_as(key, body, options.attributes, options.mode)
            .await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let ask = self.ask(RequestKind::ObjectPut, "POST", location.as_ref());
        let begun = self.call(ask, |deed| Ok((deed.store.begin_upload(), 0)));
        let number = begun.await?;
        Ok(Box::new(Upload {
            objects: self.clone(),
            key: location.to_string(),
            number,
            attributes: options.attributes,
            parts: Arc::default(),
            begun: 0,
        }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let (kind, call) = match options.head {
            true => (RequestKind::ObjectHead, "HEAD"),
            false => (RequestKind::ObjectGet, "GET"),
        };
        let ask = self.ask(kind, call, location.as_ref());
        let (profile, faults) = (self.service.profile.get(), self.link.faults.clone());
        let location = location.clone();
        let got = self.call(ask, move |deed| {
            let age = faults.age(&profile.reads);
            let key = location.as_ref();
            let Some(object) = deed.store.get(key, deed.moment.now, age) else {
                return Err(Error::NotFound {
                    path: location.to_string(),
                    source: "there is no such object".into(),
                });
            };
            let meta = object.meta(key);
            options.check_preconditions(&meta)?;
            let range = object.part(options.range.as_ref());
            let range = range.ok_or_else(|| Error::Generic {
                store: "model",
                source: format!("no such range of {location}").into(),
            })?;
            let body = match options.head {
                true => Bytes::new(),
                false => object.body.slice(range.start as usize..range.end as usize),
            };
            let bytes = body.len() as u64;
            Ok(((meta, range, object.attributes.clone(), body), bytes))
        });
        let (meta, range, attributes, body) = got.await?;
        let stream = stream::once(future::ready(Ok(body)));
        Ok(GetResult {
            payload: GetResultPayload::Stream(stream.boxed()),
            meta,
            range,
            attributes,
            extensions: object_store::Extensions::default(),
        })
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let objects = self.clone();
        let batches = locations.try_chunks(DELETIONS_MAX).map(move |batch| {
            let objects = objects.clone();
            async move {
                let deleted = objects.delete_all(batch.map_err(|error| error.1)?).await?;
                Ok::<_, Error>(stream::iter(deleted.into_iter().map(Ok)))
            }
        });
        batches.buffered(1).try_flatten().boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.pages(prefix, "")
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.pages(prefix, offset.as_ref())
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let all: Vec<ObjectMeta> = self.pages(prefix, "").try_collect().await?;
        let above = folder(prefix).len();
        let (mut objects, mut prefixes) = (Vec::new(), BTreeSet::new());
        for meta in all {
            let below = &meta.location.as_ref()[above..];
            match below.find('/') {
                Some(end) => {
                    prefixes.insert(Path::from(&meta.location.as_ref()[..above + end]));
                }
                None => objects.push(meta),
            }
        }
        Ok(ListResult {
            objects,
            common_prefixes: prefixes.into_iter().collect(),
            extensions: object_store::Extensions::default(),
        })
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let e_tags = self.service.profile.get().e_tags;
        let ask = self.ask(RequestKind::ObjectCopy, "COPY", to.as_ref());
        let (from, to) = (from.to_string(), to.to_string());
        let mode = match options.mode {
            CopyMode::Create => PutMode::Create,
            CopyMode::Overwrite => PutMode::Overwrite,
        };
        self.call(ask, move |deed| {
            let found = deed.store.get(&from, deed.moment.now, Default::default());
            let Some(object) = found.cloned() else {
                return Err(Error::NotFound {
                    path: from,
                    source: "there is no such object".into(),
                });
            };
            let (body, attributes) = (object.body, object.attributes);
            deed.store
                .put(&to, body, attributes, &mode, deed.moment, e_tags)?;
            Ok(((), 0))
        })
        .await
    }
}

/// An upload in parts.
#[derive(Debug)]
struct Upload {
    objects: ModelObjects,
    key: String,
    number: u64,
    attributes: Attributes,
    parts: Arc<Mutex<Vec<(usize, Bytes)>>>,
    begun: usize,
}

#[async_trait]
impl MultipartUpload for Upload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let body = Bytes::from(data);
        let part = self.begun;
        self.begun += 1;
        let name = format!("{}?uploadId={}", self.key, self.number);
        let ask = Ask {
            sent_bytes: body.len() as u64,
            ..self.objects.ask(RequestKind::ObjectPut, "PUT", &name)
        };
        let (objects, parts) = (self.objects.clone(), self.parts.clone());
        async move {
            let put = objects.call(ask, move |_| {
                let mut parts = parts.lock().expect("nothing panics while it is locked");
                parts.push((part, body));
                Ok(((), 0))
            });
            put.await
        }
        .boxed()
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let mut parts = {
            let mut parts = self
                .parts
                .lock()
                .expect("nothing panics while it is locked");
            std::mem::take(&mut *parts)
        };
        parts.sort_by_key(|(part, _)| *part);
        let parts: Vec<Bytes> = parts.into_iter().map(|(_, part)| part).collect();
        let body = parts.concat();
        let e_tags = self.objects.service.profile.get().e_tags;
        let ask = self.objects.ask(RequestKind::ObjectPut, "POST", &self.key);
        let (key, body) = (self.key.clone(), body.into());
        let attributes = self.attributes.clone();
        let put = self.objects.call(ask, move |deed| {
            let mode = PutMode::Overwrite;
            let (store, moment) = (&mut *deed.store, deed.moment);
            let e_tag = store.put(&key, body, attributes, &mode, moment, e_tags)?;
            Ok((e_tag, 0))
        });
        Ok(PutResult {
            e_tag: Some(put.await?),
            version: None,
            extensions: object_store::Extensions::default(),
        })
    }

    async fn abort(&mut self) -> Result<()> {
        let ask = self
            .objects
            .ask(RequestKind::ObjectDelete, "DELETE", &self.key);
        self.objects.call(ask, |_| Ok(((), 0))).await
    }
}
