//! How large a cluster of a version can be.

use super::PlacementError;
use crate::version::Version;

/// Nodes that a cluster can have.
pub const NODES_MAX: usize = 100;
/// Chains that a cluster can have beside the system chain.
pub const CHAINS_MAX: u32 = 1_000;
/// Nodes of the system chain.
pub const SYSTEM_NODES_MAX: usize = 5;
/// Nodes and chains of a cluster of a version before the sixth, whose system chain is on all nodes.
pub(super) const OLD_NODES_MAX: usize = 7;
const OLD_CHAINS_MAX: u32 = 256;

/// How large a cluster of a version can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterLimits {
    /// The version.
    pub version: Version,
    /// Nodes.
    pub nodes: usize,
    /// Chains beside the system chain.
    pub chains: u32,
    /// Nodes of the system chain.
    pub system_nodes: usize,
}

impl ClusterLimits {
    /// Those of a version.
    pub const fn of(version: Version) -> Self {
        let is_old = version.0 < Version::SIXTH.0;
        let (nodes, chains, system_nodes) = match is_old {
            true => (OLD_NODES_MAX, OLD_CHAINS_MAX, OLD_NODES_MAX),
            false => (NODES_MAX, CHAINS_MAX, SYSTEM_NODES_MAX),
        };
        ClusterLimits {
            version,
            nodes,
            chains,
            system_nodes,
        }
    }

    /// Whether a cluster can begin with so many nodes and chains.
    ///
    /// # Errors
    /// [`PlacementError::TooMany`].
    pub fn check(&self, nodes: usize, chains: u32) -> Result<(), PlacementError> {
        match nodes <= self.nodes && chains <= self.chains {
            true => Ok(()),
            false => Err(PlacementError::TooMany(*self)),
        }
    }
}
