//! `fader cluster init` and `fader cluster restore`: a cluster of processes is made, once, in
//! ZooKeeper; and a chain goes on with what one member has.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use fader_node::coordinator::{CoordinatorError, ZooKeeperCoordinator, ZooKeeperSettings};
use fader_node::peer::ClusterKey;
use fader_node::{
    CHAINS_MAX, ChainId, ClusterLimits, PlacementPolicy, Plan, Version, Wiring, new_cluster,
};

use crate::cluster::restore;
use crate::config::membership::{ROOT, ZooKeeperTlsFiles, spoken, zookeeper};
use crate::dev::WiringName;
use crate::failure;
use crate::output;

const EXAMPLES: &str = "\
The key's file is written if it is not there: copy it to every member's machine, and keep it as you
keep passwords. The members are those that the cluster begins with: it serves when all were there.
With zones the members of a chain are in as many as can be; heads and tails may each have theirs.

Examples:
  fader cluster init --zookeeper zk1,zk2,zk3 --cluster-key cluster.key --members n1,n2,n3
  fader cluster init --zookeeper zk1,zk2,zk3 --cluster-key cluster.key --chains 12 \\
      --members n1=east,n2=east,n3=north,n4=north,n5=west,n6=west --head-zone east
  fader serve --node n1 --peer-listen 10.0.0.1:4570 --zookeeper zk1,zk2,zk3 \\
      --cluster-key cluster.key --listen 10.0.0.1:4566 --data /var/lib/fader";

const RESTORING: &str = "\
For a chain whose members that served last are all lost. What they acknowledged beyond what the
chosen member has is lost for ever. `fader cluster diagnose` says which disks would bring it all
back.

Examples:
  fader cluster restore 3 --member n2 --zookeeper zk1,zk2,zk3         says what would be lost
  fader cluster restore 3 --member n2 --zookeeper zk1,zk2,zk3 --yes   goes on with it
  fader cluster restore 3 --member n2 --zookeeper zk1,zk2,zk3 --accept-loss
                                    before it: n2 may start on an old copy of its folder";

/// Where a cluster is kept.
#[derive(Args)]
pub(crate) struct Place {
    /// Servers of ZooKeeper.
    #[arg(long, env = "FADER_ZOOKEEPER", value_name = "HOST:PORT,…")]
    zookeeper: Option<String>,

    /// Where in ZooKeeper.
    #[arg(long, env = "FADER_ZOOKEEPER_PATH", value_name = "PATH", default_value = ROOT)]
    zookeeper_path: String,

    /// File with user:password for ZooKeeper.
    #[arg(long, env = "FADER_ZOOKEEPER_CREDENTIALS", value_name = "FILE")]
    zookeeper_credentials: Option<PathBuf>,

    /// TLS to ZooKeeper: file with the certificates of the authorities of its servers (PEM).
    #[arg(long, env = "FADER_ZOOKEEPER_TLS", value_name = "FILE")]
    zookeeper_tls: Option<PathBuf>,

    /// Certificate chain to show to ZooKeeper (PEM).
    #[arg(long, env = "FADER_ZOOKEEPER_CERTIFICATE", value_name = "FILE")]
    zookeeper_certificate: Option<PathBuf>,

    /// Private key of that certificate (PEM).
    #[arg(long, env = "FADER_ZOOKEEPER_KEY", value_name = "FILE")]
    zookeeper_key: Option<PathBuf>,
}

/// What a cluster is made with.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct InitOptions {
    #[command(flatten)]
    place: Place,

    /// File with the cluster's key; written if it is not there.
    #[arg(long, env = "FADER_CLUSTER_KEY", value_name = "FILE")]
    cluster_key: PathBuf,

    /// Names of the members, each with its zone, if they have some.
    #[arg(
        long,
        value_name = "NAME[=ZONE],…",
        value_delimiter = ',',
        required = true
    )]
    members: Vec<String>,

    /// Chains beside the system chain, on which domains are placed as they are created; with none
    /// the system chain has them all.
    #[arg(long, value_name = "NUMBER", default_value_t = 4,
        value_parser = clap::value_parser!(u32).range(0..=CHAINS_MAX as i64))]
    chains: u32,

    /// Members of each of them.
    #[arg(long, value_name = "NUMBER", default_value_t = 3,
        value_parser = clap::value_parser!(u8).range(1..=7))]
    copies: u8,

    /// The zone of heads, near those who write.
    #[arg(long, value_name = "ZONE")]
    head_zone: Option<String>,

    /// The zone of tails.
    #[arg(long, value_name = "ZONE")]
    tail_zone: Option<String>,

    /// How long a member that is not heard of counts as alive. It relies on half of that, without
    /// ZooKeeper; a killed head stops writes for as long.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = crate::dev::time)]
    lease: Duration,

    /// How writes travel: from the head to each member, or from member to member.
    #[arg(long, value_name = "HOW", default_value = "star")]
    wiring: WiringName,

    #[arg(long, value_name = "VERSION", value_parser = spoken, help = format!(
        "The version that every member must speak, to begin with. [default: {}]", Version::NEWEST
    ))]
    version: Option<Version>,
}

/// Which chain goes on with what.
#[derive(Args)]
#[command(after_help = RESTORING)]
pub(crate) struct RestoreOptions {
    /// The number of the chain; 0 is the system chain.
    chain: u32,

    /// The node whose member the chain goes on with; its process must run.
    #[arg(long, value_name = "NODE")]
    member: String,

    /// Goes on, also with loss.
    #[arg(long)]
    yes: bool,

    /// Lets the node begin on an old copy of its folder, without what was acknowledged after the
    /// copy was made. Its process must not run yet.
    #[arg(long, conflicts_with = "yes")]
    accept_loss: bool,

    #[command(flatten)]
    place: Place,
}

/// Shorter leases are lost on a busy machine, longer ones have no use.
const LEASE_MIN: Duration = Duration::from_millis(500);
const LEASE_MAX: Duration = Duration::from_secs(60);

impl Place {
    /// Whether servers are named.
    pub(crate) fn is_named(&self) -> bool {
        self.zookeeper.is_some()
    }

    /// # Errors
    /// When no servers are named, or the credentials cannot be read.
    pub(crate) fn settings(&self) -> Result<ZooKeeperSettings> {
        let proofs = ZooKeeperTlsFiles {
            credentials: self.zookeeper_credentials.as_deref(),
            authorities: self.zookeeper_tls.as_deref(),
            certificate: self.zookeeper_certificate.as_deref(),
            key: self.zookeeper_key.as_deref(),
        };
        let hosts = self.zookeeper.as_deref();
        let hosts = hosts.context("no server of ZooKeeper is named: --zookeeper")?;
        zookeeper(hosts, &self.zookeeper_path, &proofs)
    }
}

/// Makes a cluster.
pub(crate) fn init(options: &InitOptions) -> Result<ExitCode> {
    let nodes: Vec<(String, String)> = options.members.iter().map(|it| node(it)).collect();
    let mut names: Vec<&str> = nodes.iter().map(|(name, _)| &**name).collect();
    names.sort_unstable();
    names.dedup();
    if names.len() != options.members.len() {
        return failure::invalid("each member has a name of its own");
    }
    let version = options.version.unwrap_or(Version::NEWEST);
    if let Err(refusal) = ClusterLimits::of(version).check(names.len(), options.chains) {
        return failure::invalid(refusal);
    }
    for zone in [&options.head_zone, &options.tail_zone]
        .into_iter()
        .flatten()
    {
        if !nodes.iter().any(|(_, of)| of == zone) {
            return failure::invalid(format_args!("no member is in the zone {zone:?}"));
        }
    }
    if !(LEASE_MIN..=LEASE_MAX).contains(&options.lease) {
        return failure::invalid(format_args!("the lease is {LEASE_MIN:?} to {LEASE_MAX:?}"));
    }
    let place = options.place.settings()?;
    let (key, is_new) = match options.cluster_key.exists() {
        true => (ClusterKey::load(&options.cluster_key)?, false),
        false => {
            // A key is made where there is a ZooKeeper that knows of it.
            let found = ZooKeeperCoordinator::look(&place);
            if let Err(error @ CoordinatorError::Unavailable(_)) = found {
                return Err(error.into());
            }
            (ClusterKey::create(&options.cluster_key)?, true)
        }
    };
    let plan = Plan {
        version,
        policy: PlacementPolicy {
            replication_factor: usize::from(options.copies),
            head_zone: options.head_zone.clone(),
            tail_zone: options.tail_zone.clone(),
        },
        nodes,
        chains: options.chains,
        wiring: options.wiring.into(),
        session: options.lease,
    };
    let made = new_cluster(&key, plan)
        .map_err(anyhow::Error::from)
        .and_then(|cluster| Ok(ZooKeeperCoordinator::create(&place, &cluster)?));
    let path = options.cluster_key.display();
    if let Err(error) = made {
        return Err(undone(options, error, is_new));
    }
    let key = match is_new {
        true => format!("its key is in {path}: copy it to every member"),
        false => format!("its key is that in {path}"),
    };
    output::print(&format!("the cluster is made at {}; {key}\n", place.root))?;
    Ok(ExitCode::SUCCESS)
}

/// Takes back the file of a key whose cluster was not made. Where the cluster may be there none the
/// less, the file stays.
fn undone(options: &InitOptions, error: anyhow::Error, is_new: bool) -> anyhow::Error {
    let path = &options.cluster_key;
    let may_be_made = matches!(error.downcast_ref(), Some(CoordinatorError::Unavailable(_)));
    match (is_new, may_be_made) {
        (true, true) => error.context(format!(
            "the cluster may be made; its key is in {}",
            path.display()
        )),
        (true, false) => match std::fs::remove_file(path) {
            Ok(()) => error,
            Err(left) => error.context(format!("{} stays behind: {left}", path.display())),
        },
        (false, _) => error,
    }
}

/// A name and a zone.
pub(crate) fn node(text: &str) -> (String, String) {
    let (name, zone) = text.split_once('=').unwrap_or((text, ""));
    (name.to_owned(), zone.to_owned())
}

/// Has a chain go on with what one member has.
pub(crate) fn restore(options: &RestoreOptions) -> Result<ExitCode> {
    let place = options.place.settings()?;
    let (chain, member) = (ChainId(options.chain), &options.member);
    if options.accept_loss {
        let had = ZooKeeperCoordinator::accept_old_copy(&place, chain, member)?;
        output::print(&restore::accepted(chain, member, &had))?;
        return Ok(ExitCode::SUCCESS);
    }
    restore::consent(member, options.yes)?;
    let epoch = ZooKeeperCoordinator::restore(&place, chain, member)?;
    output::print(&format!(
        "{chain} goes on with what {member} has, in epoch {epoch}\n"
    ))?;
    Ok(ExitCode::SUCCESS)
}

impl From<WiringName> for Wiring {
    fn from(name: WiringName) -> Self {
        match name {
            WiringName::Star => Wiring::Star,
            WiringName::Chain => Wiring::Chain,
        }
    }
}
