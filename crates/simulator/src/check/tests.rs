//! Good and bad histories of each check. The bad ones are the runs of docs/protocol that broke
//! earlier rules (E1 to E14), and the counter-examples of its decisions.

mod eventual;
mod sessions;
pub(super) mod story;
mod strong;

use super::*;
