//! Secrets: sealed at rest, and open in memory as long as they are used.

pub(crate) mod cluster;
pub(crate) mod keys;
pub(crate) mod seal;
