//! Whether records may have expired in a service of queues before a page had them.

use std::time::Duration;

use fader_cloud::Result;
use futures_util::stream::TryStreamExt;
use object_store::path::Path;

use crate::database::Database;
use crate::pending::RETENTION;
use crate::store::{PREFIX, failure};

impl Database {
    /// How long no page was written, if a service of queues forgets messages in less: 14 days. So
    /// records that a client committed and no client checkpointed may be lost. None where queues
    /// are in the bucket, which forget nothing, and where there is no page.
    ///
    /// Pages are listed until one is young enough, mostly by one request.
    ///
    /// # Errors
    /// Of the cloud.
    pub async fn may_have_expired(&self) -> Result<Option<Duration>> {
        let store = &self.0.store;
        if !store.0.queues.forgets() {
            return Ok(None);
        }
        let now = store.0.runtime.clock.wall();
        let below = Path::from(format!("{PREFIX}/pages"));
        let unlisted = |error| failure("LIST", &below, false, error);
        let mut pages = store.0.objects.list(Some(&below));
        let mut youngest: Option<Duration> = None;
        while let Some(page) = pages.try_next().await.map_err(unlisted)? {
            let written = u64::try_from(page.last_modified.timestamp_millis()).unwrap_or_default();
            let age = now.saturating_sub(Duration::from_millis(written));
            if age < RETENTION {
                return Ok(None);
            }
            youngest = Some(youngest.map_or(age, |other| other.min(age)));
        }
        Ok(youngest)
    }
}
