//! The scopes of commits: the checked note's list.

use Attempted::{Part, Put};
use fader_chain::Guard;

/// What an attempt is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempted {
    /// A put of the key in this place.
    Put(usize),
    /// A part with this number of the upload.
    Part(u32),
}

impl Attempted {
    pub(super) fn part(self) -> Option<u32> {
        match self {
            Attempted::Put(_) => None,
            Attempted::Part(number) => Some(number),
        }
    }
}

/// What happens in a scope.
#[derive(Clone, Debug)]
pub struct CommitScope {
    /// Its name.
    pub name: &'static str,
    /// Puts and parts, each with a block of its own.
    pub attempts: &'static [Attempted],
    /// Puts of a block's row that are sent at most.
    pub sent: u8,
    /// Deletions of the first key.
    pub deletes: u8,
    /// Whether the bucket keeps versions, and one that is not current is deleted.
    pub has_versions: bool,
    /// Whether the bucket is deleted and made again.
    pub remakes: bool,
    /// Notes behind which fences end.
    pub notes: u8,
    /// Changes of the head that cut what is not committed. Without any, an entry is committed at
    /// once.
    pub heads: u8,
    /// Whether every merge searches it.
    pub is_quick: bool,
    /// The guards that it tells the absence of.
    pub tells: &'static [Guard],
}

impl CommitScope {
    /// Whether an upload in parts is open at first.
    pub(super) fn has_upload(&self) -> bool {
        self.attempts.iter().any(|it| it.part().is_some())
    }
}

/// Two puts of a key, and its deletion.
const PLAIN: CommitScope = CommitScope {
    name: "",
    attempts: &[Put(0), Put(0)],
    sent: 2,
    deletes: 1,
    has_versions: false,
    remakes: false,
    notes: 0,
    heads: 0,
    is_quick: false,
    tells: &[],
};

/// The same with a part that comes twice.
const PARTS: CommitScope = CommitScope {
    attempts: &[Part(1), Part(1)],
    sent: 1,
    deletes: 0,
    ..PLAIN
};

/// All scopes.
pub(in crate::model) fn scopes() -> Vec<CommitScope> {
    let quick = quick().into_iter().map(|scope| CommitScope {
        is_quick: true,
        ..scope
    });
    quick.chain(large()).collect()
}

fn quick() -> Vec<CommitScope> {
    vec![
        CommitScope {
            name: "commit-puts",
            tells: &[Guard::S3Garbage, Guard::S3Fence, Guard::S3FenceGarbage],
            ..PLAIN
        },
        CommitScope {
            name: "commit-note",
            attempts: &[Put(0)],
            notes: 1,
            tells: &[Guard::S3Note],
            ..PLAIN
        },
        CommitScope {
            name: "commit-bucket",
            attempts: &[Put(0)],
            remakes: true,
            tells: &[Guard::S3BucketId, Guard::S3GarbageStays],
            ..PLAIN
        },
        CommitScope {
            name: "commit-part-again",
            attempts: &[Part(1), Part(1)],
            tells: &[Guard::S3PartReplaced],
            ..PARTS
        },
        CommitScope {
            name: "commit-parts",
            attempts: &[Part(1), Part(2)],
            tells: &[Guard::S3Unlisted],
            ..PARTS
        },
        CommitScope {
            name: "commit-head",
            attempts: &[Put(0)],
            sent: 1,
            heads: 1,
            ..PLAIN
        },
    ]
}

fn large() -> Vec<CommitScope> {
    vec![
        CommitScope {
            name: "commit-keys",
            attempts: &[Put(0), Put(1)],
            ..PLAIN
        },
        CommitScope {
            name: "commit-versions",
            has_versions: true,
            sent: 1,
            ..PLAIN
        },
        CommitScope {
            name: "commit-part-put",
            attempts: &[Part(1), Put(0)],
            ..PARTS
        },
        CommitScope {
            name: "commit-heads",
            sent: 1,
            heads: 1,
            ..PLAIN
        },
        CommitScope {
            name: "commit-parts-head",
            heads: 1,
            ..PARTS
        },
        CommitScope {
            name: "commit-puts-three",
            attempts: &[Put(0), Put(0), Put(0)],
            sent: 1,
            deletes: 0,
            ..PLAIN
        },
        CommitScope {
            name: "commit-parts-three",
            attempts: &[Part(1), Part(1), Put(0)],
            ..PARTS
        },
        CommitScope {
            name: "commit-parts-bucket",
            attempts: &[Part(1), Part(2)],
            remakes: true,
            ..PARTS
        },
    ]
}
