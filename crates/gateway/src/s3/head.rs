//! What the head of a request to S3 says beside its place: metadata, conditions, ranges, sources.
//!
//! Deliberately absent: what hashes and checksums it names (`digest`), and who sent it.

use fader_services::s3::conditions::{DeleteConditions, Etags, ReadConditions, WriteConditions};
use fader_services::s3::rows::{Metadata, Pairs, VersionId};
use hyper::HeaderMap;

use crate::parameters::Parameters;
use crate::percent;
use crate::s3::fault::{self, Fault, invalid_argument};
use crate::s3::xml::Element;
use crate::signature::http_date;

/// Headers that are kept with an object and returned with it.
const KEPT: [&str; 6] = [
    "cache-control",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-type",
    "expires",
];
/// The type of an object that is put without one.
const CONTENT_TYPE: &str = "binary/octet-stream";
const USER: &str = "x-amz-meta-";
/// Headers of features that are left out.
const LEFT_OUT: [&str; 8] = [
    "x-amz-server-side-encryption",
    "x-amz-server-side-encryption-customer-algorithm",
    "x-amz-copy-source-server-side-encryption-customer-algorithm",
    "x-amz-object-lock-mode",
    "x-amz-object-lock-retain-until-date",
    "x-amz-object-lock-legal-hold",
    "x-amz-website-redirect-location",
    "x-amz-write-offset-bytes",
];

/// A header's text.
///
/// # Errors
/// InvalidArgument when it is no UTF-8.
pub(crate) fn text<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, Fault> {
    let value = headers.get(name).map(|it| it.as_bytes());
    let text = value.map(|value| {
        std::str::from_utf8(value)
            .map_err(|_| invalid_argument("The header is not UTF-8.", name, ""))
    });
    text.transpose()
}

/// Refuses headers of features that are left out.
///
/// # Errors
/// NotImplemented and InvalidStorageClass.
pub(crate) fn check_left_out(headers: &HeaderMap) -> Result<(), Fault> {
    if let Some(name) = LEFT_OUT.iter().find(|name| headers.contains_key(**name)) {
        return Err(fault::not_implemented(name));
    }
    match text(headers, "x-amz-storage-class")? {
        None | Some("STANDARD") => Ok(()),
        Some(_) => Err(Fault::new(
            "InvalidStorageClass",
            400,
            "The storage class you specified is not valid",
        )),
    }
}

/// What is stored beside the bytes of an object.
///
/// # Errors
/// Text that is no UTF-8, and tags that cannot be read.
pub(crate) fn metadata(headers: &HeaderMap) -> Result<Metadata, Fault> {
    let mut found = Metadata {
        tags: tags(headers)?,
        ..Metadata::default()
    };
    for name in KEPT {
        let Some(value) = text(headers, name)? else {
            continue;
        };
        let value = match name {
            "content-encoding" => without_chunks(value),
            _ => value.to_owned(),
        };
        if !value.is_empty() {
            found.headers.push((name.to_owned(), value));
        }
    }
    if !headers.contains_key("content-type") {
        let pair = ("content-type".to_owned(), CONTENT_TYPE.to_owned());
        found.headers.push(pair);
    }
    for name in headers.keys() {
        let Some(user) = name.as_str().strip_prefix(USER) else {
            continue;
        };
        let mut values = Vec::new();
        for value in headers.get_all(name) {
            let value = std::str::from_utf8(value.as_bytes())
                .map_err(|_| invalid_argument("Metadata is not UTF-8.", name.as_str(), ""))?;
            values.push(value.trim());
        }
        found.user.push((user.to_owned(), values.join(",")));
    }
    found.user.sort();
    Ok(found)
}

/// `Content-Encoding` without what says how the request was framed.
fn without_chunks(value: &str) -> String {
    let codings = value.split(',').map(str::trim);
    let kept: Vec<&str> = codings.filter(|it| *it != "aws-chunked").collect();
    kept.join(", ")
}

fn tags(headers: &HeaderMap) -> Result<Pairs, Fault> {
    match text(headers, "x-amz-tagging")? {
        Some(text) => read_tags(text),
        None => Ok(Pairs::new()),
    }
}

/// Tags as a query writes them.
///
/// # Errors
/// InvalidArgument.
pub(crate) fn read_tags(text: &str) -> Result<Pairs, Fault> {
    let invalid = || {
        let message = "The header 'x-amz-tagging' shall be encoded as UTF-8 then URLEncoded URL \
                       query parameters without tag name duplicates.";
        invalid_argument(message, "x-amz-tagging", text)
    };
    let mut tags = Pairs::new();
    for pair in text.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let decode = |raw: &str| percent::decode(raw).map(std::borrow::Cow::into_owned);
        let name = decode(name).map_err(|_| invalid())?;
        let value = decode(value).map_err(|_| invalid())?;
        if tags.iter().any(|(other, _)| *other == name) {
            return Err(invalid());
        }
        tags.push((name, value));
    }
    Ok(tags)
}

/// The version that a request names.
///
/// # Errors
/// InvalidArgument.
pub(crate) fn version(parameters: &Parameters<'_>) -> Result<Option<VersionId>, Fault> {
    parameters.get("versionId").map(read_version).transpose()
}

fn read_version(text: &str) -> Result<VersionId, Fault> {
    text.parse()
        .map_err(|_| invalid_argument("Invalid version id specified", "versionId", text))
}

fn etags(text: &str) -> Etags {
    if text.trim() == "*" {
        return Etags::Any;
    }
    let each = text.split(',').map(str::trim);
    let plain = each.map(|etag| etag.strip_prefix("W/").unwrap_or(etag).trim_matches('"'));
    Etags::Of(plain.map(str::to_owned).collect())
}

fn date_ms(text: &str) -> Option<u64> {
    let seconds = http_date(text)?;
    u64::try_from(seconds).ok()?.checked_mul(1000)
}

/// Conditions of a read; `prefix` is that of headers about the source of a copy. Dates that are
/// none are passed over, as HTTP says.
pub(crate) fn read_conditions(headers: &HeaderMap, prefix: &str) -> Result<ReadConditions, Fault> {
    let get = |name: &str| text(headers, &format!("{prefix}{name}"));
    Ok(ReadConditions {
        if_match: get("if-match")?.map(etags),
        if_none_match: get("if-none-match")?.map(etags),
        if_modified_since_ms: get("if-modified-since")?.and_then(date_ms),
        if_unmodified_since_ms: get("if-unmodified-since")?.and_then(date_ms),
    })
}

/// Whether a range counts for an object: without `If-Range`, or when that names the object, by its
/// ETag or its time. Else the object is sent whole.
///
/// # Errors
/// Text that is no UTF-8.
pub(crate) fn is_range_of(headers: &HeaderMap, etag: &str, at_ms: u64) -> Result<bool, Fault> {
    let Some(text) = text(headers, "if-range")?.map(str::trim) else {
        return Ok(true);
    };
    Ok(match date_ms(text) {
        Some(told_ms) => told_ms / 1000 == at_ms / 1000,
        None => text.trim_matches('"') == etag,
    })
}

/// Conditions of a write.
///
/// # Errors
/// NotImplemented for others than If-Match and If-None-Match: *.
pub(crate) fn write_conditions(headers: &HeaderMap) -> Result<WriteConditions, Fault> {
    let if_none_match = match text(headers, "if-none-match")?.map(str::trim) {
        None => false,
        Some("*") => true,
        Some(_) => {
            return Err(fault::not_implemented("If-None-Match").with("Header", "If-None-Match"));
        }
    };
    Ok(WriteConditions {
        if_match: text(headers, "if-match")?.map(etags),
        if_none_match,
    })
}

/// Conditions of a deletion.
///
/// # Errors
/// InvalidArgument.
pub(crate) fn delete_conditions(headers: &HeaderMap) -> Result<DeleteConditions, Fault> {
    const SIZE: &str = "x-amz-if-match-size";
    const TIME: &str = "x-amz-if-match-last-modified-time";
    let size = text(headers, SIZE)?.map(|size| {
        let invalid = |_| invalid_argument("The size is not a number.", SIZE, size);
        size.parse().map_err(invalid)
    });
    let time = text(headers, TIME)?.map(|time| {
        date_ms(time).ok_or_else(|| invalid_argument("The time is not a date.", TIME, time))
    });
    Ok(DeleteConditions {
        if_match: text(headers, "if-match")?.map(etags),
        size: size.transpose()?,
        last_modified_ms: time.transpose()?,
    })
}

/// The same of an object in a list of those that are deleted.
///
/// # Errors
/// MalformedXML.
pub(crate) fn conditions_of_element(object: &Element) -> Result<DeleteConditions, Fault> {
    let time = object.text_of("LastModifiedTime").map(str::trim);
    let time = time.map(|time| date_ms(time).ok_or_else(fault::malformed_xml));
    Ok(DeleteConditions {
        if_match: object.text_of("ETag").map(etags),
        size: object.parsed("Size")?,
        last_modified_ms: time.transpose()?,
    })
}

/// The bytes that a `Range` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Range {
    /// From the first to the last, both counted from 0.
    Between(u64, u64),
    /// From this one on.
    From(u64),
    /// So many at the end.
    Last(u64),
}

impl Range {
    /// Reads the header. Ranges of another unit, several and malformed ones are passed over, as
    /// HTTP says.
    pub(crate) fn read(text: &str) -> Option<Range> {
        let (first, last) = text.trim().strip_prefix("bytes=")?.split_once('-')?;
        let number = |text: &str| -> Option<u64> {
            let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            is_number.then(|| text.parse().unwrap_or(u64::MAX))
        };
        match (first.trim(), last.trim()) {
            ("", last) => number(last).map(Range::Last),
            (first, "") => number(first).map(Range::From),
            (first, last) => {
                let (first, last) = (number(first)?, number(last)?);
                (first <= last).then_some(Range::Between(first, last))
            }
        }
    }

    /// Where the bytes begin and end in an object of `size` bytes; `None` when it has none of them.
    pub(crate) fn within(self, size: u64) -> Option<(u64, u64)> {
        let (start, end) = match self {
            Range::Between(first, last) => (first, last.saturating_add(1).min(size)),
            Range::From(first) => (first, size),
            Range::Last(count) => (size.saturating_sub(count), size),
        };
        (start < end).then_some((start, end))
    }
}

/// The source of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CopySource {
    /// The bucket.
    pub(crate) bucket: String,
    /// The key.
    pub(crate) key: String,
    /// The version.
    pub(crate) version: Option<VersionId>,
}

impl CopySource {
    /// Reads `x-amz-copy-source`: `/bucket/key`, encoded, with `?versionId=` or without.
    ///
    /// # Errors
    /// InvalidArgument.
    pub(crate) fn read(text: &str) -> Result<CopySource, Fault> {
        const NAME: &str = "x-amz-copy-source";
        let invalid = || {
            let message =
                "Copy Source must mention the source bucket and key: sourcebucket/sourcekey";
            invalid_argument(message, NAME, text)
        };
        let (path, version) = match text.split_once("?versionId=") {
            Some((path, version)) => (path, Some(read_version(version)?)),
            None => (text, None),
        };
        let path = percent::decode_path(path).map_err(|_| invalid())?;
        let path = path.strip_prefix('/').unwrap_or(&path);
        let (bucket, key) = path.split_once('/').ok_or_else(invalid)?;
        if bucket.is_empty() || key.is_empty() {
            return Err(invalid());
        }
        Ok(CopySource {
            bucket: bucket.to_owned(),
            key: key.to_owned(),
            version,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_as_http_says() {
        for (text, range) in [
            ("bytes=0-0", Some(Range::Between(0, 0))),
            ("bytes=5-", Some(Range::From(5))),
            ("bytes=-7", Some(Range::Last(7))),
            ("bytes=5-4", None),
            ("bytes=a-b", None),
            ("bytes=0-1,3-4", None),
            ("items=0-1", None),
            ("bytes=--1", None),
            ("bytes=-", None),
            (
                "bytes=0-99999999999999999999",
                Some(Range::Between(0, u64::MAX)),
            ),
        ] {
            assert_eq!(Range::read(text), range, "{text}");
        }
        for (range, size, within) in [
            (Range::Between(0, 4), 10, Some((0, 5))),
            (Range::Between(8, u64::MAX), 10, Some((8, 10))),
            (Range::From(10), 10, None),
            (Range::Last(3), 10, Some((7, 10))),
            (Range::Last(30), 10, Some((0, 10))),
            (Range::Last(0), 10, None),
            (Range::Last(1), 0, None),
        ] {
            assert_eq!(range.within(size), within, "{range:?} of {size}");
        }
    }

    #[test]
    fn a_range_is_of_the_object_that_if_range_names() {
        let is_of = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("if-range", text.parse().expect("it is a value"));
            is_range_of(&headers, "5eb63b", 1_700_000_000_900).expect("it is text")
        };
        assert_eq!(is_range_of(&HeaderMap::new(), "", 0), Ok(true));
        for (text, told) in [
            ("\"5eb63b\"", true),
            ("\"5eb63c\"", false),
            ("W/\"5eb63b\"", false),
            ("*", false),
            ("Tue, 14 Nov 2023 22:13:20 GMT", true),
            ("Tue, 14 Nov 2023 22:13:21 GMT", false),
            ("Tue, 14 Nov 2023 22:13:19 GMT", false),
        ] {
            assert_eq!(is_of(text), told, "{text}");
        }
    }

    #[test]
    fn the_source_of_a_copy_is_a_bucket_and_a_key() {
        let read = |text| CopySource::read(text).map(|it| (it.bucket, it.key, it.version));
        let found = |bucket: &str, key: &str, version| Ok((bucket.into(), key.into(), version));
        assert_eq!(read("/b/a%20b+c/d"), found("b", "a b+c/d", None));
        assert_eq!(
            read("b/k?versionId=null"),
            found("b", "k", Some(VersionId::Null))
        );
        for text in ["b", "/b/", "//k", "b/%F", "b/k?versionId=x"] {
            assert_eq!(
                read(text).map_err(|it| it.code),
                Err("InvalidArgument"),
                "{text}"
            );
        }
    }

    #[test]
    fn metadata_is_what_headers_say() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("content-encoding", "aws-chunked, gzip"),
            ("x-amz-meta-b", " 2 "),
            ("x-amz-meta-a", "1"),
            ("x-amz-meta-a", "one"),
            ("x-amz-tagging", "k=v%26w&l="),
        ] {
            headers.append(name, value.parse().expect("it is a value"));
        }
        let found = metadata(&headers).expect("it is some");
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(found.user, [pair("a", "1,one"), pair("b", "2")]);
        assert_eq!(found.tags, [pair("k", "v&w"), pair("l", "")]);
        let kept = [
            pair("content-encoding", "gzip"),
            pair("content-type", CONTENT_TYPE),
        ];
        assert_eq!(found.headers, kept);
        assert!(read_tags("a=1&a=2").is_err());
    }
}
