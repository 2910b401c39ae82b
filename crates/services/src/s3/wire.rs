//! The bytes of S3's requests, replies and refusals between nodes, and of kept outcomes.

use fader_chain::{DecodeError, Reader};

use crate::Reason;
use crate::forward::wire::{Wire, put_choice};
use crate::s3::command::{
    Command, CompleteUpload, CreateBucket, CreateUpload, DeleteObject, DeleteObjects, Deletion,
    DropGarbage, Extent, Fence, GetObject, HeadBucket, List, ListBuckets, ListGarbage, ListParts,
    ListedPart, MoveNote, Named, OneSetting, OneUpload, Owner, PutObject, PutObjectAcl,
    PutObjectTags, PutPart, PutSetting, Request,
};
use crate::s3::conditions::{DeleteConditions, Etags, ReadConditions, WriteConditions};
use crate::s3::error::{Code, Condition, Error};
use crate::s3::reply::{
    Buckets, Deleted, Entry, Expiry, Fenced, Found, Garbage, Page, Parts, Piece, Pieces, Put, Reply,
};
use crate::s3::rows::GarbageId;
use crate::s3::settings::{Setting, SettingName};
use crate::sqs::{wire_choice, wire_fields};

wire_fields!(Request {
    seed,
    caller,
    command
});
wire_choice!(Command, "a request about buckets", {
    0 => CreateBucket(it), 1 => HeadBucket(it), 2 => DeleteBucket(it), 3 => ListBuckets(it),
    4 => PutSetting(it), 5 => GetSetting(it), 6 => DeleteSetting(it), 7 => PutObject(it),
    8 => GetObject(it), 9 => DeleteObject(it), 10 => DeleteObjects(it), 11 => PutObjectTags(it),
    12 => CreateUpload(it), 13 => PutPart(it), 14 => CompleteUpload(it), 15 => AbortUpload(it),
    16 => ListParts(it), 17 => ListUploads(it), 18 => ListObjects(it), 19 => ListVersions(it),
    20 => Fence(it), 21 => MoveNote(it), 22 => ListGarbage(it), 23 => DropGarbage(it),
    24 => PutObjectAcl(it), 25 => EndAttempt(it), 26 => CloseAttempt(it),
});
wire_fields!(CreateBucket {
    bucket,
    region,
    ownership,
    acl,
    mode,
});
wire_fields!(HeadBucket {
    bucket,
    action,
    key
});
wire_fields!(Named { bucket });
wire_fields!(ListBuckets {
    prefix,
    after,
    count
});
wire_fields!(PutSetting { bucket, setting });
wire_fields!(OneSetting { bucket, name });
wire_fields!(PutObject {
    bucket,
    key,
    attempt,
    content,
    etag,
    checksum,
    metadata,
    acl,
    conditions,
});
wire_fields!(GetObject {
    bucket,
    key,
    version,
    conditions,
    extent,
    action
});
wire_fields!(DeleteObject { bucket, object });
wire_fields!(Deletion {
    key,
    version,
    conditions
});
wire_fields!(DeleteObjects { bucket, objects });
wire_fields!(PutObjectTags {
    bucket,
    key,
    version,
    tags
});
wire_fields!(PutObjectAcl {
    bucket,
    key,
    version,
    acl
});
wire_fields!(CreateUpload {
    bucket,
    key,
    metadata,
    acl,
    algorithm
});
wire_fields!(OneUpload {
    bucket,
    key,
    upload
});
wire_fields!(PutPart {
    of,
    number,
    attempt,
    content,
    etag,
    checksum
});
wire_fields!(ListedPart {
    number,
    etag,
    checksum
});
wire_fields!(CompleteUpload {
    of,
    parts,
    checksum,
    size,
    conditions
});
wire_fields!(ListParts { of, after, count });
wire_fields!(List {
    bucket,
    prefix,
    delimiter,
    after,
    after_id,
    count
});
wire_fields!(Owner {
    collection,
    attempt,
    upload
});
wire_fields!(Fence { owner, block });
wire_fields!(MoveNote { collection, note });
wire_fields!(ListGarbage {
    collection,
    after,
    count
});
wire_fields!(DropGarbage {
    collection,
    bucket,
    garbage,
    parts
});
wire_choice!(GarbageId, "what garbage is", { 0 => Attempt(it), 1 => Upload(it) });
wire_choice!(Etags, "ETags of a condition", { 0 => Any, 1 => Of(it) });
wire_fields!(ReadConditions {
    if_match,
    if_none_match,
    if_modified_since_ms,
    if_unmodified_since_ms,
});
wire_fields!(WriteConditions {
    if_match,
    if_none_match
});
wire_fields!(DeleteConditions {
    if_match,
    size,
    last_modified_ms
});
wire_choice!(Setting, "a setting of a bucket", {
    0 => Versioning(it), 1 => Tags(it), 2 => Policy(it), 3 => Acl(it), 4 => Ownership(it),
    5 => PublicAccess(it), 6 => Cors(it), 7 => Lifecycle(it),
});
wire_choice!(SettingName, "the name of a setting", {
    0 => Versioning, 1 => Tags, 2 => Policy, 3 => Acl, 4 => Ownership, 5 => PublicAccess,
    6 => Cors, 7 => Lifecycle,
});

impl Wire for Extent {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Extent::Nothing => out.push(0),
            Extent::From(from) => put_choice(out, 1, &[from]),
            Extent::Part(number, from) => put_choice(out, 2, &[number, from]),
            Extent::Parts(after, count) => put_choice(out, 3, &[after, count]),
        }
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(match reader.byte()? {
            0 => Extent::Nothing,
            1 => Extent::From(Wire::read(reader)?),
            2 => Extent::Part(Wire::read(reader)?, Wire::read(reader)?),
            3 => Extent::Parts(Wire::read(reader)?, Wire::read(reader)?),
            _ => return Err(DecodeError::new("which bytes of an object")),
        })
    }
}

wire_choice!(Reply, "a reply about buckets", {
    0 => Done, 1 => Bucket(it), 2 => Buckets(it), 3 => Setting(it), 4 => Put(it), 5 => Object(it),
    6 => Deleted(it), 7 => DeletedSeveral(it), 8 => Upload(it), 9 => Part(it), 10 => Parts(it),
    11 => Page(it), 12 => Fenced(it), 13 => Garbage(it), 14 => Ended(it),
});
wire_fields!(Buckets { buckets, next });
wire_fields!(Expiry { at_ms, rule });
wire_fields!(Put {
    version,
    etag,
    checksum,
    expiry,
});
wire_fields!(Found {
    version,
    is_versioned,
    extent,
    expiry,
});
wire_fields!(Pieces {
    part,
    sum,
    parts,
    next_part,
    at,
    pieces,
    next
});
wire_choice!(Piece, "a piece of an object", { 0 => Inline(it), 1 => Block(it) });
wire_fields!(Deleted { version, is_marker });
wire_fields!(Parts {
    upload,
    parts,
    next
});
wire_fields!(Page {
    entries,
    owner,
    next
});
wire_choice!(Fenced, "what a fence came to", { 0 => NoAnswer, 1 => Kept, 2 => Fenced });
wire_fields!(Garbage { id, blocks });

impl Wire for Entry {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Entry::Prefix(name) => put_choice(out, 0, &[name]),
            Entry::Version {
                key,
                version,
                is_latest,
            } => put_choice(out, 1, &[key, version, is_latest]),
            Entry::Upload { key, id, upload } => put_choice(out, 2, &[key, id, upload]),
        }
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(match reader.byte()? {
            0 => Entry::Prefix(Wire::read(reader)?),
            1 => Entry::Version {
                key: Wire::read(reader)?,
                version: Wire::read(reader)?,
                is_latest: Wire::read(reader)?,
            },
            2 => Entry::Upload {
                key: Wire::read(reader)?,
                id: Wire::read(reader)?,
                upload: Wire::read(reader)?,
            },
            _ => return Err(DecodeError::new("an entry of a page")),
        })
    }
}

/// The reason is that of the message ([`Reason::of`]), and from version 7 on stands beside it.
impl Wire for Error {
    fn put(&self, out: &mut Vec<u8>) {
        self.code.put(out);
        self.message.put(out);
        self.condition.put(out);
        self.marker.put(out);
        self.found.put(out);
    }

    fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        let (code, message): (Code, String) = Wire::read(reader)?;
        Ok(Error {
            reason: (code == Code::ServiceUnavailable).then(|| Reason::of(&message)),
            code,
            message,
            condition: Wire::read(reader)?,
            marker: Wire::read(reader)?,
            found: Wire::read(reader)?,
        })
    }
}

wire_choice!(Condition, "a condition", {
    0 => IfMatch, 1 => IfNoneMatch, 2 => IfModifiedSince, 3 => IfUnmodifiedSince,
    4 => IfMatchSize, 5 => IfMatchLastModified,
});
wire_choice!(Code, "the code of a refusal", {
    0 => AccessDenied, 1 => BucketAlreadyExists, 2 => BucketAlreadyOwnedByYou, 3 => BucketNotEmpty,
    4 => AccessControlListNotSupported, 5 => EntityTooLarge, 6 => EntityTooSmall,
    7 => InternalError, 8 => InvalidArgument, 9 => InvalidBucketName, 10 => InvalidBucketState,
    11 => InvalidPart, 12 => InvalidPartNumber, 13 => InvalidPartOrder, 14 => InvalidRequest,
    15 => InvalidTag, 16 => KeyTooLongError, 17 => MalformedPolicy, 18 => MalformedXML,
    19 => MetadataTooLarge, 20 => MethodNotAllowed, 21 => NoSuchBucket, 22 => NoSuchBucketPolicy,
    23 => NoSuchCORSConfiguration, 24 => NoSuchKey, 25 => NoSuchLifecycleConfiguration,
    26 => NoSuchPublicAccessBlockConfiguration, 27 => NoSuchTagSet, 28 => NoSuchUpload,
    29 => NoSuchVersion, 30 => NotModified, 31 => OwnershipControlsNotFoundError,
    32 => PreconditionFailed, 33 => ServiceUnavailable, 34 => TooManyBuckets, 35 => AttemptFenced,
    37 => MalformedACLError, 38 => InvalidBucketAclWithObjectOwnership,
    39 => InvalidBucketAclWithBlockPublicAccessError,
});
