//! The guards of the protocol, each of which a mutant run can take away
//! (docs/internals/protocol/invariants.md lists what each is for and what catches its absence).
//!
//! Without the feature `mutants` no guard can be removed and asking costs nothing.

/// One condition of the protocol that can be removed on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Guard {
    /// I1: a message of another epoch or incarnation is refused.
    EpochCheck,
    /// I4, WC-2, WR-4: an entry is confirmed, or forwarded, after it is persisted.
    PersistFirst,
    /// I4: only confirmations of this epoch count.
    ConfirmThisEpoch,
    /// I4, WC-4, WC-5: the syncing member confirms before a commit.
    SyncingConfirms,
    /// WR-5: a confirmation counts by the entry's id, not by its index.
    ConfirmId,
    /// I3, AD-4, TRACE-3: a greeted member drops what its donor lacks.
    AdoptReconciles,
    /// I3, AD-4: handshakes compare ids, not lengths.
    HelloIds,
    /// AD-3, TRACE-13: a handshake names persisted entries only.
    HelloPersisted,
    /// WR-6, AD-6: only a ready member learns of commits.
    LearnReady,
    /// I6, I13, WC-6: a client is answered after the commit.
    AnswerWhenCommitted,
    /// I7: reads need a live lease.
    LeaseRead,
    /// I7: stamping needs a live lease.
    LeaseStamp,
    /// I7: answering version queries needs a live lease.
    LeaseQuery,
    /// SL-6: no ping is sent for a member whose thread stands still.
    StillNoPing,
    /// CATALOG-2: a cached access key is asked for again before S is over.
    CachedKeyEnds,
    /// CATALOG-3: questions about ids of which no key is known have a bound.
    UnknownKeysBounded,
    /// ZKWIRE-5: a watch that fired is set again by the next read.
    WatchRearmed,
    /// CK-2: a lease ends when the clock that measures it was found to have stood still.
    LeaseEndsAtAlarm,
    /// I8: a version query is answered in its own epoch only.
    QuerySameEpoch,
    /// I8: a dirty register is asked about.
    Query,
    /// I8: only the commit point answers.
    QueryByCommitPoint,
    /// RD-4, AD-5: no member speaks for what it inherited uncommitted.
    TailWaits,
    /// I9: reads show committed entries only.
    ReadCommitted,
    /// I10: a syncing member answers no request.
    SyncingSilent,
    /// I10: a syncing member does not stamp.
    SyncingNoStamp,
    /// I11, CO-1: the whole log is decided on, uncommitted entries included.
    DecideLogged,
    /// I11, CO-3: a refusal is an entry.
    NoLogged,
    /// I11: a refusal is answered at its own commit.
    NoWaitsCommit,
    /// I12: a name is looked up before it is decided.
    Dedupe,
    /// I12: also among entries that are not committed.
    DedupePending,
    /// I12: also among refusals.
    DedupeNo,
    /// I12, XO-3, DEDUP-1: results go with truncated entries.
    TruncDropsResults,
    /// I12: an eventual attempt is looked up by name.
    EventualDedupe,
    /// I12, D19, XO-1: a name has a part.
    NamePart,
    /// I12, XO-6: an eventual attempt under the name of another request is refused.
    EventualDigest,
    /// I12, D17: a number below the window is refused.
    WindowRefuses,
    /// XO-4: what is kept of an idle client stays while a settlement is above the safe point.
    IdleFloor,
    /// CO-2: a mini-transaction makes every register it writes dirty.
    TxnDirtyAll,
    /// I14: the head drops what its log dominates.
    PromoteIfLarger,
    /// D5: a base counts uncommitted entries.
    BaseDirty,
    /// EV-5: no member stamps on an uncommitted entry of an epoch in which a member may not be yet.
    BaseAdopted,
    /// D5: a base counts the overlay.
    BaseOverlay,
    /// D5: a base counts the session's token.
    BaseToken,
    /// D5: a base counts the safe point.
    BaseFloor,
    /// MD-2, HOLE-14: a base counts the entry that opened the collection.
    BaseOpened,
    /// MD-3: who holds a change of mode that it has not applied does not stamp.
    StampClean,
    /// MD-4: members are asked what they hold after the draining entry is committed.
    CloseCommitted,
    /// MD-4: who is absent is waited for.
    CloseAwaits,
    /// MD-6: marks are kept until every member has applied what was settled.
    DropWaits,
    /// MD-5: what was accepted in an earlier time of eventual writers is not settled.
    SettlesOwnTime,
    /// PR-2, HOLE-15: a base the head cannot have numbered is refused.
    BaseNumbered,
    /// D12: invisible effects are logged.
    InvisibleKept,
    /// I15: what is tentative is not committed state.
    OverlayApart,
    /// PR-5: an operation stays until its settlement is committed.
    KeepUntilCommitted,
    /// JN-7: a joining member keeps what it held.
    JoinKeepsOverlay,
    /// EX-2: W is joint over the configurations in which a member may be.
    JointW,
    /// AD-8: and one that changes a membership does.
    MembersAreSame,
    /// AD-8: an epoch that changes no membership stops no eventual operation of one member.
    SameMembersGoOn,
    /// EX-1, ER-2: overlays are exchanged before a quorum is claimed.
    Exchange,
    /// EX-1: and the others' commit is waited for, not taken over.
    ExchangeCommit,
    /// EX-3, ER-2: those of a part of the members count if they meet every quorum of earlier
    /// epochs.
    ExchangeMeets,
    /// ER-6: a member that let a read wait is asked last.
    SilentLast,
    /// D2: an operation leaves by its name.
    SettleByName,
    /// D4, OVERLAY-2: an element leaves for committed state only.
    PruneCommitted,
    /// D4: a limit refuses all of an operation.
    LimitWhole,
    /// D13, HOLE-13: an attached acknowledgement needs a live lease.
    AckAttached,
    /// GC-5: what a returning member held is filtered.
    RejoinFilter,
    /// JN-7: what a returning member held is not shown before.
    Quarantine,
    /// D8, HOLE-10: per element, not per register.
    FilterPerElement,
    /// I17: accept and safe point are compared as ids.
    CollectByVersion,
    /// GC-1: no collection while a gap is open.
    CollectWaitsGap,
    /// GC-1, HOLE-12: the applied id is reported, not the committed one.
    ReportApplied,
    /// D7: marks go by the entry that made them.
    CollectByEntry,
    /// I21: a difference is told.
    DigestCompare,
    /// I21: when most members differ from the commit point, it is the one that does.
    DigestMajority,
    /// DG-1: of two members that differ the head is right.
    DigestHead,
    /// I21: a member that differs is filled with any content of its log.
    DiffersFills,
    /// FN-2: a member that may have served is not left out before it has adopted that it does not.
    LeaveAdopted,
    /// COORD-1, I2: a configuration follows the one that its controller read.
    CasPublish,
    /// COORD-2: a controller reads the configuration before the sessions.
    ConfigurationFirst,
    /// ZNODE-10: no change of a session is made at any version: each names the one that it follows.
    AnyVersion,
    /// COORD-5: a disk that has less than it had is an old copy of itself, and gets no session.
    CopyRefused,
    /// AL-1: of those that served last and are back the one with the highest last id begins again,
    /// after a wait for the others.
    RestartFurthest,
    /// LV-3: a member is decommissioned when it has said that it handed off what it holds.
    LeaveHandsOn,
    /// LV-2, HANDOFF-2: and says so when every other member holds that, durably.
    HandOnAll,
    /// LV-2, HANDOFF-1: and holds nothing more in that epoch.
    LeavingTakesNone,
    /// LV-4: an incarnation that has handed off has no membership in an epoch beyond the next.
    HandedOnEnds,
    /// I18, HYBRID-2: the clock's bound is durable before it is used.
    ClockBound,
    /// JN-6: a member serves when its gap is closed.
    FillDoneLast,
    /// JN-6, JOIN-4: and says so for one epoch only.
    FillSameEpoch,
    /// JN-5: what was filled is durable before it is said.
    FillPersisted,
    /// D9, HOLE-11, JOIN-1: entries above the gap are applied after it is closed.
    FillDefers,
    /// JN-4, XO-3, DEDUP-1: a fill brings results.
    JoinBringsResults,
    /// BR-3: a barrier waits for every member.
    BarrierAll,
    /// BR-3: what a barrier was told of is settled before it is decided.
    BarrierSettles,
    /// D11: a bound is proven under a live lease.
    BoundLease,
    /// STEP-5: the record of a step across chains is in the entry that begins it.
    StepRecorded,
    /// STEP-6: it is settled when the step was taken.
    StepTaken,
    /// STEP-7: a step is taken once.
    StepOnce,
    /// QU-1: a received message is hidden until its deadline.
    QueueDeadline,
    /// QU-2: a group is blocked while one of its messages is in flight.
    QueueGroup,
    /// QU-3: a duplicate is found for five minutes.
    QueueDuplicate,
    /// QU-3: a window ends five minutes after the first send.
    QueueDuplicateEnds,
    /// QU-4: an insertion below the low-water mark lowers it.
    QueueMark,
    /// QU-5: the time of decisions never falls.
    QueueTime,
    /// QU-6: a receipt handle is checked.
    QueueHandle,
    /// QU-6: an older handle changes nothing.
    QueueHandleNewest,
    /// QU-7: what was sent before a purge is gone.
    QueuePurge,
    /// QU-8: a message ends with its retention.
    QueueExpiry,
    /// QU-9: a delayed message waits for its deadline.
    QueueDelay,
    /// QU-10: a message that was received often enough moves to the dead-letter queue.
    QueueDeadLetter,
    /// QU-10: it leaves its queue in the entry that puts it into the other.
    QueueMoveWhole,
    /// QU-11: so many messages are in flight at most.
    QueueInFlight,
    /// QU-12: a long poll is decided again when a scheduled message is due.
    QueueWake,
    /// QU-13: a policy is asked about others' requests.
    QueuePolicy,
    /// SC-1: a condition of a write on an object is decided in the entry that writes.
    S3Condition,
    /// SB-1: the blocks of what is replaced are garbage in the same entry.
    S3Garbage,
    /// SB-2: a commit and a fence name the bucket by its id.
    S3BucketId,
    /// SB-3: a commit is refused when its attempt is fenced.
    S3Fence,
    /// SB-4: a block that is garbage is neither kept nor fenced.
    S3FenceGarbage,
    /// SE-5: an attempt that members may hold eventual puts of is closed before it ends.
    S3Close,
    /// SB-5: a commit whose attempt began at or below the note is refused.
    S3Note,
    /// SB-6: the index of a deleted bucket stays until its garbage is gone.
    S3GarbageStays,
    /// SB-7: a bucket with a version of a key is not deleted.
    S3Empty,
    /// SB-7, SAGA-2: the entry that deletes a bucket says that it is never founded again.
    S3Ended,
    /// SB-7: a name is freed of the bucket that has ended, and of no later one.
    S3FreesOwn,
    /// SM-1: a part, a completion and an abortion need their upload open.
    S3UploadOpen,
    /// SM-2: parts that a completion does not list are garbage.
    S3Unlisted,
    /// SM-3: a part that is replaced is garbage.
    S3PartReplaced,
    /// SM-4: a completion that is repeated is answered.
    S3UploadDone,
}

/// Which guards are missing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Guards {
    #[cfg(feature = "mutants")]
    removed: Vec<Guard>,
}

/// All guards, where they are needed by reference.
pub static ALL_GUARDS: Guards = Guards {
    #[cfg(feature = "mutants")]
    removed: Vec::new(),
};

impl Guards {
    /// All guards but `removed`.
    #[cfg(feature = "mutants")]
    pub fn without(removed: impl Into<Vec<Guard>>) -> Self {
        Guards {
            removed: removed.into(),
        }
    }

    /// Whether `guard` is in place.
    #[cfg(feature = "mutants")]
    pub fn has(&self, guard: Guard) -> bool {
        !self.removed.contains(&guard)
    }

    /// Whether `guard` is in place: it is.
    #[cfg(not(feature = "mutants"))]
    #[inline(always)]
    pub fn has(&self, _guard: Guard) -> bool {
        true
    }
}
