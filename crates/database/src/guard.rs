//! The rules of commits and checkpoints, so that a mutant can take one away.

/// A rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Guard {
    /// DB-1, TREE-2: a page is replaced by If-Match on the version that was read.
    PageIfMatch,
    /// DB-3, TREE-1: a page that a split makes is created before the left page is replaced.
    RightPageFirst,
    /// DB-2, TREE-3: a PUT without an answer does not count as landed.
    UnknownIsNotLanded,
    /// DB-6, REFLECT-1: messages are removed after the pages with their records landed.
    RemoveAfterPut,
    /// REFLECT-1: messages stay when a page was replaced by another client.
    KeepOnLostRace,
    /// DB-7, ATOMIC-1: a transaction leaves the ATOMIC queue after all its records were sent on.
    AtomicUntilSent,
    /// DB-9: reads of a session obey its marks.
    SessionMarks,
    /// Reads of a session see its own pending records.
    Overlay,
    /// CLAIM-2, DB-8: who gives up a transaction whose claim is missing occupies the claim's name.
    AbortClaim,
    /// DB-14, INDEXING-2: checkpoints assert entries for writers that did not know an index.
    EntriesForUnaware,
    /// INDEX-3: entries are removed at the stamp of the version that contradicts them.
    EntryAtVersion,
    /// An update that waits for its insert keeps its entries.
    EntriesOfHidden,
    /// ROUTING-1: a leaf's queue sends records of other pages on before it removes them.
    ForwardFirst,
    /// DB-15, TREE-5: the queue of a leaf is created before the leaf.
    LeafQueueFirst,
    /// DB-15, REFLECT-2: a leaf's queue brings records only into a leaf that the tree leads to.
    LeafOfTree,
    /// Queues of leaves count as pending, also those that no page leads to.
    LeafQueuesCount,
    /// TIMED-1: without conditions of the store a PUT is given up when the token's time is over.
    TokenInTime,
    /// DB-13: entries of indexes are sent before their records.
    EntriesFirst,
    /// DISK-1: a page of an earlier process is read only after the store showed it as the newest.
    ConfirmKept,
    /// TIMED-1: without conditions of the store a PUT waits for the token.
    Token,
}

impl Guard {
    /// All rules.
    pub const ALL: [Guard; 20] = [
        Guard::PageIfMatch,
        Guard::RightPageFirst,
        Guard::UnknownIsNotLanded,
        Guard::RemoveAfterPut,
        Guard::KeepOnLostRace,
        Guard::AtomicUntilSent,
        Guard::SessionMarks,
        Guard::Overlay,
        Guard::AbortClaim,
        Guard::EntriesForUnaware,
        Guard::EntryAtVersion,
        Guard::EntriesOfHidden,
        Guard::ForwardFirst,
        Guard::LeafQueueFirst,
        Guard::LeafOfTree,
        Guard::LeafQueuesCount,
        Guard::TokenInTime,
        Guard::EntriesFirst,
        Guard::ConfirmKept,
        Guard::Token,
    ];
}

/// Which rules are missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Guards {
    #[cfg(feature = "mutants")]
    removed: Option<Guard>,
}

impl Guards {
    /// All rules but one.
    #[cfg(feature = "mutants")]
    pub fn without(guard: Guard) -> Self {
        Guards {
            removed: Some(guard),
        }
    }

    /// Whether `guard` is in place.
    #[cfg(feature = "mutants")]
    pub fn has(self, guard: Guard) -> bool {
        self.removed != Some(guard)
    }

    /// Whether `guard` is in place: it is.
    #[cfg(not(feature = "mutants"))]
    #[inline(always)]
    pub fn has(self, _guard: Guard) -> bool {
        true
    }
}
