//! AWS signatures of posts: version 2 in the form, version 4 in the headers.
//!
//! The parameters are encoded once, sorted, and that text is both what is signed and what is sent.
//! Everything that does not change from one request to the next is kept. That is the key's HMAC
//! state, and in a [`Moment`] the time stamps and the day's signing key.
//!
//! Any request is signed in [`request`]: S3's, in headers and in URLs.
//!
//! Deliberately absent: chunked signatures, session tokens.

mod request;

use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::{Digest, Sha256};

use crate::credentials::Credentials;

/// The region that is signed for unless another is asked for.
pub(crate) const REGION: &str = "us-east-1";
const API_VERSION: &str = "2009-04-15";
/// The media type of every request; a signature of version 4 covers it.
pub const CONTENT_TYPE: &str = "application/x-www-form-urlencoded; charset=utf-8";

pub(crate) use request::{Signable, encoded_path, encoded_query};

type HmacSha256 = Hmac<Sha256>;

/// The signature algorithm of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SignatureVersion {
    /// HMAC over the sorted form, carried in the form; boto3's choice for SimpleDB.
    #[default]
    V2,
    /// HMAC over the headers and the body's hash, carried in the `Authorization` header.
    V4,
}

/// Signs the requests of one key for one host.
pub struct Signer {
    access_key: String,
    version: SignatureVersion,
    /// The service's name in a scope: `sdb`, `sqs`.
    service: &'static str,
    region: String,
    host: String,
    /// The HMAC keyed with the secret (V2) or with `AWS4` and the secret (V4).
    keyed: HmacSha256,
    /// Of the second that was asked for last.
    latest: Mutex<Option<Arc<Moment>>>,
}

/// What a signer keeps for all requests of one second.
pub struct Moment {
    /// Seconds since 1970.
    second: i64,
    /// `2026-11-20T21:20:43Z`.
    extended: String,
    /// `20261120T212043Z`.
    basic: String,
    /// The HMAC keyed with the day's key; of use in V4 only.
    keyed: HmacSha256,
}

/// The headers that a signature adds to a request; none in version 2.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers(pub Vec<(&'static str, String)>);

impl Signer {
    /// A signer for SimpleDB at `host`, which is what the `Host` header says, port included.
    pub fn new(credentials: &Credentials, version: SignatureVersion, host: &str) -> Self {
        Signer::of_service("sdb", credentials, version, host)
    }

    /// A signer for any service.
    pub(crate) fn of_service(
        service: &'static str,
        credentials: &Credentials,
        version: SignatureVersion,
        host: &str,
    ) -> Self {
        let keyed = match version {
            SignatureVersion::V2 => keyed(credentials.secret().as_bytes()),
            SignatureVersion::V4 => {
                let secret = zeroize::Zeroizing::new(format!("AWS4{}", credentials.secret()));
                keyed(secret.as_bytes())
            }
        };
        Signer {
            access_key: credentials.access_key().to_owned(),
            version,
            service,
            region: REGION.to_owned(),
            host: host.to_ascii_lowercase(),
            keyed,
            latest: Mutex::default(),
        }
    }

    /// The same in another region than [`REGION`], which only version 4 knows.
    pub(crate) fn in_region(self, region: &str) -> Self {
        Signer {
            region: region.to_owned(),
            latest: Mutex::default(),
            ..self
        }
    }

    /// The host that is signed for: what the `Host` header must say.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// What is the same for all requests of that second: made once while none asks for another.
    pub(crate) fn at(&self, second: i64) -> Arc<Moment> {
        let mut latest = self
            .latest
            .lock()
            .expect("nothing panics while it is locked");
        match &*latest {
            Some(moment) if moment.second == second => Arc::clone(moment),
            _ => {
                let moment = Arc::new(self.moment(second));
                *latest = Some(Arc::clone(&moment));
                moment
            }
        }
    }

    /// What is the same for all requests of that second of 1970's clock.
    pub fn moment(&self, second: i64) -> Moment {
        // Years 1970 to 9999: beyond, a clock is broken and the service will say so.
        let second = second.clamp(0, 253_402_207_200);
        let time = Timestamp::from_second(second).expect("clamped to what a timestamp holds");
        let basic = time.strftime("%Y%m%dT%H%M%SZ").to_string();
        let mut key = derive(&self.keyed, &basic.as_bytes()[..8]);
        for part in [&self.region, self.service, "aws4_request"] {
            key = derive(&key, part.as_bytes());
        }
        let extended = time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        Moment {
            second,
            extended,
            basic,
            keyed: key,
        }
    }

    /// Writes the signed form of an action into `body`, replacing what it held.
    ///
    /// `parameters` name neither the action nor what signing adds; they are sorted here.
    pub fn sign<'a>(
        &'a self,
        moment: &'a Moment,
        action: &'a str,
        parameters: &mut Vec<(&'a str, &'a str)>,
        body: &mut Vec<u8>,
    ) -> Headers {
        parameters.extend([("Action", action), ("Version", API_VERSION)]);
        if self.version == SignatureVersion::V2 {
            parameters.extend([
                ("AWSAccessKeyId", self.access_key.as_str()),
                ("SignatureMethod", "HmacSHA256"),
                ("SignatureVersion", "2"),
                ("Timestamp", &moment.extended),
            ]);
        }
        write_form(parameters, body);
        match self.version {
            SignatureVersion::V2 => self.sign_v2(body),
            SignatureVersion::V4 => self.sign_v4(moment, CONTENT_TYPE, None, body),
        }
    }

    fn sign_v2(&self, body: &mut Vec<u8>) -> Headers {
        let mut mac = self.keyed.clone();
        mac.update(b"POST\n");
        mac.update(self.host.as_bytes());
        mac.update(b"\n/\n");
        mac.update(body);
        let signature = STANDARD.encode(mac.finalize().into_bytes());
        body.extend_from_slice(b"&Signature=");
        encode(&signature, body);
        Headers::default()
    }

    /// Signs a post to `/` of this media type, and of this `x-amz-target` if the protocol has one.
    pub(crate) fn sign_v4(
        &self,
        moment: &Moment,
        content_type: &str,
        target: Option<&str>,
        body: &[u8],
    ) -> Headers {
        let Signer {
            access_key,
            service,
            region,
            host,
            ..
        } = self;
        let date = &moment.basic;
        let (target, signed) = match target {
            None => (String::new(), "content-type;host;x-amz-date"),
            Some(target) => (
                format!("x-amz-target:{target}\n"),
                "content-type;host;x-amz-date;x-amz-target",
            ),
        };
        let request = format!(
            "POST\n/\n\ncontent-type:{content_type}\nhost:{host}\nx-amz-date:{date}\n{target}\n\
             {signed}\n{}",
            const_hex::encode(Sha256::digest(body))
        );
        let scope = format!("{}/{region}/{service}/aws4_request", &date[..8]);
        let mut mac = moment.keyed.clone();
        mac.update(b"AWS4-HMAC-SHA256\n");
        mac.update(date.as_bytes());
        mac.update(b"\n");
        mac.update(scope.as_bytes());
        mac.update(b"\n");
        mac.update(const_hex::encode(Sha256::digest(request.as_bytes())).as_bytes());
        let signature = const_hex::encode(mac.finalize().into_bytes());
        let authorization = format!(
            "AWS4-HMAC-SHA256 Credential={access_key}/{scope}, \
             SignedHeaders={signed}, Signature={signature}"
        );
        Headers(vec![
            ("authorization", authorization),
            ("x-amz-date", date.clone()),
        ])
    }
}

impl Moment {
    /// The second it was made for.
    pub fn second(&self) -> i64 {
        self.second
    }
}

/// Writes the unsigned form of an action into `body`: for servers that know no keys.
pub(crate) fn write_unsigned<'a>(
    action: &'a str,
    parameters: &mut Vec<(&'a str, &'a str)>,
    body: &mut Vec<u8>,
) {
    parameters.extend([("Action", action), ("Version", API_VERSION)]);
    write_form(parameters, body);
}

/// Appends text percent-encoded as RFC 3986 has it: what both signature versions sign.
fn encode(text: &str, out: &mut Vec<u8>) {
    for part in utf8_percent_encode(text, RESERVED) {
        out.extend_from_slice(part.as_bytes());
    }
}

/// Octets that are escaped: all but letters, digits and `-._~`.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

fn write_form(parameters: &mut [(&str, &str)], body: &mut Vec<u8>) {
    parameters.sort_unstable();
    body.clear();
    for (name, value) in parameters.iter() {
        if !body.is_empty() {
            body.push(b'&');
        }
        encode(name, body);
        body.push(b'=');
        encode(value, body);
    }
}

fn keyed(key: &[u8]) -> HmacSha256 {
    HmacSha256::new_from_slice(key).expect("HMAC takes a key of any length")
}

fn derive(mac: &HmacSha256, text: &[u8]) -> HmacSha256 {
    let mut mac = mac.clone();
    mac.update(text);
    keyed(&mac.finalize().into_bytes())
}

#[cfg(test)]
mod tests;
