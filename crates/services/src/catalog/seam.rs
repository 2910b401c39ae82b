//! The catalog as a service among others: every command is a strong write.

use bytes::Bytes;
use fader_chain::{DecodeError, Reader};

use crate::catalog::{self, Command, Refusal};
use crate::level::{Bound, ConsistencyOptions, DefaultConsistency, Level, show_name};
use crate::service::{
    Class, Context, Meaning, NAME_TOO_FAR, Outcome, Service, Target, Trouble, Wait,
};
use crate::{Decision, Mode, Reason, View};

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
            Level::Barrier | Level::Eventual { .. } => {
                let message = "the catalog is changed strongly only";
                Err(Refusal::Invalid(message.to_owned()))
            }
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
        let message = "a command was sent where only reads are answered";
        Err(Refusal::Invalid(message.to_owned()))
    }

    fn word(trouble: Trouble) -> Refusal {
        match trouble {
            Trouble::Unavailable { reason, words } => Refusal::Unavailable { reason, words },
            Trouble::Unreadable(error) => Refusal::View(error),
            Trouble::NoCollection => Refusal::NoSuchDomain(String::new()),
            Trouble::NameTaken => {
                Refusal::Invalid("the request's name is that of another request".to_owned())
            }
            Trouble::NameTooFar => Refusal::Invalid(NAME_TOO_FAR.to_owned()),
            Trouble::Quorum { name, size, .. } => {
                Refusal::Invalid(format!("{name} must be between 1 and {size}"))
            }
            Trouble::StrangeToken => {
                Refusal::Invalid("the session's token is not one of this account".to_owned())
            }
            Trouble::Lost(name) => {
                Refusal::Invalid(format!("the write {} is lost", show_name(&name)))
            }
            Trouble::Forgotten => Refusal::Invalid("what this session has seen is lost".to_owned()),
        }
    }

    fn meaning(refusal: &Refusal) -> Meaning {
        match refusal {
            Refusal::NoSuchDomain(_) => Meaning::NoCollection,
            Refusal::View(_)
            | Refusal::Unavailable {
                reason: Reason::Store,
                ..
            } => Meaning::Unreadable,
            Refusal::Unavailable { reason, .. } => Meaning::Later(*reason),
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
