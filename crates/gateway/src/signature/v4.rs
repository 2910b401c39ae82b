//! Signature version 4: HMAC with a key derived for one day, region and service.
//!
//! ```text
//! in the header   query string as it is, hash of the body
//! in the query    query string without X-Amz-Signature, hash of the body
//! in the form     the form joins the query string, as if the body were empty
//! ```
//!
//! The hash is computed from the body that arrived. Of a request to S3 it is what the client
//! announces, and the body is compared with it as it comes ([`ChunkKey`], `s3::body`).

use std::borrow::Cow;
use std::collections::HashMap;

use fader_services::simpledb::{Code, Error};
use hmac::{Hmac, KeyInit, Mac};
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use parking_lot::RwLock;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use super::{EXPIRES_S_MAX, Payload, Signed, expired, incomplete, time};
use crate::parameters::{Parameter, Parameters, Source};
use crate::percent;
use crate::refusal::refuse;

const ALGORITHM: &str = "AWS4-HMAC-SHA256";
/// A request goes to the service that its scope names (`AskedService`).
const SERVICES: [&str; 3] = ["sdb", "sqs", super::S3];
const TERMINATOR: &str = "aws4_request";
/// Where the service stands in a credential.
const SERVICE_AT: usize = 3;
/// The hash of no bytes.
const EMPTY_HASH: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
/// Credential scopes whose derived keys are kept.
const DERIVED_KEYS_MAX: usize = 1024;

/// A signature as presented; nothing of it is trusted yet.
pub(super) struct Presented<'a> {
    place: Place,
    /// `key id/day/region/service/aws4_request`.
    credential: &'a str,
    key_id: &'a str,
    signed_headers: &'a str,
    signature: &'a str,
    /// `X-Amz-Date`, or the same of `Date`.
    date: Cow<'a, str>,
    /// Seconds from `date` on that a presigned request lives.
    expires_s: Option<i64>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Header,
    Query,
    Form,
}

impl<'a> Presented<'a> {
    /// Reads an `Authorization` header.
    pub(super) fn in_header(
        header: &'a HeaderValue,
        headers: &'a HeaderMap,
    ) -> Result<Self, Error> {
        let fields = header
            .to_str()
            .ok()
            .and_then(|text| text.strip_prefix(ALGORITHM)?.strip_prefix(' '))
            .ok_or_else(bad_header)?;
        let (mut credential, mut signed_headers, mut signature) = (None, None, None);
        for field in fields.split(',').map(str::trim) {
            let (name, value) = field.split_once('=').ok_or_else(bad_header)?;
            let place = match name {
                "Credential" => &mut credential,
                "SignedHeaders" => &mut signed_headers,
                "Signature" => &mut signature,
                _ => return Err(bad_header()),
            };
            if place.replace(value).is_some() {
                return Err(bad_header());
            }
        }
        let missing = |name: &str| incomplete(&format!("Authorization has no {name}"));
        let credential = credential.ok_or_else(|| missing("Credential"))?;
        let signed_headers = signed_headers.ok_or_else(|| missing("SignedHeaders"))?;
        let signature = signature.ok_or_else(|| missing("Signature"))?;
        let text = |name: &str| headers.get(name).and_then(|date| date.to_str().ok());
        let date = match (text("x-amz-date"), text("date")) {
            (Some(date), _) => Some(Cow::Borrowed(date)),
            (None, Some(date)) => time::basic_of_http(date).map(Cow::Owned),
            (None, None) => None,
        };
        let date = date.ok_or_else(|| incomplete("The header X-Amz-Date is missing"))?;
        check_host_is_signed(signed_headers)?;
        Ok(Presented {
            place: Place::Header,
            credential,
            key_id: key_id(credential, &date)?,
            signed_headers,
            signature,
            date,
            expires_s: None,
        })
    }

    /// Reads the parameters `X-Amz-*`.
    pub(super) fn in_parameters(
        signature: &'a Parameter<'_>,
        parameters: &'a Parameters<'_>,
    ) -> Result<Self, Error> {
        let get = |name: &str| {
            parameters
                .get(name)
                .ok_or_else(|| incomplete(&format!("{name} is missing")))
        };
        if get("X-Amz-Algorithm")? != ALGORITHM {
            return Err(incomplete(&format!("X-Amz-Algorithm must be {ALGORITHM}")));
        }
        let expires_s = match parameters.get("X-Amz-Expires").map(str::parse) {
            None => None,
            Some(Ok(expires_s @ 1..=EXPIRES_S_MAX)) => Some(expires_s),
            Some(_) => return Err(incomplete("X-Amz-Expires must be between 1 and 604800")),
        };
        let (credential, date) = (get("X-Amz-Credential")?, get("X-Amz-Date")?);
        let signed_headers = get("X-Amz-SignedHeaders")?;
        check_host_is_signed(signed_headers)?;
        Ok(Presented {
            place: match signature.source {
                Source::Query => Place::Query,
                Source::Form => Place::Form,
            },
            credential,
            key_id: key_id(credential, date)?,
            signed_headers,
            signature: &signature.value,
            date: Cow::Borrowed(date),
            expires_s,
        })
    }

    /// The key's id, if the request is neither too old nor from the future.
    pub(super) fn check_time(&self, now_s: i64, skew_s: i64) -> Result<&'a str, Error> {
        let date_s = time::basic(&self.date)
            .ok_or_else(|| incomplete("X-Amz-Date must be like 20261120T212043Z"))?;
        let life_s = self.expires_s.unwrap_or(skew_s);
        let is_in_time =
            date_s.saturating_sub(skew_s) <= now_s && now_s <= date_s.saturating_add(life_s);
        if is_in_time {
            Ok(self.key_id)
        } else {
            Err(expired("X-Amz-Date", &self.date))
        }
    }

    /// Whether the request is signed with `secret`. `derived` keeps keys that did sign.
    pub(super) fn is_signed_with(
        &self,
        secret: &str,
        signed: &Signed<'_>,
        derived: Option<&DerivedKeys>,
    ) -> bool {
        let Some(canonical) = self.canonical_request(signed) else {
            return false;
        };
        let scope = &self.credential[self.key_id.len() + 1..];
        let mut hash = [0; 64];
        hex(&Sha256::digest(canonical), &mut hash);
        let message = [
            ALGORITHM.as_bytes(),
            b"\n",
            self.date.as_bytes(),
            b"\n",
            scope.as_bytes(),
            b"\n",
        ];
        let kept = derived.and_then(|derived| derived.get(self.credential));
        let is_kept = kept.is_some();
        let key = kept.unwrap_or_else(|| derive(secret, scope));
        let mut computed = [0; 64];
        hex(
            &mac(&*key, message.into_iter().chain([&hash[..]])),
            &mut computed,
        );
        let is_signed = bool::from(computed.ct_eq(self.signature.as_bytes()));
        if let (true, false, Some(derived)) = (is_signed, is_kept, derived) {
            derived.keep(self.credential, key);
        }
        is_signed
    }

    /// The canonical request; `None` if a signed header is not there.
    fn canonical_request(&self, signed: &Signed<'_>) -> Option<Vec<u8>> {
        let mut out = Vec::with_capacity(1024);
        out.extend_from_slice(signed.method.as_bytes());
        out.push(b'\n');
        out.extend_from_slice(signed.path.as_bytes());
        out.push(b'\n');
        self.canonical_query(signed.parameters, &mut out);
        out.push(b'\n');
        for name in self.signed_headers.split(';') {
            let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
            out.extend_from_slice(name.as_str().as_bytes());
            out.push(b':');
            let mut values = signed.headers.get_all(&name).iter();
            canonical_value(values.next()?.as_bytes(), &mut out);
            for value in values {
                out.push(b',');
                canonical_value(value.as_bytes(), &mut out);
            }
            out.push(b'\n');
        }
        out.push(b'\n');
        out.extend_from_slice(self.signed_headers.as_bytes());
        out.push(b'\n');
        let body = match signed.payload {
            Payload::Announced(text) => {
                out.extend_from_slice(text.as_bytes());
                return Some(out);
            }
            Payload::Body(_) if self.place == Place::Form => &[],
            Payload::Body(body) => body,
        };
        let mut hash = [0; 64];
        hex(&Sha256::digest(body), &mut hash);
        out.extend_from_slice(&hash);
        Some(out)
    }

    /// The service of the scope.
    pub(super) fn service(&self) -> &str {
        self.credential
            .split('/')
            .nth(SERVICE_AT)
            .unwrap_or_default()
    }

    /// A header of AWS's own that was sent and is not signed.
    pub(super) fn unsigned_header(&self, headers: &'a HeaderMap) -> Option<&'a str> {
        let mut names = headers.keys().map(HeaderName::as_str);
        names.find(|name| {
            name.starts_with("x-amz-") && !self.signed_headers.split(';').any(|it| it == *name)
        })
    }

    /// What chunks of the body are signed with: this request is signed with `secret`.
    pub(super) fn chunk_key(&self, secret: &str) -> Option<ChunkKey> {
        if self.place != Place::Header {
            return None;
        }
        let scope = &self.credential[self.key_id.len() + 1..];
        Some(ChunkKey {
            key: derive(secret, scope),
            date_and_scope: format!("{}\n{scope}\n", self.date),
            before: self.signature.to_owned(),
        })
    }

    fn canonical_query(&self, parameters: &Parameters<'_>, out: &mut Vec<u8>) {
        let mut signed: Vec<_> = parameters
            .all()
            .iter()
            .filter(|parameter| parameter.source == Source::Query || self.place == Place::Form)
            .filter(|parameter| self.place == Place::Header || parameter.name != "X-Amz-Signature")
            .collect();
        // Version 4 sorts what is encoded, version 2 what is not.
        signed.sort_by(|a, b| percent::encoded(&a.name).cmp(percent::encoded(&b.name)));
        for (index, parameter) in signed.into_iter().enumerate() {
            if index > 0 {
                out.push(b'&');
            }
            percent::encode(&parameter.name, out);
            out.push(b'=');
            percent::encode(&parameter.value, out);
        }
    }
}

/// Verifies the signatures of a body's chunks, each of which goes on from the one before.
pub(crate) struct ChunkKey {
    key: Zeroizing<[u8; 32]>,
    date_and_scope: String,
    before: String,
}

impl ChunkKey {
    /// Whether the next chunk, whose hash is this, has this signature.
    pub(crate) fn is_signed(&mut self, hash: &[u8], signature: &str) -> bool {
        let mut digits = [0; 64];
        hex(hash, &mut digits);
        let head = [
            "AWS4-HMAC-SHA256-PAYLOAD\n",
            &self.date_and_scope,
            &self.before,
        ];
        let head = head.map(str::as_bytes).into_iter();
        let rest = [b"\n".as_slice(), EMPTY_HASH.as_bytes(), b"\n", &digits];
        let computed = mac(&*self.key, head.chain(rest));
        self.go_on(&computed, signature)
    }

    /// Whether the trailer, whose hash is this, has this signature.
    pub(crate) fn is_trailer_signed(&mut self, hash: &[u8], signature: &str) -> bool {
        let mut digits = [0; 64];
        hex(hash, &mut digits);
        let head = [
            "AWS4-HMAC-SHA256-TRAILER\n",
            &self.date_and_scope,
            &self.before,
        ];
        let head = head.map(str::as_bytes).into_iter();
        let computed = mac(&*self.key, head.chain([b"\n".as_slice(), &digits]));
        self.go_on(&computed, signature)
    }

    fn go_on(&mut self, computed: &[u8; 32], signature: &str) -> bool {
        let mut digits = [0; 64];
        hex(computed, &mut digits);
        signature.clone_into(&mut self.before);
        bool::from(digits.ct_eq(signature.as_bytes()))
    }
}

/// The key of the chunks of a request that is signed so.
#[cfg(test)]
pub(crate) fn chunk_key(secret: &str, scope: &str, date: &str, signature: &str) -> ChunkKey {
    ChunkKey {
        key: derive(secret, scope),
        date_and_scope: format!("{date}\n{scope}\n"),
        before: signature.to_owned(),
    }
}

/// Whether a policy is signed with the key of a secret for a scope.
pub(super) fn is_text_signed(secret: &str, scope: &str, text: &str, signature: &str) -> bool {
    let key = derive(secret, scope);
    let mut digits = [0; 64];
    hex(&mac(&*key, [text.as_bytes()].into_iter()), &mut digits);
    bool::from(digits.ct_eq(signature.as_bytes()))
}

/// The key's id in a credential whose scope is ours and of `date`.
pub(super) fn key_id<'c>(credential: &'c str, date: &str) -> Result<&'c str, Error> {
    let parts: Vec<&str> = credential.split('/').collect();
    let [key_id, day, region, service, TERMINATOR] = parts[..] else {
        return Err(incomplete(&format!(
            "Credential must be key/yyyymmdd/region/service/{TERMINATOR}"
        )));
    };
    if !SERVICES.contains(&service) || region.is_empty() {
        return Err(wrong_scope(
            "Credential should be scoped to correct service: 'sdb'.",
        ));
    }
    if Some(day) != date.get(..8) {
        return Err(wrong_scope(
            "Date in Credential scope does not match YYYYMMDD from X-Amz-Date.",
        ));
    }
    Ok(key_id)
}

fn check_host_is_signed(signed_headers: &str) -> Result<(), Error> {
    if signed_headers.split(';').any(|name| name == "host") {
        Ok(())
    } else {
        Err(incomplete("SignedHeaders must have host"))
    }
}

/// A header's value without blanks at its ends, runs of blanks inside as one.
fn canonical_value(value: &[u8], out: &mut Vec<u8>) {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let words = value.split(is_blank).filter(|word| !word.is_empty());
    for (index, word) in words.enumerate() {
        if index > 0 {
            out.push(b' ');
        }
        out.extend_from_slice(word);
    }
}

/// Signing keys of credential scopes that have signed. A key's secret never changes, so that they
/// never turn wrong; whether the key still works is asked on every request.
#[derive(Default)]
pub(super) struct DerivedKeys {
    by_credential: RwLock<HashMap<Box<str>, Zeroizing<[u8; 32]>>>,
}

impl DerivedKeys {
    fn get(&self, credential: &str) -> Option<Zeroizing<[u8; 32]>> {
        self.by_credential.read().get(credential).cloned()
    }

    /// Keeps `key`. A full map starts anew: that costs each live scope one derivation.
    fn keep(&self, credential: &str, key: Zeroizing<[u8; 32]>) {
        let mut keys = self.by_credential.write();
        if keys.len() >= DERIVED_KEYS_MAX {
            keys.clear();
        }
        keys.insert(credential.into(), key);
    }
}

/// The key for `scope`: `day/region/service/aws4_request`.
fn derive(secret: &str, scope: &str) -> Zeroizing<[u8; 32]> {
    let first = Zeroizing::new([b"AWS4", secret.as_bytes()].concat());
    let mut parts = scope.split('/');
    let day = parts.next().unwrap_or_default();
    let mut key = Zeroizing::new(mac(&first, [day.as_bytes()].into_iter()));
    for part in parts {
        key = Zeroizing::new(mac(&*key, [part.as_bytes()].into_iter()));
    }
    key
}

fn mac<'m>(key: &[u8], message: impl Iterator<Item = &'m [u8]>) -> [u8; 32] {
    let mut mac =
        <Hmac<Sha256> as KeyInit>::new_from_slice(key).expect("HMAC takes a key of any length");
    for part in message {
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

fn hex(sum: &[u8], out: &mut [u8; 64]) {
    const_hex::encode_to_slice(sum, out).expect("a SHA-256 has 64 digits");
}

fn bad_header() -> Error {
    refuse(
        Code::InvalidHttpAuthHeader,
        format!(
            "The HTTP authorization header is bad, use {ALGORITHM} Credential=..., \
             SignedHeaders=..., Signature=..."
        ),
    )
}

/// The refusal of a signature for another service.
pub(super) fn wrong_service() -> Error {
    wrong_scope("Credential should be scoped to the service that is asked.")
}

fn wrong_scope(message: &str) -> Error {
    refuse(Code::SignatureDoesNotMatch, message)
}

#[cfg(test)]
mod tests;
