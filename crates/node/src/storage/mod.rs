//! What a member keeps on its disk: the log, the engine that is the log applied, and how both come
//! back after a crash.

pub mod blocks;
pub(crate) mod cache;
pub(crate) mod care;
pub mod disk;
pub mod engine;
pub(crate) mod lock;
pub(crate) mod log;
pub(crate) mod recovery;
