//! Tokens of sessions: what a session has seen of each chain, sealed (semantics.md, section 7).
//!
//! ```text
//! sessions := session                                    of the system chain alone (chain/session)
//!           | version:u8=2 count (chain session:bytes)*
//! ```
//!
//! Invariants:
//! - TOKEN-1 a token that does not open with this node's key, for this account, goes no further
//!   (D15).
//! - TOKEN-3 what was seen of one chain is nothing to another: ids and stamps are a chain's own.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use fader_chain::{ChainId, DecodeError, Reader, Session, put_bytes, put_varint};
use fader_services::catalog::AccountId;
use fader_services::level::ReplyMetadata;
use fader_services::request::ServiceName;
use fader_services::service::Trouble;

use super::Answer;
use crate::member::pending::{RequestResult, SessionContext};
use crate::member::refusal::{Kind, Refusal};
use crate::secrets::seal::{Seal, SealError};

const VERSION: u8 = 2;
/// Bytes of a session's token: with more, no key need be tried.
const TOKEN_BYTES_MAX: usize = 16 << 10;

/// What a session has seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SessionToken(BTreeMap<ChainId, Session>);

impl SessionToken {
    /// What it has seen of a chain.
    pub(crate) fn of(&self, chain: ChainId) -> Session {
        self.0.get(&chain).cloned().unwrap_or_default()
    }

    /// It has seen that of a chain.
    pub(crate) fn see(&mut self, chain: ChainId, session: Session) {
        self.0.insert(chain, session);
    }

    /// Its encoding.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let has_others = self.0.keys().any(|chain| *chain != ChainId::SYSTEM);
        if !has_others {
            self.of(ChainId::SYSTEM).encode(&mut out);
            return out;
        }
        out.push(VERSION);
        put_varint(&mut out, self.0.len() as u64);
        for (chain, session) in &self.0 {
            put_varint(&mut out, u64::from(chain.0));
            let mut bytes = Vec::new();
            session.encode(&mut bytes);
            put_bytes(&mut out, &bytes);
        }
        out
    }

    /// Reads what `encode` wrote.
    ///
    /// # Errors
    /// [`DecodeError`] when the bytes are no sessions.
    pub(crate) fn decode(bytes: Bytes) -> Result<Self, DecodeError> {
        if bytes.first() != Some(&VERSION) {
            let session = Session::decode(bytes)?;
            return Ok(SessionToken(BTreeMap::from([(ChainId::SYSTEM, session)])));
        }
        let mut reader = Reader::new(bytes);
        reader.byte()?;
        let count = reader.count()?;
        let mut sessions = BTreeMap::new();
        for _ in 0..count {
            let chain = ChainId(reader.varint_u32()?);
            sessions.insert(chain, Session::decode(reader.bytes()?)?);
        }
        reader.end()?;
        Ok(SessionToken(sessions))
    }
}

/// Why a token is not made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TokenError {
    /// More is not settled, on several chains together, than a token has room for.
    #[error("too many writes of the session are not settled yet")]
    TooLong,
    /// It cannot be sealed.
    #[error(transparent)]
    Seal(#[from] SealError),
}

/// The token of a session of `account`.
pub(crate) fn seal(
    seal: &Seal,
    account: &AccountId,
    sessions: &SessionToken,
) -> Result<Bytes, TokenError> {
    let sealed = seal.encrypt(&bound_to(account), &sessions.encode())?;
    let sealed = sealed.expect("a session is shorter than what a cipher takes");
    match sealed.len() <= TOKEN_BYTES_MAX {
        true => Ok(sealed),
        false => Err(TokenError::TooLong),
    }
}

/// What a session of `account` has seen; an empty token is that of a new one.
///
/// `None` if no node with this key gave out the token, to this account (D15).
fn unseal(seal: &Seal, account: &AccountId, token: &[u8]) -> Option<SessionToken> {
    if token.is_empty() {
        return Some(SessionToken::default());
    }
    if TOKEN_BYTES_MAX < token.len() {
        return None;
    }
    let seen = seal.decrypt(&bound_to(account), token)?;
    SessionToken::decode(Bytes::from(seen)).ok()
}

/// What a session is bound to. No id of an access key begins so: none is anything but UTF-8.
fn bound_to(account: &AccountId) -> Vec<u8> {
    [&[0xFF], account.0.as_bytes()].concat()
}

/// What a request on a chain has to follow.
pub(crate) fn on(chain: ChainId, sessions: Option<&SessionToken>) -> SessionContext {
    sessions.map(|sessions| Arc::new(sessions.of(chain)))
}

/// Opens a request's token, if it carries one.
///
/// # Errors
/// [`Trouble::StrangeToken`] for one that no node gave out to this account.
pub(crate) fn open(
    seal: &Seal,
    account: &AccountId,
    token: Option<&[u8]>,
) -> Result<Option<SessionToken>, Trouble> {
    let Some(token) = token else {
        return Ok(None);
    };
    match unseal(seal, account, token) {
        Some(sessions) => Ok(Some(sessions)),
        None => Err(Trouble::StrangeToken),
    }
}

/// The answer as the client gets it, with the token that goes on from here.
pub(crate) fn answered(
    told: RequestResult,
    seal: &Seal,
    account: &AccountId,
    service: ServiceName,
    chain: ChainId,
    sessions: Option<SessionToken>,
) -> Answer {
    let RequestResult {
        outcome,
        mut metadata,
        update,
    } = told;
    if update.is_none() && sessions.is_none() {
        return (outcome, metadata);
    }
    let mut sessions = sessions.unwrap_or_default();
    if let Some(update) = update {
        metadata.settled = update.settled;
        sessions.see(chain, update.session);
    }
    match self::seal(seal, account, &sessions) {
        Ok(token) => metadata.session = Some(token),
        // The client goes on with the token that it has, which may promise less than it saw.
        Err(error) => {
            let refusal = Refusal::of_store(Kind::Unknown, error.to_string());
            return (Err(refusal.of_service(service)), ReplyMetadata::default());
        }
    }
    (outcome, metadata)
}

#[cfg(test)]
mod tests;
