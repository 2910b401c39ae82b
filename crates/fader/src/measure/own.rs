//! A server of our own on loopback: a child process of this program, ended with this command.
//!
//! Its data are in a temporary folder, which goes with it. Its log outlasts it if [`Own::done`] is
//! not called, and then its place is told.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use fader_client::Credentials;
use fader_services::ErrorCode;

use crate::failure;

/// A server that does not listen within this time is given up.
pub(super) const START_MAX: Duration = Duration::from_secs(60);
const ACCESS_KEY: &str = "FADERMEASUREFADERMEA";
const SECRET_KEY: &str = "only-ever-used-on-loopback-by-this-command";

/// A running server.
pub(super) struct Own {
    child: Child,
    folder: PathBuf,
    log: PathBuf,
    /// Where it listens.
    pub(super) url: String,
}

impl Own {
    /// Starts `fader VERB` with these flags beside those for its place and its data.
    pub(super) async fn start(verb: &'static str, flags: &[String]) -> Result<Self> {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let name = format!("fader-measure-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let log = folder.with_extension("log");
        let logged =
            File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let mut command = Command::new(std::env::current_exe()?);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("FADER_") {
                command.env_remove(name);
            }
        }
        let mut child = command
            .args([verb, "--listen", "127.0.0.1:0"])
            .args(flags)
            .arg("--data")
            .arg(&folder)
            .env("FADER_ROOT_ACCESS_KEY", ACCESS_KEY)
            .env("FADER_ROOT_SECRET_KEY", SECRET_KEY)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(logged)
            .spawn()
            .with_context(|| format!("cannot start `fader {verb}`"))?;
        let output = child.stdout.take().context("its output is piped")?;
        // From here on it is ended and its folder removed, in all cases.
        let mut own = Own {
            child,
            folder,
            log,
            url: String::new(),
        };
        let url = tokio::task::spawn_blocking(move || listening(BufReader::new(output)));
        let url = tokio::time::timeout(START_MAX, url).await;
        let url = url.with_context(|| format!("`fader {verb}` says nothing"))??;
        own.url = url.with_context(|| format!("`fader {verb}` ended"))?;
        Ok(own)
    }

    /// The access key that it takes.
    pub(super) fn credentials() -> Credentials {
        Credentials::new(ACCESS_KEY, SECRET_KEY)
    }

    /// The same for a child process.
    pub(super) const fn environment() -> [(&'static str, &'static str); 2] {
        [
            ("AWS_ACCESS_KEY_ID", ACCESS_KEY),
            ("AWS_SECRET_ACCESS_KEY", SECRET_KEY),
        ]
    }

    /// Its data.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// All that was to be measured with it is.
    pub(super) fn done(self) {
        // A log that stays is in a temporary place, and its place is told.
        let _ = fs::remove_file(&self.log);
    }
}

fn listening(output: impl BufRead) -> Result<String> {
    for line in output.lines() {
        if let Some(url) = line?.strip_prefix("listening on ") {
            return Ok(url.trim().to_owned());
        }
    }
    failure::fail(
        ErrorCode::Unavailable,
        "it ended before it listened: start it yourself to see the reason",
    )
}

impl Drop for Own {
    fn drop(&mut self) {
        // What has ended already cannot be ended; a folder that stays is in a temporary place.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
        if self.log.exists() {
            note!("\nwhat the server logged: {}", self.log.display());
        }
    }
}
