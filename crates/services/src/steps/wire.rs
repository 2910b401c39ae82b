//! The bytes of steps, in records and between nodes.

use fader_chain::{ChainId, DecodeError, Reader};

use crate::catalog::{AccountId, NameBuf, read_kind};
use crate::forward::wire::{Wire, put_choice};
use crate::steps::{Action, Command, Refusal, Step, Taken};
use crate::{CollectionId, Rule};

impl Wire for ChainId {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        Wire::read(reader).map(ChainId)
    }
}

impl Wire for CollectionId {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        Wire::read(reader).map(CollectionId)
    }
}

impl Wire for NameBuf {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(self.kind.byte());
        self.account.put(out);
        self.name.put(out);
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(NameBuf {
            kind: read_kind(reader)?,
            account: AccountId::read(reader)?,
            name: Wire::read(reader)?,
        })
    }
}

impl Wire for Action {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Action::Found(name, entry) => put_choice(out, 0, &[name, entry]),
            Action::Raze(name, collection) => put_choice(out, 1, &[name, collection]),
            Action::Queue(step) => put_choice(out, 2, &[step]),
            Action::Free(name, collection) => put_choice(out, 3, &[name, collection]),
            #[cfg(feature = "counter")]
            Action::Counter(transfer) => put_choice(out, 255, &[transfer]),
        }
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(match reader.byte()? {
            0 => Action::Found(Wire::read(reader)?, Wire::read(reader)?),
            1 => Action::Raze(Wire::read(reader)?, Wire::read(reader)?),
            2 => Action::Queue(Wire::read(reader)?),
            3 => Action::Free(Wire::read(reader)?, Wire::read(reader)?),
            #[cfg(feature = "counter")]
            255 => Action::Counter(Wire::read(reader)?),
            _ => return Err(DecodeError::new("what a step does")),
        })
    }
}

impl Wire for Step {
    fn put(&self, out: &mut Vec<u8>) {
        self.number.put(out);
        self.to.put(out);
        self.floor.put(out);
        self.action.put(out);
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Step {
            number: Wire::read(reader)?,
            to: Wire::read(reader)?,
            floor: Wire::read(reader)?,
            action: Wire::read(reader)?,
        })
    }
}

impl Wire for Command {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Command::Take(origin, step) => put_choice(out, 0, &[origin, step]),
            Command::Settle(step, outcome) => put_choice(out, 1, &[step, outcome]),
        }
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(match reader.byte()? {
            0 => Command::Take(Wire::read(reader)?, Wire::read(reader)?),
            1 => Command::Settle(Wire::read(reader)?, Wire::read(reader)?),
            _ => return Err(DecodeError::new("a command about a step")),
        })
    }
}

impl Wire for Taken {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Taken::Done(outcome) => put_choice(out, 0, &[outcome]),
            Taken::Passed => out.push(1),
        }
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(match reader.byte()? {
            0 => Taken::Done(Wire::read(reader)?),
            1 => Taken::Passed,
            _ => return Err(DecodeError::new("what came of a step")),
        })
    }
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
            _ => return Err(DecodeError::new("the refusal of a step")),
        })
    }
}
