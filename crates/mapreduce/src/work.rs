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
use fader_cloud::{Cloud, Error, ErrorKind, Result};
use object_store::path::Path;

use crate::job::{JobId, Output, Register, prefix};
use crate::store::Store;

/// Opens the places of jobs.
#[async_trait]
pub trait Places: Debug + Send + Sync + 'static {
    /// The cloud at a URL.
    ///
    /// # Errors
    /// As opening any cloud.
    async fn open(&self, url: &str) -> Result<Cloud>;
}

/// Where a job's own objects are.
#[derive(Clone, Debug, Default)]
pub(crate) struct Place {
    places: Option<Arc<dyn Places>>,
    /// `None`: in the output's store.
    elsewhere: Option<Store>,
}

impl Output {
    /// The same output, with the means to open places elsewhere.
    #[must_use]
    pub fn with_places(mut self, places: Arc<dyn Places>) -> Self {
        self.place.places = Some(places);
        self
    }

    /// The same output with the place of the register's job.
    ///
    /// # Errors
    /// As opening any cloud; `Invalid` without the means.
    pub async fn of_job(&self, register: &Register, job: &JobId) -> Result<Self> {
        let mut output = self.clone();
        output.place.elsewhere = None;
        if let Some(url) = register.works.get(job) {
            let places = self.place.places.as_ref().ok_or_else(|| {
                let text = format!("job {job} has its place at {url}, which is not opened here");
                Error::new(ErrorKind::Invalid, text)
            })?;
            let services = places.open(url).await?.metered(&self.store.0.meter);
            output.place.elsewhere = Some(self.store.of(&services.objects));
        }
        Ok(output)
    }

    /// The store of the job's own objects.
    pub(crate) fn work(&self) -> &Store {
        self.place.elsewhere.as_ref().unwrap_or(&self.store)
    }

    /// All stores in which a job has objects below its prefix.
    pub(crate) fn stores(&self) -> impl Iterator<Item = &Store> {
        [&self.store].into_iter().chain(&self.place.elsewhere)
    }
}

/// Where large parts of a job are put together, in the output's store.
pub(crate) fn staging(job: &JobId) -> Path {
    prefix(job).join("whole")
}
