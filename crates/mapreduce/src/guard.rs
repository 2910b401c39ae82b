//! The rules of the protocol, so that a mutant can take one away.

/// A rule of docs/how-to/mapreduce.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Guard {
    /// MR-5: data is acknowledged before the manifest is written.
    DataFirst,
    /// MR-5: the manifest is acknowledged before the winner is put.
    ManifestFirst,
    /// MR-3: a winner is put on the condition that there is none.
    ConditionalWinner,
    /// Each attempt has a random id.
    RandomAttempt,
    /// A winner's put without an answer may have landed.
    UnknownIsNotLost,
    /// Nor may it have won.
    UnknownIsNotWon,
    /// MR-6: an attempt deletes its keys only after it read another winner.
    DeleteOnlyAsLoser,
    /// Map tasks are sent after their plan won.
    PlanFirst,
    /// A phase ends when all tasks of the winning plan have winners.
    AllTasks,
    /// Reducers read the attempts of the list and no others.
    ListOnly,
    /// A failed read fails the attempt.
    FailedReadFails,
    /// Splits are read from the winning plan.
    WinningPlan,
    /// The register says publishing before the first part is created.
    DecideFirst,
    /// MR-8: a part is created, never overwritten.
    CreateOnlyParts,
    /// `_SUCCESS` is created after all parts were acknowledged.
    SuccessLast,
    /// A published job is cleaned after `_SUCCESS`.
    CleanerWaits,
    /// Each later run and clean removes what is left.
    CleanAgain,
    /// A job that is publishing goes on with any worker.
    RollForward,
    /// Counters come from winners.
    WinnersCounters,
    /// An idle worker sends tasks again.
    Reconciler,
    /// MR-1: the register is created only where there is none.
    RegisterCreate,
    /// MR-1: the register is changed only by the one who read it last.
    RegisterUpdate,
    /// No job begins while another is publishing.
    NotWhilePublishing,
    /// MR-1: the register stays.
    RegisterStays,
    /// A failed renewal of the message does not end the attempt.
    HideIsNoLease,
    /// An attempt goes on beyond the longest visibility of its message.
    NothingAtVisibilityMax,
    /// The ticket is a counter that no worker holds.
    TicketIsFree,
    /// MR-4: a message starts an attempt only if the task's beat is the message's.
    BeatInMessage,
    /// MR-7: a task is sent again after a whole lease by the own clock.
    WholeLease,
    /// A running attempt raises the beat.
    Beats,
    /// Tasks are counted by strong reads.
    StrongCount,
    /// A count reads every page.
    EveryPage,
    /// An empty receive proves nothing.
    EmptyIsNoEnd,
    /// QUEUE-1: shuffle `queue`: messages of attempts that are not in the list are dropped.
    LosersDropped,
    /// QUEUE-2: shuffle `queue`: of each sequence of a winner one message counts.
    OneOfEach,
    /// Shuffle `queue`: what was received is known for each attempt, not for each task.
    AttemptsBits,
    /// Shuffle `queue`: a reducer removes no message of a winner.
    WinnersMessagesStay,
    /// Shuffle `queue`: a reducer removes no message that it has already.
    RepeatsStay,
    /// Shuffle `queue`: a queue goes after its winner was read.
    QueueAfterWinner,
    /// QUEUE-3, QUEUE-5: shuffle `queue`: a reducer ends when the counts are complete.
    MessagesCounted,
    /// Shuffle `queue`: the counts are the winners'.
    WinnersCounts,
    /// Shuffle `queue`: an attempt that gets nothing new for long fails.
    GiveUp,
    /// QUEUE-4: shuffle `queue`: an attempt commits after all its messages were acknowledged.
    CommitAfterSends,
}

impl Guard {
    /// All rules.
    pub const ALL: [Guard; 43] = [
        Guard::DataFirst,
        Guard::ManifestFirst,
        Guard::ConditionalWinner,
        Guard::RandomAttempt,
        Guard::UnknownIsNotLost,
        Guard::UnknownIsNotWon,
        Guard::DeleteOnlyAsLoser,
        Guard::PlanFirst,
        Guard::AllTasks,
        Guard::ListOnly,
        Guard::FailedReadFails,
        Guard::WinningPlan,
        Guard::DecideFirst,
        Guard::CreateOnlyParts,
        Guard::SuccessLast,
        Guard::CleanerWaits,
        Guard::CleanAgain,
        Guard::RollForward,
        Guard::WinnersCounters,
        Guard::Reconciler,
        Guard::RegisterCreate,
        Guard::RegisterUpdate,
        Guard::NotWhilePublishing,
        Guard::RegisterStays,
        Guard::HideIsNoLease,
        Guard::NothingAtVisibilityMax,
        Guard::TicketIsFree,
        Guard::BeatInMessage,
        Guard::WholeLease,
        Guard::Beats,
        Guard::StrongCount,
        Guard::EveryPage,
        Guard::EmptyIsNoEnd,
        Guard::LosersDropped,
        Guard::OneOfEach,
        Guard::AttemptsBits,
        Guard::WinnersMessagesStay,
        Guard::RepeatsStay,
        Guard::QueueAfterWinner,
        Guard::MessagesCounted,
        Guard::WinnersCounts,
        Guard::GiveUp,
        Guard::CommitAfterSends,
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
