//! Good and bad histories of each check. The bad ones are the runs of docs/internals/protocol that
//! broke earlier rules (TRACE-1 to TRACE-14), and the counter-examples of its decisions.

mod eventual;
mod sessions;
pub(super) mod story;
mod strong;

use super::*;
