//! Signature version 2: HMAC over the method, host, path and sorted parameters.
//!
//! The host is the `Host` header in lower case. Clients disagree on the lower case and on whether
//! the port belongs to it. So their readings are tried too: they name the same place.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use fader_services::simpledb::{Code, Error};
use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;
use sha2::Sha256;
use subtle::ConstantTimeEq;

use super::{EXPIRES_S_MAX, Signed, expired, incomplete, missing_keys, time};
use crate::parameters::Parameters;
use crate::percent;
use crate::refusal::{missing, refuse};

/// A signature as presented; nothing of it is trusted yet.
pub(super) struct Presented<'a> {
    key_id: &'a str,
    algorithm: Algorithm,
    signature: &'a str,
    time: Time<'a>,
}

#[derive(Clone, Copy)]
enum Algorithm {
    Sha1,
    Sha256,
}

enum Time<'a> {
    Timestamp(&'a str),
    Expires(&'a str),
}

impl<'a> Presented<'a> {
    /// Reads the signature among the parameters.
    pub(super) fn in_parameters(parameters: &'a Parameters<'_>) -> Result<Self, Error> {
        let key_id = parameters.get("AWSAccessKeyId").ok_or_else(missing_keys)?;
        let signature = parameters
            .get("Signature")
            .ok_or_else(|| missing("Signature"))?;
        match parameters.get("SignatureVersion") {
            Some("2") => {}
            Some(other) => return Err(unsupported("SignatureVersion", other, "2")),
            None => return Err(missing("SignatureVersion")),
        }
        let algorithm = match parameters.get("SignatureMethod") {
            Some("HmacSHA256") => Algorithm::Sha256,
            Some("HmacSHA1") => Algorithm::Sha1,
            Some(other) => {
                return Err(unsupported(
                    "SignatureMethod",
                    other,
                    "HmacSHA256 or HmacSHA1",
                ));
            }
            None => return Err(missing("SignatureMethod")),
        };
        let time = match (parameters.get("Timestamp"), parameters.get("Expires")) {
            (Some(text), None) => Time::Timestamp(text),
            (None, Some(text)) => Time::Expires(text),
            (None, None) => return Err(missing("Timestamp")),
            (Some(_), Some(_)) => {
                return Err(refuse(
                    Code::InvalidParameterCombination,
                    "The parameter Timestamp cannot be used with the parameter Expires",
                ));
            }
        };
        Ok(Presented {
            key_id,
            algorithm,
            signature,
            time,
        })
    }

    /// The key's id, if the request is neither too old nor from the future.
    pub(super) fn check_time(&self, now_s: i64, skew_s: i64) -> Result<&'a str, Error> {
        let (name, text) = match self.time {
            Time::Timestamp(text) => ("Timestamp", text),
            Time::Expires(text) => ("Expires", text),
        };
        let time_s = time::iso(text)
            .ok_or_else(|| incomplete(&format!("{name} is not a time of ISO 8601")))?;
        let is_in_time = match self.time {
            Time::Timestamp(_) => now_s.abs_diff(time_s) <= skew_s.unsigned_abs(),
            Time::Expires(_) => now_s <= time_s && time_s <= now_s.saturating_add(EXPIRES_S_MAX),
        };
        match (is_in_time, &self.time) {
            (true, _) => Ok(self.key_id),
            (false, Time::Expires(_)) if now_s < time_s => Err(refuse(
                Code::InvalidParameterValue,
                format!(
                    "Value ({text}) for parameter Expires is invalid. It must be within 7 days."
                ),
            )),
            (false, _) => Err(expired(name, text)),
        }
    }

    /// Whether the request is signed with `secret`.
    pub(super) fn is_signed_with(&self, secret: &str, signed: &Signed<'_>) -> bool {
        let Ok(signature) = BASE64.decode(self.signature) else {
            return false;
        };
        let parameters = canonical(signed.parameters);
        let is_signed_for = |host: &str| {
            let head = [signed.method, "\n", host, "\n", signed.path, "\n"];
            let message = head
                .iter()
                .map(|text| text.as_bytes())
                .chain([&*parameters]);
            let computed = match self.algorithm {
                Algorithm::Sha1 => mac::<Hmac<Sha1>>(secret, message),
                Algorithm::Sha256 => mac::<Hmac<Sha256>>(secret, message),
            };
            bool::from(computed.ct_eq(&signature))
        };
        let host = signed.host.to_ascii_lowercase();
        is_signed_for(&host)
            || is_signed_for(signed.host)
            || is_signed_for(&other_reading(&host, signed.port))
    }
}

/// `host` without its port if it has one, with `port` if it has none.
fn other_reading(host: &str, port: u16) -> String {
    match host.rsplit_once(':') {
        // The colons of an IPv6 address stand in brackets.
        Some((name, digits)) if !digits.ends_with(']') => name.to_owned(),
        _ => format!("{host}:{port}"),
    }
}

/// `name=value&...`, encoded and sorted by name, without the signature itself.
fn canonical(parameters: &Parameters<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    for parameter in parameters
        .all()
        .iter()
        .filter(|parameter| parameter.name != "Signature")
    {
        if !out.is_empty() {
            out.push(b'&');
        }
        percent::encode(&parameter.name, &mut out);
        out.push(b'=');
        percent::encode(&parameter.value, &mut out);
    }
    out
}

fn mac<'m, M: Mac + KeyInit>(secret: &str, message: impl Iterator<Item = &'m [u8]>) -> Vec<u8> {
    let mut mac =
        <M as KeyInit>::new_from_slice(secret.as_bytes()).expect("HMAC takes a key of any length");
    for part in message {
        mac.update(part);
    }
    mac.finalize().into_bytes().to_vec()
}

fn unsupported(name: &str, value: &str, known: &str) -> Error {
    refuse(
        Code::InvalidParameterValue,
        format!("Value ({value}) for parameter {name} is invalid. {name} must be {known}."),
    )
}

#[cfg(test)]
mod tests;
