//! What a call asks for beside its action, and what its reply tells beside the answer.
//!
//! A call asks in parameters, so that signatures of both versions cover it; a reply tells in
//! headers, which only Fader sends. The grammar of both is `fader_services::level`'s.

use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use fader_chain::RequestId;
use fader_services::level::{
    self, Bound, Level, Malformed, ReplyMetadata, header, parse_stamp, parse_version, show_name,
};
use hyper::HeaderMap;

use crate::error::Error;

/// What a call asks for beside its action. The default asks for nothing: the service's own promise.
#[derive(Debug, Default)]
pub struct CallOptions<'s> {
    /// Whether a read sees every write acknowledged before, in words that every SimpleDB knows.
    pub consistent: bool,
    /// Whether the reply tells what was read or written; this and all below is for Fader only.
    pub metadata: bool,
    /// The level of consistency.
    pub level: Level,
    /// How stale an eventual read may be.
    pub bound: Option<Bound>,
    /// Whether the reply to a write waits until it can tell what became of it.
    pub outcome: bool,
    /// Whose reads and writes the call follows.
    pub session: Option<&'s mut Session>,
    /// The name of a write. One that is sent again under its name happens once.
    pub request: Option<RequestId>,
}

/// What one client has seen and written, as the service told it. Its calls follow one another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Session {
    token: Bytes,
}

impl CallOptions<'_> {
    /// What sees every write acknowledged before, in words that every SimpleDB knows.
    pub fn consistent() -> Self {
        CallOptions {
            consistent: true,
            ..CallOptions::default()
        }
    }

    /// Appends what is asked to a call's parameters.
    pub(crate) fn write(&self, parameters: &mut Vec<(String, String)>) {
        let consistency = level::ConsistencyOptions {
            level: self.level,
            bound: self.bound,
            outcome: self.outcome,
            ..level::ConsistencyOptions::default()
        };
        let is_level = self.metadata || consistency != level::ConsistencyOptions::default();
        for (name, value) in [
            ("ConsistentRead", self.consistent.then(|| "true".to_owned())),
            (
                "Fader-Consistency",
                is_level.then(|| consistency.to_string()),
            ),
            (
                "Fader-Session",
                self.session.as_deref().map(Session::to_string),
            ),
            ("Fader-Request", self.request.as_ref().map(show_name)),
        ] {
            parameters.extend(value.map(|value| (name.to_owned(), value)));
        }
    }
}

impl From<level::ConsistencyOptions> for CallOptions<'_> {
    /// Takes over all but the session, which is an object here.
    fn from(options: level::ConsistencyOptions) -> Self {
        CallOptions {
            level: options.level,
            bound: options.bound,
            outcome: options.outcome,
            request: options.request,
            ..CallOptions::default()
        }
    }
}

impl Session {
    /// Goes on from what a reply tells; a refusal tells too, of a write that is lost.
    pub(crate) fn follow(&mut self, metadata: &ReplyMetadata) {
        if let Some(token) = &metadata.session {
            self.token = token.clone();
        }
    }
}

/// Shows the token, to resume the session from.
impl std::fmt::Display for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&URL_SAFE_NO_PAD.encode(&self.token))
    }
}

/// Resumes a session from its token; a new one from nothing.
impl FromStr for Session {
    type Err = Error;

    fn from_str(text: &str) -> Result<Session, Error> {
        Ok(Session {
            token: token(text.trim())?,
        })
    }
}

/// What a reply's headers tell.
pub(crate) fn metadata(headers: &HeaderMap) -> Result<ReplyMetadata, Error> {
    let get = |name| headers.get(name)?.to_str().ok();
    let settled = headers.get_all(header::SETTLED).iter();
    let settled = settled.filter_map(|value| value.to_str().ok());
    let read = || {
        Ok(ReplyMetadata {
            stamp: get(header::STAMP).map(parse_stamp).transpose()?,
            version: get(header::VERSION).map(parse_version).transpose()?,
            tentative: get(header::TENTATIVE) == Some("true"),
            outcome: get(header::OUTCOME).map(str::parse).transpose()?,
            session: None,
            settled: settled.map(str::parse).collect::<Result<_, _>>()?,
        })
    };
    let metadata =
        read().map_err(|wrong: Malformed| Error::malformed(format!("reply: {wrong}")))?;
    let session = get(header::SESSION).map(token).transpose()?;
    Ok(ReplyMetadata {
        session,
        ..metadata
    })
}

fn token(text: &str) -> Result<Bytes, Error> {
    let token = URL_SAFE_NO_PAD.decode(text);
    let token = token.map_err(|_| Error::malformed("a session's token is not in base64"))?;
    Ok(Bytes::from(token))
}
