//! A `fader dev` of our own with a domain for strong and eventual writers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::ValueEnum;
use fader_client::{Client, Control, DomainOptions, Pacing, Settings, SimpleDb};
use fader_services::Mode;

use crate::dev::WiringName;
use crate::keys::SOCKET;
use crate::measure::own::{Own, START_MAX};

pub(super) const DOMAIN: &str = "measured";
/// Requests wait this long; a partition makes some wait that will never be answered.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// A running cluster.
pub(super) struct Cluster {
    own: Own,
    pub(super) client: Arc<SimpleDb>,
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
        let cluster = Cluster {
            own,
            client: Arc::new(SimpleDb(client)),
        };
        cluster.create_domain().await?;
        Ok(cluster)
    }

    async fn create_domain(&self) -> Result<()> {
        let nature = DomainOptions {
            mode: Some(Mode::Mixed),
            ..DomainOptions::default()
        };
        let begin = Instant::now();
        loop {
            match self.client.create_domain_as(DOMAIN, &nature).await {
                Ok(_) => return Ok(()),
                Err(error) if START_MAX < begin.elapsed() => return Err(error.into()),
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
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
