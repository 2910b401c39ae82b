//! The only place of the store that touches disks: drives `chain` and `services`.
//!
//! A write goes: command -> chain thread -> `services` decides on the newest view -> the chain
//! numbers the entry -> log (group commit) -> applied -> reply. A read is answered on the caller's
//! thread from a snapshot of what is applied.

mod chain_thread;
pub mod disk;
pub mod engine;
mod keys;
mod lock;
mod log;
mod node;
mod pending;
mod recovery;
mod seal;
mod settings;
mod status;
mod sweep;

pub use node::Node;
pub use seal::{OpenKey, Secret};
pub use settings::{Durability, Settings};
pub use status::{Counters, Health, OpenError, Recovery};
