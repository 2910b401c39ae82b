//! The catalog as a service among others: every command is a strong write.

use bytes::Bytes;
use fader_chain::{DecodeError, Reader};

use crate::catalog::{self, Command, Refusal};
use crate::level::{Bound, ConsistencyOptions, DefaultConsistency, Level};
use crate::service::{Class, Context, Meaning, Outcome, Service, Target, Trouble, Wait};
use crate::{Decision, Mode, Reason, Rule, View};

/// The catalog.
#[derive(Debug)]
pub enum Catalog {}

/// A command was carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done;

impl Service for Catalog {
    type Request = Command;
    type Reply = Done;
    type Refusal = Refusal;
    type Limits = ();

    fn class(command: &Command) -> Class {
        match command {
            Command::Confirm => Class::Scan,
            _ => Class::Write,
        }
    }

    fn target(command: &Command) -> Target<'_> {
        match command {
            Command::SetMode { name, .. } => Target::Of(name.kind, &name.name),
            _ => Target::System,
        }
    }

    fn size(command: &Command) -> usize {
        match command {
            Command::CreateKey(key) => key.sealed_secret.len() + key.note.len(),
            Command::RotateKey { id, replacement } => {
                id.len() + replacement.sealed_secret.len() + replacement.note.len()
            }
            Command::SetKeyStatus { id, .. } | Command::SetKeyPreference { id, .. } => id.len(),
            Command::SetMode { name, .. } => name.name.len(),
            Command::Confirm => 0,
        }
    }

    fn effective_level(
        _mode: Option<Mode>,
        _of_collection: Option<DefaultConsistency>,
        consistency: &ConsistencyOptions,
        _command: &Command,
    ) -> Result<(Level, Option<Bound>), Refusal> {
        match consistency.level {
            Level::Default | Level::Strong => Ok((Level::Strong, None)),
            Level::Barrier | Level::Eventual { .. } => Err(Rule::StrongOnly.into()),
        }
    }

    fn decide(
        view: &dyn View,
        _context: &Context<'_, ()>,
        command: &Command,
    ) -> Result<Decision<Outcome<Self>>, Wait> {
        let Decision { outcome, changes } = catalog::decide(view, command);
        Ok(Decision {
            outcome: outcome.map(|()| Done),
            changes,
        })
    }

    fn answer(
        _view: &dyn View,
        _context: &Context<'_, ()>,
        command: &Command,
    ) -> Result<Done, Refusal> {
        if let Command::Confirm = command {
            return Ok(Done);
        }
        Err(Rule::ReadsOnly.into())
    }

    fn word(trouble: Trouble) -> Refusal {
        match trouble {
            Trouble::NoCollection => Refusal::NoSuchDomain(String::new()),
            other => Rule::of(other).map_or_else(Refusal::from, Refusal::from),
        }
    }

    fn meaning(refusal: &Refusal) -> Meaning {
        match refusal {
            Refusal::NoSuchDomain(_) => Meaning::NoCollection,
            Refusal::View(_) => Meaning::Unreadable,
            Refusal::Unavailable(why) => match why.reason {
                Reason::Store => Meaning::Unreadable,
                reason => Meaning::Later(reason),
            },
            Refusal::NoSuchKey(_) | Refusal::KeyExists(_) | Refusal::Invalid(_) => Meaning::Final,
        }
    }

    /// A refused command is answered at its own commit, for any reason of the refusal.
    fn depends_on_state(_refusal: &Refusal) -> bool {
        true
    }

    /// Nothing is kept of a command: repeated it changes nothing and succeeds.
    fn keep(_outcome: Result<&Done, &Refusal>) -> Option<Bytes> {
        None
    }

    fn kept(bytes: Bytes) -> Result<Outcome<Self>, DecodeError> {
        Reader::new(bytes).end()?;
        Err(DecodeError::new("the outcome of a command"))
    }
}
