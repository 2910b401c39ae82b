//! The scopes of reads: the checked note's list.

use fader_chain::Guard;

/// A rule of those who collect and read, which a search can do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum ReadRule {
    /// GWAIT-1: garbage waits by a monotonic clock.
    Monotonic,
    /// GWAIT-1: a new head begins the wait anew.
    BeginAnew,
    /// GWAIT-1: the wait begins when the safe point has passed what made the garbage.
    FromSafePoint,
    /// MB-2: bytes are reclaimed when the safe point has passed the removal of their row.
    SafePoint,
    /// MB-2: and when no fixed snapshot is older.
    Snapshot,
    /// A read whose block is gone looks at the index again at the strong level.
    LookStrong,
}

impl ReadRule {
    /// All rules.
    pub const ALL: [ReadRule; 6] = [
        ReadRule::Monotonic,
        ReadRule::BeginAnew,
        ReadRule::FromSafePoint,
        ReadRule::SafePoint,
        ReadRule::Snapshot,
        ReadRule::LookStrong,
    ];

    /// Whether reads need it. The safe point is for members that join ([`ByteRule::Floor`]). The
    /// strong level is for a version that a member shows for longer than the wait, which
    /// [`ReadRule::FromSafePoint`] leaves none of.
    ///
    /// [`ByteRule::Floor`]: super::super::bytes::ByteRule::Floor
    pub fn is_needed(self) -> bool {
        !matches!(self, ReadRule::SafePoint | ReadRule::LookStrong)
    }
}

/// What happens in a scope.
#[derive(Clone, Debug)]
pub struct ReadScope {
    /// Its name.
    pub name: &'static str,
    /// Whether the read may be eventual, at a member that is behind.
    pub is_eventual: bool,
    /// Whether a member joins, with a copy of a fixed snapshot.
    pub joins: bool,
    /// Changes of the head.
    pub heads: u8,
    /// How far a clock on the wall is put ahead at most, where it is looked at.
    pub ahead: u64,
    /// How many moments pass.
    pub moments: u64,
    /// Whether every merge searches it.
    pub is_quick: bool,
    /// The rules that it tells the absence of.
    pub tells: &'static [ReadRule],
    /// The guards that it tells the absence of.
    pub tells_guards: &'static [Guard],
}

const PLAIN: ReadScope = ReadScope {
    name: "",
    is_eventual: false,
    joins: false,
    heads: 0,
    ahead: 0,
    moments: 9,
    is_quick: true,
    tells: &[],
    tells_guards: &[],
};

/// All scopes.
pub(in crate::model) fn scopes() -> Vec<ReadScope> {
    vec![
        ReadScope {
            name: "reads-quiet",
            tells_guards: &[Guard::S3FenceGarbage],
            ..PLAIN
        },
        ReadScope {
            name: "reads-join",
            joins: true,
            tells: &[ReadRule::Snapshot],
            ..PLAIN
        },
        ReadScope {
            name: "reads-strong",
            heads: 1,
            ahead: 6,
            tells: &[ReadRule::Monotonic, ReadRule::BeginAnew],
            ..PLAIN
        },
        ReadScope {
            name: "reads-eventual",
            is_eventual: true,
            heads: 1,
            tells: &[ReadRule::FromSafePoint],
            ..PLAIN
        },
        ReadScope {
            name: "reads-large",
            is_eventual: true,
            joins: true,
            heads: 2,
            ahead: 6,
            moments: 12,
            is_quick: false,
            ..PLAIN
        },
    ]
}
