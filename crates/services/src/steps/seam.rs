//! Steps across chains as a service among others: both commands are strong writes.

use bytes::Bytes;
use fader_chain::{DecodeError, ViewError};

use crate::catalog;
use crate::level::{Bound, ConsistencyOptions, DefaultConsistency, Level};
use crate::request::Limits;
use crate::service::{Class, Context, Meaning, Outcome, Service, Target, Trouble, Wait};
use crate::steps::{self, Command, Taken};
use crate::{Decision, Failure, Mode, Rule, View};

/// Steps across chains.
#[derive(Debug)]
pub enum Steps {}

/// Why a command was refused: nothing is known of what came of its step.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Not now, or the store could not be read.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// It is no command that can be carried out.
    #[error(transparent)]
    Invalid(#[from] Rule),
}

impl From<ViewError> for Refusal {
    fn from(error: ViewError) -> Self {
        Refusal::Failed(error.into())
    }
}

/// The refusal of a command that travelled as one of the catalog.
impl From<catalog::Refusal> for Refusal {
    fn from(refusal: catalog::Refusal) -> Self {
        match refusal {
            catalog::Refusal::View(error) => error.into(),
            catalog::Refusal::Unavailable(why) => Failure::from(why).into(),
            catalog::Refusal::Invalid(why) => why.into(),
            other => Rule::Told(other.to_string()).into(),
        }
    }
}

impl From<Refusal> for catalog::Refusal {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Failed(failure) => failure.into(),
            Refusal::Invalid(why) => why.into(),
        }
    }
}

impl Service for Steps {
    type Request = Command;
    type Reply = Taken;
    type Refusal = Refusal;
    type Limits = Limits;

    fn class(_command: &Command) -> Class {
        Class::Write
    }

    /// The chain is the step's own word, and no name's.
    fn target(_command: &Command) -> Target<'_> {
        Target::System
    }

    fn size(command: &Command) -> usize {
        match command {
            Command::Take(..) => size_of::<steps::Step>(),
            Command::Settle(_, outcome) => size_of::<steps::Step>() + outcome.len(),
        }
    }

    fn effective_level(
        _mode: Option<Mode>,
        _of_collection: Option<DefaultConsistency>,
        _demand: &ConsistencyOptions,
        _command: &Command,
    ) -> Result<(Level, Option<Bound>), Refusal> {
        Ok((Level::Strong, None))
    }

    fn decide(
        view: &dyn View,
        context: &Context<'_, Limits>,
        command: &Command,
    ) -> Result<Decision<Outcome<Self>>, Wait> {
        let decided = match command {
            Command::Take(origin, step) => steps::take(view, context.guards, *origin, step),
            Command::Settle(step, outcome) => {
                let changes = steps::settle(view, step, outcome);
                changes.map(|changes| Decision {
                    outcome: Taken::Done(outcome.clone()),
                    changes,
                })
            }
        };
        Ok(match decided {
            Ok(Decision { outcome, changes }) => Decision {
                outcome: Ok(outcome),
                changes,
            },
            Err(error) => Decision {
                outcome: Err(error.into()),
                changes: Vec::new(),
            },
        })
    }

    fn answer(
        _view: &dyn View,
        _context: &Context<'_, Limits>,
        _command: &Command,
    ) -> Outcome<Self> {
        Err(Rule::ReadsOnly.into())
    }

    fn word(trouble: Trouble) -> Refusal {
        Rule::of(trouble).map_or_else(Refusal::from, Refusal::from)
    }

    fn meaning(refusal: &Refusal) -> Meaning {
        match refusal {
            Refusal::Failed(failure) => failure.meaning(),
            Refusal::Invalid(_) => Meaning::Final,
        }
    }

    fn depends_on_state(_refusal: &Refusal) -> bool {
        false
    }

    /// Nothing is kept of a command: it may be carried out again.
    fn keep(_outcome: Result<&Taken, &Refusal>) -> Option<Bytes> {
        None
    }

    fn kept(_bytes: Bytes) -> Result<Outcome<Self>, DecodeError> {
        Err(DecodeError::new("the outcome of a step"))
    }
}
