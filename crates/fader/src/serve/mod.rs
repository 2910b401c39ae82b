//! `fader serve`: opens the store, listens, and ends in order.
//!
//! ```text
//! bind ─▶ open and recover ─▶ first key ─▶ control socket ─▶ "listening on …" ─▶ signal or failure
//!                                                                                  │
//!      exit ◀─ close the store ◀─ running requests end (bounded) ◀─ stop accepting ◀┘
//! ```
//!
//! Invariants:
//! 1. The one line on standard output is printed when requests are being served, never before.
//! 2. A secret goes to standard error once, and never into the log.
//! 3. An exit code of 0 means that everything acknowledged is on disk and the store was closed.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{ArgMatches, Args};
use fader_gateway::Gateway;
use fader_node::coordinator::Tls as ZooKeeperTls;
use fader_node::{Health, Node, OpenError, Recovery};
use fader_services::catalog::{AccountId, Refusal};
use fader_services::{ErrorCode, Reason};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tracing::{error, info, warn};

use crate::config::{self, Config, Durability, FileOption, LogFormat, Values};
use crate::failure::{Failure, Report};
use crate::keys::FIRST_ACCOUNT;
use crate::output;

mod control;
mod files;
mod first_key;
mod member;
pub(crate) mod reload;

use reload::{Again, SetLevel};

/// How often the store is asked whether it still works.
const HEALTH_INTERVAL: Duration = Duration::from_millis(250);
/// How long after it stopped serving a node that begins looks again.
const AGAIN: Duration = Duration::from_millis(250);

/// The exit code when a second signal, or one before it served, did not let the server end in order
/// (128 + SIGINT).
const EXIT_INTERRUPTED: i32 = 130;

const EXAMPLES: &str = "\
A setting comes from its flag, else its environment variable, else the configuration file, else the
default; `fader config show` prints which. Only the environment (FADER_ROOT_ACCESS_KEY and
FADER_ROOT_SECRET_KEY) and the file ([root]) can bring an access key along. Without one, the first
start creates a key and prints how to use it.

Examples:
  fader serve
  fader serve --listen 127.0.0.1:0 --anonymous        a free port and no keys: for tests
  fader serve --listen 0.0.0.0:443 --tls-certificate chain.pem --tls-key key.pem
  fader serve --limit gets=1300/s,puts=75/s,latency=113ms
                                                      of limited capacity: 503 beyond it
  fader serve --config fader.toml --durability os     the file, but one thing otherwise
  fader serve --node n1 --peer-listen 10.0.0.1:4570 --zookeeper zk1,zk2,zk3 --cluster-key key
                                                      a member of a cluster (fader cluster init)

A first interrupt (Ctrl-C, SIGTERM) lets running requests end, a second ends at once. SIGHUP reads
the TLS files and the log level again, and never ends the server.
Exit codes: 0 ended in order, 1 could not start, 70 the store failed, 130 interrupted at once.";

/// The flags of `fader serve`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(flatten)]
    file: FileOption,
    #[command(flatten)]
    values: Values,
}

impl Options {
    /// The same, with another folder where none is named.
    pub(crate) fn with_data(mut self, folder: &str) -> Self {
        self.values.set_data(folder);
        self
    }

    /// The configuration in force.
    ///
    /// # Errors
    /// When the parts contradict each other.
    pub(crate) fn config(&self, matches: &ArgMatches) -> Result<Config> {
        config::resolve(&self.file, self.values.clone(), matches)
    }

    /// What reads the configuration again.
    pub(crate) fn again(&self, matches: &ArgMatches) -> Again {
        let (file, values, matches) = (self.file.clone(), self.values.clone(), matches.clone());
        Box::new(move || config::resolve(&file, values.clone(), &matches))
    }
}

/// Serves one node until a signal or a failure.
pub(crate) async fn run(options: &Options, matches: &ArgMatches) -> Result<ExitCode> {
    let config = options.config(matches)?;
    let again = options.again(matches);
    if let Some(member) = config.membership.member()? {
        let zookeeper = member.zookeeper.tls.clone();
        return serve(&config, again, zookeeper, member::opener(member)?, drop).await;
    }
    let open = |settings| {
        let (node, recovery) = Node::open(settings)?;
        report(&recovery);
        Ok(node)
    };
    serve(&config, again, None, open, drop).await
}

/// Serves what `open` opens until a signal or a failure. `follow` is given it when it serves;
/// `again` reads the configuration again, and `zookeeper` is how ZooKeeper is reached.
pub(crate) async fn serve(
    config: &Config,
    again: Again,
    zookeeper: Option<ZooKeeperTls>,
    open: impl FnOnce(fader_node::Settings) -> Result<Node, OpenError> + Send + 'static,
    follow: impl FnOnce(Node),
) -> Result<ExitCode> {
    let set_level = start_log(config)?;
    let served = serve_logged(config, again, zookeeper, set_level, open, follow).await;
    if let (Err(error), LogFormat::Json) = (&served, config.log_format.value) {
        let Report {
            message,
            code,
            action,
        } = Report::of(error);
        error!(%code, kind = code.kind().name(), "do" = action, "cannot serve: {message}");
    }
    served
}

/// As [`serve`], when lines of the log are written.
async fn serve_logged(
    config: &Config,
    again: Again,
    zookeeper: Option<ZooKeeperTls>,
    set_level: SetLevel,
    open: impl FnOnce(fader_node::Settings) -> Result<Node, OpenError> + Send + 'static,
    follow: impl FnOnce(Node),
) -> Result<ExitCode> {
    for warning in &config.warnings {
        warn!("{warning}");
    }
    let allowed = files::raise();
    let mut signals = Signals::new()?;
    let tls = reload::begin(config, again, zookeeper, set_level)?;
    // Binding first: a port that is taken is reported before any data is touched.
    let listener = bind(config.listen.value).await?;
    let address = listener.local_addr()?;
    let node = tokio::select! {
        node = open_with(config, open) => node?,
        name = signals.next() => end_early(name),
    };
    let socket = control::listen(&config.data.value)?;

    let (stop, stopped) = watch::channel(false);
    let connections = files::connections(allowed, config.connections_max.value, node.is_alone())?;
    let gateway = Gateway::new(node.clone(), gateway_settings(config, connections));
    let scheme = if tls.is_some() { "https" } else { "http" };
    // A cluster that cannot begin by itself can be given orders.
    let mut administrators = pin!(async {
        match socket {
            Some(socket) => gateway.serve_control(socket, stopped.clone()).await,
            None => {
                drop(stopped.clone().changed().await);
                Ok(())
            }
        }
    });
    tokio::select! {
        begun = begin(&node, config, &address, tls.is_some()) => begun?,
        name = signals.next() => end_early(name),
        closed = &mut administrators => closed.context("the control socket closed")?,
    }
    let mut doors = pin!(async {
        tokio::try_join!(
            gateway.serve(listener, tls, stopped.clone()),
            administrators,
            async {
                gateway.carry_out_exports(stopped.clone()).await;
                Ok(())
            }
        )
    });
    output::print(&format!("listening on {scheme}://{address}\n"))?;
    info!(%address, data = %config.data.value.display(), "serving");
    follow(node.clone());

    let ending = tokio::select! {
        name = signals.next() => Ending::Asked(name),
        reason = failure(&node) => Ending::StoreFailed(reason),
        result = &mut doors => Ending::DoorsClosed(result.err()),
    };
    ending.report();
    let _ = stop.send(true);
    let finish = async {
        if !matches!(ending, Ending::DoorsClosed(_)) {
            let _ = doors.await;
        }
        node.close().await;
    };
    tokio::select! {
        () = finish => {}
        _ = signals.next() => {
            warn!("second signal: ending at once");
            std::process::exit(EXIT_INTERRUPTED);
        }
    }
    control::remove(&config.data.value);
    info!("ended");
    Ok(ending.code())
}

async fn bind(address: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(address).await.map_err(|error| {
        let error = anyhow::Error::from(error).context(format!("cannot listen on {address}"));
        Failure::of(ErrorCode::AddressUnavailable, error).into()
    })
}

/// Nothing was acknowledged: as if killed, which every start must bear.
fn end_early(signal: &'static str) -> ! {
    info!(signal, "ended before it served");
    std::process::exit(EXIT_INTERRUPTED);
}

/// Waits until the node serves, and has a key.
async fn begin(node: &Node, config: &Config, address: &SocketAddr, is_sealed: bool) -> Result<()> {
    let ready = async || until_ready(node).await;
    let ensure = async || first_key::ensure(node, config, address, is_sealed).await;
    match node.is_alone() {
        true => ensure().await,
        false => until_begun(ready, ensure).await,
    }
}

/// In company the node's member may stop serving before there is a key: it is waited for again.
async fn until_begun(
    ready: impl AsyncFn() -> Result<()>,
    ensure: impl AsyncFn() -> Result<()>,
) -> Result<()> {
    loop {
        ready().await?;
        match ensure().await {
            Err(error)
                if matches!(
                    error.downcast_ref(),
                    Some(Refusal::Unavailable(_) | Refusal::View(_))
                ) =>
            {
                warn!(%error, "the node stopped serving before it had a key: waiting");
                tokio::time::sleep(AGAIN).await;
            }
            begun => return begun,
        }
    }
}

/// Waits until the node serves. A cluster in this process is waited for as long as it takes. A
/// missing member may come, or an operator may order it to go on without.
async fn until_ready(node: &Node) -> Result<()> {
    while let Err(error) = node.ready().await {
        if node.cluster().is_none() {
            return Err(error.into());
        }
        warn!(%error, "the cluster does not serve yet: see `fader dev status`");
    }
    Ok(())
}

/// Why the server ends.
enum Ending {
    Asked(&'static str),
    StoreFailed(String),
    DoorsClosed(Option<std::io::Error>),
}

impl Ending {
    fn report(&self) {
        match self {
            Ending::Asked(signal) => {
                info!(
                    signal,
                    "ending: running requests may finish, a second signal ends at once"
                );
            }
            Ending::StoreFailed(reason) => {
                let code = ErrorCode::StoreFailed;
                error!(%code, reason, "ending: the store failed; start again to recover");
            }
            Ending::DoorsClosed(Some(error)) => error!(%error, "ending: cannot listen any more"),
            Ending::DoorsClosed(None) => error!("ending: the listener closed"),
        }
    }

    fn code(&self) -> ExitCode {
        match self {
            Ending::Asked(_) => ExitCode::SUCCESS,
            Ending::StoreFailed(_) => ExitCode::from(ErrorCode::StoreFailed.row().exit),
            Ending::DoorsClosed(_) => ExitCode::FAILURE,
        }
    }
}

/// The two signals that end a server.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn new() -> Result<Self> {
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
        }
    }
}

/// Waits until the store says that it failed.
async fn failure(node: &Node) -> String {
    let mut was_read_only = false;
    loop {
        match node.health() {
            Health::Failed(cause) => return cause.to_string(),
            Health::ReadOnly(reason) if !was_read_only => {
                was_read_only = true;
                let code = ErrorCode::Refused(Reason::NoWrites);
                warn!(%code, %reason, "writes are refused until this ends");
            }
            Health::Serving if was_read_only => {
                was_read_only = false;
                info!("writes are served again");
            }
            Health::Serving | Health::ReadOnly(_) => {}
        }
        tokio::time::sleep(HEALTH_INTERVAL).await;
    }
}

async fn open_with(
    config: &Config,
    open: impl FnOnce(fader_node::Settings) -> Result<Node, OpenError> + Send + 'static,
) -> Result<Node> {
    let mut settings = fader_node::Settings::new(config.data.value.clone());
    settings.durability = match config.durability.value {
        Durability::Disk => fader_node::Durability::Disk,
        Durability::Os => fader_node::Durability::Os,
    };
    settings.limits = config.limits.clone();
    settings.cache_bytes = config.cache_mb.value << 20;
    settings.blocks = config.blocks.options();
    let opening = tokio::task::spawn_blocking(move || open(settings));
    let folder = config.data.value.display();
    let node = opening
        .await
        .context("opening the store panicked")?
        .with_context(|| format!("cannot open {folder}"))?;
    Ok(node)
}

fn report(recovery: &Recovery) {
    if recovery.is_first_start {
        info!("first start: the data folder is new");
        return;
    }
    if let Some(torn) = &recovery.torn {
        match recovery.possibly_lost {
            0 => warn!(
                "the last write before the stop was torn, and cut off; nothing acknowledged: {torn}"
            ),
            bytes => tracing::error!(
                bytes,
                "the log ends in zeros where a record should be; unless the power went, \
                 acknowledged writes are lost: {torn}"
            ),
        }
    }
    info!(
        segments = recovery.segments,
        bytes_verified = recovery.bytes_verified,
        entries_replayed = recovery.entries_replayed,
        elapsed_ms = recovery.elapsed.as_millis(),
        "recovered"
    );
}

fn gateway_settings(config: &Config, connections: usize) -> fader_gateway::Settings {
    let default = fader_gateway::Settings::default();
    let (raised, aws) = (
        &config.limits.simpledb,
        fader_services::simpledb::Limits::default(),
    );
    // Where a limit is raised, what the wire lets through grows with it.
    let text = raised.text_bytes.div_ceil(aws.text_bytes);
    let items = raised.submitted_items.div_ceil(aws.submitted_items);
    let pairs = raised
        .submitted_attributes
        .div_ceil(aws.submitted_attributes);
    let parameters = items.saturating_mul(pairs);
    fader_gateway::Settings {
        connections_max: connections,
        connections_per_address: config
            .connections_per_address
            .value
            .unwrap_or_else(|| connections.div_ceil(2)),
        anonymous: config
            .anonymous
            .value
            .then(|| AccountId(FIRST_ACCOUNT.to_owned())),
        hosts: config::names(config.host.value.as_deref().unwrap_or_default()),
        s3_domains: config.buckets.domains(),
        s3_limits: config.limits.s3.clone(),
        limit: config.limit.value,
        body_bytes_max: default
            .body_bytes_max
            .saturating_mul(parameters.saturating_mul(text)),
        parameters_max: default.parameters_max.saturating_mul(parameters),
        ..default
    }
}

/// Begins to log; what changes the level.
fn start_log(config: &Config) -> Result<SetLevel> {
    let log = tracing_subscriber::fmt()
        .with_env_filter(reload::filter(&config.log_level.value)?)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    Ok(match config.log_format.value {
        LogFormat::Text => {
            let log = log.with_filter_reloading();
            let handle = log.reload_handle();
            log.init();
            Box::new(move |filter| Ok(handle.reload(filter)?))
        }
        LogFormat::Json => {
            let log = log.json().with_filter_reloading();
            let handle = log.reload_handle();
            log.init();
            Box::new(move |filter| Ok(handle.reload(filter)?))
        }
    })
}

#[cfg(test)]
mod tests;
