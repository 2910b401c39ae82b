//! `fader cluster mode`: the modes of domains and queues, through the control socket of a running
//! server.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use fader_client::{Control, DomainMode};
use fader_services::catalog::{AccountId, Name};
use fader_services::{ErrorCode, Kind, Mode};

use crate::keys::{FIRST_ACCOUNT, SOCKET};
use crate::output;
use crate::{config, dev, failure};

/// Where a server may run, unless its folder is named.
const FOLDERS: [&str; 2] = [config::DATA, dev::DATA];

/// The help of the flag for the folder of a server's data.
pub(crate) fn folder_help() -> String {
    let folders = FOLDERS.join(" or ");
    format!("Folder of the server's data. [default: {folders}, where a server runs]")
}
/// How often a change is looked at.
const LOOK: Duration = Duration::from_millis(50);
/// How long a change may take before one is told what it waits for, and how often one is told.
const PATIENCE: Duration = Duration::from_secs(2);

const EXAMPLES: &str = "\
A domain is strong, mixed or eventual: who may write to it at which level. A change to strong waits
until every eventual write of the domain is settled; meanwhile the domain is draining: it takes
strong writes only. All other changes are done at once, also the way back.

A standard queue is strong or mixed: to a mixed one sends may be eventual. FIFO queues are strong.

Examples:
  fader cluster mode carts                       how it stands, and what it waits for
  fader cluster mode carts mixed                 eventual writes are taken from now on
  fader cluster mode carts strong --wait         returns when it is done
  fader cluster mode carts strong --abandon      does not wait for members that are absent: eventual
                                                 writes that only they have will be refused
  fader cluster mode events mixed --queue        eventual sends are taken from now on
  fader cluster mode photos mixed --bucket       eventual puts are taken from now on";

/// Which domain, queue or bucket, and which mode.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ModeOptions {
    /// The domain; with --queue the queue, with --bucket the bucket.
    name: String,

    /// The mode: strong, mixed or eventual. Without one, says how the domain's mode stands.
    mode: Option<Mode>,

    /// The name is that of a queue.
    #[arg(long)]
    queue: bool,

    /// The name is that of a bucket.
    #[arg(long, conflicts_with = "queue")]
    bucket: bool,

    /// Does not wait for members that are absent; eventual writes that only they have are lost.
    #[arg(long, requires = "mode")]
    abandon: bool,

    /// Returns when the change is done; else after two seconds at most, and it goes on.
    #[arg(long, requires = "mode")]
    wait: bool,

    /// Whose domain, queue or bucket: twelve digits.
    #[arg(long, default_value = FIRST_ACCOUNT)]
    account: String,

    #[arg(help = folder_help())]
    #[arg(long, env = "FADER_DATA", value_name = "FOLDER")]
    data: Option<PathBuf>,
}

/// Carries out `fader cluster mode`.
pub(crate) async fn change_mode(options: &ModeOptions) -> Result<ExitCode> {
    let control = control(options.data.as_deref())?;
    let account = AccountId(options.account.clone());
    let kind = match (options.queue, options.bucket) {
        (true, _) => Kind::Queue,
        (_, true) => Kind::Bucket,
        (false, false) => Kind::Domain,
    };
    let name = Name::new(kind, &account, &options.name);
    let status = match options.mode {
        None => control.mode(name).await?,
        Some(mode) => {
            let begun = control.set_mode(name, mode, options.abandon).await?;
            follow(&control, options, name, mode, begun).await?
        }
    };
    output::print(&format!("{}: {}\n", options.name, in_words(&status)))?;
    Ok(ExitCode::SUCCESS)
}

/// Waits for the end of a change, telling what it waits for.
async fn follow(
    control: &Control,
    options: &ModeOptions,
    name: Name<'_>,
    mode: Mode,
    begun: DomainMode,
) -> Result<DomainMode> {
    let start = Instant::now();
    let mut told = start;
    let mut status = begun;
    while status.mode != mode.to_string() {
        if status.mode != Mode::Draining.to_string() {
            return failure::fail(
                ErrorCode::StateConflict,
                format_args!(
                    "the change was taken back: {} is {}",
                    options.name, status.mode
                ),
            );
        }
        if PATIENCE <= start.elapsed() && !options.wait {
            return Ok(status);
        }
        if PATIENCE <= told.elapsed() {
            told = Instant::now();
            let seconds = start.elapsed().as_secs();
            // A missing reader is no matter.
            let _ = writeln!(
                std::io::stderr(),
                "{}: {} after {seconds} s",
                options.name,
                in_words(&status)
            );
        }
        tokio::time::sleep(LOOK).await;
        status = control.mode(name).await?;
    }
    Ok(status)
}

fn in_words(status: &DomainMode) -> String {
    let mut words = vec![status.mode.clone()];
    if !status.absent.is_empty() {
        words.push(format!(
            "waits for {} to come back with eventual writes that only it may have, \
             or for --abandon",
            status.absent.join(", ")
        ));
    }
    if !status.silent.is_empty() {
        words.push(format!(
            "waits for an answer of {}",
            status.silent.join(", ")
        ));
    }
    words.join(", ")
}

/// The control socket of a server that runs: in `data`, or where one may be.
pub(crate) fn control(data: Option<&Path>) -> Result<Control> {
    let runs = |folder: &Path| UnixStream::connect(folder.join(SOCKET)).is_ok();
    let folder = match data {
        Some(folder) => Some(folder).filter(|folder| runs(folder)),
        None => FOLDERS.iter().map(Path::new).find(|folder| runs(folder)),
    };
    let place = data.map_or(FOLDERS.join(" or "), |folder| folder.display().to_string());
    let folder = folder.with_context(|| {
        format!("no server runs in {place}: start one, or name its folder with --data")
    })?;
    Ok(Control::new(folder.join(SOCKET)))
}
