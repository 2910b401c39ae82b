//! The settings of a member of a cluster: all that it needs, or none.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Error, Result, bail};
use fader_node::coordinator::ZooKeeperSettings;
use fader_node::{Secret, Version};

use super::{Choice, Setting, Values, is_world_readable};

/// Where a cluster is kept, unless another place is named.
pub(crate) const ROOT: &str = "/fader";
/// The port of a ZooKeeper server that is named without one.
const PORT: &str = "2181";
/// Bytes of a file of credentials.
const CREDENTIALS_MAX: u64 = 1024;

/// Which member of which cluster.
#[derive(Clone, Debug)]
pub(crate) struct Membership {
    pub(crate) node: Setting<Option<String>>,
    pub(crate) peer_listen: Setting<Option<SocketAddr>>,
    pub(crate) zookeeper: Setting<Option<String>>,
    pub(crate) zookeeper_path: Setting<String>,
    pub(crate) zookeeper_credentials: Setting<Option<PathBuf>>,
    pub(crate) cluster_key: Setting<Option<PathBuf>>,
    pub(crate) speaks: Setting<u32>,
}

/// The same, where it is said.
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) peer_listen: SocketAddr,
    pub(crate) zookeeper: ZooKeeperSettings,
    pub(crate) key: PathBuf,
    pub(crate) speaks: Version,
}

impl Membership {
    pub(super) fn choose(choice: &Choice<'_>, given: &Values, filed: &Values) -> Self {
        fn optional<T: Clone>(
            choice: &Choice<'_>,
            id: &str,
            given: Option<&T>,
            filed: Option<&T>,
        ) -> Setting<Option<T>> {
            choice.pick(id, given.cloned().map(Some), filed.cloned().map(Some), None)
        }
        Membership {
            node: optional(choice, "node", given.node.as_ref(), filed.node.as_ref()),
            peer_listen: optional(
                choice,
                "peer_listen",
                given.peer_listen.as_ref(),
                filed.peer_listen.as_ref(),
            ),
            zookeeper: optional(
                choice,
                "zookeeper",
                given.zookeeper.as_ref(),
                filed.zookeeper.as_ref(),
            ),
            zookeeper_path: choice.pick(
                "zookeeper_path",
                given.zookeeper_path.clone(),
                filed.zookeeper_path.clone(),
                ROOT.to_owned(),
            ),
            zookeeper_credentials: optional(
                choice,
                "zookeeper_credentials",
                given.zookeeper_credentials.as_ref(),
                filed.zookeeper_credentials.as_ref(),
            ),
            cluster_key: optional(
                choice,
                "cluster_key",
                given.cluster_key.as_ref(),
                filed.cluster_key.as_ref(),
            ),
            speaks: choice.pick("speaks", given.speaks, filed.speaks, Version::NEWEST.0),
        }
    }

    /// The member that this process is, if it is one.
    ///
    /// # Errors
    /// When only a part is said, or it cannot be.
    pub(crate) fn member(&self) -> Result<Option<Member>> {
        let said = (
            &self.node.value,
            &self.peer_listen.value,
            &self.zookeeper.value,
            &self.cluster_key.value,
        );
        let (Some(name), Some(listen), Some(hosts), Some(key)) = said else {
            return match said {
                (None, None, None, None) => Ok(None),
                _ => bail!(
                    "a member of a cluster needs node, peer-listen, zookeeper and cluster-key: set \
                     all, or none"
                ),
            };
        };
        if listen.ip().is_unspecified() {
            bail!(
                "peer-listen is the address that other members call: one of this machine's, not \
                 {listen}"
            );
        }
        Ok(Some(Member {
            name: name.clone(),
            peer_listen: *listen,
            zookeeper: zookeeper(
                hosts,
                &self.zookeeper_path.value,
                self.zookeeper_credentials.value.as_deref(),
            )?,
            key: key.clone(),
            speaks: spoken(&self.speaks.value.to_string()).map_err(Error::msg)?,
        }))
    }

    /// Every setting with its value.
    pub(super) fn rows(&self) -> [(&'static str, String, &super::Origin); 7] {
        fn text<T: ToString>(value: Option<&T>) -> String {
            value.map_or("-".to_owned(), T::to_string)
        }
        let path = |path: &Option<PathBuf>| text(path.as_ref().map(|path| path.display()).as_ref());
        [
            ("node", text(self.node.value.as_ref()), &self.node.origin),
            (
                "peer-listen",
                text(self.peer_listen.value.as_ref()),
                &self.peer_listen.origin,
            ),
            (
                "zookeeper",
                text(self.zookeeper.value.as_ref()),
                &self.zookeeper.origin,
            ),
            (
                "zookeeper-path",
                self.zookeeper_path.value.clone(),
                &self.zookeeper_path.origin,
            ),
            (
                "zookeeper-credentials",
                path(&self.zookeeper_credentials.value),
                &self.zookeeper_credentials.origin,
            ),
            (
                "cluster-key",
                path(&self.cluster_key.value),
                &self.cluster_key.origin,
            ),
            ("speaks", self.speaks.value.to_string(), &self.speaks.origin),
        ]
    }
}

/// Where a cluster is kept: `host:port,…`, a place, and a file of `user:password`.
///
/// # Errors
/// When the credentials are none, or others can read them.
pub(crate) fn zookeeper(
    hosts: &str,
    root: &str,
    credentials: Option<&Path>,
) -> Result<ZooKeeperSettings> {
    let hosts = hosts
        .split(',')
        .map(str::trim)
        .filter(|host| !host.is_empty());
    let with_port = |host: &str| match host.rsplit_once(':') {
        Some((_, port)) if port.parse::<u16>().is_ok() => host.to_owned(),
        _ => format!("{host}:{PORT}"),
    };
    let hosts: Vec<String> = hosts.map(with_port).collect();
    if hosts.is_empty() {
        bail!("zookeeper names no server: host:port, several with commas");
    }
    Ok(ZooKeeperSettings {
        hosts,
        root: root.to_owned(),
        credentials: credentials.map(read_credentials).transpose()?,
    })
}

/// A version that this binary speaks.
///
/// # Errors
/// Which those are.
pub(crate) fn spoken(text: &str) -> Result<Version, String> {
    let (min, max) = (Version::OLDEST, Version::NEWEST);
    let version = text.parse().map(Version).ok();
    version
        .filter(|version| (min..=max).contains(version))
        .ok_or_else(|| format!("this binary speaks versions {min} to {max}"))
}

fn read_credentials(path: &Path) -> Result<Secret> {
    let name = path.display();
    let context = || format!("cannot read the credentials in {name}");
    if CREDENTIALS_MAX < std::fs::metadata(path).with_context(context)?.len() {
        bail!("{name} is too long for credentials");
    }
    if is_world_readable(path) {
        bail!("every user of this machine can read the credentials in {name}: chmod 600");
    }
    let text = Secret::new(std::fs::read_to_string(path).with_context(context)?);
    let line = text.reveal().trim();
    match line.split_once(':') {
        Some((user, _)) if !user.is_empty() => Ok(Secret::new(line.to_owned())),
        _ => bail!("{name} holds no credentials: user:password"),
    }
}

#[cfg(test)]
mod tests;
