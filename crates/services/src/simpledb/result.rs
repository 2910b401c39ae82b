//! What is kept of a named write, so that a retry gets the same reply or refusal (XO-3).
//!
//! ```text
//! result := version:u8=1 kind
//! kind   := 0 box_usage:varint                         a strong write was done
//!         | 1 box_usage:varint code:bytes message:bytes    it was refused
//!         | 2 | 3 | 4 code:bytes | 5                   an eventual one was applied, superseded,
//!                                                      refused by a limit, gone
//! ```
//!
//! A code is written by its name, so that the list of codes may grow in any order.

use bytes::Bytes;
use fader_chain::{DecodeError, Reader, put_bytes, put_varint};

use crate::level::{Cause, Outcome};
use crate::simpledb::{Answered, BoxUsage, Code, Error, Reply, Settled};

const VERSION: u8 = 1;
const DONE: u8 = 0;
const REFUSED: u8 = 1;
const APPLIED: u8 = 2;
const SUPERSEDED: u8 = 3;
const OVER_LIMIT: u8 = 4;
const GONE: u8 = 5;

/// How a named write ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Ended {
    /// A strong one, with its reply or its refusal.
    Decided(Result<Answered, Error>),
    /// An eventual one, by its settlement.
    Settled(Outcome),
}

/// Whether the outcome of a strong write depends on the state it was decided on: then it is an
/// entry (D12). A refusal that rests on the request alone is none, nor is a failure of the store.
pub fn depends_on_state(outcome: &Result<Answered, Error>) -> bool {
    match outcome {
        Ok(_) => true,
        Err(error) => error.code.depends_on_state(),
    }
}

/// What is kept of the outcome of a named strong write, and `None` if it is no entry.
pub fn encode_outcome(outcome: &Result<Answered, Error>) -> Option<Bytes> {
    if !depends_on_state(outcome) {
        return None;
    }
    let mut out = vec![VERSION];
    match outcome {
        Ok(answered) => {
            out.push(DONE);
            put_varint(&mut out, answered.box_usage.0);
        }
        Err(error) => {
            out.push(REFUSED);
            put_varint(&mut out, error.box_usage.0);
            put_bytes(&mut out, error.code.name().as_bytes());
            put_bytes(&mut out, error.message.as_bytes());
        }
    }
    Some(Bytes::from(out))
}

/// What is kept of a settlement.
pub fn encode_settlement(settled: &Settled) -> Bytes {
    let mut out = vec![VERSION];
    match settled {
        Settled::Apply(changes) if changes.is_empty() => out.push(SUPERSEDED),
        Settled::Apply(_) => out.push(APPLIED),
        Settled::Refused(Cause::Limit(code)) => {
            out.push(OVER_LIMIT);
            put_bytes(&mut out, code.name().as_bytes());
        }
        Settled::Refused(Cause::Gone) => out.push(GONE),
    }
    Bytes::from(out)
}

/// Reads what [`encode_outcome`] or [`encode_settlement`] wrote.
///
/// # Errors
/// [`DecodeError`] when the bytes are no result of a version we know.
pub fn decode_outcome(bytes: Bytes) -> Result<Ended, DecodeError> {
    let mut reader = Reader::new(bytes);
    if reader.byte()? != VERSION {
        return Err(DecodeError::new("a result's version"));
    }
    let ended = match reader.byte()? {
        DONE => Ended::Decided(Ok(Answered {
            reply: Reply::Done,
            box_usage: BoxUsage(reader.varint()?),
        })),
        REFUSED => Ended::Decided(Err(Error {
            box_usage: BoxUsage(reader.varint()?),
            code: code(&mut reader)?,
            message: text(&mut reader)?,
        })),
        APPLIED => Ended::Settled(Outcome::Applied),
        SUPERSEDED => Ended::Settled(Outcome::Superseded(None)),
        OVER_LIMIT => {
            let cause = Cause::Limit(code(&mut reader)?);
            Ended::Settled(Outcome::Superseded(Some(cause)))
        }
        GONE => Ended::Settled(Outcome::Superseded(Some(Cause::Gone))),
        _ => return Err(DecodeError::new("a result's kind")),
    };
    reader.end()?;
    Ok(ended)
}

fn code(reader: &mut Reader) -> Result<Code, DecodeError> {
    let code = Code::of_decision(&text(reader)?);
    code.ok_or_else(|| DecodeError::new("a result's code"))
}

fn text(reader: &mut Reader) -> Result<String, DecodeError> {
    String::from_utf8(reader.bytes()?.into()).map_err(|_| DecodeError::new("a result's text"))
}

#[cfg(test)]
mod tests;
