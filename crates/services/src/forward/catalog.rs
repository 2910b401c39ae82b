//! The bytes of catalog commands and refusals, and of how a mode stands.

use fader_chain::{DecodeError, Reader};

use super::DomainMode;
use super::wire::{Wire, put_choice};
use crate::catalog::{AccessKey, AccountId, Command, DomainEntry, KeyStatus, Refusal};
use crate::{CollectionId, ViewError};

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
        self.away.put(out);
        self.silent.put(out);
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(DomainMode {
            mode: Wire::read(reader)?,
            away: Wire::read(reader)?,
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
        self.status.put(out);
        self.created_ms.put(out);
        self.note.put(out);
        self.preference.put(out);
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(AccessKey {
            id: Wire::read(reader)?,
            account: Wire::read(reader)?,
            sealed_secret: Wire::read(reader)?,
            status: Wire::read(reader)?,
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

impl Wire for Command {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Command::CreateKey(key) => put_choice(out, 0, &[key]),
            Command::SetKeyStatus { id, status } => put_choice(out, 1, &[id, status]),
            Command::SetKeyPreference { id, preference } => put_choice(out, 2, &[id, preference]),
            Command::RotateKey { id, replacement } => put_choice(out, 3, &[id, replacement]),
            Command::SetMode {
                account,
                domain,
                mode,
                abandon,
            } => put_choice(out, 4, &[account, domain, mode, abandon]),
            Command::Found {
                account,
                domain,
                entry,
            } => put_choice(out, 5, &[account, domain, entry]),
            Command::Raze {
                account,
                domain,
                collection,
            } => put_choice(out, 6, &[account, domain, &collection.0]),
            Command::Settle {
                account,
                domain,
                collection,
                is_gone,
            } => put_choice(out, 7, &[account, domain, &collection.0, is_gone]),
        }
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(match reader.byte()? {
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
                account: Wire::read(reader)?,
                domain: Wire::read(reader)?,
                mode: Wire::read(reader)?,
                abandon: Wire::read(reader)?,
            },
            5 => Command::Found {
                account: Wire::read(reader)?,
                domain: Wire::read(reader)?,
                entry: Wire::read(reader)?,
            },
            6 => Command::Raze {
                account: Wire::read(reader)?,
                domain: Wire::read(reader)?,
                collection: CollectionId(Wire::read(reader)?),
            },
            7 => Command::Settle {
                account: Wire::read(reader)?,
                domain: Wire::read(reader)?,
                collection: CollectionId(Wire::read(reader)?),
                is_gone: Wire::read(reader)?,
            },
            _ => return Err(DecodeError::new("a catalog command")),
        })
    }
}

impl Wire for ViewError {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        Wire::read(reader).map(ViewError)
    }
}

impl Wire for Refusal {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Refusal::NoSuchKey(id) => put_choice(out, 0, &[id]),
            Refusal::KeyExists(id) => put_choice(out, 1, &[id]),
            Refusal::Invalid(why) => put_choice(out, 2, &[why]),
            Refusal::View(error) => put_choice(out, 3, &[error]),
            Refusal::NoSuchDomain(name) => put_choice(out, 4, &[name]),
        }
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(match reader.byte()? {
            0 => Refusal::NoSuchKey(Wire::read(reader)?),
            1 => Refusal::KeyExists(Wire::read(reader)?),
            2 => Refusal::Invalid(Wire::read(reader)?),
            3 => Refusal::View(Wire::read(reader)?),
            4 => Refusal::NoSuchDomain(Wire::read(reader)?),
            _ => return Err(DecodeError::new("a refusal of the catalog")),
        })
    }
}
