//! One request from asking to its end: its turns, its attempts, and what is known afterwards.

use std::future::Future;
use std::time::Duration;

use fader_window::{Outcome, RequestError};

use crate::limiter::{Limiter, LimiterRequest};

/// How one attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The service answered, be it with a refusal that has nothing to do with its load (a 404).
    Done,
    /// The service did not try: it has too much to do.
    Refused {
        /// How long it asks to be left alone (`Retry-After`).
        retry_after: Option<Duration>,
    },
    /// The service has too much to do, and does not say that it did not try. An example is the 503
    /// of a store whose write may still take effect.
    Doubtful {
        /// How long it asks to be left alone (`Retry-After`).
        retry_after: Option<Duration>,
    },
    /// No answer came in time. It may have taken effect.
    Late,
    /// The connection broke, or the service failed for a reason of its own (500). It may have taken
    /// effect.
    Failed,
    /// It never left: there was no connection.
    Unsent,
}

/// What became of a request.
#[derive(Debug)]
pub struct RequestResult<T> {
    /// What the last attempt gave; none if there was no attempt.
    pub last: Option<T>,
    /// How the last attempt ended; none if there was no attempt.
    pub verdict: Option<Verdict>,
    /// Why there was no further attempt; none if the last one was answered.
    pub failure: Option<RequestError>,
    /// Whether an attempt that was not answered may have taken effect.
    pub in_doubt: bool,
}

impl<Lane: Ord + Clone + Send + 'static> Limiter<Lane> {
    /// Makes attempts, each in its turn, until one is answered or the window gives up. Dropped, it
    /// gives its place back.
    ///
    /// An attempt says what it gave and how it ended. How long it may take is its own matter, but
    /// nothing else ends it at the deadline.
    pub async fn run<T, F>(
        &self,
        ask: LimiterRequest<Lane>,
        mut attempt: impl FnMut() -> F,
    ) -> RequestResult<T>
    where
        F: Future<Output = (T, Verdict)>,
    {
        let is_repeatable = ask.is_repeatable;
        let mut place = self.enter(ask);
        let mut ended = RequestResult {
            last: None,
            verdict: None,
            failure: None,
            in_doubt: false,
        };
        loop {
            if let Err(why) = place.turn().await {
                ended.failure = Some(why);
                return ended;
            }
            let (last, verdict) = attempt().await;
            ended.last = Some(last);
            ended.verdict = Some(verdict);
            ended.in_doubt |= matches!(
                verdict,
                Verdict::Doubtful { .. } | Verdict::Late | Verdict::Failed
            );
            place.report(outcome(verdict));
            if verdict == Verdict::Done {
                return ended;
            }
            if matches!(verdict, Verdict::Doubtful { .. }) && !is_repeatable {
                ended.failure = Some(RequestError::Ambiguous);
                return ended;
            }
        }
    }
}

fn outcome(verdict: Verdict) -> Outcome {
    match verdict {
        Verdict::Done => Outcome::Ok,
        Verdict::Refused { retry_after } | Verdict::Doubtful { retry_after } => {
            Outcome::Overload { retry_after }
        }
        Verdict::Late => Outcome::Timeout,
        Verdict::Failed => Outcome::Error,
        Verdict::Unsent => Outcome::Unsent,
    }
}
