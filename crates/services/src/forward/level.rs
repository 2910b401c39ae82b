//! The bytes of what a request asks of consistency and of what its reply tells.

use fader_chain::{DecodeError, Reader};

use super::wire::{Wire, put_choice};
use crate::level::{
    Bound, Cause, ConsistencyOptions, DefaultConsistency, Level, Outcome, Outcomes, ReplyMetadata,
    SettlementNotice,
};
use crate::{CollectionId, Mode};

impl Wire for Mode {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(self.byte());
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        Mode::from_byte(reader.byte()?).ok_or_else(|| DecodeError::new("a mode"))
    }
}

impl Wire for Level {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Level::Default => out.push(0),
            Level::Strong => out.push(1),
            Level::Barrier => out.push(2),
            Level::Eventual { r, w, sloppy } => put_choice(out, 3, &[r, w, sloppy]),
        }
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(match reader.byte()? {
            0 => Level::Default,
            1 => Level::Strong,
            2 => Level::Barrier,
            3 => Level::Eventual {
                r: Wire::read(reader)?,
                w: Wire::read(reader)?,
                sloppy: Wire::read(reader)?,
            },
            _ => return Err(DecodeError::new("a level")),
        })
    }
}

impl Wire for Bound {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Bound::Millis(millis) => put_choice(out, 0, &[millis]),
            Bound::Versions(versions) => put_choice(out, 1, &[versions]),
        }
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(match reader.byte()? {
            0 => Bound::Millis(Wire::read(reader)?),
            1 => Bound::Versions(Wire::read(reader)?),
            _ => return Err(DecodeError::new("a bound")),
        })
    }
}

impl Wire for DefaultConsistency {
    fn put(&self, out: &mut Vec<u8>) {
        self.level.put(out);
        self.bound.put(out);
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(DefaultConsistency {
            level: Wire::read(reader)?,
            bound: Wire::read(reader)?,
        })
    }
}

impl Wire for ConsistencyOptions {
    fn put(&self, out: &mut Vec<u8>) {
        self.level.put(out);
        self.bound.put(out);
        self.session.put(out);
        self.request.put(out);
        self.digest.put(out);
        self.outcome.put(out);
        self.preference.put(out);
        self.collection.map(|collection| collection.0).put(out);
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(ConsistencyOptions {
            level: Wire::read(reader)?,
            bound: Wire::read(reader)?,
            session: Wire::read(reader)?,
            request: Wire::read(reader)?,
            digest: Wire::read(reader)?,
            outcome: Wire::read(reader)?,
            preference: Wire::read(reader)?,
            collection: Option::<u64>::read(reader)?.map(CollectionId),
        })
    }
}

impl Wire for Cause {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Cause::Limit(code) => put_choice(out, 0, &[code]),
            Cause::Gone => out.push(1),
        }
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(match reader.byte()? {
            0 => Cause::Limit(Wire::read(reader)?),
            1 => Cause::Gone,
            _ => return Err(DecodeError::new("the cause of a refusal")),
        })
    }
}

impl Wire for Outcome {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Outcome::Applied => out.push(0),
            Outcome::Superseded(cause) => put_choice(out, 1, &[cause]),
            Outcome::Detached => out.push(2),
        }
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(match reader.byte()? {
            0 => Outcome::Applied,
            1 => Outcome::Superseded(Wire::read(reader)?),
            2 => Outcome::Detached,
            _ => return Err(DecodeError::new("an outcome")),
        })
    }
}

impl Wire for Outcomes {
    fn put(&self, out: &mut Vec<u8>) {
        self.common.put(out);
        self.parts.put(out);
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Outcomes {
            common: Wire::read(reader)?,
            parts: Wire::read(reader)?,
        })
    }
}

impl Wire for SettlementNotice {
    fn put(&self, out: &mut Vec<u8>) {
        self.name.put(out);
        self.outcome.put(out);
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(SettlementNotice {
            name: Wire::read(reader)?,
            outcome: Wire::read(reader)?,
        })
    }
}

impl Wire for ReplyMetadata {
    fn put(&self, out: &mut Vec<u8>) {
        self.stamp.put(out);
        self.version.put(out);
        self.tentative.put(out);
        self.outcome.put(out);
        self.session.put(out);
        self.settled.put(out);
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(ReplyMetadata {
            stamp: Wire::read(reader)?,
            version: Wire::read(reader)?,
            tentative: Wire::read(reader)?,
            outcome: Wire::read(reader)?,
            session: Wire::read(reader)?,
            settled: Wire::read(reader)?,
        })
    }
}
