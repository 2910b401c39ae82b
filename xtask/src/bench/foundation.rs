//! The binary of the last commit before a node could have company: what one node's cost is compared
//! with.

use crate::previous_build::PreviousBuild;

/// That commit.
pub(crate) const FOUNDATION: PreviousBuild<'_> = PreviousBuild {
    commit: "727760f3b2790f5706538480e60424be91fb0c56",
    folder: "target/foundation",
    is_release: true,
};
