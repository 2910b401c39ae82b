//! Requests that one node hands to another, and what comes of them, as bytes
//! (docs/reference/format/peer.md).
//!
//! ```text
//! asked := version:u8=2  0 account request demand | 1 account request demand | 2 command
//!          | 3 account domain | 4 | 5 account service:u8 request demand towards | 6 name
//!          | 7 question
//! told  := version:u8=2  0 words | 1 answered receipt | 2 error | 3 | 4 refusal
//!          | 5 error receipt | 6 mode | 7 words* | 8 service:u8 reply receipt
//!          | 9 service:u8 refusal receipt | 10 answer | 11 failure
//!          | 12 service:u8 failure receipt | 13 wait*
//!
//! question := 0 name | 1 key | 2 | 3 name id
//! answer   := 0 row? | 1 key? | 2 key* | 3 (collection attempt)?
//! ```
//!
//! What a refusal tells beside the error (its session's next token) came with version 3 of a
//! cluster. An older one is told the error alone. So did questions 3 and 4, with their answers: an
//! older one is not asked them.
//!
//! Version 2 and 3 have requests of SimpleDB (0 and 1, with 1, 2 and 5). They have commands of the
//! catalog (2, with 3 and 4). The steps of domains were some of those; they still travel so. All
//! else came with version 4, and waits for it ([`Request::since`](crate::request::Request::since)).
//!
//! Question 7 and its answer 10, about the catalog, came with version 6.
//!
//! Answers 11, 12 and 13 came with version 7 (`coded`, `waits`). In place of 0 and 7, and of
//! refusals with a code of Fader's own, they have that code with its arguments. Before, the code
//! was found in a text.
//!
//! Structures are their fields in order. A choice is a byte and what follows from it; an option is
//! a list of at most one. Numbers are varints, those with a sign folded; texts are UTF-8.
//!
//! Deliberately absent: who is asked, and when it is given up; that is the node's.

mod catalog;
mod coded;
mod level;
mod service;
mod simpledb;
mod waits;
pub(crate) mod wire;

use bytes::Bytes;
use fader_chain::{DecodeError, Reader, Version};

use crate::blocks::Attempt;
use crate::call::Call;
use crate::catalog::{self as names, AccessKey, AccountId, NameBuf};
use crate::level::{ConsistencyOptions, ReplyMetadata};
use crate::request::{self, Outcome, Reply, Request, ServiceName};
use crate::simpledb::{CostedReply, Error};
use crate::steps::{self, Taken};
use crate::{CollectionId, Failure, Kind, Mode, Poll};

pub use waits::MemberWait;
use wire::Wire;

const VERSION: u8 = 2;

/// What a node is asked for another.
#[derive(Clone, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all of them are requests: a box would be one more allocation of each"
)]
pub enum ForwardedRequest {
    /// A request of a client, or a command of a node.
    Request(Call),
    /// How the mode of a collection stands. From version 3 on.
    Mode(NameBuf),
    /// What the member of the chain that is there waits for. From version 3 on.
    Why,
    /// About the catalog, asked where no member of the system chain is. From version 6 on.
    Catalog(CatalogQuestion),
}

/// What is asked about the catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CatalogQuestion {
    /// For the row of a name.
    Name(NameBuf),
    /// For the access key with this id.
    Key(String),
    /// For all access keys.
    Keys,
    /// For a new attempt to store bytes for a collection on the system chain, with this id.
    Attempt(NameBuf, u128),
}

/// What the catalog has, with all that was acknowledged before the question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CatalogAnswer {
    /// The row of a name, if it has one.
    Name(Option<Bytes>),
    /// The access key, if there is one.
    Key(Option<AccessKey>),
    /// All access keys, by id.
    Keys(Vec<AccessKey>),
    /// The collection, and the attempt; nothing where there is no such collection.
    Attempt(Option<(CollectionId, Attempt)>),
}

/// How a domain's mode stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DomainMode {
    /// The mode; `closing` on the way to `strong`.
    pub mode: Mode,
    /// Whom a closing domain waits for: members that are absent, and may hold eventual writes of
    /// it.
    pub absent: Vec<String>,
    /// Members that were asked for theirs, and have not answered.
    pub silent: Vec<String>,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq)]
#[allow(
    clippy::large_enum_variant,
    reason = "nearly all are requests, a box is an allocation of each; the feature `steps` decides"
)]
pub enum ForwardedReply {
    /// Nothing was done here; another node may do it.
    NotHere(Failure),
    /// Of a request, with what is told beside.
    Request(Outcome, ReplyMetadata),
    /// How the mode of a collection stands; none when there is no such collection.
    Mode(Option<DomainMode>),
    /// What a member waits for.
    Why(Vec<MemberWait>),
    /// What the catalog has.
    Catalog(CatalogAnswer),
    /// A refusal whose code is a newer process's: this is the code's name (WIRE-1).
    UnknownCode(String),
}

impl ForwardedRequest {
    /// Whether its answer may be long in coming: it may wait for its collection to change.
    pub fn may_wait(&self) -> bool {
        match self {
            ForwardedRequest::Request(call) => !call.request.patience().is_zero(),
            ForwardedRequest::Mode(_) | ForwardedRequest::Why | ForwardedRequest::Catalog(_) => {
                false
            }
        }
    }

    /// What the carriers of a request that may wait tell each other here.
    pub fn poll(&self) -> Option<&Poll> {
        match self {
            ForwardedRequest::Request(call) => call.poll.as_deref(),
            ForwardedRequest::Mode(_) | ForwardedRequest::Why | ForwardedRequest::Catalog(_) => {
                None
            }
        }
    }

    /// The encoding of what is asked.
    pub fn encode(&self) -> Bytes {
        let mut out = vec![VERSION];
        match self {
            ForwardedRequest::Request(call) => put_call(&mut out, call),
            ForwardedRequest::Mode(name) if name.kind == Kind::Domain => {
                wire::put_choice(&mut out, 3, &[&name.account, &name.name]);
            }
            ForwardedRequest::Mode(name) => wire::put_choice(&mut out, 6, &[name]),
            ForwardedRequest::Why => out.push(4),
            ForwardedRequest::Catalog(question) => wire::put_choice(&mut out, 7, &[question]),
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
                    ForwardedRequest::Request(Call::new(
                        &account,
                        request,
                        ConsistencyOptions::read(reader)?,
                    ))
                }
                2 => ForwardedRequest::Request(catalog::read_command(reader)?),
                3 => ForwardedRequest::Mode(NameBuf {
                    kind: Kind::Domain,
                    account: Wire::read(reader)?,
                    name: Wire::read(reader)?,
                }),
                4 => ForwardedRequest::Why,
                5 => {
                    let call = Call {
                        account: Wire::read(reader)?,
                        request: Wire::read(reader)?,
                        consistency: Wire::read(reader)?,
                        towards: Wire::read(reader)?,
                        poll: None,
                    };
                    // What is older has bytes of its own.
                    let is_new = Version::FOURTH <= call.request.since();
                    let call = is_new.then_some(call);
                    call.map(ForwardedRequest::Request)
                        .ok_or_else(|| DecodeError::new("what is asked"))?
                }
                6 => ForwardedRequest::Mode(Wire::read(reader)?),
                7 => ForwardedRequest::Catalog(Wire::read(reader)?),
                _ => return Err(DecodeError::new("what is asked")),
            })
        })
    }
}

fn put_call(out: &mut Vec<u8>, call: &Call) {
    let Call {
        account,
        request,
        consistency,
        towards,
        poll: _,
    } = call;
    match request {
        Request::SimpleDb(it) => {
            let choice = u8::from(!request.class().is_write());
            wire::put_choice(out, choice, &[account, it, consistency]);
        }
        Request::Catalog(command) => wire::put_choice(out, 2, &[command]),
        Request::Step(command) if catalog::put_step(out, command) => {}
        _ => wire::put_choice(out, 5, &[account, request, consistency, towards]),
    }
}

impl ForwardedReply {
    /// The encoding of what is told, in a cluster of this version.
    pub fn encode(&self, version: Version) -> Bytes {
        let mut out = vec![VERSION];
        match self {
            ForwardedReply::NotHere(why) if Version::SEVENTH <= version => {
                out.push(11);
                coded::put_failure(&mut out, why);
            }
            ForwardedReply::NotHere(why) => wire::put_choice(&mut out, 0, &[why]),
            ForwardedReply::Request(Ok(reply), metadata) => put_reply(&mut out, reply, metadata),
            ForwardedReply::Request(Err(refusal), metadata) => {
                put_refusal(&mut out, refusal, metadata, version);
            }
            ForwardedReply::Mode(mode) => wire::put_choice(&mut out, 6, &[mode]),
            ForwardedReply::Why(waits) => match words(waits) {
                Some(words) if version < Version::SEVENTH => {
                    wire::put_choice(&mut out, 7, &[&words]);
                }
                // The cluster may have risen since the question came: then all read codes.
                _ => wire::put_choice(&mut out, 13, &[waits]),
            },
            ForwardedReply::Catalog(answer) => wire::put_choice(&mut out, 10, &[answer]),
            ForwardedReply::UnknownCode(code) => {
                let of = ServiceName::SimpleDb;
                let nothing = ReplyMetadata::default();
                wire::put_choice(&mut out, 12, &[&of, code, &Bytes::new(), &nothing]);
            }
        }
        out.into()
    }

    /// Reads what `encode` wrote, to the last byte.
    ///
    /// # Errors
    /// [`DecodeError`] when the bytes are no answer of a version that we know.
    pub fn decode(bytes: Bytes) -> Result<Self, DecodeError> {
        whole(bytes, |reader| {
            let answered = |reader: &mut Reader| CostedReply::read(reader).map(Reply::from);
            let error = |reader: &mut Reader| Error::read(reader).map(request::Refusal::from);
            let refused =
                |reader: &mut Reader| names::Refusal::read(reader).map(request::Refusal::from);
            let nothing = ReplyMetadata::default();
            Ok(match reader.byte()? {
                0 => ForwardedReply::NotHere(Wire::read(reader)?),
                1 => ForwardedReply::Request(Ok(answered(reader)?), Wire::read(reader)?),
                2 => ForwardedReply::Request(Err(error(reader)?), nothing),
                3 => ForwardedReply::Request(Ok(names::Done.into()), nothing),
                4 => ForwardedReply::Request(Err(refused(reader)?), nothing),
                5 => ForwardedReply::Request(Err(error(reader)?), Wire::read(reader)?),
                6 => ForwardedReply::Mode(Wire::read(reader)?),
                7 => {
                    let words = Vec::<String>::read(reader)?.into_iter();
                    ForwardedReply::Why(words.map(MemberWait::Words).collect())
                }
                8 => ForwardedReply::Request(Ok(newer(Reply::read(reader)?)?), Wire::read(reader)?),
                9 => match request::Refusal::read(reader)? {
                    request::Refusal::Step(_) => return Err(DecodeError::new("what is told")),
                    refusal if refusal.service().is_first() => {
                        return Err(DecodeError::new("what is told"));
                    }
                    refusal => ForwardedReply::Request(Err(refusal), Wire::read(reader)?),
                },
                10 => ForwardedReply::Catalog(Wire::read(reader)?),
                11 => ForwardedReply::NotHere(coded::failure(reader)?),
                12 => {
                    let (refusal, metadata) = (coded::refusal(reader)?, Wire::read(reader)?);
                    match refusal {
                        Ok(refusal) => ForwardedReply::Request(Err(refusal), metadata),
                        Err(code) => ForwardedReply::UnknownCode(code),
                    }
                }
                13 => ForwardedReply::Why(Wire::read(reader)?),
                _ => return Err(DecodeError::new("what is told")),
            })
        })
    }

    /// What came of a request of this service; nothing when something else is told. A step of a
    /// domain is answered as a command of the catalog.
    pub fn of(self, service: ServiceName) -> Option<(Outcome, ReplyMetadata)> {
        let ForwardedReply::Request(outcome, metadata) = self else {
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
        (told_by == service).then_some((outcome, metadata))
    }
}

/// The sentences, where there is nothing else.
fn words(waits: &[MemberWait]) -> Option<Vec<String>> {
    let words = waits.iter().map(|wait| match wait {
        MemberWait::Words(words) => Some(words.clone()),
        _ => None,
    });
    words.collect()
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

fn put_reply(out: &mut Vec<u8>, reply: &Reply, metadata: &ReplyMetadata) {
    match reply {
        Reply::SimpleDb(answered) => wire::put_choice(out, 1, &[answered, metadata]),
        Reply::Catalog(names::Done) => out.push(3),
        Reply::Step(Taken::Done(outcome)) if outcome.is_empty() => out.push(3),
        _ => wire::put_choice(out, 8, &[reply, metadata]),
    }
}

fn put_refusal(
    out: &mut Vec<u8>,
    refusal: &request::Refusal,
    metadata: &ReplyMetadata,
    version: Version,
) {
    if Version::SEVENTH <= version && coded::put_refusal(out, 12, refusal) {
        return metadata.put(out);
    }
    match refusal {
        request::Refusal::SimpleDb(error)
            if version.is_third() && *metadata != ReplyMetadata::default() =>
        {
            wire::put_choice(out, 5, &[error, metadata]);
        }
        request::Refusal::SimpleDb(error) => wire::put_choice(out, 2, &[error]),
        request::Refusal::Catalog(refusal) => wire::put_choice(out, 4, &[refusal]),
        request::Refusal::Step(refusal) => {
            wire::put_choice(out, 4, &[&names::Refusal::from(refusal.clone())]);
        }
        _ => wire::put_choice(out, 9, &[refusal, metadata]),
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
