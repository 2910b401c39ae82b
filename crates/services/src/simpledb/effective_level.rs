//! Which level a request runs at, by what it asks and what its collection's mode allows
//! (docs/internals/protocol: semantics.md, section 2; SDB section 2).
//!
//! A refusal here rests on nothing but the request and the mode: it is made before anything is
//! done, and is no entry.

use crate::Mode;
use crate::level::{Bound, ConsistencyOptions, DefaultConsistency, Level};
use crate::service::{self, Service};
use crate::simpledb::{Code, Error, Request, SimpleDb};

/// The level that `request` runs at, never [`Level::Default`], and its bound.
///
/// The request may say nothing of a level, neither by its options nor by a parameter of its own.
/// Then the preference of its access key counts, then that of its collection, then what the mode
/// says. A preference that does not go with the request or the mode is passed over.
///
/// `mode` is that of the request's collection; `None` where this member knows none. Then the member
/// that carries the request out refuses it as `NoSuchDomain` (SDB-7.4).
///
/// # Errors
/// `InvalidParameterCombination` when level, mode and request do not go together.
pub fn effective_level(
    mode: Option<Mode>,
    of_collection: Option<DefaultConsistency>,
    consistency: &ConsistencyOptions,
    request: &Request,
) -> Result<(Level, Option<Bound>), Error> {
    let kind = Kind::of(request);
    if consistency.level != Level::Default {
        if consistency.bound.is_some() && kind.is_write() {
            return refuse("A write cannot have a bound: it is not a read.");
        }
        return Ok((at_level(mode, kind, consistency.level)?, consistency.bound));
    }
    if !kind.says_strong() {
        for DefaultConsistency { level, bound } in
            consistency.preference.into_iter().chain(of_collection)
        {
            if let Ok(level) = at_level(mode, kind, level) {
                return Ok((level, bound.filter(|_| !kind.is_write())));
            }
        }
    }
    Ok((by_default(mode, kind)?, None))
}

fn at_level(mode: Option<Mode>, kind: Kind, level: Level) -> Result<Level, Error> {
    match level {
        Level::Default => by_default(mode, kind),
        Level::Strong => strong(mode, kind),
        Level::Barrier => barrier(mode, kind),
        Level::Eventual { r, .. } => eventual(mode, kind, r).map(|()| level),
    }
}

/// Whether a chain of `size` members has the quorums that `level` asks.
///
/// # Errors
/// `InvalidParameterValue`: a quorum is never lowered to what there is.
pub fn permits_quorum(level: Level, size: usize) -> Result<(), Error> {
    service::permits_quorum(level, size).map_err(SimpleDb::word)
}

/// The refusal of a quorum that a chain of `size` members never has.
pub(crate) fn no_such_quorum(name: &str, members: u8, size: usize) -> Error {
    Error::new(
        Code::InvalidParameterValue,
        format!(
            "Value ({members}) for parameter {name} is invalid. {name} must be between 1 and \
             {size}."
        ),
    )
}

/// What kind of request it is, as far as levels go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// CreateDomain and DeleteDomain.
    Domain,
    /// A write of items without a condition.
    Write,
    /// A write of an item with a condition.
    Conditional,
    /// GetAttributes.
    Item { consistent: bool },
    /// A read of many items, or of what a member counts and lists.
    Query { consistent: bool },
}

impl Kind {
    fn of(request: &Request) -> Kind {
        match request {
            Request::CreateDomain { .. } | Request::DeleteDomain { .. } => Kind::Domain,
            Request::PutAttributes { expected, .. }
            | Request::DeleteAttributes { expected, .. } => {
                if expected.is_empty() {
                    Kind::Write
                } else {
                    Kind::Conditional
                }
            }
            Request::BatchPutAttributes { .. } | Request::BatchDeleteAttributes { .. } => {
                Kind::Write
            }
            Request::GetAttributes { consistent, .. } => Kind::Item {
                consistent: *consistent,
            },
            Request::Select { consistent, .. } => Kind::Query {
                consistent: *consistent,
            },
            Request::ListDomains { .. }
            | Request::DomainMetadata { .. }
            | Request::ExplainSelect { .. }
            | Request::Query { .. } => Kind::Query { consistent: false },
        }
    }

    fn is_write(self) -> bool {
        matches!(self, Kind::Domain | Kind::Write | Kind::Conditional)
    }

    /// Whether the request's own parameters ask for a strong level.
    fn says_strong(self) -> bool {
        match self {
            Kind::Domain | Kind::Conditional => true,
            Kind::Write => false,
            Kind::Item { consistent } | Kind::Query { consistent } => consistent,
        }
    }
}

fn by_default(mode: Option<Mode>, kind: Kind) -> Result<Level, Error> {
    let is_eventual = match kind {
        Kind::Domain | Kind::Conditional => false,
        Kind::Write => mode.is_some_and(|mode| !mode.takes_strong()),
        Kind::Item { consistent } | Kind::Query { consistent } => !consistent,
    };
    if is_eventual {
        return Ok(Level::EVENTUAL);
    }
    strong(mode, kind)
}

fn strong(mode: Option<Mode>, kind: Kind) -> Result<Level, Error> {
    let is_item_write = matches!(kind, Kind::Write | Kind::Conditional);
    if is_item_write && mode.is_some_and(|mode| !mode.takes_strong()) {
        return refuse("The domain takes eventual writes only.");
    }
    Ok(Level::Strong)
}

/// Of an unconditional write a barrier asks nothing that a strong one does not do: it is above all
/// that was acknowledged (G2).
fn barrier(mode: Option<Mode>, kind: Kind) -> Result<Level, Error> {
    match kind {
        Kind::Domain => refuse("Domains have no barrier: they are created and deleted strongly."),
        Kind::Query { .. } => refuse("A barrier is about single items: a query cannot have one."),
        Kind::Item { .. } => Ok(Level::Barrier),
        Kind::Write => strong(mode, kind),
        Kind::Conditional => strong(mode, kind).map(|_| Level::Barrier),
    }
}

fn eventual(mode: Option<Mode>, kind: Kind, r: u8) -> Result<(), Error> {
    match kind {
        Kind::Domain => refuse("Domains are created and deleted strongly only."),
        Kind::Conditional => refuse("A conditional write cannot be eventual."),
        Kind::Item { consistent: true } | Kind::Query { consistent: true } => {
            refuse("ConsistentRead=true and eventual consistency cannot be specified together.")
        }
        Kind::Write => mode.map_or(Ok(()), takes_eventual),
        Kind::Query { .. } if 1 < r => {
            refuse("Only GetAttributes can ask several members: r must be 1.")
        }
        Kind::Item { .. } | Kind::Query { .. } => Ok(()),
    }
}

/// Whether a collection of this mode takes eventual writes.
pub(crate) fn takes_eventual(mode: Mode) -> Result<(), Error> {
    if mode.takes_eventual() {
        return Ok(());
    }
    refuse(format!(
        "The domain takes no eventual writes: its mode is ({mode})."
    ))
}

fn refuse<T>(message: impl Into<String>) -> Result<T, Error> {
    Err(Error::new(Code::InvalidParameterCombination, message))
}

#[cfg(test)]
mod tests;
