//! The guards of the bucket services. A mutant run can remove each of them; docs/bucket.md lists
//! the rules that they keep, and crates/cloud/tests/bucket_mutants.rs what catches their absence.
//!
//! Without the feature `mutants` no guard can be removed, and the question costs nothing.

/// One condition of the protocol that can be removed on purpose. The rule in brackets is that of
/// docs/bucket.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Guard {
    /// Q4: a segment is read after the claim landed.
    BodyAfterClaim,
    /// Q4: also when the claim updates a state.
    BodyAfterUpdate,
    /// Q5: a receive past its visibility delivers nothing.
    InTime,
    /// Q2: a repeated send has a new name; the mutant puts the same name without a condition.
    NewName,
    /// Q2: the same; the mutant puts the same name if absent.
    NewNameIfAbsent,
    /// Q1: a list shows a state before its segment.
    StatesFirst,
    /// Q3: a state is updated by If-Match.
    UpdateIfMatch,
    /// Q3: a state is created if absent.
    CreateIfAbsent,
    /// Q6: an unknown claim is recognized by its id.
    ClaimIds,
    /// Q7: a receipt's claim must be the newest.
    NewestClaim,
    /// Q7: at every write, not only after a lost race.
    NewestAtEveryWrite,
    /// Q7: also to hide.
    HideNewest,
    /// Q8: a segment is deleted when all its messages are removed.
    LastOfAll,
    /// Q8: a segment is deleted before its state.
    SegmentBeforeState,
    /// Q8: also when its retention is over.
    SegmentBeforeStateRetention,
    /// Q2: a send is acknowledged after its answer.
    SendAfterPut,
    /// Q2: an unknown answer is no success.
    SendUnknown,
    /// Q7: a remove is acknowledged after its answer.
    RemoveAfterPut,
    /// Q10: states without a segment are deleted.
    Orphans,
    /// Q1: names do not repeat; the mutant counts, and puts without a condition.
    RandomNames,
    /// Q1: the same; the mutant counts, and puts if absent.
    RandomNamesIfAbsent,
    /// Q9: a peek reads the state.
    PeekState,
    /// Q9: the removes of a peek are conditional.
    PeekIfMatch,
    /// Q11: a claim ends by the state's Last-Modified, not by one estimate of its writer.
    ClaimByModified,
    /// Q11: a claim ends by the store's clock, not by the writer's wall clock.
    ClaimByStoreClock,
    /// Q11: a holder counts from the sending of its claim.
    HolderFromSending,
    /// Q11: the grain of Last-Modified is added.
    Grain,
    /// Q11: a claim is over by a lower bound of the store's time, not by the taker's wall clock.
    TakerByStoreClock,
    /// Q12: a deleted name rests for a minute.
    NameRests,
    /// Q12: settings are marked, not deleted.
    SettingsStay,
    /// Q12: a sweep lists before it reads the settings.
    ListBeforeSettings,
    /// Q12: names of segments carry the incarnation.
    QueueIncarnation,
    /// L2: a slot is created if absent.
    SlotIfAbsent,
    /// L2: an unknown PUT is resolved before the next slot.
    ResolveFirst,
    /// L2: a put-id names the process, too.
    PutIdOfProcess,
    /// L2: a put-id names one content; the mutant reuses that of an unresolved slot for the next
    /// batch.
    PutIdOfContent,
    /// L2: a write that lost is decided again.
    DecideAgain,
    /// L3: a refusal is decided at the tail.
    RefuseAtTail,
    /// L4: a strong read awaits a GET that began after it.
    OwnGet,
    /// L5: a view is young from the sending of the request that found the tail; the mutant counts
    /// from its answer.
    YoungFromSending,
    /// L7: a reader whose view is an hour old reads the manifest first.
    ReaderContact,
    /// L7: so does a writer.
    WriterContact,
    /// L7: an unresolved write is unknown, not refused.
    UnresolvedUnknown,
    /// L6: a deletion seals the log.
    Seal,
    /// L6: before it marks the manifest.
    SealFirst,
    /// L6: a process that meets a seal marks the manifest.
    SealHelp,
    /// L1: the manifest of a deleted domain stays.
    ManifestStays,
    /// L1: slots carry the incarnation.
    LogIncarnation,
    /// L8: a sweep lists before it reads the manifest.
    ListBeforeManifest,
    /// L1: the manifest is changed by If-Match.
    ManifestIfMatch,
    /// L9: the snapshot is there before the manifest names it.
    SnapshotFirst,
    /// L9: the manifest names a snapshot before slots become stubs.
    ManifestBeforeStubs,
    /// L9: a stub keeps the put-id of its slot.
    StubPutId,
    /// L9: slots become stubs; the mutant deletes them.
    SlotsStay,
    /// L9: only snapshots below the manifest's are swept.
    SnapshotsBelow,
}

/// Which guards are missing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Guards {
    #[cfg(feature = "mutants")]
    removed: Option<Guard>,
}

impl Guards {
    /// All guards but one.
    #[cfg(feature = "mutants")]
    pub fn without(guard: Guard) -> Self {
        Guards {
            removed: Some(guard),
        }
    }

    /// Whether `guard` is in place.
    #[cfg(feature = "mutants")]
    pub fn has(&self, guard: Guard) -> bool {
        self.removed != Some(guard)
    }

    /// Whether `guard` is in place: it is.
    #[cfg(not(feature = "mutants"))]
    #[inline(always)]
    pub fn has(&self, _guard: Guard) -> bool {
        true
    }
}
