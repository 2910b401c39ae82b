//! The settings of a member of a cluster: all that it needs, or none.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Error, Result, bail};
use fader_node::coordinator::{Tls, ZooKeeperSettings};
use fader_node::{Secret, Version};

use super::guarded::is_world_readable;
use super::{Choice, Setting, Values};

/// Where a cluster is kept, unless another place is named.
pub(crate) const ROOT: &str = "/fader";
/// The port of a ZooKeeper server that is named without one.
const PORT: &str = "2181";
/// MiB that are compared and taken in a second, and the most that can be said.
const TRANSFER_MB: u64 = 32;
const TRANSFER_MB_MAX: u64 = 16 << 10;
/// Bytes of a file of credentials.
const CREDENTIALS_MAX: u64 = 1024;

/// Which member of which cluster.
#[derive(Clone, Debug)]
pub(crate) struct Membership {
    pub(crate) node: Setting<Option<String>>,
    pub(crate) peer_listen: Setting<Option<SocketAddr>>,
    pub(crate) zookeeper: Setting<Option<String>>,
    pub(crate) zookeeper_path: Setting<String>,
    pub(crate) zookeeper_files: Files,
    pub(crate) cluster_key: Setting<Option<PathBuf>>,
    pub(crate) cluster_version_max: Setting<u32>,
    pub(crate) transfer_mb: Setting<u64>,
}

/// By which files ZooKeeper and this process know each other.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    credentials: Setting<Option<PathBuf>>,
    authorities: Setting<Option<PathBuf>>,
    certificate: Setting<Option<PathBuf>>,
    key: Setting<Option<PathBuf>>,
}

impl Files {
    fn choose(choice: &Choice<'_>, given: &Values, filed: &Values) -> Self {
        let pick = |id, of: fn(&Values) -> &Option<PathBuf>| {
            let said = |values| of(values).clone().map(Some);
            choice.pick(id, said(given), said(filed), None)
        };
        Files {
            credentials: pick("zookeeper_credentials", |it| &it.zookeeper_credentials),
            authorities: pick("zookeeper_tls", |it| &it.zookeeper_tls),
            certificate: pick("zookeeper_certificate", |it| &it.zookeeper_certificate),
            key: pick("zookeeper_key", |it| &it.zookeeper_key),
        }
    }

    fn proofs(&self) -> ZooKeeperTlsFiles<'_> {
        ZooKeeperTlsFiles {
            credentials: self.credentials.value.as_deref(),
            authorities: self.authorities.value.as_deref(),
            certificate: self.certificate.value.as_deref(),
            key: self.key.value.as_deref(),
        }
    }
}

/// The same, where it is said.
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) peer_listen: SocketAddr,
    pub(crate) zookeeper: ZooKeeperSettings,
    pub(crate) key: PathBuf,
    pub(crate) cluster_version_max: Version,
    /// Bytes in a second.
    pub(crate) transfer_rate: u64,
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
            zookeeper_files: Files::choose(choice, given, filed),
            cluster_key: optional(
                choice,
                "cluster_key",
                given.cluster_key.as_ref(),
                filed.cluster_key.as_ref(),
            ),
            cluster_version_max: choice.pick(
                "cluster_version_max",
                given.cluster_version_max,
                filed.cluster_version_max,
                Version::NEWEST.0,
            ),
            transfer_mb: choice.pick(
                "transfer_mb",
                given.transfer_mb,
                filed.transfer_mb,
                TRANSFER_MB,
            ),
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
        if !(1..=TRANSFER_MB_MAX).contains(&self.transfer_mb.value) {
            bail!("transfer-mb is 1 to {TRANSFER_MB_MAX}");
        }
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
                &self.zookeeper_files.proofs(),
            )?,
            key: key.clone(),
            transfer_rate: self.transfer_mb.value << 20,
            cluster_version_max: spoken(&self.cluster_version_max.value.to_string())
                .map_err(Error::msg)?,
        }))
    }

    /// Every setting with its value.
    pub(super) fn rows<'a>(&'a self) -> [(&'static str, String, &'a super::Origin); 11] {
        fn text<T: ToString>(value: Option<&T>) -> String {
            value.map_or(super::table::NONE.to_owned(), T::to_string)
        }
        let path = |path: &Option<PathBuf>| text(path.as_ref().map(|path| path.display()).as_ref());
        let file = |name, it: &'a Setting<Option<PathBuf>>| (name, path(&it.value), &it.origin);
        let files = &self.zookeeper_files;
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
            file("zookeeper-credentials", &files.credentials),
            file("zookeeper-tls", &files.authorities),
            file("zookeeper-certificate", &files.certificate),
            file("zookeeper-key", &files.key),
            file("cluster-key", &self.cluster_key),
            (
                "cluster-version-max",
                self.cluster_version_max.value.to_string(),
                &self.cluster_version_max.origin,
            ),
            (
                "transfer-mb",
                self.transfer_mb.value.to_string(),
                &self.transfer_mb.origin,
            ),
        ]
    }
}

/// Those files, as they are named.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ZooKeeperTlsFiles<'a> {
    /// `user:password`.
    pub(crate) credentials: Option<&'a Path>,
    /// Certificates of the servers' authorities; with them the way is TLS.
    pub(crate) authorities: Option<&'a Path>,
    /// What is shown to servers that ask for a certificate.
    pub(crate) certificate: Option<&'a Path>,
    /// The key of that.
    pub(crate) key: Option<&'a Path>,
}

/// Where a cluster is kept: `host:port,…`, a place, and how it is known.
///
/// # Errors
/// When the credentials are none, or others can read them; when certificates cannot be used.
pub(crate) fn zookeeper(
    hosts: &str,
    root: &str,
    proofs: &ZooKeeperTlsFiles<'_>,
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
        credentials: proofs.credentials.map(read_credentials).transpose()?,
        tls: tls(proofs)?,
    })
}

fn tls(proofs: &ZooKeeperTlsFiles<'_>) -> Result<Option<Tls>> {
    let read = |path: &Path| {
        std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
    };
    let own = match (proofs.certificate, proofs.key) {
        (Some(certificate), Some(path)) => {
            let name = path.display();
            if is_world_readable(path) {
                bail!("every user of this machine can read the key in {name}: chmod 600");
            }
            let key = std::fs::read_to_string(path);
            let key = key.with_context(|| format!("cannot read {name}"))?;
            Some((read(certificate)?, Secret::new(key)))
        }
        (None, None) => None,
        _ => bail!("zookeeper-certificate and zookeeper-key go together: set both or neither"),
    };
    let Some(authorities) = proofs.authorities else {
        return match own {
            None => Ok(None),
            Some(_) => bail!("zookeeper-certificate needs zookeeper-tls: else TLS is not spoken"),
        };
    };
    let own = own
        .as_ref()
        .map(|(chain, key)| (&chain[..], key.reveal().as_bytes()));
    let tls = Tls::new(&read(authorities)?, own);
    tls.map(Some).context("TLS to ZooKeeper cannot be set up")
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
        .ok_or_else(|| format!("this binary supports versions {min} to {max}"))
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
