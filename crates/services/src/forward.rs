//! Requests that one node hands to another, and what comes of them, as bytes
//! (docs/format/peer.md).
//!
//! ```text
//! asked := version:u8=2  0 account request demand | 1 account request demand | 2 command
//!          | 3 account domain | 4
//! told  := version:u8=2  0 refused | 1 answered receipt | 2 error | 3 | 4 refusal
//!          | 5 error receipt | 6 mode | 7 waits
//! ```
//!
//! What a refusal tells beside the error (its session's next token) came with version 3 of a
//! cluster: to an older one the error alone is told. So did questions 3 and 4, with their answers:
//! an older one is not asked them.
//!
//! Structures are their fields in order. A choice is a byte and what follows from it; an option is
//! a list of at most one. Numbers are varints, those with a sign folded; texts are UTF-8.
//!
//! Deliberately absent: who is asked, and when it is given up; that is the node's.

mod catalog;
mod level;
mod simpledb;
pub(crate) mod wire;

use bytes::Bytes;
use fader_chain::{DecodeError, Reader, Version};

use crate::Mode;
use crate::catalog::{AccountId, Command, Refusal};
use crate::level::{Demand, Receipt};
use crate::simpledb::{Answered, Error, Request};

use wire::Wire;

const VERSION: u8 = 2;

/// What a node is asked for another.
#[derive(Clone, Debug)]
pub enum Asked {
    /// A request that may change state.
    Write(AccountId, Request, Demand),
    /// One that does not.
    Read(AccountId, Request, Demand),
    /// A catalog command.
    Catalog(Command),
    /// How the mode of a domain stands. From version 3 on.
    Mode(AccountId, String),
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
pub enum Told {
    /// Nothing was done here; another node may do it. Why, in words.
    NotHere(String),
    /// Of a request, with what is told beside.
    Request(Result<Answered, Error>, Receipt),
    /// Of a catalog command.
    Catalog(Result<(), Refusal>),
    /// How the mode of a domain stands; none when there is no such domain.
    Mode(Option<DomainMode>),
    /// What a member waits for, in words.
    Why(Vec<String>),
}

impl Asked {
    /// The encoding of what is asked.
    pub fn encode(&self) -> Bytes {
        let mut out = vec![VERSION];
        let mut put = |tag: u8, account: &AccountId, request: &Request, demand: &Demand| {
            out.push(tag);
            account.put(&mut out);
            request.put(&mut out);
            demand.put(&mut out);
        };
        match self {
            Asked::Write(account, request, demand) => put(0, account, request, demand),
            Asked::Read(account, request, demand) => put(1, account, request, demand),
            Asked::Catalog(command) => {
                out.push(2);
                command.put(&mut out);
            }
            Asked::Mode(account, domain) => {
                out.push(3);
                account.put(&mut out);
                domain.put(&mut out);
            }
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
            let tag = reader.byte()?;
            let asked = match tag {
                0 => Asked::Write,
                1 => Asked::Read,
                2 => return Command::read(reader).map(Asked::Catalog),
                3 => return Ok(Asked::Mode(Wire::read(reader)?, Wire::read(reader)?)),
                4 => return Ok(Asked::Why),
                _ => return Err(DecodeError::new("what is asked")),
            };
            let (account, request) = (Wire::read(reader)?, Wire::read(reader)?);
            Ok(asked(account, request, Wire::read(reader)?))
        })
    }
}

impl Told {
    /// The encoding of what is told, in a cluster of this version.
    pub fn encode(&self, version: Version) -> Bytes {
        let mut out = vec![VERSION];
        match self {
            Told::NotHere(why) => {
                out.push(0);
                why.put(&mut out);
            }
            Told::Request(Ok(answered), receipt) => {
                out.push(1);
                answered.put(&mut out);
                receipt.put(&mut out);
            }
            Told::Request(Err(error), receipt)
                if version.is_third() && *receipt != Receipt::default() =>
            {
                out.push(5);
                error.put(&mut out);
                receipt.put(&mut out);
            }
            Told::Request(Err(error), _) => {
                out.push(2);
                error.put(&mut out);
            }
            Told::Catalog(Ok(())) => out.push(3),
            Told::Catalog(Err(refusal)) => {
                out.push(4);
                refusal.put(&mut out);
            }
            Told::Mode(mode) => {
                out.push(6);
                mode.put(&mut out);
            }
            Told::Why(waits) => {
                out.push(7);
                waits.put(&mut out);
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
            Ok(match reader.byte()? {
                0 => Told::NotHere(Wire::read(reader)?),
                1 => Told::Request(Ok(Wire::read(reader)?), Wire::read(reader)?),
                2 => Told::Request(Err(Wire::read(reader)?), Receipt::default()),
                3 => Told::Catalog(Ok(())),
                4 => Told::Catalog(Err(Wire::read(reader)?)),
                5 => Told::Request(Err(Wire::read(reader)?), Wire::read(reader)?),
                6 => Told::Mode(Wire::read(reader)?),
                7 => Told::Why(Wire::read(reader)?),
                _ => return Err(DecodeError::new("what is told")),
            })
        })
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
