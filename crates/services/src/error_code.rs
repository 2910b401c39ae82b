//! The codes of all failures that Fader reports: a closed list, each with what it means and what
//! its reader does next. The command line, the control socket, JSON logs and
//! `docs/reference/errors.md` have the same codes.
//!
//! Deliberately absent: the errors of SimpleDB, SQS and S3 on the wire, which are AWS's.

mod rows;

use crate::Reason;

/// What the caller does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorKind {
    /// It fixes the call: the same call fails again. Nothing was done.
    FixCall,
    /// It sends the same again, later. Nothing was done.
    RetryLater,
    /// It finds out whether the call took effect, or repeats what may happen twice.
    FindOut,
    /// It repairs the data, or restores them from a copy.
    RepairData,
    /// It stops: something beside the call has to change first.
    Stop,
}

impl ErrorKind {
    /// All of them.
    pub const ALL: [ErrorKind; 5] = [
        ErrorKind::FixCall,
        ErrorKind::RetryLater,
        ErrorKind::FindOut,
        ErrorKind::RepairData,
        ErrorKind::Stop,
    ];

    /// For programs and tables.
    pub fn name(self) -> &'static str {
        match self {
            ErrorKind::FixCall => "fix-call",
            ErrorKind::RetryLater => "retry-later",
            ErrorKind::FindOut => "find-out",
            ErrorKind::RepairData => "repair-data",
            ErrorKind::Stop => "stop",
        }
    }

    /// For people: a phrase without a full stop.
    pub fn next_step(self) -> &'static str {
        match self {
            ErrorKind::FixCall => "fix the call: the same call fails again, and nothing was done",
            ErrorKind::RetryLater => "send the same again, later: nothing was done",
            ErrorKind::FindOut => {
                "find out whether it took effect, or repeat what may happen twice"
            }
            ErrorKind::RepairData => "repair the data, or restore them from a copy",
            ErrorKind::Stop => "stop: something beside the call has to change first",
        }
    }
}

/// Which failure it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorCode {
    /// A request was refused with 503.
    Refused(Reason),
    /// A command, a flag or a value of a flag is unknown.
    CommandLineInvalid,
    /// Settings are impossible, or contradict each other.
    ConfigurationInvalid,
    /// The server cannot listen on its address.
    AddressUnavailable,
    /// Another process has the data folder.
    DataLocked,
    /// There is no such data folder.
    DataMissing,
    /// The data folder is damaged.
    DataDamaged,
    /// The data folder belongs to another node or cluster.
    DataForeign,
    /// The data folder is an older copy.
    DataOutdated,
    /// The operating system refused.
    IoFailed,
    /// The store of a server failed while it ran.
    StoreFailed,
    /// The store cannot be read.
    StoreUnreadable,
    /// The cluster key is another cluster's.
    ClusterKeyWrong,
    /// The cluster does not allow it as it stands.
    ClusterRefused,
    /// The coordinator does not answer.
    CoordinatorUnavailable,
    /// What the coordinator keeps of the cluster is not what Fader wrote.
    CoordinatorDamaged,
    /// The call breaks a rule.
    CallInvalid,
    /// The body is larger than is read.
    BodyTooLarge,
    /// There is no such thing.
    NotFound,
    /// There is such a thing already.
    AlreadyExists,
    /// The state of a thing does not allow it.
    StateConflict,
    /// The condition of a call does not hold.
    PreconditionFailed,
    /// The credentials may not.
    AccessDenied,
    /// A service answered no.
    RequestRefused,
    /// A service does not answer, or not now.
    Unavailable,
    /// It is not known whether a call took effect.
    OutcomeUnknown,
    /// An answer, or what is stored, is not as agreed.
    AnswerMalformed,
    /// A job of MapReduce cannot succeed.
    JobFailed,
    /// An interrupt (SIGINT) ended a command before its work was done.
    Interrupted,
    /// A program error of Fader.
    Internal,
    /// Any other failure.
    Failed,
}

/// What the reference says of a code.
#[derive(Clone, Copy, Debug)]
pub struct ErrorRow {
    /// Which failure.
    pub code: ErrorCode,
    /// The caller's next step.
    pub kind: ErrorKind,
    /// The status of the answer over HTTP, where it is told so.
    pub status: Option<u16>,
    /// The exit code of the command that ends with it.
    pub exit: u8,
    /// What happened: a phrase without a full stop.
    pub meaning: &'static str,
    /// What to do: a phrase without a full stop.
    pub action: &'static str,
}

impl ErrorCode {
    /// Those that are no reason of a refusal.
    const OTHERS: [ErrorCode; 30] = [
        ErrorCode::CommandLineInvalid,
        ErrorCode::ConfigurationInvalid,
        ErrorCode::AddressUnavailable,
        ErrorCode::DataLocked,
        ErrorCode::DataMissing,
        ErrorCode::DataDamaged,
        ErrorCode::DataForeign,
        ErrorCode::DataOutdated,
        ErrorCode::IoFailed,
        ErrorCode::StoreFailed,
        ErrorCode::StoreUnreadable,
        ErrorCode::ClusterKeyWrong,
        ErrorCode::ClusterRefused,
        ErrorCode::CoordinatorUnavailable,
        ErrorCode::CoordinatorDamaged,
        ErrorCode::CallInvalid,
        ErrorCode::BodyTooLarge,
        ErrorCode::NotFound,
        ErrorCode::AlreadyExists,
        ErrorCode::StateConflict,
        ErrorCode::PreconditionFailed,
        ErrorCode::AccessDenied,
        ErrorCode::RequestRefused,
        ErrorCode::Unavailable,
        ErrorCode::OutcomeUnknown,
        ErrorCode::AnswerMalformed,
        ErrorCode::JobFailed,
        ErrorCode::Interrupted,
        ErrorCode::Internal,
        ErrorCode::Failed,
    ];

    /// All of them: first those that are no reason of a refusal.
    pub fn all() -> impl Iterator<Item = ErrorCode> {
        let reasons = Reason::ALL.into_iter().map(ErrorCode::Refused);
        ErrorCode::OTHERS.into_iter().chain(reasons)
    }

    /// For programs: kebab-case, and the same for ever.
    pub fn name(self) -> &'static str {
        match self {
            ErrorCode::Refused(reason) => reason.code(),
            ErrorCode::CommandLineInvalid => "command-line-invalid",
            ErrorCode::ConfigurationInvalid => "configuration-invalid",
            ErrorCode::AddressUnavailable => "address-unavailable",
            ErrorCode::DataLocked => "data-locked",
            ErrorCode::DataMissing => "data-missing",
            ErrorCode::DataDamaged => "data-damaged",
            ErrorCode::DataForeign => "data-foreign",
            ErrorCode::DataOutdated => "data-outdated",
            ErrorCode::IoFailed => "io-failed",
            ErrorCode::StoreFailed => "store-failed",
            ErrorCode::StoreUnreadable => "store-unreadable",
            ErrorCode::ClusterKeyWrong => "cluster-key-wrong",
            ErrorCode::ClusterRefused => "cluster-refused",
            ErrorCode::CoordinatorUnavailable => "coordinator-unavailable",
            ErrorCode::CoordinatorDamaged => "coordinator-damaged",
            ErrorCode::CallInvalid => "call-invalid",
            ErrorCode::BodyTooLarge => "body-too-large",
            ErrorCode::NotFound => "not-found",
            ErrorCode::AlreadyExists => "already-exists",
            ErrorCode::StateConflict => "state-conflict",
            ErrorCode::PreconditionFailed => "precondition-failed",
            ErrorCode::AccessDenied => "access-denied",
            ErrorCode::RequestRefused => "request-refused",
            ErrorCode::Unavailable => "unavailable",
            ErrorCode::OutcomeUnknown => "outcome-unknown",
            ErrorCode::AnswerMalformed => "answer-malformed",
            ErrorCode::JobFailed => "job-failed",
            ErrorCode::Interrupted => "interrupted",
            ErrorCode::Internal => "internal",
            ErrorCode::Failed => "failed",
        }
    }

    /// The code with this name: of another build's answer.
    pub fn of_name(name: &str) -> Option<ErrorCode> {
        ErrorCode::all().find(|code| code.name() == name)
    }

    /// What the reference says of it.
    pub fn row(self) -> &'static ErrorRow {
        let mut rows = rows::OTHERS.iter().chain(&rows::REASONS);
        rows.find(|row| row.code == self)
            .expect("each code has a row, as a test says")
    }

    /// The caller's next step.
    pub fn kind(self) -> ErrorKind {
        self.row().kind
    }
}

impl std::fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests;
