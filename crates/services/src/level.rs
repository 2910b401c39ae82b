//! What a request asks of consistency and what a reply tells of it, with the text of both.
//!
//! Gateway and client share this grammar, so that what one writes the other reads. Text after text
//! shows are as `docs/internals/protocol` names them:
//!
//! ```text
//! consistency := level *( ";" parameter )
//! level       := "default" | "strong" | "barrier" | "eventual"
//! parameter   := "r=" N | "w=" N | "sloppy" | "bound=" ( N "ms" | N "v" )    with eventual only
//!              | "outcome"
//! name        := client "/" seq [ "/" part ]        client: 1 to 32 hexadecimal digits
//! version     := epoch "." index
//! stamp       := version [ "+" clock "." node "." counter ]
//! outcome     := "applied" | "superseded" [ ";" cause ] | "detached"
//! cause       := "cause=limit; code=" code | "cause=gone"
//! outcomes    := outcome *( "," part "=" outcome )
//! notice      := name " " outcome
//! ```
//!
//! Blanks around `;` and `,` are free. What a quorum may be is not judged here: N is the chain's.
//!
//! Deliberately absent: what the session token holds (the chain's), and how its bytes are written.

mod parse;
mod show;

pub use parse::{Malformed, parse_name, parse_stamp, parse_version};
pub use show::{show_name, show_stamp};

use bytes::Bytes;
use fader_chain::{EntryId, RequestId, Stamp};

use crate::CollectionId;
use crate::simpledb::Code;
pub use crate::simpledb::settled_outcome;

/// The headers of requests and replies. As a parameter of the query or form, a header is called by
/// the same name in camel case: `Fader-Consistency`. It serves where only parameters can be added.
pub mod header {
    /// Request: [`ConsistencyOptions`](super::ConsistencyOptions)'s level, bound and outcome.
    pub const CONSISTENCY: &str = "x-fader-consistency";
    /// Request that creates a collection: its [`Mode`](crate::Mode).
    pub const COLLECTION_MODE: &str = "x-fader-collection-mode";
    /// Request that creates a collection: its [`DefaultConsistency`](super::DefaultConsistency).
    pub const COLLECTION_CONSISTENCY: &str = "x-fader-collection-consistency";
    /// Request and reply: the session's token.
    pub const SESSION: &str = "x-fader-session";
    /// Request: its name, without a part.
    pub const REQUEST: &str = "x-fader-request";
    /// Reply: the stamp of what was read or written.
    pub const STAMP: &str = "x-fader-stamp";
    /// Reply: the version of what was read or written.
    pub const VERSION: &str = "x-fader-version";
    /// Reply: `true` where an unsettled operation decided what is shown.
    pub const TENTATIVE: &str = "x-fader-tentative";
    /// Reply to a write: its [`Outcomes`](super::Outcomes).
    pub const OUTCOME: &str = "x-fader-outcome";
    /// Reply: a [`SettlementNotice`](super::SettlementNotice).
    pub const SETTLED: &str = "x-fader-settled";
}

/// The level of one operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Level {
    /// What the request's own parameters, the defaults and the collection's mode say.
    #[default]
    Default,
    /// Linearizable.
    Strong,
    /// Strong, and takes note of every eventual write acknowledged before (G8).
    Barrier,
    /// At any member.
    Eventual {
        /// How many members a read asks; at least 1.
        r: u8,
        /// How many members hold a write before it is acknowledged; at least 1.
        w: u8,
        /// Whether a write is taken by a member without a lease (G7).
        sloppy: bool,
    },
}

impl Level {
    /// Eventual with one reader and one holder.
    pub const EVENTUAL: Level = Level::Eventual {
        r: 1,
        w: 1,
        sloppy: false,
    };
}

/// How stale a read may be: what was acknowledged before it began and is not shown (D11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// At most so long ago.
    Millis(u64),
    /// At most so many.
    Versions(u64),
}

/// What a request asks, apart from its action.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConsistencyOptions {
    /// The level.
    pub level: Level,
    /// How stale a read may be; only with [`Level::Eventual`].
    pub bound: Option<Bound>,
    /// The token that the session's last reply carried.
    pub session: Option<Bytes>,
    /// The request's name; part 0.
    pub request: Option<RequestId>,
    /// Of a named request: a digest of what it says and of who says it (XO-6).
    pub digest: u128,
    /// Whether the reply to a write waits for its settlement and tells the outcome.
    pub outcome: bool,
    /// What the caller's access key prefers, where the request names no level.
    pub preference: Option<DefaultConsistency>,
    /// Which collection the domain of the request is, where the catalog was asked before: on its
    /// chain another of that name is none.
    pub collection: Option<CollectionId>,
}

/// Level and bound of the requests that name none: of an access key's or a collection's. It is
/// passed over where a request or its collection does not permit it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DefaultConsistency {
    /// The level; never [`Level::Default`].
    pub level: Level,
    /// How stale a read may be; only with [`Level::Eventual`].
    pub bound: Option<Bound>,
}

/// What a reply tells, apart from the action's own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplyMetadata {
    /// Of a write its stamp, of a read the greatest that it shows.
    pub stamp: Option<Stamp>,
    /// The version that was written, or of the committed part of what is shown.
    pub version: Option<EntryId>,
    /// Whether an unsettled operation decided what is shown, or is what was written.
    pub tentative: bool,
    /// How a write ended, where the client asked.
    pub outcome: Option<Outcomes>,
    /// The session's next token.
    pub session: Option<Bytes>,
    /// What became of this session's earlier writes that were not applied; told once.
    pub settled: Vec<SettlementNotice>,
}

/// How an eventual operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// At least one element of it entered the chain.
    Applied,
    /// No element did: of all, because greater stamps were there, unless there is a cause.
    Superseded(Option<Cause>),
    /// It was accepted by a member without a lease.
    Detached,
}

/// Why an operation was refused as a whole at its promotion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A limit forbade it (D4); the code is what a strong write would have been refused with.
    Limit(Code),
    /// Its collection is deleted, or closed for eventual writes.
    Gone,
}

/// The outcomes of a request: one, or in a batch one for each item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcomes {
    /// Of every part that is not listed.
    pub common: Outcome,
    /// Of the parts that ended otherwise, ascending. A batch's items are its parts, from 0.
    pub parts: Vec<(u32, Outcome)>,
}

impl Outcomes {
    /// The outcome of a request of one part.
    pub fn single(outcome: Outcome) -> Self {
        Outcomes {
            common: outcome,
            parts: Vec::new(),
        }
    }

    /// The outcomes of a batch, item by item: `applied` is what is not said part by part.
    pub fn batch(outcomes: impl IntoIterator<Item = Outcome>) -> Self {
        let parts = (0..).zip(outcomes);
        Outcomes {
            common: Outcome::Applied,
            parts: parts
                .filter(|(_, outcome)| *outcome != Outcome::Applied)
                .collect(),
        }
    }

    /// How the part with this number ended.
    pub fn of(&self, part: u32) -> Outcome {
        let found = self.parts.iter().find(|(number, _)| *number == part);
        found.map_or(self.common, |(_, outcome)| *outcome)
    }
}

/// What became of a write whose session would otherwise look for it in vain (SDB section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SettlementNotice {
    /// The write's name.
    pub name: RequestId,
    /// How it ended.
    pub outcome: Outcome,
}

#[cfg(test)]
mod tests;
