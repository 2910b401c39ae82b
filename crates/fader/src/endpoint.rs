//! Which endpoint a client's command speaks to, and as whom: as AWS's own tools find it.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use fader_client::{Credentials, Settings};

use crate::{config, credentials};

/// Where the service is, and who asks.
#[derive(Args)]
pub(crate) struct Flags {
    #[arg(
        long,
        env = "FADER_ENDPOINT",
        value_name = "URL",
        global = true,
        help = format!("Where the service is. [default: {}]", own())
    )]
    endpoint: Option<String>,

    /// Certificates of the authorities to trust (PEM) instead of the system's.
    #[arg(long, env = "AWS_CA_BUNDLE", value_name = "FILE", global = true)]
    ca_bundle: Option<PathBuf>,

    /// Section of the credentials file, before the access key of the environment. Without it the
    /// environment's key is taken, then the section that AWS_PROFILE names, then `default`.
    #[arg(long, value_name = "NAME", global = true)]
    profile: Option<String>,

    /// Send requests unsigned, for a server that serves anonymous requests.
    #[arg(long, global = true)]
    no_sign_request: bool,
}

/// The endpoint of a server of this machine that has no settings.
fn own() -> String {
    format!("http://{}", config::LISTEN)
}

impl Flags {
    /// The endpoint of the service whose own variable is `AWS_ENDPOINT_URL_` and `service`.
    pub(crate) fn url(&self, service: &str) -> String {
        let variable = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
        let endpoint = self.endpoint.clone();
        let endpoint = endpoint
            .or_else(|| variable(&format!("AWS_ENDPOINT_URL_{service}")))
            .or_else(|| variable("AWS_ENDPOINT_URL"))
            .unwrap_or_else(own);
        endpoint.trim_end_matches('/').to_owned()
    }

    /// Whose requests they are; none where they go unsigned.
    pub(crate) fn credentials(&self) -> Result<Option<Credentials>> {
        match self.no_sign_request {
            true => Ok(None),
            false => Ok(Some(credentials::find(self.profile.as_deref())?)),
        }
    }

    /// How a client of it is set up.
    pub(crate) fn settings(&self) -> Result<Settings> {
        let ca_pem = match &self.ca_bundle {
            Some(path) => {
                let context = || format!("cannot read {}", path.display());
                Some(std::fs::read(path).with_context(context)?)
            }
            None => None,
        };
        Ok(Settings {
            ca_pem,
            timeout: Duration::from_secs(60),
            ..Settings::default()
        })
    }
}
