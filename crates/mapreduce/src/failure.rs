//! What ends an attempt without a result; a kind for each thing that its worker does next.

use fader_cloud::{Error, ErrorKind};

/// Bytes of a reason that are kept: an attribute of a domain has at most 1,024.
const REASON_BYTES: usize = 900;

/// Why an attempt has no result.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The cloud does not answer now: the task is tried again, and nothing is counted.
    #[error("{0}")]
    Cloud(Error),
    /// The input or the program is at fault: four of these end the job.
    #[error("{0}")]
    Task(String),
    /// The job cannot succeed any more.
    #[error("{0}")]
    Job(String),
    /// The job is over.
    #[error("the job is over")]
    Over,
}

/// What attempts give.
pub type Outcome<T> = std::result::Result<T, Failure>;

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error.kind {
            ErrorKind::Unavailable { .. } | ErrorKind::Ambiguous => Failure::Cloud(error),
            _ => Failure::Task(in_words(&error)),
        }
    }
}

impl From<fader_columns::Damaged> for Failure {
    fn from(damaged: fader_columns::Damaged) -> Self {
        Failure::Task(damaged.to_string())
    }
}

impl Failure {
    /// A failure of the input or the program.
    pub fn task(text: impl Into<String>) -> Self {
        Failure::Task(text.into())
    }
}

/// An error with its causes.
pub(crate) fn in_words(error: &Error) -> String {
    let mut text = error.context.clone();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        let words = error.to_string();
        if !text.ends_with(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        cause = error.source();
    }
    text
}

/// A reason that fits an attribute.
pub(crate) fn shortened(reason: &str) -> String {
    let is_text = |c: char| c == '\t' || c == '\n' || !c.is_control() && c < '\u{fffe}';
    let mut end = reason.len().min(REASON_BYTES);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    let kept = reason[..end].chars();
    kept.map(|c| if is_text(c) { c } else { ' ' }).collect()
}
