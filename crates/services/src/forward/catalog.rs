//! The bytes of catalog commands and refusals, of the steps of domains, and of how a mode stands.

use bytes::Bytes;
use fader_chain::{ChainId, DecodeError, Reader};

use super::wire::{Wire, put_choice};
use super::{CatalogAnswer, CatalogQuestion, DomainMode};
use crate::call::Call;
use crate::catalog::{
    self, AccessKey, AccountId, Command, DomainEntry, KeyStatus, NameBuf, Refusal, Rights,
};
use crate::request::Request;
use crate::steps::{self, Action, Step};
use crate::{CollectionId, Failure, Kind, Rule, ViewError};

impl Wire for AccountId {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        Wire::read(reader).map(AccountId)
    }
}

impl Wire for DomainMode {
    fn put(&self, out: &mut Vec<u8>) {
        self.mode.put(out);
        self.absent.put(out);
        self.silent.put(out);
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(DomainMode {
            mode: Wire::read(reader)?,
            absent: Wire::read(reader)?,
            silent: Wire::read(reader)?,
        })
    }
}

impl Wire for KeyStatus {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            KeyStatus::Active => out.push(0),
            KeyStatus::Disabled => out.push(1),
        }
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(match reader.byte()? {
            0 => KeyStatus::Active,
            1 => KeyStatus::Disabled,
            _ => return Err(DecodeError::new("the status of a key")),
        })
    }
}

impl Wire for AccessKey {
    fn put(&self, out: &mut Vec<u8>) {
        self.id.put(out);
        self.account.put(out);
        self.sealed_secret.put(out);
        // As many bytes as an older process reads; one that does not know the rights refuses them.
        let mut status = Vec::new();
        self.status.put(&mut status);
        out.push(status[0] + catalog::rights_byte(self.rights));
        self.created_ms.put(out);
        self.note.put(out);
        self.preference.put(out);
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        let (id, account) = (Wire::read(reader)?, Wire::read(reader)?);
        let sealed_secret = Wire::read(reader)?;
        let (status, rights) = match reader.byte()? {
            0 => (KeyStatus::Active, Rights::All),
            1 => (KeyStatus::Disabled, Rights::All),
            2 => (KeyStatus::Active, Rights::Granted),
            3 => (KeyStatus::Disabled, Rights::Granted),
            _ => return Err(DecodeError::new("the status of a key")),
        };
        Ok(AccessKey {
            id,
            account,
            sealed_secret,
            status,
            rights,
            created_ms: Wire::read(reader)?,
            note: Wire::read(reader)?,
            preference: Wire::read(reader)?,
        })
    }
}

impl Wire for DomainEntry {
    fn put(&self, out: &mut Vec<u8>) {
        self.collection.0.put(out);
        self.mode.put(out);
        self.preference.put(out);
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(DomainEntry {
            collection: CollectionId(Wire::read(reader)?),
            mode: Wire::read(reader)?,
            preference: Wire::read(reader)?,
        })
    }
}

/// The choices of commands that are steps of domains: as version 3 of a cluster has them.
const FOUND: u8 = 5;
const RAZE: u8 = 6;
const SETTLE: u8 = 7;

/// A command as a request: of the catalog, or about a step of a domain.
pub(super) fn read_command(reader: &mut Reader) -> Result<Call, DecodeError> {
    let request = match reader.byte()? {
        choice @ FOUND..=SETTLE => Request::Step(read_step(choice, reader)?),
        choice => Request::Catalog(read_choice(choice, reader)?),
    };
    let mut call = Call::of_node(request);
    if let Request::Catalog(Command::SetMode { name, .. }) = &call.request {
        call.account = name.account.clone();
    }
    Ok(call)
}

/// Writes a command about a step of a domain as one of the catalog. Says whether it is one.
pub(super) fn put_step(out: &mut Vec<u8>, command: &steps::Command) -> bool {
    let step = command.step();
    let (name, entry, is_gone) = match &step.action {
        Action::Found(name, entry) => (name, Some(entry), false),
        Action::Raze(name, _) => (name, None, true),
        Action::Queue(_) | Action::Free(..) => return false,
        #[cfg(feature = "counter")]
        Action::Counter(_) => return false,
    };
    if name.kind != Kind::Domain {
        return false;
    }
    out.push(2);
    let (account, domain) = (&name.account, &name.name);
    match (command, entry) {
        (steps::Command::Settle(..), _) => {
            put_choice(out, SETTLE, &[account, domain, &step.number, &is_gone]);
        }
        (steps::Command::Take(..), Some(entry)) => {
            put_choice(out, FOUND, &[account, domain, entry]);
        }
        (steps::Command::Take(..), None) => {
            put_choice(out, RAZE, &[account, domain, &step.number]);
        }
    }
    true
}

/// The number of such a step is that of its collection. Its chain is the one that is asked.
fn read_step(choice: u8, reader: &mut Reader) -> Result<steps::Command, DecodeError> {
    let name = NameBuf {
        kind: Kind::Domain,
        account: Wire::read(reader)?,
        name: Wire::read(reader)?,
    };
    let found = |entry: DomainEntry, name| (entry.collection, Action::Found(name, entry));
    let ((collection, action), is_settled) = match choice {
        FOUND => (found(Wire::read(reader)?, name), false),
        RAZE => {
            let collection = CollectionId::read(reader)?;
            ((collection, Action::Raze(name, collection)), false)
        }
        _ => {
            let collection = CollectionId::read(reader)?;
            let of = match bool::read(reader)? {
                true => (collection, Action::Raze(name, collection)),
                // Of the entry the settlement needs the collection alone.
                false => found(DomainEntry::strong(collection), name),
            };
            (of, true)
        }
    };
    let step = Step {
        number: collection.0,
        to: ChainId::SYSTEM,
        floor: 0,
        action,
    };
    Ok(match is_settled {
        true => steps::Command::Settle(step, Bytes::new()),
        false => steps::Command::Take(ChainId::SYSTEM, step),
    })
}

impl Wire for Command {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Command::CreateKey(key) => put_choice(out, 0, &[key]),
            Command::SetKeyStatus { id, status } => put_choice(out, 1, &[id, status]),
            Command::SetKeyPreference { id, preference } => put_choice(out, 2, &[id, preference]),
            Command::RotateKey { id, replacement } => put_choice(out, 3, &[id, replacement]),
            Command::SetMode {
                name,
                mode,
                abandon,
            } if name.kind == Kind::Domain => {
                put_choice(out, 4, &[&name.account, &name.name, mode, abandon]);
            }
            Command::SetMode {
                name,
                mode,
                abandon,
            } => put_choice(out, 8, &[name, mode, abandon]),
            Command::Confirm => out.push(9),
        }
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        read_choice(reader.byte()?, reader)
    }
}

fn read_choice(choice: u8, reader: &mut Reader) -> Result<Command, DecodeError> {
    Ok(match choice {
        0 => Command::CreateKey(Wire::read(reader)?),
        1 => Command::SetKeyStatus {
            id: Wire::read(reader)?,
            status: Wire::read(reader)?,
        },
        2 => Command::SetKeyPreference {
            id: Wire::read(reader)?,
            preference: Wire::read(reader)?,
        },
        3 => Command::RotateKey {
            id: Wire::read(reader)?,
            replacement: Wire::read(reader)?,
        },
        4 => Command::SetMode {
            name: NameBuf {
                kind: Kind::Domain,
                account: Wire::read(reader)?,
                name: Wire::read(reader)?,
            },
            mode: Wire::read(reader)?,
            abandon: Wire::read(reader)?,
        },
        8 => Command::SetMode {
            name: Wire::read(reader)?,
            mode: Wire::read(reader)?,
            abandon: Wire::read(reader)?,
        },
        9 => Command::Confirm,
        _ => return Err(DecodeError::new("a catalog command")),
    })
}

impl Wire for catalog::Done {
    fn put(&self, _out: &mut Vec<u8>) {}

    fn read(_reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(catalog::Done)
    }
}

impl Wire for ViewError {
    fn put(&self, out: &mut Vec<u8>) {
        self.to_string().put(out);
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        Wire::read(reader).map(|words| ViewError::Told { words })
    }
}

impl Wire for Refusal {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Refusal::NoSuchKey(id) => put_choice(out, 0, &[id]),
            Refusal::KeyExists(id) => put_choice(out, 1, &[id]),
            Refusal::Invalid(why) => put_choice(out, 2, &[&why.to_string()]),
            Refusal::View(error) => put_choice(out, 3, &[&error.to_string()]),
            Refusal::Unavailable(why) => put_choice(out, 3, &[&why.to_string()]),
            Refusal::NoSuchDomain(name) => put_choice(out, 4, &[name]),
        }
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(match reader.byte()? {
            0 => Refusal::NoSuchKey(Wire::read(reader)?),
            1 => Refusal::KeyExists(Wire::read(reader)?),
            2 => Rule::Told(Wire::read(reader)?).into(),
            3 => Failure::read(reader)?.into(),
            4 => Refusal::NoSuchDomain(Wire::read(reader)?),
            _ => return Err(DecodeError::new("a refusal of the catalog")),
        })
    }
}

impl Wire for CatalogQuestion {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            CatalogQuestion::Name(name) => put_choice(out, 0, &[name]),
            CatalogQuestion::Key(id) => put_choice(out, 1, &[id]),
            CatalogQuestion::Keys => out.push(2),
            CatalogQuestion::Attempt(name, id) => put_choice(out, 3, &[name, id]),
        }
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(match reader.byte()? {
            0 => CatalogQuestion::Name(Wire::read(reader)?),
            1 => CatalogQuestion::Key(Wire::read(reader)?),
            2 => CatalogQuestion::Keys,
            3 => CatalogQuestion::Attempt(Wire::read(reader)?, Wire::read(reader)?),
            _ => return Err(DecodeError::new("a question about the catalog")),
        })
    }
}

impl Wire for CatalogAnswer {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            CatalogAnswer::Name(row) => put_choice(out, 0, &[row]),
            CatalogAnswer::Key(key) => put_choice(out, 1, &[key]),
            CatalogAnswer::Keys(keys) => put_choice(out, 2, &[keys]),
            CatalogAnswer::Attempt(attempt) => put_choice(out, 3, &[attempt]),
        }
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(match reader.byte()? {
            0 => CatalogAnswer::Name(Wire::read(reader)?),
            1 => CatalogAnswer::Key(Wire::read(reader)?),
            2 => CatalogAnswer::Keys(Wire::read(reader)?),
            3 => CatalogAnswer::Attempt(Wire::read(reader)?),
            _ => return Err(DecodeError::new("what the catalog has")),
        })
    }
}
