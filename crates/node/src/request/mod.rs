//! The way of a request to the member that carries it out: by the name of its domain to its chain,
//! and there to the member that can, here or in another process.

pub(crate) mod alone;
mod deliver;
pub(crate) mod forward;
mod modes;
mod names;
pub(crate) mod refusals;
pub(crate) mod route;
pub(crate) mod tokens;
