//! Exports as a service among others, on the system chain.

use bytes::Bytes;
use fader_chain::DecodeError;

use crate::exports::{self, Code, Command, Error, Limits, Reply};
use crate::level::{Bound, ConsistencyOptions, DefaultConsistency, Level};
use crate::service::{Class, Context, Meaning, Outcome, Service, Target, Trouble, Wait};
use crate::{Decision, Mode, View};

/// Exports of domains.
#[derive(Debug)]
pub enum Exports {}

impl Service for Exports {
    type Request = Command;
    type Reply = Reply;
    type Refusal = Error;
    type Limits = Limits;

    fn class(command: &Command) -> Class {
        match command.is_write() {
            true => Class::Conditional,
            false => Class::Scan,
        }
    }

    fn target(_command: &Command) -> Target<'_> {
        Target::System
    }

    fn size(command: &Command) -> usize {
        match command {
            Command::Start(it) => {
                let prefix = it.place.prefix.as_ref().map_or(0, String::len);
                it.token.len() + it.domain.len() + it.place.bucket.len() + prefix
            }
            Command::Get(arn) => arn.len(),
            Command::List(it) => it.next.as_ref().map_or(0, Bytes::len),
            _ => 256,
        }
    }

    fn effective_level(
        _mode: Option<Mode>,
        _of_collection: Option<DefaultConsistency>,
        _demand: &ConsistencyOptions,
        _command: &Command,
    ) -> Result<(Level, Option<Bound>), Error> {
        Ok((Level::Strong, None))
    }

    fn decide(
        view: &dyn View,
        context: &Context<'_, Limits>,
        command: &Command,
    ) -> Result<Decision<Outcome<Self>>, Wait> {
        let (outcome, changes) = match exports::decide(view, context, command) {
            Ok((reply, changes)) => (Ok(reply), changes),
            Err(error) => (Err(error), Vec::new()),
        };
        Ok(Decision { outcome, changes })
    }

    fn answer(view: &dyn View, context: &Context<'_, Limits>, command: &Command) -> Outcome<Self> {
        exports::answer(view, context, command)
    }

    fn word(trouble: Trouble) -> Error {
        match trouble {
            Trouble::Unavailable(why) => Error {
                reason: Some(why.reason),
                ..Error::new(Code::ServiceUnavailable, why.to_string())
            },
            Trouble::NoCollection => Error::no_such_domain(),
            Trouble::Unreadable(error) => error.into(),
            other => Error::new(Code::InvalidParameterValue, other.sentence()),
        }
    }

    fn meaning(error: &Error) -> Meaning {
        match error.code {
            Code::InternalFailure => Meaning::Unreadable,
            _ => error.reason.map_or(Meaning::Final, Meaning::Later),
        }
    }

    fn depends_on_state(error: &Error) -> bool {
        matches!(
            error.code,
            Code::NoSuchDomain | Code::Conflict | Code::NumberExportsLimitExceeded | Code::NotYours
        )
    }

    /// Nothing is kept: a request is repeated under its token.
    fn keep(_outcome: Result<&Reply, &Error>) -> Option<Bytes> {
        None
    }

    fn kept(_bytes: Bytes) -> Result<Outcome<Self>, DecodeError> {
        Err(DecodeError::new("the outcome of a command about exports"))
    }
}
