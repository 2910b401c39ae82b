//! Processes of a cluster, begun by a test.

#[path = "../coordinator/server.rs"]
#[allow(dead_code, reason = "the suite of coordinators needs more of it")]
mod server;

use std::path::Path;
use std::time::Duration;

use fader_node::coordinator::{ZooKeeperCoordinator, ZooKeeperSettings};
use fader_node::peer::ClusterKey;
use fader_node::{
    ChainId, Event, Node, PlacementPolicy, Plan, ProcessSettings, Settings, Version, Wiring,
    new_cluster,
};
use tokio::runtime::Handle;

const KEY: &str = "key";

/// A new cluster whose chains of data have two members each. Its key is in `folder`.
pub(crate) fn found(
    folder: &Path,
    version: Version,
    names: &[&str],
    chains: u32,
    session: Duration,
) -> ZooKeeperSettings {
    let key = ClusterKey::create(&folder.join(KEY)).unwrap();
    let place = server::place(server::shared());
    let nodes = names.iter().map(|name| (name.to_string(), String::new()));
    let plan = Plan {
        version,
        nodes: nodes.collect(),
        chains,
        policy: PlacementPolicy {
            replication_factor: 2,
            head_zone: None,
            tail_zone: None,
        },
        wiring: Wiring::Star,
        session,
    };
    let cluster = new_cluster(&key, plan).unwrap();
    ZooKeeperCoordinator::create(&place, &cluster).unwrap();
    place
}

/// A process that joins it.
pub(crate) async fn join(
    place: &ZooKeeperSettings,
    folder: &Path,
    name: &str,
    speaks: Version,
    member: Settings,
    tell: impl Fn(ChainId, Event) + Send + Sync + 'static,
) -> Node {
    let settings = ProcessSettings {
        name: name.to_owned(),
        peer_listen: "127.0.0.1:0".parse().unwrap(),
        key: ClusterKey::load(&folder.join(KEY)).unwrap(),
        zookeeper: place.clone(),
        speaks,
        member: Settings {
            segment_bytes: 1 << 20,
            data: folder.join(name),
            ..member
        },
    };
    let runtime = Handle::current();
    let join = move || Node::join(settings, runtime, tell);
    tokio::task::spawn_blocking(join).await.unwrap().unwrap()
}
