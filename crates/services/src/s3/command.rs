//! What is asked of S3, and of the index of a bucket by those who keep its blocks.

use fader_chain::EntryId;

use crate::CollectionId;
use crate::catalog::AccountId;
use crate::policy::Principal;
use crate::s3::access::{Action, Caller};
use crate::s3::conditions::{DeleteConditions, ReadConditions, WriteConditions};
use crate::s3::rows::{
    Algorithm, Attempt, BucketId, Checksum, Content, GarbageId, Metadata, Pairs, VersionId,
};
use crate::s3::settings::{GivenAcl, Ownership, Setting, SettingName};

/// A request.
#[derive(Clone, Debug)]
pub struct Request {
    /// Random, drawn where the request arrived: ids of buckets, versions and uploads come from it.
    pub seed: u128,
    /// Who asks: the account of the context, or the anonymous principal.
    pub caller: Caller,
    /// What is asked.
    pub command: Command,
}

impl Request {
    /// One of an account, with all its rights.
    pub fn of(account: &AccountId, seed: u128, command: Command) -> Self {
        Request {
            seed,
            caller: Caller::of(Principal::Account(account.0.clone())),
            command,
        }
    }

    /// One of a node, about blocks and garbage.
    pub fn of_node(command: Command) -> Self {
        Request {
            seed: 0,
            caller: Caller::of(Principal::Anonymous),
            command,
        }
    }
}

/// What is asked.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "each is its structure")]
pub enum Command {
    CreateBucket(CreateBucket),
    HeadBucket(HeadBucket),
    DeleteBucket(Named),
    ListBuckets(ListBuckets),
    PutSetting(PutSetting),
    GetSetting(OneSetting),
    DeleteSetting(OneSetting),
    PutObject(Box<PutObject>),
    GetObject(GetObject),
    DeleteObject(DeleteObject),
    DeleteObjects(DeleteObjects),
    PutObjectTags(PutObjectTags),
    PutObjectAcl(PutObjectAcl),
    CreateUpload(CreateUpload),
    PutPart(PutPart),
    CompleteUpload(CompleteUpload),
    AbortUpload(OneUpload),
    ListParts(ListParts),
    ListUploads(List),
    ListObjects(List),
    ListVersions(List),
    Fence(Fence),
    MoveNote(MoveNote),
    ListGarbage(ListGarbage),
    DropGarbage(DropGarbage),
    EndAttempt(Fence),
    CloseAttempt(Fence),
}

impl Command {
    /// Whether it may change state.
    pub fn is_write(&self) -> bool {
        !matches!(
            self,
            Command::HeadBucket(_)
                | Command::ListBuckets(_)
                | Command::GetSetting(_)
                | Command::GetObject(_)
                | Command::ListParts(_)
                | Command::ListUploads(_)
                | Command::ListObjects(_)
                | Command::ListVersions(_)
                | Command::ListGarbage(_)
        )
    }

    /// Whether it adds bytes to the index of a bucket. What names blocks adds few: their bytes are
    /// stored before. Settings do not count either, for rules of a lifecycle make room.
    pub fn adds_bytes(&self) -> bool {
        match self {
            Command::PutObject(it) => matches!(it.content, Content::Inline(_)),
            Command::PutPart(it) => matches!(it.content, Content::Inline(_)),
            Command::PutObjectTags(it) => !it.tags.is_empty(),
            Command::CreateBucket(_) | Command::PutObjectAcl(_) | Command::CreateUpload(_) => true,
            _ => false,
        }
    }

    /// The bucket that it names.
    pub fn bucket(&self) -> Option<&str> {
        Some(match self {
            Command::CreateBucket(it) => &it.bucket,
            Command::HeadBucket(it) => &it.bucket,
            Command::DeleteBucket(it) => &it.bucket,
            Command::PutSetting(it) => &it.bucket,
            Command::GetSetting(it) | Command::DeleteSetting(it) => &it.bucket,
            Command::PutObject(it) => &it.bucket,
            Command::GetObject(it) => &it.bucket,
            Command::DeleteObject(it) => &it.bucket,
            Command::DeleteObjects(it) => &it.bucket,
            Command::PutObjectTags(it) => &it.bucket,
            Command::PutObjectAcl(it) => &it.bucket,
            Command::CreateUpload(it) => &it.bucket,
            Command::PutPart(it) => &it.of.bucket,
            Command::CompleteUpload(it) => &it.of.bucket,
            Command::AbortUpload(it) => &it.bucket,
            Command::ListParts(it) => &it.of.bucket,
            Command::ListUploads(it) | Command::ListObjects(it) | Command::ListVersions(it) => {
                &it.bucket
            }
            Command::ListBuckets(_)
            | Command::Fence(_)
            | Command::EndAttempt(_)
            | Command::CloseAttempt(_)
            | Command::MoveNote(_)
            | Command::ListGarbage(_)
            | Command::DropGarbage(_) => return None,
        })
    }
}

/// Creates a bucket.
#[derive(Clone, Debug, Default)]
pub struct CreateBucket {
    /// Its name.
    pub bucket: String,
    /// Where it is to be.
    pub region: String,
    /// Who owns its objects; a limit says unless said.
    pub ownership: Option<Ownership>,
    /// Its ACL; the private one unless said.
    pub acl: Option<GivenAcl>,
    /// The byte of its mode; strong unless said.
    pub mode: Option<u8>,
}

/// Tells what is set on a bucket, to one who may do something there.
#[derive(Clone, Debug)]
pub struct HeadBucket {
    /// The bucket.
    pub bucket: String,
    /// What.
    pub action: Action,
    /// At which key; none: with the bucket.
    pub key: Option<String>,
}

/// A bucket by its name.
#[derive(Clone, Debug)]
pub struct Named {
    /// Its name.
    pub bucket: String,
}

/// Lists the buckets of the account.
#[derive(Clone, Debug, Default)]
pub struct ListBuckets {
    /// Their names begin so.
    pub prefix: String,
    /// They come after this name.
    pub after: Option<String>,
    /// Buckets of one page.
    pub count: Option<usize>,
}

/// Changes a setting.
#[derive(Clone, Debug)]
pub struct PutSetting {
    /// The bucket.
    pub bucket: String,
    /// What it becomes.
    pub setting: Setting,
}

/// One setting of a bucket.
#[derive(Clone, Debug)]
pub struct OneSetting {
    /// The bucket.
    pub bucket: String,
    /// Which.
    pub name: SettingName,
}

/// Commits an object. Its bytes are stored: in blocks whose rows are committed, or in the request.
#[derive(Clone, Debug)]
pub struct PutObject {
    /// The bucket.
    pub bucket: String,
    /// The key.
    pub key: String,
    /// The attempt that stored the bytes.
    pub attempt: Attempt,
    /// The bytes, or where they are.
    pub content: Content,
    /// Without quotes.
    pub etag: String,
    /// A checksum that was verified.
    pub checksum: Option<Checksum>,
    /// What is stored beside them.
    pub metadata: Metadata,
    /// Its ACL.
    pub acl: Option<GivenAcl>,
    /// What must hold.
    pub conditions: WriteConditions,
}

/// Which bytes of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// None: what is known of it.
    Nothing,
    /// From this byte on, as many as one reply names.
    From(u64),
    /// Those of a part, from this byte of it on.
    Part(u32, u64),
    /// None, but the parts of a multipart upload after this number, so many at most.
    Parts(u32, u32),
}

/// Reads an object.
#[derive(Clone, Debug)]
pub struct GetObject {
    /// The bucket.
    pub bucket: String,
    /// The key.
    pub key: String,
    /// The version; the current one if none.
    pub version: Option<VersionId>,
    /// What must hold.
    pub conditions: ReadConditions,
    /// Which bytes.
    pub extent: Extent,
    /// What it is read for, as of the current version.
    pub action: Action,
}

/// Deletes an object, or a version of it.
#[derive(Clone, Debug)]
pub struct DeleteObject {
    /// The bucket.
    pub bucket: String,
    /// What is deleted.
    pub object: Deletion,
}

/// What is deleted.
#[derive(Clone, Debug, Default)]
pub struct Deletion {
    /// The key.
    pub key: String,
    /// The version; none: the key gets a delete marker where versions are kept.
    pub version: Option<VersionId>,
    /// What must hold.
    pub conditions: DeleteConditions,
}

/// Deletes several objects, in order.
#[derive(Clone, Debug)]
pub struct DeleteObjects {
    /// The bucket.
    pub bucket: String,
    /// What is deleted.
    pub objects: Vec<Deletion>,
}

/// Gives a version other tags.
#[derive(Clone, Debug)]
pub struct PutObjectTags {
    /// The bucket.
    pub bucket: String,
    /// The key.
    pub key: String,
    /// The version; the current one if none.
    pub version: Option<VersionId>,
    /// All of its tags.
    pub tags: Pairs,
}

/// Gives a version another ACL.
#[derive(Clone, Debug)]
pub struct PutObjectAcl {
    /// The bucket.
    pub bucket: String,
    /// The key.
    pub key: String,
    /// The version; the current one if none.
    pub version: Option<VersionId>,
    /// The ACL.
    pub acl: GivenAcl,
}

/// Opens a multipart upload.
#[derive(Clone, Debug)]
pub struct CreateUpload {
    /// The bucket.
    pub bucket: String,
    /// The key.
    pub key: String,
    /// What its object gets.
    pub metadata: Metadata,
    /// The ACL of its object.
    pub acl: Option<GivenAcl>,
    /// The algorithm of its checksums, and whether that of the object is of the whole.
    pub algorithm: Option<(Algorithm, bool)>,
}

/// An upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OneUpload {
    /// The bucket.
    pub bucket: String,
    /// The key.
    pub key: String,
    /// The upload's id.
    pub upload: u128,
}

/// Commits a part, whose bytes are stored.
#[derive(Clone, Debug)]
pub struct PutPart {
    /// Its upload.
    pub of: OneUpload,
    /// Its number, from 1.
    pub number: u32,
    /// The attempt that stored the bytes: not that of any other part or repetition.
    pub attempt: Attempt,
    /// The bytes, or where they are.
    pub content: Content,
    /// Without quotes.
    pub etag: String,
    /// A checksum that was verified.
    pub checksum: Option<Checksum>,
}

/// A part as the client lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedPart {
    /// Its number.
    pub number: u32,
    /// Without quotes.
    pub etag: String,
    /// Its checksum's value.
    pub checksum: Option<String>,
}

/// Makes an object of an upload.
#[derive(Clone, Debug)]
pub struct CompleteUpload {
    /// The upload.
    pub of: OneUpload,
    /// Its parts, in order.
    pub parts: Vec<ListedPart>,
    /// The checksum of the object, computed from those of the parts.
    pub checksum: Option<Checksum>,
    /// The size that the client declares.
    pub size: Option<u64>,
    /// What must hold.
    pub conditions: WriteConditions,
}

/// Lists the parts of an open upload.
#[derive(Clone, Debug)]
pub struct ListParts {
    /// The upload.
    pub of: OneUpload,
    /// They come after this one.
    pub after: u32,
    /// Parts of one page.
    pub count: Option<usize>,
}

/// Lists objects, versions or uploads.
#[derive(Clone, Debug, Default)]
pub struct List {
    /// The bucket.
    pub bucket: String,
    /// Keys begin so.
    pub prefix: String,
    /// Keys with this after the prefix are shown as one common prefix; none if empty.
    pub delimiter: String,
    /// Keys come after this one. One that ends a common prefix: they come after all of those.
    pub after: Option<String>,
    /// In a list of versions or uploads: of the key `after`, those that come after this id.
    pub after_id: Option<String>,
    /// Entries of one page.
    pub count: Option<usize>,
}

/// Who owns a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The collection of the bucket's index.
    pub collection: CollectionId,
    /// The attempt.
    pub attempt: Attempt,
    /// The upload that it is a part of.
    pub upload: Option<u128>,
}

/// Asks whether a block whose lease is over is still wanted, and fences its attempt if not. Of a
/// closed attempt it is asked last when all is settled that members held of it.
#[derive(Clone, Copy, Debug)]
pub struct Fence {
    /// Who owns the block.
    pub owner: Owner,
    /// The block.
    pub block: u128,
}

/// Ends fences: attempts that began at or below the note are refused from now on.
#[derive(Clone, Copy, Debug)]
pub struct MoveNote {
    /// The collection of the bucket's index.
    pub collection: CollectionId,
    /// The note: a commit that is older than every lease.
    pub note: EntryId,
}

/// Lists garbage, with the blocks that are to be removed.
#[derive(Clone, Copy, Debug)]
pub struct ListGarbage {
    /// The collection of the bucket's index.
    pub collection: CollectionId,
    /// It comes after this.
    pub after: Option<GarbageId>,
    /// Rows of garbage of one page.
    pub count: usize,
}

/// Says that the rows of the blocks of garbage are removed.
#[derive(Clone, Debug)]
pub struct DropGarbage {
    /// The collection of the bucket's index.
    pub collection: CollectionId,
    /// The bucket.
    pub bucket: BucketId,
    /// What is garbage.
    pub garbage: GarbageId,
    /// Of an upload: the parts whose blocks are gone.
    pub parts: Vec<u32>,
}
