//! One operation: the request, its times, and its outcome.

use std::fmt::{Debug, Display, Formatter, Result};

use crate::Moment;

/// What a field of an operation must be able to do: be compared, copied and shown.
pub trait Term: Clone + Debug + PartialEq + Display {}

impl<T: Clone + Debug + PartialEq + Display> Term for T {}

/// A kind of request, with the types of everything that belongs to it.
pub trait Action: Clone + Debug + PartialEq + Display {
    /// A place that is asked: a member, an address.
    type Endpoint: Term;
    /// The name that all attempts of a request share.
    type Name: Term + Ord;
    /// A consistency level.
    type Level: Term;
    /// The answer to a request that was done.
    type Reply: Term;
    /// Why a request was refused.
    type Refusal: Term;
    /// What an operation reads or writes.
    type Key: Clone + Debug + Ord + Display;
    /// What one write makes of a key: unique among the writes of the key.
    type Version: Clone + Debug + Ord + Display;
    /// A version's place in the order of the versions of its key: a stamp, a revision.
    type Place: Clone + Debug + Ord;

    /// Calls `each` with everything that the operation read and wrote; without a `reply`, with
    /// everything that it may have written.
    fn accesses<'a>(
        &'a self,
        reply: Option<&'a Self::Reply>,
        each: &mut dyn FnMut(Access<'a, Self>),
    ) where
        Self: Sized;
}

/// What an operation does to one key.
#[derive(Clone, Copy, Debug)]
pub enum Access<'a, A: Action> {
    /// It saw a version.
    Read {
        /// The key.
        key: &'a A::Key,
        /// The version; none of a key that no write has reached yet.
        version: Option<&'a A::Version>,
        /// The version's place, if the reply tells it.
        place: Option<&'a A::Place>,
    },
    /// It wrote a version.
    Write {
        /// The key.
        key: &'a A::Key,
        /// The version.
        version: &'a A::Version,
        /// The version's place, if the reply tells it.
        place: Option<&'a A::Place>,
    },
}

/// How a request ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome<Reply, Refusal> {
    /// Done.
    Done(Reply),
    /// Refused: it has no effect, now or later.
    Refused(Refusal),
    /// No one can say: a write takes effect later, at most once, or never.
    Unknown,
}

/// When an operation ended, and how.
pub type End<A> = (
    Moment,
    Outcome<<A as Action>::Reply, <A as Action>::Refusal>,
);

/// One request of a client, or one attempt of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation<A: Action> {
    /// The client; it may have several operations under way.
    pub process: u32,
    /// The session whose promises hold for the operation.
    pub session: Option<u32>,
    /// Where the request was sent.
    pub endpoint: A::Endpoint,
    /// The request's name: the same for each attempt.
    pub name: Option<A::Name>,
    /// 1 for the first attempt.
    pub attempt: u32,
    /// At which level.
    pub level: A::Level,
    /// When a schedule had it start; the time of the call where there is no schedule.
    pub intended: Moment,
    /// When it was sent.
    pub called: Moment,
    /// What was asked.
    pub action: A,
    /// When it ended, and how; none while the client waits, which is an unknown outcome.
    pub end: Option<End<A>>,
    /// Its price in billionths of a dollar, by the header's price book.
    pub price: Option<u64>,
}

impl<A: Action> Operation<A> {
    /// The reply, with its moment, if it was done.
    pub fn done(&self) -> Option<(Moment, &A::Reply)> {
        match &self.end {
            Some((at, Outcome::Done(reply))) => Some((*at, reply)),
            _ => None,
        }
    }

    /// Whether the client was told that nothing was done.
    pub fn is_refused(&self) -> bool {
        matches!(self.end, Some((_, Outcome::Refused(_))))
    }

    /// When the client knew how it ended; the end of time if never.
    pub fn returned(&self) -> Moment {
        self.end.as_ref().map_or(Moment::END, |(at, _)| *at)
    }

    /// Whether it ended before the other began.
    pub fn is_before(&self, other: &Operation<A>) -> bool {
        self.returned() < other.called
    }

    /// Everything that it read and wrote, or may have written.
    pub fn accesses<'a>(&'a self, each: &mut dyn FnMut(Access<'a, A>)) {
        let reply = self.done().map(|(_, reply)| reply);
        self.action.accesses(reply, each);
    }
}

impl<Reply: Display, Refusal: Display> Display for Outcome<Reply, Refusal> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Outcome::Done(reply) => write!(f, "{reply}"),
            Outcome::Refused(refusal) => write!(f, "refused: {refusal}"),
            Outcome::Unknown => write!(f, "unknown"),
        }
    }
}

impl<A: Action> Display for Operation<A> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{} c{}", self.called, self.process)?;
        if let Some(session) = self.session {
            write!(f, "/s{session}")?;
        }
        let (endpoint, level, action) = (&self.endpoint, &self.level, &self.action);
        write!(f, " asks {endpoint}: {level} {action}")?;
        if let Some(name) = &self.name {
            write!(f, " as {name}")?;
        }
        match &self.end {
            None => write!(f, " => no answer"),
            Some((at, outcome)) => write!(f, " => {at} {outcome}"),
        }
    }
}
