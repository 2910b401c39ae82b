//! The largest records of the largest cluster fit their znodes.

use std::collections::BTreeMap;

use fader_chain::placement::layout::{CHAINS_MAX, ChainPlacement, Layout, NODES_MAX};
use fader_chain::placement::{PlacementNode, PlacementPolicy};
use fader_chain::{
    AbsentMember, ChainId, ChainMember, Configuration, DiskId, EntryId, Incarnation, NodeId,
    Report, Role, UncleanRecovery, Version, Wiring,
};
use proptest::prelude::*;

use super::*;

/// Members of a chain that an operator can ask for.
const COPIES_MAX: usize = 7;

/// The greatest number and the longest name there can be.
fn number(at: usize) -> u32 {
    u32::MAX - at as u32
}

fn name(at: usize) -> String {
    format!("{at:0>width$}", width = NAME_MAX)
}

fn identity(at: usize) -> Identity {
    Identity {
        node: NodeId(number(at)),
        disk: DiskId(u128::MAX - at as u128),
        incarnation: Incarnation(u128::MAX - at as u128),
    }
}

fn id() -> EntryId {
    EntryId::new(u64::MAX, u64::MAX)
}

/// One report of each kind, as large as it can be.
fn reports() -> Vec<Report> {
    let (epoch, node) = (u64::MAX, NodeId(u32::MAX));
    vec![
        Report::Adopted { epoch },
        Report::SyncDone { epoch, last: id() },
        Report::Differs {
            epoch,
            id: id(),
            node,
        },
        Report::Floor {
            epoch,
            applied: id(),
            gap: true,
        },
        Report::Slow { epoch, node },
        Report::Heard { epoch, node },
        Report::HandoffDone { epoch },
        Report::Ahead {
            epoch,
            entries: u64::MAX,
        },
    ]
}

fn check<T: Content + PartialEq + std::fmt::Debug>(record: &T) {
    let bytes = record.encode();
    assert!(bytes.len() <= ZNODE_MAX, "{}: {}", T::WHAT, bytes.len());
    assert_eq!(T::decode(&bytes).as_ref(), Ok(record), "{}", T::WHAT);
}

fn cluster() -> ClusterRecord {
    ClusterRecord {
        version: Version::NEWEST,
        id: u128::MAX,
        session: Duration::from_millis(SESSION_MS_MAX),
        wiring: Wiring::Star,
        key_check: [7; 16],
        members: (0..NODES_MAX).map(name).collect(),
        zones: (0..NODES_MAX).map(name).collect(),
        chains: CHAINS_MAX,
        policy: PlacementPolicy {
            replication_factor: COPIES_MAX,
            head_zone: Some(name(0)),
            tail_zone: Some(name(1)),
        },
    }
}

/// A node is there that replaces another one, and each chain has one member more on the way.
fn layout() -> Layout {
    let sites = (0..=NODES_MAX).map(|at| PlacementNode {
        name: name(at),
        zone: name(at),
        is_leaving: true,
        is_resting: false,
        successor: Some(name(at + 1)),
    });
    let chains = (0..=CHAINS_MAX).map(|chain| {
        let placement = ChainPlacement {
            nodes: (0..=COPIES_MAX).map(name).collect(),
            is_pinned: true,
        };
        (ChainId(chain), placement)
    });
    Layout {
        sites: sites.collect(),
        chains: chains.collect::<BTreeMap<_, _>>(),
    }
}

#[test]
fn the_records_of_the_largest_cluster_fit_their_znodes() {
    check(&cluster());
    check(&layout());
    check(&DiskRecord {
        node: NodeId(u32::MAX),
        progress: Progress {
            epoch: u64::MAX,
            last: id(),
        },
        name: name(0),
        chain: Some(ChainId(CHAINS_MAX)),
    });
    check(&NextNode(u32::MAX));
    // A node with a member of each chain, each of which reports all it can.
    let members = (0..=CHAINS_MAX).map(|chain| IncarnationRecord {
        chain: ChainId(chain),
        identity: identity(chain as usize),
        reports: reports(),
    });
    check(&SessionRecord {
        identity: identity(0),
        name: name(0),
        address: "a".repeat(ADDRESS_MAX),
        incarnations: members.collect(),
    });
}

proptest! {
    /// A chain whose members came and went: each node of the cluster may hold a disk that it waits
    /// for.
    #[test]
    fn a_configuration_fits_its_znode(
        members in 1..=COPIES_MAX + 2,
        absent in 0..=2 * NODES_MAX,
        epoch: u64,
    ) {
        let member = |at: usize| ChainMember {
            node: NodeId(number(at)),
            incarnation: Incarnation(u128::MAX),
            disk: DiskId(u128::MAX - at as u128),
            role: Role::Serving,
        };
        let gone = |at: usize| AbsentMember {
            node: NodeId(number(at)),
            incarnation: Incarnation(u128::MAX),
            disk: DiskId(u128::MAX - at as u128),
            left: epoch,
            must_fill: true,
        };
        let members: Vec<ChainMember> = (0..members).map(member).collect();
        check(&Configuration {
            epoch,
            wiring: Wiring::Chain,
            last_serving: members.iter().map(|it| (it.node, it.disk)).collect(),
            members,
            safe_point: EntryId::new(epoch, epoch),
            absent: (100..100 + absent).map(gone).collect(),
            lossy: UncleanRecovery { count: 9, epoch },
            version: Version::NEWEST,
        });
    }

    /// Layouts of any size come back as they were.
    #[test]
    fn a_layout_fits_its_znode(
        nodes in 1..=NODES_MAX,
        chains in 0..=CHAINS_MAX,
        copies in 1..=COPIES_MAX,
    ) {
        let record = ClusterRecord {
            members: (0..nodes).map(name).collect(),
            zones: (0..nodes).map(|at| name(at % 3)).collect(),
            chains: chains.min(64),
            policy: PlacementPolicy {
                replication_factor: copies,
                head_zone: None,
                tail_zone: None,
            },
            ..cluster()
        };
        check(&record);
        check(&record.founded());
    }
}
