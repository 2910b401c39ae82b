//! Replies and refusals of S3 as XML, in AWS's shapes.
//!
//! Deliberately absent: headers of replies (`reply`), settings (`settings`).

use std::fmt::Display;

use fader_services::s3::command::{List, ListParts};
use fader_services::s3::reply::{Buckets, Deleted, Entry, Page, Parts, Pieces, Put};
use fader_services::s3::rows::{Checksum, Object, State, Version};
use fader_services::s3::{Error, show_upload};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::percent;
use crate::s3::checksum;
use crate::s3::fault::Fault;
use crate::s3::xml::Writer;

/// A time as XML has it, from milliseconds since 1970.
pub(crate) fn time(at_ms: u64) -> String {
    let timestamp = i64::try_from(at_ms)
        .ok()
        .and_then(|ms| Timestamp::from_millisecond(ms).ok());
    let timestamp = timestamp.unwrap_or(Timestamp::UNIX_EPOCH);
    format!("{timestamp:.3}")
}

/// A time as headers have it, from milliseconds since 1970.
pub(crate) fn http_time(at_ms: u64) -> String {
    let timestamp = i64::try_from(at_ms / 1000)
        .ok()
        .and_then(|s| Timestamp::from_second(s).ok());
    let zoned = timestamp
        .unwrap_or(Timestamp::UNIX_EPOCH)
        .to_zoned(TimeZone::UTC);
    zoned.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}

/// An ETag in quotes.
pub(crate) fn quoted(etag: &str) -> String {
    format!("\"{etag}\"")
}

/// A refusal.
pub(crate) fn fault(fault: &Fault, resource: &str, request_id: &str) -> Vec<u8> {
    let mut writer = Writer::bare("Error");
    writer.text("Code", fault.code);
    writer.text("Message", &fault.message);
    for (name, value) in &fault.details {
        writer.text(name, value);
    }
    writer.text("Resource", resource);
    writer.text("RequestId", request_id);
    writer.done()
}

fn owner(writer: &mut Writer, name: &'static str, id: &str) {
    writer.begin(name);
    writer.text("ID", id);
    writer.text("DisplayName", id);
    writer.end();
}

/// A list of buckets.
pub(crate) fn buckets(account: &str, prefix: &str, page: &Buckets) -> Vec<u8> {
    let mut writer = Writer::new("ListAllMyBucketsResult");
    owner(&mut writer, "Owner", account);
    writer.begin("Buckets");
    for (name, settings) in &page.buckets {
        writer.begin("Bucket");
        writer.text("Name", name);
        if let Some(settings) = settings {
            writer.text("CreationDate", &time(settings.created_ms));
            writer.text("BucketRegion", &settings.region);
        }
        writer.end();
    }
    writer.end();
    writer.some("ContinuationToken", page.next.as_ref());
    if !prefix.is_empty() {
        writer.text("Prefix", prefix);
    }
    writer.done()
}

/// Where a bucket is: us-east-1 has no name, as ever.
pub(crate) fn location(region: &str) -> Vec<u8> {
    let mut writer = Writer::new("LocationConstraint");
    if region != "us-east-1" {
        writer.inside(region);
    }
    writer.done()
}

/// How a list shows keys and what else comes from clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Encoding {
    /// Whether they are encoded as in a URL.
    pub(crate) is_url: bool,
}

impl Encoding {
    fn text(self, writer: &mut Writer, name: &'static str, text: &str) {
        if !self.is_url {
            return writer.text(name, text);
        }
        let mut out = Vec::with_capacity(text.len());
        for (at, part) in text.split('/').enumerate() {
            if 0 < at {
                out.push(b'/');
            }
            percent::encode(part, &mut out);
        }
        writer.text(name, &String::from_utf8_lossy(&out));
    }

    fn tell(self, writer: &mut Writer) {
        if self.is_url {
            writer.text("EncodingType", "url");
        }
    }
}

/// What lists of objects have beside their entries.
pub(crate) struct Listing<'a> {
    /// The request.
    pub(crate) list: &'a List,
    /// Entries that were asked for.
    pub(crate) max_keys: usize,
    /// How keys are shown.
    pub(crate) encoding: Encoding,
    /// Whether owners are shown.
    pub(crate) has_owner: bool,
    /// Of version 2: the token of the request.
    pub(crate) token: Option<&'a str>,
    /// Of version 2: the key after which the list was to begin.
    pub(crate) start_after: Option<&'a str>,
}

/// A list of objects, version 1.
pub(crate) fn objects(listing: &Listing<'_>, page: &Page) -> Vec<u8> {
    let (list, encoding) = (listing.list, listing.encoding);
    let mut writer = Writer::new("ListBucketResult");
    writer.text("Name", &list.bucket);
    encoding.text(&mut writer, "Prefix", &list.prefix);
    encoding.text(
        &mut writer,
        "Marker",
        list.after.as_deref().unwrap_or_default(),
    );
    if let Some((next, _)) = page.next.as_ref().filter(|_| !list.delimiter.is_empty()) {
        encoding.text(&mut writer, "NextMarker", next);
    }
    writer.show("MaxKeys", listing.max_keys);
    if !list.delimiter.is_empty() {
        encoding.text(&mut writer, "Delimiter", &list.delimiter);
    }
    encoding.tell(&mut writer);
    writer.show("IsTruncated", page.next.is_some());
    contents(&mut writer, listing, page);
    writer.done()
}

/// A list of objects, version 2; `next` is the token of the next page.
pub(crate) fn objects_v2(listing: &Listing<'_>, page: &Page, next: Option<&str>) -> Vec<u8> {
    let (list, encoding) = (listing.list, listing.encoding);
    let mut writer = Writer::new("ListBucketResult");
    writer.text("Name", &list.bucket);
    encoding.text(&mut writer, "Prefix", &list.prefix);
    writer.some("ContinuationToken", listing.token);
    writer.some("NextContinuationToken", next);
    if let Some(after) = listing.start_after {
        encoding.text(&mut writer, "StartAfter", after);
    }
    writer.show("KeyCount", page.entries.len());
    writer.show("MaxKeys", listing.max_keys);
    if !list.delimiter.is_empty() {
        encoding.text(&mut writer, "Delimiter", &list.delimiter);
    }
    encoding.tell(&mut writer);
    writer.show("IsTruncated", page.next.is_some());
    contents(&mut writer, listing, page);
    writer.done()
}

fn contents(writer: &mut Writer, listing: &Listing<'_>, page: &Page) {
    for entry in &page.entries {
        let Entry::Version { key, version, .. } = entry else {
            continue;
        };
        let Some(object) = version.object() else {
            continue;
        };
        writer.begin("Contents");
        listing.encoding.text(writer, "Key", key);
        writer.text("LastModified", &time(version.modified_ms));
        about(writer, object);
        if listing.has_owner {
            owner(writer, "Owner", &object.owner);
        }
        writer.end();
    }
    prefixes(writer, listing.encoding, page);
}

/// What each list says of an object.
fn about(writer: &mut Writer, object: &Object) {
    writer.text("ETag", &quoted(&object.etag));
    if let Some(checksum) = &object.checksum {
        writer.text("ChecksumAlgorithm", checksum::name(checksum.algorithm));
        writer.text("ChecksumType", checksum::kind(checksum));
    }
    writer.show("Size", object.size);
    writer.text("StorageClass", "STANDARD");
}

fn prefixes(writer: &mut Writer, encoding: Encoding, page: &Page) {
    for entry in &page.entries {
        if let Entry::Prefix(prefix) = entry {
            writer.begin("CommonPrefixes");
            encoding.text(writer, "Prefix", prefix);
            writer.end();
        }
    }
}

/// A list of versions.
pub(crate) fn versions(listing: &Listing<'_>, page: &Page) -> Vec<u8> {
    let (list, encoding) = (listing.list, listing.encoding);
    let mut writer = Writer::new("ListVersionsResult");
    writer.text("Name", &list.bucket);
    encoding.text(&mut writer, "Prefix", &list.prefix);
    encoding.text(
        &mut writer,
        "KeyMarker",
        list.after.as_deref().unwrap_or_default(),
    );
    writer.text(
        "VersionIdMarker",
        list.after_id.as_deref().unwrap_or_default(),
    );
    if let Some((key, id)) = &page.next {
        encoding.text(&mut writer, "NextKeyMarker", key);
        writer.some("NextVersionIdMarker", id.as_ref());
    }
    writer.show("MaxKeys", listing.max_keys);
    if !list.delimiter.is_empty() {
        encoding.text(&mut writer, "Delimiter", &list.delimiter);
    }
    encoding.tell(&mut writer);
    writer.show("IsTruncated", page.next.is_some());
    for entry in &page.entries {
        if let Entry::Version {
            key,
            version,
            is_latest,
        } = entry
        {
            one_version(&mut writer, listing, &page.owner, key, version, *is_latest);
        }
    }
    prefixes(&mut writer, encoding, page);
    writer.done()
}

fn one_version(
    writer: &mut Writer,
    listing: &Listing<'_>,
    bucket_owner: &str,
    key: &str,
    version: &Version,
    is_latest: bool,
) {
    let is_marker = version.state == State::Marker;
    writer.begin(if is_marker { "DeleteMarker" } else { "Version" });
    listing.encoding.text(writer, "Key", key);
    writer.show("VersionId", version.id);
    writer.show("IsLatest", is_latest);
    writer.text("LastModified", &time(version.modified_ms));
    let mut id = bucket_owner;
    if let State::Object(object) = &version.state {
        about(writer, object);
        id = &object.owner;
    }
    owner(writer, "Owner", id);
    writer.end();
}

/// A list of open uploads.
pub(crate) fn uploads(listing: &Listing<'_>, page: &Page) -> Vec<u8> {
    let (list, encoding) = (listing.list, listing.encoding);
    let mut writer = Writer::new("ListMultipartUploadsResult");
    writer.text("Bucket", &list.bucket);
    encoding.text(
        &mut writer,
        "KeyMarker",
        list.after.as_deref().unwrap_or_default(),
    );
    writer.text(
        "UploadIdMarker",
        list.after_id.as_deref().unwrap_or_default(),
    );
    if let Some((key, id)) = &page.next {
        encoding.text(&mut writer, "NextKeyMarker", key);
        writer.some("NextUploadIdMarker", id.as_ref());
    }
    encoding.text(&mut writer, "Prefix", &list.prefix);
    if !list.delimiter.is_empty() {
        encoding.text(&mut writer, "Delimiter", &list.delimiter);
    }
    writer.show("MaxUploads", listing.max_keys);
    encoding.tell(&mut writer);
    writer.show("IsTruncated", page.next.is_some());
    for entry in &page.entries {
        let Entry::Upload { key, id, upload } = entry else {
            continue;
        };
        writer.begin("Upload");
        encoding.text(&mut writer, "Key", key);
        writer.text("UploadId", &show_upload(*id));
        owner(&mut writer, "Initiator", &upload.initiator);
        owner(&mut writer, "Owner", &upload.owner);
        writer.text("StorageClass", "STANDARD");
        writer.text("Initiated", &time(upload.initiated_ms));
        algorithm(&mut writer, upload.algorithm);
        writer.end();
    }
    prefixes(&mut writer, encoding, page);
    writer.done()
}

fn algorithm(writer: &mut Writer, algorithm: Option<(fader_services::s3::rows::Algorithm, bool)>) {
    if let Some((algorithm, is_whole)) = algorithm {
        writer.text("ChecksumAlgorithm", checksum::name(algorithm));
        writer.text(
            "ChecksumType",
            if is_whole { "FULL_OBJECT" } else { "COMPOSITE" },
        );
    }
}

/// A list of the parts of an upload.
pub(crate) fn parts(
    asked: &ListParts,
    max_parts: usize,
    encoding: Encoding,
    parts: &Parts,
) -> Vec<u8> {
    let mut writer = Writer::new("ListPartsResult");
    writer.text("Bucket", &asked.of.bucket);
    encoding.text(&mut writer, "Key", &asked.of.key);
    writer.text("UploadId", &show_upload(asked.of.upload));
    owner(&mut writer, "Initiator", &parts.upload.initiator);
    owner(&mut writer, "Owner", &parts.upload.owner);
    writer.text("StorageClass", "STANDARD");
    writer.show("PartNumberMarker", asked.after);
    let last = parts.parts.last().map_or(0, |(number, _)| *number);
    writer.show("NextPartNumberMarker", parts.next.unwrap_or(last));
    writer.show("MaxParts", max_parts);
    encoding.tell(&mut writer);
    writer.show("IsTruncated", parts.next.is_some());
    algorithm(&mut writer, parts.upload.algorithm);
    for (number, part) in &parts.parts {
        writer.begin("Part");
        writer.show("PartNumber", number);
        writer.text("LastModified", &time(part.modified_ms));
        writer.text("ETag", &quoted(&part.etag));
        if let Some(checksum) = &part.checksum {
            writer.text(checksum::element(checksum.algorithm), &checksum.value);
        }
        writer.show("Size", part.size);
        writer.end();
    }
    writer.done()
}

/// An upload was opened.
pub(crate) fn upload(bucket: &str, key: &str, id: u128) -> Vec<u8> {
    let mut writer = Writer::new("InitiateMultipartUploadResult");
    writer.text("Bucket", bucket);
    writer.text("Key", key);
    writer.text("UploadId", &show_upload(id));
    writer.done()
}

fn checksum_of(writer: &mut Writer, checksum: Option<&Checksum>, with_kind: bool) {
    if let Some(checksum) = checksum {
        writer.text(checksum::element(checksum.algorithm), &checksum.value);
        if with_kind {
            writer.text("ChecksumType", checksum::kind(checksum));
        }
    }
}

/// An upload was completed.
pub(crate) fn completed(location: &str, bucket: &str, key: &str, put: &Put) -> Vec<u8> {
    let mut writer = Writer::new("CompleteMultipartUploadResult");
    writer.text("Location", location);
    writer.text("Bucket", bucket);
    writer.text("Key", key);
    writer.text("ETag", &quoted(&put.etag));
    checksum_of(&mut writer, put.checksum.as_ref(), true);
    writer.done()
}

/// A copy was made; `root` is the element's name.
pub(crate) fn copied(
    root: &'static str,
    etag: &str,
    checksum: Option<&Checksum>,
    at_ms: u64,
) -> Vec<u8> {
    let mut writer = Writer::new(root);
    writer.text("LastModified", &time(at_ms));
    writer.text("ETag", &quoted(etag));
    checksum_of(&mut writer, checksum, root == "CopyObjectResult");
    writer.done()
}

/// A form was taken.
pub(crate) fn posted(location: &str, bucket: &str, key: &str, etag: &str) -> Vec<u8> {
    let mut writer = Writer::bare("PostResponse");
    writer.text("Location", location);
    writer.text("Bucket", bucket);
    writer.text("Key", key);
    writer.text("ETag", &quoted(etag));
    writer.done()
}

/// Several objects were deleted; `asked` names them and, where one was named, their versions.
pub(crate) fn deleted(
    asked: &[(String, Option<String>)],
    outcomes: &[Result<Deleted, Error>],
    is_quiet: bool,
) -> Vec<u8> {
    let mut writer = Writer::new("DeleteResult");
    for ((key, version), outcome) in asked.iter().zip(outcomes) {
        match outcome {
            Ok(_) if is_quiet => {}
            Ok(deleted) => {
                writer.begin("Deleted");
                writer.text("Key", key);
                writer.some("VersionId", version.as_ref());
                if deleted.is_marker {
                    writer.text("DeleteMarker", "true");
                    writer.some("DeleteMarkerVersionId", deleted.version);
                }
                writer.end();
            }
            Err(error) => {
                writer.begin("Error");
                writer.text("Key", key);
                writer.some("VersionId", version.as_ref());
                writer.text("Code", error.code.name());
                writer.text("Message", &error.message);
                writer.end();
            }
        }
    }
    writer.done()
}

/// Attributes of an object: those that were asked for.
pub(crate) fn attributes(
    object: &Object,
    found: &Pieces,
    after: u32,
    most: u32,
    has: impl Fn(&str) -> bool,
) -> Vec<u8> {
    let mut writer = Writer::new("GetObjectAttributesResponse");
    if has("ETag") {
        writer.text("ETag", &object.etag);
    }
    if let Some(checksum) = object.checksum.as_ref().filter(|_| has("Checksum")) {
        writer.begin("Checksum");
        checksum_of(&mut writer, Some(checksum), true);
        writer.end();
    }
    if has("ObjectParts") && 0 < object.parts {
        writer.begin("ObjectParts");
        writer.show("PartsCount", object.parts);
        writer.show("PartNumberMarker", after);
        let last = found.parts.last().map_or(after, |(number, _)| *number);
        writer.show("NextPartNumberMarker", last);
        writer.show("MaxParts", most);
        writer.show("IsTruncated", found.next_part.is_some());
        for (number, part) in &found.parts {
            writer.begin("Part");
            writer.show("PartNumber", number);
            writer.show("Size", part.size);
            let of_all = object.checksum.as_ref().map(|it| it.algorithm);
            let sum = part.checksum.as_ref();
            if let Some(checksum) = sum.filter(|it| Some(it.algorithm) == of_all) {
                writer.text(checksum::element(checksum.algorithm), &checksum.value);
            }
            writer.end();
        }
        writer.end();
    }
    if has("StorageClass") {
        writer.text("StorageClass", "STANDARD");
    }
    if has("ObjectSize") {
        writer.show("ObjectSize", object.size);
    }
    writer.done()
}

/// A document with one element that shows itself.
pub(crate) fn one(root: &'static str, name: &'static str, value: impl Display) -> Vec<u8> {
    let mut writer = Writer::new(root);
    writer.show(name, value);
    writer.done()
}

/// A document without anything in it.
pub(crate) fn empty(root: &'static str) -> Vec<u8> {
    Writer::new(root).done()
}

#[cfg(test)]
mod tests;
