//! What a session has seen of each chain: the inside of its token (D15).
//!
//! ```text
//! sessions := session                                    of the system chain alone (chain/session)
//!           | version:u8=2 count (chain session:bytes)*
//! ```
//!
//! Invariants:
//! - F3 what was seen of one chain is nothing to another: ids and stamps are a chain's own.

use std::collections::BTreeMap;

use bytes::Bytes;
use fader_chain::{ChainId, DecodeError, Reader, Session, put_bytes, put_varint};

const VERSION: u8 = 2;

/// What a session has seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sessions(BTreeMap<ChainId, Session>);

impl Sessions {
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
            return Ok(Sessions(BTreeMap::from([(ChainId::SYSTEM, session)])));
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
        Ok(Sessions(sessions))
    }
}

#[cfg(test)]
mod tests;
