//! A job's place elsewhere (`--work`): its objects are below another URL than its output.
//!
//! ```text
//!  OUT/_fader/job, OUT/part-00000, OUT/_SUCCESS      WORK/_fader/JOB/…
//! ```
//!
//! The register keeps the URL. Queues and domains are the output's. A large part is put together
//! in the output's store, below `_fader/JOB/whole`: no store copies from another one.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use fader_cloud::{Cloud, Error, ErrorKind, Meter, Metered, Result, Services};
use futures_util::stream::{self, BoxStream, StreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult,
};

use crate::job::{JobId, Register, prefix};

/// Opens the places of jobs.
#[async_trait]
pub trait Places: Debug + Send + Sync + 'static {
    /// The cloud at a URL.
    ///
    /// # Errors
    /// As opening any cloud.
    async fn open(&self, url: &str) -> Result<Cloud>;
}

/// The cloud of an output as the register's job sees it: with the job's place, wherever that is.
///
/// # Errors
/// As opening any cloud.
pub async fn placed(output: &Cloud, register: &Register, places: &dyn Places) -> Result<Cloud> {
    let job = &register.job;
    of_job(output, job, register.works.get(job), Some(places)).await
}

/// The same for any job of the output.
pub(crate) async fn of_job(
    output: &Cloud,
    job: &JobId,
    work: Option<&String>,
    places: Option<&dyn Places>,
) -> Result<Cloud> {
    let Some(url) = work else {
        return Ok(output.clone());
    };
    let places = places.ok_or_else(|| {
        let text = format!("job {job} has its place at {url}, which this process does not open");
        Error::new(ErrorKind::Invalid, text)
    })?;
    let placed = Placed {
        output: output.clone(),
        work: places.open(url).await?,
        prefix: prefix(job),
    };
    let (runtime, meter) = (output.runtime.clone(), output.meter.clone());
    Ok(Cloud::new(Arc::new(placed), runtime, meter))
}

/// Where large parts of a job are put together.
pub(crate) fn staging(job: &JobId) -> Path {
    prefix(job).join("whole")
}

#[derive(Debug)]
struct Placed {
    output: Cloud,
    work: Cloud,
    prefix: Path,
}

impl Metered for Placed {
    fn services(&self, meter: &Meter) -> Services {
        let output = self.output.metered(meter);
        let objects = Objects {
            output: output.objects,
            work: self.work.metered(meter).objects,
            staging: self.prefix.clone().join("whole"),
            prefix: self.prefix.clone(),
        };
        Services {
            objects: Arc::new(objects),
            ..output
        }
    }
}

/// Objects of two stores, by their keys.
#[derive(Clone, Debug)]
struct Objects {
    output: Arc<dyn ObjectStore>,
    work: Arc<dyn ObjectStore>,
    prefix: Path,
    staging: Path,
}

impl std::fmt::Display for Objects {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} with {} elsewhere", self.output, self.prefix)
    }
}

impl Objects {
    fn is_work(&self, key: &Path) -> bool {
        key.prefix_matches(&self.prefix) && !key.prefix_matches(&self.staging)
    }

    fn of(&self, key: &Path) -> &Arc<dyn ObjectStore> {
        match self.is_work(key) {
            true => &self.work,
            false => &self.output,
        }
    }
}

#[async_trait]
impl ObjectStore for Objects {
    async fn put_opts(
        &self,
        key: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> object_store::Result<PutResult> {
        self.of(key).put_opts(key, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        key: &Path,
        options: PutMultipartOptions,
    ) -> object_store::Result<Box<dyn MultipartUpload>> {
        self.of(key).put_multipart_opts(key, options).await
    }

    async fn get_opts(&self, key: &Path, options: GetOptions) -> object_store::Result<GetResult> {
        self.of(key).get_opts(key, options).await
    }

    fn delete_stream(
        &self,
        keys: BoxStream<'static, object_store::Result<Path>>,
    ) -> BoxStream<'static, object_store::Result<Path>> {
        let objects = self.clone();
        let sorted = async move {
            let keys: Vec<object_store::Result<Path>> = keys.collect().await;
            let is_work = |key: &object_store::Result<Path>| {
                key.as_ref().is_ok_and(|key| objects.is_work(key))
            };
            let (work, output): (Vec<_>, Vec<_>) = keys.into_iter().partition(is_work);
            let deleted = objects.output.delete_stream(stream::iter(output).boxed());
            deleted.chain(objects.work.delete_stream(stream::iter(work).boxed()))
        };
        stream::once(sorted).flatten().boxed()
    }

    fn list(&self, below: Option<&Path>) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        let listed = self.output.list(below);
        match below.filter(|below| below.prefix_matches(&self.prefix)) {
            Some(below) => listed.chain(self.work.list(Some(below))).boxed(),
            None => listed,
        }
    }

    async fn list_with_delimiter(&self, below: Option<&Path>) -> object_store::Result<ListResult> {
        self.output.list_with_delimiter(below).await
    }

    async fn copy_opts(
        &self,
        from: &Path,
        to: &Path,
        options: CopyOptions,
    ) -> object_store::Result<()> {
        if self.is_work(from) != self.is_work(to) {
            return Err(object_store::Error::NotImplemented {
                operation: "a copy from one store to another".to_owned(),
                implementer: self.to_string(),
            });
        }
        self.of(from).copy_opts(from, to, options).await
    }
}
