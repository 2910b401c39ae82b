//! Operations about one segment that wait for their answers.

use std::time::Duration;

use futures_channel::oneshot;

use super::names::Holding;
use super::state::{Answer, Operation, Seen};
use crate::error::{Error, ErrorKind, Result, like};
use crate::queues::Received;

/// What a claim came to.
#[derive(Debug)]
pub(super) enum Claimed {
    /// Messages, and until when they are held by the process's monotonic clock.
    Messages(Vec<Received>, Duration),
    /// Another process was faster, or has removed the messages.
    Nothing,
    /// The write's answer was lost, and the state does not show the claim (BQUEUE-6).
    GivenUp,
    /// No message is visible by what is known of the store's time.
    Hidden,
}

/// An operation with the way to its answer.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) operation: Operation,
    pub(super) reply: Reply,
}

#[derive(Debug)]
pub(super) enum Reply {
    Claim(oneshot::Sender<Result<Claimed>>),
    Write(oneshot::Sender<Result<()>>),
}

impl Reply {
    pub(super) fn fail(self, error: Error) {
        // The caller may have gone.
        let _ = match self {
            Reply::Claim(reply) => reply.send(Err(error)).is_ok(),
            Reply::Write(reply) => reply.send(Err(error)).is_ok(),
        };
    }

    pub(super) fn done(self) {
        let _ = match self {
            Reply::Claim(reply) => reply.send(Ok(Claimed::Nothing)).is_ok(),
            Reply::Write(reply) => reply.send(Ok(())).is_ok(),
        };
    }
}

/// How often the same operations were written.
#[derive(Debug, Default)]
pub(super) struct Tries {
    /// Others were faster.
    pub(super) races: u32,
    /// The answer was lost.
    pub(super) unknown: u32,
}

impl Tries {
    pub(super) fn is_first(&self) -> bool {
        self.races + self.unknown == 0
    }
}

/// An operation that a write will grant, and the messages that it claims.
pub(super) type Pending = (Waiting, Vec<(usize, u64)>);

/// Whether an operation can be decided without a look for a state: a peek that found none.
pub(super) fn needs_no_state(one: &Waiting) -> bool {
    let holding = Holding::Peek { had_state: false };
    matches!(one.operation, Operation::Remove { holding: known, .. } if known == holding)
}

/// Answers what needs no write.
pub(super) fn settle(waiting: Vec<Waiting>, answers: Vec<Answer>, seen: &Seen) -> Vec<Pending> {
    let mut pending = Vec::new();
    for (one, answer) in waiting.into_iter().zip(answers) {
        match (answer, one.reply) {
            (Answer::OnWrite(claimed), reply) => pending.push((Waiting { reply, ..one }, claimed)),
            (Answer::Done, reply) => reply.done(),
            (Answer::Refused(error), reply) => reply.fail(error),
            (Answer::Nothing, Reply::Claim(reply)) => {
                let is_hidden = seen.state.entries.iter().any(|entry| !entry.is_removed);
                let nothing = match is_hidden {
                    true => Claimed::Hidden,
                    false => Claimed::Nothing,
                };
                let _ = reply.send(Ok(nothing));
            }
            (Answer::Nothing, reply) => reply.done(),
        }
    }
    pending
}

/// The operations to decide again. Claims are not: their receives look at other segments.
pub(super) fn again(pending: Vec<Pending>, give_up: impl Fn(&Operation, Reply)) -> Vec<Waiting> {
    let mut waiting = Vec::new();
    for (one, _) in pending {
        match one.operation {
            Operation::Claim { .. } => give_up(&one.operation, one.reply),
            _ => waiting.push(one),
        }
    }
    waiting
}

impl Reply {
    /// The end of a claim whose write got no answer, and is not seen to have landed.
    pub(super) fn give_up(_: &Operation, reply: Reply) {
        match reply {
            // The caller may have gone.
            Reply::Claim(reply) => drop(reply.send(Ok(Claimed::GivenUp))),
            reply => reply.done(),
        }
    }

    /// The end of a claim whose write failed: messages may be hidden for a while.
    pub(super) fn fail_unknown(_: &Operation, reply: Reply) {
        let context = "the claim may have hidden messages, which come again";
        reply.fail(Error::new(ErrorKind::Ambiguous, context));
    }
}

pub(super) fn fail_all(waiting: Vec<Waiting>, error: &Error, is_ambiguous: bool) {
    for one in waiting {
        let mut error = like(error);
        if is_ambiguous {
            error.kind = ErrorKind::Ambiguous;
        }
        one.reply.fail(error);
    }
}
