//! The guards of the bucket services. A mutant run can remove each of them;
//! docs/explanation/bucket.md lists the rules that they keep, and
//! crates/cloud/tests/modelled/bucket_mutants.rs what catches their absence.
//!
//! Without the feature `mutants` no guard can be removed, and the question costs nothing.

/// One condition of the protocol that can be removed on purpose. The rule in brackets is that of
/// docs/explanation/bucket.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Guard {
    /// BQUEUE-4: a segment is read after the claim landed.
    BodyAfterClaim,
    /// BQUEUE-4: also when the claim updates a state.
    BodyAfterUpdate,
    /// BQUEUE-5: a receive past its visibility delivers nothing.
    InTime,
    /// BQUEUE-2: a repeated send has a new name; the mutant puts the same name without a condition.
    NewName,
    /// BQUEUE-2: the same; the mutant puts the same name if absent.
    NewNameIfAbsent,
    /// BQUEUE-1: a list shows a state before its segment.
    StatesFirst,
    /// BQUEUE-3: a state is updated by If-Match.
    UpdateIfMatch,
    /// BQUEUE-3: a state is created if absent.
    CreateIfAbsent,
    /// BQUEUE-6: an unknown claim is recognized by its id.
    ClaimIds,
    /// BQUEUE-7: a receipt's claim must be the newest.
    NewestClaim,
    /// BQUEUE-7: at every write, not only after a lost race.
    NewestAtEveryWrite,
    /// BQUEUE-7: also to hide.
    HideNewest,
    /// BQUEUE-8: a segment is deleted when all its messages are removed.
    LastOfAll,
    /// BQUEUE-8: a segment is deleted before its state.
    SegmentBeforeState,
    /// BQUEUE-8: also when its retention is over.
    SegmentBeforeStateRetention,
    /// BQUEUE-2: a send is acknowledged after its answer.
    SendAfterPut,
    /// BQUEUE-2: an unknown answer is no success.
    SendUnknown,
    /// BQUEUE-7: a remove is acknowledged after its answer.
    RemoveAfterPut,
    /// BQUEUE-10: states without a segment are deleted.
    Orphans,
    /// BQUEUE-1, NAME-2: names do not repeat; the mutant counts, and puts without a condition.
    RandomNames,
    /// BQUEUE-1: the same; the mutant counts, and puts if absent.
    RandomNamesIfAbsent,
    /// BQUEUE-9: a peek reads the state.
    PeekState,
    /// BQUEUE-9: the removes of a peek are conditional.
    PeekIfMatch,
    /// BQUEUE-11: a claim ends by the state's Last-Modified, not by one estimate of its writer.
    ClaimByModified,
    /// BQUEUE-11: a claim ends by the store's clock, not by the writer's wall clock.
    ClaimByStoreClock,
    /// BQUEUE-11: a holder counts from the sending of its claim.
    HolderFromSending,
    /// BQUEUE-11: the grain of Last-Modified is added.
    Grain,
    /// BQUEUE-11: a claim is over by a lower bound of the store's time, not by the taker's wall
    /// clock.
    TakerByStoreClock,
    /// BQUEUE-12: a deleted name rests for a minute.
    NameRests,
    /// BQUEUE-12: settings are marked, not deleted.
    SettingsStay,
    /// BQUEUE-12: a sweep lists before it reads the settings.
    ListBeforeSettings,
    /// BQUEUE-12: names of segments carry the incarnation.
    QueueIncarnation,
    /// BLOG-2, LOG-1: a slot is created if absent.
    SlotIfAbsent,
    /// BLOG-2: an unknown PUT is resolved before the next slot.
    ResolveFirst,
    /// BLOG-2: a put-id names the process, too.
    PutIdOfProcess,
    /// BLOG-2: a put-id names one content; the mutant reuses that of an unresolved slot for the
    /// next batch.
    PutIdOfContent,
    /// BLOG-2: a write that lost is decided again.
    DecideAgain,
    /// BLOG-3: a refusal is decided at the tail.
    RefuseAtTail,
    /// BLOG-4: a strong read awaits a GET that began after it.
    OwnGet,
    /// BLOG-5: a view is young from the sending of the request that found the tail; the mutant
    /// counts from its answer.
    YoungFromSending,
    /// BLOG-7: a reader whose view is an hour old reads the manifest first.
    ReaderContact,
    /// BLOG-7: so does a writer.
    WriterContact,
    /// BLOG-7: an unresolved write is unknown, not refused.
    UnresolvedUnknown,
    /// BLOG-6: a deletion seals the log.
    Seal,
    /// BLOG-6: before it marks the manifest.
    SealFirst,
    /// BLOG-6: a process that meets a seal marks the manifest.
    SealHelp,
    /// BLOG-1: the manifest of a deleted domain stays.
    ManifestStays,
    /// BLOG-1: slots carry the incarnation.
    LogIncarnation,
    /// BLOG-8: a sweep lists before it reads the manifest.
    ListBeforeManifest,
    /// BLOG-1: the manifest is changed by If-Match.
    ManifestIfMatch,
    /// BLOG-9: the snapshot is there before the manifest names it.
    SnapshotFirst,
    /// BLOG-9: the manifest names a snapshot before slots become stubs.
    ManifestBeforeStubs,
    /// BLOG-9: a stub keeps the put-id of its slot.
    StubPutId,
    /// BLOG-9: slots become stubs; the mutant deletes them.
    SlotsStay,
    /// BLOG-9: only snapshots below the manifest's are swept.
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
