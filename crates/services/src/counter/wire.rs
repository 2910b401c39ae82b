//! The bytes of counters' requests, replies and refusals.

use fader_chain::{DecodeError, Reader};

use crate::Rule;
use crate::counter::{Refusal, Reply, Request, Transfer};
use crate::forward::wire::{Wire, put_choice};

impl Wire for Request {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Request::Create(name) => put_choice(out, 0, &[name]),
            Request::Delete(name) => put_choice(out, 1, &[name]),
            Request::Add { name, by, limit } => put_choice(out, 2, &[name, by, limit]),
            Request::Read(name) => put_choice(out, 3, &[name]),
            Request::Wait {
                name,
                least,
                until_ms,
            } => put_choice(out, 4, &[name, least, until_ms]),
            Request::Move {
                name,
                to,
                by,
                limit,
            } => put_choice(out, 5, &[name, to, by, limit]),
        }
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        let choice = reader.byte()?;
        let name = Wire::read(reader)?;
        Ok(match choice {
            0 => Request::Create(name),
            1 => Request::Delete(name),
            2 => Request::Add {
                name,
                by: Wire::read(reader)?,
                limit: Wire::read(reader)?,
            },
            3 => Request::Read(name),
            4 => Request::Wait {
                name,
                least: Wire::read(reader)?,
                until_ms: Wire::read(reader)?,
            },
            5 => Request::Move {
                name,
                to: Wire::read(reader)?,
                by: Wire::read(reader)?,
                limit: Wire::read(reader)?,
            },
            _ => return Err(DecodeError::new("a counter's request")),
        })
    }
}

impl Wire for Reply {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Reply::Done => out.push(0),
            Reply::Value(value) => put_choice(out, 1, &[value]),
            Reply::Moving(step) => put_choice(out, 2, &[step]),
        }
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(match reader.byte()? {
            0 => Reply::Done,
            1 => Reply::Value(Wire::read(reader)?),
            2 => Reply::Moving(Wire::read(reader)?),
            _ => return Err(DecodeError::new("a counter's reply")),
        })
    }
}

impl Wire for Refusal {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Refusal::NoCounter => out.push(0),
            Refusal::Value(value) => put_choice(out, 1, &[value]),
            Refusal::NotMoved => out.push(2),
            Refusal::Failed(why) => put_choice(out, 3, &[why]),
            Refusal::Invalid(why) => put_choice(out, 4, &[&why.to_string()]),
        }
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(match reader.byte()? {
            0 => Refusal::NoCounter,
            1 => Refusal::Value(Wire::read(reader)?),
            2 => Refusal::NotMoved,
            3 => Refusal::Failed(Wire::read(reader)?),
            4 => Rule::Told(Wire::read(reader)?).into(),
            _ => return Err(DecodeError::new("a counter's refusal")),
        })
    }
}

impl Wire for Transfer {
    fn put(&self, out: &mut Vec<u8>) {
        self.from.put(out);
        self.to.put(out);
        self.by.put(out);
        self.limit.put(out);
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Transfer {
            from: Wire::read(reader)?,
            to: Wire::read(reader)?,
            by: Wire::read(reader)?,
            limit: Wire::read(reader)?,
        })
    }
}
