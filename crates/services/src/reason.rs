//! Why a request was refused with 503: a closed list, each with a code for programs and a sentence
//! for people (docs/reference/errors.md).
//!
//! Between nodes a refusal has its code, from version 7 of a cluster on. Below it the sentence
//! stands in the refusal's message, and the reader finds the code by it.

/// Why a request was refused with 503.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// The node ends.
    Stopping,
    /// The queue of the chain's thread is full.
    QueueFull,
    /// The head has as many uncommitted entries as it may have.
    Overloaded,
    /// The limit that the server was given (`--limit`).
    Limit,
    /// Requests name too many access keys that this node does not know.
    UnknownKeys,
    /// As many connections are open as may be, and all are at work.
    Connections,
    /// Bodies take all memory for them, and this one came slowest.
    SlowBody,
    /// No member that may answer has been found in the time of a request.
    NoMember,
    /// The member that may answer is another node's now.
    Moved,
    /// A member took the request, and no answer came.
    Lost,
    /// The life of the member ended while the request was under way.
    IncarnationOver,
    /// Fewer members than `w` confirmed an eventual write in time.
    Unconfirmed,
    /// The chain has fewer members now than `r` or `w`.
    TooFewMembers,
    /// No member can prove the freshness that is asked.
    NotFresh,
    /// The request's name is below the window of its client.
    NameTooOld,
    /// A collection of marks must pass before the item takes more deletions.
    TooManyMarks,
    /// The domain, the queue or the bucket of this name is being deleted.
    DomainDeleting,
    /// This process knows no such chain.
    NoChain,
    /// A domain, a queue or a bucket came and went while the request looked for it.
    DomainMoves,
    /// As many long polls wait at the head as may.
    TooManyWaiting,
    /// A long poll asks for more than the longest wait.
    WaitTooLong,
    /// Older processes of the cluster do not know the request.
    ClusterOld,
    /// The disk has no more than the reserve that blocks leave free.
    BlocksFull,
    /// Uploads have all the memory that they may have.
    BlockMemory,
    /// Blocks of a request are not held where their rows would be put.
    BlocksMissing,
    /// A lone node takes no writes.
    NoWrites,
    /// The thread of the member panicked.
    Broken,
    /// The store says why: a full disk, or an error of it.
    Store,
}

impl Reason {
    /// All of them.
    pub const ALL: [Reason; 28] = [
        Reason::Stopping,
        Reason::QueueFull,
        Reason::Overloaded,
        Reason::Limit,
        Reason::UnknownKeys,
        Reason::Connections,
        Reason::SlowBody,
        Reason::NoMember,
        Reason::Moved,
        Reason::Lost,
        Reason::IncarnationOver,
        Reason::Unconfirmed,
        Reason::TooFewMembers,
        Reason::NotFresh,
        Reason::NameTooOld,
        Reason::TooManyMarks,
        Reason::DomainDeleting,
        Reason::NoChain,
        Reason::DomainMoves,
        Reason::TooManyWaiting,
        Reason::WaitTooLong,
        Reason::ClusterOld,
        Reason::BlocksFull,
        Reason::BlockMemory,
        Reason::BlocksMissing,
        Reason::NoWrites,
        Reason::Broken,
        Reason::Store,
    ];

    /// For programs: the value of `x-fader-reason`, and a label of `fader_refusals_total`.
    pub fn code(self) -> &'static str {
        match self {
            Reason::Stopping => "stopping",
            Reason::QueueFull => "queue-full",
            Reason::Overloaded => "overloaded",
            Reason::Limit => "limit",
            Reason::UnknownKeys => "unknown-keys",
            Reason::Connections => "connections",
            Reason::SlowBody => "slow-body",
            Reason::NoMember => "no-member",
            Reason::Moved => "moved",
            Reason::Lost => "lost",
            Reason::IncarnationOver => "life-over",
            Reason::Unconfirmed => "unconfirmed",
            Reason::TooFewMembers => "too-few-members",
            Reason::NotFresh => "not-fresh",
            Reason::NameTooOld => "name-too-old",
            Reason::TooManyMarks => "too-many-marks",
            Reason::DomainDeleting => "domain-deleting",
            Reason::NoChain => "no-chain",
            Reason::DomainMoves => "domain-moves",
            Reason::TooManyWaiting => "too-many-waiting",
            Reason::WaitTooLong => "wait-too-long",
            Reason::ClusterOld => "cluster-old",
            Reason::BlocksFull => "blocks-full",
            Reason::BlockMemory => "block-memory",
            Reason::BlocksMissing => "blocks-missing",
            Reason::NoWrites => "no-writes",
            Reason::Broken => "broken",
            Reason::Store => "store",
        }
    }

    /// For people: what stands in the message. Of the store, whose own words stand there, nothing.
    pub const fn sentence(self) -> &'static str {
        match self {
            Reason::Stopping => "the node is stopping",
            Reason::QueueFull => "too many writes are waiting",
            Reason::Overloaded => "too many writes are under way",
            Reason::Limit => "the limit of this server is reached",
            Reason::UnknownKeys => {
                "too many access keys are asked for that this node does not know"
            }
            Reason::Connections => "too many connections are at work",
            Reason::SlowBody => "bodies take all memory for them, and this one came slowest",
            Reason::NoMember => "no member can take it now",
            Reason::Moved => "its member is elsewhere",
            Reason::Lost => {
                "the member ended or did not answer; it is not known whether the write took effect"
            }
            Reason::IncarnationOver => "the member left its chain",
            Reason::Unconfirmed => "too few members confirmed it in time",
            Reason::TooFewMembers => "the chain has fewer members now than r or w asks",
            Reason::NotFresh => "no member can prove now that what it has is so fresh",
            Reason::NameTooOld => "the request's name is too old to be told from a retry",
            Reason::TooManyMarks => "Too many deletions of this item are still to be forgotten",
            Reason::DomainDeleting => "the domain, the queue or the bucket is being deleted",
            Reason::NoChain => "there is no such chain",
            Reason::DomainMoves => "the domain, the queue or the bucket comes and goes",
            Reason::TooManyWaiting => "too many long polls are under way",
            Reason::WaitTooLong => "no request may wait so long",
            Reason::ClusterOld => "the cluster's version is too old for it",
            Reason::BlocksFull => "the disk has no room for objects",
            Reason::BlockMemory => "uploads have all the memory that they may have",
            Reason::BlocksMissing => "the bytes of the upload are not where they should be",
            Reason::NoWrites => "the node takes no writes now",
            Reason::Broken => "an invariant of the chain was broken",
            Reason::Store => "",
        }
    }

    /// The reason whose sentence stands in a message: the first of the list, and last the store. It
    /// serves between processes of a cluster below version 7; elsewhere a refusal has its reason.
    pub fn of(message: &str) -> Reason {
        let mut old = OLD_SENTENCES.into_iter();
        let old = old.find(|(sentence, _)| message.contains(sentence));
        let mut all = Reason::ALL.into_iter();
        let found = || all.find(|reason| message.contains(reason.sentence()));
        let found = old.map(|(_, reason)| reason).or_else(found);
        found.unwrap_or(Reason::Store)
    }
}

/// Sentences of processes that know no version 7 of a cluster.
const OLD_SENTENCES: [(&str, Reason); 2] = [
    ("The domain is being deleted", Reason::DomainDeleting),
    ("the domain comes and goes", Reason::DomainMoves),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sentence_names_its_reason_and_no_other() {
        for reason in Reason::ALL {
            assert_eq!(
                Reason::of(&format!("later ({})", reason.sentence())),
                reason
            );
        }
        for (sentence, reason) in OLD_SENTENCES {
            assert_eq!(Reason::of(sentence), reason);
        }
        assert_eq!(Reason::of("no space left on device"), Reason::Store);
    }
}
