//! `fader cluster init` and `fader cluster status`: a cluster of processes is made, once, in
//! ZooKeeper, and looked at.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use fader_node::Wiring;
use fader_node::coordinator::{Standing, ZooKeeperCoordinator, ZooKeeperSettings};
use fader_node::new_cluster;
use fader_node::peer::ClusterKey;

use crate::config::membership::{ROOT, zookeeper};
use crate::dev::WiringName;
use crate::output;

const EXAMPLES: &str = "\
The key's file is written if it is not there: copy it to every member's machine, and keep it as you
keep passwords. The members are those that the cluster begins with: it serves when all were there.

Example:
  fader cluster init --zookeeper zk1,zk2,zk3 --cluster-key cluster.key --members n1,n2,n3
  fader serve --node n1 --peer-listen 10.0.0.1:4570 --zookeeper zk1,zk2,zk3 \\
      --cluster-key cluster.key --listen 10.0.0.1:4566 --data /var/lib/fader";

/// Where a cluster is kept.
#[derive(Args)]
struct Place {
    /// Servers of ZooKeeper.
    #[arg(long, env = "FADER_ZOOKEEPER", value_name = "HOST:PORT,…")]
    zookeeper: String,

    /// Where in ZooKeeper.
    #[arg(long, env = "FADER_ZOOKEEPER_PATH", value_name = "PATH", default_value = ROOT)]
    zookeeper_path: String,

    /// File with user:password for ZooKeeper.
    #[arg(long, env = "FADER_ZOOKEEPER_CREDENTIALS", value_name = "FILE")]
    zookeeper_credentials: Option<PathBuf>,
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

    /// Names of the members.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', required = true)]
    members: Vec<String>,

    /// How long a member that is not heard of counts as alive. It relies on half of that, without
    /// ZooKeeper; a killed head stops writes for as long.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = crate::dev::time)]
    lease: Duration,

    /// How writes travel: from the head to each member, or from member to member.
    #[arg(long, value_name = "HOW", default_value = "star")]
    wiring: WiringName,
}

/// Which cluster.
#[derive(Args)]
pub(crate) struct StatusOptions {
    #[command(flatten)]
    place: Place,
}

/// Members that a chain can have.
const MEMBERS: std::ops::RangeInclusive<usize> = 1..=7;
/// Shorter leases are lost on a busy machine, longer ones help nobody.
const LEASE_MIN: Duration = Duration::from_millis(500);
const LEASE_MAX: Duration = Duration::from_secs(60);

impl Place {
    fn settings(&self) -> Result<ZooKeeperSettings> {
        let credentials = self.zookeeper_credentials.as_deref();
        zookeeper(&self.zookeeper, &self.zookeeper_path, credentials)
    }
}

/// Makes a cluster.
pub(crate) fn init(options: &InitOptions) -> Result<ExitCode> {
    let mut names = options.members.clone();
    names.sort();
    names.dedup();
    if names.len() != options.members.len() || !MEMBERS.contains(&names.len()) {
        bail!("a cluster has 1 to 7 members, each with a name of its own");
    }
    if !(LEASE_MIN..=LEASE_MAX).contains(&options.lease) {
        bail!("the lease is {LEASE_MIN:?} to {LEASE_MAX:?}");
    }
    let place = options.place.settings()?;
    let (key, is_new) = match options.cluster_key.exists() {
        true => (ClusterKey::load(&options.cluster_key)?, false),
        false => (ClusterKey::create(&options.cluster_key)?, true),
    };
    let wiring = Wiring::from(options.wiring);
    let cluster = new_cluster(&key, options.members.clone(), wiring, options.lease)?;
    ZooKeeperCoordinator::create(&place, &cluster)?;
    let path = options.cluster_key.display();
    let key = match is_new {
        true => format!("its key is in {path}: copy it to every member"),
        false => format!("its key is that in {path}"),
    };
    output::print(&format!("the cluster is made at {}; {key}\n", place.root))?;
    Ok(ExitCode::SUCCESS)
}

/// Says how a cluster stands.
pub(crate) fn status(options: &StatusOptions) -> Result<ExitCode> {
    let place = options.place.settings()?;
    let standing = ZooKeeperCoordinator::look(&place).context("asking ZooKeeper")?;
    output::print(&table(&standing))?;
    Ok(ExitCode::SUCCESS)
}

fn table(standing: &Standing) -> String {
    let cluster = &standing.cluster;
    let (epoch, newest) = match &standing.configuration {
        Some(newest) => (newest.epoch, Some(newest)),
        None => (0, None),
    };
    let mut text = format!("epoch {epoch}, lease {:?}\n", cluster.session);
    for name in &cluster.members {
        let lives = standing.present.iter().filter(|life| life.name == *name);
        let lives: Vec<_> = lives.collect();
        let seated = lives.iter().find_map(|life| {
            let seat = newest?.seat(life.identity.node)?;
            (seat.incarnation == life.identity.incarnation).then_some(seat)
        });
        let role = match (seated, newest) {
            (Some(seat), Some(newest)) if newest.head() == seat.node => "head",
            (Some(seat), _) if seat.role == fader_chain::Role::Serving => "serving",
            (Some(_), _) => "joining",
            (None, _) => "out",
        };
        let address = lives.last().map_or("-", |life| life.address.as_str());
        text += &format!("{name:<12} {role:<8} {address}\n");
    }
    text
}

impl From<WiringName> for Wiring {
    fn from(name: WiringName) -> Self {
        match name {
            WiringName::Star => Wiring::Star,
            WiringName::Chain => Wiring::Chain,
        }
    }
}
