//! Requests that one node hands to another, and what comes of them, as bytes
//! (docs/format/peer.md).
//!
//! ```text
//! asked := version:u8=2  0 account request demand | 1 account request demand | 2 command
//!          | 3 account domain | 4 | 5 account service:u8 request demand towards | 6 name
//! told  := version:u8=2  0 refused | 1 answered receipt | 2 error | 3 | 4 refusal
//!          | 5 error receipt | 6 mode | 7 waits | 8 service:u8 reply receipt
//!          | 9 service:u8 refusal receipt
//! ```
//!
//! What a refusal tells beside the error (its session's next token) came with version 3 of a
//! cluster: to an older one the error alone is told. So did questions 3 and 4, with their answers:
//! an older one is not asked them.
//!
//! Version 2 and 3 have requests of SimpleDB (0 and 1, with 1, 2 and 5) and commands of the catalog
//! (2, with 3 and 4), of which the steps of domains were some: they still travel so. All else came
//! with version 4, and waits for it ([`Request::since`](crate::request::Request::since)).
//!
//! Structures are their fields in order. A choice is a byte and what follows from it; an option is
//! a list of at most one. Numbers are varints, those with a sign folded; texts are UTF-8.
//!
//! Deliberately absent: who is asked, and when it is given up; that is the node's.

mod catalog;
mod level;
mod service;
mod simpledb;
pub(crate) mod wire;

use bytes::Bytes;
use fader_chain::{DecodeError, Reader, Version};

use crate::call::Call;
use crate::catalog::{self as names, AccountId, NameBuf};
use crate::level::{Demand, Receipt};
use crate::request::{self, Outcome, Reply, Request, ServiceName};
use crate::simpledb::{Answered, Error};
use crate::steps::{self, Taken};
use crate::{Kind, Mode, Poll};

use wire::Wire;

const VERSION: u8 = 2;

/// What a node is asked for another.
#[derive(Clone, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all of them are requests: a box would be one more allocation of each"
)]
pub enum Asked {
    /// A request of a client, or a command of a node.
    Request(Call),
    /// How the mode of a collection stands. From version 3 on.
    Mode(NameBuf),
    /// What the member of the chain that is there waits for. From version 3 on.
    Why,
}

/// How a domain's mode stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DomainMode {
    /// The mode; `closing` on the way to `strong`.
    pub mode: Mode,
    /// Whom a closing domain waits for: members that are away, and may hold eventual writes of it.
    pub away: Vec<String>,
    /// Members that were asked for theirs, and have not answered.
    pub silent: Vec<String>,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq)]
#[allow(
    clippy::large_enum_variant,
    reason = "nearly all are requests, a box is an allocation of each; the feature `steps` decides"
)]
pub enum Told {
    /// Nothing was done here; another node may do it. Why, in words.
    NotHere(String),
    /// Of a request, with what is told beside.
    Request(Outcome, Receipt),
    /// How the mode of a collection stands; none when there is no such collection.
    Mode(Option<DomainMode>),
    /// What a member waits for, in words.
    Why(Vec<String>),
}

impl Asked {
    /// Whether its answer may be long in coming: it may wait for its collection to change.
    pub fn may_wait(&self) -> bool {
        match self {
            Asked::Request(call) => !call.request.patience().is_zero(),
            Asked::Mode(_) | Asked::Why => false,
        }
    }

    /// What the carriers of a request that may wait tell each other here.
    pub fn poll(&self) -> Option<&Poll> {
        match self {
            Asked::Request(call) => call.poll.as_deref(),
            Asked::Mode(_) | Asked::Why => None,
        }
    }

    /// The encoding of what is asked.
    pub fn encode(&self) -> Bytes {
        let mut out = vec![VERSION];
        match self {
            Asked::Request(call) => put_call(&mut out, call),
            Asked::Mode(name) if name.kind == Kind::Domain => {
                wire::put_choice(&mut out, 3, &[&name.account, &name.name]);
            }
            Asked::Mode(name) => wire::put_choice(&mut out, 6, &[name]),
            Asked::Why => out.push(4),
        }
        out.into()
    }

    /// Reads what `encode` wrote, to the last byte.
    ///
    /// # Errors
    /// [`DecodeError`] when the bytes are no request of a version that we know.
    pub fn decode(bytes: Bytes) -> Result<Self, DecodeError> {
        whole(bytes, |reader| {
            Ok(match reader.byte()? {
                0 | 1 => {
                    let account = AccountId::read(reader)?;
                    let request = crate::simpledb::Request::read(reader)?;
                    Asked::Request(Call::new(&account, request, Demand::read(reader)?))
                }
                2 => Asked::Request(catalog::read_command(reader)?),
                3 => Asked::Mode(NameBuf {
                    kind: Kind::Domain,
                    account: Wire::read(reader)?,
                    name: Wire::read(reader)?,
                }),
                4 => Asked::Why,
                5 => {
                    let call = Call {
                        account: Wire::read(reader)?,
                        request: Wire::read(reader)?,
                        demand: Wire::read(reader)?,
                        towards: Wire::read(reader)?,
                        poll: None,
                    };
                    // What is older has bytes of its own.
                    let is_new = Version::FOURTH <= call.request.since();
                    let call = is_new.then_some(call);
                    call.map(Asked::Request)
                        .ok_or_else(|| DecodeError::new("what is asked"))?
                }
                6 => Asked::Mode(Wire::read(reader)?),
                _ => return Err(DecodeError::new("what is asked")),
            })
        })
    }
}

fn put_call(out: &mut Vec<u8>, call: &Call) {
    let Call {
        account,
        request,
        demand,
        towards,
        poll: _,
    } = call;
    match request {
        Request::SimpleDb(it) => {
            let choice = u8::from(!request.class().is_write());
            wire::put_choice(out, choice, &[account, it, demand]);
        }
        Request::Catalog(command) => wire::put_choice(out, 2, &[command]),
        Request::Step(command) if catalog::put_step(out, command) => {}
        _ => wire::put_choice(out, 5, &[account, request, demand, towards]),
    }
}

impl Told {
    /// The encoding of what is told, in a cluster of this version.
    pub fn encode(&self, version: Version) -> Bytes {
        let mut out = vec![VERSION];
        match self {
            Told::NotHere(why) => wire::put_choice(&mut out, 0, &[why]),
            Told::Request(Ok(reply), receipt) => put_reply(&mut out, reply, receipt),
            Told::Request(Err(refusal), receipt) => {
                put_refusal(&mut out, refusal, (receipt, version));
            }
            Told::Mode(mode) => wire::put_choice(&mut out, 6, &[mode]),
            Told::Why(waits) => wire::put_choice(&mut out, 7, &[waits]),
        }
        out.into()
    }

    /// Reads what `encode` wrote, to the last byte.
    ///
    /// # Errors
    /// [`DecodeError`] when the bytes are no answer of a version that we know.
    pub fn decode(bytes: Bytes) -> Result<Self, DecodeError> {
        whole(bytes, |reader| {
            let answered = |reader: &mut Reader| Answered::read(reader).map(Reply::from);
            let error = |reader: &mut Reader| Error::read(reader).map(request::Refusal::from);
            let refused =
                |reader: &mut Reader| names::Refusal::read(reader).map(request::Refusal::from);
            let nothing = Receipt::default();
            Ok(match reader.byte()? {
                0 => Told::NotHere(Wire::read(reader)?),
                1 => Told::Request(Ok(answered(reader)?), Wire::read(reader)?),
                2 => Told::Request(Err(error(reader)?), nothing),
                3 => Told::Request(Ok(names::Done.into()), nothing),
                4 => Told::Request(Err(refused(reader)?), nothing),
                5 => Told::Request(Err(error(reader)?), Wire::read(reader)?),
                6 => Told::Mode(Wire::read(reader)?),
                7 => Told::Why(Wire::read(reader)?),
                8 => Told::Request(Ok(newer(Reply::read(reader)?)?), Wire::read(reader)?),
                9 => match request::Refusal::read(reader)? {
                    request::Refusal::Step(_) => return Err(DecodeError::new("what is told")),
                    refusal if refusal.service().is_first() => {
                        return Err(DecodeError::new("what is told"));
                    }
                    refusal => Told::Request(Err(refusal), Wire::read(reader)?),
                },
                _ => return Err(DecodeError::new("what is told")),
            })
        })
    }

    /// What came of a request of this service; nothing when something else is told. A step of a
    /// domain is answered as a command of the catalog.
    pub fn of(self, service: ServiceName) -> Option<(Outcome, Receipt)> {
        let Told::Request(outcome, receipt) = self else {
            return None;
        };
        let outcome = match (service, outcome) {
            (ServiceName::Step, Ok(Reply::Catalog(names::Done))) => {
                Ok(Taken::Done(Bytes::new()).into())
            }
            (ServiceName::Step, Err(request::Refusal::Catalog(refusal))) => {
                Err(steps::Refusal::from(refusal).into())
            }
            (_, outcome) => outcome,
        };
        let told_by = match &outcome {
            Ok(reply) => reply.service(),
            Err(refusal) => refusal.service(),
        };
        (told_by == service).then_some((outcome, receipt))
    }
}

/// A reply that has no older bytes.
fn newer(reply: Reply) -> Result<Reply, DecodeError> {
    match reply {
        Reply::Step(Taken::Done(outcome)) if outcome.is_empty() => {
            Err(DecodeError::new("what is told"))
        }
        reply if reply.service().is_first() => Err(DecodeError::new("what is told")),
        reply => Ok(reply),
    }
}

fn put_reply(out: &mut Vec<u8>, reply: &Reply, receipt: &Receipt) {
    match reply {
        Reply::SimpleDb(answered) => wire::put_choice(out, 1, &[answered, receipt]),
        Reply::Catalog(names::Done) => out.push(3),
        Reply::Step(Taken::Done(outcome)) if outcome.is_empty() => out.push(3),
        _ => wire::put_choice(out, 8, &[reply, receipt]),
    }
}

fn put_refusal(
    out: &mut Vec<u8>,
    refusal: &request::Refusal,
    (receipt, version): (&Receipt, Version),
) {
    match refusal {
        request::Refusal::SimpleDb(error)
            if version.is_third() && *receipt != Receipt::default() =>
        {
            wire::put_choice(out, 5, &[error, receipt]);
        }
        request::Refusal::SimpleDb(error) => wire::put_choice(out, 2, &[error]),
        request::Refusal::Catalog(refusal) => wire::put_choice(out, 4, &[refusal]),
        request::Refusal::Step(refusal) => {
            wire::put_choice(out, 4, &[&names::Refusal::from(refusal.clone())]);
        }
        _ => wire::put_choice(out, 9, &[refusal, receipt]),
    }
}

fn whole<T>(
    bytes: Bytes,
    read: impl FnOnce(&mut Reader) -> Result<T, DecodeError>,
) -> Result<T, DecodeError> {
    let mut reader = Reader::new(bytes);
    if reader.byte()? != VERSION {
        return Err(DecodeError::new("the version of what is forwarded"));
    }
    let all = read(&mut reader)?;
    reader.end()?;
    Ok(all)
}

#[cfg(test)]
mod tests;
