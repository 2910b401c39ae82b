//! A `fader dev` of our own with a domain for strong and eventual writers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::ValueEnum;
use fader_client::{Client, Control, Pacing, Settings, SimpleDb};
use fader_measure::InSimpleDb;

use super::load::{LEVELS, VALUE_BYTES};
use crate::dev::WiringName;
use crate::keys::SOCKET;
use crate::measure::own::{Own, START_MAX};

const DOMAIN: &str = "measured";
/// Requests wait this long; a partition makes some wait that will never be answered.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// A running cluster.
pub(super) struct Cluster {
    own: Own,
    pub(super) objects: Arc<InSimpleDb>,
    loads: AtomicU64,
}

impl Cluster {
    /// Three members, so far apart.
    pub(super) async fn start(wiring: WiringName, delay: Duration) -> Result<Self> {
        let value = wiring
            .to_possible_value()
            .context("every wiring has a name")?;
        let flags = [
            "--wiring".to_owned(),
            value.get_name().to_owned(),
            "--delay".to_owned(),
            format!("{}ms", delay.as_millis()),
        ];
        let own = Own::start("dev", &flags).await?;
        let settings = Settings {
            pace: Pacing::Bare,
            timeout: PATIENCE,
            ..Settings::default()
        };
        let client = Client::new(&own.url, Some(Own::credentials()), settings)?;
        let objects = objects_of(&SimpleDb(client)).await?;
        Ok(Cluster {
            own,
            objects: Arc::new(objects),
            loads: AtomicU64::new(0),
        })
    }

    /// The number of the next load, from 0.
    pub(super) fn next_load(&self) -> u64 {
        self.loads.fetch_add(1, Ordering::Relaxed)
    }

    /// All that was to be measured with it is.
    pub(super) fn done(self) {
        self.own.done();
    }

    /// Gives orders to it.
    pub(super) fn control(&self) -> Control {
        Control::new(self.own.folder().join(SOCKET))
    }
}

/// A domain for strong and eventual writers, as soon as the cluster has one.
async fn objects_of(client: &SimpleDb) -> Result<InSimpleDb> {
    let begin = Instant::now();
    loop {
        let name = DOMAIN.to_owned();
        match InSimpleDb::create(client.clone(), name, &LEVELS, VALUE_BYTES).await {
            Ok(objects) => return Ok(objects),
            Err(error) if START_MAX < begin.elapsed() => return Err(error.into()),
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}
