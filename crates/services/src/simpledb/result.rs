//! What is kept of a named write, so that a retry gets the same reply or refusal (XO-3).
//!
//! ```text
//! outcome := version:u8=1 kind
//! kind    := 0 box_usage:varint                            the write was done
//!          | 1 box_usage:varint code:bytes message:bytes   it was refused
//! cause   := 1 code:bytes | 2                              a limit; its collection is gone
//! ```
//!
//! A code is written by its name, so that the list of codes may grow in any order. Of a settlement
//! the chain keeps the outcome ([`fader_chain::Outcome`]), and what is kept here is its cause.

use bytes::Bytes;
use fader_chain::{DecodeError, Reader, put_bytes, put_varint};

use crate::level::{Cause, Outcome};
use crate::simpledb::{BoxUsage, Code, CostedReply, Error, Reply};

const VERSION: u8 = 1;
const DONE: u8 = 0;
const REFUSED: u8 = 1;
const LIMIT: u8 = 1;
const GONE: u8 = 2;

/// Whether the outcome of a strong write depends on the state it was decided on: then it is an
/// entry (D12). A refusal that rests on the request alone is none, nor is a failure of the store.
pub fn depends_on_state(outcome: Result<&CostedReply, &Error>) -> bool {
    match outcome {
        Ok(_) => true,
        Err(error) => error.code.depends_on_state(),
    }
}

/// What is kept of the outcome of a named strong write, and `None` if it is no entry.
pub fn encode_outcome(outcome: Result<&CostedReply, &Error>) -> Option<Bytes> {
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

/// Reads what [`encode_outcome`] wrote.
///
/// # Errors
/// [`DecodeError`] when the bytes are no outcome of a strong write: the name may be that of an
/// eventual one.
pub fn decode_outcome(bytes: Bytes) -> Result<Result<CostedReply, Error>, DecodeError> {
    let mut reader = Reader::new(bytes);
    if reader.byte()? != VERSION {
        return Err(DecodeError::new("an outcome's version"));
    }
    let kind = reader.byte()?;
    let box_usage = BoxUsage(reader.varint()?);
    let outcome = match kind {
        DONE => Ok(CostedReply {
            reply: Reply::Done,
            box_usage,
        }),
        REFUSED => Err(Error {
            box_usage,
            code: code(&mut reader)?,
            message: text(&mut reader)?,
            // What depends on the moment alone is no entry.
            reason: None,
        }),
        _ => return Err(DecodeError::new("an outcome's kind")),
    };
    reader.end()?;
    Ok(outcome)
}

/// Why a settlement was refused, for the chain to keep.
pub fn encode_cause(cause: Cause) -> Bytes {
    match cause {
        Cause::Limit(code) => {
            let mut out = vec![LIMIT];
            put_bytes(&mut out, code.name().as_bytes());
            Bytes::from(out)
        }
        Cause::Gone => Bytes::from_static(&[GONE]),
    }
}

/// How an operation ended, as the chain keeps it.
///
/// # Errors
/// [`DecodeError`] when the cause of a refusal cannot be read.
pub fn settled_outcome(kept: &fader_chain::Outcome) -> Result<Outcome, DecodeError> {
    match kept {
        fader_chain::Outcome::Applied => Ok(Outcome::Applied),
        fader_chain::Outcome::Superseded => Ok(Outcome::Superseded(None)),
        fader_chain::Outcome::Gone => Ok(Outcome::Superseded(Some(Cause::Gone))),
        fader_chain::Outcome::Refused(cause) => {
            Ok(Outcome::Superseded(Some(decode_cause(cause.clone())?)))
        }
    }
}

fn decode_cause(bytes: Bytes) -> Result<Cause, DecodeError> {
    let mut reader = Reader::new(bytes);
    let cause = match reader.byte()? {
        LIMIT => Cause::Limit(code(&mut reader)?),
        GONE => Cause::Gone,
        _ => return Err(DecodeError::new("the cause of a refusal")),
    };
    reader.end()?;
    Ok(cause)
}

fn code(reader: &mut Reader) -> Result<Code, DecodeError> {
    let code = Code::of_decision(&text(reader)?);
    code.ok_or_else(|| DecodeError::new("a code that a write is refused with"))
}

fn text(reader: &mut Reader) -> Result<String, DecodeError> {
    String::from_utf8(reader.bytes()?.into()).map_err(|_| DecodeError::new("a text kept"))
}

#[cfg(test)]
mod tests;
