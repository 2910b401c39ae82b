//! What a window is told and what it asks for.

use std::time::Duration;

/// A moment: nanoseconds since any origin that does not move.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub u64);

impl Time {
    /// The moment so much later; the end of time if there is none.
    pub fn after(self, span: Duration) -> Time {
        Time(self.0.saturating_add(nanoseconds(span)))
    }

    /// How long ago `earlier` was; nothing if it is yet to come.
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

fn nanoseconds(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// Names a request, chosen by the caller: no two unfinished ones have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestId(pub u64);

/// A request that wants to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its name.
    pub id: RequestId,
    /// When its answer is of no use any more: then it is not sent (again).
    pub deadline: Option<Time>,
    /// Whether it may be sent again when it is unknown whether it took effect. What was refused for
    /// overload took none, and is sent again in any case.
    pub is_repeatable: bool,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The service answered; also with a refusal that has nothing to do with its load (a 404).
    Ok,
    /// The service refused to try: 503, 429, SlowDown.
    Overload {
        /// How long it asks to be left alone (`Retry-After`).
        retry_after: Option<Duration>,
    },
    /// No answer came in the time that the caller gives one attempt.
    Timeout,
    /// The connection broke, or the service failed for a reason of its own (500).
    Error,
    /// There was no connection: it never left, and took no effect.
    Unsent,
}

/// What happens to a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// A request wants to be sent.
    Submit(Request),
    /// An attempt ended.
    Report {
        /// Whose.
        id: RequestId,
        /// How.
        outcome: Outcome,
    },
    /// No caller waits for this request any more, be it waiting or in flight.
    Cancel(RequestId),
    /// Nothing but time: due at the moment that `wake_at` names.
    Tick,
}

/// What the caller must do, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Send this request now, and report how it ended.
    Send {
        /// Which.
        id: RequestId,
        /// The how manieth time, from 1.
        attempt: u32,
    },
    /// This request is over; it will not be sent (again).
    Fail {
        /// Which.
        id: RequestId,
        /// Why.
        why: RequestError,
    },
}

/// Why a request will not be sent (again).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestError {
    /// Its deadline passed, or comes before it could be sent again. If it was never sent, or only
    /// refused, it had no effect.
    Deadline,
    /// It was tried as often as the settings allow.
    Attempts,
    /// Too many requests were being sent again already.
    Budget,
    /// It may have taken effect, and must not take effect twice.
    Ambiguous,
    /// Too many requests are waiting.
    Full,
}
