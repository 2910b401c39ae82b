//! The failures of commands: message, code, and what to do (docs/reference/errors.md).
//!
//! ```text
//! error: cannot open ./fader-data: process 4711 holds its lock
//!   code: data-locked
//!   do: stop that `fader serve`, or name another folder with --data
//! ```
//!
//! The code is that of the first cause that has one. So a command can give a code of its own to
//! what a layer below reports.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::process::ExitCode;

use anyhow::Result;
use fader_node::coordinator::CoordinatorError;
use fader_node::{ClusterError, OpenError};
use fader_services::ErrorCode;
use fader_services::catalog::Refusal;

use crate::output;

/// A command without its subcommand prints its help.
const HELP: clap::error::ErrorKind =
    clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;

/// A failure that has its code from the command.
#[derive(Debug)]
pub(crate) struct Failure {
    code: ErrorCode,
    /// What to do, where that is more than the reference says.
    action: Option<String>,
    error: anyhow::Error,
}

impl Failure {
    /// A failure with this message.
    pub(crate) fn new(code: ErrorCode, message: impl fmt::Display) -> Self {
        Failure::of(code, anyhow::Error::msg(message.to_string()))
    }

    /// What a layer below reports, under another code.
    pub(crate) fn of(code: ErrorCode, error: anyhow::Error) -> Self {
        Failure {
            code,
            action: None,
            error,
        }
    }

    /// What a layer below reports, with more about what to do than the reference says.
    pub(crate) fn advised(error: anyhow::Error, action: impl Into<String>) -> Self {
        Failure {
            action: Some(action.into()),
            ..Failure::of(code(&error), error)
        }
    }
}

/// A failure with this code and message.
pub(crate) fn fail<T>(code: ErrorCode, message: impl fmt::Display) -> Result<T> {
    Err(Failure::new(code, message).into())
}

/// The same failure, with a text behind its message.
pub(crate) fn fail_with_more<T>(error: &anyhow::Error, more: impl fmt::Display) -> Result<T> {
    let Report {
        message,
        code,
        action,
    } = Report::of(error);
    let error = anyhow::Error::msg(format!("{message}{more}"));
    Err(Failure {
        action: Some(action),
        ..Failure::of(code, error)
    }
    .into())
}

/// A failure of a call that breaks a rule.
pub(crate) fn invalid<T>(message: impl fmt::Display) -> Result<T> {
    fail(ErrorCode::CallInvalid, message)
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl StdError for Failure {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.error.source()
    }
}

/// What a command that failed says.
pub(crate) struct Report {
    pub(crate) message: String,
    pub(crate) code: ErrorCode,
    pub(crate) action: String,
}

impl Report {
    /// Of this failure.
    pub(crate) fn of(error: &anyhow::Error) -> Report {
        let code = code(error);
        let own = error.downcast_ref::<Failure>();
        let action = own.and_then(|own| own.action.clone());
        Report {
            message: output::in_words(error),
            code,
            action: action.unwrap_or_else(|| code.row().action.to_owned()),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "error: {}", self.message)?;
        writeln!(f, "  code: {}", self.code)?;
        write!(f, "  do: {}", self.action)
    }
}

/// The code of a failure: that of the first cause that has one.
fn code(error: &anyhow::Error) -> ErrorCode {
    error.chain().find_map(code_of).unwrap_or(ErrorCode::Failed)
}

/// The code of a command line that clap refuses, below its own message.
pub(crate) fn refuse_command_line(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() || error.kind() == HELP {
        error.exit();
    }
    drop(error.print());
    let row = ErrorCode::CommandLineInvalid.row();
    note!("  code: {}\n  do: {}", row.code, row.action);
    ExitCode::from(row.exit)
}

/// The code of a cause, where it has one.
fn code_of(cause: &(dyn StdError + 'static)) -> Option<ErrorCode> {
    let own = cause.downcast_ref().map(|error: &Failure| error.code);
    let open = || cause.downcast_ref().map(|error: &OpenError| error.code);
    let coordinator = || cause.downcast_ref().map(CoordinatorError::code);
    let cluster = || cause.downcast_ref().map(|error: &ClusterError| error.code);
    let catalog = || cause.downcast_ref().map(Refusal::code);
    let client = || cause.downcast_ref().map(of_client);
    let cloud = || cause.downcast_ref().map(of_cloud);
    let object = || cause.downcast_ref().map(of_object);
    let job = || cause.downcast_ref().map(of_job);
    let io = || cause.downcast_ref().map(of_io);
    own.or_else(open)
        .or_else(coordinator)
        .or_else(cluster)
        .or_else(catalog)
        .or_else(client)
        .or_else(cloud)
        .or_else(object)
        .or_else(job)
        .or_else(io)
}

fn of_client(error: &fader_client::Error) -> ErrorCode {
    use fader_client::ErrorKind as Kind;
    match &error.kind {
        Kind::Refused { status, code, .. } => match (ErrorCode::of_name(code), *status) {
            (Some(code), _) => code,
            (None, 503) => ErrorCode::Unavailable,
            (None, 500..) => ErrorCode::OutcomeUnknown,
            (None, 401 | 403) => ErrorCode::AccessDenied,
            (None, 404) => ErrorCode::NotFound,
            (None, _) => ErrorCode::RequestRefused,
        },
        Kind::Unavailable => ErrorCode::Unavailable,
        Kind::Ambiguous => ErrorCode::OutcomeUnknown,
        Kind::Invalid => ErrorCode::CallInvalid,
        Kind::Malformed => ErrorCode::AnswerMalformed,
    }
}

fn of_cloud(error: &fader_cloud::Error) -> ErrorCode {
    use fader_cloud::ErrorKind as Kind;
    match error.kind {
        Kind::NotFound => ErrorCode::NotFound,
        Kind::Precondition => ErrorCode::PreconditionFailed,
        Kind::Unavailable { .. } => ErrorCode::Unavailable,
        Kind::Ambiguous => ErrorCode::OutcomeUnknown,
        Kind::Invalid => ErrorCode::CallInvalid,
        Kind::Denied => ErrorCode::AccessDenied,
        Kind::Malformed => ErrorCode::AnswerMalformed,
    }
}

fn of_object(error: &object_store::Error) -> ErrorCode {
    use object_store::Error as Of;
    match error {
        Of::NotFound { .. } => ErrorCode::NotFound,
        Of::AlreadyExists { .. } => ErrorCode::AlreadyExists,
        Of::Precondition { .. } | Of::NotModified { .. } => ErrorCode::PreconditionFailed,
        Of::PermissionDenied { .. } | Of::Unauthenticated { .. } => ErrorCode::AccessDenied,
        Of::InvalidPath { .. } | Of::NotSupported { .. } => ErrorCode::CallInvalid,
        _ => ErrorCode::Unavailable,
    }
}

fn of_job(failure: &fader_mapreduce::Failure) -> ErrorCode {
    match failure {
        fader_mapreduce::Failure::Cloud(error) => of_cloud(error),
        _ => ErrorCode::JobFailed,
    }
}

fn of_io(error: &io::Error) -> ErrorCode {
    match error.kind() {
        io::ErrorKind::NotFound => ErrorCode::NotFound,
        io::ErrorKind::ConnectionRefused => ErrorCode::Unavailable,
        _ => ErrorCode::IoFailed,
    }
}

#[cfg(test)]
mod tests;
