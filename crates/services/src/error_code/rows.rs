//! What the reference says of each code.

use super::{ErrorCode, ErrorKind, ErrorRow};
use crate::Reason;

/// Those of codes that are no reason of a refusal.
pub(super) const OTHERS: [ErrorRow; 30] = [
    ErrorRow {
        code: ErrorCode::CommandLineInvalid,
        kind: ErrorKind::FixCall,
        status: None,
        exit: 2,
        meaning: "a command, a flag or the value of a flag is not known",
        action: "`--help` of the command",
    },
    ErrorRow {
        code: ErrorCode::ConfigurationInvalid,
        kind: ErrorKind::FixCall,
        status: None,
        exit: 1,
        meaning: "a setting has an impossible value, or settings contradict each other",
        action: "change the setting; `fader config show` prints all with their origins",
    },
    ErrorRow {
        code: ErrorCode::AddressUnavailable,
        kind: ErrorKind::FixCall,
        status: None,
        exit: 1,
        meaning: "the server cannot listen on its address",
        action: "stop the process that has the port, or name another address with --listen",
    },
    ErrorRow {
        code: ErrorCode::DataLocked,
        kind: ErrorKind::Stop,
        status: None,
        exit: 1,
        meaning: "another process holds the lock of the data folder",
        action: "stop that `fader serve`, or name another folder with --data",
    },
    ErrorRow {
        code: ErrorCode::DataMissing,
        kind: ErrorKind::FixCall,
        status: None,
        exit: 1,
        meaning: "there is no such data folder",
        action: "name the folder with --data",
    },
    ErrorRow {
        code: ErrorCode::DataDamaged,
        kind: ErrorKind::RepairData,
        status: None,
        exit: 1,
        meaning: "files of the data folder are damaged or missing",
        action: "`fader check` names the damage, `fader repair` mends it; or restore the \
                 folder from a copy",
    },
    ErrorRow {
        code: ErrorCode::DataForeign,
        kind: ErrorKind::FixCall,
        status: None,
        exit: 1,
        meaning: "the data folder is another node's, another cluster's, or of another kind of \
                  server",
        action: "name the folder of this node, or an empty one, with --data",
    },
    ErrorRow {
        code: ErrorCode::DataOutdated,
        kind: ErrorKind::RepairData,
        status: None,
        exit: 1,
        meaning: "the data folder is an older copy, or the cluster's history was lost",
        action: "remove the folder, and the node joins with an empty one; or `fader cluster \
                 restore --accept-loss`",
    },
    ErrorRow {
        code: ErrorCode::IoFailed,
        kind: ErrorKind::Stop,
        status: None,
        exit: 1,
        meaning: "the operating system refused to read, write or create",
        action: "free space, or permit it to the user of the process; then start again",
    },
    ErrorRow {
        code: ErrorCode::StoreFailed,
        kind: ErrorKind::Stop,
        status: None,
        exit: 70,
        meaning: "the store of a server failed while it ran",
        action: "read the log; remove its cause; start the server again",
    },
    ErrorRow {
        code: ErrorCode::StoreUnreadable,
        kind: ErrorKind::RepairData,
        status: Some(500),
        exit: 1,
        meaning: "the store could not be read, or a secret does not open",
        action: "`fader check` names the damage",
    },
    ErrorRow {
        code: ErrorCode::ClusterKeyWrong,
        kind: ErrorKind::FixCall,
        status: None,
        exit: 1,
        meaning: "the cluster key is not the one of the cluster",
        action: "copy the file that `fader cluster init` wrote",
    },
    ErrorRow {
        code: ErrorCode::ClusterRefused,
        kind: ErrorKind::FixCall,
        status: None,
        exit: 1,
        meaning: "the cluster does not allow it as it stands",
        action: "`fader cluster status` shows how it stands",
    },
    ErrorRow {
        code: ErrorCode::CoordinatorUnavailable,
        kind: ErrorKind::RetryLater,
        status: None,
        exit: 1,
        meaning: "the coordinator, such as ZooKeeper, does not answer",
        action: "start its servers, or name those that run with --zookeeper",
    },
    ErrorRow {
        code: ErrorCode::CoordinatorDamaged,
        kind: ErrorKind::RepairData,
        status: None,
        exit: 1,
        meaning: "a znode of the cluster is gone, or is not what Fader wrote, as when someone \
                  edits it by hand",
        action: "put it back from a snapshot of ZooKeeper; nodes that run go on with what they \
                 read last, and change nothing that the znode is about",
    },
    ErrorRow {
        code: ErrorCode::CallInvalid,
        kind: ErrorKind::FixCall,
        status: Some(400),
        exit: 1,
        meaning: "the call breaks a rule",
        action: "change it as the message says",
    },
    ErrorRow {
        code: ErrorCode::BodyTooLarge,
        kind: ErrorKind::FixCall,
        status: Some(413),
        exit: 1,
        meaning: "the body of the call is larger than is read",
        action: "send less",
    },
    ErrorRow {
        code: ErrorCode::NotFound,
        kind: ErrorKind::FixCall,
        status: Some(404),
        exit: 1,
        meaning: "there is no such object, queue, domain, key or path",
        action: "create it, or name another",
    },
    ErrorRow {
        code: ErrorCode::AlreadyExists,
        kind: ErrorKind::FixCall,
        status: Some(409),
        exit: 1,
        meaning: "there is such a thing already, and it is not the same",
        action: "name another",
    },
    ErrorRow {
        code: ErrorCode::StateConflict,
        kind: ErrorKind::FixCall,
        status: Some(409),
        exit: 1,
        meaning: "the thing is in a state that does not allow it",
        action: "look at its state, and change that first",
    },
    ErrorRow {
        code: ErrorCode::PreconditionFailed,
        kind: ErrorKind::FixCall,
        status: None,
        exit: 1,
        meaning: "the condition of the call does not hold",
        action: "read again, and decide anew",
    },
    ErrorRow {
        code: ErrorCode::AccessDenied,
        kind: ErrorKind::FixCall,
        status: None,
        exit: 1,
        meaning: "the credentials may not do it",
        action: "use others, or grant it to these",
    },
    ErrorRow {
        code: ErrorCode::RequestRefused,
        kind: ErrorKind::FixCall,
        status: None,
        exit: 1,
        meaning: "a service answered no; the message has its code",
        action: "change the call as the message says",
    },
    ErrorRow {
        code: ErrorCode::Unavailable,
        kind: ErrorKind::RetryLater,
        status: None,
        exit: 1,
        meaning: "a service does not answer, or takes no calls now",
        action: "look whether it runs and the URL is its own; try again later",
    },
    ErrorRow {
        code: ErrorCode::OutcomeUnknown,
        kind: ErrorKind::FindOut,
        status: None,
        exit: 1,
        meaning: "the call was sent and no answer came: it may have taken effect",
        action: "look, or repeat what may happen twice",
    },
    ErrorRow {
        code: ErrorCode::AnswerMalformed,
        kind: ErrorKind::RepairData,
        status: None,
        exit: 1,
        meaning: "an answer, or what is stored, is not as agreed",
        action: "look whether the URL is that of such a service; restore what is damaged",
    },
    ErrorRow {
        code: ErrorCode::JobFailed,
        kind: ErrorKind::Stop,
        status: None,
        exit: 1,
        meaning: "a job of MapReduce cannot succeed any more",
        action: "`fader mapreduce status` shows its tasks",
    },
    ErrorRow {
        code: ErrorCode::Interrupted,
        kind: ErrorKind::FindOut,
        status: None,
        exit: 130,
        meaning: "an interrupt (Ctrl-C) ended the command before its work was done",
        action: "give the command again; what was under way may have taken effect",
    },
    ErrorRow {
        code: ErrorCode::Internal,
        kind: ErrorKind::Stop,
        status: Some(500),
        exit: 1,
        meaning: "a part of Fader panicked",
        action: "report it with the log",
    },
    ErrorRow {
        code: ErrorCode::Failed,
        kind: ErrorKind::Stop,
        status: None,
        exit: 1,
        meaning: "any other failure; the message says which",
        action: "as the message says",
    },
];

/// Those of reasons: such a refusal is a 503.
pub(super) const REASONS: [ErrorRow; 28] = [
    refused(
        Reason::Stopping,
        ErrorKind::RetryLater,
        "the node ends in order",
        "ask another node",
    ),
    refused(
        Reason::QueueFull,
        ErrorKind::RetryLater,
        "the queue of the chain's thread is full at this node",
        "send less, or later",
    ),
    refused(
        Reason::Overloaded,
        ErrorKind::RetryLater,
        "the head has as many uncommitted entries as it may have: members confirm \
         slowly",
        "send less; `fader cluster diagnose` names the slow member",
    ),
    refused(
        Reason::Limit,
        ErrorKind::RetryLater,
        "the server was started with `--limit`",
        "as the test that set it asks",
    ),
    refused(
        Reason::UnknownKeys,
        ErrorKind::RetryLater,
        "the node has no member of the system chain, and requests name more new access keys \
         than it may ask about",
        "send it again; a flood of invented keys is stopped before the node",
    ),
    refused(
        Reason::Connections,
        ErrorKind::RetryLater,
        "as many connections are open as may be, in all or from this address, and all \
         are at work",
        "use fewer connections, or raise `--connections-max` or \
         `--connections-per-address`",
    ),
    refused(
        Reason::SlowBody,
        ErrorKind::RetryLater,
        "bodies of requests take all the memory for them, and this one came slowest",
        "send it again",
    ),
    refused(
        Reason::NoMember,
        ErrorKind::RetryLater,
        "no member could take the request for 10 s: the chain has no head with a lease, \
         or is between two configurations",
        "`fader cluster diagnose` says what the chain waits for",
    ),
    refused(
        Reason::Moved,
        ErrorKind::RetryLater,
        "the member that could take it became another node's, again and again for 10 s",
        "as `no-member`",
    ),
    refused(
        Reason::Lost,
        ErrorKind::FindOut,
        "a member took the request and ended, or lost its seat, before it answered",
        "send it again if it is named or may be done twice",
    ),
    refused(
        Reason::IncarnationOver,
        ErrorKind::FindOut,
        "the member was left out of its chain while the request was under way",
        "as `lost`",
    ),
    refused(
        Reason::Unconfirmed,
        ErrorKind::FindOut,
        "fewer than `w` members confirmed an eventual write in 5 s",
        "ask for less, or send it again",
    ),
    refused(
        Reason::TooFewMembers,
        ErrorKind::RetryLater,
        "the chain has fewer members now than `r` or `w`, because some are away",
        "ask for less until they are back",
    ),
    refused(
        Reason::NotFresh,
        ErrorKind::RetryLater,
        "no member could prove the bound of a bounded read in 3 s",
        "ask for a wider bound, or strong",
    ),
    refused(
        Reason::NameTooOld,
        ErrorKind::FixCall,
        "the number of a named request is too far below the newest of its client",
        "go on with greater numbers",
    ),
    refused(
        Reason::TooManyMarks,
        ErrorKind::RetryLater,
        "an item has too many deletions that are not collected yet",
        "send it later",
    ),
    refused(
        Reason::DomainDeleting,
        ErrorKind::RetryLater,
        "a domain, a queue or a bucket is created whose deletion is not finished",
        "send it later",
    ),
    refused(
        Reason::NoChain,
        ErrorKind::RetryLater,
        "this node knows no such chain yet",
        "send it later",
    ),
    refused(
        Reason::DomainMoves,
        ErrorKind::RetryLater,
        "a domain, a queue or a bucket came and went while it was looked for, or its chain lost it",
        "send it later; after `fader cluster restore`, delete a domain or a queue and create it \
         again, and create a bucket again",
    ),
    refused(
        Reason::TooManyWaiting,
        ErrorKind::RetryLater,
        "as many long polls wait at the head of the chain as may",
        "poll with a shorter wait, or later",
    ),
    refused(
        Reason::WaitTooLong,
        ErrorKind::FixCall,
        "a long poll asks for more than 60 s",
        "ask for less",
    ),
    refused(
        Reason::ClusterOld,
        ErrorKind::Stop,
        "a process of the cluster is of an older version, which does not know the \
         request",
        "upgrade all processes",
    ),
    refused(
        Reason::BlocksFull,
        ErrorKind::RetryLater,
        "the disk has no more than the reserve that blocks of objects leave free",
        "delete objects: room comes back; or make room on the disk",
    ),
    refused(
        Reason::BlockMemory,
        ErrorKind::RetryLater,
        "uploads have all the memory that they may have (`--block-memory-mb`), for 30 s",
        "send it again, later",
    ),
    refused(
        Reason::BlocksMissing,
        ErrorKind::RetryLater,
        "the bytes of an upload are not where their rows are to be put",
        "send the upload again",
    ),
    refused(
        Reason::NoWrites,
        ErrorKind::Stop,
        "a lone node takes no writes; the health says why",
        "`/healthz`",
    ),
    refused(
        Reason::Broken,
        ErrorKind::FindOut,
        "an invariant of the chain was broken at its member, which begins again by \
         itself",
        "send it again as with `lost`; report the log",
    ),
    refused(
        Reason::Store,
        ErrorKind::FindOut,
        "the disk is full or failed; the message has the words of the store",
        "`/healthz`, and room on the disk",
    ),
];

const fn refused(
    reason: Reason,
    kind: ErrorKind,
    meaning: &'static str,
    action: &'static str,
) -> ErrorRow {
    ErrorRow {
        code: ErrorCode::Refused(reason),
        kind,
        status: Some(503),
        exit: 1,
        meaning,
        action,
    }
}
