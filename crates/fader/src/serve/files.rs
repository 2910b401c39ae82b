//! File descriptors: as many as the system allows, of which some are kept for the store, and the
//! others are for connections. So the store never lacks one, however many clients there are.

use anyhow::Result;
use fader_gateway::Gateway;
use fader_services::ErrorCode;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::{info, warn};

use crate::failure;

/// Kept for the log, the engine (256 tables at once) and the process itself.
const KEPT_ALONE: u64 = 400;
/// The most that is kept for the members of several chains, and for connections between nodes.
const KEPT_MAX: u64 = 8192;
/// Fewer connections have no use.
const CONNECTIONS_MIN: u64 = 16;
/// More are not asked for, where the system sets no limit.
const ASKED_MAX: u64 = 1 << 20;

/// What the system allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Allowed {
    before: u64,
    now: u64,
}

/// How the descriptors of a process are shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Share {
    kept: u64,
    connections: u64,
}

/// Has the system allow as many as it may.
pub(super) fn raise() -> Allowed {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let before = current.unwrap_or(u64::MAX);
    let most = maximum.unwrap_or(ASKED_MAX).min(ASKED_MAX);
    let wish = Rlimit {
        current: Some(most),
        maximum,
    };
    let is_raised = before < most && setrlimit(Resource::Nofile, wish).is_ok();
    Allowed {
        before,
        now: if is_raised { most } else { before },
    }
}

/// The connections that a server may have, of those it is to have. Says in one line what is kept.
///
/// # Errors
/// When too few descriptors are allowed to serve anyone.
pub(super) fn connections(allowed: Allowed, wanted: usize, is_alone: bool) -> Result<usize> {
    let Allowed { before, now } = allowed;
    let Share { kept, connections } = share(now, wanted as u64, is_alone);
    if connections < CONNECTIONS_MIN.min(wanted as u64) {
        return failure::fail(
            ErrorCode::ConfigurationInvalid,
            format_args!(
                "the system allows {now} open files, and the store keeps {kept} of them: too few \
                 are left for connections. Allow more, such as with `ulimit -n 4096`"
            ),
        );
    }
    let text = format!(
        "open files: {now} allowed ({before} before), {kept} kept for the store, at most \
         {connections} connections"
    );
    match connections < wanted as u64 {
        true => warn!("{text} of the {wanted} of connections-max: `ulimit -n` allows more"),
        false => info!("{text}"),
    }
    Ok(usize::try_from(connections).unwrap_or(wanted))
}

fn share(allowed: u64, wanted: u64, is_alone: bool) -> Share {
    let kept = match is_alone {
        true => KEPT_ALONE,
        false => (allowed / 2).clamp(KEPT_ALONE, KEPT_MAX),
    };
    let left = allowed.saturating_sub(kept + Gateway::FILES_MORE as u64);
    Share {
        kept,
        connections: wanted.min(left),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_store_has_its_files_first() {
        let of = |allowed, wanted, is_alone| {
            let Share { kept, connections } = share(allowed, wanted, is_alone);
            assert!(allowed < kept || kept + connections <= allowed);
            (kept, connections)
        };
        let more = Gateway::FILES_MORE as u64;
        assert_eq!(of(1024, 4096, true), (400, 624 - more));
        assert_eq!(of(1 << 20, 4096, true), (400, 4096));
        assert_eq!(of(1024, 4096, false), (512, 512 - more));
        assert_eq!(of(1 << 20, 4096, false), (8192, 4096));
        assert_eq!(of(300, 4096, true), (400, 0));
    }

    #[test]
    fn too_few_files_are_no_start() {
        let allowed = |now| Allowed { before: now, now };
        assert!(connections(allowed(300), 4096, true).is_err());
        assert_eq!(connections(allowed(1 << 20), 1, true).ok(), Some(1));
    }
}
