//! The caller of a request, and all that comes before its service: its version, its signature and
//! its rights.

use std::cell::Cell;
use std::sync::Arc;

use bytes::Bytes;
use fader_node::{KnownKey, OpenKey};
use fader_services::catalog::{AccountId, Rights};
use fader_services::level::DefaultConsistency;
use fader_services::simpledb::{Code, Error, Request as Command};
use hyper::header::HOST;
use hyper::http::request::Parts;

use super::{FoundKey, RequestHandler, check_http, now_s};
use crate::consistency::{self, RequestConsistency};
use crate::parameters::Parameters;
use crate::refusal::refuse;
use crate::signature::{Payload, Signed, missing_keys};
use crate::simpledb::{self, Action, Version};

/// A request that is read, authenticated and understood.
pub(super) struct VerifiedRequest {
    pub(super) version: Version,
    pub(super) action: Action,
    pub(super) caller: Caller,
    pub(super) command: Command,
    /// What is asked of consistency, if anything.
    pub(super) asked: Option<RequestConsistency>,
}

pub(super) enum Caller {
    Key(Arc<OpenKey>),
    Anonymous(AccountId),
}

impl Caller {
    pub(super) fn preference(&self) -> Option<DefaultConsistency> {
        match self {
            Caller::Key(key) => key.key.preference,
            Caller::Anonymous(_) => None,
        }
    }

    /// Refuses a key that has only what policies give it: SimpleDB has none.
    pub(super) fn check_rights(&self) -> Result<(), Error> {
        match self {
            Caller::Key(key) if key.key.rights == Rights::Granted => Err(refuse(
                Code::AccessFailure,
                "Access to the resource is denied: the access key has only the rights that \
                 policies give it, and SimpleDB has no policies.",
            )),
            Caller::Key(_) | Caller::Anonymous(_) => Ok(()),
        }
    }

    pub(super) fn account(&self) -> &AccountId {
        match self {
            Caller::Key(key) => &key.key.account,
            Caller::Anonymous(account) => account,
        }
    }
}

impl RequestHandler {
    /// Everything that comes before the service. `action` is set as soon as it is known.
    pub(super) async fn prepare(
        &self,
        parts: &Parts,
        body: &Bytes,
        port: u16,
        action: &mut Option<Action>,
    ) -> Result<VerifiedRequest, Error> {
        check_http(parts, body, &self.settings)?;
        let query = parts.uri.query().unwrap_or_default();
        let parameters = Parameters::read(query.as_bytes(), body, self.settings.parameters_max)?;
        let version = Version::of(&parameters)?;
        let named = Action::of(&parameters, version)?;
        *action = Some(named);
        let caller = self.authenticate(parts, body, port, &parameters).await?;
        caller.check_rights()?;
        let mut asked = consistency::asked(&parts.headers, &parameters)?;
        if let Some(asked) = asked
            .as_mut()
            .filter(|asked| asked.consistency.request.is_some())
        {
            asked.consistency.digest = consistency::digest(caller.account(), &parameters);
        }
        let options = asked
            .as_ref()
            .map(|asked| asked.options)
            .unwrap_or_default();
        let command = simpledb::request(named, &parameters, options)?;
        Ok(VerifiedRequest {
            version,
            action: named,
            caller,
            command,
            asked,
        })
    }

    pub(super) async fn authenticate(
        &self,
        parts: &Parts,
        body: &Bytes,
        port: u16,
        parameters: &Parameters<'_>,
    ) -> Result<Caller, Error> {
        match self.signer(parts, body, port, parameters).await? {
            Some(key) => Ok(Caller::Key(key)),
            None => match &self.settings.anonymous {
                Some(account) => Ok(Caller::Anonymous(account.clone())),
                None => {
                    let refusal = missing_keys();
                    self.complain(&refusal);
                    Err(refusal)
                }
            },
        }
    }

    /// Has `verify` open the access keys that it names. One that only another process knows is
    /// asked for, and then it is verified again.
    pub(super) async fn with_keys<T, E>(
        &self,
        verify: impl Fn(&dyn Fn(&str) -> FoundKey) -> Result<T, E>,
    ) -> Result<T, E> {
        let (verified, elsewhere) = {
            let elsewhere = Cell::new(None);
            let verified = verify(&|id| match self.node.known_key(id)? {
                KnownKey::Key(key) => Ok(Some(key)),
                KnownKey::None => Ok(None),
                KnownKey::Elsewhere => {
                    elsewhere.set(Some(id.to_owned()));
                    Ok(None)
                }
            });
            (verified, elsewhere.into_inner())
        };
        let Some(id) = elsewhere else {
            return verified;
        };
        drop(verified);
        let found = Box::pin(self.node.open_key(&id)).await;
        verify(&|_| found.clone())
    }

    /// The key that signed a request, if one did.
    pub(super) async fn signer(
        &self,
        parts: &Parts,
        body: &Bytes,
        port: u16,
        parameters: &Parameters<'_>,
    ) -> Result<Option<Arc<OpenKey>>, Error> {
        let signed = Signed {
            method: parts.method.as_str(),
            path: parts.uri.path(),
            headers: &parts.headers,
            host: parts
                .headers
                .get(HOST)
                .and_then(|host| host.to_str().ok())
                .unwrap_or_default(),
            port,
            parameters,
            bucket_in_host: None,
            payload: Payload::Body(body),
        };
        self.with_keys(|open| self.verifier.verify(&signed, now_s(), open))
            .await
            .inspect_err(|refusal| self.complain(refusal))
    }
}
