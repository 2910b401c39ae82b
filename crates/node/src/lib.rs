//! The only place of the store that touches disks: drives `chain` and `services`.
//!
//! A write goes: command -> chain thread -> `services` decides on the newest view -> the chain
//! numbers the entry -> log (group commit) -> applied -> reply. A read is answered on the caller's
//! thread from a snapshot of what is applied.

mod alone;
mod chain_thread;
mod chains;
mod clock;
mod closing;
mod cluster;
mod configuration;
pub mod coordinator;
mod desk;
pub mod disk;
pub mod engine;
mod eventual;
mod following;
mod gate;
mod keys;
mod lock;
mod log;
mod member;
mod modes;
mod node;
pub mod peer;
mod quorum;
mod reading;
mod recovery;
mod refusals;
mod routing;
mod seal;
mod sessions;
mod settings;
mod showing;
mod status;
mod sweep;
mod upkeep;
mod why;
mod words;
mod work;

pub use cluster::{
    Cluster, ClusterError, ClusterSettings, Event, MemberStatus, Plan, ProcessSettings, new_cluster,
};
pub use coordinator::Standing;
pub use fader_chain::controller::is_of;
pub use fader_chain::placement::Wish;
pub use fader_chain::placement::layout::{Layout, NotDone, Order, is_at_rest};
pub use fader_chain::{ChainId, Configuration, Progress, Role, Version, Wiring};
pub use node::Node;
pub use peer::PeerCounters;
pub use seal::{OpenKey, Secret};
pub use settings::{Durability, EngineLayer, Placing, Settings};
pub use status::{Counters, Health, OpenError, Recovery};
pub use why::Why;
