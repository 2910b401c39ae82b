//! Opens this process's members of a cluster.

use anyhow::Result;
use fader_node::peer::ClusterKey;
use fader_node::{ChainId, Node, OpenError, ProcessSettings, Settings};
use tokio::runtime::Handle;
use tracing::info;

use crate::config::membership::Member;
use crate::dev;

/// What opens the members, given the numbers of its store.
///
/// # Errors
/// When its key cannot be read.
pub(super) fn opener(
    member: Member,
) -> Result<impl FnOnce(Settings) -> Result<Node, OpenError> + Send + 'static> {
    let key = ClusterKey::load(&member.key)?;
    let runtime = Handle::current();
    Ok(move |settings| {
        let settings = ProcessSettings {
            name: member.name,
            peer_listen: member.peer_listen,
            key,
            zookeeper: member.zookeeper,
            speaks: member.cluster_version_max,
            member: Settings {
                fill_bytes_per_second: member.transfer_rate,
                ..settings
            },
        };
        Node::join(settings, runtime, |chain, event| match chain {
            ChainId::SYSTEM => info!("{}", dev::in_words(&event)),
            chain => info!("{chain}: {}", dev::in_words(&event)),
        })
    })
}
