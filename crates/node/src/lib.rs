//! The only place of the store that touches disks: drives `chain` and `services`.
//!
//! A write goes: command -> chain thread -> `services` decides on the newest view -> the chain
//! numbers the entry -> log (group commit) -> applied -> reply. A read is answered on the caller's
//! thread from a snapshot of what is applied.

mod clock;
mod cluster;
pub mod coordinator;
mod member;
mod node;
pub mod peer;
mod random;
mod request;
mod secrets;
mod settings;
mod status;
mod storage;

// The disk and the engine of tests are written as the tests outside see this crate.
#[cfg(test)]
extern crate self as fader_node;
#[cfg(test)]
#[path = "../tests/support/mod.rs"]
mod support;

pub use clock::Clock;
pub use cluster::{
    Cluster, ClusterError, ClusterSettings, Event, MemberStatus, Plan, ProcessSettings, WaitReport,
    new_cluster,
};
pub use coordinator::ClusterStatus;
pub use fader_chain::controller::is_of;
pub use fader_chain::placement::layout::{
    CHAINS_MAX, ClusterLimits, Layout, PlacementCommand, PlacementError, is_at_rest,
};
pub use fader_chain::placement::{PlacementNode, PlacementPolicy};
pub use fader_chain::{ChainId, Configuration, Progress, Role, Version, Wiring};
pub use fader_services::Call;
pub use node::Node;
pub use peer::PeerCounters;
pub use request::{Answer, BodyWriter, KnownKey, Stored, Unread};
pub use secrets::seal::{OpenKey, Secret};
pub use settings::{BlockOptions, Collections, DomainSource, EngineLayer, Settings};
pub use status::{BlockFigures, Counters, Health, HealthCause, MemberFailure, OpenError, Recovery};
pub use storage::care::Findings;
pub use storage::log::Durability;
pub use storage::{blocks, disk, engine};
