//! The service that runs on a simulated chain: what a [`Request`] answers and changes. It has a
//! limit per register, and one derived key, so that everything a real service does to a chain
//! happens.
//!
//! The derived key [`PAIRS`] holds the number of pairs that are there, in all registers. Each
//! entry puts it whole, as an index or a counter (docs/internals/protocol/simpledb.md, section 5).

use bytes::Bytes;
use fader_chain::{DecodeError, ElementOp, Reader, Register, Stamp, put_bytes, put_varint};

use crate::history::{Condition, Request, Write};

/// The derived key. Registers' keys never begin with its first byte.
pub const PAIRS: &[u8] = b"#pairs";

/// The pairs of a register, in byte order.
pub type Pairs = Vec<(Bytes, Bytes)>;

/// The service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Service {
    /// Nothing may make a register greater than this.
    pub pairs_max: usize,
}

/// What the service decides on.
pub trait State {
    /// A register; without anything in it if it is absent.
    fn register(&self, key: &Bytes) -> Register;

    /// The number of pairs in all registers.
    fn pairs(&self) -> u64;
}

/// What a strong request is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The conditions held; these are the registers it asked for, before it wrote.
    Done(Vec<Pairs>),
    /// A condition did not hold.
    ConditionFailed,
    /// A register would have grown beyond the limit.
    LimitExceeded,
}

/// What a request comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The answer.
    pub answer: Answer,
    /// What is merged; nothing, unless it was done.
    pub writes: Vec<Write>,
    /// The new value of [`PAIRS`], where anything is merged.
    pub pairs: Option<u64>,
}

impl Service {
    /// Decides a strong request.
    pub fn decide(&self, request: &Request, state: &dyn State) -> Decision {
        let holds =
            |(key, condition): &(Bytes, Condition)| is_true(condition, &state.register(key));
        if !request.conditions.iter().all(holds) {
            return refused(Answer::ConditionFailed);
        }
        let mut pairs = state.pairs();
        for write in &request.writes {
            let before = state.register(&write.key);
            match self.grown(&before, &write.ops, Stamp::MAX) {
                // On a tentative view the count lags behind the registers; no request uses it
                // there.
                Some((old, new)) => pairs = (pairs + new).saturating_sub(old),
                None => return refused(Answer::LimitExceeded),
            }
        }
        let reads = request.reads.iter();
        Decision {
            answer: Answer::Done(reads.map(|key| pairs_of(&state.register(key))).collect()),
            writes: request.writes.clone(),
            pairs: (!request.writes.is_empty()).then_some(pairs),
        }
    }

    /// Looks once more at what is left of an eventual operation (PR-3). It gives the new value of
    /// [`PAIRS`], or `None` if the limit refuses it as a whole (D4).
    pub fn settle(
        &self,
        key: &Bytes,
        ops: &[ElementOp],
        stamp: Stamp,
        state: &dyn State,
    ) -> Option<u64> {
        let (old, new) = self.grown(&state.register(key), ops, stamp)?;
        Some(state.pairs() - old + new)
    }

    /// The pairs before and after, or `None` where they grow beyond the limit.
    fn grown(&self, before: &Register, ops: &[ElementOp], stamp: Stamp) -> Option<(u64, u64)> {
        let mut after = before.clone();
        after.merge(ops, stamp);
        let (old, new) = (before.pairs().count(), after.pairs().count());
        let fits = new <= old || new <= self.pairs_max;
        fits.then_some((old as u64, new as u64))
    }
}

fn refused(answer: Answer) -> Decision {
    Decision {
        answer,
        writes: Vec::new(),
        pairs: None,
    }
}

/// A register that shows nothing has no version: deleted and put again, it is another.
fn is_true(condition: &Condition, register: &Register) -> bool {
    match condition {
        Condition::Exists => !register.is_empty(),
        Condition::Absent => register.is_empty(),
        Condition::Has { group, value } => register.pairs().any(|pair| pair == (group, value)),
        Condition::Version(version) => !register.is_empty() && register.version == *version,
    }
}

/// What a register shows.
pub fn pairs_of(register: &Register) -> Pairs {
    let pairs = register.pairs();
    let mut pairs: Pairs = pairs
        .map(|(group, value)| (group.clone(), value.clone()))
        .collect();
    pairs.sort_unstable();
    pairs
}

/// The value of [`PAIRS`].
pub fn pairs_value(pairs: u64) -> Bytes {
    Bytes::copy_from_slice(&pairs.to_be_bytes())
}

const TAG_DONE: u8 = 1;
const TAG_CONDITION_FAILED: u8 = 2;
const TAG_LIMIT_EXCEEDED: u8 = 3;

impl Answer {
    /// The form in which an entry keeps it.
    pub fn encode(&self) -> Bytes {
        let mut out = Vec::new();
        match self {
            Answer::Done(registers) => {
                out.push(TAG_DONE);
                put_varint(&mut out, registers.len() as u64);
                for pairs in registers {
                    put_varint(&mut out, pairs.len() as u64);
                    for (group, value) in pairs {
                        put_bytes(&mut out, group);
                        put_bytes(&mut out, value);
                    }
                }
            }
            Answer::ConditionFailed => out.push(TAG_CONDITION_FAILED),
            Answer::LimitExceeded => out.push(TAG_LIMIT_EXCEEDED),
        }
        Bytes::from(out)
    }

    /// Reads what `encode` wrote.
    ///
    /// # Errors
    /// [`DecodeError`] when the bytes are no answer.
    pub fn decode(bytes: Bytes) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let answer = match reader.byte()? {
            TAG_DONE => {
                let registers = (0..reader.count()?).map(|_| decode_pairs(&mut reader));
                Answer::Done(registers.collect::<Result<_, _>>()?)
            }
            TAG_CONDITION_FAILED => Answer::ConditionFailed,
            TAG_LIMIT_EXCEEDED => Answer::LimitExceeded,
            _ => return Err(DecodeError::new("an answer's tag")),
        };
        reader.end()?;
        Ok(answer)
    }
}

fn decode_pairs(reader: &mut Reader) -> Result<Pairs, DecodeError> {
    let count = reader.count()?;
    (0..count)
        .map(|_| Ok((reader.bytes()?, reader.bytes()?)))
        .collect()
}

#[cfg(test)]
mod tests;
