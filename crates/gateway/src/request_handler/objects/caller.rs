//! Who asks, as the service judges it: by a signature or without one, and with what policies test.
//!
//! Deliberately absent: who may do what (`services::s3`).

use fader_node::{Call, OpenKey};
use fader_services::catalog::{AccountId, Rights};
use fader_services::level::ConsistencyOptions;
use fader_services::policy::Principal;
use fader_services::s3::{Caller, Command, Request};
use hyper::header::{AUTHORIZATION, REFERER, USER_AGENT};
use hyper::http::request::Parts;

use crate::origin;
use crate::parameters::Parameters;
use crate::request_handler::{Arrival, RequestHandler};
use crate::s3::fault::{Fault, access_denied};
use crate::s3::{Operation, head};

/// The account of unsigned requests, for sessions.
const ANONYMOUS: &str = "anonymous";
/// Headers that policies test, as `s3:` and their names.
const HEADERS: [&str; 12] = [
    "if-match",
    "if-none-match",
    "x-amz-acl",
    "x-amz-content-sha256",
    "x-amz-copy-source",
    "x-amz-grant-full-control",
    "x-amz-grant-read",
    "x-amz-grant-read-acp",
    "x-amz-grant-write",
    "x-amz-grant-write-acp",
    "x-amz-metadata-directive",
    "x-amz-storage-class",
];
/// Parameters that policies test.
const PARAMETERS: [(&str, &str); 4] = [
    ("delimiter", "s3:delimiter"),
    ("max-keys", "s3:max-keys"),
    ("prefix", "s3:prefix"),
    ("versionId", "s3:VersionId"),
];

/// Who asks, and how.
#[derive(Clone, Debug)]
pub(super) struct By {
    /// Whose sessions they are.
    pub(super) account: AccountId,
    /// As the service judges it.
    pub(super) caller: Caller,
    /// At which level.
    pub(super) consistency: ConsistencyOptions,
}

impl By {
    /// The server itself, as an account.
    pub(super) fn account(account: &AccountId) -> By {
        By {
            account: account.clone(),
            caller: Caller::of(Principal::Account(account.0.clone())),
            consistency: ConsistencyOptions::default(),
        }
    }

    /// The same with what policies test of an operation: whether it makes an object, of those that
    /// need the right to.
    pub(super) fn doing(mut self, operation: Operation) -> By {
        use Operation as O;
        let is_making = match operation {
            O::PutObject | O::PostObject | O::CopyObject | O::CompleteMultipartUpload => true,
            O::CreateMultipartUpload | O::UploadPart | O::UploadPartCopy => false,
            _ => return self,
        };
        let key = "s3:ObjectCreationOperation".to_owned();
        self.caller.keys.push((key, is_making.to_string()));
        self
    }

    /// Asks for this.
    pub(super) fn call(&self, command: Command) -> Call {
        let mut consistency = self.consistency.clone();
        if command.is_write() {
            consistency.preference = None;
        }
        let request = Request {
            seed: rand::random(),
            caller: self.caller.clone(),
            command,
        };
        Call::new(&self.account, request, consistency)
    }
}

impl RequestHandler {
    /// Who sent a request: the key that signed it; without one the account of an anonymous
    /// server, or the anonymous principal.
    pub(super) fn s3_by(
        &self,
        key: Option<&OpenKey>,
        parts: &Parts,
        parameters: &Parameters<'_>,
        arrival: Arrival,
    ) -> Result<By, Fault> {
        let principal = match (key, &self.settings.anonymous) {
            (Some(key), _) => Principal::Key((key.key.account.0.clone(), key.key.id.clone())),
            (None, Some(account)) => {
                origin::check_page(&parts.headers, &self.settings.hosts).map_err(|error| {
                    Fault {
                        message: error.message,
                        ..access_denied()
                    }
                })?;
                Principal::Account(account.0.clone())
            }
            (None, None) => Principal::Anonymous,
        };
        let expected = head::text(&parts.headers, "x-amz-expected-bucket-owner")?;
        let account = principal.account().map_or(ANONYMOUS, String::as_str);
        Ok(By {
            account: AccountId(account.to_owned()),
            caller: Caller {
                is_granted_only: key.is_some_and(|key| key.key.rights == Rights::Granted),
                keys: keys(parts, parameters, arrival),
                expected_owner: expected.map(str::to_owned),
                ..Caller::of(principal)
            },
            consistency: ConsistencyOptions::default(),
        })
    }
}

/// Condition keys of policies, with their values.
fn keys(parts: &Parts, parameters: &Parameters<'_>, arrival: Arrival) -> Vec<(String, String)> {
    let header = |name: &str| parts.headers.get(name).and_then(|it| it.to_str().ok());
    let mut keys = Vec::new();
    let mut add = |key: String, value: &str| keys.push((key, value.to_owned()));
    add(
        "aws:SecureTransport".to_owned(),
        &arrival.is_secure.to_string(),
    );
    if let Some(peer) = arrival.peer {
        add("aws:SourceIp".to_owned(), &peer.to_string());
    }
    for (name, key) in [(REFERER, "aws:Referer"), (USER_AGENT, "aws:UserAgent")] {
        if let Some(value) = header(name.as_str()) {
            add(key.to_owned(), value);
        }
    }
    for name in HEADERS {
        if let Some(value) = header(name) {
            add(format!("s3:{name}"), value);
        }
    }
    for (name, key) in PARAMETERS {
        if let Some(value) = parameters.get(name) {
            add(key.to_owned(), value);
        }
    }
    let kinds = match header(AUTHORIZATION.as_str()) {
        Some(text) if text.starts_with("AWS ") => Some(("REST-HEADER", "AWS")),
        Some(_) => Some(("REST-HEADER", "AWS4-HMAC-SHA256")),
        None if parameters.get("X-Amz-Signature").is_some() => {
            Some(("REST-QUERY-STRING", "AWS4-HMAC-SHA256"))
        }
        None if parameters.get("Signature").is_some() => Some(("REST-QUERY-STRING", "AWS")),
        None => None,
    };
    if let Some((kind, version)) = kinds {
        add("s3:authType".to_owned(), kind);
        add("s3:signatureversion".to_owned(), version);
    }
    keys
}
