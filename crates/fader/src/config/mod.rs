//! The configuration of `fader serve`: flag, then environment, then file, then default.
//!
//! Invariants:
//! 1. One name everywhere: `--cache-mb`, `FADER_CACHE_MB` and `cache-mb` in the file are one thing.
//! 2. Every value knows where it came from; `fader config show` prints it.
//! 3. A secret is never a flag (other users see those), never printed, never logged.
//!
//! Deliberately absent: a default place for the file. Without `--config` none is read, so that a
//! server does what its command line says.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use blocks::Blocks;
use buckets::Buckets;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, ValueEnum};
use fader_gateway::Limit;
use fader_node::Secret;
use fader_services::ErrorCode;
use fader_services::request::Limits;
use membership::Membership;
use root::{RootValues, root};
use serde::{Deserialize, Deserializer};

use crate::failure::Failure;

pub(crate) mod blocks;
mod buckets;
mod defaults;
mod guarded;
mod limits;
pub(crate) mod membership;
mod root;
mod table;

pub(crate) use defaults::{SettingDoc, limit_docs, setting_docs};

/// The names of a list with commas between them.
pub(crate) fn names(list: &str) -> Vec<String> {
    let names = list.split(',').map(str::trim);
    names
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests;

/// Bytes of a configuration file: anything longer is another file given by mistake.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Where it listens unless said.
pub(crate) const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 4566);
/// The folder of the data unless said.
pub(crate) const DATA: &str = "./fader-data";

/// When a write is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Durability {
    /// When the disk has it: survives a power cut.
    Disk,
    /// When the operating system has it: survives a crash of Fader, faster.
    Os,
}

/// How a line of the log looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line, for machines.
    Json,
}

/// Where the configuration file is.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct FileOption {
    /// Configuration file (TOML). Its names are those of the flags, without the dashes in front.
    #[arg(long, env = "FADER_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

/// What flags, environment or file say; each may say nothing.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[command(mut_args(defaults::shown))]
pub(crate) struct Values {
    /// Address and port to listen on; port 0 takes a free one.
    #[arg(long, env = "FADER_LISTEN", value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,

    /// Folder of the data; created on first start.
    #[arg(long, env = "FADER_DATA", value_name = "FOLDER")]
    data: Option<PathBuf>,

    /// When a write is acknowledged.
    #[arg(long, env = "FADER_DURABILITY", value_name = "WHEN")]
    durability: Option<Durability>,

    /// Certificate chain for TLS (PEM); needs --tls-key. With it the server speaks https only.
    #[arg(long, env = "FADER_TLS_CERTIFICATE", value_name = "FILE")]
    tls_certificate: Option<PathBuf>,

    /// Private key of the certificate (PEM).
    #[arg(long, env = "FADER_TLS_KEY", value_name = "FILE")]
    tls_key: Option<PathBuf>,

    /// Serve unsigned requests too, as account 000000000001. Only on a loopback address.
    #[arg(
        long,
        env = "FADER_ANONYMOUS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        value_name = "BOOL"
    )]
    anonymous: Option<bool>,

    /// Names by which browsers may reach an anonymous server, beside addresses and localhost, with
    /// commas between them. Pages of other sites are refused.
    #[arg(long, env = "FADER_HOST", value_name = "NAME,…")]
    host: Option<String>,

    /// Domains of S3 (BUCKET.DOMAIN), with commas between them.
    #[arg(long, env = "FADER_S3_DOMAIN", value_name = "NAMES")]
    s3_domain: Option<String>,

    /// Who owns the objects of new buckets that do not say: BucketOwnerEnforced (no ACL counts),
    /// BucketOwnerPreferred or ObjectWriter.
    #[arg(long, env = "FADER_S3_OWNERSHIP", value_name = "OWNERSHIP")]
    s3_ownership: Option<String>,

    /// Let new buckets be made public: without it they block public ACLs and policies until their
    /// public access block is changed.
    #[arg(
        long,
        env = "FADER_S3_PUBLIC_ACCESS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        value_name = "BOOL"
    )]
    s3_public_access: Option<bool>,

    /// Seconds of a day of lifecycle rules, for tests.
    #[arg(
        long,
        env = "FADER_S3_DAY_S",
        value_name = "SECONDS",
        hide_short_help = true
    )]
    s3_day_s: Option<u64>,

    /// Memory for cached data, in MiB.
    #[arg(long, env = "FADER_CACHE_MB", value_name = "MIB")]
    cache_mb: Option<u64>,

    /// Connections served at once. For one more, an idle one is closed, strangers' first; where
    /// none is idle it is answered 503. Fewer where `ulimit -n` leaves fewer.
    #[arg(long, env = "FADER_CONNECTIONS_MAX", value_name = "COUNT")]
    connections_max: Option<usize>,

    /// Those of one address; of IPv6, of 64 bits of it. Without it, half of all connections.
    #[arg(long, env = "FADER_CONNECTIONS_PER_ADDRESS", value_name = "COUNT")]
    connections_per_address: Option<usize>,

    /// A capacity on purpose, to try clients on, such as `gets=1300/s+100,puts=75/s+10`. Requests
    /// beyond it are refused with 503, as SimpleDB did.
    ///
    /// Gets (all that only reads) and puts are limited apart. The limit is in requests a second,
    /// with a burst, or in requests at a time, with a queue. `latency` is added to every answer,
    /// `work` to those that are carried out. Such as `gets=1300/s+100,puts=75/s+10,latency=113ms`
    /// or `gets=32+200,work=20ms`.
    #[arg(long, env = "FADER_LIMIT", value_name = "LIMIT")]
    #[serde(deserialize_with = "limit")]
    limit: Option<Limit>,

    /// How log lines look; they go to standard error.
    #[arg(long, env = "FADER_LOG_FORMAT", value_name = "FORMAT")]
    log_format: Option<LogFormat>,

    /// What is logged: error, warn, info, debug or trace, also per module, such as
    /// `info,fader_node=debug`.
    #[arg(long, env = "FADER_LOG_LEVEL", value_name = "LEVEL")]
    log_level: Option<String>,

    /// Name of this member of a cluster, one of those that `fader cluster init` was given. It needs
    /// --peer-listen, --zookeeper and --cluster-key.
    #[arg(long, env = "FADER_NODE", value_name = "NAME")]
    node: Option<String>,

    /// Address and port on which other members call this one.
    #[arg(long, env = "FADER_PEER_LISTEN", value_name = "ADDRESS:PORT")]
    peer_listen: Option<SocketAddr>,

    /// Servers of ZooKeeper, in which the cluster is kept; port 2181 where none is named.
    #[arg(long, env = "FADER_ZOOKEEPER", value_name = "HOST:PORT,…")]
    zookeeper: Option<String>,

    /// The place of the cluster in ZooKeeper.
    #[arg(long, env = "FADER_ZOOKEEPER_PATH", value_name = "PATH")]
    zookeeper_path: Option<String>,

    /// File with user:password for ZooKeeper, mode 0600; the cluster is then open to these
    /// credentials alone.
    #[arg(long, env = "FADER_ZOOKEEPER_CREDENTIALS", value_name = "FILE")]
    zookeeper_credentials: Option<PathBuf>,

    /// TLS to ZooKeeper: file with the certificates of the authorities of its servers (PEM).
    #[arg(long, env = "FADER_ZOOKEEPER_TLS", value_name = "FILE")]
    zookeeper_tls: Option<PathBuf>,

    /// Certificate chain that this member shows to ZooKeeper (PEM); needs --zookeeper-key.
    #[arg(long, env = "FADER_ZOOKEEPER_CERTIFICATE", value_name = "FILE")]
    zookeeper_certificate: Option<PathBuf>,

    /// Private key of that certificate (PEM).
    #[arg(long, env = "FADER_ZOOKEEPER_KEY", value_name = "FILE")]
    zookeeper_key: Option<PathBuf>,

    /// File with the cluster's key, by which members know each other; mode 0600.
    #[arg(long, env = "FADER_CLUSTER_KEY", value_name = "FILE")]
    cluster_key: Option<PathBuf>,

    /// The greatest version of the cluster that this member speaks. With an older one than it
    /// could, the cluster's does not rise, and members can go back to that.
    #[arg(long, env = "FADER_CLUSTER_VERSION_MAX", value_name = "VERSION")]
    cluster_version_max: Option<u32>,

    /// What a member of a chain compares and takes in a second while it is filled, in MiB: the
    /// rest is for clients.
    #[arg(long, env = "FADER_TRANSFER_MB", value_name = "MIB")]
    transfer_mb: Option<u64>,

    /// Memory of all uploads to buckets together, in MiB. A block takes a quarter more than its
    /// bytes.
    #[arg(long, env = "FADER_BLOCK_MEMORY_MB", value_name = "MIB")]
    block_memory_mb: Option<u64>,

    /// Bytes of objects that are read again in a second, in the background, to find damage, in MiB;
    /// 0 for none.
    #[arg(long, env = "FADER_SCRUB_MB", value_name = "MIB")]
    scrub_mb: Option<u64>,

    /// Room on the disk that objects leave free, for all else and for deletions, in MiB: beyond it
    /// they are refused with 503.
    #[arg(long, env = "FADER_BLOCK_RESERVE_MB", value_name = "MIB")]
    block_reserve_mb: Option<u64>,

    /// How long the bytes of an object stay after it was replaced or deleted, in seconds. A read
    /// that is under way has so long.
    #[arg(long, env = "FADER_GARBAGE_WAIT_S", value_name = "SECONDS")]
    garbage_wait_s: Option<u64>,

    /// How long an upload of an object or a part may take, in seconds. What of it is not committed
    /// then is refused and removed.
    #[arg(long, env = "FADER_UPLOAD_LEASE_S", value_name = "SECONDS")]
    upload_lease_s: Option<u64>,

    #[arg(skip)]
    root: RootValues,

    #[arg(skip)]
    limits: limits::Given,
}

impl Values {
    /// Names a folder for the data where none is named.
    pub(crate) fn set_data(&mut self, folder: &str) {
        self.data.get_or_insert_with(|| PathBuf::from(folder));
    }
}

fn limit<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Limit>, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map(Some).map_err(serde::de::Error::custom)
}

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Flag,
    Environment,
    File(PathBuf),
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Flag => f.write_str("flag"),
            Origin::Environment => f.write_str("environment"),
            Origin::File(path) => write!(f, "file {}", path.display()),
            Origin::Default => f.write_str("default"),
        }
    }
}

/// A value and where it came from.
#[derive(Clone, Debug)]
pub(crate) struct Setting<T> {
    pub(crate) value: T,
    pub(crate) origin: Origin,
}

/// The configuration in force.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) listen: Setting<SocketAddr>,
    pub(crate) data: Setting<PathBuf>,
    pub(crate) durability: Setting<Durability>,
    pub(crate) tls_certificate: Setting<Option<PathBuf>>,
    pub(crate) tls_key: Setting<Option<PathBuf>>,
    pub(crate) anonymous: Setting<bool>,
    pub(crate) host: Setting<Option<String>>,
    pub(crate) cache_mb: Setting<u64>,
    pub(crate) connections_max: Setting<usize>,
    pub(crate) connections_per_address: Setting<Option<usize>>,
    pub(crate) limit: Setting<Option<Limit>>,
    pub(crate) log_format: Setting<LogFormat>,
    pub(crate) log_level: Setting<String>,
    pub(crate) membership: Membership,
    pub(crate) blocks: Blocks,
    pub(crate) buckets: Buckets,
    /// The key that exists from the start: id and secret.
    pub(crate) root: Setting<Option<(String, Secret)>>,
    pub(crate) limits: Limits,
    given_limits: limits::Given,
    file: Option<PathBuf>,
    /// What is allowed but unwise.
    pub(crate) warnings: Vec<String>,
}

/// Chooses between what the command line and the file say.
struct Choice<'a> {
    matches: &'a ArgMatches,
    file: Option<&'a Path>,
}

impl Choice<'_> {
    fn pick<T>(&self, id: &str, given: Option<T>, filed: Option<T>, default: T) -> Setting<T> {
        match (given, filed, self.file) {
            (Some(value), _, _) => {
                let is_flag = self.matches.value_source(id) == Some(ValueSource::CommandLine);
                let origin = if is_flag {
                    Origin::Flag
                } else {
                    Origin::Environment
                };
                Setting { value, origin }
            }
            (None, Some(value), Some(file)) => Setting {
                value,
                origin: Origin::File(file.to_path_buf()),
            },
            _ => Setting {
                value: default,
                origin: Origin::Default,
            },
        }
    }
}

/// The configuration from the command line, the environment, and the file they name.
///
/// # Errors
/// When a part cannot be read or the parts contradict each other.
pub(crate) fn resolve(file: &FileOption, given: Values, matches: &ArgMatches) -> Result<Config> {
    let config = combine(file, given, matches);
    Ok(config.map_err(|error| Failure::of(ErrorCode::ConfigurationInvalid, error))?)
}

fn combine(file: &FileOption, given: Values, matches: &ArgMatches) -> Result<Config> {
    let path = file.config.as_deref();
    let mut filed = path.map(read).transpose()?.unwrap_or_default();
    let root = root(std::mem::take(&mut filed.root), path)?;
    let limits = limits::changed(&filed.limits)?;
    let choice = Choice {
        matches,
        file: path,
    };
    check(choose(&choice, given, filed, Checked { root, limits }))
}

/// The parts of a configuration that may be refused, after their checks.
struct Checked {
    root: Setting<Option<(String, Secret)>>,
    limits: Limits,
}

fn choose(choice: &Choice<'_>, given: Values, filed: Values, checked: Checked) -> Config {
    let optional = |id, given: Option<PathBuf>, filed: Option<PathBuf>| {
        choice.pick(id, given.map(Some), filed.map(Some), None)
    };
    Config {
        membership: Membership::choose(choice, &given, &filed),
        blocks: Blocks::choose(choice, &given, &filed),
        buckets: Buckets::choose(choice, &given, &filed),
        listen: choice.pick("listen", given.listen, filed.listen, LISTEN),
        data: choice.pick("data", given.data, filed.data, PathBuf::from(DATA)),
        durability: choice.pick(
            "durability",
            given.durability,
            filed.durability,
            Durability::Disk,
        ),
        tls_certificate: optional(
            "tls_certificate",
            given.tls_certificate,
            filed.tls_certificate,
        ),
        tls_key: optional("tls_key", given.tls_key, filed.tls_key),
        anonymous: choice.pick("anonymous", given.anonymous, filed.anonymous, false),
        host: choice.pick("host", given.host.map(Some), filed.host.map(Some), None),
        cache_mb: choice.pick("cache_mb", given.cache_mb, filed.cache_mb, 64),
        connections_max: choice.pick(
            "connections_max",
            given.connections_max,
            filed.connections_max,
            fader_gateway::Settings::default().connections_max,
        ),
        connections_per_address: choice.pick(
            "connections_per_address",
            given.connections_per_address.map(Some),
            filed.connections_per_address.map(Some),
            None,
        ),
        limit: choice.pick("limit", given.limit.map(Some), filed.limit.map(Some), None),
        log_format: choice.pick(
            "log_format",
            given.log_format,
            filed.log_format,
            LogFormat::Text,
        ),
        log_level: choice.pick(
            "log_level",
            given.log_level,
            filed.log_level,
            "info".to_owned(),
        ),
        root: checked.root,
        limits: checked.limits,
        given_limits: filed.limits,
        file: choice.file.map(Path::to_path_buf),
        warnings: Vec::new(),
    }
}

/// The folder of the data alone, for commands that need nothing else.
///
/// # Errors
/// When the file cannot be read.
pub(crate) fn data_folder(file: &FileOption, given: Option<PathBuf>) -> Result<PathBuf> {
    let filed = file.config.as_deref().map(read).transpose();
    let filed = filed.map_err(|error| Failure::of(ErrorCode::ConfigurationInvalid, error))?;
    let folder = given.or(filed.and_then(|values| values.data));
    Ok(folder.unwrap_or_else(|| PathBuf::from(DATA)))
}

fn read(path: &Path) -> Result<Values> {
    let context = || format!("cannot read the configuration file {}", path.display());
    if std::fs::metadata(path).with_context(context)?.len() > FILE_BYTES_MAX {
        bail!("{}: longer than {FILE_BYTES_MAX} bytes", context());
    }
    let text = std::fs::read_to_string(path).with_context(context)?;
    parse(&text).with_context(context)
}

/// Reads the file's text. The error says where and what, and quotes no line: it may hold a secret.
fn parse(text: &str) -> Result<Values> {
    toml::from_str(text).map_err(|error: toml::de::Error| {
        let at = error.span().map_or(0, |span| span.start);
        let line = text.get(..at).unwrap_or_default().matches('\n').count() + 1;
        anyhow::anyhow!("line {line}: {}", error.message())
    })
}

fn check(mut config: Config) -> Result<Config> {
    let is_loopback = config.listen.value.ip().is_loopback();
    let has_tls = match (&config.tls_certificate.value, &config.tls_key.value) {
        (Some(_), Some(_)) => true,
        (None, None) => false,
        _ => bail!("tls-certificate and tls-key go together: set both or neither"),
    };
    if config.anonymous.value && !is_loopback {
        bail!(
            "anonymous serves everyone who can connect, so it needs a loopback address such as \
             127.0.0.1:4566, not {}",
            config.listen.value
        );
    }
    if config.cache_mb.value == 0 || config.cache_mb.value > 1 << 20 {
        bail!("cache-mb must be between 1 and {}", 1 << 20);
    }
    if config.connections_max.value == 0 || config.connections_per_address.value == Some(0) {
        bail!("connections-max and connections-per-address must be at least 1");
    }
    config.membership.member()?;
    config.blocks.check()?;
    config.buckets.check()?;
    config.blocks.limit(&mut config.limits);
    config.buckets.limit(&mut config.limits);
    if !is_loopback && !has_tls {
        config.warnings.push(format!(
            "{} is reachable from other machines without TLS: data travels in the clear. Set \
             tls-certificate and tls-key",
            config.listen.value
        ));
    }
    let mut exposed = Vec::new();
    if let (Some(file), Origin::File(_)) = (&config.file, &config.root.origin) {
        exposed.extend(guarded::secret(file, "a secret"));
    }
    if let Some(key) = &config.tls_key.value {
        exposed.extend(guarded::secret(key, "the private key of TLS"));
    }
    exposed.extend(guarded::data(&config.data.value));
    config.warnings.extend(exposed);
    Ok(config)
}
