//! Models of the checked protocols on the decisions of this crate: every schedule of a small scope.
//! Each runs without one of its rules, too, and must find a violation. `cargo xtask model database`
//! runs them.

mod claims;
mod entries;
