//! SIGHUP: the configuration file, the TLS files and the log level are read again.
//!
//! Invariants:
//! - RELOAD-1 the signal never ends the process. What cannot be read is told, and the old values
//!   stay.
//! - only the certificate, its key, those that ZooKeeper and this process know each other
//!   by, and the log level change. All else needs a restart.
//! - RELOAD-3 all of them are replaced, or none.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use fader_gateway::Tls;
use fader_node::coordinator::Tls as ZooKeeperTls;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{error, info};
use tracing_subscriber::EnvFilter;

use crate::config::Config;

/// Reads the configuration again from where it came.
pub(crate) type Again = Box<dyn Fn() -> Result<Config> + Send + Sync>;

/// Changes what is logged from now on.
pub(super) type SetLevel = Box<dyn Fn(EnvFilter) -> Result<()> + Send + Sync>;

/// What can be replaced while a server runs.
struct Reload {
    again: Again,
    set_level: SetLevel,
    tls: Option<Tls>,
    zookeeper: Option<ZooKeeperTls>,
}

/// Reads the TLS files of `config`, and from now on again at each signal, with those of the way to
/// ZooKeeper, if there is one.
///
/// # Errors
/// When a file cannot be read, or the certificate and its key do not fit.
pub(super) fn begin(
    config: &Config,
    again: Again,
    zookeeper: Option<ZooKeeperTls>,
    set_level: SetLevel,
) -> Result<Option<Tls>> {
    let hangup = signal(SignalKind::hangup())?;
    let tls = tls(config)?;
    let reload = Reload {
        again,
        set_level,
        tls: tls.clone(),
        zookeeper,
    };
    tokio::spawn(at_each(hangup, reload));
    Ok(tls)
}

async fn at_each(mut hangup: Signal, reload: Reload) {
    let reload = Arc::new(reload);
    while hangup.recv().await.is_some() {
        let reload = reload.clone();
        let done = tokio::task::spawn_blocking(move || reload.once()).await;
        match done.map_err(anyhow::Error::from).flatten() {
            Ok(level) => info!(level, "SIGHUP: TLS files and log level are read again"),
            Err(error) => error!("SIGHUP: nothing is changed: {error:#}"),
        }
    }
}

impl Reload {
    /// Replaces all or nothing. The log level in force then.
    fn once(&self) -> Result<String> {
        let config = (self.again)()?;
        let level = config.log_level.value.clone();
        let filter = filter(&level)?;
        let shown = pair(self.tls.as_ref(), tls(&config)?)?;
        let member = config.membership.member()?;
        let read = member.and_then(|member| member.zookeeper.tls);
        let trusted = pair(self.zookeeper.as_ref(), read)?;
        (self.set_level)(filter)?;
        if let Some((shown, read)) = shown {
            shown.replace(&read);
        }
        if let Some((trusted, read)) = trusted {
            trusted.replace(&read);
        }
        Ok(level)
    }
}

/// What is in use, with what was read to replace it.
fn pair<T>(used: Option<&T>, read: Option<T>) -> Result<Option<(&T, T)>> {
    match (used, read) {
        (Some(used), Some(read)) => Ok(Some((used, read))),
        (None, None) => Ok(None),
        _ => bail!("TLS is turned on or off by a restart only"),
    }
}

/// What the configuration has for TLS, read from its files.
fn tls(config: &Config) -> Result<Option<Tls>> {
    match (&config.tls_certificate.value, &config.tls_key.value) {
        (Some(certificate), Some(key)) => Ok(Some(Tls::new(&read(certificate)?, &read(key)?)?)),
        _ => Ok(None),
    }
}

/// What is logged at this level.
///
/// # Errors
/// When it is none.
pub(super) fn filter(level: &str) -> Result<EnvFilter> {
    // The engine tells about itself what only its authors need; a level of its own brings it back.
    let directives = format!("fjall=warn,lsm_tree=warn,{level}");
    match EnvFilter::builder().with_regex(false).parse(directives) {
        Ok(filter) => Ok(filter),
        Err(error) => bail!("log-level {level:?} is none: {error}"),
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}
