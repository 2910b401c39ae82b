//! The level that a request runs at, and whether its chain has the quorums that it asks
//! (semantics.md, sections 1 and 2).

use fader_services::catalog::DomainEntry;
use fader_services::level::{Bound, Level};
use fader_services::request::{Refusal as Refused, ServiceName};
use fader_services::service::permits_quorum;
use fader_services::{Call, Reason};

use super::refusal::{Kind, Refusal};

/// How many members a chain has.
#[derive(Clone, Copy)]
pub(crate) struct Members {
    /// N: those of the write path.
    pub(crate) now: usize,
    /// Those and who is absent.
    pub(crate) whole: usize,
}

impl Members {
    /// A chain of one.
    pub(crate) const ONE: Members = Members { now: 1, whole: 1 };
}

/// What an eventual write asks of the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quorum {
    /// How many members hold it before it is acknowledged.
    pub(crate) w: usize,
    /// Whether a member without a lease may take it.
    pub(crate) sloppy: bool,
}

impl Quorum {
    /// What a write at this level asks; nothing of a strong one.
    pub(crate) fn of(level: Level) -> Option<Quorum> {
        match level {
            Level::Eventual { w, sloppy, .. } => Some(Quorum {
                w: usize::from(w),
                sloppy,
            }),
            _ => None,
        }
    }
}

/// Refuses a quorum permanently if the chain never has so many members, and for now if it has not.
fn check_quorum(level: Level, members: Members, service: ServiceName) -> Result<(), Refused> {
    permits_quorum(level, members.whole).map_err(|trouble| service.word(trouble))?;
    permits_quorum(level, members.now)
        .map_err(|_| Refusal::new(Kind::Again, Reason::TooFewMembers).of_service(service))
}

/// The level that a request runs at on a chain of so many members, and its bound; refuses what
/// cannot be had.
pub(crate) fn check_level(
    entry: Option<&DomainEntry>,
    call: &Call,
    members: Members,
) -> Result<(Level, Option<Bound>), Refused> {
    let mode = entry.map(|entry| entry.mode);
    let preference = entry.and_then(|entry| entry.preference);
    let (level, bound) = call.request.permits(mode, preference, &call.consistency)?;
    check_quorum(level, members, call.request.service())?;
    Ok((level, bound))
}
