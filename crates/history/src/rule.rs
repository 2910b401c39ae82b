//! The rules of the checks, each of which a mutant run can take away. Without it the check
//! misjudges a history that has the rule's name (`check/tests/mutants.rs`).
//!
//! Without the feature `mutants` no rule can be removed and asking costs nothing.

/// One rule of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// `registers`: a version that is read was written.
    Written,
    /// `registers`, `search`: a refused write is never read.
    RefusedNever,
    /// `registers`: a read does not return before its write was called.
    ReadAfterWrite,
    /// `registers`: f is the earliest return, also of reads.
    EarliestReturn,
    /// `registers`: s is the latest call, also of reads.
    LatestCall,
    /// `registers`: two forward zones do not overlap.
    ForwardApart,
    /// `registers`: no backward zone lies inside a forward one.
    BackwardOutside,
    /// `registers`: zones that touch are apart.
    Touching,
    /// `registers`: the initial value is a write before all.
    InitialFirst,
    /// `registers`: a write with an unknown outcome returns at the end of time.
    UnknownLate,
    /// `registers`, `search`: attempts of a request are one operation.
    AttemptsJoined,
    /// `registers`, `search`: a write at a level that is not judged may act later.
    OtherLevels,
    /// `search`: an operation acts after those that ended before it was called.
    RealTime,
    /// `search`: an operation with an unknown outcome may act.
    UnknownMayAct,
    /// `search`: an operation with an unknown outcome may act never.
    UnknownMayNot,
    /// `search`: an operation acts at most once.
    Once,
    /// `search`: a compare-and-set that was done has met its value.
    DoneSwap,
    /// `search`: a compare-and-set that failed has met another value.
    FailedSwap,
    /// `search`: a queue gives its elements in the order of their arrival.
    QueueOrder,
    /// `sessions`: read your writes.
    ReadYourWrites,
    /// `sessions`: monotonic reads.
    MonotonicReads,
    /// `sessions`: monotonic writes of one key.
    MonotonicWrites,
    /// `sessions`: writes follow reads of one key.
    WritesFollowReads,
    /// `sessions`: monotonic writes, as another session sees two keys.
    MonotonicWritesAcross,
    /// `sessions`: writes follow reads, as another session sees two keys.
    WritesFollowReadsAcross,
    /// `sessions`: nothing is promised among operations of a session that overlap.
    ProgramOrder,
    /// `sessions`: what a session only tried to write is promised to no read.
    AcknowledgedOwn,
    /// `staleness`: only writes acknowledged before the read's call count.
    AcknowledgedBefore,
    /// `staleness`: the time counts from the first newer acknowledgement.
    FirstNewer,
    /// `staleness`: a read that saw a write that had not returned has a negative time.
    Negative,
    /// `kept`: an acknowledged write is in the final read, or one that may follow it.
    Kept,
    /// `kept`: a final read shows only what was asked for.
    Invented,
    /// `kept`: an acknowledged removal is done.
    Removed,
    /// `kept`: a counter stands at the acknowledged increments or above.
    CounterLow,
    /// `kept`: a counter stands at no more than all increments that may have acted.
    CounterHigh,
}

/// The rules that are in force.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    #[cfg(feature = "mutants")]
    removed: Vec<Rule>,
}

impl Rules {
    /// All rules but one.
    #[cfg(feature = "mutants")]
    pub fn without(rule: Rule) -> Self {
        Rules {
            removed: vec![rule],
        }
    }

    /// Whether `rule` is in force.
    #[cfg(feature = "mutants")]
    pub fn has(&self, rule: Rule) -> bool {
        !self.removed.contains(&rule)
    }

    /// Whether `rule` is in force: it is.
    #[cfg(not(feature = "mutants"))]
    #[inline(always)]
    pub fn has(&self, _rule: Rule) -> bool {
        true
    }
}
