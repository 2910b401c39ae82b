//! A `fader dev` of our own, ended with this command.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use fader_client::{Client, Control, Credentials, Nature, Pace, Settings, SimpleDb};
use fader_services::Mode;

use crate::dev::WiringName;
use crate::keys::SOCKET;

pub(super) const DOMAIN: &str = "measured";
const START_MAX: Duration = Duration::from_secs(60);
/// Requests wait this long; a partition makes some wait that will never be answered.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
const ACCESS_KEY: &str = "FADERMEASUREFADERMEA";
const SECRET_KEY: &str = "only-ever-used-on-loopback-by-this-command";

/// A running cluster.
pub(super) struct Cluster {
    child: Child,
    folder: PathBuf,
    /// What its members log; it outlasts a cluster in which a measurement failed.
    log: PathBuf,
    pub(super) client: Arc<SimpleDb>,
}

impl Cluster {
    /// Three members, so far apart, with a domain for strong and eventual writers.
    pub(super) async fn start(wiring: WiringName, delay: Duration) -> Result<Self> {
        static STARTED: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = STARTED.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let name = format!("fader-measure-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let log = folder.with_extension("log");
        let logged =
            File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let value = wiring
            .to_possible_value()
            .context("every wiring has a name")?;
        let mut command = Command::new(std::env::current_exe()?);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("FADER_") {
                command.env_remove(name);
            }
        }
        let mut child = command
            .args([
                "dev",
                "--listen",
                "127.0.0.1:0",
                "--wiring",
                value.get_name(),
            ])
            .args(["--delay", &format!("{}ms", delay.as_millis())])
            .arg("--data")
            .arg(&folder)
            .env("FADER_ROOT_ACCESS_KEY", ACCESS_KEY)
            .env("FADER_ROOT_SECRET_KEY", SECRET_KEY)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(logged)
            .spawn()
            .context("cannot start `fader dev`")?;
        let output = child.stdout.take().context("its output is piped")?;
        // From here on it is ended and its folder removed, whatever happens.
        let settings = Settings {
            pace: Pace::Bare,
            timeout: PATIENCE,
            ..Settings::default()
        };
        let credentials = || Some(Credentials::new(ACCESS_KEY, SECRET_KEY));
        let nowhere = Client::new("http://127.0.0.1:1", credentials(), settings.clone())?;
        let mut cluster = Cluster {
            child,
            folder,
            log,
            client: Arc::new(SimpleDb(nowhere)),
        };
        let url = tokio::task::spawn_blocking(move || listening(BufReader::new(output)));
        let url = tokio::time::timeout(START_MAX, url).await;
        let url = url.context("`fader dev` says nothing")???;
        cluster.client = Arc::new(SimpleDb(Client::new(&url, credentials(), settings)?));
        cluster.create_domain().await?;
        Ok(cluster)
    }

    async fn create_domain(&self) -> Result<()> {
        let nature = Nature {
            mode: Some(Mode::Mixed),
            ..Nature::default()
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
        // A log that stays is in a temporary place, and its place is told.
        let _ = fs::remove_file(&self.log);
    }

    /// Gives orders to it.
    pub(super) fn control(&self) -> Control {
        Control::new(self.folder.join(SOCKET))
    }
}

fn listening(output: impl BufRead) -> Result<String> {
    for line in output.lines() {
        if let Some(url) = line?.strip_prefix("listening on ") {
            return Ok(url.trim().to_owned());
        }
    }
    bail!("`fader dev` ended: start it yourself to see why")
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // What has ended already cannot be ended; a folder that stays is in a temporary place.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
        if self.log.exists() {
            eprintln!("\nwhat the cluster logged: {}", self.log.display());
        }
    }
}
