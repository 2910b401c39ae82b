//! Who asks, as the service judges it: by a signature or without one, and with what policies test.
//!
//! Deliberately absent: who may do what (`services::s3`).

use fader_node::{Call, OpenKey};
use fader_services::catalog::{AccountId, Rights};
use fader_services::level::ConsistencyOptions;
use fader_services::policy::Principal;
use fader_services::s3::{Caller, Command, Request};
use hyper::header::{AUTHORIZATION, HeaderMap, REFERER, USER_AGENT};
use hyper::http::request::Parts;

use crate::origin;
use crate::parameters::Parameters;
use crate::request_handler::{Arrival, RequestHandler, now_s};
use crate::s3::fault::{Fault, access_denied};
use crate::s3::{Operation, head};
use crate::signature::http_date;

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
/// Those of them that a form has as fields.
const FIELDS: [&str; 7] = [
    "x-amz-acl",
    "x-amz-grant-full-control",
    "x-amz-grant-read",
    "x-amz-grant-read-acp",
    "x-amz-grant-write",
    "x-amz-grant-write-acp",
    "x-amz-storage-class",
];
/// The name of version 4 in policies.
const VERSION_4: &str = "AWS4-HMAC-SHA256";
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
    /// Who sent a form: its fields, as headers, stand for those that policies test.
    pub(super) fn s3_by_form(
        &self,
        key: Option<&OpenKey>,
        parts: &Parts,
        fields: &HeaderMap,
        arrival: Arrival,
    ) -> Result<By, Fault> {
        let mut parts = parts.clone();
        parts.headers.remove(AUTHORIZATION);
        for name in HEADERS {
            parts.headers.remove(name);
        }
        for name in FIELDS {
            if let Some(value) = fields.get(name) {
                parts.headers.insert(name, value.clone());
            }
        }
        let none = Parameters::default();
        let mut by = self.s3_by(key, &parts, &none, arrival)?;
        if key.is_some() {
            let date = fields.get("x-amz-date").and_then(|it| it.to_str().ok());
            let version = date.map_or("AWS", |_| VERSION_4);
            let age = Some(age_ms(date.unwrap_or_default()));
            by.caller.keys.extend(signature_keys("POST", version, age));
        }
        Ok(by)
    }

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
    let presigned = |version, date| {
        let age = age_ms(parameters.get(date).unwrap_or_default());
        signature_keys("REST-QUERY-STRING", version, Some(age))
    };
    keys.extend(match header(AUTHORIZATION.as_str()) {
        Some(text) if text.starts_with("AWS ") => signature_keys("REST-HEADER", "AWS", None),
        Some(_) => signature_keys("REST-HEADER", VERSION_4, None),
        None if parameters.get("X-Amz-Signature").is_some() => presigned(VERSION_4, "X-Amz-Date"),
        None if parameters.get("Signature").is_some() => presigned("AWS", ""),
        None => Vec::new(),
    });
    keys
}

/// Condition keys about a signature: where it stands, its version, and its age in milliseconds.
fn signature_keys(place: &str, version: &str, age_ms: Option<i64>) -> Vec<(String, String)> {
    let mut keys = vec![
        ("s3:authType".to_owned(), place.to_owned()),
        ("s3:signatureversion".to_owned(), version.to_owned()),
    ];
    keys.extend(age_ms.map(|age| ("s3:signatureAge".to_owned(), age.to_string())));
    keys
}

/// How long ago something was signed. What has no date has no age, as AWS takes version 2.
fn age_ms(date: &str) -> i64 {
    let age_s = http_date(date).map_or(0, |date_s| now_s().saturating_sub(date_s));
    age_s.max(0).saturating_mul(1000)
}

#[cfg(test)]
mod tests {
    use fader_services::s3::is_condition_key;

    use super::*;

    #[test]
    fn policies_may_test_all_that_a_request_shows() {
        let headers = HEADERS.iter().chain(&FIELDS);
        let own = headers.map(|name| format!("s3:{name}"));
        let parameters = PARAMETERS.iter().map(|(_, key)| (*key).to_owned());
        let signature = signature_keys("POST", VERSION_4, Some(0)).into_iter();
        let signature = signature.map(|(key, _)| key);
        for key in own.chain(parameters).chain(signature) {
            assert!(is_condition_key(&key.to_ascii_lowercase()), "{key}");
        }
    }
}
