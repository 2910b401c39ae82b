//! Where in a cluster's part of ZooKeeper things are.

use fader_chain::{ChainId, DiskId};

/// The znode of a chain's configuration.
pub(super) fn chain_path(root: &str, chain: ChainId) -> String {
    format!("{root}/chains/{}", chain.0)
}

/// The znode of a disk's record.
pub(super) fn disk_path(root: &str, disk: DiskId) -> String {
    format!("{root}/disks/{:032x}", disk.0)
}

/// The znode of the nodes and places.
pub(super) fn layout_path(root: &str) -> String {
    format!("{root}/layout")
}
