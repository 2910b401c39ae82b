//! Blocks as a service among others: all commands are strong writes, and may be repeated.

use bytes::Bytes;
use fader_chain::{DecodeError, Reader, ViewError};

use crate::blocks::{self, Command, ROWS_MAX};
use crate::forward::wire::{Wire, put_choice};
use crate::level::{Bound, ConsistencyOptions, DefaultConsistency, Level};
use crate::service::{Class, Context, Meaning, Outcome, Service, Target, Trouble, Wait};
use crate::{Decision, Failure, Mode, Rule, View};

/// Blocks.
#[derive(Debug)]
pub enum Blocks {}

/// A command was carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done;

impl Wire for Done {
    fn put(&self, _out: &mut Vec<u8>) {}

    fn read(_reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Done)
    }
}

/// Why a command was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Not now, or the store could not be read.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// It is no command that can be carried out.
    #[error(transparent)]
    Invalid(#[from] Rule),
}

impl Wire for Refusal {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Refusal::Failed(why) => put_choice(out, 0, &[why]),
            Refusal::Invalid(why) => put_choice(out, 1, &[&why.to_string()]),
        }
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(match reader.byte()? {
            0 => Refusal::Failed(Wire::read(reader)?),
            1 => Rule::Told(Wire::read(reader)?).into(),
            _ => return Err(DecodeError::new("the refusal of blocks")),
        })
    }
}

impl From<ViewError> for Refusal {
    fn from(error: ViewError) -> Self {
        Refusal::Failed(error.into())
    }
}

impl Service for Blocks {
    type Request = Command;
    type Reply = Done;
    type Refusal = Refusal;
    type Limits = blocks::Limits;

    fn class(_command: &Command) -> Class {
        Class::Write
    }

    /// The chain is the block's own word, and no name's.
    fn target(_command: &Command) -> Target<'_> {
        Target::System
    }

    fn size(command: &Command) -> usize {
        command.count() * size_of::<blocks::NewRow>()
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
        context: &Context<'_, blocks::Limits>,
        command: &Command,
    ) -> Result<Decision<Outcome<Self>>, Wait> {
        let decided = match command.count() <= ROWS_MAX {
            true => {
                blocks::decide(view, context.limits, context.now_ms, command).map_err(Refusal::from)
            }
            false => Err(Rule::BlockCount.into()),
        };
        let (outcome, changes) = match decided {
            Ok(changes) => (Ok(Done), changes),
            Err(refusal) => (Err(refusal), Vec::new()),
        };
        Ok(Decision { outcome, changes })
    }

    fn answer(
        _view: &dyn View,
        _context: &Context<'_, blocks::Limits>,
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
    fn keep(_outcome: Result<&Done, &Refusal>) -> Option<Bytes> {
        None
    }

    fn kept(_bytes: Bytes) -> Result<Outcome<Self>, DecodeError> {
        Err(DecodeError::new("the outcome of a command about blocks"))
    }
}
