//! What a service must keep to be used below the systems, promise by promise.
//!
//! Each promise is a small story told to the service; [`Verdict`] says how it went. Names begin
//! with what the subject says, so that a suite can run beside others on one account; what a story
//! creates it deletes.

mod domains;
mod objects;
mod queues;

pub use domains::domains;
pub use objects::objects;
pub use queues::queues;

use crate::{Clock, Error};

/// Calls that race each other for one object, item or message.
const RACERS: usize = 64;

/// What is judged.
pub struct SystemUnderTest<'a, S: ?Sized> {
    /// The service.
    pub service: &'a S,
    /// The clock by which it waits.
    pub clock: &'a dyn Clock,
    /// With what all names begin: letters and digits, unlike those of other runs.
    pub prefix: &'a str,
}

impl<S: ?Sized> SystemUnderTest<'_, S> {
    fn name(&self, name: &str) -> String {
        format!("{}-{name}", self.prefix)
    }
}

/// How one promise went.
#[derive(Debug)]
pub struct Verdict {
    /// The promise.
    pub promise: &'static str,
    /// Kept, or what was seen instead.
    pub outcome: Result<(), ConformanceError>,
}

/// What was seen instead of what was promised.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ConformanceError(String);

impl From<Error> for ConformanceError {
    fn from(error: Error) -> Self {
        ConformanceError(format!("{:?}: {error}", error.kind))
    }
}

impl From<object_store::Error> for ConformanceError {
    fn from(error: object_store::Error) -> Self {
        ConformanceError(error.to_string())
    }
}

/// Judges a whole suite. `excused` names the promises that this service is known to break, each
/// with the reason. One that it holds all the same must not be excused.
///
/// # Errors
/// All promises that went otherwise than expected, a line each.
pub fn judge(verdicts: &[Verdict], excused: &[(&str, &str)]) -> Result<usize, String> {
    let mut lines = Vec::new();
    for verdict in verdicts {
        let excuse = excused
            .iter()
            .find(|(promise, _)| *promise == verdict.promise);
        match (&verdict.outcome, excuse) {
            (Ok(()), None) | (Err(_), Some(_)) => {}
            (Err(broken), None) => lines.push(format!("{}: {broken}", verdict.promise)),
            (Ok(()), Some((_, reason))) => lines.push(format!(
                "{}: kept, though it was excused: {reason}",
                verdict.promise
            )),
        }
    }
    let is_known = |promise: &str| verdicts.iter().any(|verdict| verdict.promise == promise);
    let unknown = excused.iter().filter(|(promise, _)| !is_known(promise));
    lines.extend(unknown.map(|(promise, _)| format!("{promise}: there is no such promise")));
    match lines.is_empty() {
        true => Ok(verdicts.len()),
        false => Err(lines.join("\n")),
    }
}

fn ensure(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), ConformanceError> {
    match holds {
        true => Ok(()),
        false => Err(ConformanceError(otherwise())),
    }
}

fn same<T: PartialEq + std::fmt::Debug>(found: &T, expected: &T) -> Result<(), ConformanceError> {
    ensure(found == expected, || {
        format!("expected {expected:?}, found {found:?}")
    })
}

/// The kind of failure that a call must end with.
fn fails<T: std::fmt::Debug>(
    outcome: crate::Result<T>,
    kind: crate::ErrorKind,
) -> Result<(), ConformanceError> {
    match outcome {
        Err(error) if error.kind == kind => Ok(()),
        other => Err(ConformanceError(format!(
            "expected {kind:?}, found {other:?}"
        ))),
    }
}
