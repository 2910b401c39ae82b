//! Several members of one chain in one process.

mod links;

pub(crate) use links::Links;
