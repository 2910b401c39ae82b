//! Headers of replies about an object.

use fader_services::policy::Principal;
use fader_services::s3::reply::{Expiry, Found, Put};
use fader_services::s3::rows::Checksum;
use hyper::Response;
use hyper::header::{ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, ETAG, LAST_MODIFIED};

use super::{Asked, set};
use crate::outgoing::Outgoing;
use crate::percent;
use crate::s3::fault::{Fault, invalid_request};
use crate::s3::{checksum, render};

/// Parameters that replace headers of the reply.
const OVERRIDES: [(&str, &str); 6] = [
    ("response-cache-control", "cache-control"),
    ("response-content-disposition", "content-disposition"),
    ("response-content-encoding", "content-encoding"),
    ("response-content-language", "content-language"),
    ("response-content-type", "content-type"),
    ("response-expires", "expires"),
];

/// What is sent of an object.
pub(super) struct Part {
    /// The bytes: from the first to behind the last.
    pub(super) start: u64,
    /// Where they end.
    pub(super) end: u64,
    /// Whether they were asked for as a part of the whole.
    pub(super) is_partial: bool,
    /// Whether a number of a multipart upload asked for them.
    pub(super) is_numbered: bool,
}

impl Asked<'_> {
    /// Refuses headers of the reply that an unsigned request chooses: what is public for all would
    /// be a page of the link's author.
    pub(super) fn check_overrides(&self) -> Result<(), Fault> {
        let has = |(name, _): &(&str, &str)| self.parameters.get(name).is_some();
        match self.by.caller.principal == Principal::Anonymous && OVERRIDES.iter().any(has) {
            true => Err(invalid_request(
                "Request specific response headers cannot be used for anonymous GET requests.",
            )),
            false => Ok(()),
        }
    }

    /// Tells what is known of an object.
    pub(super) fn tell_object(
        &self,
        response: &mut Response<Outgoing>,
        found: &Found,
        part: &Part,
    ) -> Result<(), Fault> {
        let Some(object) = found.object() else {
            return Ok(());
        };
        set(response, ACCEPT_RANGES, "bytes");
        set(response, ETAG, &render::quoted(&object.etag));
        set(
            response,
            LAST_MODIFIED,
            &render::http_time(found.version.modified_ms),
        );
        for (name, value) in &object.metadata.headers {
            if let Ok(name) = hyper::header::HeaderName::from_bytes(name.as_bytes()) {
                set(response, name, value);
            }
        }
        for (parameter, header) in OVERRIDES {
            if let Some(value) = self.parameters.get(parameter) {
                set(response, header, value);
            }
        }
        for (name, value) in &object.metadata.user {
            let name = format!("x-amz-meta-{name}");
            if let Ok(name) = hyper::header::HeaderName::from_bytes(name.as_bytes()) {
                set(response, name, value);
            }
        }
        if !object.metadata.tags.is_empty() {
            let count = object.metadata.tags.len();
            set(response, "x-amz-tagging-count", &count.to_string());
        }
        if found.is_versioned {
            set(response, "x-amz-version-id", &found.version.id.to_string());
        }
        tell_expiry(response, found.expiry.as_ref());
        if part.is_numbered && 0 < object.parts {
            set(response, "x-amz-mp-parts-count", &object.parts.to_string());
        }
        if part.is_partial {
            let last = part.end.saturating_sub(1);
            let range = format!("bytes {}-{last}/{}", part.start, object.size);
            set(response, CONTENT_RANGE, &range);
        }
        let of_part = found.extent.sum.as_ref().filter(|_| part.is_numbered);
        if let Some(sum) = of_part {
            if self.wants_checksum()? && object.checksum.is_some() {
                tell_checksum(response, Some(sum));
                let of_all = object.checksum.as_ref().map(checksum::kind);
                set(response, "x-amz-checksum-type", of_all.unwrap_or_default());
            }
        } else if !part.is_partial && self.wants_checksum()? {
            tell_checksum(response, object.checksum.as_ref());
        }
        set(
            response,
            CONTENT_LENGTH,
            &(part.end - part.start).to_string(),
        );
        Ok(())
    }

    fn wants_checksum(&self) -> Result<bool, Fault> {
        let mode = self.header("x-amz-checksum-mode")?;
        let mode = mode.or(self.parameters.get("x-amz-checksum-mode"));
        Ok(mode.is_some_and(|mode| mode.eq_ignore_ascii_case("ENABLED")))
    }
}

/// Tells what was committed.
pub(super) fn tell_put(response: &mut Response<Outgoing>, put: &Put) {
    set(response, ETAG, &render::quoted(&put.etag));
    tell_checksum(response, put.checksum.as_ref());
    if let Some(version) = put.version {
        set(response, "x-amz-version-id", &version.to_string());
    }
    tell_expiry(response, put.expiry.as_ref());
}

/// Tells when a rule of the lifecycle ends an object.
pub(super) fn tell_expiry(response: &mut Response<Outgoing>, expiry: Option<&Expiry>) {
    if let Some(expiry) = expiry {
        let rule: Vec<u8> = percent::encoded(&expiry.rule).collect();
        let rule = String::from_utf8_lossy(&rule);
        let date = render::http_time(expiry.at_ms);
        let value = format!("expiry-date=\"{date}\", rule-id=\"{rule}\"");
        set(response, "x-amz-expiration", &value);
    }
}

/// Tells a checksum.
pub(super) fn tell_checksum(response: &mut Response<Outgoing>, checksum: Option<&Checksum>) {
    if let Some(checksum) = checksum {
        set(
            response,
            checksum::header(checksum.algorithm),
            &checksum.value,
        );
        set(response, "x-amz-checksum-type", checksum::kind(checksum));
    }
}
