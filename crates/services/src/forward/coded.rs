//! Failures between nodes from version 7 of a cluster on: a code of the closed list
//! ([`ErrorCode`]), and its arguments. The reader makes the sentence.
//!
//! ```text
//! failure := code arguments           the code by its name, the arguments as a byte string
//! arguments := unsure:u8 detail?      of a reason: whether a write may have taken effect
//!            | detail                 of store-unreadable
//!            | rule argument*         of call-invalid: the rule by its name
//! detail := what the store or the operating system said
//! ```
//!
//! For SimpleDB, SQS, S3 and exports the code is that of the reason. The argument is the error that
//! the client is told: AWS's code, with a message.
//!
//! Invariants:
//! - WIRE-1 a refusal with a code that the reader does not know leaves a read to another node, and
//!   the outcome of a write unknown.

use bytes::Bytes;
use fader_chain::{DecodeError, Reader, put_bytes};

use super::wire::Wire;
use crate::request::{Refusal, ServiceName};
use crate::service::Trouble;
use crate::{ErrorCode, Failure, Reason, Rule, Unavailable, ViewError};
use crate::{blocks, catalog, exports, s3, simpledb, sqs, steps};

/// A code, and its arguments as bytes.
type Coded = (ErrorCode, Vec<u8>);

fn put(out: &mut Vec<u8>, coded: &Coded) {
    let (code, arguments) = coded;
    code.put(out);
    put_bytes(out, arguments);
}

/// The code, if it is known, and the bytes of its arguments.
fn read(reader: &mut Reader) -> Result<(Result<ErrorCode, String>, Reader), DecodeError> {
    let name = String::read(reader)?;
    let code = ErrorCode::of_name(&name).ok_or(name);
    Ok((code, Reader::new(Bytes::read(reader)?)))
}

impl Wire for ErrorCode {
    fn put(&self, out: &mut Vec<u8>) {
        put_bytes(out, self.name().as_bytes());
    }

    /// One that is not known is any other failure.
    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        let name = String::read(reader)?;
        Ok(ErrorCode::of_name(&name).unwrap_or(ErrorCode::Failed))
    }
}

fn of_failure(failure: &Failure) -> Coded {
    let mut arguments = Vec::new();
    let code = match failure {
        Failure::Later(why) => {
            why.is_unsure.put(&mut arguments);
            let detail = why.detail.as_deref().map(str::to_owned);
            detail.put(&mut arguments);
            ErrorCode::Refused(why.reason)
        }
        Failure::Unreadable(error) => {
            error.put(&mut arguments);
            ErrorCode::StoreUnreadable
        }
    };
    (code, arguments)
}

fn of_rule(rule: &Rule) -> Coded {
    let mut arguments = Vec::new();
    rule.put(&mut arguments);
    (ErrorCode::CallInvalid, arguments)
}

/// Nothing of a refusal that has no code of Fader's own.
fn of_refusal(refusal: &Refusal) -> Option<Coded> {
    let of_reason = |reason: Option<Reason>, error: &dyn Wire| {
        let mut arguments = Vec::new();
        error.put(&mut arguments);
        Some((ErrorCode::Refused(reason?), arguments))
    };
    Some(match refusal {
        Refusal::SimpleDb(error) => of_reason(error.reason, error)?,
        Refusal::Sqs(error) => of_reason(error.reason, error)?,
        Refusal::S3(error) => of_reason(error.reason, error)?,
        Refusal::Export(error) => of_reason(error.reason, error)?,
        Refusal::Block(blocks::Refusal::Failed(failure))
        | Refusal::Step(steps::Refusal::Failed(failure)) => of_failure(failure),
        Refusal::Block(blocks::Refusal::Invalid(rule))
        | Refusal::Step(steps::Refusal::Invalid(rule))
        | Refusal::Catalog(catalog::Refusal::Invalid(rule)) => of_rule(rule),
        Refusal::Catalog(catalog::Refusal::Unavailable(why)) => of_failure(&why.clone().into()),
        Refusal::Catalog(catalog::Refusal::View(error)) => of_failure(&error.clone().into()),
        Refusal::Catalog(
            catalog::Refusal::NoSuchKey(_)
            | catalog::Refusal::NoSuchDomain(_)
            | catalog::Refusal::KeyExists(_),
        ) => return None,
        #[cfg(feature = "counter")]
        Refusal::Counter(crate::counter::Refusal::Failed(failure)) => of_failure(failure),
        #[cfg(feature = "counter")]
        Refusal::Counter(crate::counter::Refusal::Invalid(rule)) => of_rule(rule),
        #[cfg(feature = "counter")]
        Refusal::Counter(_) => return None,
    })
}

/// Nothing of a code that is no failure's.
fn read_failure(code: ErrorCode, reader: &mut Reader) -> Result<Option<Failure>, DecodeError> {
    Ok(match code {
        ErrorCode::Refused(reason) => Some(Failure::Later(Unavailable {
            reason,
            is_unsure: Wire::read(reader)?,
            detail: Option::<String>::read(reader)?.map(String::into_boxed_str),
        })),
        ErrorCode::StoreUnreadable => Some(ViewError::read(reader)?.into()),
        _ => None,
    })
}

fn broken(service: ServiceName, rule: Rule) -> Option<Refusal> {
    match service {
        ServiceName::Catalog => Some(catalog::Refusal::from(rule).into()),
        ServiceName::Step => Some(steps::Refusal::from(rule).into()),
        ServiceName::Block => Some(blocks::Refusal::from(rule).into()),
        #[cfg(feature = "counter")]
        ServiceName::Counter => Some(crate::counter::Refusal::from(rule).into()),
        _ => None,
    }
}

/// Writes why nothing was done.
pub(super) fn put_failure(out: &mut Vec<u8>, failure: &Failure) {
    put(out, &of_failure(failure));
}

/// Reads why nothing was done. Of a code that is not known that alone is known.
pub(super) fn failure(reader: &mut Reader) -> Result<Failure, DecodeError> {
    let (code, mut arguments) = read(reader)?;
    let known = match code {
        Ok(code) => read_failure(code, &mut arguments)?,
        Err(_) => None,
    };
    match known {
        Some(failure) => arguments.end().map(|()| failure),
        None => Ok(Reason::NoMember.into()),
    }
}

/// Writes a refusal by its service and its code. Says whether it has one.
pub(super) fn put_refusal(out: &mut Vec<u8>, choice: u8, refusal: &Refusal) -> bool {
    let coded = of_refusal(refusal);
    if let Some(coded) = &coded {
        out.push(choice);
        refusal.service().put(out);
        put(out, coded);
    }
    coded.is_some()
}

/// Reads a refusal.
///
/// # Errors
/// [`DecodeError`]. The inner error is the name of a code that is not known here.
pub(super) fn refusal(reader: &mut Reader) -> Result<Result<Refusal, String>, DecodeError> {
    let service = ServiceName::read(reader)?;
    let (code, mut arguments) = read(reader)?;
    let code = match code {
        Ok(code) => code,
        Err(name) => return Ok(Err(name)),
    };
    if code == ErrorCode::CallInvalid {
        let refusal = broken(service, Rule::read(arguments)?);
        return Ok(refusal.ok_or(code.name().to_owned()));
    }
    let from = &mut arguments;
    let refusal: Option<Refusal> = match (service, code) {
        (ServiceName::SimpleDb, ErrorCode::Refused(reason)) => {
            let reason = Some(reason);
            let error = simpledb::Error::read(from)?;
            Some(simpledb::Error { reason, ..error }.into())
        }
        (ServiceName::Sqs, ErrorCode::Refused(reason)) => {
            let reason = Some(reason);
            let error = sqs::Error::read(from)?;
            Some(sqs::Error { reason, ..error }.into())
        }
        (ServiceName::S3, ErrorCode::Refused(reason)) => {
            let reason = Some(reason);
            let error = s3::Error::read(from)?;
            Some(s3::Error { reason, ..error }.into())
        }
        (ServiceName::Export, ErrorCode::Refused(reason)) => {
            let reason = Some(reason);
            let error = exports::Error::read(from)?;
            Some(exports::Error { reason, ..error }.into())
        }
        (service, code) => read_failure(code, from)?.map(|failure| {
            service.word(match failure {
                Failure::Later(why) => Trouble::Unavailable(why),
                Failure::Unreadable(error) => Trouble::Unreadable(error),
            })
        }),
    };
    match refusal {
        Some(refusal) => arguments.end().map(|()| Ok(refusal)),
        None => Ok(Err(code.name().to_owned())),
    }
}
